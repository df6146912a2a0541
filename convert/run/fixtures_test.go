package run

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fixtures are the logs whose truth is known, with what their counts are.
var fixtures = []struct {
	name, truth string
	epoch       EpochSource // where not a file's or the reading's
	admitted    bool
	assumed     bool // no line tells which worker drives which device
	input       Input
}{
	{name: "standard", assumed: true, input: Input{Events: 30}},
	{name: "dual_worker", assumed: true, input: Input{Events: 300}},
	{name: "dual_worker_noisy", epoch: EpochEngineLog, admitted: true, input: Input{Events: 300, Timings: 50}},
	{name: "single_worker", epoch: EpochEngineLog, admitted: true, input: Input{Events: 300, Timings: 50}},
	{name: "few_workers", epoch: EpochEngineLog, admitted: true, input: Input{Events: 300, Timings: 50}},
	{name: "split", epoch: EpochEngineLog, admitted: true, input: Input{Events: 480, Timings: 80}},
	{name: "curio", epoch: EpochEngineLog, admitted: true, input: Input{Events: 360}},
	{name: "two_gpus", epoch: EpochEngineLog, admitted: true, input: Input{Events: 480}},
	{name: "failure", epoch: EpochEngineLog, admitted: true, input: Input{Events: 281, Inferred: 1}},
	{name: "snap", epoch: EpochEngineLog, admitted: true, input: Input{Events: 384, Timings: 64}},
	{name: "dirty_journald", truth: "dual_worker", epoch: EpochPrefix, assumed: true, input: Input{Events: 300}},
	{name: "dirty_cri", truth: "dual_worker", epoch: EpochPrefix, assumed: true, input: Input{Events: 300}},
	{name: "dirty_compose", truth: "dual_worker", assumed: true, input: Input{Events: 300}},
	{name: "dirty_torn", truth: "dual_worker", assumed: true, input: Input{Events: 300}},
	{name: "dirty_shuffled", truth: "dual_worker", assumed: true, input: Input{Events: 300}},
	{name: "dirty_crlf", truth: "dual_worker", assumed: true, input: Input{Events: 300}},
}

// prefixEpoch is the epoch of the captures' times in the fixtures.
var prefixEpoch = time.Date(2026, 2, 18, 12, 0, 0, 0, time.UTC)

// TestFixtures holds what is read from each fixture against what made it.
func TestFixtures(t *testing.T) {
	for _, f := range fixtures {
		t.Run(f.name, func(t *testing.T) {
			r := readText(t, Options{}, readFixture(t, f.name))
			name := f.truth
			if name == "" {
				name = f.name
			}
			tr := readTruth(t, name)
			compareToTruth(t, r, tr)

			in := r.Input
			in.Bytes, in.Lines, in.Stitched = 0, 0, 0
			if diff := cmp.Diff(f.input, in); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			text := readFixture(t, f.name)
			if r.Input.Bytes != int64(len(text)) || r.Input.Lines != int64(strings.Count(text, "\n")) {
				t.Errorf("%d bytes in %d lines read, of %d in %d", r.Input.Bytes, r.Input.Lines, len(text), strings.Count(text, "\n"))
			}
			if r.WorkersAssumed != f.assumed {
				t.Errorf("WorkersAssumed = %v", r.WorkersAssumed)
			}
			want := time.UnixMicro(tr.EpochUnix)
			switch f.epoch {
			case "":
				if r.Epoch.Source != EpochReadTime || r.Epoch.Uncertainty >= 0 {
					t.Errorf("epoch is %+v, without any clock", r.Epoch)
				}
				return
			case EpochPrefix:
				want = prefixEpoch
			}
			if off := r.Epoch.Time.Sub(want).Abs(); r.Epoch.Source != f.epoch || off > r.Epoch.Uncertainty+time.Millisecond || r.Epoch.Uncertainty > 100*time.Millisecond {
				t.Errorf("epoch is %+v, %v off", r.Epoch, off)
			}
			for i, s := range r.Sectors {
				switch {
				case !f.admitted && s.Admitted != Unknown:
					t.Errorf("sector %s was admitted at %d", s.Job, s.Admitted)
				case f.admitted && abs(s.Admitted-int64(*tr.Jobs[i].Admitted*1000)) > (r.Epoch.Uncertainty+time.Millisecond).Microseconds():
					t.Errorf("sector %s was admitted at %d µs, want %v ms", s.Job, s.Admitted, *tr.Jobs[i].Admitted)
				}
			}
		})
	}
}

// compareToTruth holds a run of a complete log against what made it.
func compareToTruth(t *testing.T, r *Run, tr truth) {
	t.Helper()
	if len(r.Sectors) != len(tr.Jobs) {
		t.Fatalf("%d sectors, want %d", len(r.Sectors), len(tr.Jobs))
	}
	for i, s := range r.Sectors {
		j := tr.Jobs[i]
		count := len(j.Partitions)
		if j.Partitions[0].Partition == nil {
			count = 0
		}
		if s.Job != j.Job || s.Count != count || s.Len() != len(j.Partitions) {
			t.Errorf("sector %d is %s of %d partitions, want %s of %d", i, s.Job, s.Count, j.Job, count)
			continue
		}
		state := Finished
		for k := range s.Len() {
			p, want := partitionAt(s, k), j.Partitions[k]
			times, ended := want.times(), Finished
			if want.Skipped {
				ended, state = Skipped, Failed
			} else if want.SynthFailed {
				ended, state = Failed, Failed
				// Only the line that tells of it gives this time.
				if !p.Inferred(SynthEnd) || abs(p.Times[SynthEnd]-times[SynthEnd]) > 2 {
					t.Errorf("%s/%d: its failure was at %d, want %d", s.Job, k, p.Times[SynthEnd], times[SynthEnd])
				}
				times[SynthEnd] = p.Times[SynthEnd]
			} else if p.inferred != 0 {
				t.Errorf("%s/%d has inferred times: %b", s.Job, k, p.inferred)
			}
			if diff := cmp.Diff(times, p.Times); diff != "" {
				t.Errorf("%s/%d: times (-want +got):\n%s", s.Job, k, diff)
			}
			if p.Index != want.index() || p.State != ended {
				t.Errorf("%s/%d is %d, %s, want %s", s.Job, k, p.Index, stateNames[p.State], stateNames[ended])
			}
			worker, gpu := Unknown, Unknown
			if want.Worker != nil {
				worker, gpu = *want.Worker, *want.GPU
			}
			if p.Worker != worker || p.Device != gpu {
				t.Errorf("%s/%d is by worker %d on device %d, want %d on %d", s.Job, k, p.Worker, p.Device, worker, gpu)
			}
			if want.GPUMS != nil && p.GPUMS != *want.GPUMS {
				t.Errorf("%s/%d: gpu_ms = %d, want %d", s.Job, k, p.GPUMS, *want.GPUMS)
			}
		}
		if s.State() != state {
			t.Errorf("%s is %s, want %s", s.Job, stateNames[s.State()], stateNames[state])
		}
		if reason, failed := s.Failed(); failed != (state == Failed) || failed && reason != "partition synthesis failed: unsatisfied-constraint" {
			t.Errorf("%s: failed %v: %q", s.Job, failed, reason)
		}
	}
}

// TestLossyFixtures holds what is left of a run after lines were lost: what
// lines tell is right, and what is inferred where it can be exact is too.
func TestLossyFixtures(t *testing.T) {
	for _, f := range []struct {
		name   string
		input  Input
		states map[State]int
	}{
		{
			name:   "dirty_binary",
			input:  Input{Events: 294, Inferred: 6},
			states: map[State]int{Finished: 50},
		},
		{
			name:   "dirty_dropped",
			input:  Input{Events: 281, Inferred: 19},
			states: map[State]int{Finished: 50},
		},
		{
			name:   "dirty_truncated",
			input:  Input{Events: 210, Malformed: 1},
			states: map[State]int{Finished: 30, Incomplete: 15},
		},
	} {
		t.Run(f.name, func(t *testing.T) {
			r := readText(t, Options{}, readFixture(t, f.name))
			states := make(map[State]int)
			byJob := make(map[string]truthJob)
			for _, j := range readTruth(t, "dual_worker").Jobs {
				byJob[j.Job] = j
			}
			for _, s := range r.Sectors {
				for p := range s.Partitions() {
					states[p.State]++
					want := byJob[s.Job].Partitions[p.Index].times()
					for b := range numBoundaries {
						switch {
						case !p.Known(b):
							if p.State == Finished {
								t.Errorf("%s/%d: boundary %d is not known", s.Job, p.Index, b)
							}
						case p.Inferred(b) && abs(p.Times[b]-want[b]) > 2, !p.Inferred(b) && p.Times[b] != want[b]:
							t.Errorf("%s/%d: boundary %d at %d, inferred %v, want %d", s.Job, p.Index, b, p.Times[b], p.Inferred(b), want[b])
						}
					}
				}
			}
			if diff := cmp.Diff(f.states, states); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
			in := r.Input
			in.Bytes, in.Lines, in.Stitched, in.Problems = 0, 0, 0, nil
			if diff := cmp.Diff(f.input, in); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFixtureOfTwoRuns reads a log to which a second run was appended.
func TestFixtureOfTwoRuns(t *testing.T) {
	runs := readAll(t, Options{}, fileSource(fixturePath("dirty_restart")))
	if len(runs) != 2 {
		t.Fatalf("%d runs, want 2", len(runs))
	}
	for _, s := range runs[1].Sectors {
		if s.Attempt > 1 { // the job ids are those of the first run
			s.Attempt--
		}
	}
	compareToTruth(t, runs[0], readTruth(t, "dual_worker"))
	compareToTruth(t, runs[1], readTruth(t, "split"))
	first, second := readFixture(t, "dual_worker"), readFixture(t, "dirty_restart")
	if got, want := runs[0].Input.Bytes+runs[1].Input.Bytes, int64(len(second)); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
	if runs[0].Input.Bytes != int64(len(first)) || runs[0].Input.Lines != 300 {
		t.Errorf("the first run has %d bytes in %d lines, want %d in 300", runs[0].Input.Bytes, runs[0].Input.Lines, len(first))
	}
	if runs[0].Name != "test.log" || runs[1].Name != "test.log#2" {
		t.Errorf("names are %q and %q", runs[0].Name, runs[1].Name)
	}
	if runs[1].Epoch.Source != EpochEngineLog || runs[0].Epoch.Source != EpochNextRun {
		t.Errorf("epochs are of %s and %s", runs[0].Epoch.Source, runs[1].Epoch.Source)
	}
}

// TestCapturesOfNoise reads the engine's lines and timings as captures print
// them.
func TestCapturesOfNoise(t *testing.T) {
	for _, name := range []string{"split", "failure", "dual_worker_noisy"} {
		text := readFixture(t, name)
		want := readText(t, Options{}, text)
		for _, capture := range []struct{ before, after string }{
			{"", "\r"},
			{"\x00\x00", ""},
			{"2026-02-18T12:00:01.500311000Z stderr F ", ""},
			{"cuzk-1  | ", "\r"},
			{"Feb 18 12:00:01 prover01 cuzk-daemon[4242]: ", ""},
		} {
			var b strings.Builder
			for line := range strings.Lines(text) {
				b.WriteString(capture.before + strings.TrimSuffix(line, "\n") + capture.after + "\n")
			}
			got := readText(t, Options{}, b.String())
			if diff := cmp.Diff(show(want), show(got)); diff != "" {
				t.Errorf("%s with %q (-want +got):\n%s", name, capture, diff)
			}
			if got.Epoch != want.Epoch || got.Input.Timings != want.Input.Timings || got.WorkersAssumed != want.WorkersAssumed {
				t.Errorf("%s with %q: %+v, %+v, want %+v, %+v", name, capture, got.Epoch, got.Input, want.Epoch, want.Input)
			}
			for i, s := range got.Sectors {
				if s.Admitted != want.Sectors[i].Admitted || s.Count != want.Sectors[i].Count {
					t.Errorf("%s with %q: %s was admitted at %d", name, capture, s.Job, s.Admitted)
				}
			}
		}
	}
}

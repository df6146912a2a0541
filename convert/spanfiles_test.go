package convert_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/provetrace/provetrace/convert"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
)

// A shownRun is what both a log and its spans carry of a run.
type shownRun struct {
	Name        string
	Epoch       run.Epoch
	First, Last int64
	Input       run.Input
	Assumed     bool // which worker drives which device
	Devices     []run.Device
	Sectors     []shownSector
}

type shownSector struct {
	Job, Kind      string
	Attempt, Count int
	Admitted       int64
	First          int64
	Extent         [2]int64
	State          run.State
	Reason         string
	Failed         bool
	Partitions     []shownPartition
}

type shownPartition struct {
	Index, Worker, Device int
	State                 run.State
	Times                 [6]int64
	Inferred              [6]bool
	SynthMS, GPUMS        int64
	Failure               string
	End                   int64
	Phases                []run.Phase
}

func showRun(r *run.Run) shownRun {
	x := shownRun{
		Name: r.Name, Epoch: r.Epoch, First: r.First, Last: r.Last,
		Input: r.Input, Assumed: r.WorkersAssumed, Devices: r.Devices,
	}
	in := &x.Input
	in.Bytes, in.Lines, in.Messages, in.Events, in.Problems = 0, 0, 0, 0, nil // of the file
	for _, s := range r.Sectors {
		y := shownSector{
			Job: s.Job, Kind: s.ProofKind, Attempt: s.Attempt, Count: s.Count,
			Admitted: s.Admitted, First: s.First(), State: s.State(),
		}
		y.Extent[0], y.Extent[1] = s.Extent()
		y.Reason, y.Failed = s.Failed()
		for p := range s.Partitions() {
			z := shownPartition{
				Index: p.Index, Worker: p.Worker, Device: p.Device, State: p.State, Times: p.Times,
				SynthMS: p.SynthMS, GPUMS: p.GPUMS, Failure: p.Failure, End: s.EndOf(&p),
			}
			for b := range z.Inferred {
				z.Inferred[b] = p.Inferred(run.Boundary(b))
			}
			for ph := range p.Phases() {
				z.Phases = append(z.Phases, ph)
			}
			y.Partitions = append(y.Partitions, z)
		}
		x.Sectors = append(x.Sectors, y)
	}
	return x
}

// readRuns reads the runs of a log, or of a file of spans.
func readRuns(t testing.TB, name string) []*run.Run {
	t.Helper()
	return runsOf(t, run.Options{}, name)
}

func runsOf(t testing.TB, o run.Options, name string) []*run.Run {
	t.Helper()
	logs, err := convert.Logs(t.Context(), []string{name}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var runs []*run.Run
	for r, err := range convert.Read(t.Context(), logs[0], o) {
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	return runs
}

// writeRuns converts runs to a file.
func writeRuns(t testing.TB, runs []*run.Run, name string) {
	t.Helper()
	p, err := tracing.Setup(t.Context(), tracing.Options{File: name, Lossless: true, DeterministicIDs: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if err := convert.Run(t.Context(), p, r, convert.RunID(r, ""), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestSpansGiveTheRunAgain converts each log to a file of spans and reads the
// run back.
func TestSpansGiveTheRunAgain(t *testing.T) {
	logs, err := filepath.Glob(filepath.Join("testdata", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("%d logs, error %v", len(logs), err)
	}
	for _, name := range logs {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".log"), func(t *testing.T) {
			want := readRuns(t, name)
			file := filepath.Join(t.TempDir(), "spans.json")
			writeRuns(t, want, file)
			got := readRuns(t, file)
			if len(got) != len(want) {
				t.Fatalf("%d runs, want %d", len(got), len(want))
			}
			for i, r := range want {
				r.Name = strings.Replace(r.Name, name, file, 1)
				if diff := cmp.Diff(showRun(r), showRun(got[i])); diff != "" {
					t.Errorf("the run differs (-log +spans):\n%s", diff)
				}
				if id := convert.RunID(got[i], ""); id != convert.RunID(r, "") {
					t.Errorf("the id is %q, want %q", id, convert.RunID(r, ""))
				}
			}
		})
	}
}

// TestSpansTellWhatTheLogLacked adds what a log lacked to what is wrong with the
// file of its spans.
func TestSpansTellWhatTheLogLacked(t *testing.T) {
	want := readRuns(t, fixture("curio"))[0]
	in := &want.Input
	in.Malformed, in.Stitched, in.Duplicates, in.Orphans, want.WorkersAssumed = 1, 2, 3, 1<<40, true
	file := filepath.Join(t.TempDir(), "spans.json")
	writeRuns(t, []*run.Run{want}, file)
	spans, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(spans, "{\"resourceSpans\":[\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	got := readRuns(t, file)[0]
	want.Name = got.Name
	in.Malformed++
	if diff := cmp.Diff(showRun(want), showRun(got)); diff != "" {
		t.Errorf("the run differs (-log +spans):\n%s", diff)
	}
}

// TestStoredSpans reads compressed files of spans, and one that is cut.
func TestStoredSpans(t *testing.T) {
	want := readRuns(t, fixture("dual_worker_noisy"))[0]
	for _, end := range []string{".gz", ".zst"} {
		file := filepath.Join(t.TempDir(), "spans.json"+end)
		writeRuns(t, []*run.Run{want}, file)
		got := readRuns(t, file)[0]
		want.Name = got.Name
		if diff := cmp.Diff(showRun(want), showRun(got)); diff != "" {
			t.Errorf("%s: the run differs (-log +spans):\n%s", end, diff)
		}
	}
	file := filepath.Join(t.TempDir(), "spans.json.gz")
	writeRuns(t, readRuns(t, fixture("curio")), file)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	whole = append(whole, whole[:len(whole)/2]...) // gzip takes members one after the other
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	logs, err := convert.Logs(t.Context(), []string{file}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var sectors int
	var failed error
	for r, err := range convert.Read(t.Context(), logs[0], run.Options{}) {
		if failed = err; err == nil {
			sectors += len(r.Sectors)
		}
	}
	if sectors != 6 || failed == nil || !strings.HasSuffix(failed.Error(), "spans.json.gz at line 2: it ends in the middle of its gzip data") {
		t.Errorf("%d sectors, error %v", sectors, failed)
	}
}

// TestReplayOfAnInterruptedRun replays a live run in which sectors only waited.
func TestReplayOfAnInterruptedRun(t *testing.T) {
	clearEnvironment(t)
	dir := t.TempDir()
	p, err := tracing.Setup(t.Context(), tracing.Options{File: filepath.Join(dir, "live.json")})
	if err != nil {
		t.Fatal(err)
	}
	rec := tracing.NewRecorder(p.Stages(), tracing.RecorderOptions{})
	at := func(ms int) time.Time {
		return time.Date(2026, 11, 30, 12, 0, 0, 700_000, time.UTC).Add(time.Duration(ms) * time.Millisecond)
	}
	interrupted := errors.New(tracing.StatusInterrupted)
	for i, info := range []tracing.SectorInfo{{Job: "proved"}, {Job: "whole"}, {Job: "divided", Partitions: 10}} {
		info.Admitted = at(i)
		s := rec.StartSector(t.Context(), info, at(i))
		if i == 0 {
			whole := s.WholeSector()
			whole.Synthesis(0, at(1)).End(at(10))
			whole.End(at(10), interrupted)
		}
		s.End(at(20+i), interrupted)
	}
	rec.Close(at(30))
	if _, err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	first := readRuns(t, filepath.Join(dir, "live.json"))
	writeRuns(t, first, filepath.Join(dir, "replayed.json"))
	second := readRuns(t, filepath.Join(dir, "replayed.json"))
	want := showRun(first[0])
	want.Name = second[0].Name
	if diff := cmp.Diff(want, showRun(second[0])); diff != "" || first[0].Tally().Unfinished != 3 {
		t.Errorf("%+v, the run differs (-live +replayed):\n%s", first[0].Tally(), diff)
	}
}

// TestReplayOfALiveRun reads the spans of a live pipeline, replays them and
// reads them again.
func TestReplayOfALiveRun(t *testing.T) {
	clearEnvironment(t)
	dir := t.TempDir()
	p, err := tracing.Setup(t.Context(), tracing.Options{File: filepath.Join(dir, "live.json")})
	if err != nil {
		t.Fatal(err)
	}
	rec := tracing.NewRecorder(p.Stages(), tracing.RecorderOptions{Backend: "sim", Devices: []tracing.Device{{Ordinal: 2, UUID: "GPU-2", Model: "H200"}}})
	at := func(ms int) time.Time {
		return time.Date(2026, 11, 30, 12, 0, 0, 700_000, time.UTC).Add(time.Duration(ms) * time.Millisecond)
	}
	for i, job := range []string{"porep-1-1", "porep-1-2", "whole"} {
		from := 100 * i
		s := rec.StartSector(t.Context(), tracing.SectorInfo{Job: job, Admitted: at(from)}, at(from))
		part := s.WholeSector()
		if job != "whole" {
			part = s.StartPartition(0, at(from))
		}
		synthesis := part.Synthesis(i, at(from))
		synthesis.Start(tracing.SpanWitness, at(from)).End(at(from + 5))
		synthesis.End(at(from + 10))
		part.Queue(at(from+10)).PickUp(4, 2, at(from+20))
		proof := part.Prove(4, 2, at(from+20))
		proof.Start("msm a", at(from+21)).End(at(from + 30))
		proof.Start("msm l", at(from+25)).End(at(from + 28))
		proof.Start("msm l", at(from+28)).End(at(from + 30)) // in two parts
		proof.Set(tracing.GPUPower.Float64(512.5), tracing.GPUTemperature.Int(71), tracing.GPUPCIeRx.Float64(3e9), tracing.GPUPCIeTx.Float64(1), tracing.GPUUtilization.Float64(0), tracing.GPUMemoryUsed.Int64(5))
		proof.End(at(from + 40))
		part.End(at(from+40), nil)
		s.Verify(at(from + 41)).End(at(from + 43))
		s.Verify(at(from + 43)).End(at(from + 45))
		s.End(at(from+45), nil)
	}
	rec.Close(at(300))
	if _, err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	first := readRuns(t, filepath.Join(dir, "live.json"))
	writeRuns(t, first, filepath.Join(dir, "replayed.json"))
	second := readRuns(t, filepath.Join(dir, "replayed.json"))
	first[0].Name = second[0].Name
	if diff := cmp.Diff(showRun(first[0]), showRun(second[0])); diff != "" || len(second) != 1 || second[0].Backend != "sim" {
		t.Errorf("%d runs, the first differs (-live +replayed):\n%s", len(second), diff)
	}
	for i, s := range first[0].Sectors {
		again := second[0].Sectors[i]
		if diff := cmp.Diff(s.Checks(), again.Checks()); diff != "" || len(s.Checks()) != 2 {
			t.Errorf("checks differ (-live +replayed):\n%s", diff)
		}
		p, q := slices.Collect(s.Partitions())[0], slices.Collect(again.Partitions())[0]
		if diff := cmp.Diff(slices.Collect(p.SynthesisPhases()), slices.Collect(q.SynthesisPhases())); diff != "" || p.SynthesisWorker != q.SynthesisWorker {
			t.Errorf("syntheses differ (-live +replayed):\n%s", diff)
		}
		if diff := cmp.Diff(p.Telemetry, q.Telemetry); diff != "" || p.Telemetry == nil {
			t.Errorf("telemetry differs (-live +replayed):\n%s", diff)
		}
	}
	third := filepath.Join(dir, "third.json")
	writeRuns(t, second, third)
	a, errA := os.ReadFile(filepath.Join(dir, "replayed.json"))
	b, errB := os.ReadFile(third)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("the replay of the replay differs: %v, %v", errA, errB)
	}
}

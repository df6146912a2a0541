package run

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// zero is the wall clock of offset 0 in the tests' logs.
var zero = time.Date(2026, 2, 18, 15, 0, 0, 0, time.UTC)

// clocked is a log of starts, 7.3 s apart, with a line before each that is made
// of the time at which it is written.
func clocked(n int, line func(i int, at time.Time) string) string {
	var b strings.Builder
	for i := range n {
		ms := 1000 + 7300*i
		b.WriteString(line(i, zero.Add(time.Duration(ms)*time.Millisecond+300*time.Microsecond)))
		fmt.Fprintf(&b, "TIMELINE,%d,SYNTH_START,Z,partition=%d\n", ms, i)
	}
	return b.String()
}

func engineLine(_ int, at time.Time) string {
	return at.Format("2006-01-02T15:04:05.000000Z") + "  INFO cuzk_core::engine: something\n"
}

func prefix(layout, rest string) func(int, time.Time) string {
	return func(_ int, at time.Time) string { return at.Format(layout) + rest }
}

func TestEpochs(t *testing.T) {
	written := zero.Add(time.Hour)
	given := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	// Lines at a time of their own, between two events 7.3 s apart, bound the
	// epoch no better than to half of that.
	between := func(_ int, at time.Time) string { return engineLine(0, at.Add(-3*time.Second)) }
	for _, test := range []struct {
		name, log string
		o         Options
		modTime   time.Time
		source    EpochSource
		time      time.Time
		within    time.Duration // of the time; negative: it cannot be told
	}{
		{name: "engine log", log: clocked(9, engineLine), source: EpochEngineLog, time: zero, within: 4 * time.Second},
		{name: "engine log, before and behind", log: clocked(9, func(i int, at time.Time) string {
			if i == 0 {
				return engineLine(0, at)
			}
			return engineLine(0, at.Add(-7299800*time.Microsecond)) + engineLine(0, at)
		}), source: EpochEngineLog, time: zero, within: time.Millisecond},
		{name: "engine log, only behind the last event", log: clocked(2, func(int, time.Time) string { return "" }) + engineLine(0, zero.Add(9*time.Second)), modTime: written, source: EpochFileTime, time: written.Add(-8300 * time.Millisecond), within: -1},
		{name: "engine log, only before the first event", log: engineLine(0, zero) + clocked(2, func(int, time.Time) string { return "" }), modTime: written, source: EpochFileTime, time: written.Add(-8300 * time.Millisecond), within: -1},
		{name: "engine log, colours", log: clocked(9, func(i int, at time.Time) string {
			return "\x1b[2m" + at.Format("2006-01-02T15:04:05.000000Z") + "\x1b[0m \x1b[32m INFO\x1b[0m \x1b[2mcuzk_core::engine\x1b[0m\x1b[2m:\x1b[0m something\n"
		}), source: EpochEngineLog, time: zero, within: 4 * time.Second},
		{name: "CRI", log: clocked(9, prefix("2006-01-02T15:04:05.000000000Z", " stderr F ")), source: EpochPrefix, time: zero, within: time.Millisecond},
		{name: "journald, short", log: clocked(9, prefix("Jan _2 15:04:05", " prover01 cuzk-daemon[42]: ")), modTime: written, source: EpochPrefix, time: zero, within: 500 * time.Millisecond},
		{name: "journald, short, on standard input", log: clocked(9, prefix("Jan _2 15:04:05", " prover01 cuzk-daemon[42]: ")), source: EpochPrefix, within: 500 * time.Millisecond},
		{name: "journald, short-iso", log: clocked(9, prefix("2006-01-02T15:04:05-0700", " prover01 cuzk-daemon[42]: ")), source: EpochPrefix, time: zero, within: 500 * time.Millisecond},
		{name: "journald, short-iso-precise", log: clocked(9, prefix("2006-01-02T15:04:05.000000-0700", " prover01 cuzk-daemon[42]: ")), source: EpochPrefix, time: zero, within: time.Millisecond},
		{name: "syslog, RFC 5424", log: clocked(9, prefix("<34>1 2006-01-02T15:04:05.000Z", " prover01 cuzk 1 - - ")), source: EpochPrefix, time: zero, within: 2 * time.Millisecond},
		{name: "docker compose", log: clocked(9, prefix("cuzk-1  | 2006-01-02T15:04:05.000000000Z", " ")), source: EpochPrefix, time: zero, within: time.Millisecond},
		{name: "both: the engine's own", log: clocked(9, func(i int, at time.Time) string {
			return between(i, at) + at.Add(time.Hour).Format("2006-01-02T15:04:05.000000Z") + " stderr F "
		}), source: EpochEngineLog, time: zero, within: 4 * time.Second},
		{name: "captured with a delay, but for most lines", log: clocked(20, func(i int, at time.Time) string {
			if i%4 == 0 {
				at = at.Add(time.Duration(i) * time.Second)
			}
			return at.Format("2006-01-02T15:04:05.000000Z") + " stderr F "
		}), source: EpochPrefix, time: zero, within: time.Millisecond},
		{name: "the clock is set after most of the run", log: clocked(20, func(i int, at time.Time) string {
			if i > 14 {
				at = at.Add(-time.Hour)
			}
			return at.Format("2006-01-02T15:04:05.000000Z") + " stderr F "
		}), source: EpochPrefix, time: zero, within: time.Millisecond},
		{name: "the engine's clock is set after most of the run", log: clocked(20, func(i int, at time.Time) string {
			if i > 14 {
				at = at.Add(time.Hour)
			}
			return engineLine(i, at.Add(-7*time.Second)) + engineLine(i, at)
		}), source: EpochEngineLog, time: zero, within: 500 * time.Millisecond},
		{name: "file time", log: clocked(2, func(int, time.Time) string { return "" }), modTime: written, source: EpochFileTime, time: written.Add(-8300 * time.Millisecond), within: -1},
		{name: "a file time that no clock had", log: clocked(2, func(int, time.Time) string { return "" }), modTime: time.Unix(0, 0), source: EpochReadTime, within: -1},
		{name: "reading time", log: clocked(2, func(int, time.Time) string { return "" }), source: EpochReadTime, within: -1},
		{name: "a prefix that is no time", log: clocked(9, func(int, time.Time) string { return "cuzk-1  | " }), modTime: written, source: EpochFileTime, time: written.Add(-59400 * time.Millisecond), within: -1},
		{name: "a time that no clock had", log: clocked(9, prefix("0006-01-02T15:04:05.000000000Z", " stderr F ")), modTime: written, source: EpochFileTime, time: written.Add(-59400 * time.Millisecond), within: -1},
		{name: "given", log: clocked(9, engineLine), o: Options{Epoch: given}, source: EpochGiven, time: given},
		{name: "now", log: clocked(9, engineLine), o: Options{EndNow: true}, source: EpochNow},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := textSource(test.log)
			s.ModTime = test.modTime
			before := time.Now()
			r := readAll(t, test.o, s)[0]
			after := time.Now()
			e := r.Epoch
			if e.Source != test.source {
				t.Fatalf("source is %s, want %s", e.Source, test.source)
			}
			switch {
			case test.within < 0 && e.Uncertainty >= 0:
				t.Errorf("uncertainty is %v, and cannot be told", e.Uncertainty)
			case test.within >= 0 && (e.Uncertainty < 0 || e.Uncertainty > test.within):
				t.Errorf("uncertainty is %v, want at most %v", e.Uncertainty, test.within)
			}
			switch {
			case test.source == EpochNow || test.source == EpochReadTime:
				if end := r.Time(r.Last); end.Before(before.Add(-time.Millisecond)) || end.After(after) {
					t.Errorf("the run ends at %v, read from %v to %v", end, before, after)
				}
			case test.time.IsZero(): // the year is that of the reading
			default:
				if off := e.Time.Sub(test.time).Abs(); off > max(e.Uncertainty, 0)+time.Millisecond {
					t.Errorf("epoch is %v, %v off", e.Time, off)
				}
			}
		})
	}
}

// TestOwnClock holds that the user's epoch moves a run and nothing in it.
func TestOwnClock(t *testing.T) {
	text := readFixture(t, "failure")
	own := readText(t, Options{}, text)
	for name, o := range map[string]Options{"given": {Epoch: zero}, "now": {EndNow: true}} {
		moved := readText(t, o, text)
		if diff := cmp.Diff(show(own), show(moved)); diff != "" {
			t.Errorf("%s (-own +moved):\n%s", name, diff)
		}
		for i, s := range moved.Sectors {
			if s.Admitted == Unknown || s.Admitted != own.Sectors[i].Admitted {
				t.Errorf("%s: %s was admitted at %d, want %d", name, s.Job, s.Admitted, own.Sectors[i].Admitted)
			}
		}
	}
}

// TestEpochOfRunsBefore places runs without a clock before the one that has one.
func TestEpochOfRunsBefore(t *testing.T) {
	runs := readAll(t, Options{}, textSource(whole("A", 1500)+whole("B", 1500)+clocked(9, prefix("2006-01-02T15:04:05.000000Z", " stderr F "))))
	if len(runs) != 3 {
		t.Fatalf("%d runs, want 3", len(runs))
	}
	for i, want := range []EpochSource{EpochNextRun, EpochNextRun, EpochPrefix} {
		if got := runs[i].Epoch.Source; got != want {
			t.Errorf("run %d: source is %s, want %s", i, got, want)
		}
	}
	for i := range 2 {
		if end, next := runs[i].Time(runs[i].Last), runs[i+1].Time(runs[i+1].First); !end.Equal(next) {
			t.Errorf("run %d ends at %v, and the next begins at %v", i, end, next)
		}
	}
	written := zero.Add(time.Hour)
	s := textSource(whole("A", 1500) + whole("B", 1500))
	s.ModTime = written
	runs = readAll(t, Options{}, s)
	if runs[0].Epoch.Source != EpochNextRun || runs[1].Epoch.Source != EpochFileTime || !runs[1].Time(runs[1].Last).Equal(written) {
		t.Errorf("epochs are %+v and %+v", runs[0].Epoch, runs[1].Epoch)
	}
}

func TestDevices(t *testing.T) {
	const started = "2026-02-18T15:00:00.000000Z  INFO cuzk_core::engine: pipeline GPU worker started worker_id=%d gpu=%d sub_id=0\n"
	var engine strings.Builder
	for w, gpu := range []int{0, 0, 3, 3} {
		fmt.Fprintf(&engine, started, w, gpu)
	}
	events := log(`
		@1000 GPU_START A/0 w0
		@1000 GPU_START A/1 w1
		@1000 GPU_START A/2 w2`)
	for _, test := range []struct {
		name, log string
		o         Options
		devices   []Device
		of        [3]int // devices of the three partitions
		assumed   bool
	}{
		{name: "none", log: events, devices: []Device{{Ordinal: 0, Workers: []int{0, 1, 2}}}, assumed: true},
		{name: "WorkersPerDevice", log: events, o: Options{WorkersPerDevice: 2}, devices: []Device{{Ordinal: 0, Workers: []int{0, 1}}, {Ordinal: 1, Workers: []int{2}}}, of: [3]int{0, 0, 1}, assumed: true},
		{name: "the engine", log: engine.String() + events, devices: []Device{{Ordinal: 0, Workers: []int{0, 1}}, {Ordinal: 3, Workers: []int{2, 3}}}, of: [3]int{0, 0, 3}},
		{name: "the engine, later", log: events + engine.String(), devices: []Device{{Ordinal: 0, Workers: []int{0, 1}}, {Ordinal: 3, Workers: []int{2, 3}}}, of: [3]int{0, 0, 3}},
		{name: "the engine before the option", log: engine.String() + events, o: Options{WorkersPerDevice: 1}, devices: []Device{{Ordinal: 0, Workers: []int{0, 1}}, {Ordinal: 3, Workers: []int{2, 3}}}, of: [3]int{0, 0, 3}},
		{name: "the engine, in part", log: fmt.Sprintf(started, 0, 5) + events, devices: []Device{{Ordinal: 5, Workers: []int{0}}}, of: [3]int{5, Unknown, Unknown}},
		{name: "the engine, in part, and the option", log: fmt.Sprintf(started, 0, 5) + events, o: Options{WorkersPerDevice: 2}, devices: []Device{{Ordinal: 0, Workers: []int{1}}, {Ordinal: 1, Workers: []int{2}}, {Ordinal: 5, Workers: []int{0}}}, of: [3]int{5, 0, 1}},
		{name: "the engine, out of range", log: fmt.Sprintf(started, 40000, 0) + events, devices: []Device{{Ordinal: 0, Workers: []int{0, 1, 2}}}, assumed: true},
		{name: "none proved", log: log("@1000 SYNTH_START A/0\n@1000 SYNTH_START A/1\n@1000 SYNTH_START A/2"), of: [3]int{Unknown, Unknown, Unknown}, assumed: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := readText(t, test.o, test.log)
			if diff := cmp.Diff(test.devices, r.Devices, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
			for i, want := range test.of {
				if got := partitionAt(r.Sectors[0], i).Device; got != want {
					t.Errorf("partition %d is of device %d, want %d", i, got, want)
				}
			}
			if r.WorkersAssumed != test.assumed {
				t.Errorf("WorkersAssumed = %v", r.WorkersAssumed)
			}
		})
	}
}

// TestPieces reads the pieces of a log as one.
func TestPieces(t *testing.T) {
	text := readFixture(t, "two_gpus")
	all := strings.SplitAfter(text, "\n")
	var sources []Source
	for i := 0; i < len(all); i += 97 {
		s := textSource(strings.Join(all[i:min(i+97, len(all))], ""))
		s.Name = fmt.Sprintf("cuzk.log.%d", i)
		sources = append(sources, s)
	}
	sources = append(sources, Source{Name: "empty", Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("")), nil }})
	whole := readText(t, Options{}, text)
	pieces := readAll(t, Options{}, sources...)
	if len(pieces) != 1 {
		t.Fatalf("%d runs, want 1", len(pieces))
	}
	if diff := cmp.Diff(show(whole), show(pieces[0])); diff != "" {
		t.Errorf("(-whole +pieces):\n%s", diff)
	}
	if diff := cmp.Diff(whole.Input, pieces[0].Input); diff != "" {
		t.Errorf("counts (-whole +pieces):\n%s", diff)
	}
	if whole.Epoch != pieces[0].Epoch {
		t.Errorf("epochs are %+v and %+v", whole.Epoch, pieces[0].Epoch)
	}
}

// TestManyClocks bounds an epoch by more lines than are kept.
func TestManyClocks(t *testing.T) {
	var b strings.Builder
	for i := range 3 * maxIntervals {
		ms := 1000 + 100*i
		behind := ms - 90 + i%90 // anywhere in the 100 ms before the event
		b.WriteString(engineLine(i, zero.Add(time.Duration(behind)*time.Millisecond)))
		fmt.Fprintf(&b, "TIMELINE,%d,SYNTH_START,Z,partition=%d\n", ms, i%10)
	}
	e := readText(t, Options{}, b.String()).Epoch
	if off := e.Time.Sub(zero).Abs(); e.Source != EpochEngineLog || off > e.Uncertainty+time.Millisecond || e.Uncertainty > 10*time.Millisecond {
		t.Errorf("epoch is %+v, %v off", e, off)
	}
}

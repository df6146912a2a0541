package convert_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

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
	Inferred    int64
	Timings     int64
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
		Inferred: r.Input.Inferred, Timings: r.Input.Timings, Devices: r.Devices,
	}
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

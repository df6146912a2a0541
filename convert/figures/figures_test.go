package figures_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/provetrace/provetrace/convert"
	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/run"
)

const fixtures = "../testdata"

// readLog returns the runs of a log.
func readLog(tb testing.TB, path string) []*run.Run {
	tb.Helper()
	logs, err := convert.Logs(tb.Context(), []string{path}, false, nil)
	if err != nil {
		tb.Fatal(err)
	}
	var runs []*run.Run
	for r, err := range run.Read(tb.Context(), logs[0].Name, run.Options{}, logs[0].Sources...) {
		if err != nil {
			tb.Fatal(err)
		}
		runs = append(runs, r)
	}
	return runs
}

// A truth is what a report on a fixture must say, by what made it.
type truth struct {
	Makespan    int64            `json:"makespan_ms"`
	ColdStart   int64            `json:"cold_start_ms"`
	Proofs      int              `json:"proofs"`
	Overall     float64          `json:"s_per_proof_overall"`
	Steady      float64          `json:"s_per_proof_steady"`
	GPUs        map[string]gpu   `json:"gpu"`
	Transitions []transition     `json:"transitions"`
	Phases      map[string]phase `json:"phases"`
}

type gpu struct {
	Busy       int64   `json:"busy_ms"`
	KernelBusy *int64  `json:"kernel_busy_ms"`
	Window     int64   `json:"active_window_ms"`
	Active     float64 `json:"utilization_active"`
	Overall    float64 `json:"utilization_overall"`
	Gaps       []int64 `json:"idle_gaps_ms"`
	Sum        int64   `json:"sum_of_spans_ms"`
}

type transition struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Gap       int64  `json:"cross_sector_gap_ms"`
	Readiness int64  `json:"synthesis_readiness_ms"`
}

type phase struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean_ms"`
	Min  int64   `json:"min_ms"`
	Max  int64   `json:"max_ms"`
}

func readTruth(t *testing.T, name string) truth {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(fixtures, name+".truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Figures truth }
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all.Figures
}

// ofFigures returns figures as a truth has them.
func ofFigures(f *figures.Figures) truth {
	got := truth{
		Makespan: *f.MakespanMS, ColdStart: *f.ColdStartMS, Proofs: f.Proofs,
		Overall: *f.SecondsPerProof.Overall, Steady: *f.SecondsPerProof.Steady,
		GPUs: make(map[string]gpu), Phases: make(map[string]phase),
	}
	for _, g := range f.GPUs {
		of := gpu{
			Busy: g.BusyMS, KernelBusy: g.KernelBusyMS, Window: *g.ActiveWindowMS,
			Active: *g.UtilizationActive, Overall: *g.UtilizationOverall, Sum: g.SpanSumMS,
		}
		for _, i := range g.Idle {
			of.Gaps = append(of.Gaps, i.DurationMS)
		}
		got.GPUs[strconv.Itoa(*g.Ordinal)] = of
	}
	for _, t := range f.Transitions {
		got.Transitions = append(got.Transitions, transition{t.From, t.To, t.CrossSectorGapMS, *t.SynthesisReadinessMS})
	}
	for _, name := range []string{"synthesis", "queue wait", "gpu prove"} {
		p := f.Phases.Named(name)
		got.Phases[p.Name] = phase{p.N, *p.MeanMS, *p.MinMS, *p.MaxMS}
	}
	return got
}

// TestTruth holds the figures of every fixture that has lost nothing against
// what made it.
func TestTruth(t *testing.T) {
	for _, f := range []struct{ log, truth string }{
		{"standard", "standard"},
		{"dual_worker", "dual_worker"},
		{"dual_worker_noisy", "dual_worker_noisy"},
		{"single_worker", "single_worker"},
		{"few_workers", "few_workers"},
		{"split", "split"},
		{"curio", "curio"},
		{"two_gpus", "two_gpus"},
		{"failure", "failure"},
		{"snap", "snap"},
		{"dirty_journald", "dual_worker"},
		{"dirty_cri", "dual_worker"},
		{"dirty_compose", "dual_worker"},
		{"dirty_crlf", "dual_worker"},
		{"dirty_shuffled", "dual_worker"},
		{"dirty_torn", "dual_worker"},
	} {
		t.Run(f.log, func(t *testing.T) {
			got := figures.Of(readLog(t, filepath.Join(fixtures, f.log+".log"))[0])
			if diff := cmp.Diff(readTruth(t, f.truth), ofFigures(got), cmpopts.EquateApprox(0, 1e-9), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("figures (-want +got):\n%s", diff)
			}
		})
	}
}

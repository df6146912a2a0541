package figures_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// TestWithin holds the figures of parts of a run.
func TestWithin(t *testing.T) {
	r := readLog(t, filepath.Join(fixtures, "standard.log"))[0]
	all := figures.Of(r)

	// A scope that holds all says the same, but for what a part does not tell.
	whole := figures.Within(r, figures.Scope{To: r.Last})
	if whole.SecondsPerProof.Overall != nil {
		t.Error("a part tells overall seconds per proof")
	}
	whole.SecondsPerProof.Overall = all.SecondsPerProof.Overall
	if diff := cmp.Diff(&figures.Selection{UntilMS: &r.Last}, whole.Scope); diff != "" || all.Scope != nil {
		t.Errorf("all is of %+v, a part is of (-want +got):\n%s", all.Scope, diff)
	}
	whole.Scope = nil
	if diff := cmp.Diff(all, whole, cmp.AllowUnexported(figures.Transition{})); diff != "" {
		t.Errorf("the whole as a part (-of +within):\n%s", diff)
	}

	// Between the ends of two proofs, the device is idle once and busy once.
	first, second := all.ProofEnds[0], all.ProofEnds[1]
	part := figures.Within(r, figures.Scope{From: first, To: second})
	g := &part.GPUs[0]
	if part.Proofs != 2 || part.ColdStartMS != nil || *part.MakespanMS != second-first || *g.ActiveWindowMS != second-first ||
		len(g.Idle) != 1 || g.BusyMS+g.Idle[0].DurationMS != second-first || g.Idle[0].Cause != figures.Synthesizing {
		t.Errorf("from %d to %d: %+v", first, second, part)
	}
	if n := part.Phases.Named("gpu prove").N; n != 2 {
		t.Errorf("%d proofs ended", n)
	}

	// Of one sector there are its phases, and the devices' work for all.
	job := r.Sectors[2].Job
	from, to := r.Sectors[2].Extent()
	only := figures.Scope{From: from, To: to, Only: func(s *run.Sector) bool { return s.Job == job }}
	one := figures.Within(r, only)
	if diff := cmp.Diff(&figures.Selection{SinceMS: &from, UntilMS: &to, Only: []string{job}}, one.Scope); diff != "" {
		t.Errorf("one sector is of (-want +got):\n%s", diff)
	}
	// The step to it is that from the one before, which is not in the scope.
	if diff := cmp.Diff(slices.Collect(all.Rows(r, figures.Scope{}))[2:3], slices.Collect(one.Rows(r, only))); diff != "" {
		t.Errorf("row of one sector (-of all +within):\n%s", diff)
	}
	if diff := cmp.Diff(all.Transitions[1:2], one.Transitions, cmp.AllowUnexported(figures.Transition{})); diff != "" {
		t.Errorf("transitions to one sector (-of all +within):\n%s", diff)
	}
	one = figures.Within(r, figures.Scope{Only: func(s *run.Sector) bool { return s.Job == job }})
	if one.Sectors != 1 || one.Proofs != 1 || one.Phases.Named("synthesis").N != 1 {
		t.Errorf("one sector: %+v", one)
	}
	if one.GPUs[0].BusyMS != all.GPUs[0].BusyMS {
		t.Errorf("the device was busy for %d ms, not %d", one.GPUs[0].BusyMS, all.GPUs[0].BusyMS)
	}

	none := figures.Within(r, figures.Scope{From: r.Last + 1000})
	if none.Sectors != 0 || none.MakespanMS != nil || none.Verdict.GPU != nil {
		t.Errorf("after the end: %+v", none)
	}
}

// An unfinished proof may have kept its device busy, so that no cause is told.
func TestLostEnd(t *testing.T) {
	log := "TIMELINE,0,SYNTH_START,a,partition=0\nTIMELINE,0,SYNTH_START,a,partition=1\nTIMELINE,0,SYNTH_START,a,partition=2\n" +
		"TIMELINE,1000,SYNTH_END,a,partition=0,synth_ms=1000\nTIMELINE,1000,SYNTH_END,a,partition=1,synth_ms=1000\nTIMELINE,1000,SYNTH_END,a,partition=2,synth_ms=1000\n" +
		"TIMELINE,1000,GPU_START,a,worker=0,partition=0\nTIMELINE,2000,GPU_END,a,worker=0,partition=0,gpu_ms=1000\n" +
		"TIMELINE,2000,GPU_START,a,worker=0,partition=1\n" +
		"TIMELINE,3000,GPU_START,a,worker=0,partition=2\nTIMELINE,4000,GPU_END,a,worker=0,partition=2,gpu_ms=1000\n"
	path := filepath.Join(t.TempDir(), "lost.log")
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	f := figures.Of(readLog(t, path)[0])
	want := []figures.Idle{{StartMS: 2000, DurationMS: 1000}}
	if diff := cmp.Diff(want, f.GPUs[0].Idle); diff != "" || f.Verdict.Bound != figures.BoundUnknown {
		t.Errorf("bound %q, idle (-want +got):\n%s", f.Verdict.Bound, diff)
	}
	if f.Unfinished != 1 || f.Proofs != 0 || f.SecondsPerProof.Overall != nil {
		t.Errorf("%+v", f)
	}
}

// Sectors are gathered from several parts of a run at once, whose figures are
// those of its sectors one by one.
func TestManySectors(t *testing.T) {
	var log strings.Builder
	const sectors = 3000
	for i := range sectors {
		kind := "porep-c2"
		if i > sectors/2 {
			kind = "snap-update"
		}
		at := 20 * i
		fmt.Fprintf(&log, "TIMELINE,%d,SYNTH_START,job-%d,kind=%s\n", at, i, kind)
		fmt.Fprintf(&log, "TIMELINE,%d,SYNTH_END,job-%d,synth_ms=5\n", at+5, i)
		fmt.Fprintf(&log, "TIMELINE,%d,GPU_START,job-%d,worker=%d\n", at+8, i, i%2)
		fmt.Fprintf(&log, "TIMELINE,%d,GPU_END,job-%d,worker=%d,gpu_ms=9\n", at+17, i, i%2)
	}
	path := filepath.Join(t.TempDir(), "many.log")
	if err := os.WriteFile(path, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	r := readLog(t, path)[0]
	f := figures.Of(r)
	rows := slices.Collect(f.Rows(r, figures.Scope{}))
	if f.Sectors != sectors || f.Proofs != sectors || len(f.Transitions) != sectors-1 || len(rows) != sectors {
		t.Errorf("%d sectors, %d proofs, %d transitions, %d rows", f.Sectors, f.Proofs, len(f.Transitions), len(rows))
	}
	if *f.SecondsPerProof.Steady != 0.02 || *f.MakespanMS != 20*(sectors-1)+17 || *f.ColdStartMS != 8 || f.Mode != figures.WholeSectors {
		t.Errorf("%v s a proof, makespan %v, cold start %v, mode %v", *f.SecondsPerProof.Steady, *f.MakespanMS, *f.ColdStartMS, f.Mode)
	}
	if diff := cmp.Diff([]string{"porep-c2", "snap-update"}, f.ProofKinds); diff != "" {
		t.Error(diff)
	}
	if g := &f.GPUs[0]; g.Proofs != sectors || g.BusyMS != 9*sectors || len(g.Idle) != sectors-1 {
		t.Errorf("the device: %d proofs, busy %d ms, %d gaps", g.Proofs, g.BusyMS, len(g.Idle))
	}
	for i, s := range rows {
		if s.Job != fmt.Sprintf("job-%d", i) || *s.WallMS != 17 || i > 0 && *s.CrossSectorGapMS != 11 {
			t.Fatalf("row %d: %+v", i, s)
		}
	}
	if p := f.Phases.Named("gpu prove"); p.N != sectors || *p.P50MS != 9 {
		t.Errorf("gpu prove: %+v", p.Distribution)
	}
}

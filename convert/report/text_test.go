package report

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/run"
)

// TestText holds the reports on fixtures against golden files.
func TestText(t *testing.T) {
	for _, test := range []struct {
		fixture string
		o       TextOptions
		name    string
	}{
		{"standard", TextOptions{Width: 80}, "standard-80"},
		{"standard", TextOptions{Width: 40}, "standard-40"},
		{"dual_worker", TextOptions{Width: 80}, "dual_worker-80"},
		{"dual_worker_noisy", TextOptions{Width: 80}, "dual_worker_noisy-80"},
		{"dual_worker_noisy", TextOptions{Width: 80, Color: true}, "dual_worker_noisy-80-color"},
		{"single_worker", TextOptions{Width: 80}, "single_worker-80"},
		{"few_workers", TextOptions{Width: 80, ASCII: true}, "few_workers-80-ascii"},
		{"split", TextOptions{Width: 80, Rows: 3}, "split-80-rows"},
		{"split", TextOptions{Width: 200}, "split-200"},
		{"two_gpus", TextOptions{Width: 200}, "two_gpus-200"},
		{"snap", TextOptions{Width: 80, Scope: figures.Scope{From: 90_000, To: 180_000}}, "snap-80-scope"},
		{"failure", TextOptions{Width: 80}, "failure-80"},
		{"failure", TextOptions{Width: 80, Scope: figures.Scope{From: 69_369, To: 116_543, Only: labelled("4202")}}, "failure-80-sector"},
		{"dirty_truncated", TextOptions{Width: 80}, "dirty_truncated-80"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			r := readRun(t, test.fixture)
			if err := Text(&out, r, figures.Within(r, test.o.Scope), test.o); err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("text", test.name+".txt"), out.Bytes())
			if !test.o.Color {
				checkWidth(t, out.String(), test.o.Width)
			}
		})
	}
}

func labelled(label string) func(*run.Sector) bool {
	return func(s *run.Sector) bool { return s.Label() == label }
}

func checkWidth(t *testing.T, text string, width int) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := textWidth(strings.TrimSuffix(line, "\n")); n > width {
			t.Errorf("a line of %d columns, more than %d: %s", n, width, line)
		}
	}
}

// Every run gets a report, whatever it lacks.
func TestTextOfLittle(t *testing.T) {
	for _, log := range []string{
		"TIMELINE,5,SYNTH_START,a,partition=0\n",
		"TIMELINE,5,GPU_END,a,worker=0,partition=0,gpu_ms=3\n",
		"TIMELINE,5,GPU_PICKUP,a,worker=0,partition=0\n",
		"TIMELINE,0,SYNTH_START,a,partition=0\nTIMELINE,0,SYNTH_END,a,partition=0,synth_ms=0\nTIMELINE,0,GPU_PICKUP,a,worker=0,partition=0\n" +
			"TIMELINE,0,GPU_START,a,worker=0,partition=0\nTIMELINE,0,GPU_END,a,worker=0,partition=0,gpu_ms=0\n",
	} {
		r := readText(t, log)
		var out bytes.Buffer
		if err := Text(&out, r, figures.Of(r), TextOptions{Width: 60}); err != nil {
			t.Fatal(err)
		}
		checkWidth(t, out.String(), 60)
		if text := out.String(); strings.Contains(text, "NaN") || strings.Contains(text, "%!") {
			t.Errorf("a report on %q:\n%s", log, text)
		}
	}
}

// readText returns the run that a log tells of.
func readText(t *testing.T, log string) *run.Run {
	t.Helper()
	for r, err := range run.Read(t.Context(), "little.log", run.Options{}, run.Source{
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(log)), nil },
	}) {
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	t.Fatalf("no run in %q", log)
	return nil
}

// What a log says of failures is told in a few safe lines, however long and
// whatever it is.
func TestFailures(t *testing.T) {
	job := func(id, reason string) string {
		return "2026-02-18T15:00:58.007902Z ERROR cuzk_core::engine: partition synthesis failed error=" + reason + " job_id=" + id + " partition=0\n"
	}
	for _, test := range []struct {
		name         string
		failed       int
		reason, says string
	}{
		{"one", 1, "out-of-memory", "a0 failed in partition 0: partition synthesis failed: out-of-memory\n"},
		{"many", 7, "out-of-memory", "a4 failed in partition 0: partition synthesis failed: out-of-memory\nand 2 more\n"},
		{"long", 1, strings.Repeat("x", 500), "synthesis failed:\nxxx"},
		{"unsafe", 1, "\x1b[31mred", "a0 failed in partition 0: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log strings.Builder
			for i := range test.failed {
				id := fmt.Sprintf("a%d", i)
				fmt.Fprintf(&log, "TIMELINE,%d,SYNTH_START,%s,partition=0\n", i, id)
				log.WriteString(job(id, test.reason))
			}
			r := readText(t, log.String())
			var out bytes.Buffer
			if err := Text(&out, r, figures.Of(r), TextOptions{Width: 72}); err != nil {
				t.Fatal(err)
			}
			checkWidth(t, out.String(), 72)
			if text := out.String(); !strings.Contains(text, test.says) || strings.Contains(text, "\x1b") {
				t.Errorf("want %q in:\n%s", test.says, text)
			}
		})
	}
}

// What a device is, is told once, where it is known.
func TestIdentities(t *testing.T) {
	zero, one, two := 0, 1, 2
	got := identities([]figures.GPU{
		{Ordinal: &zero, Name: "cpu", Model: "Some \x1b[1mProcessor"},
		{Ordinal: &one, Name: "H200", Model: "H200"}, {Ordinal: &two, Model: "H200"}, {},
	})
	want := []string{"GPU 0: cpu, " + Sanitize("Some \x1b[1mProcessor"), "GPU 1, GPU 2: H200"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

// Seconds per proof keep their meaning where they are few.
func TestPerProof(t *testing.T) {
	for s, want := range map[float64]string{47.774: "47.77 s", 2.3: "2.30 s", 0.754: "0.754 s", 0.0123: "0.0123 s", 0.0004: "0.000400 s", 0: "0.00 s"} {
		if got := perProof(s); got != want {
			t.Errorf("%v is %s, not %s", s, got, want)
		}
	}
}

// TestVerdict holds what is said of each bound.
func TestVerdict(t *testing.T) {
	for _, test := range []struct{ fixture, bound, says string }{
		{"standard", "synthesis", "Synthesis is the limit"},
		{"few_workers", "synthesis", "Synthesis is the limit"},
		{"dual_worker", "gpu", "cannot tell"},
		{"dual_worker_noisy", "gpu", "GPU-bound: GPU 0 was busy 95.2% of its active window, its kernels 90.3%"},
		{"single_worker", "gpu-worker", "The GPU workers are the limit, not the device"},
	} {
		f := figures.Of(readRun(t, test.fixture))
		v := VerdictOf(f)
		if string(f.Verdict.Bound) != test.bound || !strings.Contains(v.Reason, test.says) {
			t.Errorf("%s is bound by %q: %s", test.fixture, f.Verdict.Bound, v.Reason)
		}
		if all := fmt.Sprint(v); strings.Contains(all, "70") && test.fixture == "dual_worker" {
			t.Errorf("%s", all)
		}
	}
}

// That syntheses slow each other is told where it says something.
func TestSynthesesSlowEachOther(t *testing.T) {
	mean, slope := 4.2, 1234.0
	for correlation, told := range map[float64]bool{0.9: true, 0.3: false, -0.9: false} {
		f := &figures.Figures{
			Phases:    figures.Phases{{Name: "synthesis", Distribution: figures.Distribution{N: 50}}},
			Synthesis: figures.Concurrency{Mean: &mean, Max: 6, SlopeMS: &slope, Correlation: &correlation},
		}
		tx := text{pen: pen{width: 80}, f: f}
		tx.syntheses()
		if got := tx.out.String(); strings.Contains(got, "1.23 s longer for each") != told {
			t.Errorf("correlation %v: %s", correlation, got)
		}
	}
}

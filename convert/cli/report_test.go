package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"github.com/provetrace/provetrace/tracing"
)

// A reportJSON is what report --format json prints.
type reportJSON struct {
	Runs   []map[string]any
	Errors []string
}

func parseReport(t *testing.T, text string) *reportJSON {
	t.Helper()
	r := new(reportJSON)
	if err := json.Unmarshal([]byte(text), r); err != nil {
		t.Fatalf("the report is not JSON: %v\n%s", err, text)
	}
	return r
}

// The spans of a log tell what the log tells.
func TestReportOfSpans(t *testing.T) {
	for _, log := range []string{"standard", "dual_worker_noisy", "split", "two_gpus", "failure", "snap", "dirty_restart", "dirty_torn", "damaged"} {
		t.Run(log, func(t *testing.T) {
			dir := t.TempDir()
			if log == "damaged" {
				put(t, dir, "damaged.log", []byte(damagedLog))
			} else {
				dir = workspace(t, log)
			}
			if r := provetrace(t, dir, "convert", log+".log", "-o", "spans.json.zst"); r.code != 0 {
				t.Fatal(r.stderr)
			}
			var reports [2]*reportJSON
			for i, name := range []string{log + ".log", "spans.json.zst"} {
				r := provetrace(t, dir, "report", name, "--format", "json")
				if r.code != 0 {
					t.Fatal(r.stderr)
				}
				reports[i] = parseReport(t, r.stdout)
				for _, run := range reports[i].Runs {
					delete(run, "name")
					for _, ofFile := range []string{"bytes", "lines", "messages", "events", "problems"} {
						delete(run["input"].(map[string]any), ofFile)
					}
					for _, g := range run["gpus"].([]any) {
						delete(g.(map[string]any), "workers") // a worker that never took a partition
					}
				}
			}
			if diff := cmp.Diff(reports[0], reports[1]); diff != "" {
				t.Errorf("a report on the log, and on its spans (-log +spans):\n%s", diff)
			}
		})
	}
}

// damagedLog has a line that cannot be read, one that is torn, one twice, and
// none that tells of devices or of the start of a synthesis.
const damagedLog = `TIMELINE,xx,SYNTH_START,j,partition=0
TIMELINE,10,SYNTH_END,j,partition=0,synth_ms=10
TIMELINE,10,GPU_QUEUE,j,partition=0
TIMELINE,10,GPU_QUEUE,j,partition=0
TIMELINE,20,GPU_PICKUP,j,worker=0,partition=0
TIMELINE,20,GPU_START,j,worker=0,parti
tion=0
TIMELINE,50,GPU_END,j,worker=0,partition=0,gpu_ms=30
`

// The spans of a damaged log tell what it lacks.
func TestReportOfSpansOfADamagedLog(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "damaged.log", []byte(damagedLog))
	if r := provetrace(t, dir, "convert", "damaged.log", "-o", "spans.json"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	r := provetrace(t, dir, "report", "spans.json", "--gpu-workers-per-device", "2")
	for _, want := range []string{
		"1 malformed, 1 stitched, 1 repeated, 1 time inferred",
		"devices  1, assumed: the log of these spans does not say",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is missing in\n%s", want, r.stdout)
		}
	}
	r = provetrace(t, dir, "report", "spans.json", "--format", "html")
	for _, want := range []string{"malformed lines", "stitched lines", "repeated events"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is missing in the page", want)
		}
	}
}

// A live run that was interrupted has unfinished sectors and no failed ones; one
// of them only waited.
func TestReportOfAnInterruptedRun(t *testing.T) {
	dir := t.TempDir()
	p, err := tracing.Setup(t.Context(), tracing.Options{File: filepath.Join(dir, "spans.json"), Lossless: true})
	if err != nil {
		t.Fatal(err)
	}
	rec := tracing.NewRecorder(p.Stages(), tracing.RecorderOptions{})
	at := func(s float64) time.Time {
		return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).Add(time.Duration(s * float64(time.Second)))
	}
	interrupted := errors.New(tracing.StatusInterrupted)
	proving := rec.StartSector(t.Context(), tracing.SectorInfo{Job: "porep-1000-7", Partitions: 2}, at(0))
	part := proving.StartPartition(0, at(0))
	part.Synthesis(0, at(0)).End(at(3))
	part.Prove(0, 0, at(3)).Fail(at(9), interrupted)
	part.Skip(at(9))
	waiting := rec.StartSector(t.Context(), tracing.SectorInfo{Job: "porep-1000-8", Partitions: 2, Admitted: at(5)}, at(5))
	proving.End(at(9), interrupted)
	waiting.End(at(9), interrupted)
	rec.Close(at(9))
	if _, err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := provetrace(t, dir, "report", "spans.json")
	for _, want := range []string{
		"2 sectors (2 unfinished), 1 partition in 9s\n",
		"\n7 unfinished     3.00 s    0 s    -  3.00 s    -      -\n8 unfinished          -      -    -  4.00 s    -      -\n",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is missing in\n%s", want, r.stdout)
		}
	}
	r = provetrace(t, dir, "report", "spans.json", "--format", "json")
	sectors := parseReport(t, r.stdout).Runs[0]["per_sector"].([]any)
	only := sectors[1].(map[string]any)
	if only["state"] != "unfinished" || only["partitions"] != 0.0 || only["start_ms"] != 5000.0 || only["wall_ms"] != 4000.0 {
		t.Errorf("the sector that only waited is %v", only)
	}
	for _, format := range []string{"html", "perfetto"} {
		if r := provetrace(t, dir, "report", "spans.json", "--format", format); r.code != 0 {
			t.Errorf("%s: %s", format, r.stderr)
		}
	}
}

// A report goes to a file in any format, compressed or not.
func TestReportFile(t *testing.T) {
	for format, has := range map[string]string{
		"text": "Synthesis is the limit", "json": `"bound":"synthesis"`, "html": "Synthesis is the limit", "perfetto": `"traceEvents"`,
	} {
		t.Run(format, func(t *testing.T) {
			dir := workspace(t, "split")
			for _, name := range []string{"report", "report.gz"} {
				r := provetrace(t, dir, "report", "split.log", "--format", format, "-o", name)
				if r.code != 0 || r.stdout != "" {
					t.Fatalf("%+v", r)
				}
			}
			z, err := gzip.NewReader(bytes.NewReader(get(t, dir, "report.gz")))
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if _, err := text.ReadFrom(z); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(text.Bytes(), get(t, dir, "report")) || !strings.Contains(text.String(), has) {
				t.Errorf("the files differ, or lack %s", has)
			}
		})
	}
}

// Runs of one log are reported one after the other, and make one page.
func TestReportRuns(t *testing.T) {
	dir := workspace(t, "dirty_restart")
	r := provetrace(t, dir, "report", "dirty_restart.log", "--format", "json")
	if runs := parseReport(t, r.stdout).Runs; len(runs) != 2 || runs[1]["name"] != "dirty_restart.log#2" {
		t.Errorf("the runs are %v", runs)
	}
	if r := provetrace(t, dir, "report", "dirty_restart.log", "--format", "html", "-o", "page.html"); r.code != 0 {
		t.Error(r.stderr)
	}
}

// A log without GPU lines has no devices, so that none are assumed.
func TestReportWithoutGPUs(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "cpu.log", []byte("TIMELINE,0,SYNTH_START,a,partition=0\nTIMELINE,9,SYNTH_END,a,partition=0,synth_ms=9\n"))
	r := provetrace(t, dir, "report", "cpu.log")
	if !strings.Contains(r.stdout, "\n  devices  none: no GPU worker took anything\n") || strings.Contains(r.stdout, "assumed") {
		t.Error(r.stdout)
	}
}

// Several runs of a set are repetitions; a page shows the first of each.
func TestCompareRepetitions(t *testing.T) {
	dir := workspace(t, "dual_worker", "dual_worker_noisy", "single_worker", "dirty_restart")
	var c struct {
		Sets []struct {
			Name, Label string
			Runs        []string
		}
	}
	r := provetrace(t, dir, "compare", "two="+filepath.Join(dir, "dual_*.log"), "single_worker.log", "again=dirty_restart.log", "--format", "json")
	if err := json.Unmarshal([]byte(r.stdout), &c); err != nil {
		t.Fatalf("%v: %s", err, r.stderr)
	}
	if len(c.Sets) != 3 || c.Sets[0].Name != "two" || len(c.Sets[0].Runs) != 2 || c.Sets[1].Label != "B" || len(c.Sets[2].Runs) != 2 {
		t.Errorf("the sets are %+v", c.Sets)
	}
	r = provetrace(t, dir, "compare", "dual_worker.log", "single_worker.log", "--format", "html", "-o", "page.html")
	if r.code != 0 || !bytes.Contains(get(t, dir, "page.html"), []byte("single_worker.log")) {
		t.Errorf("%+v", r)
	}
}

package run

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/provetrace/provetrace/tracing/timeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func fileSource(path string) Source {
	return Source{Name: path, Open: func() (io.ReadCloser, error) {
		f, err := os.Open(path)
		return plainFile{f, func(int) {}}, err
	}}
}

// A plainFile is a [PlainFile].
type plainFile struct {
	*os.File
	took func(n int)
}

func (f plainFile) Plain() *os.File { return f.File }
func (f plainFile) Took(n int)      { f.took(n) }

func textSource(text string) Source {
	return Source{Name: "test.log", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(text)), nil
	}}
}

// readAll reads all runs of a log, which has no errors.
func readAll(t testing.TB, o Options, sources ...Source) []*Run {
	t.Helper()
	var runs []*Run
	for r, err := range Read(t.Context(), "test.log", o, sources...) {
		if err != nil {
			t.Fatal(err)
		}
		check(t, r)
		runs = append(runs, r)
	}
	return runs
}

// readText reads a log that has one run.
func readText(t testing.TB, o Options, text string) *Run {
	t.Helper()
	runs := readAll(t, o, textSource(text))
	if len(runs) != 1 {
		t.Fatalf("the log has %d runs, want 1", len(runs))
	}
	return runs[0]
}

func fixturePath(name string) string { return filepath.Join("..", "testdata", name+".log") }

func readFixture(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(fixturePath(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// truth is what made a fixture.
type truth struct {
	Jobs      []truthJob
	EpochUnix int64 `json:"epoch_unix_us"`
}

type truthJob struct {
	Job        string
	Admitted   *float64
	Partitions []truthPartition
}

type truthPartition struct {
	Partition   *int
	SynthStart  *float64 `json:"synth_start"`
	SynthEnd    *float64 `json:"synth_end"`
	Queued      *float64
	Pickup      *float64
	GPUStart    *float64 `json:"gpu_start"`
	GPUEnd      *float64 `json:"gpu_end"`
	GPUMS       *int64   `json:"gpu_ms"`
	Worker      *int
	GPU         *int
	Skipped     bool
	SynthFailed bool `json:"synth_failed"`
	Kernel      map[string][2]float64
}

// times returns the boundaries in whole ms, as the log has them.
func (p *truthPartition) times() [numBoundaries]int64 {
	var ms [numBoundaries]int64
	for b, t := range [...]*float64{p.SynthStart, p.SynthEnd, p.Queued, p.Pickup, p.GPUStart, p.GPUEnd} {
		ms[b] = Unknown
		if t != nil {
			ms[b] = int64(*t)
		}
	}
	return ms
}

func (p *truthPartition) index() int {
	if p.Partition == nil {
		return timeline.WholeSector
	}
	return *p.Partition
}

func readTruth(t testing.TB, name string) truth {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "testdata", name+".truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var tr truth
	if err := json.Unmarshal(b, &tr); err != nil {
		t.Fatal(err)
	}
	return tr
}

// check holds what is true of every run.
func check(t testing.TB, r *Run) {
	t.Helper()
	partitions, previous := 0, int64(0)
	for i, s := range r.Sectors {
		if s.Len() == 0 && s.State() != Incomplete {
			t.Errorf("sector %q has no partition", s.Job)
		}
		if s.First() < previous && i > 0 {
			t.Errorf("sector %q is not in order: it begins at %d, behind one of %d", s.Job, s.First(), previous)
		}
		previous = s.First()
		first, last := s.Extent()
		if first != s.First() || first < 0 || last < first || last > max(r.Last, first) {
			t.Errorf("sector %q is from %d to %d, first %d, in a run to %d", s.Job, first, last, s.First(), r.Last)
		}
		if s.Attempt < 1 {
			t.Errorf("sector %q is attempt %d", s.Job, s.Attempt)
		}
		if s.Admitted != Unknown && (s.Admitted < 0 || s.Admitted > s.First()*1000) {
			t.Errorf("sector %q was admitted at %d µs, and begins at %d ms", s.Job, s.Admitted, s.First())
		}
		index := -2
		for p := range s.Partitions() {
			partitions++
			if p.Index <= index {
				t.Errorf("sector %q: partition %d stands behind %d", s.Job, p.Index, index)
			}
			index = p.Index
			last := int64(0)
			for b := range numBoundaries {
				if !p.Known(b) {
					if p.Inferred(b) {
						t.Errorf("sector %q: partition %d: boundary %d is inferred and not known", s.Job, p.Index, b)
					}
					continue
				}
				if p.Times[b] < last {
					t.Errorf("sector %q: partition %d: times decrease: %v", s.Job, p.Index, p.Times)
				}
				last = p.Times[b]
			}
			if end := s.EndOf(&p); end < last {
				t.Errorf("sector %q: partition %d ends at %d, before %v", s.Job, p.Index, end, p.Times)
			}
			if p.State == Finished && !p.Known(GPUEnd) {
				t.Errorf("sector %q: partition %d is finished without an end", s.Job, p.Index)
			}
			at := int64(0)
			for ph := range p.Phases() {
				if ph.End < ph.Start || ph.Start < 0 {
					t.Errorf("sector %q: partition %d: phase %v", s.Job, p.Index, ph)
				}
				if ph.Name != "b_g2 msm" && ph.Start < at && p.detail == nil {
					t.Errorf("sector %q: partition %d: phases overlap at %v", s.Job, p.Index, ph)
				}
				at = ph.End
			}
		}
	}
	in := r.Input
	if in.Duplicates > in.Events || in.Stitched > in.Events || in.Lines < 0 || in.Bytes < 0 {
		t.Errorf("impossible counts: %+v", in)
	}
	if len(in.Problems) != int(min(in.Malformed, maxProblems)) {
		t.Errorf("%d problems shown of %d malformed lines", len(in.Problems), in.Malformed)
	}
	if r.Last < r.First || (r.First == Unknown) != (in.Events == 0) {
		t.Errorf("a run from %d to %d of %d events", r.First, r.Last, in.Events)
	}
}

// log makes a log of lines in short: "@1500 SYNTH_START A/0" is an event of
// partition 0 of job A, "A" alone of the whole sector; "w1" behind it is the
// worker, a number the engine's own timer. Other lines stay as they are.
func log(lines string) string {
	var b []byte
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		before, event, ok := strings.Cut(line, "@")
		if !ok {
			b = append(append(b, line...), '\n')
			continue
		}
		f := strings.Fields(event)
		job, index, whole := strings.Cut(f[2], "/")
		e := timeline.Event{Job: []byte(job), Partition: timeline.WholeSector, Worker: Unknown, Duration: Unknown}
		e.Offset = number(f[0])
		for k := timeline.SynthStart; k <= timeline.GPUEnd; k++ {
			if k.String() == f[1] {
				e.Kind = k
			}
		}
		if whole {
			e.Partition = int32(number(index))
		} else if e.Kind == timeline.SynthStart {
			e.ProofKind = []byte("porep-c2")
		}
		switch e.Kind {
		case timeline.GPUPickup, timeline.GPUStart, timeline.GPUEnd:
			e.Worker = 0
			fallthrough
		case timeline.SynthEnd:
			e.Duration = 0
		}
		for _, x := range f[3:] {
			if w, ok := strings.CutPrefix(x, "w"); ok {
				e.Worker = int32(number(w))
			} else {
				e.Duration = number(x)
			}
		}
		b = e.AppendTo(append(b, before...))
	}
	return string(b)
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

var stateNames = [...]string{Finished: "finished", Failed: "failed", Skipped: "skipped", Incomplete: "incomplete"}

// show renders a run's partitions, a line each: job, attempt, partition, state,
// worker, and the six times. A ~ marks the inferred ones.
func show(r *Run) string {
	var b strings.Builder
	for _, s := range r.Sectors {
		for p := range s.Partitions() {
			index := "-"
			if p.Index >= 0 {
				index = strconv.Itoa(p.Index)
			}
			fmt.Fprintf(&b, "%s#%d/%s %s", s.Job, s.Attempt, index, stateNames[p.State])
			if p.Failure != "" {
				fmt.Fprintf(&b, " (%s)", p.Failure)
			}
			if p.Worker >= 0 {
				fmt.Fprintf(&b, " w%d", p.Worker)
			}
			for at := range numBoundaries {
				switch {
				case !p.Known(at):
					b.WriteString(" -")
				case p.Inferred(at):
					fmt.Fprintf(&b, " ~%d", p.Times[at])
				default:
					fmt.Fprintf(&b, " %d", p.Times[at])
				}
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// lines trims a table's text to the form of show.
func lines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// partitionAt returns the i-th of a sector's partitions.
func partitionAt(s *Sector, i int) Partition {
	return slices.Collect(s.Partitions())[i]
}

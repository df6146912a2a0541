package timeline

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

const fixtures = "../../convert/testdata"

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(fixtures, name))
	if err != nil {
		t.Skip(err)
	}
	return b
}

// fixtureNames returns the names of the logs.
func fixtureNames(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(fixtures, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skip("no logs in " + fixtures)
	}
	for i, p := range paths {
		paths[i] = filepath.Base(p)
	}
	return paths
}

// Every log gives the events that are in it, and none malformed but for the
// line that a cut file ends in.
func TestFixtures(t *testing.T) {
	for _, name := range fixtureNames(t) {
		t.Run(name, func(t *testing.T) {
			log := fixture(t, name)
			_, stats := scan(t, bytes.NewReader(log), false)
			want := Stats{
				Bytes:  int64(len(log)),
				Lines:  int64(bytes.Count(log, newline)),
				Events: int64(bytes.Count(log, []byte(marker))),
			}
			switch name {
			case "dirty_torn.log":
				want.Stitched = 11
			case "dirty_truncated.log":
				want.Lines++
				want.Events--
				want.Malformed = 1
			}
			if diff := cmp.Diff(want, stats); diff != "" {
				t.Errorf("stats (-want +got):\n%s", diff)
			}
		})
	}
}

// The captures of one run hold the same events as the run's own log.
func TestFixturesAgree(t *testing.T) {
	events := func(name string) (lines map[string]int, n int) {
		lines = map[string]int{}
		r := NewReader(bytes.NewReader(fixture(t, name)), name)
		for r.Scan() {
			if r.Record().Type == EventRecord {
				lines[string(r.Record().Event.AppendTo(nil))]++
				n++
			}
		}
		return lines, n
	}
	want, n := events("dual_worker.log")
	if n != 300 {
		t.Errorf("%d events", n)
	}
	for _, name := range []string{
		"dual_worker_noisy.log", "dirty_journald.log", "dirty_cri.log", "dirty_compose.log",
		"dirty_torn.log", "dirty_crlf.log", "dirty_shuffled.log",
	} {
		got, _ := events(name)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, name := range []string{"dirty_dropped.log", "dirty_binary.log", "dirty_truncated.log"} {
		got, _ := events(name)
		for line, n := range got {
			if want[line] != n {
				t.Errorf("%s: %d of %q", name, n, line)
			}
		}
	}
}

// The events of whole partitions are those of the truth beside the log.
func TestFixturesTruth(t *testing.T) {
	var truth struct {
		Jobs []struct {
			Job        string
			Partitions []struct {
				Partition *int32
				GPUEnd    float64 `json:"gpu_end"`
			}
		}
	}
	b := fixture(t, "dual_worker.truth.json")
	if err := json.Unmarshal(b, &truth); err != nil {
		t.Fatal(err)
	}
	ends := map[string]int64{}
	r := NewReader(bytes.NewReader(fixture(t, "dual_worker.log")), "")
	for r.Scan() {
		if e := r.Record().Event; e.Kind == GPUEnd {
			ends[string(e.Job)+"/"+string('0'+rune(e.Partition))] = e.Offset
		}
	}
	n := 0
	for _, j := range truth.Jobs {
		for _, p := range j.Partitions {
			n++
			key := j.Job + "/" + string('0'+rune(*p.Partition))
			if got, ok := ends[key]; !ok || got != int64(p.GPUEnd) {
				t.Errorf("%s ends at %d ms, want %v", key, got, p.GPUEnd)
			}
		}
	}
	if n == 0 || n != len(ends) {
		t.Errorf("%d partitions, %d ends", n, len(ends))
	}
}

// How the bytes arrive makes no difference.
func TestFixturesInChunks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, name := range fixtureNames(t) {
		log := fixture(t, name)
		want, wantStats := scan(t, bytes.NewReader(log), true)
		got, stats := scan(t, iotest.OneByteReader(bytes.NewReader(log)), true)
		if diff := cmp.Diff(want, got); diff != "" || stats != wantStats {
			t.Errorf("%s, a byte at a time: %+v, want %+v\n%.2000s", name, stats, wantStats, diff)
		}
		for range 5 {
			got, stats := scan(t, iotest.DataErrReader(&chunks{text: log, rng: rng, max: 1 + rng.IntN(2000)}), true)
			if diff := cmp.Diff(want, got); diff != "" || stats != wantStats {
				t.Errorf("%s, in chunks: %+v, want %+v\n%.2000s", name, stats, wantStats, diff)
			}
		}
	}
}

// Torn at any byte by any kind of line, an event is found, or what is left of
// it is shown.
func TestTornAnywhere(t *testing.T) {
	whole := "TIMELINE,44176,GPU_END,db5b5fab-8f4d-4e27-9da1-494c73cf256d,worker=0,partition=10,gpu_ms=6449"
	for _, prefix := range []string{"", "2026-02-18T12:00:01+0000 host cuzk[1]: "} {
		for _, intruder := range []string{start1, gpuEnd, cuda, engine, ansi} {
			for i := 1; i < len(whole); i++ {
				if i < len(marker) && !strings.HasPrefix(intruder, marker) {
					continue // neither line has the marker
				}
				log := prefix + whole[:i] + intruder + "\n" + prefix + whole[i:] + "\n"
				got, stats := scan(t, strings.NewReader(log), false)
				found := false
				for _, s := range got {
					found = found || strings.Contains(s, "1 +"+whole)
				}
				if want := int64(1 + strings.Count(intruder, marker)); !found || stats.Stitched != 1 || stats.Events != want || stats.Malformed != 0 {
					t.Errorf("%d: %q gives %q", i, log, got)
				}
			}
		}
	}
}

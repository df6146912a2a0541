package run

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRest holds that what a log says does not depend on when sectors rest, nor
// on whether they are frozen, though lines come late.
func TestRest(t *testing.T) {
	paths, err := filepath.Glob("../testdata/*.log")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no logs: %v", err)
	}
	logs := make(map[string]string)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		logs[filepath.Base(path)] = string(text)
	}
	for seed := range uint64(40) {
		logs[fmt.Sprintf("hostile %d", seed)] = hostile(rand.New(rand.NewPCG(seed, 11)))
	}
	logs["late"] = late()
	usually, never := restAfter, freezeFrom
	t.Cleanup(func() { restAfter, freezeFrom = usually, never })
	for name, text := range logs {
		t.Run(name, func(t *testing.T) {
			restAfter, freezeFrom = len(text), never
			want := showAll(readAll(t, Options{Epoch: zero}, textSource(text)))
			for _, after := range []int{0, 1, 5} {
				for _, from := range []int{0, 30, never} {
					restAfter, freezeFrom = after, from
					if diff := cmp.Diff(want, showAll(readAll(t, Options{Epoch: zero}, textSource(text)))); diff != "" {
						t.Fatalf("resting after %d, frozen from %d (-want +got):\n%s", after, from, diff)
					}
				}
			}
		})
	}
}

// late returns a log of sectors that are whole, and of which lines come when
// others have begun.
func late() string {
	var b strings.Builder
	for i, job := range []string{"A", "B", "C", "D", "E"} {
		ms := 100 * i
		for _, p := range []int{1, 0} {
			fmt.Fprintf(&b, "TIMELINE,%d,SYNTH_START,%s,partition=%d\nTIMELINE,%d,SYNTH_END,%s,partition=%d,synth_ms=10\n", ms, job, p, ms+10, job, p)
			fmt.Fprintf(&b, "TIMELINE,%d,CHAN_SEND,%s,partition=%d\nTIMELINE,%d,GPU_PICKUP,%s,worker=0,partition=%d\n", ms+10, job, p, ms+20, job, p)
			fmt.Fprintf(&b, "TIMELINE,%d,GPU_START,%s,worker=0,partition=%d\nTIMELINE,%d,GPU_END,%s,worker=0,partition=%d,gpu_ms=10\n", ms+20, job, p, ms+30, job, p)
		}
	}
	fmt.Fprintf(&b, "TIMELINE,440,GPU_END,A,worker=0,partition=1,gpu_ms=10\n") // again
	fmt.Fprintf(&b, "TIMELINE,445,SYNTH_START,B,partition=2\n")
	fmt.Fprintf(&b, "%s ERROR cuzk_core::engine: failed error=x job_id=C partition=2\n", at(450))
	fmt.Fprintf(&b, "%s  INFO cuzk_core::engine: skipping GPU prove for failed partitioned job job_id=D partition=1\n", at(460))
	fmt.Fprintf(&b, "TIMELINE,470,GPU_END,B,worker=0,partition=0,gpu_ms=10\n")
	return b.String()
}

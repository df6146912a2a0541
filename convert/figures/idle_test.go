package figures_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"pgregory.net/rapid"

	"github.com/provetrace/provetrace/convert"
	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
)

// TestIdleIsOfSpans holds the idle gaps of fixtures against the spans that a
// conversion makes of them: both follow the same rules.
func TestIdleIsOfSpans(t *testing.T) {
	for _, log := range []string{"standard", "dual_worker", "single_worker", "few_workers", "split", "two_gpus", "failure", "curio", "snap"} {
		t.Run(log, func(t *testing.T) {
			checkIdle(t, readLog(t, filepath.Join(fixtures, log+".log"))[0])
		})
	}
}

// TestIdleIsOfSpansAnyRun does the same for runs of any shape.
func TestIdleIsOfSpansAnyRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type event struct {
			at    int
			order int
			line  string
		}
		var events []event
		// A span that begins and ends at one instant is a ns long, which the
		// recorder sees and no log has.
		ms := rapid.IntRange(1, 12)
		for sector := range rapid.IntRange(1, 4).Draw(t, "sectors") {
			for partition := range rapid.IntRange(1, 4).Draw(t, "partitions") {
				id := fmt.Sprintf("sector-%d,partition=%d", sector, partition)
				worker := rapid.IntRange(0, 2).Draw(t, "worker")
				onGPU := fmt.Sprintf("sector-%d,worker=%d,partition=%d", sector, worker, partition)
				at := rapid.IntRange(0, 60).Draw(t, "at")
				steps := rapid.SampledFrom([]int{6, 6, 6, 2}).Draw(t, "steps")
				for i, step := range []string{"SYNTH_START," + id, "SYNTH_END," + id + ",synth_ms=1", "GPU_QUEUE," + id,
					"GPU_PICKUP," + onGPU, "GPU_START," + onGPU, "GPU_END," + onGPU + ",gpu_ms=1"}[:steps] {
					if i > 0 {
						at += ms.Draw(t, "ms")
					}
					events = append(events, event{at, len(events), step})
				}
			}
		}
		slices.SortFunc(events, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
		var log strings.Builder
		for _, e := range events {
			kind, rest, _ := strings.Cut(e.line, ",")
			fmt.Fprintf(&log, "TIMELINE,%d,%s,%s\n", e.at, kind, rest)
		}
		source := run.Source{Name: "any.log", Open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(log.String())), nil
		}}
		for r, err := range run.Read(context.Background(), "any.log", run.Options{WorkersPerDevice: 1}, source) {
			if err != nil {
				t.Fatal(err)
			}
			checkIdle(t, r)
		}
		if t.Failed() {
			t.Logf("the log:\n%s", log.String())
		}
	})
}

// A fataler is what a test and a rapid test have in common.
type fataler interface {
	Helper()
	Fatal(...any)
	Errorf(string, ...any)
}

type gap struct {
	GPU   int
	Start int64
	Lasts int64
	Cause figures.Cause
}

func checkIdle(t fataler, r *run.Run) {
	t.Helper()
	began := make(map[int]int64) // when each device first worked
	var got []gap
	for _, s := range r.Sectors {
		for p := range s.Partitions() {
			if at, known := began[p.Device]; p.Known(run.GPUStart) && (!known || p.Times[run.GPUStart] < at) {
				began[p.Device] = p.Times[run.GPUStart]
			}
		}
	}
	for _, g := range figures.Of(r).GPUs {
		for _, i := range g.Idle {
			got = append(got, gap{*g.Ordinal, i.StartMS, i.DurationMS, i.Cause})
		}
	}
	want := idleSpans(t, r)
	want = slices.DeleteFunc(want, func(g gap) bool {
		at, worked := began[g.GPU]
		return !worked || g.Start < at // the cold start
	})
	order := func(a, b gap) int { return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Start, b.Start)) }
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("idle gaps (-spans +figures):\n%s", diff)
	}
}

// idleSpans returns the idle spans of a run.
func idleSpans(t fataler, r *run.Run) []gap {
	t.Helper()
	var out bytes.Buffer
	p, err := tracing.Setup(context.Background(), tracing.Options{File: "-", Writer: &out, Lossless: true, DeterministicIDs: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := convert.Run(context.Background(), p, r, "run", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	var gaps []gap
	var decoder ptrace.JSONUnmarshaler
	for line := range bytes.Lines(out.Bytes()) {
		traces, err := decoder.UnmarshalTraces(line)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range traces.ResourceSpans().All() {
			for _, scope := range resource.ScopeSpans().All() {
				for _, s := range scope.Spans().All() {
					if s.Name() != tracing.SpanIdle {
						continue
					}
					ordinal, _ := s.Attributes().Get(string(tracing.DeviceOrdinal))
					cause := figures.UnknownCause
					if v, ok := s.Attributes().Get(string(tracing.IdleCause)); ok {
						cause = figures.Cause(v.Str())
					}
					// No span is shorter than a ns, so that times can be off by some.
					ms := func(ts pcommon.Timestamp) int64 {
						return ts.AsTime().Sub(r.Epoch.Time).Round(time.Millisecond).Milliseconds()
					}
					start := ms(s.StartTimestamp())
					gaps = append(gaps, gap{int(ordinal.Int()), start, ms(s.EndTimestamp()) - start, cause})
				}
			}
		}
	}
	return gaps
}

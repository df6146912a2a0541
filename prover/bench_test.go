package prover_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/provetrace/provetrace/prover"
	"github.com/provetrace/provetrace/prover/backend"
	"github.com/provetrace/provetrace/prover/backend/sim"
	"github.com/provetrace/provetrace/tracing"
)

// A probe notes when its devices run.
type probe struct {
	backend.Backend
	mu   sync.Mutex
	runs [][2]time.Time // of all devices
}

func (p *probe) Devices() []backend.Device {
	var all []backend.Device
	for _, d := range p.Backend.Devices() {
		all = append(all, &probeDevice{d, p})
	}
	return all
}

type probeDevice struct {
	backend.Device
	p *probe
}

func (d *probeDevice) Prepare(ctx context.Context, t backend.Task) (backend.Proving, error) {
	proving, err := d.Device.Prepare(ctx, t)
	return &probeProving{proving, d.p}, err
}

type probeProving struct {
	backend.Proving
	p *probe
}

func (v *probeProving) Run(ctx context.Context, phase backend.PhaseFunc) error {
	start := time.Now()
	err := v.Proving.Run(ctx, phase)
	end := time.Now()
	v.p.mu.Lock()
	v.p.runs = append(v.p.runs, [2]time.Time{start, end})
	v.p.mu.Unlock()
	return err
}

// oneTracer gives all stages the same tracer.
type oneTracer struct{ tracer trace.Tracer }

func (t oneTracer) Tracer(tracing.Stage) trace.Tracer { return t.tracer }

// newRecorder returns a recorder whose spans are made and dropped.
func newRecorder(b backend.Backend) *tracing.Recorder {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(discard{}))
	return tracing.NewRecorder(oneTracer{provider.Tracer(tracing.ScopeName)}, tracing.RecorderOptions{Backend: b.Name(), Devices: infos(b), Journal: io.Discard})
}

// discard is a span processor that does nothing.
type discard struct{}

func (discard) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (discard) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (discard) Shutdown(context.Context) error                  { return nil }
func (discard) ForceFlush(context.Context) error                { return nil }

// BenchmarkHandover has a device prove partitions of which there are always
// some in the queue. It reports the share of its active window in which the
// device ran, and the time from the end of one run to the start of the next.
func BenchmarkHandover(b *testing.B) {
	for _, run := range []time.Duration{3750 * time.Microsecond, 37500 * time.Microsecond} {
		b.Run(run.String(), func(b *testing.B) {
			s, err := sim.New(sim.Options{Durations: func(string, int) sim.Durations {
				return sim.Durations{
					Prepare: run / 4,
					Device:  []sim.Phase{{Name: "ntt h", Duration: run / 2}, {Name: "msm h", Duration: run / 2}},
					Finish:  []sim.Phase{{Name: "msm b_g2", Duration: run / 2}},
				}
			}})
			require.NoError(b, err)
			p := &probe{Backend: s}
			rec := newRecorder(s)
			line := mustNew(b, prover.Options{Backend: p, Recorder: rec})
			_, err = line.Prove(b.Context(), prover.Job{ID: "a", Statement: s.Statement("a", max(b.N, 2))})
			require.NoError(b, err)
			require.NoError(b, line.Close())
			rec.Close(time.Time{})

			slices.SortFunc(p.runs, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
			var gaps []time.Duration
			for i, r := range p.runs[1:] {
				gaps = append(gaps, r[0].Sub(p.runs[i][1]))
			}
			slices.Sort(gaps)
			busy, window := union(p.runs)
			b.ReportMetric(100*busy.Seconds()/window.Seconds(), "%busy")
			b.ReportMetric(float64(gaps[len(gaps)/2])/1e3, "µs-median")
			b.ReportMetric(float64(gaps[len(gaps)*99/100])/1e3, "µs-p99")
		})
	}
}

// BenchmarkRecording proves partitions whose steps take no time, with and
// without a recorder: the difference is what recording a partition costs, with
// the synthesis in two parts and the device in five.
func BenchmarkRecording(b *testing.B) {
	names := []string{"ntt h", "msm h", "msm l", "msm a", "msm b_g1"}
	d := sim.Durations{
		Synthesis: []sim.Phase{{Name: tracing.SpanWitness}, {Name: tracing.SpanConstraints}},
		Finish:    []sim.Phase{{Name: "msm b_g2"}},
	}
	for _, name := range names {
		d.Device = append(d.Device, sim.Phase{Name: name})
	}
	for _, records := range []bool{false, true} {
		b.Run(fmt.Sprint("recorder=", records), func(b *testing.B) {
			s, err := sim.New(sim.Options{Durations: func(string, int) sim.Durations { return d }})
			require.NoError(b, err)
			o := prover.Options{Backend: s}
			if records {
				o.Recorder = newRecorder(s)
			}
			line := mustNew(b, o)
			b.ReportAllocs()
			for n := 0; n < b.N; n += 10 {
				job := fmt.Sprint("porep-1000-", n)
				_, err := line.Prove(b.Context(), prover.Job{ID: job, Statement: s.Statement(job, min(10, b.N-n))})
				require.NoError(b, err)
			}
			require.NoError(b, line.Close())
			o.Recorder.Close(time.Time{})
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), "µs/partition")
		})
	}
}

package prover_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/provetrace/provetrace/prover"
	"github.com/provetrace/provetrace/tracing"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tests below run in the simulated time of synctest, in which nothing but
// the given steps takes time.

var someSteps = map[string]time.Duration{
	"synthesize": 10 * time.Second, "prepare": time.Second, "run": 4 * time.Second, "finish": 2 * time.Second, "verify": 500 * time.Millisecond,
}

// TestTree holds the spans of a run in each mode against a golden file.
func TestTree(t *testing.T) {
	for _, c := range []struct {
		name string
		o    prover.Options
	}{
		{"partition", prover.Options{SynthesisWorkers: 2}},
		{"partition-inline", prover.Options{SynthesisWorkers: 2, InlineFinish: true}},
		{"sector", prover.Options{Mode: prover.Sector}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				epoch := time.Now()
				f, spans := &fake{devices: 1, takes: someSteps}, newSpans()
				c.o.Backend, c.o.Recorder = f, tracing.NewRecorder(spans, tracing.RecorderOptions{Backend: "fake", Devices: infos(f)})
				p := mustNew(t, c.o)
				ctx, caller := spans.Tracer(tracing.StagePipeline).Start(t.Context(), "caller")
				proofs, err := p.Prove(ctx, f.job("porep-1000-7", 3))
				require.NoError(t, err)
				require.Len(t, proofs, 3)
				caller.End()
				require.NoError(t, p.Close())
				c.o.Recorder.Close(time.Time{})
				require.Equal(t, 1, f.closed)
				require.Len(t, f.steps("release"), 3)

				roots := spans.roots(t)
				require.Len(t, roots, 2)
				got := roots[0].tree(epoch) + "\n" + roots[1].tree(epoch)
				golden := filepath.Join("testdata", c.name+".txt")
				if *update {
					require.NoError(t, os.MkdirAll("testdata", 0o755))
					require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
				}
				want, err := os.ReadFile(golden)
				require.NoError(t, err)
				require.Equal(t, string(want), got)
			})
		})
	}
}

// TestOrder holds that partitions are proved oldest job first, then lowest
// partition, whatever the order in which they have been synthesized.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{devices: 1, takes: map[string]time.Duration{"run": time.Minute}}
		// The later, the sooner it is synthesized.
		f.hook = func(_ context.Context, s step) error {
			if s.name == "synthesize" {
				time.Sleep(time.Second * time.Duration(10-3*int(s.job[0]-'a')-s.partition))
			}
			return nil
		}
		p := mustNew(t, prover.Options{Backend: f, SynthesisWorkers: 9, WorkersPerDevice: 1, Queue: 9})
		var all sync.WaitGroup
		for _, id := range []string{"a", "b", "c"} {
			all.Go(func() {
				_, err := p.Prove(t.Context(), f.job(id, 3))
				assert.NoError(t, err)
			})
			synctest.Wait()
		}
		all.Wait()
		// The first finds the device free.
		require.Equal(t, []string{"c/2", "a/0", "a/1", "a/2", "b/0", "b/1", "b/2", "c/0", "c/1"}, f.steps("run"))
		require.NoError(t, p.Close())

		f = &fake{devices: 1, takes: someSteps}
		p = mustNew(t, prover.Options{Backend: f, SynthesisWorkers: 1})
		for _, id := range []string{"c", "a"} {
			all.Go(func() {
				_, err := p.Prove(t.Context(), f.job(id, 2))
				assert.NoError(t, err)
			})
			synctest.Wait()
		}
		all.Wait()
		require.Equal(t, []string{"c/0", "c/1", "a/0", "a/1"}, f.steps("synthesize"))
		require.NoError(t, p.Close())
	})
}

// TestBackpressure holds up a device, and counts what the pipeline then has
// built.
func TestBackpressure(t *testing.T) {
	for _, queue := range []int{1, 3, 100} {
		t.Run(fmt.Sprint(queue), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				f := &fake{devices: 1}
				f.hook = func(_ context.Context, s step) error {
					if s.name == "run" {
						<-gate
					}
					return nil
				}
				p := mustNew(t, prover.Options{Backend: f, SynthesisWorkers: 4, Queue: queue})
				done := make(chan error)
				go func() {
					_, err := p.Prove(t.Context(), f.job("a", 60))
					done <- err
				}()
				synctest.Wait()
				// Two are the device's workers', four hold up the synthesis workers.
				built := min(2+queue+4, 60)
				require.Len(t, f.steps("synthesize"), built)
				require.Equal(t, prover.Stats{Pending: 60 - built, Queued: built - 2, Proving: 2, Running: 1}, p.Stats())
				close(gate)
				require.NoError(t, <-done)
				require.Equal(t, prover.Stats{Proved: 60}, p.Stats())
				require.NoError(t, p.Close())
			})
		})
	}
}

// TestMemory holds that the budget is used up and never exceeded, in each mode.
func TestMemory(t *testing.T) {
	for _, c := range []struct {
		mode prover.Mode
		most int
	}{{prover.Partition, 5}, {prover.Sector, 4}} {
		t.Run(c.mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{devices: 1, takes: someSteps}
				p := mustNew(t, prover.Options{Backend: f, Mode: c.mode, SynthesisWorkers: 20, Queue: 20, Memory: 5_999, PartitionBytes: 1_000})
				var all sync.WaitGroup
				for i := range 5 {
					all.Go(func() {
						_, err := p.Prove(t.Context(), f.job(fmt.Sprint("job", i), 4))
						assert.NoError(t, err)
					})
				}
				all.Wait()
				require.Equal(t, c.most, f.most)
				_, err := p.Prove(t.Context(), f.job("large", 6))
				if c.mode == prover.Sector {
					require.EqualError(t, err, `prover: job "large": its 6 partitions take 6000 bytes, and the memory budget is 5999: raise it, or prove partition by partition`)
				} else {
					require.NoError(t, err)
				}
				require.NoError(t, p.Close())
			})
		})
	}
}

// TestDevices holds that no partition waits for a device while another one is
// free, and that a device is held by one at a time.
func TestDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, spans := &fake{devices: 3, takes: map[string]time.Duration{"run": time.Second}}, newSpans()
		rec := tracing.NewRecorder(spans, tracing.RecorderOptions{Devices: infos(f)})
		p := mustNew(t, prover.Options{Backend: f, Recorder: rec, SynthesisWorkers: 6})
		start := time.Now()
		_, err := p.Prove(t.Context(), f.job("a", 6))
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, time.Since(start))
		require.NoError(t, p.Close())
		rec.Close(time.Time{})
		workers := make(map[int64]int64)
		for _, part := range spans.sectors(t)["a"].children {
			for _, proof := range part.named(tracing.SpanProve) {
				worker, _ := proof.attr(tracing.GPUWorker)
				device, _ := proof.attr(tracing.DeviceOrdinal)
				workers[worker.AsInt64()] = device.AsInt64()
			}
		}
		require.Equal(t, map[int64]int64{0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 5: 2}, workers)
	})
}

// TestFinish holds that a worker goes on while a proof is finished, with one at
// most.
func TestFinish(t *testing.T) {
	for _, c := range []struct {
		finish time.Duration
		inline bool
		want   time.Duration
	}{
		{time.Second, false, 10*2*time.Second + time.Second},
		{time.Second, true, 10 * 3 * time.Second},
		{4 * time.Second, false, 2*time.Second + 10*4*time.Second}, // finishing is the limit
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{devices: 1, takes: map[string]time.Duration{"run": 2 * time.Second, "finish": c.finish}}
			p := mustNew(t, prover.Options{Backend: f, WorkersPerDevice: 1, SynthesisWorkers: 10, InlineFinish: c.inline})
			start := time.Now()
			_, err := p.Prove(t.Context(), f.job("a", 10))
			require.NoError(t, err)
			require.Equal(t, c.want, time.Since(start))
			require.NoError(t, p.Close())
		})
	}
}

// TestFailures has a step of partition 2 fail in each way, while another sector
// is proved beside it.
func TestFailures(t *testing.T) {
	fault := errors.New("bad luck")
	for _, c := range []struct {
		step string
		want string
	}{
		{"synthesize", `prover: job "bad": partition 2: synthesis: `},
		{"prepare", `prover: job "bad": partition 2: preparing it for device 0: `},
		{"run", `prover: job "bad": partition 2: device 0: `},
		{"finish", `prover: job "bad": partition 2: finishing its proof: `},
		{"verify", `prover: job "bad": verifying the proof: `},
	} {
		for _, mode := range []prover.Mode{prover.Partition, prover.Sector} {
			for _, panics := range []bool{false, true} {
				t.Run(fmt.Sprint(c.step, "/", mode, "/panic=", panics), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f, spans := &fake{devices: 1, takes: someSteps}, newSpans()
						f.hook = func(_ context.Context, s step) error {
							if s.job != "bad" || s.name != c.step || s.partition != 2 && c.step != "verify" {
								return nil
							}
							if panics {
								panic(fault)
							}
							return fault
						}
						rec := tracing.NewRecorder(spans, tracing.RecorderOptions{Devices: infos(f)})
						p := mustNew(t, prover.Options{Backend: f, Recorder: rec, Mode: mode, SynthesisWorkers: 3})
						var all sync.WaitGroup
						all.Go(func() {
							_, err := p.Prove(t.Context(), f.job("bad", 8))
							assert.ErrorContains(t, err, c.want)
							assert.ErrorIs(t, err, fault)
							var caught *prover.Panic
							if assert.Equal(t, panics, errors.As(err, &caught)) && panics {
								assert.Contains(t, string(caught.Stack), "TestFailures")
							}
						})
						all.Go(func() {
							_, err := p.Prove(t.Context(), f.job("good", 4))
							assert.NoError(t, err)
						})
						all.Wait()
						require.NoError(t, p.Close())
						rec.Close(time.Time{})
						f.hook = nil
						require.Len(t, f.steps("release"), f.prepared)

						bad := spans.sectors(t)["bad"]
						require.Contains(t, bad.Status().Description, fault.Error())
						require.Zero(t, spans.sectors(t)["good"].Status())
						if mode == prover.Partition && c.step != "verify" {
							for i, part := range bad.named("partition 2") {
								require.Zero(t, i)
								require.Contains(t, part.Status().Description, fault.Error())
							}
							skipped := 0
							for _, part := range bad.children {
								if _, ok := part.attr(tracing.PartitionSkipped); ok {
									require.Zero(t, part.Status(), part.Name())
									skipped++
								}
							}
							require.Positive(t, skipped)
						}
					})
				})
			}
		}
	}
}

// TestCancel gives up a sector whose device does not notice, while another one
// is under way.
func TestCancel(t *testing.T) {
	reason := errors.New("the deal was cancelled")
	synctest.Test(t, func(t *testing.T) {
		f, spans := &fake{devices: 1, takes: map[string]time.Duration{"synthesize": 10 * time.Second}}, newSpans()
		f.hook = func(_ context.Context, s step) error {
			if s.name == "run" {
				time.Sleep(time.Minute) // whatever ctx says
			}
			return nil
		}
		rec := tracing.NewRecorder(spans, tracing.RecorderOptions{})
		p := mustNew(t, prover.Options{Backend: f, Recorder: rec, SynthesisWorkers: 2, Queue: 1})
		ctx, cancel := context.WithCancelCause(t.Context())
		start := time.Now()
		time.AfterFunc(35*time.Second, func() { cancel(reason) })
		var all sync.WaitGroup
		all.Go(func() {
			_, err := p.Prove(ctx, f.job("given up", 20))
			assert.ErrorIs(t, err, reason)
			assert.Equal(t, 35*time.Second, time.Since(start))
			_, err = p.Prove(t.Context(), f.job("given up", 1))
			assert.ErrorContains(t, err, "it is being proved already")
			_, err = p.Prove(ctx, f.job("late", 1))
			assert.ErrorIs(t, err, reason)
		})
		all.Go(func() {
			time.Sleep(time.Second)
			_, err := p.Prove(t.Context(), f.job("good", 2))
			assert.NoError(t, err)
		})
		all.Wait()
		require.NoError(t, p.Close())
		rec.Close(time.Time{})
		// One was on the device, one waited for it, three were in the queue or
		// held up a worker.
		require.ElementsMatch(t, []string{"given up/0", "good/0", "good/1"}, f.steps("run"))
		given := spans.sectors(t)["given up"]
		require.Equal(t, reason.Error(), given.Status().Description)
		states := make(map[bool]int)
		for _, part := range given.children {
			if part.Name() != tracing.SpanAdmissionWait {
				_, skipped := part.attr(tracing.PartitionSkipped)
				states[skipped]++
			}
		}
		require.Equal(t, map[bool]int{false: 1, true: 4}, states)
	})
}

// TestClose holds that closing waits for what is under way, refuses the rest,
// and may be repeated.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{devices: 2, takes: someSteps}
		p := mustNew(t, prover.Options{Backend: f, SynthesisWorkers: 1})
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				_, err := p.Prove(t.Context(), f.job(fmt.Sprint(i), 4))
				assert.NoError(t, err)
			})
		}
		synctest.Wait()
		all.Go(func() { assert.NoError(t, p.Close()) })
		synctest.Wait()
		_, err := p.Prove(t.Context(), f.job("late", 1))
		require.ErrorIs(t, err, prover.ErrClosed)
		require.NoError(t, p.Close())
		require.Len(t, f.steps("verify"), 3)
		all.Wait()
		require.Equal(t, 1, f.closed)
	})
}

func TestImpossible(t *testing.T) {
	some := &fake{devices: 1}
	for _, c := range []struct {
		o    prover.Options
		want string
	}{
		{prover.Options{}, "prover: there is no backend: choose one"},
		{prover.Options{Backend: &fake{}}, "prover: the backend fake has no device: choose another one"},
		{prover.Options{Backend: some, Mode: 7}, "prover: Mode(7) is no mode: it is partition or sector"},
		{prover.Options{Backend: some, SynthesisWorkers: -1}, "prover: there cannot be -1 synthesis workers: give at least 1, or 0 for the default"},
		{prover.Options{Backend: some, WorkersPerDevice: -2}, "prover: there cannot be -2 workers per device: give at least 1, or 0 for the default"},
		{prover.Options{Backend: some, Queue: -1}, "prover: there cannot be -1 places in the queue: give at least 1, or 0 for the default"},
		{prover.Options{Backend: some, Memory: -1}, "prover: the memory budget and the size of a partition cannot be negative"},
		{prover.Options{Backend: some, Memory: 1}, "prover: the memory budget has no meaning without the size of a partition: give both"},
		{prover.Options{Backend: some, Memory: 1, PartitionBytes: 2}, "prover: the memory budget of 1 bytes is less than the 2 that one partition takes: raise it"},
	} {
		_, err := prover.New(c.o)
		require.EqualError(t, err, c.want)
	}
	p := mustNew(t, prover.Options{Backend: some})
	defer p.Close()
	for _, c := range []struct {
		job  prover.Job
		want string
	}{
		{prover.Job{Statement: &fakeStatement{}}, `prover: job "": it has no id: give each job its own`},
		{prover.Job{ID: "a"}, `prover: job "a": it has no statement to prove`},
		{some.job("a", 0), `prover: job "a": its statement has 0 partitions: it can have 1 to 32768`},
		{prover.Job{ID: "a", Statement: (*fakeStatement)(nil)}, `prover: job "a": counting its partitions: panic: runtime error: invalid memory address or nil pointer dereference`},
	} {
		_, err := p.Prove(t.Context(), c.job)
		require.EqualError(t, err, c.want)
	}
}

func TestModeText(t *testing.T) {
	for _, m := range []prover.Mode{prover.Partition, prover.Sector} {
		text, err := m.MarshalText()
		require.NoError(t, err)
		var back prover.Mode
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, m, back)
	}
	require.EqualError(t, new(prover.Mode).UnmarshalText([]byte("whole")), `the mode "whole" is not known: it is partition or sector`)
}

// TestContext holds that the steps get the span that they run in.
func TestContext(t *testing.T) {
	f, spans := &fake{devices: 1}, newSpans()
	var mu sync.Mutex
	in := make(map[string]trace.SpanID)
	f.hook = func(ctx context.Context, s step) error {
		mu.Lock()
		defer mu.Unlock()
		in[s.name] = trace.SpanFromContext(ctx).SpanContext().SpanID()
		return nil
	}
	rec := tracing.NewRecorder(spans, tracing.RecorderOptions{})
	p := mustNew(t, prover.Options{Backend: f, Recorder: rec})
	_, err := p.Prove(t.Context(), f.job("a", 1))
	require.NoError(t, err)
	require.NoError(t, p.Close())
	rec.Close(time.Time{})
	sector := spans.sectors(t)["a"]
	part := sector.named("partition 0")[0]
	require.Equal(t, part.named(tracing.SpanSynthesis)[0].SpanContext().SpanID(), in["synthesize"])
	proof := part.named(tracing.SpanProve)[0].SpanContext().SpanID()
	require.Equal(t, []trace.SpanID{proof, proof, proof}, []trace.SpanID{in["prepare"], in["run"], in["finish"]})
	require.Equal(t, sector.named(tracing.SpanVerify)[0].SpanContext().SpanID(), in["verify"])
}

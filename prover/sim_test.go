package prover_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/prover"
	"github.com/provetrace/provetrace/prover/backend/sim"
	"github.com/provetrace/provetrace/tracing"
	"github.com/provetrace/provetrace/tracing/timeline"
)

// A simulation is a pipeline over simulated devices, with its spans and its
// journal.
type simulation struct {
	*prover.Pipeline
	b       *sim.Backend
	rec     *tracing.Recorder
	spans   *spans
	journal bytes.Buffer // of the recorder's goroutine, until it is closed
}

func simulate(t testing.TB, so sim.Options, o prover.Options) *simulation {
	t.Helper()
	s := &simulation{spans: newSpans()}
	var err error
	s.b, err = sim.New(so)
	require.NoError(t, err)
	s.rec = tracing.NewRecorder(s.spans, tracing.RecorderOptions{Backend: s.b.Name(), Devices: infos(s.b), Journal: &s.journal})
	o.Backend, o.Recorder = s.b, s.rec
	s.Pipeline = mustNew(t, o)
	return s
}

func (s *simulation) close(t testing.TB) {
	t.Helper()
	require.NoError(t, s.Close())
	s.rec.Close(time.Time{})
	require.NoError(t, s.rec.JournalErr())
}

// prove proves a simulated sector.
func (s *simulation) prove(ctx context.Context, job string, partitions int) error {
	proofs, err := s.Prove(ctx, prover.Job{ID: job, ProofKind: "porep-c2", Statement: s.b.Statement(job, partitions)})
	if err == nil && len(proofs) != partitions {
		return fmt.Errorf("%d proofs", len(proofs))
	}
	return err
}

// converted returns the run that the journal holds.
func (s *simulation) converted(t testing.TB) *run.Run {
	t.Helper()
	var runs []*run.Run
	for r, err := range run.Read(t.Context(), "journal", run.Options{}, run.Source{Name: "journal", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(s.journal.Bytes())), nil
	}}) {
		require.NoError(t, err)
		runs = append(runs, r)
	}
	require.Len(t, runs, 1)
	require.Zero(t, runs[0].Input.Malformed)
	require.Zero(t, runs[0].Input.Duplicates)
	return runs[0]
}

// TestSoak proves 200 sectors with faults, panics and cancellations.
func TestSoak(t *testing.T) {
	for _, mode := range []prover.Mode{prover.Partition, prover.Sector} {
		t.Run(mode.String(), func(t *testing.T) {
			profile, err := sim.ProfileNamed("partition")
			require.NoError(t, err)
			s := simulate(t,
				sim.Options{Durations: profile.Durations(1), Devices: 2, Scale: 1. / 20_000, Faults: sim.Faults{Seed: 2, Errors: 0.008, Panics: 0.004}},
				prover.Options{Mode: mode, SynthesisWorkers: 20, Queue: 6, Memory: 300, PartitionBytes: 10})
			const sectors = 200
			var mu sync.Mutex
			outcomes, count := make(map[string]string), make(map[string]int)
			gaveUp := errors.New("given up")
			var all sync.WaitGroup
			for i := range sectors {
				rnd := rand.New(rand.NewPCG(uint64(i), 3))
				all.Go(func() {
					time.Sleep(time.Duration(rnd.IntN(500)) * time.Millisecond)
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					if rnd.IntN(4) == 0 {
						defer time.AfterFunc(time.Duration(rnd.IntN(100))*time.Millisecond, func() { cancel(gaveUp) }).Stop()
					}
					job := fmt.Sprintf("porep-1000-%d", i)
					err := s.prove(ctx, job, 10)
					var caught *prover.Panic
					outcome := ""
					switch {
					case err == nil:
						outcome = "proved"
					case errors.Is(err, gaveUp):
						outcome = "given up"
					case errors.As(err, &caught):
						outcome = "panic"
					default:
						outcome = "fault"
						assert.ErrorContains(t, err, "simulated fault")
					}
					mu.Lock()
					outcomes[job] = outcome
					count[outcome]++
					mu.Unlock()
				})
			}
			all.Wait()
			s.close(t)
			require.Len(t, outcomes, sectors)
			for _, outcome := range []string{"proved", "given up", "panic", "fault"} {
				require.Positive(t, count[outcome], outcome)
			}
			stats := s.Stats()
			require.Equal(t, prover.Stats{Proved: stats.Proved}, stats)
			require.GreaterOrEqual(t, stats.Proved, 10*count["proved"])

			traces := s.spans.sectors(t)
			for job, outcome := range outcomes {
				if traces[job] == nil {
					require.Equal(t, "given up", outcome, job) // before it was admitted
				} else {
					require.Equal(t, outcome == "proved", traces[job].Status().Code != codes.Error, job)
				}
			}
			s.checkDevices(t)
			s.checkJournal(t, traces)
		})
	}
}

// checkDevices requires that the phases of a device never overlap.
func (s *simulation) checkDevices(t testing.TB) {
	t.Helper()
	phases := make(map[int64][]*node)
	for _, x := range s.spans.Ended() {
		switch x.Name() {
		case tracing.SpanNTTMSMH, tracing.SpanBatchAdd, tracing.SpanTailMSM:
			n := &node{ReadOnlySpan: x}
			device, ok := n.attr(tracing.DeviceOrdinal)
			require.True(t, ok)
			phases[device.AsInt64()] = append(phases[device.AsInt64()], n)
		}
	}
	require.Len(t, phases, len(s.b.Devices()))
	for _, all := range phases {
		slices.SortFunc(all, func(a, b *node) int {
			return cmp.Or(a.StartTime().Compare(b.StartTime()), a.EndTime().Compare(b.EndTime()))
		})
		for i, n := range all[1:] {
			require.False(t, n.StartTime().Before(all[i].EndTime()), "%s and %s overlap", all[i].Name(), n.Name())
		}
	}
}

// checkJournal requires that the journal, converted, has the tree of the spans:
// the same partitions, workers, devices and ends, at the same times to 1 ms, as
// well as the wall clock.
func (s *simulation) checkJournal(t testing.TB, sectors map[string]*node) {
	t.Helper()
	r := s.converted(t)
	require.Equal(t, run.EpochEngineLog, r.Epoch.Source)
	start, err := time.Parse(time.RFC3339Nano, strings.Fields(s.journal.String())[0])
	require.NoError(t, err)
	require.Less(t, r.Epoch.Time.Sub(start).Abs(), time.Millisecond)
	near := func(what string, wall time.Time, ms int64) {
		t.Helper()
		require.InDelta(t, wall.Sub(start).Milliseconds(), ms, 1, what)
	}
	begun := 0
	for _, n := range sectors {
		if len(n.children) > 0 {
			begun++
		}
	}
	require.Len(t, r.Sectors, begun)
	for _, got := range r.Sectors {
		n := sectors[got.Job]
		require.NotNil(t, n, got.Job)
		reason, failed := got.Failed()
		require.Equal(t, n.Status().Code == codes.Error, failed)
		if failed {
			require.NotEmpty(t, reason)
		}
		parts := make(map[int]*node)
		for _, c := range n.children {
			if index, ok := c.attr(tracing.PartitionIndex); ok {
				parts[int(index.AsInt64())] = c
			}
		}
		if len(parts) == 0 {
			parts[timeline.WholeSector] = n
		} else {
			require.Equal(t, 10, got.Count)
		}
		require.Equal(t, len(parts), got.Len())
		for p := range got.Partitions() {
			what := fmt.Sprint(got.Job, " ", p.Index)
			c := parts[p.Index]
			require.NotNil(t, c, what)
			state := run.Finished
			if _, skipped := c.attr(tracing.PartitionSkipped); skipped {
				state = run.Skipped
			} else if c.Status().Code == codes.Error && (p.Index >= 0 || len(c.named(tracing.SpanVerify)) == 0) {
				state = run.Failed
				require.Equal(t, c.Status().Description, p.Failure)
			}
			require.Equal(t, state, p.State, what)
			for _, phase := range []struct {
				name     string
				from, to run.Boundary
			}{{tracing.SpanSynthesis, run.SynthStart, run.SynthEnd}, {tracing.SpanQueueWait, run.Queued, run.PickedUp}, {tracing.SpanProve, run.GPUStart, run.GPUEnd}} {
				what := what + " " + phase.name
				spans := c.named(phase.name)
				require.LessOrEqual(t, len(spans), 1, what)
				require.Equal(t, len(spans) == 1, p.Known(phase.from), what)
				require.Equal(t, len(spans) == 1, p.Known(phase.to), what)
				if len(spans) == 0 {
					continue
				}
				near(what+" start", spans[0].StartTime(), p.Times[phase.from])
				near(what+" end", spans[0].EndTime(), p.Times[phase.to])
				if phase.name == tracing.SpanProve {
					worker, _ := spans[0].attr(tracing.GPUWorker)
					device, _ := spans[0].attr(tracing.DeviceOrdinal)
					require.Equal(t, []int64{worker.AsInt64(), device.AsInt64()}, []int64{int64(p.Worker), int64(p.Device)}, what)
				}
			}
		}
	}
}

// TestProfiles holds what comes of each profile against the figures of the
// experiment that it is of: the share of the active window in which a device's
// workers proved, the time of a proof on the device, and the time for a sector.
// A virtual clock moves the time of synctest, so that all is as long as it says.
func TestProfiles(t *testing.T) {
	for _, c := range []struct {
		name                         string
		utilization, proof, perProof [2]float64 // between; s
	}{
		{"whole-sector", [2]float64{0.68, 0.74}, [2]float64{26, 28}, [2]float64{37, 41}},
		{"partition", [2]float64{0.99, 1}, [2]float64{6, 8}, [2]float64{36.5, 38.5}},
		{"split", [2]float64{0.65, 0.91}, [2]float64{4.2, 6}, [2]float64{36, 39}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				profile, err := sim.ProfileNamed(c.name)
				require.NoError(t, err)
				clock := new(sim.VirtualClock)
				s := simulate(t, sim.Options{Durations: profile.Durations(1), Clock: clock}, options(profile))
				const sectors = 40 // so many that it hardly matters who draws which duration
				var mu sync.Mutex
				var ends []time.Time
				for i := range sectors {
					go func() {
						assert.NoError(t, s.prove(t.Context(), fmt.Sprint("porep-1000-", i), profile.Partitions))
						mu.Lock()
						defer mu.Unlock()
						ends = append(ends, time.Now())
					}()
				}
				for synctest.Wait(); len(ends) < sectors; synctest.Wait() {
					next, ok := clock.Next()
					require.True(t, ok)
					time.Sleep(next - clock.Now())
					clock.Advance(next)
				}
				s.close(t)

				var proofs [][2]time.Time
				var durations []time.Duration
				for _, x := range s.spans.Ended() {
					if x.Name() == tracing.SpanProve && hasWorker(x) {
						proofs = append(proofs, [2]time.Time{x.StartTime(), x.EndTime()})
						durations = append(durations, x.EndTime().Sub(x.StartTime()))
					}
				}
				slices.Sort(durations)
				busy, window := union(proofs)
				within := func(what string, got float64, bounds [2]float64) {
					t.Logf("%s: %.4g", what, got)
					assert.GreaterOrEqual(t, got, bounds[0], what)
					assert.LessOrEqual(t, got, bounds[1], what)
				}
				within("utilization", busy.Seconds()/window.Seconds(), c.utilization)
				within("s on the device", durations[len(durations)/2].Seconds(), c.proof)
				within("s/proof", ends[sectors-1].Sub(ends[0]).Seconds()/(sectors-1), c.perProof)
			})
		})
	}
}

// options returns the settings of a profile.
func options(p sim.Profile) prover.Options {
	o := prover.Options{SynthesisWorkers: p.SynthesisWorkers, WorkersPerDevice: p.WorkersPerDevice, InlineFinish: p.InlineFinish}
	if p.WholeSectors {
		o.Mode = prover.Sector
	}
	return o
}

// hasWorker tells a proof from the extent of a sector's proofs in the run's
// trace.
func hasWorker(x sdktrace.ReadOnlySpan) bool {
	_, ok := (&node{ReadOnlySpan: x}).attr(tracing.GPUWorker)
	return ok
}

// union returns how long at least one of the intervals lasts, and from the
// first start to the last end.
func union(intervals [][2]time.Time) (busy, window time.Duration) {
	slices.SortFunc(intervals, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
	end := intervals[0][0]
	for _, i := range intervals {
		if i[0].After(end) {
			end = i[0]
		}
		if i[1].After(end) {
			busy += i[1].Sub(end)
			end = i[1]
		}
	}
	return busy, end.Sub(intervals[0][0])
}

// TestKilled converts the journal of a run that did not end: what was begun is
// there, as unfinished.
func TestKilled(t *testing.T) {
	const second = time.Second
	s := simulate(t, sim.Options{Scale: 1. / 1000, Durations: func(string, int) sim.Durations {
		return sim.Durations{Synthesis: []sim.Phase{{Duration: second}}, Device: []sim.Phase{{Name: "msm h", Duration: second}}}
	}}, prover.Options{SynthesisWorkers: 2})
	require.NoError(t, s.prove(t.Context(), "porep-1000-1", 10))
	s.close(t)
	whole := s.journal.Bytes()
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for _, n := range []int{len(lines) / 3, 2 * len(lines) / 3, len(lines) - 2} {
		s.journal = *bytes.NewBuffer(bytes.Join(lines[:n], nil))
		r := s.converted(t)
		require.Len(t, r.Sectors, 1)
		require.Equal(t, run.Incomplete, r.Sectors[0].State())
		require.Equal(t, 10, r.Sectors[0].Count)
	}
	s.journal = *bytes.NewBuffer(whole)
	require.Equal(t, run.Finished, s.converted(t).Sectors[0].State())

	// Another run in the same file is a run of its own.
	twice := append(slices.Clip(whole), whole...)
	runs := 0
	for r, err := range run.Read(t.Context(), "journal", run.Options{}, run.Source{Name: "journal", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(twice)), nil
	}}) {
		require.NoError(t, err)
		require.Len(t, r.Sectors, 1)
		require.Equal(t, run.Finished, r.Sectors[0].State())
		runs++
	}
	require.Equal(t, 2, runs)
}

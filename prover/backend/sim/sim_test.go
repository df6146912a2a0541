package sim

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/provetrace/provetrace/prover/backend"
	"github.com/provetrace/provetrace/tracing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixed returns the same durations for each partition.
func fixed(d Durations) DurationsFunc {
	return func(string, int) Durations { return d }
}

func mustNew(t testing.TB, o Options) *Backend {
	b, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func TestOptions(t *testing.T) {
	some := fixed(Durations{})
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "no durations"},
		{Options{Durations: some, Devices: -1}, "-1 devices"},
		{Options{Durations: some, Scale: -1}, "scale -1"},
		{Options{Durations: some, Scale: math.NaN()}, "scale NaN"},
		{Options{Durations: some, Scale: math.Inf(1)}, "scale +Inf"},
		{Options{Durations: some, Faults: Faults{Errors: 0.6, Panics: 0.6}}, "0.6 errors and 0.6 panics"},
		{Options{Durations: some, Faults: Faults{Errors: math.NaN()}}, "NaN errors"},
	} {
		_, err := New(c.o)
		require.ErrorContains(t, err, c.want)
	}
	require.Len(t, mustNew(t, Options{Durations: some}).Devices(), 1)
	require.Equal(t, "sim", mustNew(t, Options{Durations: some}).Name())
	_, err := ProfileNamed("none")
	require.ErrorContains(t, err, "choose one of whole-sector, partition, split")
}

// TestSteps holds the phases told against the durations: none is shorter, and
// they follow each other without a gap.
func TestSteps(t *testing.T) {
	b := mustNew(t, Options{Devices: 2, Scale: 0.5, Durations: fixed(Durations{
		Synthesis: []Phase{{tracing.SpanWitness, 4 * time.Millisecond}, {tracing.SpanConstraints, 2 * time.Millisecond}},
		Prepare:   2 * time.Millisecond,
		Device:    []Phase{{"ntt h", 2 * time.Millisecond}, {"msm h", 6 * time.Millisecond}},
		Finish:    []Phase{{"msm b_g2", 2 * time.Millisecond}},
	})})
	var names []string
	var ends []time.Time
	told := func(name string, start, end time.Time) {
		names = append(names, name)
		ends = append(ends, start, end)
	}
	var parts []string
	start := time.Now()
	_, err := b.Statement("a", 1).Synthesize(t.Context(), 0, func(name string) { parts = append(parts, name) })
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(start), 3*time.Millisecond)
	require.Equal(t, []string{tracing.SpanWitness, tracing.SpanConstraints}, parts)

	device := b.Devices()[1]
	require.Equal(t, tracing.Device{Ordinal: 1, Name: "simulated GPU", Model: "simulated GPU"}, device.Info())
	p, err := device.Prepare(t.Context(), backend.Task{Job: "a"})
	require.NoError(t, err)
	require.NoError(t, p.Run(t.Context(), told))
	require.Equal(t, ends[1], ends[2])
	require.Equal(t, time.Millisecond, ends[1].Sub(ends[0]))
	require.GreaterOrEqual(t, ends[3].Sub(ends[2]), 3*time.Millisecond)
	_, err = p.Finish(t.Context(), told)
	require.NoError(t, err)
	p.Release()
	require.Equal(t, []string{"ntt h", "msm h", "msm b_g2"}, names)
}

// TestCancel holds that a step ends with its context, and that only the phases
// which are over are told.
func TestCancel(t *testing.T) {
	b := mustNew(t, Options{Durations: fixed(Durations{
		Synthesis: []Phase{{tracing.SpanWitness, time.Hour}},
		Device:    []Phase{{"ntt h", 0}, {"msm h", time.Hour}},
	})})
	p, err := b.Devices()[0].Prepare(t.Context(), backend.Task{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	var names []string
	require.ErrorIs(t, p.Run(ctx, func(name string, _, _ time.Time) { names = append(names, name) }), context.Canceled)
	require.Equal(t, []string{"ntt h"}, names)
	_, err = b.Statement("a", 1).Synthesize(ctx, 0, func(string) {})
	require.ErrorIs(t, err, context.Canceled)
}

func TestClosed(t *testing.T) {
	b := mustNew(t, Options{Durations: fixed(Durations{Prepare: time.Hour})})
	require.NoError(t, b.Close())
	_, err := b.Devices()[0].Prepare(t.Context(), backend.Task{})
	require.ErrorIs(t, err, errClosed)
}

func TestFaults(t *testing.T) {
	const n = 4000
	count := func(f Faults) (failed, panicked int, which []int) {
		for i := range n {
			func() {
				defer func() {
					if recover() != nil {
						panicked++
						which = append(which, i)
					}
				}()
				if f.at("run", "a", i) != nil {
					failed++
					which = append(which, -i)
				}
			}()
		}
		return failed, panicked, which
	}
	failed, panicked, which := count(Faults{Seed: 1, Errors: 0.2, Panics: 0.1})
	assert.InDelta(t, 0.2*n, failed, 0.05*n)
	assert.InDelta(t, 0.1*n, panicked, 0.05*n)
	_, _, again := count(Faults{Seed: 1, Errors: 0.2, Panics: 0.1})
	require.Equal(t, which, again)
	_, _, other := count(Faults{Seed: 2, Errors: 0.2, Panics: 0.1})
	require.NotEqual(t, which, other)
	failed, panicked, _ = count(Faults{})
	require.Zero(t, failed+panicked)
}

// TestProfiles holds the averages of each profile's durations against its
// figures.
func TestProfiles(t *testing.T) {
	for _, p := range Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			named, err := ProfileNamed(p.Name)
			require.NoError(t, err)
			require.Equal(t, p, named)
			durations := p.Durations(7)
			require.Equal(t, durations("a", 3), durations("a", 3))
			require.NotEqual(t, durations("a", 3), durations("b", 3))
			const n = 1000
			var synthesis, device time.Duration
			for i := range n {
				d := durations("a", i)
				for _, ph := range d.Synthesis {
					synthesis += ph.Duration
				}
				for _, ph := range d.Device {
					device += ph.Duration
				}
			}
			require.InEpsilon(t, p.Synthesis, synthesis/n, 0.01)
			require.InEpsilon(t, p.Device, device/n, 0.01)
		})
	}
}

// TestClock has many sleep at once, on both kinds of alarm: none wakes early.
func TestClock(t *testing.T) {
	for name, a := range map[string]alarm{"this system's": newAlarm(), "timer": newTimer()} {
		t.Run(name, func(t *testing.T) {
			c := &clock{alarm: a}
			c.done.Go(c.run)
			defer c.close()
			cancelled, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					for n := range 5 {
						at := time.Now().Add(time.Duration(1+(i*7+n)%20) * 100 * time.Microsecond)
						assert.NoError(t, c.until(t.Context(), at))
						assert.False(t, time.Now().Before(at), "woken early")
					}
				})
				all.Go(func() {
					if err := c.until(cancelled, time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
						t.Errorf("sleep was not cancelled: %v", err)
					}
				})
			}
			cancel()
			all.Wait()
			require.NoError(t, c.until(t.Context(), time.Now().Add(-time.Second)))
		})
	}
}

// BenchmarkSleep reports by how much the clock and the runtime's timers are late
// on a step of 2 ms.
func BenchmarkSleep(b *testing.B) {
	const step = 2 * time.Millisecond
	c := newClock()
	defer c.close()
	for _, s := range []struct {
		name  string
		sleep func()
	}{
		{"clock", func() { _ = c.until(context.Background(), time.Now().Add(step)) }},
		{"time.Sleep", func() { time.Sleep(step) }},
	} {
		b.Run(s.name, func(b *testing.B) {
			for b.Loop() {
				s.sleep()
			}
			b.ReportMetric(float64(b.Elapsed()/time.Duration(b.N)-step)/1e3, "µs-late")
		})
	}
}

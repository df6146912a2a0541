package sim

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/prover/backend"
)

// TestVirtualClock holds that steps end in the order of their times and then of
// their beginnings, one with each advance, and that time passes only then.
func TestVirtualClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock VirtualClock
		b := mustNew(t, Options{Clock: &clock, Durations: func(job string, partition int) Durations {
			return Durations{Prepare: time.Duration(partition) * time.Hour}
		}})
		_, some := clock.Next()
		require.False(t, some)

		var ended []string
		for _, c := range []struct {
			job       string
			partition int
		}{{"a", 2}, {"b", 1}, {"c", 2}, {"d", 0}} {
			go func() {
				_, err := b.Devices()[0].Prepare(t.Context(), backend.Task{Job: c.job, Partition: c.partition})
				assert.NoError(t, err)
				ended = append(ended, c.job)
			}()
			synctest.Wait()
		}
		require.Equal(t, []string{"d"}, ended)
		require.Equal(t, 3, clock.Steps())
		for _, c := range []struct {
			to   time.Duration
			want []string
		}{
			{30 * time.Minute, []string{"d"}},
			{time.Hour, []string{"d", "b"}},
			{2 * time.Hour, []string{"d", "b", "a"}},
			{time.Hour, []string{"d", "b", "a", "c"}}, // it does not go back
			{3 * time.Hour, []string{"d", "b", "a", "c"}},
		} {
			clock.Advance(c.to)
			synctest.Wait()
			require.Equal(t, c.want, ended)
		}
		require.Equal(t, 3*time.Hour, clock.Now())
	})
}

// TestVirtualPhases holds the phases told to the virtual time.
func TestVirtualPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock VirtualClock
		b := mustNew(t, Options{Clock: &clock, Durations: fixed(Durations{Device: []Phase{{"ntt h", time.Second}, {"msm h", time.Minute}}})})
		var told []time.Duration
		go func() {
			p, err := b.Devices()[0].Prepare(t.Context(), backend.Task{})
			assert.NoError(t, err)
			assert.NoError(t, p.Run(t.Context(), func(_ string, start, end time.Time) { told = append(told, end.Sub(start)) }))
		}()
		synctest.Wait()
		next, some := clock.Next()
		require.True(t, some)
		require.Equal(t, time.Minute+time.Second, next)
		clock.Advance(next)
		synctest.Wait()
		require.Equal(t, []time.Duration{time.Second, time.Minute}, told)

		ctx, cancel := context.WithCancel(t.Context())
		var err error
		go func() {
			p, _ := b.Devices()[0].Prepare(ctx, backend.Task{})
			err = p.Run(ctx, func(string, time.Time, time.Time) {})
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		require.ErrorIs(t, err, context.Canceled)
	})
}

package sim

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A clock wakes sleepers at their times. It has one alarm and one goroutine for
// all of them, since the runtime's own timers can be late by 1 ms, which is much
// of a step that is scaled down. It sets the alarm early, by as much as sleepers
// have been late so far, and they spin away what is left: some 20 µs.
type clock struct {
	alarm alarm
	lead  atomic.Int64 // by which the alarm is early, ns

	mu       sync.Mutex
	sleepers sleepers
	closed   bool
	done     sync.WaitGroup
}

// An alarm rings once, after a time.
type alarm interface {
	set(time.Duration)
	ring() bool // waits for the alarm, and says whether it can ring again
	close()
}

type sleeper struct {
	at   time.Time
	turn uint64 // among those of the same time, in a VirtualClock
	wake chan struct{}
}

type sleepers []sleeper

func (s sleepers) Len() int { return len(s) }
func (s sleepers) Less(i, j int) bool {
	return cmp.Or(s[i].at.Compare(s[j].at), cmp.Compare(s[i].turn, s[j].turn)) < 0
}
func (s sleepers) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *sleepers) Push(x any)   { *s = append(*s, x.(sleeper)) }
func (s *sleepers) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	(*s)[last] = sleeper{}
	*s = (*s)[:last]
	return x
}

const (
	maxLead   = 200 * time.Microsecond // so that little is spun where a machine is too busy
	margin    = 10 * time.Microsecond  // by which sleepers are to be woken early
	smoothing = 16                     // sleepers that make half of the lead, about
)

var errClosed = errors.New("the simulation is closed")

func newClock() *clock {
	c := &clock{alarm: newAlarm()}
	c.done.Go(c.run)
	return c
}

func (c *clock) time() time.Time { return time.Now() }

// until sleeps until a time, or until ctx is done.
func (c *clock) until(ctx context.Context, at time.Time) error {
	if time.Until(at) <= 0 {
		return ctx.Err()
	}
	s := sleeper{at: at, wake: make(chan struct{})}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return errClosed
	}
	heap.Push(&c.sleepers, s)
	if c.sleepers[0].wake == s.wake {
		c.set(at)
	}
	c.mu.Unlock()
	select {
	case <-s.wake:
	case <-ctx.Done():
		return ctx.Err()
	}
	late := min(time.Since(at), maxLead) + margin
	lead := time.Duration(c.lead.Load())
	c.lead.Store(int64(min(max(lead+late/smoothing, 0), maxLead)))
	for time.Now().Before(at) {
		runtime.Gosched()
	}
	return nil
}

// set sets the alarm for a time.
func (c *clock) set(at time.Time) {
	c.alarm.set(time.Until(at) - time.Duration(c.lead.Load()))
}

// run is the clock's goroutine.
func (c *clock) run() {
	for c.alarm.ring() {
		c.mu.Lock()
		due := time.Now().Add(time.Duration(c.lead.Load()))
		for len(c.sleepers) > 0 && !c.sleepers[0].at.After(due) {
			close(heap.Pop(&c.sleepers).(sleeper).wake)
		}
		if len(c.sleepers) > 0 && !c.closed {
			c.set(c.sleepers[0].at)
		}
		c.mu.Unlock()
	}
}

// close ends the clock. Nobody sleeps any more.
func (c *clock) close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		c.alarm.close()
	}
	c.mu.Unlock()
	c.done.Wait()
}

// A timer is an alarm by the runtime's timers.
type timer struct {
	timer  *time.Timer
	closed chan struct{}
}

func newTimer() *timer {
	t := &timer{time.NewTimer(time.Hour), make(chan struct{})}
	t.timer.Stop()
	return t
}

func (t *timer) set(d time.Duration) { t.timer.Reset(d) }

func (t *timer) ring() bool {
	select {
	case <-t.timer.C:
		return true
	case <-t.closed:
		return false
	}
}

func (t *timer) close() { close(t.closed) }

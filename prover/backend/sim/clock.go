package sim

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"
)

// A clock wakes sleepers at their times. It has one alarm and one goroutine for
// all of them, since the runtime's own timers can be late by 1 ms, which is much
// of a step that is scaled down.
type clock struct {
	alarm alarm

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
	wake chan struct{}
}

type sleepers []sleeper

func (s sleepers) Len() int           { return len(s) }
func (s sleepers) Less(i, j int) bool { return s[i].at.Before(s[j].at) }
func (s sleepers) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *sleepers) Push(x any)        { *s = append(*s, x.(sleeper)) }
func (s *sleepers) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	(*s)[last] = sleeper{}
	*s = (*s)[:last]
	return x
}

var errClosed = errors.New("the simulation is closed")

func newClock() *clock {
	c := &clock{alarm: newAlarm()}
	c.done.Go(c.run)
	return c
}

// until sleeps until a time, or until ctx is done.
func (c *clock) until(ctx context.Context, at time.Time) error {
	left := time.Until(at)
	if left <= 0 {
		return ctx.Err()
	}
	s := sleeper{at, make(chan struct{})}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return errClosed
	}
	heap.Push(&c.sleepers, s)
	if c.sleepers[0].wake == s.wake {
		c.alarm.set(left)
	}
	c.mu.Unlock()
	select {
	case <-s.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run is the clock's goroutine.
func (c *clock) run() {
	for c.alarm.ring() {
		c.mu.Lock()
		now := time.Now()
		for len(c.sleepers) > 0 && !c.sleepers[0].at.After(now) {
			close(heap.Pop(&c.sleepers).(sleeper).wake)
		}
		if len(c.sleepers) > 0 && !c.closed {
			c.alarm.set(c.sleepers[0].at.Sub(now))
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

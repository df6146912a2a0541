package sim

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// A VirtualClock is a time that stands still until it is advanced, and that
// passes in no time then: what takes minutes is simulated in milliseconds, and
// no step takes longer since the machine is busy.
//
// Whoever advances it has to know that all is done that can be done at the
// present time, since the goroutines that are to do it are not waited for.
type VirtualClock struct {
	mu       sync.Mutex
	now      time.Time // by a calendar of its own, which begins at the zero time
	sleepers sleepers
	begun    uint64 // sleeps
}

// Now returns how much time has passed.
func (c *VirtualClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.Sub(time.Time{})
}

// Steps returns how many steps are under way.
func (c *VirtualClock) Steps() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sleepers)
}

// Next returns when the next step ends, and false if none is under way.
func (c *VirtualClock) Next() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sleepers) == 0 {
		return 0, false
	}
	return c.sleepers[0].at.Sub(time.Time{}), true
}

// Advance moves the clock to a time, unless it is there already, and ends one of
// the steps that are over by then: the one that ends first, and among these the
// one that began first.
func (c *VirtualClock) Advance(to time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := (time.Time{}).Add(to); at.After(c.now) {
		c.now = at
	}
	if len(c.sleepers) > 0 && !c.sleepers[0].at.After(c.now) {
		close(heap.Pop(&c.sleepers).(sleeper).wake)
	}
}

func (c *VirtualClock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *VirtualClock) until(ctx context.Context, at time.Time) error {
	c.mu.Lock()
	if !at.After(c.now) {
		c.mu.Unlock()
		return ctx.Err()
	}
	c.begun++
	s := sleeper{at: at, turn: c.begun, wake: make(chan struct{})}
	heap.Push(&c.sleepers, s)
	c.mu.Unlock()
	select {
	case <-s.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *VirtualClock) close() {}

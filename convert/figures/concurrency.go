package figures

import "math"

// A synthesis is one of which both ends are known.
type synthesis struct{ start, end int64 }

// concurrency finds out how many syntheses ran at once, and what that did to
// them.
func (c *collector) concurrency() Concurrency {
	b := newBeside(&c.syntheses)
	for _, s := range c.timed {
		b.add(s.start, s.end)
	}
	return b.figures()
}

// A beside relates how long the syntheses took to how many ran beside them.
type beside struct {
	all *intervals
	max int // at once

	// For how long, taken together, syntheses have run until each start and
	// until each end, and where the latest ones looked at are.
	doneAtStart, doneAtEnd []int64
	start, end             int

	n          float64
	x, y       float64 // means
	xx, xy, yy float64 // sums of the products of the distances from the means
}

// newBeside returns a beside of sorted intervals.
func newBeside(all *intervals) *beside {
	n := len(all.starts)
	b := &beside{all: all, doneAtStart: make([]int64, n), doneAtEnd: make([]int64, n)}
	ended, sum := 0, int64(0) // of the ends without the starts
	for i, t := range all.starts {
		for ; ended < n && all.ends[ended] <= t; ended++ {
			sum += all.ends[ended]
		}
		b.doneAtStart[i] = int64(i-ended)*t + sum
		b.max = max(b.max, i+1-ended)
		sum -= t
	}
	started, sum := 0, int64(0)
	for i, t := range all.ends {
		for ; started < n && all.starts[started] <= t; started++ {
			sum -= all.starts[started]
		}
		b.doneAtEnd[i] = int64(started-i)*t + sum
		sum += t
	}
	return b
}

// add adds one of the syntheses, of which the intervals have both ends. The sums
// are kept as in B. P. Welford, "Note on a method for calculating corrected sums
// of squares and products", Technometrics 4 (1962), so that they stay exact
// however many there are.
func (b *beside) add(start, end int64) {
	if end == start {
		return
	}
	b.start, b.end = before(b.all.starts, start, b.start), before(b.all.ends, end, b.end)
	took := float64(end - start)
	others := float64(b.doneAtEnd[b.end]-b.doneAtStart[b.start])/took - 1
	b.n++
	dx, dy := others-b.x, took-b.y
	b.x += dx / b.n
	b.y += dy / b.n
	b.xx += dx * (others - b.x)
	b.xy += dx * (took - b.y)
	b.yy += dy * (took - b.y)
}

func (b *beside) figures() Concurrency {
	c := Concurrency{Max: b.max}
	if length := b.all.length(); length > 0 {
		c.Mean = known(float64(b.all.sum) / float64(length))
	}
	// What hardly varies tells nothing.
	if spread := math.Sqrt(b.xx / b.n); b.n > 2 && spread > 0.01 && b.yy > 0 {
		c.SlopeMS = known(b.xy / b.xx)
		c.Correlation = known(b.xy / math.Sqrt(b.xx*b.yy))
	}
	return c
}

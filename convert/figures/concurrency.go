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
	all      *intervals
	past     [2][]int64 // sums of the starts, and of the ends, before each
	from, to cursor

	n          float64
	x, y       float64 // means
	xx, xy, yy float64 // sums of the products of the distances from the means
}

// newBeside returns a beside of sorted intervals.
func newBeside(all *intervals) *beside {
	b := &beside{all: all, from: cursor{in: all}, to: cursor{in: all}}
	for i, times := range [...][]int64{all.starts, all.ends} {
		b.past[i] = make([]int64, len(times)+1)
		for j, t := range times {
			b.past[i][j+1] = b.past[i][j] + t
		}
	}
	return b
}

// done returns for how long, taken together, syntheses have run until a time, to
// which it moves a cursor.
func (b *beside) done(t int64, c *cursor) int64 {
	c.move(t)
	return int64(c.started-c.ended)*t - b.past[0][c.started] + b.past[1][c.ended]
}

// add adds one of the syntheses. The sums are kept as in B. P. Welford, "Note
// on a method for calculating corrected sums of squares and products",
// Technometrics 4 (1962), so that they stay exact however many there are.
func (b *beside) add(start, end int64) {
	if end == start {
		return
	}
	took := float64(end - start)
	others := float64(b.done(end, &b.to)-b.done(start, &b.from))/took - 1
	b.n++
	dx, dy := others-b.x, took-b.y
	b.x += dx / b.n
	b.y += dy / b.n
	b.xx += dx * (others - b.x)
	b.xy += dx * (took - b.y)
	b.yy += dy * (took - b.y)
}

func (b *beside) figures() Concurrency {
	var c Concurrency
	ended := 0
	for i, start := range b.all.starts {
		for ended < len(b.all.ends) && b.all.ends[ended] <= start {
			ended++
		}
		c.Max = max(c.Max, i+1-ended)
	}
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

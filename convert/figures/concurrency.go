package figures

import (
	"math"

	"github.com/provetrace/provetrace/convert/run"
)

// concurrency finds out how many syntheses ran at once, and what that did to
// them.
func (c *collector) concurrency(r *run.Run) Concurrency {
	c.syntheses.sort()
	b := newBeside(&c.syntheses)
	for _, s := range r.Sectors {
		for p := range s.Partitions() {
			start, end := p.Times[run.SynthStart], p.Times[run.SynthEnd]
			if start != run.Unknown && end != run.Unknown && start >= c.scope.From && end <= c.scope.Until() {
				b.add(start, end)
			}
		}
	}
	return b.figures()
}

// A beside relates how long the syntheses took to how many ran beside them.
type beside struct {
	all  *intervals
	past [2][]int64 // sums of the starts, and of the ends, before each
	near [2][2]int

	n          float64
	x, y       float64 // means
	xx, xy, yy float64 // sums of the products of the distances from the means
}

// newBeside returns a beside of sorted intervals.
func newBeside(all *intervals) *beside {
	b := &beside{all: all}
	for i, times := range [...][]int64{all.starts, all.ends} {
		b.past[i] = make([]int64, len(times)+1)
		for j, t := range times {
			b.past[i][j+1] = b.past[i][j] + t
		}
	}
	return b
}

// done returns for how long, taken together, syntheses have run until a time.
func (b *beside) done(t int64, near *[2]int) int64 {
	near[0], near[1] = before(b.all.starts, t, near[0]), before(b.all.ends, t, near[1])
	started, ended := near[0], near[1]
	return int64(started-ended)*t - b.past[0][started] + b.past[1][ended]
}

// add adds one of the syntheses. The sums are kept as in B. P. Welford, "Note
// on a method for calculating corrected sums of squares and products",
// Technometrics 4 (1962), so that they stay exact however many there are.
func (b *beside) add(start, end int64) {
	if end == start {
		return
	}
	took := float64(end - start)
	others := float64(b.done(end, &b.near[1])-b.done(start, &b.near[0]))/took - 1
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
	for i, start := range b.all.starts {
		c.Max = max(c.Max, i+1-before(b.all.ends, start+1, max(i-c.Max, 0)))
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

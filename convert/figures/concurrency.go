package figures

import "math"

// Syntheses are some of which it is told how many ran beside each.
type syntheses struct {
	starts []int64
	ends   []int64 // of the same; the complement where it is not the synthesis's own, or the start is not
}

func newSyntheses(n int) syntheses {
	return syntheses{starts: make([]int64, 0, n), ends: make([]int64, 0, n)}
}

func (s *syntheses) between(i, j int) syntheses {
	return syntheses{starts: s.starts[i:i:j], ends: s.ends[i:i:j]}
}

func (s *syntheses) append(o *syntheses) {
	s.starts, s.ends = behind(s.starts, o.starts), behind(s.ends, o.ends)
}

// add adds a synthesis, and whether that is all of it.
func (s *syntheses) add(start, end int64, all bool) {
	if !all {
		end = ^end
	}
	s.starts, s.ends = append(s.starts, start), append(s.ends, end)
}

// concurrency finds out how many syntheses ran at once, and what that did to
// them.
func (c *collector) concurrency() Concurrency {
	s := &c.syntheses
	n := len(s.starts)
	sortWith(s.starts, s.ends)
	ends := make([]int64, n) // in order
	for i, end := range s.ends {
		ends[i] = max(end, ^end)
	}
	sortTimes(ends)

	// For how long, taken together, syntheses have run until each end.
	done := make([]int64, n)
	started, sum := 0, int64(0) // of the ends without the starts
	for i, t := range ends {
		for ; started < n && s.starts[started] <= t; started++ {
			sum -= s.starts[started]
		}
		done[i] = int64(started-i)*t + sum
		sum += t
	}

	var f fit
	atOnce := 0
	ended, sum, place := 0, int64(0), 0
	for i, t := range s.starts {
		for ; ended < n && ends[ended] <= t; ended++ {
			sum += ends[ended]
		}
		atOnce = max(atOnce, i+1-ended)
		if end := s.ends[i]; end > t {
			place = before(ends, end, place)
			took := float64(end - t)
			f.add(float64(done[place]-int64(i-ended)*t-sum)/took-1, took)
		}
		sum -= t
	}
	figures := Concurrency{Max: atOnce}
	if length := c.synthesizing.length(); length > 0 {
		figures.Mean = known(float64(c.synthesizing.sum) / float64(length))
	}
	// What hardly varies tells nothing.
	if spread := math.Sqrt(f.xx / f.n); f.n > 2 && spread > 0.01 && f.yy > 0 {
		figures.SlopeMS = known(f.xy / f.xx)
		figures.Correlation = known(f.xy / math.Sqrt(f.xx*f.yy))
	}
	return figures
}

// A fit relates two quantities by least squares. The sums are kept as in B. P.
// Welford, "Note on a method for calculating corrected sums of squares and
// products", Technometrics 4 (1962), so that they stay exact however many there
// are.
type fit struct {
	n          float64
	x, y       float64 // means
	xx, xy, yy float64 // sums of the products of the distances from the means
}

func (f *fit) add(x, y float64) {
	f.n++
	dx, dy := x-f.x, y-f.y
	f.x += dx / f.n
	f.y += dy / f.n
	f.xx += dx * (x - f.x)
	f.xy += dx * (y - f.y)
	f.yy += dy * (y - f.y)
}

package figures

import (
	"slices"

	"github.com/provetrace/provetrace/convert/run"
)

// causes finds out why the devices were idle.
func (c *collector) causes(r *run.Run) {
	var gaps counts
	for _, g := range c.f.GPUs {
		for _, idle := range g.Idle {
			gaps.at = append(gaps.at, idle.StartMS)
		}
	}
	if len(gaps.at) == 0 {
		return
	}
	gaps.prepare()
	for _, s := range r.Sectors {
		for p := range s.Partitions() {
			if start, end, known := synthesisOf(s, &p); known {
				gaps.add(synthesizing, start, end)
			}
			if start, end, known := readyOf(s, &p); known {
				gaps.add(ready, start, end)
			}
		}
	}
	gaps.sum()
	for i := range c.f.GPUs {
		g := &c.f.GPUs[i]
		for j := range g.Idle {
			g.Idle[j].Cause = c.cause(&gaps, c.devices[*g.Ordinal], g.Idle[j].StartMS)
		}
	}
}

// cause returns why a device fell idle at a time, by the rules of the span
// contract: what the pipeline does just after that is the cause. What happened
// at one instant counts as done together.
func (c *collector) cause(gaps *counts, d *device, at int64) Cause {
	i, _ := slices.BinarySearch(gaps.at, at)
	switch {
	case d.endless.open(at):
		return UnknownCause // it may have been busy
	case gaps.n[ready][i] > 0:
		return Handoff
	case gaps.n[synthesizing][i] > 0:
		return Synthesizing
	case c.startless:
		return UnknownCause // one may have been synthesized
	default:
		return NoWork
	}
}

// Counts counts, at each of some times, the partitions in a state.
type counts struct {
	at   []int64 // ascending
	n    [2][]int32
	near [4]int // where the ends of the latest intervals were
}

// The states that matter to an idle device.
const (
	ready = iota
	synthesizing
)

func (c *counts) prepare() {
	slices.Sort(c.at)
	c.at = slices.Compact(c.at)
	for i := range c.n {
		c.n[i] = make([]int32, len(c.at)+1)
	}
}

// add counts an interval, its start included and its end not.
func (c *counts) add(state int, start, end int64) {
	from, to := &c.near[2*state], &c.near[2*state+1]
	*from, *to = before(c.at, start, *from), before(c.at, end, *to)
	c.n[state][*from]++
	c.n[state][*to]--
}

// sum makes counts of the changes that add has noted.
func (c *counts) sum() {
	for _, n := range c.n {
		for i := 1; i < len(n); i++ {
			n[i] += n[i-1]
		}
	}
}

// before returns how many of the ascending times are before t. It looks around
// near first: most of what follows each other in a run is close in time.
func before(times []int64, t int64, near int) int {
	lo, hi := near, near
	for step := 1; hi < len(times) && times[hi] < t; step *= 2 {
		lo, hi = hi+1, hi+step
	}
	for step := 1; lo > 0 && times[lo-1] >= t; step *= 2 {
		lo, hi = max(lo-step, 0), lo-1
	}
	hi = min(hi, len(times))
	i, _ := slices.BinarySearch(times[lo:hi], t)
	return lo + i
}

// open reports whether an interval is open at a time: it has started and not
// ended. The intervals must be sorted.
func (v *intervals) open(at int64) bool {
	return before(v.starts, at+1, 0) > before(v.ends, at+1, 0)
}

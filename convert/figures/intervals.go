package figures

import "sort"

// Intervals are stretches of time in ms, kept as their starts and their ends:
// how many are open at a time needs both in order, and not which belong
// together.
type intervals struct {
	starts, ends []int64
	sum          int64 // of the lengths
}

// fewIntervals is how many there is room for at first. What takes less than a
// cache line can lie beside what other cores read, who then wait for each change.
const fewIntervals = 16

func (v *intervals) add(start, end int64) {
	if v.starts == nil {
		*v = newIntervals(fewIntervals)
	}
	v.starts = append(v.starts, start)
	v.ends = append(v.ends, end)
	v.sum += end - start
}

// cover adds an interval of which nothing but the union with the others is
// wanted: if it touches the last one, it becomes a part of that.
func (v *intervals) cover(start, end int64) {
	if last := len(v.starts) - 1; last >= 0 && start <= v.ends[last] && end >= v.starts[last] {
		v.starts[last], v.ends[last] = min(v.starts[last], start), max(v.ends[last], end)
		v.sum += end - start
		return
	}
	v.add(start, end)
}

func (v *intervals) reset() { v.starts, v.ends, v.sum = v.starts[:0], v.ends[:0], 0 }

// newIntervals returns intervals with room for n.
func newIntervals(n int) intervals {
	return intervals{starts: make([]int64, 0, n), ends: make([]int64, 0, n)}
}

// between returns the room from one of the intervals to another.
func (v *intervals) between(i, j int) intervals {
	return intervals{starts: v.starts[i:i:j], ends: v.ends[i:i:j]}
}

// append adds other intervals, which may lie in the room.
func (v *intervals) append(o *intervals) {
	v.starts, v.ends = behind(v.starts, o.starts), behind(v.ends, o.ends)
	v.sum += o.sum
}

// behind returns all with a part of its room appended, which mostly is where it
// belongs: only if others were not filled it has to be moved.
func behind[T any](all, part []T) []T {
	n := len(all)
	if to := n + len(part); n < to && to <= cap(all) && &all[:to][n] == &part[0] {
		return all[:to]
	}
	return append(all, part...)
}

func (v *intervals) sort() {
	sortTimes(v.starts)
	sortTimes(v.ends)
}

// sortTimes sorts times that are nearly in order, as those of a run are: few
// sectors are under way at once. Others it leaves to a general sort.
func sortTimes(times []int64) { sortWith(times, nil) }

// sortWith sorts times as sortTimes does, and something that belongs to each, if
// it is not nil, with them.
func sortWith(times, with []int64) {
	const far = 64 // places that a time is from its own, on average
	for i, moves := 1, 0; i < len(times); i++ {
		t := times[i]
		if times[i-1] <= t {
			continue
		}
		j := i
		for ; j > 0 && times[j-1] > t; j-- {
			times[j] = times[j-1]
		}
		times[j] = t
		if with != nil {
			w := with[i]
			copy(with[j+1:], with[j:i])
			with[j] = w
		}
		if moves += i - j; moves > far*i+far*far {
			sort.Sort(timesWith{times, with})
			return
		}
	}
}

// timesWith has the general sort do what sortWith does.
type timesWith struct{ times, with []int64 }

func (t timesWith) Len() int           { return len(t.times) }
func (t timesWith) Less(i, j int) bool { return t.times[i] < t.times[j] }
func (t timesWith) Swap(i, j int) {
	t.times[i], t.times[j] = t.times[j], t.times[i]
	if t.with != nil {
		t.with[i], t.with[j] = t.with[j], t.with[i]
	}
}

// stretches yields those in which at least one interval is open, in order. The
// intervals must be sorted. Those that touch are one.
func (v *intervals) stretches(yield func(start, end int64) bool) {
	for i, n := 0, len(v.starts); i < n; {
		start := v.starts[i]
		// All that have started are over when the next start is later than the
		// end of as many.
		for i++; i < n && v.starts[i] <= v.ends[i-1]; i++ {
		}
		if !yield(start, v.ends[i-1]) {
			return
		}
	}
}

// length returns for how long at least one interval is open: from the first
// start to the last end, without the holes. The intervals must be sorted.
func (v *intervals) length() int64 {
	last := len(v.starts) - 1
	if last < 0 {
		return 0
	}
	ms := v.ends[last] - v.starts[0]
	for i, end := range v.ends[:last] {
		ms -= max(v.starts[i+1]-end, 0)
	}
	return ms
}

// A cursor stands at a time among sorted intervals. It finds another one fast
// that is near, as most of what follows each other in a run is.
type cursor struct {
	in             *intervals
	started, ended int // intervals, before the time
}

func (c *cursor) move(t int64) {
	c.started, c.ended = before(c.in.starts, t, c.started), before(c.in.ends, t, c.ended)
}

// open reports whether an interval is open at a time: it has started and not
// ended.
func (c *cursor) open(at int64) bool {
	c.move(at + 1)
	return c.started > c.ended
}

// before returns how many of the ascending times are before t. It looks around
// near first.
func before(times []int64, t int64, near int) int {
	lo, hi := near, near
	for step := 1; hi < len(times) && times[hi] < t; step *= 2 {
		lo, hi = hi+1, hi+step
	}
	for step := 1; lo > 0 && times[lo-1] >= t; step *= 2 {
		lo, hi = max(lo-step, 0), lo-1
	}
	for hi = min(hi, len(times)); lo < hi; {
		if mid := int(uint(lo+hi) / 2); times[mid] < t {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// A union is the time in which at least one of some intervals is open. What
// overlaps is merged whenever there is twice as much as after the last time, so
// that a union takes hardly more room than it has stretches.
type union struct {
	intervals     // sum is that of all that were added
	merged    int // of the intervals, how many there were after the last merge
}

func (u *union) add(start, end int64) {
	u.cover(start, end)
	if len(u.starts) >= 2*u.merged+1024 {
		u.merge()
	}
}

// merge makes of the intervals the stretches in which one is open, in order.
func (u *union) merge() {
	u.sort()
	n := 0
	for start, end := range u.stretches { // of which no more are written than were read
		u.starts[n], u.ends[n] = start, end
		n++
	}
	u.starts, u.ends, u.merged = u.starts[:n], u.ends[:n], n
}

// extent returns when the first stretch of a merged union starts, and when the
// last ends. It must have some.
func (u *union) extent() (start, end int64) { return u.starts[0], u.ends[len(u.ends)-1] }

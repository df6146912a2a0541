package figures

import "slices"

// Intervals are stretches of time in ms, kept as their starts and their ends:
// how many are open at a time needs both in order, and not which belong
// together.
type intervals struct {
	starts, ends []int64
	sum          int64 // of the lengths
}

func (v *intervals) add(start, end int64) {
	v.starts = append(v.starts, start)
	v.ends = append(v.ends, end)
	v.sum += end - start
}

// append adds other intervals.
func (v *intervals) append(o *intervals) {
	v.starts = append(v.starts, o.starts...)
	v.ends = append(v.ends, o.ends...)
	v.sum += o.sum
}

func (v *intervals) reset() { v.starts, v.ends, v.sum = v.starts[:0], v.ends[:0], 0 }

// grow makes room for n intervals more.
func (v *intervals) grow(n int) {
	v.starts, v.ends = slices.Grow(v.starts, n), slices.Grow(v.ends, n)
}

func (v *intervals) sort() {
	sortTimes(v.starts)
	sortTimes(v.ends)
}

// sortTimes sorts times that are nearly in order, as those of a run are: few
// sectors are under way at once. Others it leaves to a general sort.
func sortTimes(times []int64) {
	const far = 64 // places that a time is from its own, on average
	for i, moves := 1, 0; i < len(times); i++ {
		t, j := times[i], i
		for ; j > 0 && times[j-1] > t; j-- {
			times[j] = times[j-1]
		}
		times[j] = t
		if moves += i - j; moves > far*i+far*far {
			slices.Sort(times)
			return
		}
	}
}

// union yields the stretches in which at least one interval is open, in order.
// The intervals must be sorted. Those that touch are one.
func (v *intervals) union(yield func(start, end int64) bool) {
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

// length returns the length of the union. The intervals must be sorted.
func (v *intervals) length() int64 {
	var ms int64
	for start, end := range v.union {
		ms += end - start
	}
	return ms
}

package figures

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawIntervals draws intervals, and all ms that lie in one.
func drawIntervals(t *rapid.T) (v intervals, in [200]int) {
	for range rapid.IntRange(1, 12).Draw(t, "n") {
		start := rapid.Int64Range(0, 99).Draw(t, "start")
		end := start + rapid.Int64Range(0, 99).Draw(t, "length")
		v.add(start, end)
		for ms := start; ms < end; ms++ {
			in[ms]++
		}
	}
	v.sort()
	return v, in
}

func TestUnionIsOfIntervals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, in := drawIntervals(t)
		var got [200]int
		last := int64(-1)
		for start, end := range v.stretches {
			if start <= last || end < start {
				t.Fatalf("[%d, %d] follows what ended at %d", start, end, last)
			}
			last = end
			for ms := start; ms < end; ms++ {
				got[ms] = 1
			}
		}
		var length, sum int64
		for ms, n := range in {
			if min(n, 1) != got[ms] {
				t.Errorf("at %d: %d in the union, of %d intervals", ms, got[ms], n)
			}
			length += int64(min(n, 1))
			sum += int64(n)
		}
		if v.length() != length || v.sum != sum {
			t.Errorf("the union is %d long, the sum %d; want %d and %d", v.length(), v.sum, length, sum)
		}
	})
}

// A union that merges on the way has the stretches of its intervals, in whatever
// order these come, and so has one that is put together of two.
func TestUnionMerges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		apart, long := rapid.Int64Range(1, 20).Draw(t, "apart"), rapid.Int64Range(1, 40).Draw(t, "long")
		var all intervals
		var got union
		for range rapid.IntRange(1, 2).Draw(t, "parts") {
			var part union
			for i := range rapid.Int64Range(0, 3000).Draw(t, "n") {
				start := i*apart + random.Int64N(1000)
				end := start + random.Int64N(long)
				all.add(start, end)
				part.add(start, end)
			}
			part.merge()
			got.append(&part.intervals)
		}
		all.sort()
		got.merge()
		var want intervals
		for start, end := range all.stretches {
			want.add(start, end)
		}
		if !slices.Equal(got.starts, want.starts) || !slices.Equal(got.ends, want.ends) || got.sum != all.sum {
			t.Errorf("the union, %d ms of intervals:\n%d\n%d\nwant %d ms:\n%d\n%d", got.sum, got.starts, got.ends, all.sum, want.starts, want.ends)
		}
	})
}

// Parts of a room are put together, whether they fill it or not.
func TestPartsOfRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rooms := rapid.SliceOfN(rapid.IntRange(0, 20), 1, 5).Draw(t, "rooms")
		at := 0
		for _, n := range rooms {
			at += n
		}
		all := newSyntheses(at)
		var want syntheses
		var parts []syntheses
		at = 0
		for _, n := range rooms {
			part := all.between(at, at+n)
			at += n
			for range rapid.IntRange(0, n).Draw(t, "filled") {
				start, isAll := rapid.Int64Range(0, 30).Draw(t, "start"), rapid.Bool().Draw(t, "all")
				part.add(start, start+5, isAll)
				want.add(start, start+5, isAll)
			}
			parts = append(parts, part)
		}
		for i := range parts {
			all.append(&parts[i])
		}
		if !slices.Equal(all.starts, want.starts) || !slices.Equal(all.ends, want.ends) {
			t.Errorf("the parts are\n%d\n%d\nwant\n%d\n%d", all.starts, all.ends, want.starts, want.ends)
		}
	})
}

// Syntheses count the same by one ms after the other.
func TestConcurrencyIsOfIntervals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c collector
		var in [200]int
		var whole [][2]int64
		for range rapid.IntRange(1, 12).Draw(t, "n") {
			start := rapid.Int64Range(0, 99).Draw(t, "start")
			end, all := start+rapid.Int64Range(0, 99).Draw(t, "length"), rapid.Bool().Draw(t, "all")
			c.synthesizing.add(start, end)
			c.syntheses.add(start, end, all)
			for ms := start; ms < end; ms++ {
				in[ms]++
			}
			if all && start < end {
				whole = append(whole, [2]int64{start, end})
			}
		}
		c.synthesizing.merge()
		var x, y []float64
		for _, s := range whole {
			sum := 0
			for ms := s[0]; ms < s[1]; ms++ {
				sum += in[ms]
			}
			length := float64(s[1] - s[0])
			x, y = append(x, float64(sum)/length-1), append(y, length)
		}
		got := c.concurrency()
		if most := slices.Max(in[:]); most > 0 && got.Max < most {
			t.Errorf("at most %d ran at once, not %d", got.Max, most)
		}
		slope, correlation := regression(x, y)
		if got.SlopeMS == nil {
			return
		}
		if math.Abs(*got.SlopeMS-slope) > 1e-6*max(1, math.Abs(slope)) || math.Abs(*got.Correlation-correlation) > 1e-9 {
			t.Errorf("slope %v, correlation %v, want %v, %v", *got.SlopeMS, *got.Correlation, slope, correlation)
		}
	})
}

// regression is least squares as in a textbook.
func regression(x, y []float64) (slope, correlation float64) {
	n := float64(len(x))
	var sx, sy float64
	for i := range x {
		sx += x[i]
		sy += y[i]
	}
	var xx, xy, yy float64
	for i := range x {
		dx, dy := x[i]-sx/n, y[i]-sy/n
		xx += dx * dx
		xy += dx * dy
		yy += dy * dy
	}
	return xy / xx, xy / math.Sqrt(xx*yy)
}

func TestBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOf(rapid.Int64Range(0, 50)).Draw(t, "times")
		slices.Sort(times)
		at := rapid.Int64Range(-1, 51).Draw(t, "at")
		near := rapid.IntRange(0, len(times)).Draw(t, "near")
		want, _ := slices.BinarySearch(times, at)
		if got := before(times, at, near); got != want {
			t.Errorf("%d times are before %d in %v, not %d", want, at, times, got)
		}
	})
}

func TestSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64(), 0, 300).Draw(t, "times")
		want := slices.Sorted(slices.Values(times))
		with := slices.Clone(times)
		if sortWith(times, with); !slices.Equal(times, want) || !slices.Equal(with, want) {
			t.Errorf("%v is not sorted, or what belongs to it: %v", times, with)
		}
		ms := rapid.SliceOfN(rapid.Int32Range(0, rapid.Int32Range(0, 5000).Draw(t, "most")), 1, 300).Draw(t, "ms")
		sorted := slices.Sorted(slices.Values(ms))
		if sortDurations(ms); !slices.Equal(ms, sorted) {
			t.Errorf("%v is not sorted", ms)
		}
	})
	backwards := make([]int64, 100_000)
	for i := range backwards {
		backwards[i] = int64(-i)
	}
	with := slices.Clone(backwards)
	if sortWith(backwards, with); !slices.IsSorted(backwards) || !slices.IsSorted(with) {
		t.Error("what is in the reverse order is not sorted")
	}
}

func TestPercentile(t *testing.T) {
	for _, test := range []struct {
		n        int
		p50, p95 int64
	}{{1, 1, 1}, {2, 1, 2}, {4, 2, 4}, {20, 10, 19}, {21, 11, 20}, {100, 50, 95}, {1000, 500, 950}} {
		ms := make([]int32, test.n)
		for i := range ms {
			ms[i] = int32(test.n - i)
		}
		d := newDistribution(ms)
		if *d.P50MS != test.p50 || *d.P95MS != test.p95 {
			t.Errorf("of 1 to %d, p50 is %d and p95 %d", test.n, *d.P50MS, *d.P95MS)
		}
	}
}

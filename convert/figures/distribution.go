package figures

import "slices"

// A Distribution says how durations are distributed.
type Distribution struct {
	N      int      `json:"n"`
	MeanMS *float64 `json:"mean_ms"`
	P50MS  *int64   `json:"p50_ms"`
	P95MS  *int64   `json:"p95_ms"`
	MinMS  *int64   `json:"min_ms"`
	MaxMS  *int64   `json:"max_ms"`

	// Sorted are the durations themselves, in ms.
	Sorted []int32 `json:"-"`
}

// newDistribution returns the distribution of durations, which it sorts.
func newDistribution(ms []int32) Distribution {
	d := Distribution{N: len(ms), Sorted: ms}
	if d.N == 0 {
		return d
	}
	sortDurations(ms)
	var sum int64
	for _, v := range ms {
		sum += int64(v)
	}
	mean := float64(sum) / float64(d.N)
	d.MeanMS = &mean
	d.P50MS, d.P95MS = d.percentile(50), d.percentile(95)
	d.MinMS, d.MaxMS = known(int64(ms[0])), known(int64(ms[d.N-1]))
	return d
}

// sortDurations sorts durations by counting where their range is small beside
// their number, as it is in a long run.
func sortDurations(ms []int32) {
	lo, hi := ms[0], ms[0]
	for _, v := range ms {
		lo, hi = min(lo, v), max(hi, v)
	}
	if int64(hi)-int64(lo) > int64(len(ms)) {
		slices.Sort(ms)
		return
	}
	counts := make([]int32, hi-lo+1)
	for _, v := range ms {
		counts[v-lo]++
	}
	i := 0
	for v, n := range counts {
		for range n {
			ms[i] = lo + int32(v)
			i++
		}
	}
}

// percentile returns the smallest duration that at least p percent of all do
// not exceed: the nearest rank, so that it is one that occurred.
func (d *Distribution) percentile(p int) *int64 {
	rank := (d.N*p + 99) / 100 // from 1
	return known(int64(d.Sorted[rank-1]))
}

func known[T any](v T) *T { return &v }

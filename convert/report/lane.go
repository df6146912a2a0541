package report

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/run"
)

// A stage is what a sector is in.
type stage uint8

const (
	stageUnfinished stage = iota // began, and nothing tells how it ended
	stageWaiting
	stageSynthesis
	stageProving
	stageBoth // some partitions synthesized, others proved
	numStages

	stageNone = numStages
)

// A lane finds out what a sector was in, at finest samples a column. It counts
// starts and ends only, so that a partition costs the same however long.
type lane struct {
	start  int64
	scale  float64 // samples a ms
	within span
	diff   [stageBoth][]int32
}

func newLane(columns int, start int64, perCol float64, within span) *lane {
	l := &lane{start: start, scale: finest / perCol, within: within}
	for i := range l.diff {
		l.diff[i] = make([]int32, columns*finest+1)
	}
	return l
}

// partition covers the lane with a partition's stages. What began and has no
// end known is unfinished until then.
func (l *lane) partition(p run.Partition, until int64) {
	ready, taken := run.SynthEnd, run.GPUStart
	if !p.Known(ready) {
		ready = run.Queued
	}
	if !p.Known(taken) {
		taken = run.PickedUp
	}
	l.cover(stageSynthesis, p.Times[run.SynthStart], p.Times[run.SynthEnd])
	l.cover(stageWaiting, p.Times[ready], p.Times[taken])
	l.cover(stageProving, p.Times[run.GPUStart], p.Times[run.GPUEnd])
	if p.State == run.Incomplete && !p.Known(run.GPUEnd) {
		l.cover(stageUnfinished, slices.Max(p.Times[:]), until)
	}
}

// cover marks a stretch of time, where both ends are known. Work is never too
// short to be seen, waits can be.
func (l *lane) cover(s stage, start, end int64) {
	if start == run.Unknown || end == run.Unknown || end < start || end < l.within.start || start > l.within.end {
		return
	}
	start, end = max(start, l.within.start), min(end, l.within.end)
	lo, hi := l.sample(start), l.sample(end)
	if lo == hi && s >= stageSynthesis {
		lo = min(lo, len(l.diff[s])-2)
		hi = lo + 1
	}
	l.diff[s][lo]++
	l.diff[s][hi]--
}

func (l *lane) sample(t int64) int {
	i := math.Round(float64(t-l.start) * l.scale)
	return int(min(max(i, 0), float64(len(l.diff[0])-1)))
}

// columns yields what each column shows: the stage that takes most of its
// time, as far as it takes any.
func (l *lane) columns() iter.Seq2[int, stage] {
	return func(yield func(int, stage) bool) {
		var open [stageBoth]int32
		for col := range (len(l.diff[0]) - 1) / finest {
			var seen [numStages]int
			for i := col * finest; i < (col+1)*finest; i++ {
				for s := range open {
					open[s] += l.diff[s][i]
				}
				switch {
				case open[stageSynthesis] > 0 && open[stageProving] > 0:
					seen[stageBoth]++
				case open[stageProving] > 0:
					seen[stageProving]++
				case open[stageSynthesis] > 0:
					seen[stageSynthesis]++
				case open[stageWaiting] > 0:
					seen[stageWaiting]++
				case open[stageUnfinished] > 0:
					seen[stageUnfinished]++
				}
			}
			most := stageNone
			for s := stageUnfinished; s < numStages; s++ {
				if seen[s] > 0 && (most == stageNone || seen[s] >= seen[most]) {
					most = s
				}
			}
			if !yield(col, most) {
				return
			}
		}
	}
}

// gpuLanes collects what the devices did in the extent that is drawn.
type gpuLanes struct {
	devices map[int]*gpuLane
}

type gpuLane struct {
	proving, kernels union
	proofs, timed    int // proofs, and those whose phases are known
}

func (g *gpuLanes) add(s waterfallSector, extent span) {
	for p := range s.partitions {
		proving := span{p.Times[run.GPUStart], p.Times[run.GPUEnd]}
		if proving.start == run.Unknown || proving.end == run.Unknown ||
			proving.end < extent.start || proving.start > extent.end {
			continue
		}
		d := g.devices[p.Device]
		if d == nil {
			if g.devices == nil {
				g.devices = make(map[int]*gpuLane)
			}
			d = new(gpuLane)
			g.devices[p.Device] = d
		}
		d.proving.add(proving, extent)
		d.proofs++
		timed := false
		for ph := range p.Phases() {
			if figures.OnDevice(ph.Name) {
				d.kernels.add(span{ph.Start, ph.End}, extent)
				timed = true
			}
		}
		if timed {
			d.timed++
		}
	}
}

// ordinals returns the devices that worked, the unknown one last.
func (g *gpuLanes) ordinals() []int {
	var ns []int
	for n := range g.devices {
		ns = append(ns, n)
	}
	slices.SortFunc(ns, func(a, b int) int {
		// Unknown is negative, so the largest unsigned number.
		return cmp.Compare(uint(a), uint(b))
	})
	return ns
}

// A union is a set of times, kept as spans. What overlaps is merged whenever
// the list has doubled, so it holds little more than the holes' number.
type union struct {
	spans  []span
	merged int // of spans, after the last merge
}

func (u *union) add(s, within span) {
	s.start, s.end = max(s.start, within.start), min(s.end, within.end)
	if s.end < s.start {
		return
	}
	u.spans = append(u.spans, s)
	if len(u.spans) >= 2*u.merged+1024 {
		u.merge()
	}
}

// merge sorts the spans and joins those that overlap or touch.
func (u *union) merge() {
	slices.SortFunc(u.spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	out := u.spans[:0]
	for _, s := range u.spans {
		if n := len(out); n > 0 && s.start <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, s.end)
		} else {
			out = append(out, s)
		}
	}
	u.spans, u.merged = out, len(out)
}

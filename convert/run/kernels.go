package run

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/provetrace/provetrace/convert/enginelog"
)

// CUDA timings name no partition and no time of their own. What they have is
// their place among the events, and arithmetic: the time from GPU_START to the
// lock's release (total_start_fn) is preparation, wait and hold. So a group of
// timings is given to the partition on which all of this fits.
const (
	sumSlack   = 4  // ms: each of the summed timings is cut to whole ms
	fitSlack   = 2  // ms: events are cut to whole ms as well
	fitAtMost  = 12 // ms: a partition on which a group fits worse is not its own
	maxPending = 64 // what waits for what belongs to it
	maxParts   = 24 // likewise, where each is tried with each: more than there are devices
)

// A span of offsets in ms, within which a line was written.
type written struct{ from, to int64 }

// off returns how far an offset is outside.
func (w written) off(at int64) int64 {
	switch {
	case at < w.from-fitSlack:
		return w.from - at
	case at > w.to+fitSlack:
		return at - w.to
	}
	return 0
}

// A hold is one use of a device lock in the making.
type hold struct {
	prepare, wait int64 // ms
	taken         written
	held, total   int64 // ms, once it is over
	over          written
	phases        [4]int64 // ntt, barrier, batch, tail: ms, or Unknown
}

// A timing is a value that waits for what it belongs to.
type timing struct {
	thread, ms, total int64
}

// kernels gives CUDA timings to partitions.
type kernels struct {
	a    *assembly
	last int64 // offset of the latest event

	used   bool // there are timings; before the first, the latest starts are enough
	recent [maxRecent]recentStart
	next   int

	open      []hold        // locks taken
	over      []hold        // locks released, to be given once the next event is known
	undecided []hold        // given, and they fit on more than one partition
	parts     [4][]timing   // by the places in hold.phases
	tails     []bg2         // G2 MSMs, to be given to the partition that ends next
	active    []active      // partitions between GPU_START and the end of their kernels
	free      map[int]int64 // when each device's lock was last released, by ordinal
	fresh     bool          // lines were added since the last event
}

// maxRecent is how many workers may be proving when the first timing comes.
const maxRecent = 32

// A recentStart is a partition that a worker began to prove.
type recentStart struct {
	sector *Sector
	index  int32
}

type bg2 struct {
	ms int64
	at written
}

// active is a partition that may hold, or wait for, a device lock.
type active struct {
	sector *Sector
	index  int32
	start  int64 // GPU_START, ms
	device int
	end    int64 // GPU_END, or Unknown
}

// add adds the values of one line.
func (k *kernels) add(d *enginelog.Durations) {
	if !k.used {
		k.used = true
		k.recall()
	}
	for _, ms := range [...]int64{d.PreLock, d.Wait, d.NTTMSMH, d.Barrier, d.Batch, d.Tail, d.Total, d.Held, d.StartFn, d.BG2} {
		if ms > maxSpan/2 {
			return
		}
	}
	at := written{k.last, k.last}
	k.fresh = true
	if d.PreLock >= 0 {
		k.open = bounded(k, append(k.open, hold{prepare: d.PreLock, wait: max(d.Wait, 0), taken: at}))
	}
	for i, ms := range [...]int64{d.NTTMSMH, d.Barrier, d.Batch, d.Tail} {
		if ms >= 0 {
			k.parts[i] = append(k.parts[i], timing{d.Thread, ms, d.Total})
			if len(k.parts[i]) > maxParts {
				k.parts[i] = slices.Delete(k.parts[i], 0, 1)
			}
		}
	}
	if d.BG2 >= 0 {
		k.tails = append(k.tails, bg2{d.BG2, at})
		if len(k.tails) > maxPending {
			k.tails = slices.Delete(k.tails, 0, 1)
		}
	}
	if d.Held >= 0 && d.StartFn >= 0 {
		k.release(d.Held, d.StartFn, at)
	}
}

// bounded drops the oldest hold where there are too many.
func bounded(k *kernels, holds []hold) []hold {
	if len(holds) > maxPending {
		k.a.run.Input.Orphans++
		return slices.Delete(holds, 0, 1)
	}
	return holds
}

// release ends the hold that the sum of its parts fits.
func (k *kernels) release(held, total int64, at written) {
	best, fit := -1, int64(sumSlack+1)
	for i, h := range k.open {
		if d := abs(total - held - h.prepare - h.wait); d < fit {
			best, fit = i, d
		}
	}
	if best < 0 {
		k.a.run.Input.Orphans++
		return
	}
	h := k.open[best]
	k.open = slices.Delete(k.open, best, best+1)
	h.held, h.total, h.over = held, total, at
	h.phases = k.phases(held)
	if len(k.open) == 0 {
		for i := range k.parts {
			k.parts[i] = k.parts[i][:0]
		}
	}
	k.over = bounded(k, append(k.over, h))
}

// phases takes the phases of a hold out of those that wait: the thread whose
// own total is the time for which the lock was held, and the combination of
// its values that adds up to that.
func (k *kernels) phases(held int64) [4]int64 {
	unknown := [4]int64{Unknown, Unknown, Unknown, Unknown}
	const tail = 3
	last := -1
	for i, t := range k.parts[tail] {
		if t.total >= 0 && abs(held-t.total) <= sumSlack && (last < 0 || abs(held-t.total) < abs(held-k.parts[tail][last].total)) {
			last = i
		}
	}
	if last < 0 {
		return unknown
	}
	end := k.parts[tail][last]
	best, fit := [4]int{-1, -1, -1, last}, int64(sumSlack+1)
	for i, ntt := range k.parts[0] {
		for j, batch := range k.parts[2] {
			if ntt.thread != end.thread || batch.thread != end.thread {
				continue
			}
			for b := -1; b < len(k.parts[1]); b++ { // there may be no barrier line
				var barrier int64
				if b >= 0 {
					if k.parts[1][b].thread != end.thread {
						continue
					}
					barrier = k.parts[1][b].ms
				}
				if d := abs(end.total - ntt.ms - barrier - batch.ms - end.ms); d < fit || d == fit && best[1] < 0 && b >= 0 {
					best, fit = [4]int{i, b, j, last}, d
				}
			}
		}
	}
	if best[0] < 0 {
		return unknown
	}
	var ms [4]int64
	for i, n := range best {
		if n >= 0 {
			ms[i] = k.parts[i][n].ms
			k.parts[i] = slices.Delete(k.parts[i], n, n+1)
		}
	}
	return ms
}

// started notes a partition that may take a lock.
func (k *kernels) started(s *Sector, p *packed) {
	if !k.used {
		k.recent[k.next] = recentStart{s, p.index}
		k.next = (k.next + 1) % len(k.recent)
		return
	}
	k.active = append(k.active, active{s, p.index, s.base + int64(p.t[GPUStart]), k.deviceOf(p.worker), Unknown})
	if len(k.active) > maxPending {
		k.active = slices.Delete(k.active, 0, 1)
	}
}

// recall makes the partitions active that had started before the first timing
// was seen, and not ended.
func (k *kernels) recall() {
	for i := range k.recent {
		if r := k.recent[(k.next+i)%len(k.recent)]; r.sector != nil {
			if p := r.sector.find(r.index); p.t[GPUEnd] == absent {
				k.started(r.sector, p)
			}
		}
	}
}

// deviceOf returns the device of a worker as far as it is known by now.
func (k *kernels) deviceOf(worker int16) int {
	if d, ok := k.a.workers[worker]; ok {
		return int(d)
	}
	if n := k.a.o.WorkersPerDevice; n > 0 && worker >= 0 {
		return int(worker) / n
	}
	return 0
}

// event closes the stretch of the log in which the lines since the last event
// were written, and gives the holds in it that are over.
func (k *kernels) event(offset int64) {
	if !k.used {
		k.last = max(offset, k.last)
		return
	}
	if k.fresh {
		k.fresh = false
		for i := range k.open {
			if h := &k.open[i]; h.taken.to == k.last {
				h.taken.to = max(offset, k.last)
			}
		}
		for i := range k.tails {
			if t := &k.tails[i]; t.at.to == k.last {
				t.at.to = max(offset, k.last)
			}
		}
		for _, h := range k.over {
			h.over.to = max(offset, k.last)
			if h.taken.to == h.taken.from && h.taken.from == k.last {
				h.taken.to = h.over.to
			}
			k.give(h)
		}
		k.over = k.over[:0]
	}
	k.last = max(offset, k.last)
	if len(k.undecided) > 0 || len(k.active) < 8 {
		return
	}
	// Partitions that have ended wait a little for lines out of order.
	k.active = slices.DeleteFunc(k.active, func(p active) bool { return p.end != Unknown && p.end < k.last-fitAtMost })
}

// maxUndecided and maxCandidates bound the search for the partitions that
// holds are of.
const (
	maxUndecided  = 3
	maxCandidates = 8
)

// give gives a hold to the partition on which it fits. Where two workers start
// together, a hold can fit on either; the holds that follow then decide, since
// each has to fit behind the one before.
func (k *kernels) give(h hold) {
	k.undecided = append(k.undecided, h)
	for len(k.undecided) > 0 {
		best, cost, second := k.search(k.undecided, k.active, k.free)
		if best >= 0 && cost == second && len(k.undecided) < maxUndecided {
			return // the next hold may tell
		}
		h := k.undecided[0]
		k.undecided = slices.Delete(k.undecided, 0, 1)
		if best < 0 || cost == second || h.phases[0] == Unknown {
			k.a.run.Input.Orphans++
			continue
		}
		k.assign(h, best)
	}
}

// search returns which of the partitions the first of the holds is of, such
// that all of them fit best, how much they misfit then, and how much with the
// first on any other partition.
func (k *kernels) search(holds []hold, parts []active, free map[int]int64) (best int, cost, second int64) {
	type candidate struct {
		part   int
		misfit int64
	}
	var candidates []candidate
	h := &holds[0]
	for i := range parts {
		if m := h.misfit(&parts[i], free); m <= fitAtMost {
			candidates = append(candidates, candidate{i, m})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.misfit, b.misfit) })
	candidates = candidates[:min(len(candidates), maxCandidates)]
	best, cost, second = -1, math.MaxInt64, math.MaxInt64
	for _, c := range candidates {
		total := c.misfit
		if len(holds) > 1 {
			p := parts[c.part]
			after := maps.Clone(free)
			if after == nil {
				after = make(map[int]int64)
			}
			after[p.device] = p.start + h.total
			_, rest, _ := k.search(holds[1:], slices.Delete(slices.Clone(parts), c.part, c.part+1), after)
			if rest > math.MaxInt64/2 {
				rest = math.MaxInt64 / 2
			}
			total += rest
		}
		switch {
		case total < cost:
			best, cost, second = c.part, total, cost
		case total < second:
			second = total
		}
	}
	return best, cost, second
}

// misfit returns by how many ms the hold cannot be the partition's.
func (h *hold) misfit(p *active, free map[int]int64) int64 {
	taken, over := p.start+h.prepare+h.wait, p.start+h.total
	m := h.taken.off(taken) + h.over.off(over)
	if p.end != Unknown && over > p.end+sumSlack {
		m += over - p.end
	}
	if was, ok := free[p.device]; ok {
		switch {
		case taken < was-sumSlack: // another held the lock
			m += was - taken
		case h.wait > sumSlack && taken > was+sumSlack: // nobody to wait for
			m += taken - was
		}
	}
	return m
}

// assign gives a hold to one of the active partitions.
func (k *kernels) assign(h hold, i int) {
	p := k.active[i]
	k.active = slices.Delete(k.active, i, i+1)
	part := p.sector.find(p.index)
	// The sums of cut values drift by some ms; the device's own phases still
	// never overlap.
	taken := p.start + h.prepare + h.wait
	if was, ok := k.free[p.device]; ok && taken < was {
		taken = was
	}
	n, t := k.a.run.timings.add()
	*t = timings{
		acquired: p.sector.relative(taken), prepare: int32(h.prepare), wait: int32(h.wait),
		ntt: int32(h.phases[0]), barrier: int32(h.phases[1]), batch: int32(h.phases[2]), tail: int32(h.phases[3]),
		bg2: Unknown,
	}
	part.timings = n
	k.a.run.Input.Timings++
	if k.free == nil {
		k.free = make(map[int]int64)
	}
	k.free[p.device] = p.sector.base + int64(t.released())
	if p.end != Unknown {
		k.giveTail(p.sector, part)
	}
}

// ended notes the end of a partition's proof.
func (k *kernels) ended(s *Sector, p *packed) {
	if !k.used {
		return
	}
	for i := range k.active {
		if q := &k.active[i]; q.sector == s && q.index == p.index {
			q.end = s.base + int64(p.t[GPUEnd])
		}
	}
	if p.timings != Unknown {
		k.giveTail(s, p)
	}
}

// giveTail gives a partition the G2 MSM that began with the lock's release and
// whose end is the proof's.
func (k *kernels) giveTail(s *Sector, p *packed) {
	end := s.base + int64(p.t[GPUEnd])
	t := k.a.run.timings.at(p.timings)
	over := s.base + int64(t.released())
	best, fit := -1, int64(fitAtMost+1)
	for i, g := range k.tails {
		if d := abs(over+g.ms-end) + g.at.off(end); d < fit {
			best, fit = i, d
		}
	}
	if best < 0 {
		return
	}
	ms := min(k.tails[best].ms, end-over)
	k.tails = slices.Delete(k.tails, best, best+1)
	if ms >= 0 {
		t.bg2Start, t.bg2 = s.relative(end-ms), int32(ms)
	}
}

func abs(n int64) int64 { return max(n, -n) }

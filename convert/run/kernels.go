package run

import (
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

// overlaps reports whether the lines of both can have been written at once.
func (w written) overlaps(v written) bool {
	return w.from <= v.to+fitSlack && v.from <= w.to+fitSlack
}

// later returns the span some ms later.
func (w written) later(ms int64) written { return written{w.from + ms, w.to + ms} }

// A hold is one use of a device lock in the making.
type hold struct {
	prepare, wait int64 // ms
	taken         written
	line          int64 // number of the timing line
	held, total   int64 // ms, once it is over
	over          written
	phases        [4]int64 // ntt, barrier, batch, tail: ms, or Unknown
}

// A release is the end of a hold.
type release struct {
	held, total int64 // ms
	over        written
	line        int64 // number of the timing line
}

// A timing is a value that waits for what it belongs to.
type timing struct {
	thread, ms, total int64
	at                written
	line              int64 // number of the timing line
}

// kernels gives CUDA timings to partitions.
type kernels struct {
	a    *assembly
	last int64 // offset of the latest event

	used   bool // there are timings; before the first, the latest starts are enough
	recent [maxRecent]recentStart
	next   int

	lines     int64       // timing lines so far
	open      []hold      // locks taken
	over      []release   // of locks, to be looked at once the next event is known
	undecided []hold      // released, and they fit on more than one partition
	parts     [4][]timing // by the places in hold.phases
	tails     []bg2       // G2 MSMs, to be given to the partition that ends next
	hasTails  bool        // there are such lines
	active    []active    // partitions between GPU_START and the end of their kernels
	locks     []lock      // of devices that had a hold
	fresh     bool        // lines were added since the last event
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
	tried  bool  // a search has given it a hold
}

// A lock is when a device's lock was last released, as far as is known.
type lock struct {
	device   int
	released int64 // ms
	exact    bool  // there was no hold since
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
	k.lines++
	if d.PreLock >= 0 {
		k.open = append(k.open, hold{prepare: d.PreLock, wait: max(d.Wait, 0), taken: at, line: k.lines})
		if len(k.open) > maxParts {
			k.open = slices.Delete(k.open, 0, 1)
			k.a.run.Input.Orphans++
		}
	}
	for i, ms := range [...]int64{d.NTTMSMH, d.Barrier, d.Batch, d.Tail} {
		if ms >= 0 {
			k.parts[i] = append(k.parts[i], timing{d.Thread, ms, d.Total, at, k.lines})
			if len(k.parts[i]) > maxParts {
				k.parts[i] = slices.Delete(k.parts[i], 0, 1)
			}
		}
	}
	if d.BG2 >= 0 {
		k.hasTails = true
		k.tails = append(k.tails, bg2{d.BG2, at})
		if len(k.tails) > maxPending {
			k.tails = slices.Delete(k.tails, 0, 1)
		}
	}
	if d.Held >= 0 && d.StartFn >= 0 {
		k.over = append(k.over, release{d.Held, d.StartFn, at, k.lines})
	}
}

// release ends the hold that the sum of its parts fits, and the time at which
// it began.
func (k *kernels) release(r release) {
	best, fit := -1, int64(math.MaxInt64)
	for i, h := range k.open {
		if h.line > r.line {
			break
		}
		if d := misses(r.total - r.held - h.prepare - h.wait); d < fit && h.taken.overlaps(r.over.later(-r.held)) {
			best, fit = i, d
		}
	}
	if best < 0 {
		k.a.run.Input.Orphans++
		return
	}
	h := k.open[best]
	k.open = slices.Delete(k.open, best, best+1)
	h.held, h.total, h.over = r.held, r.total, r.over
	h.phases = k.phases(&h)
	k.undecided = append(k.undecided, h)
}

// misses says how unlikely a value is the sum of others that is smaller by so
// many ms. It is smaller by one or two mostly, since each is cut to whole ms,
// and cannot be where the difference is out of range.
func misses(difference int64) int64 {
	if difference < -1 || difference > sumSlack {
		return math.MaxInt64
	}
	return abs(2*difference - 3)
}

// phases takes the phases of a hold out of those that wait: the thread whose
// own total is the time for which the lock was held, and the combination of
// its values that adds up to that and was written when it had to be.
func (k *kernels) phases(h *hold) [4]int64 {
	unknown := [4]int64{Unknown, Unknown, Unknown, Unknown}
	const tail = 3
	last := -1
	for i, t := range k.parts[tail] {
		if t.total >= 0 && t.line > h.line && t.at.overlaps(h.over) && misses(h.held-t.total) < math.MaxInt64 &&
			(last < 0 || abs(h.held-t.total) < abs(h.held-k.parts[tail][last].total)) {
			last = i
		}
	}
	if last < 0 {
		return unknown
	}
	end := k.parts[tail][last]
	// When the lock was taken: both ends of the hold tell.
	taken := h.over.later(-h.held)
	taken.from, taken.to = max(taken.from, h.taken.from), min(taken.to, h.taken.to)
	best, fit := [4]int{-1, -1, -1, last}, int64(math.MaxInt64)
	for i, ntt := range k.parts[0] {
		if ntt.thread != end.thread || ntt.line <= h.line || !ntt.at.overlaps(taken.later(ntt.ms)) {
			continue
		}
		for j, batch := range k.parts[2] {
			if batch.thread != end.thread || batch.line <= ntt.line || batch.line >= end.line ||
				!batch.at.overlaps(taken.later(end.total-end.ms)) {
				continue
			}
			for b := -1; b < len(k.parts[1]); b++ { // there may be no barrier line
				var barrier int64
				if b >= 0 {
					t := &k.parts[1][b]
					if t.thread != end.thread || t.line <= ntt.line || t.line >= batch.line || !t.at.overlaps(taken.later(ntt.ms+t.ms)) {
						continue
					}
					barrier = t.ms
				}
				if d := misses(end.total - ntt.ms - barrier - batch.ms - end.ms); d < fit || d == fit && d < math.MaxInt64 && best[1] < 0 && b >= 0 {
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
	k.active = append(k.active, active{sector: s, index: p.index, start: s.base + int64(p.t[GPUStart]), device: k.deviceOf(p.worker), end: Unknown})
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
	k.eventAmong(offset)
}

// eventAmong is event in a log with timings.
func (k *kernels) eventAmong(offset int64) {
	if k.fresh {
		k.fresh = false
		k.close(max(offset, k.last))
	}
	k.last = max(offset, k.last)
	if len(k.undecided) > 0 || len(k.active) < 8 {
		return
	}
	// Partitions that have ended wait a little for lines out of order.
	k.active = slices.DeleteFunc(k.active, func(p active) bool { return p.end != Unknown && p.end < k.last-fitAtMost })
}

// close says when the lines since the last event were written at the latest.
func (k *kernels) close(to int64) {
	for i := range k.open {
		if h := &k.open[i]; h.taken.to == k.last {
			h.taken.to = to
		}
	}
	for i := range k.tails {
		if t := &k.tails[i]; t.at.to == k.last {
			t.at.to = to
		}
	}
	for i := range k.parts {
		for j := range k.parts[i] {
			if t := &k.parts[i][j]; t.at.to == k.last {
				t.at.to = to
			}
		}
	}
	for _, r := range k.over {
		r.over.to = to
		k.release(r)
	}
	if len(k.over) > 0 {
		k.over = k.over[:0]
		k.dropParts()
		k.decide(false)
	}
}

// dropParts drops what was written before any of the present holds began.
func (k *kernels) dropParts() {
	oldest := k.lines + 1
	for i := range k.open {
		oldest = min(oldest, k.open[i].line)
	}
	for i := range k.parts {
		k.parts[i] = slices.DeleteFunc(k.parts[i], func(t timing) bool { return t.line < oldest })
	}
}

// finish gives what is left.
func (k *kernels) finish() {
	k.close(k.last + fitAtMost)
	k.decide(true)
	k.a.run.Input.Orphans += int64(len(k.open))
}

const (
	maxUndecided = 32            // holds that wait until it is known when the partitions ended that they fit on
	maxAhead     = 8             // of the holds that follow, those which are looked at to tell
	maxTries     = 200           // partitions tried for them
	orphanMisfit = 2 * fitAtMost // of a hold that is left without a partition
	noTailMisfit = fitAtMost / 2 // of a partition on whose end no G2 MSM fits
)

// decide gives holds to the partitions on which they fit. Where workers start
// at about the same time, a hold can fit on several; the holds that follow then
// tell, since each has to fit behind the one before, and the partitions' ends.
func (k *kernels) decide(all bool) {
	for len(k.undecided) > 0 {
		h := &k.undecided[0]
		only, fits, ended := -1, 0, true
		for i := range k.active {
			if p := &k.active[i]; k.misfit(h, p, k.locks) <= fitAtMost {
				only = i
				fits++
				ended = ended && p.end != Unknown
			}
		}
		if fits > 1 {
			if !all && !ended && len(k.undecided) <= maxUndecided {
				return // more will be known
			}
			only = k.search()
		}
		if only < 0 || h.phases[0] == Unknown {
			k.a.run.Input.Orphans++
			for i := range k.locks {
				k.locks[i].exact = false // it may have been any of them
			}
		} else {
			k.assign(*h, only)
		}
		k.undecided = slices.Delete(k.undecided, 0, 1)
	}
}

// search returns the partition of the first of the undecided holds, such that
// it and the next ones fit best, or -1 if that cannot be told.
func (k *kernels) search() int {
	holds := k.undecided[:min(len(k.undecided), 1+maxAhead)]
	tries := maxTries
	best, cost, second := -1, int64(orphanMisfit), int64(math.MaxInt64)
	if len(holds) > 1 {
		cost += k.cost(holds[1:], inexact(k.locks), cost, &tries)
	}
	for i := range k.active {
		p := &k.active[i]
		m := k.misfit(&holds[0], p, k.locks)
		if m > fitAtMost {
			continue
		}
		p.tried = true
		m += k.cost(holds[1:], released(k.locks, p, &holds[0]), math.MaxInt64, &tries)
		p.tried = false
		switch {
		case m < cost:
			best, cost, second = i, m, cost
		case m < second:
			second = m
		}
	}
	if cost == second {
		return -1
	}
	return best
}

// cost returns how badly holds fit at best.
func (k *kernels) cost(holds []hold, locks []lock, atMost int64, tries *int) int64 {
	if len(holds) == 0 || atMost <= 0 {
		return 0
	}
	best := int64(math.MaxInt64)
	for i := range k.active {
		p := &k.active[i]
		if p.tried {
			continue
		}
		m := k.misfit(&holds[0], p, locks)
		if m > fitAtMost || m >= best {
			continue
		}
		if *tries--; *tries < 0 {
			break
		}
		p.tried = true
		m += k.cost(holds[1:], released(locks, p, &holds[0]), best-m, tries)
		p.tried = false
		best = min(best, m)
	}
	if best > orphanMisfit {
		best = min(best, orphanMisfit+k.cost(holds[1:], inexact(locks), best-orphanMisfit, tries))
	}
	return best
}

// released returns the locks after a partition's hold.
func released(locks []lock, p *active, h *hold) []lock {
	locks = slices.Clone(locks)
	*lockOf(&locks, p.device) = lock{p.device, p.start + h.total, true}
	return locks
}

// inexact returns the locks after a hold of which nothing is known.
func inexact(locks []lock) []lock {
	locks = slices.Clone(locks)
	for i := range locks {
		locks[i].exact = false
	}
	return locks
}

// lockOf returns a device's lock, which it adds if need be.
func lockOf(locks *[]lock, device int) *lock {
	for i := range *locks {
		if (*locks)[i].device == device {
			return &(*locks)[i]
		}
	}
	*locks = append(*locks, lock{device, math.MinInt64 / 2, false})
	return &(*locks)[len(*locks)-1]
}

// misfit returns by how many ms a hold cannot be the partition's.
func (k *kernels) misfit(h *hold, p *active, locks []lock) int64 {
	taken, over := p.start+h.prepare+h.wait, p.start+h.total
	m := h.taken.off(taken) + h.over.off(over)
	if m > fitAtMost {
		return m
	}
	for i := range locks {
		if l := &locks[i]; l.device == p.device {
			switch {
			case taken < l.released-sumSlack: // another held the lock
				m += l.released - taken
			case l.exact && h.wait > sumSlack && taken > l.released+sumSlack: // nobody to wait for
				m += taken - l.released
			}
		}
	}
	if p.end == Unknown {
		return m
	}
	if over > p.end+sumSlack {
		m += over - p.end
	}
	if k.hasTails && k.tailOf(p.end, over, sumSlack) < 0 {
		m += noTailMisfit
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
	l := lockOf(&k.locks, p.device)
	taken := max(p.start+h.prepare+h.wait, l.released)
	n, t := k.a.run.timings.add()
	*t = timings{
		acquired: p.sector.relative(taken), prepare: int32(h.prepare), wait: int32(h.wait),
		ntt: int32(h.phases[0]), barrier: int32(h.phases[1]), batch: int32(h.phases[2]), tail: int32(h.phases[3]),
		bg2: Unknown,
	}
	part.timings = n
	k.a.run.Input.Timings++
	l.released, l.exact = p.sector.base+int64(t.released()), true
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
	if len(k.undecided) > 0 {
		k.decide(false)
	}
}

// tailOf returns the G2 MSM that began with the lock's release and whose end is
// the proof's, or -1.
func (k *kernels) tailOf(end, over, atMost int64) int {
	best, fit := -1, atMost+1
	for i, g := range k.tails {
		if d := abs(over+g.ms-end) + g.at.off(end); d < fit {
			best, fit = i, d
		}
	}
	return best
}

// giveTail gives a partition its G2 MSM.
func (k *kernels) giveTail(s *Sector, p *packed) {
	end := s.base + int64(p.t[GPUEnd])
	t := k.a.run.timings.at(p.timings)
	over := s.base + int64(t.released())
	best := k.tailOf(end, over, fitAtMost)
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

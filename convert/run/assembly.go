package run

import (
	"slices"
	"strings"

	"github.com/provetrace/provetrace/convert/enginelog"
	"github.com/provetrace/provetrace/tracing/timeline"
)

// An assembly is a run in the making.
type assembly struct {
	o       Options
	feed    *feed
	run     *Run
	epoch   epochs
	kernels kernels

	states []jobState // by the job's number
	free   []packed   // partitions not yet given to a sector
	usual  int        // partitions that a sector has had so far, at most indexFrom

	recent  [window]int64 // offsets of the latest events
	next    int           // in recent
	latest  int64         // offset
	events  int64
	workers map[int16]int32 // devices, by worker, as the engine says
	drives  []drive         // by worker
	inTurn  bool            // a worker took what had waited for it once its proof was finished
	split   bool            // a worker took the next partition before its proof was finished
	longest int64           // ms, of the proofs
	failed  []failure

	sectors []Sector // not used yet

	room, used int // partitions that sectors have room for, and that they have

	concluded conclusions

	rested int        // sectors that were looked at to rest
	cooled int        // and to be frozen
	frozen []byte     // the latest frozen partitions
	ice    []byte     // where the next ones go
	spare  [][]packed // room that frozen sectors have left
}

// A jobState is how far a job's proof is.
type jobState struct {
	sector   *Sector // the present attempt
	previous *Sector // the one before, whose last lines can come late
	admitted int64   // µs since 1970, of an attempt that has not begun; 0 if none
	count    int32   // partitions announced for it
}

// A drive is what a worker took last.
type drive struct {
	sector *Sector
	index  int32
	seen   bool  // the worker is known
	done   bool  // its proof is finished
	picked int64 // ms
	end    int64 // ms
}

func newAssembly(o Options, f *feed) *assembly {
	a := &assembly{o: o, feed: f, run: &Run{First: Unknown, Last: Unknown}, usual: 1}
	a.kernels.a = a
	return a
}

// empty reports whether nothing was read that a run could hold.
func (a *assembly) empty() bool { return a.events == 0 && a.run.Input.Malformed == 0 }

const (
	// window is how many events are looked at, behind and ahead, to tell a
	// restart from lines out of order.
	window = 12

	// disorder is by how many places lines may stand out of order.
	disorder = 8

	// setback is by how many ms, at least, a restart sets the clock back. By
	// less, threads that print at once can differ.
	setback = 1000
)

// restarts reports whether the item, the feed's latest, is the first of an
// engine's new life: its clock starts again. Lines out of order look alike.
// But of a restart none of the next events is as late as any of the latest, or
// else the next ones begin anew and more of them are out of order, or further,
// than disorder allows.
func (a *assembly) restarts(it *item, f *feed) bool {
	if it.what == itemEvent && it.offset >= a.latest { // as of nearly all
		return false
	}
	return a.restartsEarlier(it, f)
}

// restartsEarlier is restarts for an item that is no event later than the latest.
func (a *assembly) restartsEarlier(it *item, f *feed) bool {
	switch {
	case a.events == 0:
		return false
	case it.what != itemEvent:
		return it.what == itemFact && f.extra(it).fact == enginelog.Started
	}
	recent := a.recent[:min(a.events, window)]
	earliest, latest := slices.Min(recent), slices.Max(recent)
	if latest-it.offset < setback {
		return false
	}
	var ahead [window]*item
	n, below := 0, 0
	all := len(recent) == window
	for next := range f.events() {
		ahead[n] = next
		n++
		all = all && next.offset < earliest
		if next.offset < latest {
			below++
		}
		if n == window {
			break
		}
	}
	if all {
		return true
	}
	above := 0
	for _, offset := range recent {
		if offset > it.offset {
			above++
		}
	}
	return (above > disorder || above+below > disorder+1) && a.anew(ahead[:n], latest)
}

// anew reports whether those of the events that are before an offset are what a
// run can begin with: starts, of jobs that this run does not know or repeating
// what it knows, and what follows from them.
func (a *assembly) anew(events []*item, latest int64) bool {
	for _, it := range events {
		if it.offset >= latest {
			continue
		}
		if it.kind == timeline.SynthStart {
			if int(it.job) < len(a.states) {
				if s := a.states[it.job].sector; s != nil {
					if p := s.find(int32(it.partition)); p == nil || p.t[SynthStart] == absent {
						return false
					}
				}
			}
		} else if !slices.ContainsFunc(events, func(start *item) bool {
			return start.kind == timeline.SynthStart && start.job == it.job &&
				start.partition == it.partition && start.offset <= it.offset
		}) {
			return false
		}
	}
	return true
}

// take adds an item to the run.
func (a *assembly) take(it *item, x *extra) {
	switch it.what {
	case itemEvent:
		a.event(it, x)
	case itemMalformed:
		in := &a.run.Input
		in.Malformed++
		if len(in.Problems) < maxProblems {
			in.Problems = append(in.Problems, Problem{File: x.source, Line: x.line, What: x.problem, Text: x.text})
		}
	case itemFact:
		a.epoch.engine(x.wall, x.until)
		a.engineFact(it, x)
	case itemTimings:
		a.kernels.add(&x.timings)
	}
}

// state returns the state of a job.
func (a *assembly) state(job int32) *jobState {
	if more := int(job) + 1 - len(a.states); more > 0 {
		a.states = append(doubled(a.states, more), make([]jobState, more)...)
	}
	return &a.states[job]
}

// event adds an event to the partition that it is of.
func (a *assembly) event(it *item, x *extra) {
	in := &a.run.Input
	in.Events++
	if it.stitched {
		in.Stitched++
	}
	a.epoch.event(it, x)
	if a.events == 0 {
		a.run.First = it.offset
	}
	a.events++
	a.latest = it.offset
	a.recent[a.next] = it.offset
	if a.next++; a.next == window {
		a.next = 0
	}
	a.run.First = min(a.run.First, it.offset)
	a.run.Last = max(a.run.Last, it.offset)

	b := boundaries[it.kind]
	s, p := a.place(it, b)
	if p == nil {
		p = s.add(int32(it.partition), a)
	}
	if p.t[b] != absent {
		in.Duplicates++
		return
	}
	p.t[b] = s.relative(it.offset)
	if it.worker >= 0 {
		p.worker = it.worker
		a.sees(it.worker)
	}
	a.kernels.event(it.offset)
	switch b {
	case SynthStart:
		if x != nil && s.ProofKind == "" {
			s.ProofKind = x.text
		}
	case SynthEnd:
		p.synthMS = it.duration
	case PickedUp:
		a.pickedUp(s, p, it)
	case GPUStart:
		if p.t[PickedUp] == absent {
			a.pickedUp(s, p, it)
		}
		a.kernels.started(s, p)
	case GPUEnd:
		p.gpuMS = it.duration
		p.state = Finished
		if p.t[GPUStart] != absent {
			a.longest = max(a.longest, p.between(GPUStart, GPUEnd))
		}
		a.proved(s, p, it)
		a.kernels.ended(s, p)
	}
}

// sees notes that a worker exists.
func (a *assembly) sees(worker int16) {
	if more := int(worker) + 1 - len(a.drives); more > 0 {
		a.drives = append(a.drives, make([]drive, more)...)
	}
	a.drives[worker].seen = true
}

// boundaries are the times that events tell.
var boundaries = [...]Boundary{
	timeline.SynthStart: SynthStart,
	timeline.SynthEnd:   SynthEnd,
	timeline.ChanSend:   Queued,
	timeline.GPUQueue:   Queued,
	timeline.GPUPickup:  PickedUp,
	timeline.GPUStart:   GPUStart,
	timeline.GPUEnd:     GPUEnd,
}

// place returns the attempt that an event is of, which may be a new one, and
// the partition, or nil if it is the partition's first.
func (a *assembly) place(it *item, b Boundary) (*Sector, *packed) {
	st := a.state(it.job)
	s := st.sector
	if s == nil {
		return a.begins(st, it), nil
	}
	p := s.find(int32(it.partition))
	if st.previous != nil && it.offset <= s.base && b != SynthStart {
		// What is no start and not later than an attempt's first event is of
		// the attempt before.
		if q := st.previous.find(int32(it.partition)); q != nil && q.t[b] == absent &&
			(it.offset < s.base || p == nil || p.t[SynthStart] != absent) {
			return st.previous, q
		}
	}
	if !s.reaches(it.offset) || !inAttempt(s.relative(it.offset), st, p, b) {
		return a.begins(st, it), nil
	}
	return s, p
}

// inAttempt reports whether an event of a partition, nil if it is its first,
// can be of the job's present attempt. A partition is synthesized, and proved,
// once in an attempt.
func inAttempt(at int32, st *jobState, p *packed, b Boundary) bool {
	switch {
	case b != SynthStart:
		// The start of a further attempt can be lost. A second end alone is
		// no sign of one.
		return p == nil || b == GPUEnd || p.t[GPUEnd] == absent || at <= p.t[GPUEnd]
	case p == nil:
		return st.admitted == 0 || !st.sector.over() // it was admitted again
	case p.t[SynthStart] != absent:
		return at <= p.t[SynthStart]
	}
	for _, t := range p.t {
		if t != absent && t < at {
			return false
		}
	}
	return true
}

// over reports whether nothing is left to do of what the sector has begun.
func (s *Sector) over() bool {
	return s.failed || s.whole || !slices.ContainsFunc(s.parts, func(p packed) bool { return p.t[GPUEnd] == absent })
}

// begins starts the next attempt at a job.
func (a *assembly) begins(st *jobState, it *item) *Sector {
	if len(a.sectors) == 0 {
		a.sectors = make([]Sector, sectorsAtOnce)
	}
	s := &a.sectors[0]
	a.sectors = a.sectors[1:]
	*s = Sector{
		Job: a.feed.jobs.names[it.job], Attempt: a.feed.jobs.attempt(it.job), Admitted: Unknown,
		Count: int(st.count), run: a.run, base: it.offset,
	}
	switch {
	case strings.HasPrefix(s.Job, "porep-"):
		s.ProofKind = "porep-c2"
	case strings.HasPrefix(s.Job, "snap-"):
		s.ProofKind = "snap-update"
	}
	if st.admitted != 0 {
		s.Admitted = st.admitted
		st.admitted = 0
	}
	n := a.usual
	if s.Count > 0 {
		n = min(s.Count, indexFrom)
	}
	if it.partition == timeline.WholeSector || a.room > 4*a.used+slabSize {
		n = 1
	}
	s.parts = a.more(n)
	st.previous, st.sector = st.sector, s
	a.run.Sectors = append(a.run.Sectors, s)
	a.rest()
	return s
}

// sectorsAtOnce is how many sectors there is room made for, one allocation being
// cheaper than many.
const sectorsAtOnce = 32

// more returns an empty slice with room for n partitions.
func (a *assembly) more(n int) []packed {
	if last := len(a.spare) - 1; last >= 0 && cap(a.spare[last]) >= n {
		s := a.spare[last]
		a.spare = a.spare[:last]
		return s
	}
	a.room += n
	if n > cap(a.free) {
		a.free = make([]packed, 0, max(n, min(a.room, slabSize)))
	}
	s := a.free[:0:n]
	a.free = a.free[n:n:cap(a.free)]
	return s
}

// grow returns room for one partition more than a sector has. Proofs have 10
// or 16 in nearly all cases.
func (a *assembly) grow(parts []packed) []packed {
	n := 2 * len(parts)
	switch {
	case len(parts) < a.usual:
		n = a.usual
	case len(parts) < 10:
		n = 10
	case len(parts) < 16:
		n = 16
	}
	return append(a.more(n), parts...)
}

// maxSpan bounds, in ms, what a partition keeps: how far its times are from its
// sector's base, and its durations. It is 12 days; the sum of two fits.
const maxSpan = 1<<30 - 1

// reaches reports whether the sector can keep an offset.
func (s *Sector) reaches(offset int64) bool { return abs(offset-s.base) <= maxSpan }

// relative returns an offset in ms as the sector keeps it.
func (s *Sector) relative(offset int64) int32 {
	return int32(min(max(offset-s.base, -maxSpan), maxSpan))
}

// pickedUp notes what a worker takes.
func (a *assembly) pickedUp(s *Sector, p *packed, it *item) {
	if it.worker < 0 {
		return
	}
	d := &a.drives[it.worker]
	if d.sector != nil {
		if it.offset < d.picked || d.sector == s && d.index == p.index {
			return // out of order
		}
		if d.done && d.end <= it.offset && p.t[Queued] != absent && s.base+int64(p.t[Queued]) < d.end {
			a.inTurn = true
		}
	}
	*d = drive{sector: s, index: p.index, seen: true, picked: it.offset}
}

// proved notes that a worker's proof is finished, perhaps by a finisher while
// the worker itself has gone on.
func (a *assembly) proved(s *Sector, p *packed, it *item) {
	if it.worker < 0 {
		return
	}
	d := &a.drives[it.worker]
	if d.sector == s && d.index == p.index {
		d.done, d.end = true, it.offset
	} else if taken := max(p.t[PickedUp], p.t[GPUStart]); taken != absent && s.base+int64(taken) < d.picked && d.picked < it.offset-fitSlack {
		a.split = true
	}
}

// engineFact adds what a line of the engine tells.
func (a *assembly) engineFact(it *item, x *extra) {
	switch x.fact {
	case enginelog.WorkerStarted:
		if a.workers == nil {
			a.workers = make(map[int16]int32)
		}
		a.workers[it.worker] = x.device
	case enginelog.Admitted:
		st := a.state(it.job)
		if s := st.sector; s != nil && s.Admitted == Unknown && !s.anyProved() {
			s.Admitted = x.wall // the line came late
		} else if s == nil || s.Admitted != x.wall {
			st.admitted = x.wall
		}
	case enginelog.Dispatched:
		st := a.state(it.job)
		if x.count > 0 && x.count <= maxPartition {
			st.count = int32(x.count)
			if st.sector != nil && st.admitted == 0 {
				st.sector.Count = int(st.count)
			}
		}
	case enginelog.Synthesized:
		s := a.state(it.job).sector
		if s == nil || it.duration < 0 {
			return
		}
		if p := s.find(int32(it.partition)); p != nil && p.synthMS == Unknown {
			p.synthMS = it.duration // should the event be lost
		}
	case enginelog.Skipped:
		if s := a.state(it.job).sector; s != nil {
			s.failed = true
			if p := s.find(int32(it.partition)); p != nil && p.state == Incomplete {
				p.state = Skipped
				a.failed = append(a.failed, failure{s, p.index, x.wall, a.kernels.last})
			}
		}
	case enginelog.Failed:
		a.fails(it, x)
	}
}

// anyProved reports whether a partition of the sector has been proved.
func (s *Sector) anyProved() bool {
	return s.whole || slices.ContainsFunc(s.parts, func(p packed) bool { return p.t[GPUEnd] != absent })
}

// fails marks a sector, and the partition if one is named, as failed. The
// first reason told is the cause.
func (a *assembly) fails(it *item, x *extra) {
	st := a.state(it.job)
	s := st.sector
	if s == nil || st.admitted != 0 && s.over() {
		return // it failed before anything was begun
	}
	reason := x.text
	if reason == "" {
		reason = "failed"
	}
	a.blame(s, wholeJob, reason)
	p := s.find(int32(it.partition))
	if p == nil || p.state == Finished || p.state == Failed {
		return
	}
	p.state = Failed
	a.blame(s, p.index, reason)
	a.failed = append(a.failed, failure{s, p.index, x.wall, a.kernels.last})
}

// blame marks a sector as failed, because of a partition or as a whole. The
// first reason stays.
func (a *assembly) blame(s *Sector, partition int32, reason string) {
	if a.run.failures == nil {
		a.run.failures = make(map[failureKey]string)
	}
	s.failed = true
	if key := (failureKey{s, partition}); a.run.failures[key] == "" {
		a.run.failures[key] = reason
	}
}

// A failure is a partition's, or that it was skipped, and when that was told.
type failure struct {
	sector *Sector
	index  int32
	wall   int64 // µs since 1970
	told   int64 // offset of the latest event, ms
}

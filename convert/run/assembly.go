package run

import (
	"slices"
	"strings"

	"github.com/provetrace/provetrace/convert/enginelog"
	"github.com/provetrace/provetrace/tracing/timeline"
)

// An assembly is a run in the making.
type assembly struct {
	r       *Reader
	run     *Run
	epoch   epochs
	kernels kernels

	states []jobState // by the job's number
	free   []packed   // partitions not yet given to a sector
	usual  int        // partitions that a sector has had so far, at most indexFrom

	begin   Length // what was read before the run
	recent  [window]int64
	events  int64
	workers map[int32]int32 // devices, by worker
	drives  map[int32]*busy // what each worker does
	seen    []bool          // workers
	split   bool            // a worker went on before its proof was finished
	lost    []lostEnd
	failed  []failure
}

// A jobState is how far a job's proof is.
type jobState struct {
	sector   *Sector // the present attempt
	admitted int64   // µs since 1970, of an attempt that has not begun; 0 if none
	count    int32   // partitions announced for it
}

// busy is what a worker took last.
type busy struct {
	sector *Sector
	index  int32
}

// A lostEnd is a partition whose worker took the next one, so that its end was
// no later: evidence, should the log not tell the end itself.
type lostEnd struct {
	sector *Sector
	index  int32
	at     int64
}

func newAssembly(r *Reader) *assembly {
	a := &assembly{r: r, begin: r.Length(), run: &Run{First: Unknown, Last: Unknown}, usual: 1}
	a.kernels.a = a
	return a
}

// empty reports whether nothing was read that a run could hold.
func (a *assembly) empty() bool { return a.events == 0 && a.run.Input.Malformed == 0 }

// restarts reports whether the item is the first of an engine's new life: its
// clock starts again. Lines out of order look alike, but among the latest and
// the next events of a restart none of the next is as late as any of the
// latest.
func (a *assembly) restarts(it *item, q *queue) bool {
	if a.events == 0 {
		return false
	}
	if it.what == itemFact && it.fact == enginelog.Started {
		return true
	}
	if it.what != itemEvent || it.offset >= a.recent[(a.events-1)%window] {
		return false
	}
	earliest := slices.Min(a.recent[:min(a.events, window)])
	for i, left := 0, window; i < q.n && left > 0; i++ {
		if next := q.at(i); next.what == itemEvent {
			if next.offset >= earliest {
				return false
			}
			left--
		}
	}
	return true
}

// take adds an item to the run.
func (a *assembly) take(it *item) {
	switch it.what {
	case itemEvent:
		a.event(it)
	case itemMalformed:
		in := &a.run.Input
		in.Malformed++
		if len(in.Problems) < maxProblems {
			problem, text, _ := strings.Cut(it.text, "\x00")
			in.Problems = append(in.Problems, Problem{File: a.r.sources[it.source-1].Name, Line: it.line, What: problem, Text: text})
		}
	case itemFact:
		a.epoch.engine(it.wall, it.until)
		a.engineFact(it)
	case itemTimings:
		a.kernels.add(it.timings)
	}
}

// state returns the state of a job.
func (a *assembly) state(job int32) *jobState {
	if n := int(job) + 1; n > len(a.states) {
		a.states = append(a.states, make([]jobState, n-len(a.states))...)
	}
	return &a.states[job]
}

// event adds an event to the partition that it is of.
func (a *assembly) event(it *item) {
	in := &a.run.Input
	in.Events++
	if it.stitched {
		in.Stitched++
	}
	a.recent[a.events%window] = it.offset
	a.events++
	a.epoch.event(it)
	if a.run.First == Unknown || it.offset < a.run.First {
		a.run.First = it.offset
	}
	a.run.Last = max(a.run.Last, it.offset)

	st := a.state(it.job)
	if st.sector == nil {
		a.begins(st, it)
	}
	s := st.sector
	b, inAttempt := a.boundary(it, s)
	if !inAttempt {
		a.begins(st, it)
		s = st.sector
	}
	p := s.get(it.partition, a)
	if p.t[b] != absent {
		in.Duplicates++
		return
	}
	p.t[b] = s.relative(it.offset)
	if it.worker >= 0 {
		p.worker = int16(it.worker)
		a.sees(it.worker)
	}
	switch b {
	case SynthStart:
		if it.text != "" && s.ProofKind == "" {
			s.ProofKind = it.text
		}
	case SynthEnd:
		p.synthMS = clamp(it.duration)
	case PickedUp:
		a.pickedUp(s, p, it)
	case GPUStart:
		a.kernels.started(s, p)
	case GPUEnd:
		p.gpuMS = clamp(it.duration)
		p.state = Finished
		a.split = a.split || a.laterThanNext(s, p, it)
	}
	a.kernels.event(it.offset)
	if b == GPUEnd {
		a.kernels.ended(s, p)
	}
}

// boundary returns which of a partition's times an event tells, and whether it
// can be of the sector's present attempt. A partition is synthesized, and
// proved, once in an attempt.
func (a *assembly) boundary(it *item, s *Sector) (Boundary, bool) {
	var b Boundary
	switch it.kind {
	case timeline.SynthStart:
		b = SynthStart
	case timeline.SynthEnd:
		b = SynthEnd
	case timeline.ChanSend, timeline.GPUQueue:
		b = Queued
	case timeline.GPUPickup:
		b = PickedUp
	case timeline.GPUStart:
		b = GPUStart
	default:
		b = GPUEnd
	}
	p := s.find(it.partition)
	at := s.relative(it.offset)
	if b == SynthStart && a.states[it.job].admitted != 0 && len(s.parts) > 0 && (p == nil || at > p.t[SynthStart]) {
		return b, false // the job was admitted again
	}
	if p == nil {
		return b, true
	}
	if b == SynthStart {
		if p.t[b] != absent {
			return b, at <= p.t[b]
		}
		for _, t := range p.t {
			if t != absent && t < at {
				return b, false
			}
		}
		return b, true
	}
	// The start of a further attempt can be lost.
	ended := p.t[GPUEnd] != absent && at > p.t[GPUEnd]
	return b, p.t[b] == absent && !(ended && b < GPUEnd) || p.t[b] != absent && !ended
}

// begins starts the next attempt at a job.
func (a *assembly) begins(st *jobState, it *item) {
	s := &Sector{
		Job: a.r.jobs.names[it.job], Attempt: 1, Admitted: Unknown, run: a.run, base: it.offset,
		Count: int(st.count),
	}
	if st.sector != nil {
		s.Attempt = st.sector.Attempt + 1
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
	if it.partition == timeline.WholeSector {
		n = 1
	}
	if s.Count > 0 {
		n = min(s.Count, indexFrom)
	}
	s.parts = a.more(n)
	st.sector = s
	a.run.Sectors = append(a.run.Sectors, s)
}

// more returns an empty slice with room for n partitions.
func (a *assembly) more(n int) []packed {
	if n > cap(a.free) {
		a.free = make([]packed, 0, max(n, slabSize))
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

// relative returns an offset in ms as the sector keeps it.
func (s *Sector) relative(offset int64) int32 {
	return int32(min(max(offset-s.base, absent+1), -(absent + 1)))
}

// clamp returns a duration in ms as a sector keeps it.
func clamp(ms int64) int32 { return int32(min(ms, -(absent + 1))) }

// sees notes that a worker exists.
func (a *assembly) sees(worker int32) {
	if n := int(worker) + 1; n > len(a.seen) {
		a.seen = append(a.seen, make([]bool, n-len(a.seen))...)
	}
	a.seen[worker] = true
}

// pickedUp notes what a worker takes. If what it took before has not ended,
// either its end is told later, by a finisher, or it is lost and was now, at
// the latest. It was about now if this partition had been waiting for it.
func (a *assembly) pickedUp(s *Sector, p *packed, it *item) {
	if it.worker < 0 {
		return
	}
	if a.drives == nil {
		a.drives = make(map[int32]*busy)
	}
	was := a.drives[it.worker]
	if was == nil {
		was = new(busy)
		a.drives[it.worker] = was
	} else if q := was.sector.find(was.index); q.t[GPUStart] != absent && q.t[GPUEnd] == absent &&
		p.t[Queued] != absent && p.t[Queued] < p.t[PickedUp] {
		a.lost = append(a.lost, lostEnd{was.sector, was.index, it.offset})
	}
	was.sector, was.index = s, it.partition
}

// laterThanNext reports whether a partition ended after its worker had taken
// the next one, and drops it from those whose end may be lost.
func (a *assembly) laterThanNext(s *Sector, p *packed, it *item) bool {
	for i := len(a.lost) - 1; i >= 0 && i >= len(a.lost)-window; i-- {
		if l := a.lost[i]; l.sector == s && l.index == p.index {
			a.lost = slices.Delete(a.lost, i, i+1)
			return it.offset > l.at
		}
	}
	return false
}

// engineFact adds what a line of the engine tells.
func (a *assembly) engineFact(it *item) {
	switch it.fact {
	case enginelog.WorkerStarted:
		if it.worker > maxWorker {
			return
		}
		if a.workers == nil {
			a.workers = make(map[int32]int32)
		}
		a.workers[it.worker] = it.device
		a.sees(it.worker)
	case enginelog.Admitted:
		st := a.state(it.job)
		if s := st.sector; s != nil && s.Admitted == Unknown && !a.proved(s) {
			s.Admitted = it.wall // the line came late
			return
		}
		st.admitted = it.wall
	case enginelog.Dispatched:
		st := a.state(it.job)
		if it.duration > 0 && it.duration <= maxPartition {
			st.count = int32(it.duration)
			if st.sector != nil && st.admitted == 0 {
				st.sector.Count = int(st.count)
			}
		}
	case enginelog.Synthesized:
		s := a.state(it.job).sector
		if s == nil || it.duration < 0 {
			return
		}
		if p := s.find(it.partition); p != nil && p.synthMS == Unknown {
			p.synthMS = clamp(it.duration) // should the event be lost
		}
	case enginelog.Skipped:
		if s := a.state(it.job).sector; s != nil {
			s.failed = true
			if p := s.find(it.partition); p != nil && p.state == Incomplete {
				p.state = Skipped
			}
		}
	case enginelog.Failed:
		a.fails(it)
	}
}

// proved reports whether a partition of the sector has been proved.
func (a *assembly) proved(s *Sector) bool {
	return slices.ContainsFunc(s.parts, func(p packed) bool { return p.t[GPUEnd] != absent })
}

// fails marks a sector, and the partition if one is named, as failed. The
// first reason told is the cause.
func (a *assembly) fails(it *item) {
	s := a.state(it.job).sector
	if s == nil {
		return
	}
	if a.run.failures == nil {
		a.run.failures = make(map[failureKey]string)
	}
	reason := it.text
	if reason == "" {
		reason = "failed"
	}
	s.failed = true
	if key := (failureKey{s, wholeJob}); a.run.failures[key] == "" {
		a.run.failures[key] = reason
	}
	p := s.find(it.partition)
	if p == nil || p.state == Finished || p.state == Failed {
		return
	}
	p.state = Failed
	a.run.failures[failureKey{s, p.index}] = reason
	a.failed = append(a.failed, failure{s, p.index, it.wall, a.kernels.last})
}

// A failure is a partition's, and when it was told.
type failure struct {
	sector *Sector
	index  int32
	wall   int64 // µs since 1970
	told   int64 // offset of the latest event, ms
}

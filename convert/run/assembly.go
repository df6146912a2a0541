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
	lexer   *lexer
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

// A drive is what a worker took last.
type drive struct {
	seen   bool
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

func newAssembly(o Options, l *lexer) *assembly {
	a := &assembly{o: o, lexer: l, run: &Run{First: Unknown, Last: Unknown}, usual: 1}
	a.kernels.a = a
	return a
}

// empty reports whether nothing was read that a run could hold.
func (a *assembly) empty() bool { return a.events == 0 && a.run.Input.Malformed == 0 }

// window is how many events are looked at, behind and ahead, to tell a restart
// from lines out of order.
const window = 12

// restarts reports whether the item, the feed's latest, is the first of an
// engine's new life: its clock starts again. Lines out of order look alike, but
// of a restart none of the next events is as late as any of the latest.
func (a *assembly) restarts(it *item, f *feed) bool {
	if a.events == 0 {
		return false
	}
	if it.what == itemFact && f.extra(it).fact == enginelog.Started {
		return true
	}
	if it.what != itemEvent || it.offset >= a.latest {
		return false
	}
	earliest := slices.Min(a.recent[:min(a.events, window)])
	left := window
	for next := range f.events() {
		if next.offset >= earliest {
			return false
		}
		if left--; left == 0 {
			break
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
	if n := int(job) + 1; n > len(a.states) {
		a.states = append(a.states, make([]jobState, n-len(a.states))...)
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
	a.recent[a.next] = it.offset
	if a.next++; a.next == window {
		a.next = 0
	}
	a.latest = it.offset
	if a.events == 0 {
		a.run.First = it.offset
	}
	a.events++
	a.run.First = min(a.run.First, it.offset)
	a.run.Last = max(a.run.Last, it.offset)
	a.epoch.event(it, x)

	st := a.state(it.job)
	if st.sector == nil {
		a.begins(st, it)
	}
	s := st.sector
	p := s.find(int32(it.partition))
	b := boundaries[it.kind]
	if !a.inAttempt(it, st, p, b) {
		a.begins(st, it)
		s, p = st.sector, nil
	}
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
		if int(it.worker) >= len(a.drives) {
			a.drives = append(a.drives, make([]drive, int(it.worker)+1-len(a.drives))...)
		}
		a.drives[it.worker].seen = true
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
		if len(a.lost) > 0 {
			a.split = a.split || a.laterThanNext(s, p, it)
		}
		a.kernels.ended(s, p)
	}
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

// inAttempt reports whether an event of a partition, nil if it is its first,
// can be of the job's present attempt. A partition is synthesized, and proved,
// once in an attempt.
func (a *assembly) inAttempt(it *item, st *jobState, p *packed, b Boundary) bool {
	at := st.sector.relative(it.offset)
	if b == SynthStart && st.admitted != 0 && len(st.sector.parts) > 0 && (p == nil || at > p.t[SynthStart]) {
		return false // the job was admitted again
	}
	if p == nil {
		return true
	}
	if b == SynthStart {
		if p.t[b] != absent {
			return at <= p.t[b]
		}
		for _, t := range p.t {
			if t != absent && t < at {
				return false
			}
		}
		return true
	}
	// The start of a further attempt can be lost.
	ended := p.t[GPUEnd] != absent && at > p.t[GPUEnd]
	return !ended || p.t[b] == absent && b == GPUEnd
}

// begins starts the next attempt at a job.
func (a *assembly) begins(st *jobState, it *item) {
	s := &Sector{
		Job: a.lexer.jobs.name(it.job), Attempt: a.lexer.jobs.attempt(it.job), Admitted: Unknown,
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

// pickedUp notes what a worker takes. If what it took before has not ended,
// either its end is told later, by a finisher, or it is lost and was now, at
// the latest. It was about now if this partition had been waiting for it.
func (a *assembly) pickedUp(s *Sector, p *packed, it *item) {
	if it.worker < 0 {
		return
	}
	d := &a.drives[it.worker]
	if d.sector != nil {
		if q := d.sector.find(d.index); q.t[GPUStart] != absent && q.t[GPUEnd] == absent &&
			p.t[Queued] != absent && p.t[Queued] < s.relative(it.offset) {
			a.lost = append(a.lost, lostEnd{d.sector, d.index, it.offset})
		}
	}
	d.sector, d.index = s, p.index
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
func (a *assembly) engineFact(it *item, x *extra) {
	switch x.fact {
	case enginelog.WorkerStarted:
		if a.workers == nil {
			a.workers = make(map[int16]int32)
		}
		a.workers[it.worker] = x.device
	case enginelog.Admitted:
		st := a.state(it.job)
		if s := st.sector; s != nil && s.Admitted == Unknown && !a.proved(s) {
			s.Admitted = x.wall // the line came late
			return
		}
		st.admitted = x.wall
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
			}
		}
	case enginelog.Failed:
		a.fails(it, x)
	}
}

// proved reports whether a partition of the sector has been proved.
func (a *assembly) proved(s *Sector) bool {
	return slices.ContainsFunc(s.parts, func(p packed) bool { return p.t[GPUEnd] != absent })
}

// fails marks a sector, and the partition if one is named, as failed. The
// first reason told is the cause.
func (a *assembly) fails(it *item, x *extra) {
	s := a.state(it.job).sector
	if s == nil {
		return
	}
	if a.run.failures == nil {
		a.run.failures = make(map[failureKey]string)
	}
	reason := x.text
	if reason == "" {
		reason = "failed"
	}
	s.failed = true
	if key := (failureKey{s, wholeJob}); a.run.failures[key] == "" {
		a.run.failures[key] = reason
	}
	p := s.find(int32(it.partition))
	if p == nil || p.state == Finished || p.state == Failed {
		return
	}
	p.state = Failed
	a.run.failures[failureKey{s, p.index}] = reason
	a.failed = append(a.failed, failure{s, p.index, x.wall, a.kernels.last})
}

// A failure is a partition's, and when it was told.
type failure struct {
	sector *Sector
	index  int32
	wall   int64 // µs since 1970
	told   int64 // offset of the latest event, ms
}

package tracing

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/provetrace/provetrace/tracing/timeline"
)

// An extent is the time from the first start to the last end of some spans.
type extent struct{ from, to time.Time }

func (e *extent) cover(from, to time.Time) {
	if e.from.IsZero() || from.Before(e.from) {
		e.from = from
	}
	if to.After(e.to) {
		e.to = to
	}
}

// A lastEnd is the latest end of the spans inside another one.
type lastEnd struct{ last time.Time }

func (e *lastEnd) cover(at time.Time) { e.last = later(e.last, at) }

// close returns when a span ends that is to end at a time: no earlier than those
// inside, and after its start, since backends take a span that lasts no time
// for a fault. What a log tells to the ms can have begun and ended at once.
func (e *lastEnd) close(start, at time.Time) time.Time {
	return later(later(start.Add(time.Nanosecond), e.last), at)
}

// A Sector is the trace of one attempt at a sector's proof.
type Sector struct {
	r      *Recorder
	number int64 // among the recorder's
	info   SectorInfo
	span   trace.Span
	ctx    context.Context // holds the span, so that each child need not make one
	tree   *treeIDs        // nil when live
	start  time.Time
	part   *overviewPart // of the run's trace

	mu        sync.Mutex
	waiting   bool // for its admission wait to end
	blamed    bool // a failure is in the journal
	ended     bool
	open      []*Partition
	verifying []*Phase
	checks    int // verifications so far, for their ids
	synthesis extent
	proving   extent
	ends      lastEnd
}

// SpanContext returns the context of the sector's root span.
func (s *Sector) SpanContext() trace.SpanContext {
	if s == nil {
		return trace.SpanContext{}
	}
	return s.span.SpanContext()
}

// Context returns ctx with the sector's span in it, for spans of the caller's
// own.
func (s *Sector) Context(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s.span)
}

// StartPartition starts the span of a partition, which begins with its
// synthesis.
func (s *Sector) StartPartition(index int, at time.Time) *Partition {
	if s == nil {
		return nil
	}
	defer guard()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	name := PartitionSpanName(index)
	d := newDraft()
	d.attrs = append(d.attrs, JobID.String(s.info.Job), PartitionIndex.Int(index))
	if s.info.Partitions > 0 {
		d.attrs = append(d.attrs, PartitionCount.Int(s.info.Partitions))
	}
	p := &Partition{s: s, index: index, path: name, start: s.orNow(at)}
	p.ctx, p.span = s.r.start(s.ctx, StagePipeline, s.tree, "", name, p.start, d)
	return s.add(p)
}

// WholeSector returns the partition that stands for the whole sector where it
// is proved in one piece: its phases hang under the sector's span.
func (s *Sector) WholeSector() *Partition {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	return s.add(&Partition{s: s, index: Unknown, ctx: s.ctx, span: s.span, start: s.start, whole: true})
}

// add makes p one of the open partitions.
func (s *Sector) add(p *Partition) *Partition {
	p.open = p.few[:0]
	s.open = append(s.open, p)
	return p
}

// orNow returns at, or the present time where at is zero: on the monotonic
// clock since the sector's start, so that a wall clock that is set meanwhile
// does not tear its trace.
func (s *Sector) orNow(at time.Time) time.Time {
	if at.IsZero() {
		return s.start.Add(time.Since(s.start))
	}
	return at
}

// Verify starts the proof's own check.
func (s *Sector) Verify(at time.Time) *Phase {
	if s == nil {
		return nil
	}
	defer guard()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	s.checks++
	ph := &Phase{s: s, kind: phaseVerify, stage: StagePipeline, name: SpanVerify, start: s.orNow(at)}
	_, ph.span = s.r.start(s.ctx, StagePipeline, s.tree, repeated("", s.checks), SpanVerify, ph.start, newDraft())
	s.verifying = append(s.verifying, ph)
	return ph
}

// End ends the sector's trace. An error marks it as failed, for that reason.
// What is still open inside ends with it, as unfinished.
func (s *Sector) End(at time.Time, err error) {
	if s == nil {
		return
	}
	defer guard()
	s.end(s.orNow(at), err, false)
}

// Abandon ends the sector's trace, and what is still open inside, as
// unfinished.
func (s *Sector) Abandon(at time.Time) {
	if s == nil {
		return
	}
	defer guard()
	s.end(s.orNow(at), nil, true)
}

func (s *Sector) end(at time.Time, err error, unfinished bool) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended = true
	open, verifying := s.open, s.verifying
	s.open, s.verifying = nil, nil
	s.mu.Unlock()

	for _, p := range open {
		if p.whole {
			p.end(at, err, unfinished)
		} else {
			p.end(at, nil, true)
		}
	}
	for _, ph := range verifying {
		ph.end(at, err, true)
	}
	s.mu.Lock()
	at = s.ends.close(s.start, at)
	blamed := s.blamed
	s.mu.Unlock()
	if err != nil && !blamed {
		s.r.journal.failed(s.info.Job, Unknown, at, err)
	}
	if unfinished {
		abandon(s.span)
	}
	if err != nil {
		fail(s.span, at, err)
	}
	s.r.ender.end(s.span, at)
	s.r.overview.leave(s, at, err, unfinished)
	s.r.mu.Lock()
	delete(s.r.open, s.number)
	s.r.mu.Unlock()
}

// admit records the wait for admission, which ends. It can have taken no time,
// and still tells when the sector was admitted.
func (s *Sector) admit(at time.Time) {
	if at.Before(s.start) {
		return
	}
	_, span := s.r.start(s.ctx, StageQueue, s.tree, "", SpanAdmissionWait, s.start, newDraft())
	s.r.ender.end(span, (&lastEnd{}).close(s.start, at))
}

// A Partition is one circuit of a sector, or all of it.
type Partition struct {
	s     *Sector
	index int
	whole bool
	path  string // in the sector's tree
	span  trace.Span
	ctx   context.Context // holds the span
	start time.Time

	// Guarded by the sector's mu.
	ended bool
	ready bool // synthesized, and not yet being proved
	open  []*Phase
	few   [2]*Phase // open's first array
	ends  lastEnd
}

// Context returns ctx with the partition's span in it, for spans of the
// caller's own.
func (p *Partition) Context(ctx context.Context) context.Context {
	if p == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, p.span)
}

// Synthesis starts the synthesis on a worker, which may be Unknown.
func (p *Partition) Synthesis(worker int, at time.Time, more ...attribute.KeyValue) *Phase {
	if p == nil {
		return nil
	}
	defer guard()
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.ended {
		return nil
	}
	at = s.orNow(at)
	if s.waiting {
		s.waiting = false
		s.admit(at)
	}
	d := p.draft()
	d.attrs = append(d.attrs, more...)
	if worker >= 0 {
		d.attrs = append(d.attrs, SynthesisWorker.Int(worker))
	}
	ph := p.phase(phaseSynthesis, StageSynthesis, SpanSynthesis, at, d)
	s.r.overview.synthesisStarted(at)
	s.r.journal.event(timeline.SynthStart, p, Unknown, at, 0)
	return ph
}

// Queue starts the wait of a synthesized partition for a GPU worker, which
// [Phase.PickUp] ends.
func (p *Partition) Queue(at time.Time, more ...attribute.KeyValue) *Phase {
	if p == nil {
		return nil
	}
	defer guard()
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.ended {
		return nil
	}
	at = s.orNow(at)
	depth := s.r.overview.offered(!p.ready, at)
	p.ready = true
	s.r.journal.event(timeline.GPUQueue, p, Unknown, at, 0)
	d := p.draft()
	d.attrs = append(append(d.attrs, more...), QueueDepth.Int(depth))
	return p.phase(phaseQueue, StageQueue, SpanQueueWait, at, d)
}

// Prove starts the work of a GPU worker on the partition. Worker and device,
// an ordinal, may be Unknown.
func (p *Partition) Prove(worker, device int, at time.Time, more ...attribute.KeyValue) *Phase {
	if p == nil {
		return nil
	}
	defer guard()
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.ended {
		return nil
	}
	at = s.orNow(at)
	l := s.r.overview.lane(device)
	d := p.draft()
	d.attrs = append(append(d.attrs, l.attrs...), more...)
	if worker >= 0 {
		d.attrs = append(d.attrs, GPUWorker.Int(worker))
	}
	d.attrs = s.r.appendBackend(d.attrs)
	ph := p.phase(phaseProve, StageGPU, SpanProve, at, d)
	ph.lane, ph.worker = l, int32(worker)
	ph.proof = s.r.overview.proveStarted(l, ph.span.SpanContext(), p.ready, at)
	p.ready = false
	s.r.journal.event(timeline.GPUStart, p, worker, at, 0)
	return ph
}

// draft returns the draft of a phase.
func (p *Partition) draft() *draft {
	d := newDraft()
	if !p.whole {
		d.attrs = append(d.attrs, PartitionIndex.Int(p.index))
	}
	return d
}

// phase starts a phase directly under the partition.
func (p *Partition) phase(kind phaseKind, stage Stage, name string, at time.Time, d *draft) *Phase {
	ph := &Phase{s: p.s, p: p, kind: kind, stage: stage, name: name, start: at}
	_, ph.span = p.s.r.start(p.ctx, stage, p.s.tree, p.path, name, at, d)
	p.open = append(p.open, ph)
	return ph
}

// Skip ends a partition that is not proved since its sector has failed.
func (p *Partition) Skip(at time.Time) {
	if p == nil {
		return
	}
	defer guard()
	at = p.s.orNow(at)
	if !p.hasEnded() {
		p.span.SetAttributes(PartitionSkipped.Bool(true))
		p.s.r.journal.skipped(p.s.info.Job, p.index, at)
	}
	p.end(at, nil, false)
}

// End ends the partition. An error marks it, and the phases still open inside,
// as failed for that reason.
func (p *Partition) End(at time.Time, err error) {
	if p == nil {
		return
	}
	defer guard()
	p.end(p.s.orNow(at), err, false)
}

// Abandon ends the partition, and the phases still open inside, as unfinished.
func (p *Partition) Abandon(at time.Time) {
	if p == nil {
		return
	}
	defer guard()
	p.end(p.s.orNow(at), nil, true)
}

func (p *Partition) hasEnded() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.ended
}

func (p *Partition) end(at time.Time, err error, unfinished bool) {
	s := p.s
	s.mu.Lock()
	if p.ended {
		s.mu.Unlock()
		return
	}
	p.ended = true
	wasReady := p.ready
	p.ready = false
	open := p.open
	p.open = nil
	s.blamed = s.blamed || err != nil
	for i, q := range s.open {
		if q == p {
			s.open[i] = s.open[len(s.open)-1]
			s.open = s.open[:len(s.open)-1]
			break
		}
	}
	s.mu.Unlock()

	if err != nil {
		s.r.journal.failed(s.info.Job, p.index, at, err)
	}
	for _, ph := range open {
		ph.end(at, err, true)
	}
	s.mu.Lock()
	at = p.ends.close(p.start, at)
	s.ends.cover(at)
	s.mu.Unlock()
	if wasReady {
		s.r.overview.givenUp(at)
	}
	if p.whole {
		return // the span is the sector's
	}
	if unfinished {
		abandon(p.span)
	}
	if err != nil {
		fail(p.span, at, err)
	}
	s.r.ender.end(p.span, at)
}

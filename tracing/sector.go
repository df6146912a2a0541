package tracing

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
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

// A Sector is the trace of one attempt at a sector's proof.
type Sector struct {
	r     *Recorder
	info  SectorInfo
	span  trace.Span
	ctx   context.Context // holds the span, so that each child need not make one
	tree  *treeIDs        // nil when live
	start time.Time
	part  *overviewPart // of the run's trace

	mu        sync.Mutex
	waiting   bool // for its admission wait to end
	ended     bool
	open      []*Partition
	verifying []*Phase
	synthesis extent
	proving   extent
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
	at = orNow(at)
	name := PartitionSpanName(index)
	attrs := make([]attribute.KeyValue, 0, 4)
	attrs = append(attrs, JobID.String(s.info.Job), PartitionIndex.Int(index))
	if s.info.Partitions > 0 {
		attrs = append(attrs, PartitionCount.Int(s.info.Partitions))
	}
	p := &Partition{s: s, index: index, path: name}
	p.ctx, p.span = s.r.start(s.ctx, StagePipeline, s.tree, "", name, at, attrs)
	return s.add(p)
}

// WholeSector returns the partition that stands for the whole sector where it
// is proved in one piece: its phases hang under the sector's span.
func (s *Sector) WholeSector() *Partition {
	if s == nil {
		return nil
	}
	defer guard()
	return s.add(&Partition{s: s, index: Unknown, ctx: s.ctx, span: s.span, whole: true})
}

// add makes p one of the open partitions.
func (s *Sector) add(p *Partition) *Partition {
	s.mu.Lock()
	late := s.ended
	if !late {
		p.open = p.few[:0]
		s.open = append(s.open, p)
	}
	s.mu.Unlock()
	if late {
		p.end(time.Now(), nil, true)
		return nil
	}
	return p
}

// Verify starts the proof's own check.
func (s *Sector) Verify(at time.Time) *Phase {
	if s == nil {
		return nil
	}
	defer guard()
	at = orNow(at)
	ph := &Phase{s: s, kind: phaseVerify, stage: StagePipeline, start: at}
	ph.ctx, ph.span = s.r.start(s.ctx, StagePipeline, s.tree, "", SpanVerify, at, nil)
	s.mu.Lock()
	s.verifying = append(s.verifying, ph)
	s.mu.Unlock()
	return ph
}

// End ends the sector's trace. An error marks it as failed, for that reason.
// What is still open inside ends with it, as unfinished.
func (s *Sector) End(at time.Time, err error) {
	if s == nil {
		return
	}
	defer guard()
	s.end(orNow(at), err, false)
}

// Abandon ends the sector's trace, and what is still open inside, as
// unfinished.
func (s *Sector) Abandon(at time.Time) {
	if s == nil {
		return
	}
	defer guard()
	s.end(orNow(at), nil, true)
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
	s.admit(at)
	if unfinished {
		abandon(s.span)
	}
	if err != nil {
		fail(s.span, at, err)
	}
	s.r.ender.end(s.span, at)
	s.r.overview.leave(s, at, err, unfinished)
	s.r.mu.Lock()
	delete(s.r.open, s)
	s.r.mu.Unlock()
}

// admit ends the wait for admission, if the sector is in one.
func (s *Sector) admit(at time.Time) {
	s.mu.Lock()
	waiting := s.waiting
	s.waiting = false
	s.mu.Unlock()
	if !waiting {
		return
	}
	_, span := s.r.start(s.ctx, StageQueue, s.tree, "", SpanAdmissionWait, s.start, nil)
	s.r.ender.end(span, at)
}

// A Partition is one circuit of a sector, or all of it.
type Partition struct {
	s     *Sector
	index int
	whole bool
	path  string // in the sector's tree
	span  trace.Span
	ctx   context.Context // holds the span

	// Guarded by the sector's mu.
	ended bool
	open  []*Phase
	few   [2]*Phase // open's first array
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
	at = orNow(at)
	p.s.admit(at)
	attrs := append(p.attributes(1+len(more)), more...)
	if worker >= 0 {
		attrs = append(attrs, SynthesisWorker.Int(worker))
	}
	ph := p.phase(phaseSynthesis, StageSynthesis, SpanSynthesis, nil, at, attrs)
	p.s.r.overview.synthesisStarted(at)
	return ph
}

// Queue starts the wait of a synthesized partition for a GPU worker, which
// [Phase.PickUp] ends.
func (p *Partition) Queue(at time.Time, more ...attribute.KeyValue) *Phase {
	if p == nil {
		return nil
	}
	defer guard()
	at = orNow(at)
	depth := p.s.r.overview.offered(at)
	attrs := append(p.attributes(1+len(more)), more...)
	return p.phase(phaseQueue, StageQueue, SpanQueueWait, nil, at, append(attrs, QueueDepth.Int(depth)))
}

// Prove starts the work of a GPU worker on the partition. Worker and device,
// an ordinal, may be Unknown.
func (p *Partition) Prove(worker, device int, at time.Time, more ...attribute.KeyValue) *Phase {
	if p == nil {
		return nil
	}
	defer guard()
	at = orNow(at)
	l := p.s.r.overview.lane(device)
	attrs := append(p.attributes(2+len(l.attrs)+len(more)), l.attrs...)
	attrs = append(attrs, more...)
	if worker >= 0 {
		attrs = append(attrs, GPUWorker.Int(worker))
	}
	if p.s.r.backend != "" {
		attrs = append(attrs, Backend.String(p.s.r.backend))
	}
	ph := p.phase(phaseProve, StageGPU, SpanProve, l, at, attrs)
	p.s.r.overview.proveStarted(l, ph.span.SpanContext(), at)
	return ph
}

// attributes returns the attributes of the partition's phases, with room for
// more.
func (p *Partition) attributes(more int) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, more+1)
	if !p.whole {
		attrs = append(attrs, PartitionIndex.Int(p.index))
	}
	return attrs
}

// phase starts a phase directly under the partition.
func (p *Partition) phase(kind phaseKind, stage Stage, name string, l *lane, at time.Time, attrs []attribute.KeyValue) *Phase {
	ph := &Phase{s: p.s, p: p, kind: kind, stage: stage, name: name, lane: l, start: at}
	ph.ctx, ph.span = p.s.r.start(p.ctx, stage, p.s.tree, p.path, name, at, attrs)
	p.s.mu.Lock()
	p.open = append(p.open, ph)
	p.s.mu.Unlock()
	return ph
}

// Skip ends a partition that is not proved since its sector has failed.
func (p *Partition) Skip(at time.Time) {
	if p == nil {
		return
	}
	defer guard()
	p.span.SetAttributes(PartitionSkipped.Bool(true))
	p.end(orNow(at), nil, false)
}

// End ends the partition. An error marks it, and the phases still open inside,
// as failed for that reason.
func (p *Partition) End(at time.Time, err error) {
	if p == nil {
		return
	}
	defer guard()
	p.end(orNow(at), err, false)
}

// Abandon ends the partition, and the phases still open inside, as unfinished.
func (p *Partition) Abandon(at time.Time) {
	if p == nil {
		return
	}
	defer guard()
	p.end(orNow(at), nil, true)
}

func (p *Partition) end(at time.Time, err error, unfinished bool) {
	s := p.s
	s.mu.Lock()
	if p.ended {
		s.mu.Unlock()
		return
	}
	p.ended = true
	open := p.open
	p.open = nil
	for i, q := range s.open {
		if q == p {
			s.open[i] = s.open[len(s.open)-1]
			s.open = s.open[:len(s.open)-1]
			break
		}
	}
	s.mu.Unlock()

	for _, ph := range open {
		ph.end(at, err, true)
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

package tracing

import (
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/provetrace/provetrace/tracing/timeline"
)

// A phaseKind says what a phase means to the run's trace.
type phaseKind uint8

const (
	phaseInside phaseKind = iota // part of another phase
	phaseSynthesis
	phaseQueue
	phaseProve
	phaseVerify
)

// A Phase is something that takes time in a partition or inside another phase.
type Phase struct {
	s      *Sector
	p      *Partition // nil for verification
	outer  *Phase     // nil directly under a partition or sector
	name   string
	path   string // in its sector's tree; empty until it is needed
	kind   phaseKind
	stage  Stage
	worker int32  // of a gpu prove
	lane   *lane  // of the device, in gpu prove and inside it
	proof  uint64 // of a gpu prove, among those of its lane
	span   trace.Span
	start  time.Time
	room   [1]trace.SpanEndOption // saves an allocation at the end

	// Guarded by the sector's mu.
	ended  bool
	inside *inside // nil until something starts inside
}

// An inside is what has started inside a phase.
type inside struct {
	ctx   context.Context // holds the phase's span
	open  []*Phase
	ends  lastEnd
	names map[string]int // how often what has started had a name, in a replay
}

// Start starts a part of the phase: witness and constraint evaluation inside a
// synthesis, the waits and the device's own phases inside gpu prove. Waits for
// the device go to the queue's service, the others to the phase's own.
func (ph *Phase) Start(name string, at time.Time, attrs ...attribute.KeyValue) *Phase {
	if ph == nil {
		return nil
	}
	defer guard()
	ph.s.mu.Lock()
	defer ph.s.mu.Unlock()
	if ph.ended {
		return nil
	}
	if ph.inside == nil {
		ph.inside = &inside{ctx: trace.ContextWithSpan(ph.around(), ph.span)}
	}
	in := &Phase{s: ph.s, p: ph.p, outer: ph, stage: ph.stage, name: name, lane: ph.lane, start: ph.s.orNow(at)}
	if name == SpanDeviceWait {
		in.stage = StageQueue
	}
	d := newDraft()
	if in.stage == StageGPU && ph.lane != nil {
		d.attrs = append(d.attrs, ph.lane.attrs...)
	}
	d.attrs = append(d.attrs, attrs...)
	place := ph.placeInside(name)
	if place != "" {
		in.path = place + "/" + name
	}
	_, in.span = ph.s.r.start(ph.inside.ctx, in.stage, ph.s.tree, place, name, in.start, d)
	ph.inside.open = append(ph.inside.open, in)
	return in
}

// around returns the context in which the phase started.
func (ph *Phase) around() context.Context {
	switch {
	case ph.outer != nil:
		return ph.outer.inside.ctx
	case ph.p != nil:
		return ph.p.ctx
	default:
		return ph.s.ctx
	}
}

// siblings returns the open phases beside this one.
func (ph *Phase) siblings() *[]*Phase {
	switch {
	case ph.outer != nil:
		return &ph.outer.inside.open
	case ph.p != nil:
		return &ph.p.open
	default:
		return &ph.s.verifying
	}
}

// hasEnded reports whether nothing can be added to the phase any more.
func (ph *Phase) hasEnded() bool {
	ph.s.mu.Lock()
	defer ph.s.mu.Unlock()
	return ph.ended
}

// placeInside returns the place in the sector's tree of what starts inside the
// phase, by its name and how often that was there before; empty when live.
func (ph *Phase) placeInside(name string) string {
	if ph.s.tree == nil {
		return ""
	}
	in := ph.inside
	if in.names == nil {
		in.names = make(map[string]int)
	}
	in.names[name]++
	return repeated(ph.place(), in.names[name])
}

// repeated returns the place of the nth of what has the same name there.
func repeated(place string, n int) string {
	if n > 1 {
		place += "#" + strconv.Itoa(n)
	}
	return place
}

// place returns the phase's place in the sector's tree.
func (ph *Phase) place() string {
	switch {
	case ph.path != "":
	case ph.p != nil:
		ph.path = ph.p.path + "/" + ph.name
	default:
		ph.path = ph.name
	}
	return ph.path
}

// Set adds attributes.
func (ph *Phase) Set(attrs ...attribute.KeyValue) {
	if ph == nil || ph.hasEnded() {
		return
	}
	defer guard()
	ph.span.SetAttributes(attrs...)
}

// Context returns ctx with the phase's span in it, for spans of the caller's
// own.
func (ph *Phase) Context(ctx context.Context) context.Context {
	if ph == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, ph.span)
}

// End ends the phase, and what is still open inside as unfinished.
func (ph *Phase) End(at time.Time) {
	if ph == nil {
		return
	}
	defer guard()
	ph.end(ph.s.orNow(at), nil, false)
}

// Fail ends the phase with the reason for which it failed.
func (ph *Phase) Fail(at time.Time, err error) {
	if ph == nil {
		return
	}
	defer guard()
	ph.end(ph.s.orNow(at), err, false)
}

// PickUp ends a wait in the queue: a worker of the device, which both may be
// Unknown, took the partition. The span is linked to the latest of the proofs
// that held the device meanwhile.
func (ph *Phase) PickUp(worker, device int, at time.Time) {
	if ph == nil || ph.hasEnded() {
		return
	}
	defer guard()
	at = ph.s.orNow(at)
	var held [maxLinks]trace.SpanContext
	for _, sc := range ph.s.r.overview.held(held[:0], device, ph.start, at) {
		ph.span.AddLink(trace.Link{SpanContext: sc})
	}
	if ph.kind == phaseQueue {
		if worker >= 0 {
			d := newDraft()
			d.attrs = append(d.attrs, GPUWorker.Int(worker))
			d.set(ph.span)
		}
		ph.s.r.journal.drive(worker, device, at)
		ph.s.r.journal.event(timeline.GPUPickup, ph.p, worker, at, 0)
	}
	ph.end(at, nil, false)
}

func (ph *Phase) end(at time.Time, err error, unfinished bool) {
	s := ph.s
	s.mu.Lock()
	if ph.ended {
		s.mu.Unlock()
		return
	}
	ph.ended = true
	var ends lastEnd
	if in := ph.inside; in != nil {
		open := in.open
		in.open = nil
		s.mu.Unlock()
		for _, in := range open {
			in.end(at, err, true)
		}
		s.mu.Lock()
		ends = in.ends
	}
	at = ends.close(ph.start, at)
	switch {
	case ph.outer != nil:
		ph.outer.inside.ends.cover(at)
	case ph.p != nil:
		ph.p.ends.cover(at)
	default:
		s.ends.cover(at)
	}
	siblings := ph.siblings()
	for i, q := range *siblings {
		if q == ph {
			*siblings = append((*siblings)[:i], (*siblings)[i+1:]...)
			break
		}
	}
	ready := false
	switch ph.kind {
	case phaseSynthesis:
		s.synthesis.cover(ph.start, at)
		if err == nil && !unfinished && !ph.p.ended {
			ready, ph.p.ready = !ph.p.ready, true
		}
	case phaseProve:
		s.proving.cover(ph.start, at)
	}
	s.mu.Unlock()

	if err == nil && !unfinished {
		switch ph.kind {
		case phaseSynthesis:
			s.r.journal.event(timeline.SynthEnd, ph.p, Unknown, at, at.Sub(ph.start))
		case phaseProve:
			s.r.journal.event(timeline.GPUEnd, ph.p, int(ph.worker), at, at.Sub(ph.start))
		}
	}
	switch ph.kind {
	case phaseSynthesis:
		s.r.overview.synthesisEnded(ready, at)
	case phaseQueue:
		s.r.overview.taken(at)
	case phaseProve:
		s.r.overview.proveEnded(ph.lane, ph.proof, at)
	}
	switch {
	case err != nil:
		fail(ph.span, at, err)
	case unfinished:
		abandon(ph.span)
	}
	s.r.ender.endIn(ph.room[:0], ph.span, at)
}

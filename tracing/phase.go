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
	kind   phaseKind
	stage  Stage
	lane   *lane // of the device, in gpu prove and inside it
	span   trace.Span
	ctx    context.Context // holds the span
	start  time.Time
	proof  uint64                 // of a gpu prove, among those of its lane
	worker int                    // of a gpu prove
	room   [1]trace.SpanEndOption // saves an allocation at the end

	// Guarded by the sector's mu.
	ended bool
	open  []*Phase
	ends  lastEnd
	path  string         // in its sector's tree; empty until it is needed
	names map[string]int // how often what has started inside had a name, in a replay
}

// Start starts a part of the phase: witness and constraint evaluation inside a
// synthesis, the waits and the device's own phases inside gpu prove. Waits for
// the device go to the queue's service, the others to the phase's own.
func (ph *Phase) Start(name string, at time.Time, attrs ...attribute.KeyValue) *Phase {
	if ph == nil || ph.hasEnded() {
		return nil
	}
	defer guard()
	at = orNow(at)
	in := &Phase{s: ph.s, p: ph.p, outer: ph, stage: ph.stage, name: name, lane: ph.lane, start: at}
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
	in.ctx, in.span = ph.s.r.start(ph.ctx, in.stage, ph.s.tree, place, name, at, d)
	return in.add()
}

// siblings returns the open phases beside this one, and whether what they are
// in has ended.
func (ph *Phase) siblings() (open *[]*Phase, ended bool) {
	switch {
	case ph.outer != nil:
		return &ph.outer.open, ph.outer.ended
	case ph.p != nil:
		return &ph.p.open, ph.p.ended
	default:
		return &ph.s.verifying, ph.s.ended
	}
}

// add makes the phase one of the open ones, unless what it is in has ended
// meanwhile.
func (ph *Phase) add() *Phase {
	ph.s.mu.Lock()
	open, late := ph.siblings()
	if !late {
		*open = append(*open, ph)
	}
	ph.s.mu.Unlock()
	if late {
		ph.end(ph.start, nil, true)
		return nil
	}
	return ph
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
	ph.s.mu.Lock()
	defer ph.s.mu.Unlock()
	if ph.names == nil {
		ph.names = make(map[string]int)
	}
	ph.names[name]++
	return repeated(ph.placeLocked(), ph.names[name])
}

// repeated returns the place of the nth of what has the same name there.
func repeated(place string, n int) string {
	if n > 1 {
		place += "#" + strconv.Itoa(n)
	}
	return place
}

func (ph *Phase) placeLocked() string {
	if ph.path == "" {
		switch {
		case ph.outer != nil:
			ph.path = ph.outer.placeLocked() + "/" + ph.name
		case ph.p != nil:
			ph.path = ph.p.path + "/" + ph.name
		default:
			ph.path = ph.name
		}
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
	ph.end(orNow(at), nil, false)
}

// Fail ends the phase with the reason for which it failed.
func (ph *Phase) Fail(at time.Time, err error) {
	if ph == nil {
		return
	}
	defer guard()
	ph.end(orNow(at), err, false)
}

// PickUp ends a wait in the queue: a worker of the device, which both may be
// Unknown, took the partition. The span is linked to the latest of the proofs
// that held the device meanwhile.
func (ph *Phase) PickUp(worker, device int, at time.Time) {
	if ph == nil || ph.hasEnded() {
		return
	}
	defer guard()
	at = orNow(at)
	var held [maxLinks]trace.SpanContext
	for _, sc := range ph.s.r.overview.held(held[:0], device, ph.start, at) {
		ph.span.AddLink(trace.Link{SpanContext: sc})
	}
	if ph.kind == phaseQueue {
		if worker >= 0 {
			ph.span.SetAttributes(GPUWorker.Int(worker))
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
	if open := ph.open; len(open) > 0 {
		ph.open = nil
		s.mu.Unlock()
		for _, in := range open {
			in.end(at, err, true)
		}
		s.mu.Lock()
	}
	at = ph.ends.close(ph.start, at)
	switch {
	case ph.outer != nil:
		ph.outer.ends.cover(at)
	case ph.p != nil:
		ph.p.ends.cover(at)
	default:
		s.ends.cover(at)
	}
	siblings, _ := ph.siblings()
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
			s.r.journal.event(timeline.GPUEnd, ph.p, ph.worker, at, at.Sub(ph.start))
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

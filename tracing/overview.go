package tracing

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// sectorsPerTrace bounds the sectors in one trace of the run: after that many
// the next part begins, so that a backend can still show it.
const sectorsPerTrace = 500

// maxLinks bounds the links of a queue wait.
const maxLinks = 4

// A Device is a GPU. What is zero is unknown, except the ordinal.
type Device struct {
	Ordinal       int    // CUDA's number of it
	UUID          string // GPU-…
	Name          string // as the user knows it
	Model         string
	Vendor        string
	DriverVersion string
	PCIBusID      string // domain:bus:device.function
}

// attributes returns what is known of the device, by the semantic conventions
// for hardware where they have a name for it.
func (d Device) attributes() []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 8)
	attrs = append(attrs, semconv.HwTypeGpu)
	if d.Ordinal >= 0 {
		attrs = append(attrs, DeviceOrdinal.Int(d.Ordinal))
	}
	for _, a := range []attribute.KeyValue{
		semconv.HwID(d.UUID), semconv.HwName(d.Name), semconv.HwModel(d.Model), semconv.HwVendor(d.Vendor),
		semconv.HwDriverVersion(d.DriverVersion), DevicePCIBusID.String(d.PCIBusID),
	} {
		if a.Value.AsString() != "" {
			attrs = append(attrs, a)
		}
	}
	return attrs
}

// A lane is what the run's trace shows of a device.
type lane struct {
	device Device
	attrs  []attribute.KeyValue
	span   trace.Span      // in the present part of the trace
	ctx    context.Context // holds span

	busy      int       // workers proving
	idleSince time.Time // meaningful while busy is 0
	cause     string    // of the idle time; empty until time has passed since it began
	gaps      int       // idle spans so far, for their ids

	proofs [2 * maxLinks]proof // a ring of the latest
	next   int
}

// A proof is a gpu prove span that holds, or held, a device.
type proof struct {
	sc       trace.SpanContext
	from, to time.Time // to is zero while it lasts
}

// The overview is the run's own trace: how far it is and what the pipeline's
// parts do at present.
type overview struct {
	r *Recorder

	mu           sync.Mutex
	lanes        []*lane // by ordinal
	unknown      *lane   // work on a device that is not known
	part         *overviewPart
	parts        int
	waiting      int // partitions in the queue
	synthesizing int
	last         time.Time // the latest end
}

// An overviewPart is one trace of the run.
type overviewPart struct {
	number   int
	root     trace.Span
	ctx      context.Context // holds root
	tree     *treeIDs        // nil when live
	start    time.Time
	cause    string    // why devices are idle at its start
	last     time.Time // the latest end of a sector
	entered  int       // sectors
	open     int
	complete bool // no sector will enter any more
	labels   map[string]int
}

func (o *overview) init(r *Recorder, devices []Device) {
	o.r = r
	o.unknown = &lane{device: Device{Ordinal: Unknown}, attrs: Device{Ordinal: Unknown}.attributes()}
	for _, d := range devices {
		o.addLane(d)
	}
}

// addLane adds the lane of a device that has none yet.
func (o *overview) addLane(d Device) *lane {
	l := &lane{device: d, attrs: d.attributes()}
	at, _ := slices.BinarySearchFunc(o.lanes, d.Ordinal, func(l *lane, ordinal int) int { return l.device.Ordinal - ordinal })
	o.lanes = slices.Insert(o.lanes, at, l)
	if o.part != nil {
		o.openLane(l)
		l.idleSince, l.cause = o.part.start, o.part.cause
	}
	return l
}

// lane returns the lane of a device, which may be Unknown.
func (o *overview) lane(ordinal int) *lane {
	if ordinal < 0 {
		return o.unknown
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.lanes {
		if l.device.Ordinal == ordinal {
			return l
		}
	}
	return o.addLane(Device{Ordinal: ordinal})
}

// enter counts a sector into the run's trace, which it may begin.
func (o *overview) enter(s *Sector) *overviewPart {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(s.start)
	if o.part != nil && o.part.entered >= sectorsPerTrace {
		for _, l := range o.lanes {
			if l.busy == 0 && l.cause != "" {
				o.idle(l, s.start)
			}
		}
		o.finishPart(s.start)
	}
	if o.part == nil {
		o.beginPart(s.start)
	}
	o.part.entered++
	o.part.open++
	return o.part
}

// beginPart begins a trace. Its device lanes come first, so that a viewer
// lists them on top.
func (o *overview) beginPart(at time.Time) {
	o.parts++
	o.part = &overviewPart{number: o.parts, start: at, labels: make(map[string]int)}
	// Every job has a name, so that no sector's ids are those of a part of the
	// run's trace.
	o.part.tree = o.r.tree("", o.parts)
	o.part.ctx, o.part.root = o.r.start(context.Background(), StagePipeline, o.part.tree, "", SpanRun, at, o.r.backendAttributes())
	for _, l := range o.lanes {
		o.openLane(l)
		if l.busy == 0 && l.idleSince.IsZero() {
			l.idleSince = at
		}
	}
}

func (o *overview) openLane(l *lane) {
	name := DeviceSpanName(l.device.Ordinal)
	l.ctx, l.span = o.r.start(o.part.ctx, StageGPU, o.part.tree, "", name, o.part.start, l.attrs)
}

// finishPart ends the lanes of the present trace. Its root ends with the last
// of its sectors.
func (o *overview) finishPart(at time.Time) {
	part := o.part
	if part == nil {
		return
	}
	for _, l := range o.lanes {
		o.r.ender.end(l.span, at)
	}
	o.part = nil
	part.complete = true
	if at.After(part.last) {
		part.last = at
	}
	part.end(&o.r.ender)
}

// end ends the trace's root once no sector can enter or is open.
func (p *overviewPart) end(e *ender) {
	if p.complete && p.open == 0 {
		e.end(p.root, p.last)
	}
}

// leave puts a sector that has ended into its part of the run's trace.
func (o *overview) leave(s *Sector, at time.Time, err error, unfinished bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(at)
	if at.After(o.last) {
		o.last = at
	}
	part := s.part
	name := SectorSpanName(s.info.Job)
	path := strconv.Itoa(part.labels[name])
	part.labels[name]++
	ctx, span := o.r.start(part.ctx, StagePipeline, part.tree, path, name, s.start, sectorAttributes(s.info),
		trace.WithLinks(trace.Link{SpanContext: s.span.SpanContext()}))
	for _, e := range []struct {
		stage Stage
		name  string
		extent
		attrs []attribute.KeyValue
	}{
		{StageSynthesis, SpanSynthesis, s.synthesis, nil},
		{StageGPU, SpanProve, s.proving, o.unknown.attrs},
	} {
		if !e.from.IsZero() {
			_, in := o.r.start(ctx, e.stage, part.tree, path+"/"+name, e.name, e.from, e.attrs)
			o.r.ender.end(in, e.to)
		}
	}
	if unfinished {
		abandon(span)
	}
	if err != nil {
		fail(span, at, err)
	}
	o.r.ender.end(span, at)
	if at.After(part.last) {
		part.last = at
	}
	part.open--
	part.end(&o.r.ender)
}

func (o *overview) close(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.last.IsZero() && o.last.Before(at) {
		at = o.last
	}
	o.advance(at)
	for _, l := range o.lanes {
		if neverWorked := l.proofs[0].from.IsZero(); neverWorked {
			o.idle(l, at)
		}
	}
	o.finishPart(at)
}

// advance settles why devices are idle: what the pipeline does just after a
// device fell idle is the cause. All that happened at one instant counts as
// done together, in whatever order it was told.
func (o *overview) advance(at time.Time) {
	if o.part != nil && o.part.cause == "" && at.After(o.part.start) {
		o.part.cause = o.causeNow()
	}
	for _, l := range o.lanes {
		if l.busy == 0 && l.cause == "" && !l.idleSince.IsZero() && at.After(l.idleSince) {
			l.cause = o.causeNow()
		}
	}
}

// causeNow returns why a device without work has none.
func (o *overview) causeNow() string {
	switch {
	case o.waiting > 0:
		return CauseHandoff
	case o.synthesizing > 0:
		return CauseSynthesis
	default:
		return CauseNoWork
	}
}

// idle makes the span of a lane's idle time, which ends at the given time.
func (o *overview) idle(l *lane, at time.Time) {
	if o.part == nil || !at.After(l.idleSince) {
		return
	}
	l.gaps++
	_, span := o.r.start(l.ctx, StageQueue, o.part.tree, fmt.Sprintf("%s/%d", DeviceSpanName(l.device.Ordinal), l.gaps), SpanIdle,
		l.idleSince, []attribute.KeyValue{IdleCause.String(l.cause), DeviceOrdinal.Int(l.device.Ordinal)})
	o.r.ender.end(span, at)
	l.idleSince = at
}

func (o *overview) synthesisStarted(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(at)
	o.synthesizing++
}

func (o *overview) synthesisEnded(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(at)
	o.synthesizing--
}

// offered counts a partition into the queue and returns how many were in it.
func (o *overview) offered(at time.Time) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(at)
	o.waiting++
	return o.waiting - 1
}

// taken counts a partition out of the queue.
func (o *overview) taken(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(at)
	o.waiting--
}

func (o *overview) proveStarted(l *lane, sc trace.SpanContext, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(at)
	if l != o.unknown && l.busy == 0 {
		if l.cause != "" {
			o.idle(l, at)
		}
		l.cause = ""
	}
	l.busy++
	l.proofs[l.next] = proof{sc: sc, from: at}
	l.next = (l.next + 1) % len(l.proofs)
}

func (o *overview) proveEnded(l *lane, id trace.SpanID, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(at)
	l.busy--
	if l.busy == 0 {
		l.idleSince = at
	}
	for i := range l.proofs {
		if l.proofs[i].sc.SpanID() == id {
			l.proofs[i].to = at
		}
	}
}

// held appends the latest proofs that held a device at some time between from
// and to, at most maxLinks of them, the earliest first.
func (o *overview) held(scs []trace.SpanContext, ordinal int, from, to time.Time) []trace.SpanContext {
	l := o.lane(ordinal)
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := 1; i <= len(l.proofs) && len(scs) < maxLinks; i++ {
		p := &l.proofs[(l.next-i+len(l.proofs))%len(l.proofs)]
		if !p.from.IsZero() && p.from.Before(to) && (p.to.IsZero() || p.to.After(from)) {
			scs = append(scs, p.sc)
		}
	}
	slices.Reverse(scs)
	return scs
}

// RunTraces returns into how many traces the overview of a run of so many
// sectors is divided. Replayed, they have the ids of TraceIDFor(run, "", 1) and
// so on.
func RunTraces(sectors int) int {
	return (sectors + sectorsPerTrace - 1) / sectorsPerTrace
}

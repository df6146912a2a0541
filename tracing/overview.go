package tracing

import (
	"cmp"
	"context"
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

	proofs  [2 * maxLinks]proof // a ring of the latest
	started uint64              // proofs so far
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
	queued       int
	ready        int // partitions that are synthesized and not yet being proved
	synthesizing int
	unsettled    bool      // some cause is to be settled when time has passed
	last         time.Time // the latest end of a sector
}

// An overviewPart is one trace of the run.
type overviewPart struct {
	root     trace.Span
	ctx      context.Context // holds root
	tree     *treeIDs        // nil when live
	start    time.Time
	working  time.Time // when devices could first have work; zero until then
	cause    string    // why devices are idle since then; empty until time has passed
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
		if d.Ordinal >= 0 && o.find(d.Ordinal) == nil {
			o.addLane(d)
		}
	}
}

// find returns the lane of a device, or nil.
func (o *overview) find(ordinal int) *lane {
	if at, ok := o.search(ordinal); ok {
		return o.lanes[at]
	}
	return nil
}

// search returns where the lane of a device is, or should be.
func (o *overview) search(ordinal int) (int, bool) {
	return slices.BinarySearchFunc(o.lanes, ordinal, func(l *lane, ordinal int) int { return cmp.Compare(l.device.Ordinal, ordinal) })
}

// addLane adds the lane of a device that has none yet.
func (o *overview) addLane(d Device) *lane {
	l := &lane{device: d, attrs: d.attributes()}
	at, _ := o.search(d.Ordinal)
	o.lanes = slices.Insert(o.lanes, at, l)
	if o.part != nil {
		o.openLane(l)
		l.idleSince, l.cause, o.unsettled = o.part.working, o.part.cause, true
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
	if l := o.find(ordinal); l != nil {
		return l
	}
	return o.addLane(Device{Ordinal: ordinal})
}

// enter counts a sector that starts at some time into the run's trace, which it
// may begin. from is when its own trace starts, which can be long before.
func (o *overview) enter(from, at time.Time) *overviewPart {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(at)
	switch {
	case o.part == nil:
		o.beginPart(from)
	case o.part.entered >= sectorsPerTrace:
		for _, l := range o.lanes {
			if l.busy == 0 && l.cause != "" {
				o.idle(l, at)
			}
		}
		o.finishPart(at)
		o.beginPart(at)
		o.begin(at)
	}
	o.part.entered++
	o.part.open++
	return o.part
}

// beginPart begins a trace. Its device lanes come first, so that a viewer
// lists them on top.
func (o *overview) beginPart(at time.Time) {
	o.parts++
	o.part = &overviewPart{start: at, labels: make(map[string]int)}
	// Every job has a name, so that no sector's ids are those of a part of the
	// run's trace.
	o.part.tree = o.r.tree("", o.parts)
	d := newDraft()
	d.attrs = o.r.appendBackend(d.attrs)
	o.part.ctx, o.part.root = o.r.start(context.Background(), StagePipeline, o.part.tree, "", SpanRun, at, d)
	for _, l := range o.lanes {
		o.openLane(l)
	}
}

// begin notes when devices could first have work in the present part: until
// then, they are not idle.
func (o *overview) begin(at time.Time) {
	if o.part == nil || !o.part.working.IsZero() {
		return
	}
	o.part.working, o.unsettled = at, true
	for _, l := range o.lanes {
		l.idleSince = at
	}
}

func (o *overview) openLane(l *lane) {
	d := newDraft()
	d.attrs = append(d.attrs, l.attrs...)
	l.ctx, l.span = o.r.start(o.part.ctx, StageGPU, o.part.tree, "", DeviceSpanName(l.device.Ordinal), o.part.start, d)
}

// finishPart ends the lanes of the present trace. Its root ends with the last
// of its sectors.
func (o *overview) finishPart(at time.Time) {
	part := o.part
	for _, l := range o.lanes {
		o.r.ender.end(l.span, at)
	}
	o.part = nil
	part.complete = true
	part.last = later(part.last, at)
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
	s.mu.Lock()
	synthesis, proving := s.synthesis, s.proving
	s.mu.Unlock()

	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(at)
	o.last = later(o.last, at)
	part := s.part
	part.last = later(part.last, at)
	name := SectorSpanName(s.info.Job)
	path := strconv.Itoa(part.labels[name])
	part.labels[name]++
	d := newDraft()
	d.attrs = s.info.append(d.attrs)
	d.opts = append(d.opts, trace.WithLinks(trace.Link{SpanContext: s.span.SpanContext()}))
	// A sector can have waited since before the part began.
	ctx, span := o.r.start(part.ctx, StagePipeline, part.tree, path, name, later(part.start, s.start), d)
	o.extent(ctx, part, path+"/"+name, StageSynthesis, SpanSynthesis, synthesis)
	o.extent(ctx, part, path+"/"+name, StageGPU, SpanProve, proving)
	if unfinished {
		abandon(span)
	}
	if err != nil {
		fail(span, at, err)
	}
	o.r.ender.end(span, later(part.start, at))
	part.open--
	part.end(&o.r.ender)
}

// extent makes the span of all of a sector's phases of a kind.
func (o *overview) extent(ctx context.Context, part *overviewPart, path string, stage Stage, name string, e extent) {
	if e.from.IsZero() {
		return
	}
	d := newDraft()
	if stage == StageGPU {
		d.attrs = append(d.attrs, o.unknown.attrs...)
	}
	_, span := o.r.start(ctx, stage, part.tree, path, name, later(part.start, e.from), d)
	o.r.ender.end(span, later(part.start, e.to))
}

// close ends the run's trace with the last of its sectors, which all have
// ended or are just ending.
func (o *overview) close(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.part == nil {
		return
	}
	if o.part.open == 0 {
		at = o.last
	}
	o.advance(at)
	for _, l := range o.lanes {
		if neverWorked := l.started == 0; neverWorked && l.cause != "" {
			o.idle(l, at)
		}
	}
	o.finishPart(at)
}

// advance settles why devices are idle: what the pipeline does just after a
// device fell idle is the cause. All that happened at one instant counts as
// done together, in whatever order it was told.
func (o *overview) advance(at time.Time) {
	if !o.unsettled {
		return
	}
	o.unsettled = false
	if part := o.part; part != nil && part.cause == "" && !part.working.IsZero() {
		o.settle(&part.cause, part.working, at)
	}
	for _, l := range o.lanes {
		if l.busy == 0 && l.cause == "" && !l.idleSince.IsZero() {
			o.settle(&l.cause, l.idleSince, at)
		}
	}
}

// settle settles the cause of an idle time, if time has passed since it began.
func (o *overview) settle(cause *string, since, at time.Time) {
	if at.After(since) {
		*cause = o.causeNow()
	} else {
		o.unsettled = true
	}
}

// causeNow returns why a device without work has none.
func (o *overview) causeNow() string {
	switch {
	case o.ready > 0:
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
	d := newDraft()
	d.attrs = append(d.attrs, DeviceOrdinal.Int(l.device.Ordinal))
	if l.cause != CauseNoWork || !o.r.partial {
		d.attrs = append(d.attrs, IdleCause.String(l.cause))
	}
	path := DeviceSpanName(l.device.Ordinal) + "/" + strconv.Itoa(l.gaps)
	_, span := o.r.start(l.ctx, StageQueue, o.part.tree, path, SpanIdle, l.idleSince, d)
	o.r.ender.end(span, at)
	l.idleSince = at
}

func (o *overview) synthesisStarted(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(at)
	o.begin(at)
	o.synthesizing++
}

// synthesisEnded counts a synthesis as done, and its partition as ready if it
// has become that.
func (o *overview) synthesisEnded(ready bool, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(at)
	o.synthesizing--
	if ready {
		o.ready++
	}
}

// offered counts a partition into the queue, and as ready if it has become that
// only now. It returns how many were in the queue.
func (o *overview) offered(ready bool, at time.Time) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(at)
	o.begin(at)
	if ready {
		o.ready++
	}
	o.queued++
	return o.queued - 1
}

// taken counts a partition out of the queue.
func (o *overview) taken(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(at)
	o.queued--
}

// givenUp counts a partition that was ready and will not be proved.
func (o *overview) givenUp(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(at)
	o.ready--
}

// proveStarted counts a proof, of a partition that was ready or not, and
// returns its number among the lane's.
func (o *overview) proveStarted(l *lane, sc trace.SpanContext, ready bool, at time.Time) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(at)
	o.begin(at)
	if ready {
		o.ready--
	}
	if l != o.unknown && l.busy == 0 {
		if l.cause != "" {
			o.idle(l, at)
		}
		l.cause = ""
	}
	l.busy++
	number := l.started
	l.proofs[number%uint64(len(l.proofs))] = proof{sc: sc, from: at}
	l.started++
	return number
}

func (o *overview) proveEnded(l *lane, number uint64, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance(at)
	l.busy--
	l.idleSince, o.unsettled = later(l.idleSince, at), true
	if l.started-number <= uint64(len(l.proofs)) {
		l.proofs[number%uint64(len(l.proofs))].to = at
	}
}

// held appends the latest proofs that held a device at some time between from
// and to, at most maxLinks of them, the earliest first.
func (o *overview) held(scs []trace.SpanContext, ordinal int, from, to time.Time) []trace.SpanContext {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.unknown
	if ordinal >= 0 {
		l = o.find(ordinal)
	}
	if l == nil {
		return scs // it has not worked yet
	}
	for n := l.started; n > 0 && l.started-n < uint64(len(l.proofs)) && len(scs) < maxLinks; n-- {
		p := &l.proofs[(n-1)%uint64(len(l.proofs))]
		if p.from.Before(to) && (p.to.IsZero() || p.to.After(from)) {
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

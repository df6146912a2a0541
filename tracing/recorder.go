package tracing

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Unknown stands for a worker or a device that is not known.
const Unknown = -1

// DefaultMaxOpenSectors bounds the sectors that a [Recorder] follows at once.
const DefaultMaxOpenSectors = 10_000

// Tracers gives each stage its tracer. [Stages] is one.
type Tracers interface {
	Tracer(Stage) trace.Tracer
}

// RecorderOptions are the options of [NewRecorder]. The zero value is a live
// recorder.
type RecorderOptions struct {
	// Run, where not empty, names a run that is replayed. All ids then follow
	// from it and from the places of the spans in their trees, so that
	// replaying a run twice gives the same ids. Attempts at a job then have to
	// differ in their numbers, and what starts in a sector or a partition in its
	// name. The tracers have to come from a [Pipeline].
	Run string

	// Backend is the value of prover.backend, absent where empty.
	Backend string

	// Partial says that syntheses are missing in what a replay tells. That there
	// was no work for a device is then not known, and not said.
	Partial bool

	// Devices are the devices known beforehand. Others are added, with no more
	// than their ordinal, when they first work.
	Devices []Device

	// Journal, where not nil, takes a log of the run as it happens, with a call
	// of Write for each line, so that a run that is killed can be converted. It
	// never holds up a pipeline: lines that it is too slow for are lost, and
	// counted by JournalErr. The job ids in it have '_' for blanks, commas,
	// quotes and the like. A replay writes none.
	Journal io.Writer

	// MaxOpenSectors bounds the sectors followed at once. Further ones are
	// counted by Dropped and not recorded. 0 means DefaultMaxOpenSectors.
	MaxOpenSectors int
}

// A Recorder turns what happens in a proving pipeline into the spans of the
// contract: a trace for each sector and one for the run.
//
// All methods of a Recorder and of the handles it gives may be called from many
// goroutines, on nil handles too, and more than once: what has ended stays as it
// is, and nothing starts inside it any more. They never panic, and in live use
// they never wait for a backend. A time argument that is zero means now. Facts
// of one recorder should arrive about in the order of their times, as they do
// live: the run's idle spans and the queue's links follow from that order.
type Recorder struct {
	tracers [numStages]trace.Tracer
	run     string // of a replay; empty when live
	partial bool
	backend string
	maxOpen int

	mu      sync.Mutex
	open    map[int64]*Sector // by the order of their start
	started int64
	dropped int64
	closed  bool

	overview overview
	ender    ender
	journal  *journal // nil where there is none
}

// NewRecorder returns a recorder whose spans go to the tracers. Close ends
// what is open.
func NewRecorder(t Tracers, o RecorderOptions) *Recorder {
	r := &Recorder{run: o.Run, partial: o.Partial, backend: o.Backend, maxOpen: o.MaxOpenSectors, open: make(map[int64]*Sector)}
	for s := range r.tracers {
		r.tracers[s] = t.Tracer(Stage(s))
	}
	if r.maxOpen <= 0 {
		r.maxOpen = DefaultMaxOpenSectors
	}
	if r.run != "" {
		r.ender.replay()
	} else if o.Journal != nil {
		r.journal = newJournal(o.Journal, time.Now())
	}
	r.overview.init(r, o.Devices)
	return r
}

// SectorInfo says which proof a sector's trace is of. What is zero is unknown.
type SectorInfo struct {
	Job        string
	Attempt    int       // from 1; 0 means 1
	ProofKind  string    // porep-c2, snap-update, …
	Partitions int       // 0 for a whole-sector proof
	Admitted   time.Time // when the pipeline accepted the job
}

// StartSector starts the trace of a sector, as a child of the span in ctx if
// there is one. The trace begins when the job was admitted, else at the given
// time. From the admission to the first synthesis, the sector is in its
// admission wait. A nil handle, on which all methods do nothing, comes back
// where too many sectors are open.
func (r *Recorder) StartSector(ctx context.Context, info SectorInfo, at time.Time) *Sector {
	if r == nil {
		return nil
	}
	defer guard()
	at = orNow(at)
	info.Attempt = max(info.Attempt, 1)
	s := &Sector{r: r, info: info, start: at}
	if !info.Admitted.IsZero() && !info.Admitted.After(at) {
		s.start, s.waiting = info.Admitted, true
	}
	// Close waits here for a sector that is just starting.
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.admit(s) {
		return nil
	}
	s.part = r.overview.enter(s.start, at)
	s.tree = r.tree(info.Job, info.Attempt)
	r.journal.started(s)
	d := newDraft()
	// As options, so that samplers see them.
	d.opts = append(d.opts, trace.WithAttributes(r.appendBackend(info.append(make([]attribute.KeyValue, 0, 8)))...))
	s.ctx, s.span = r.start(ctx, StagePipeline, s.tree, "", SpanSector, s.start, d)
	return s
}

// admit makes s one of the open sectors, if there is room for it.
func (r *Recorder) admit(s *Sector) bool {
	r.mu.Lock()
	ok := !r.closed && len(r.open) < r.maxOpen
	if ok {
		r.started++
		s.number = r.started
		r.open[s.number] = s
	} else {
		r.dropped++
	}
	first := !ok && r.dropped == 1
	r.mu.Unlock()
	if first {
		handle(fmt.Errorf("tracing: more than %d sectors are open, or the recorder is closed: further ones are not recorded; end sectors, or raise MaxOpenSectors", r.maxOpen))
	}
	return ok
}

// appendBackend appends what is known of the backend.
func (r *Recorder) appendBackend(attrs []attribute.KeyValue) []attribute.KeyValue {
	if r.backend == "" {
		return attrs
	}
	return append(attrs, Backend.String(r.backend))
}

// Dropped returns how many sectors were not recorded since too many were open,
// or since the recorder was closed.
func (r *Recorder) Dropped() int64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// Close ends every sector that is still open as unfinished, and the run's own
// trace, which ends with the last of its sectors. Nothing is recorded
// afterwards. It must be called.
func (r *Recorder) Close(at time.Time) {
	if r == nil {
		return
	}
	defer guard()
	at = orNow(at)
	r.mu.Lock()
	r.closed = true
	open := make([]*Sector, 0, len(r.open))
	for _, n := range slices.Sorted(maps.Keys(r.open)) {
		open = append(open, r.open[n])
	}
	r.mu.Unlock()
	for _, s := range open {
		s.Abandon(at)
	}
	r.overview.close(at)
	r.ender.close()
	r.journal.close()
}

// RunContext returns the span context of the run's own trace: the latest part
// of it.
func (r *Recorder) RunContext() trace.SpanContext {
	if r == nil {
		return trace.SpanContext{}
	}
	r.overview.mu.Lock()
	defer r.overview.mu.Unlock()
	if r.overview.part == nil {
		return trace.SpanContext{}
	}
	return r.overview.part.root.SpanContext()
}

// tree returns the ids of the tree of an attempt at a job, or nil when live.
func (r *Recorder) tree(job string, attempt int) *treeIDs {
	if r.run == "" {
		return nil
	}
	return newTreeIDs(r.run, job, attempt)
}

// A draft is what a span is to start with. Drafts are used again: the SDK keeps
// copies.
type draft struct {
	attrs []attribute.KeyValue // set just after the start
	opts  []trace.SpanStartOption
}

var drafts = sync.Pool{New: func() any { return new(draft) }}

// newDraft returns an empty draft, which start takes back.
func newDraft() *draft {
	d := drafts.Get().(*draft)
	d.attrs, d.opts = d.attrs[:0], d.opts[:0]
	return d
}

// set sets a span's attributes and takes the draft back.
func (d *draft) set(span trace.Span) {
	span.SetAttributes(d.attrs...)
	drafts.Put(d)
}

// start starts a span and returns it, with a context in which a new span
// becomes its child. path and name are its place in its tree.
func (r *Recorder) start(ctx context.Context, stage Stage, tree *treeIDs, path, name string, at time.Time, d *draft) (in context.Context, span trace.Span) {
	in, span = ctx, noop.Span{} // if it panics
	defer guard()
	if tree != nil {
		ctx = tree.with(ctx, path, name)
	}
	d.opts = append(d.opts, trace.WithTimestamp(at))
	in, span = r.tracers[stage].Start(ctx, name, d.opts...)
	// As options, they would be copied twice.
	d.set(span)
	return in, span
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// orNow returns at, or the present time where at is zero.
func orNow(at time.Time) time.Time {
	if at.IsZero() {
		return time.Now()
	}
	return at
}

// guard keeps a panic of a span processor, or of an error's text, out of the
// pipeline.
func guard() {
	if p := recover(); p != nil {
		handle(fmt.Errorf("tracing: a span is lost, since recording it panicked: %v", p))
	}
}

// handle gives an error to OpenTelemetry's handler, which is the program's.
func handle(err error) {
	defer func() { _ = recover() }()
	otel.Handle(err)
}

// A Failure is the reason of a failure that a log tells, as an error.
type Failure string

func (f Failure) Error() string { return string(f) }

// fail marks a span as failed at a time, with an exception event.
func fail(span trace.Span, at time.Time, err error) {
	defer guard()
	span.SetStatus(codes.Error, "") // even if the error's text cannot be had
	span.SetStatus(codes.Error, err.Error())
	span.RecordError(err, trace.WithTimestamp(at))
}

// abandon marks a span as unfinished.
func abandon(span trace.Span) {
	defer guard()
	span.SetAttributes(Unfinished.Bool(true))
	span.SetStatus(codes.Error, "the record stops before it ended")
}

// partitionNames are the names of the partitions that there usually are.
var partitionNames = func() (names [16]string) {
	for i := range names {
		names[i] = "partition " + strconv.Itoa(i)
	}
	return names
}()

// PartitionSpanName returns the name of the span of a partition.
func PartitionSpanName(index int) string {
	if index >= 0 && index < len(partitionNames) {
		return partitionNames[index]
	}
	return "partition " + strconv.Itoa(index)
}

// SectorSpanName returns the name of a sector's span in the run's own trace.
func SectorSpanName(job string) string {
	return "sector " + SectorLabel(job)
}

// DeviceSpanName returns the name of a device's span in the run's own trace.
func DeviceSpanName(ordinal int) string {
	return "gpu " + strconv.Itoa(ordinal)
}

package tracing

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
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
	// replaying a run twice gives the same ids. The tracers have to come from
	// a pipeline set up with Options.DeterministicIDs.
	Run string

	// Backend is the value of prover.backend, absent where empty.
	Backend string

	// Devices are the devices known beforehand. Others are added, with no more
	// than their ordinal, when they first work.
	Devices []Device

	// MaxOpenSectors bounds the sectors followed at once. Further ones are
	// counted by Dropped and not recorded. 0 means DefaultMaxOpenSectors.
	MaxOpenSectors int
}

// A Recorder turns what happens in a proving pipeline into the spans of the
// contract: a trace for each sector and one for the run.
//
// All methods of a Recorder and of the handles it gives may be called from many
// goroutines, on nil handles too, and more than once. They never panic and
// never wait for a backend. A time argument that is zero means now. Facts of
// one recorder should arrive about in the order of their times, as they do
// live: the run's idle spans and the queue's links follow from that order.
type Recorder struct {
	tracers [numStages]trace.Tracer
	run     string // of a replay; empty when live
	backend string
	maxOpen int

	mu      sync.Mutex
	open    map[*Sector]struct{}
	dropped int64
	closed  bool

	overview overview
	ender    ender
}

// NewRecorder returns a recorder whose spans go to the tracers. Close ends
// what is open.
func NewRecorder(t Tracers, o RecorderOptions) *Recorder {
	r := &Recorder{run: o.Run, backend: o.Backend, maxOpen: o.MaxOpenSectors, open: make(map[*Sector]struct{})}
	for s := range r.tracers {
		r.tracers[s] = t.Tracer(Stage(s))
	}
	if r.maxOpen <= 0 {
		r.maxOpen = DefaultMaxOpenSectors
	}
	if r.run != "" {
		r.ender.replay()
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
// time. A nil handle, on which all methods do nothing, comes back where too
// many sectors are open.
func (r *Recorder) StartSector(ctx context.Context, info SectorInfo, at time.Time) *Sector {
	if r == nil {
		return nil
	}
	defer guard()
	at = orNow(at)
	if info.Attempt < 1 {
		info.Attempt = 1
	}
	s := &Sector{r: r, info: info, start: at}
	if !info.Admitted.IsZero() && info.Admitted.Before(at) {
		s.start, s.waiting = info.Admitted, true
	}
	r.mu.Lock()
	if r.closed || len(r.open) >= r.maxOpen {
		r.dropped++
		first := r.dropped == 1
		r.mu.Unlock()
		if first {
			otel.Handle(fmt.Errorf("tracing: more than %d sectors are open, or the recorder is closed: further ones are not recorded; end sectors, or raise MaxOpenSectors", r.maxOpen))
		}
		return nil
	}
	r.open[s] = struct{}{}
	r.mu.Unlock()

	s.part = r.overview.enter(s)
	s.tree = r.tree(info.Job, info.Attempt)
	s.ctx, s.span = r.start(ctx, StagePipeline, s.tree, "", SpanSector, s.start, append(sectorAttributes(info), r.backendAttributes()...))
	return s
}

func (r *Recorder) backendAttributes() []attribute.KeyValue {
	if r.backend == "" {
		return nil
	}
	return []attribute.KeyValue{Backend.String(r.backend)}
}

// Dropped returns how many sectors were not recorded since too many were open.
func (r *Recorder) Dropped() int64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// Close ends every sector that is still open as unfinished, and the run's own
// trace. Nothing is recorded afterwards. It must be called.
func (r *Recorder) Close(at time.Time) {
	if r == nil {
		return
	}
	defer guard()
	at = orNow(at)
	r.mu.Lock()
	r.closed = true
	open := make([]*Sector, 0, len(r.open))
	for s := range r.open {
		open = append(open, s)
	}
	r.mu.Unlock()
	for _, s := range open {
		s.Abandon(at)
	}
	r.overview.close(at)
	r.ender.close()
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

// start starts a span and returns it, with a context in which a new span
// becomes its child. path and name are its place in its tree.
func (r *Recorder) start(ctx context.Context, stage Stage, tree *treeIDs, path, name string, at time.Time, attrs []attribute.KeyValue, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	if tree != nil {
		ctx = tree.with(ctx, path, name)
	}
	if opts == nil {
		opts = make([]trace.SpanStartOption, 0, 2)
	}
	opts = append(opts, trace.WithTimestamp(at))
	if len(attrs) > 0 {
		opts = append(opts, trace.WithAttributes(attrs...))
	}
	return r.tracers[stage].Start(ctx, name, opts...)
}

// orNow returns at, or the present time where at is zero.
func orNow(at time.Time) time.Time {
	if at.IsZero() {
		return time.Now()
	}
	return at
}

// guard keeps a panic of a span processor or exporter out of the pipeline.
func guard() {
	if p := recover(); p != nil {
		otel.Handle(fmt.Errorf("tracing: a span processor panicked, its span is lost: %v", p))
	}
}

// A Failure is the reason of a failure that a log tells, as an error.
type Failure string

func (f Failure) Error() string { return string(f) }

// fail marks a span as failed at a time, with an exception event.
func fail(span trace.Span, at time.Time, err error) {
	span.RecordError(err, trace.WithTimestamp(at))
	span.SetStatus(codes.Error, err.Error())
}

// abandon marks a span as unfinished.
func abandon(span trace.Span) {
	span.SetAttributes(Unfinished.Bool(true))
	span.SetStatus(codes.Error, "the record stops before it ended")
}

// PartitionSpanName returns the name of the span of a partition.
func PartitionSpanName(index int) string {
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

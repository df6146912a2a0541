package prover_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/provetrace/provetrace/prover"
	"github.com/provetrace/provetrace/prover/backend"
	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/tracing"
)

// A spans keeps the spans of all stages.
type spans struct {
	tracers [tracing.StageGPU + 1]trace.Tracer
	*tracetest.SpanRecorder
}

func newSpans() *spans {
	s := &spans{SpanRecorder: tracetest.NewSpanRecorder()}
	for stage := range s.tracers {
		s.tracers[stage] = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.SpanRecorder),
			sdktrace.WithResource(resource.NewSchemaless(semconv.ServiceName(tracing.Stage(stage).ServiceName("prover")))),
		).Tracer(tracing.ScopeName)
	}
	return s
}

func (s *spans) Tracer(stage tracing.Stage) trace.Tracer { return s.tracers[stage] }

func infos(b backend.Backend) []tracing.Device {
	var all []tracing.Device
	for _, d := range b.Devices() {
		all = append(all, d.Info())
	}
	return all
}

// A node is a span with those inside it, in the order of their starts.
type node struct {
	sdktrace.ReadOnlySpan
	children []*node
}

func (n *node) attr(key attribute.Key) (attribute.Value, bool) {
	for _, kv := range n.Attributes() {
		if kv.Key == key {
			return kv.Value, true
		}
	}
	return attribute.Value{}, false
}

// named returns the children of a name.
func (n *node) named(name string) []*node {
	var found []*node
	for _, c := range n.children {
		if c.Name() == name {
			found = append(found, c)
		}
	}
	return found
}

// roots returns the trees, and requires that each span has ended, no earlier
// than it began, and inside its parent.
func (s *spans) roots(t testing.TB) []*node {
	t.Helper()
	require.Equal(t, len(s.Started()), len(s.Ended()), "spans that started and ended")
	nodes := make(map[trace.SpanID]*node)
	for _, x := range s.Ended() {
		nodes[x.SpanContext().SpanID()] = &node{ReadOnlySpan: x}
	}
	var roots []*node
	for _, n := range nodes {
		require.True(t, n.EndTime().After(n.StartTime()), n.Name())
		parent := nodes[n.Parent().SpanID()]
		if parent == nil {
			roots = append(roots, n)
			continue
		}
		parent.children = append(parent.children, n)
		require.Equal(t, parent.SpanContext().TraceID(), n.SpanContext().TraceID())
		require.False(t, n.StartTime().Before(parent.StartTime()), "%s starts before %s", n.Name(), parent.Name())
		require.False(t, n.EndTime().After(parent.EndTime()), "%s ends after %s", n.Name(), parent.Name())
	}
	byStart := func(a, b *node) int {
		return cmp.Or(a.StartTime().Compare(b.StartTime()), a.EndTime().Compare(b.EndTime()), cmp.Compare(a.Name(), b.Name()))
	}
	for _, n := range nodes {
		slices.SortFunc(n.children, byStart)
	}
	slices.SortFunc(roots, byStart)
	return roots
}

// sectors returns the sectors' trees, by job.
func (s *spans) sectors(t testing.TB) map[string]*node {
	t.Helper()
	all := make(map[string]*node)
	for _, n := range s.roots(t) {
		if n.Name() == tracing.SpanSector {
			job, _ := n.attr(tracing.JobID)
			all[job.AsString()] = n
		}
	}
	return all
}

// tree writes a tree: of each span its name, its service, its times in s since
// an epoch, its device, and how it ended.
func (n *node) tree(epoch time.Time) string {
	var b strings.Builder
	var write func(n *node, depth int)
	write = func(n *node, depth int) {
		service, _ := n.Resource().Set().Value(semconv.ServiceNameKey)
		fmt.Fprintf(&b, "%s%s @%s %g..%g", strings.Repeat("  ", depth), n.Name(), strings.TrimPrefix(service.AsString(), "prover-"),
			n.StartTime().Sub(epoch).Round(time.Millisecond).Seconds(), n.EndTime().Sub(epoch).Round(time.Millisecond).Seconds())
		for _, key := range []attribute.Key{tracing.GPUWorker, tracing.DeviceOrdinal, tracing.QueueDepth, tracing.PartitionSkipped, tracing.IdleCause} {
			if v, ok := n.attr(key); ok {
				fmt.Fprintf(&b, " %s=%s", key, v.String())
			}
		}
		if n.Status().Code == codes.Error {
			fmt.Fprintf(&b, " ERROR(%s)", n.Status().Description)
		}
		b.WriteString("\n")
		for _, c := range n.children {
			write(c, depth+1)
		}
	}
	write(n, 0)
	return b.String()
}

// A step is a step of a partition in a fake backend.
type step struct {
	name      string // synthesize, prepare, run, finish, release or verify
	job       string
	partition int // -1 in verify
}

// A fake is a backend and the statements for it. Its steps take given times,
// which may be simulated ones, and do what a hook does.
type fake struct {
	devices int
	takes   map[string]time.Duration // by step's name
	hook    func(ctx context.Context, s step) error

	mu       sync.Mutex
	log      []step
	held     int // partitions from the start of their synthesis until run is over
	most     int // of held
	prepared int
	closed   int
}

func (f *fake) Name() string { return "fake" }

func (f *fake) Devices() []backend.Device {
	var all []backend.Device
	for n := range f.devices {
		all = append(all, &fakeDevice{f, n})
	}
	return all
}

func (f *fake) Close() error {
	f.closed++
	return nil
}

// do does a step.
func (f *fake) do(ctx context.Context, s step) error {
	f.mu.Lock()
	f.log = append(f.log, s)
	f.mu.Unlock()
	if d := f.takes[s.name]; d > 0 {
		if s.name == "synthesize" {
			d += time.Duration(s.partition) * 100 * time.Millisecond // no two end at an instant
		}
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if f.hook != nil {
		return f.hook(ctx, s)
	}
	return nil
}

func (f *fake) hold(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held += n
	f.most = max(f.most, f.held)
}

// steps returns the partitions of the steps of a name, in the order in which
// they began.
func (f *fake) steps(name string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, s := range f.log {
		if s.name == name {
			all = append(all, fmt.Sprintf("%s/%d", s.job, s.partition))
		}
	}
	return all
}

type fakeDevice struct {
	f       *fake
	ordinal int
}

func (d *fakeDevice) Info() tracing.Device { return tracing.Device{Ordinal: d.ordinal, Name: "fake"} }

func (d *fakeDevice) Prepare(ctx context.Context, t backend.Task) (backend.Proving, error) {
	if err := d.f.do(ctx, step{"prepare", t.Job, t.Partition}); err != nil {
		return nil, err
	}
	d.f.mu.Lock()
	d.f.prepared++
	d.f.mu.Unlock()
	return &fakeProving{d.f, t}, nil
}

type fakeProving struct {
	f *fake
	t backend.Task
}

func (p *fakeProving) Run(ctx context.Context, phase backend.PhaseFunc) error {
	defer p.f.hold(-1)
	start := time.Now()
	err := p.f.do(ctx, step{"run", p.t.Job, p.t.Partition})
	if err == nil {
		phase("msm h", start, time.Now())
	}
	return err
}

func (p *fakeProving) Finish(ctx context.Context, phase backend.PhaseFunc) (groth16.Proof, error) {
	start := time.Now()
	err := p.f.do(ctx, step{"finish", p.t.Job, p.t.Partition})
	if err == nil {
		phase("msm b_g2", start, time.Now())
	}
	var proof groth16.Proof
	proof.A.X.SetUint64(uint64(p.t.Partition))
	return proof, err
}

func (p *fakeProving) Release() {
	_ = p.f.do(context.Background(), step{"release", p.t.Job, p.t.Partition})
}

// A fakeStatement is a sector of the fake.
type fakeStatement struct {
	f          *fake
	job        string
	partitions int
}

func (s *fakeStatement) Partitions() int { return s.partitions }

func (s *fakeStatement) Synthesize(ctx context.Context, partition int, part func(string)) (*groth16.Assignment, error) {
	s.f.hold(1)
	part(tracing.SpanWitness)
	if err := s.f.do(ctx, step{"synthesize", s.job, partition}); err != nil {
		s.f.hold(-1)
		return nil, err
	}
	part(tracing.SpanConstraints)
	return new(groth16.Assignment), nil
}

func (s *fakeStatement) Verify(ctx context.Context, proofs []groth16.Proof) error {
	for i := range proofs {
		if !proofs[i].A.X.IsUint64() || proofs[i].A.X.Uint64() != uint64(i) {
			return fmt.Errorf("proof %d is another partition's", i)
		}
	}
	return s.f.do(ctx, step{"verify", s.job, -1})
}

// job returns a job of the fake with so many partitions.
func (f *fake) job(id string, partitions int) prover.Job {
	return prover.Job{ID: id, ProofKind: "porep-c2", Statement: &fakeStatement{f, id, partitions}}
}

// mustNew returns a pipeline.
func mustNew(t testing.TB, o prover.Options) *prover.Pipeline {
	t.Helper()
	p, err := prover.New(o)
	require.NoError(t, err)
	return p
}

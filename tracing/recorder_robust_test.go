package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"github.com/provetrace/provetrace/tracing/otlptest"
	"github.com/provetrace/provetrace/tracing/timeline"
)

// A teller tells a recorder of random things, sensible or not.
type teller struct {
	r     *Recorder
	rand  *rand.Rand
	clock func() time.Time
	*board
}

// A board has the handles that tellers share.
type board struct {
	mu         sync.Mutex
	sectors    []*Sector
	partitions []*Partition
	phases     []*Phase
	started    map[any]bool // by parent and kind; nil if things may start again
}

// once has the teller start nothing twice in the same place, as in a replay.
func (x *teller) once() *teller {
	x.started = make(map[any]bool)
	return x
}

// again reports whether something may not start again.
func (x *teller) again(parent any, kind phaseKind) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.started == nil {
		return false
	}
	type key struct {
		parent any
		kind   phaseKind
	}
	k := key{parent, kind}
	if p, ok := parent.(*Partition); ok && p != nil && p.whole {
		k.parent = p.s // of which there can be several
	}
	defer func() { x.started[k] = true }()
	return x.started[k]
}

func newTeller(r *Recorder, seed uint64, clock func() time.Time) *teller {
	return &teller{r: r, rand: rand.New(rand.NewPCG(seed, seed)), clock: clock, board: new(board)}
}

// clockOf returns a clock that moves a millisecond at each second look.
func clockOf(ms int) func() time.Time {
	ms *= 2
	return func() time.Time {
		ms++
		return at(ms / 2)
	}
}

// pick returns one of the latest handles, which may have ended, or nil.
func pick[T any](x *teller, of *[]*T) *T {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(*of) == 0 {
		return nil
	}
	return (*of)[max(0, len(*of)-1-x.rand.IntN(8))]
}

func put[T any](x *teller, in *[]*T, handle *T) {
	x.mu.Lock()
	defer x.mu.Unlock()
	*in = append(*in, handle)
}

// tell tells of n things.
func (x *teller) tell(n int) {
	for i := range n {
		x.step(i)
	}
}

func (x *teller) step(i int) {
	sector, partition, phase := pick(x, &x.sectors), pick(x, &x.partitions), pick(x, &x.phases)
	now := x.clock()
	var err error
	if x.rand.IntN(4) == 0 {
		err = errors.New("failed")
	}
	device := x.rand.IntN(4) - 1
	what := x.rand.IntN(24)
	switch {
	case what == 4 && x.again(sector, phaseVerify), what >= 5 && what <= 7 && x.again(partition, phaseSynthesis),
		what >= 8 && what <= 10 && x.again(partition, phaseQueue), what >= 11 && what <= 13 && x.again(partition, phaseProve):
		return
	}
	switch what {
	case 0:
		put(x, &x.sectors, x.r.StartSector(context.Background(), SectorInfo{Job: fmt.Sprint("job ", i), Attempt: i, Admitted: now.Add(-time.Second)}, now))
	case 1, 2:
		put(x, &x.partitions, sector.StartPartition(i, now))
	case 3:
		put(x, &x.partitions, sector.WholeSector())
	case 4:
		put(x, &x.phases, sector.Verify(now))
	case 5, 6, 7:
		put(x, &x.phases, partition.Synthesis(x.rand.IntN(3)-1, now))
	case 8, 9, 10:
		put(x, &x.phases, partition.Queue(now, attribute.Int("i", i)))
	case 11, 12, 13:
		put(x, &x.phases, partition.Prove(device, device, now))
	case 14, 15:
		put(x, &x.phases, phase.Start(fmt.Sprint("phase ", i), now))
	case 16, 17, 18:
		phase.End(now)
	case 19:
		phase.PickUp(Unknown, device, now)
	case 20:
		phase.Fail(now, err)
		phase.Set(attribute.Int("late", i))
	case 21:
		partition.End(now, err)
	case 22:
		partition.Skip(now)
		partition.Abandon(now)
	case 23:
		if x.rand.IntN(3) == 0 {
			sector.End(now, err)
			sector.Abandon(now)
		}
	}
}

// ends counts the starts and ends of each span.
type ends struct {
	mu     sync.Mutex
	starts map[trace.SpanID]int
	ends   map[trace.SpanID]int
}

func newEnds() *ends {
	return &ends{starts: make(map[trace.SpanID]int), ends: make(map[trace.SpanID]int)}
}

func (e *ends) OnStart(_ context.Context, s sdktrace.ReadWriteSpan) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.starts[s.SpanContext().SpanID()]++
}

func (e *ends) OnEnd(s sdktrace.ReadOnlySpan) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ends[s.SpanContext().SpanID()]++
}

func (e *ends) Shutdown(context.Context) error   { return nil }
func (e *ends) ForceFlush(context.Context) error { return nil }

// Many goroutines tell of random things, and each span that started ends once.
func TestConcurrentRecording(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	keepErrors(t) // of sectors that start too late
	for _, run := range []string{"", "run"} {
		for seed := range uint64(3) {
			ended := newEnds()
			var journal bytes.Buffer
			r := NewRecorder(newTestStages(sdktrace.WithSpanProcessor(ended)), RecorderOptions{Run: run, Devices: knownDevices, Journal: &journal})
			shared := new(board)
			var told, tellers sync.WaitGroup
			told.Add(8)
			for g := range uint64(8) {
				tellers.Go(func() {
					x := newTeller(r, seed<<8|g, time.Now)
					x.board = shared
					x.tell(1500)
					r.RunContext()
					r.Dropped()
					told.Done()
					x.tell(500) // while the recorder is closed, and after it
				})
			}
			told.Wait()
			r.Close(time.Time{})
			tellers.Wait()
			r.Close(time.Time{})

			lines := timeline.NewReader(&journal, "journal")
			for lines.Scan() {
				require.Equal(t, timeline.EventRecord, lines.Record().Type, lines.Record().Problem)
			}
			require.Equal(t, run == "", lines.Stats().Events > 1000)

			r.mu.Lock()
			require.Empty(t, r.open)
			r.mu.Unlock()
			o := &r.overview
			require.Equal(t, [3]int{}, [3]int{o.queued, o.ready, o.synthesizing})
			for _, l := range append(o.lanes, o.unknown) {
				require.Zero(t, l.busy)
			}
			require.Greater(t, len(ended.starts), 1000)
			for id, n := range ended.starts {
				require.Equal(t, n, ended.ends[id], "starts and ends of a span")
				if run == "" {
					require.Equal(t, 1, n, "starts of a span")
				}
			}
		}
	}
}

// Nothing is recorded in what has ended, or in a recorder that is closed.
func TestUseAfterTheEnd(t *testing.T) {
	for _, run := range []string{"", "run"} {
		stages := newTestStages()
		r := NewRecorder(stages, RecorderOptions{Run: run})
		s := r.StartSector(context.Background(), SectorInfo{Job: "j"}, at(0))
		p, whole := s.StartPartition(0, at(0)), s.WholeSector()
		ph := p.Synthesis(0, at(0))
		queue, verify := p.Queue(at(0)), s.Verify(at(0))
		prove := p.Prove(0, 0, at(0))

		ph.End(at(10))
		ph.Set(attribute.Bool("late", true))
		ph.Fail(at(11), errors.New("late"))
		require.Nil(t, ph.Start("late", at(12)))
		queue.End(at(10))
		prove.End(at(20))
		queue.PickUp(0, 0, at(30))
		p.End(at(40), nil)
		p.Skip(at(41))
		p.End(at(42), errors.New("late"))
		require.Nil(t, p.Synthesis(0, at(43)))
		require.Nil(t, p.Queue(at(43)))
		require.Nil(t, p.Prove(0, 0, at(43)))
		s.End(at(50), nil)
		s.End(at(51), errors.New("late"))
		s.Abandon(at(52))
		require.Nil(t, whole.Synthesis(0, at(53)))
		require.Nil(t, s.StartPartition(1, at(54)))
		require.Nil(t, s.WholeSector())
		require.Nil(t, s.Verify(at(55)))
		require.Nil(t, verify.Start("late", at(55)))

		open := r.StartSector(context.Background(), SectorInfo{Job: "k"}, at(60))
		r.Close(at(70))
		require.Nil(t, open.StartPartition(0, at(71)))
		open.End(at(72), errors.New("late"))
		handled := keepErrors(t)
		require.Nil(t, r.StartSector(context.Background(), SectorInfo{Job: "l"}, at(73)))
		require.Len(t, *handled, 1)
		require.EqualValues(t, 1, r.Dropped())
		require.NotContains(t, stages.trees(t), "late")
		require.NotContains(t, stages.trees(t), "skipped")
	}
}

// A nil handle does nothing, whatever is asked of it.
func TestNilHandles(t *testing.T) {
	for _, handle := range []any{(*Recorder)(nil), (*Sector)(nil), (*Partition)(nil), (*Phase)(nil)} {
		v := reflect.ValueOf(handle)
		require.NotZero(t, v.NumMethod())
		for i := range v.NumMethod() {
			name := v.Type().Elem().Name() + "." + v.Type().Method(i).Name
			m := v.Method(i)
			var args []reflect.Value
			for k := range m.Type().NumIn() {
				if !m.Type().IsVariadic() || k < m.Type().NumIn()-1 {
					args = append(args, reflect.Zero(m.Type().In(k)))
				}
			}
			for _, result := range m.Call(args) {
				require.True(t, result.IsZero(), name)
			}
		}
	}
	ctx := context.Background()
	require.Equal(t, ctx, (*Sector)(nil).Context(ctx))
	require.Equal(t, ctx, (*Partition)(nil).Context(ctx))
	require.Equal(t, ctx, (*Phase)(nil).Context(ctx))
}

// keepErrors keeps what reaches OpenTelemetry's error handler.
func keepErrors(t *testing.T) *[]error {
	t.Helper()
	var mu sync.Mutex
	var handled []error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		handled = append(handled, err)
	}))
	t.Cleanup(func() { otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {})) })
	return &handled
}

func TestMaxOpenSectors(t *testing.T) {
	handled := keepErrors(t)
	r := NewRecorder(newTestStages(), RecorderOptions{MaxOpenSectors: 2})
	first := r.StartSector(context.Background(), SectorInfo{Job: "a"}, at(0))
	require.NotNil(t, r.StartSector(context.Background(), SectorInfo{Job: "b"}, at(0)))
	require.Empty(t, *handled)
	for range 3 {
		none := r.StartSector(context.Background(), SectorInfo{Job: "c"}, at(0))
		require.Nil(t, none)
		none.StartPartition(0, at(0)).Synthesis(0, at(0)).End(at(1))
		none.End(at(1), nil)
	}
	require.EqualValues(t, 3, r.Dropped())
	require.Len(t, *handled, 1)
	require.ErrorContains(t, (*handled)[0], "more than 2 sectors")
	first.End(at(1), nil)
	require.NotNil(t, r.StartSector(context.Background(), SectorInfo{Job: "d"}, at(1)))
	require.EqualValues(t, 3, r.Dropped())
	r.Close(at(2))
	require.Equal(t, DefaultMaxOpenSectors, NewRecorder(newTestStages(), RecorderOptions{}).maxOpen)
}

// A panicker is a span processor that panics now and then.
type panicker struct {
	*ends
	onStart, onEnd func() bool
}

func (p *panicker) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	if p.onStart() {
		panic("on start")
	}
	p.ends.OnStart(ctx, s)
}

func (p *panicker) OnEnd(s sdktrace.ReadOnlySpan) {
	if p.onEnd() {
		panic("on end")
	}
	p.ends.OnEnd(s)
}

// Whatever span processors do, a pipeline goes on, and so does its recorder.
func TestPanicsStayInside(t *testing.T) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { panic("the handler too") }))
	t.Cleanup(func() { otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {})) })
	never := func() bool { return false }
	always := func() bool { return true }
	for _, run := range []string{"", "run"} {
		for name, p := range map[string]*panicker{
			"on start":  {ends: newEnds(), onStart: always, onEnd: never},
			"on end":    {ends: newEnds(), onStart: never, onEnd: always},
			"sometimes": {ends: newEnds()},
		} {
			t.Run(name+run, func(t *testing.T) {
				if name == "sometimes" {
					random := rand.New(rand.NewPCG(1, 2))
					var mu sync.Mutex
					p.onStart = func() bool {
						mu.Lock()
						defer mu.Unlock()
						return random.IntN(3) == 0
					}
					p.onEnd = p.onStart
				}
				provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p), sdktrace.WithIDGenerator(idGenerator{}))
				r := NewRecorder(oneTracer{provider.Tracer(ScopeName)}, RecorderOptions{Run: run, Devices: knownDevices})
				tell(r)
				tellStatuses(r)
				newTeller(r, 3, clockOf(500)).tell(1000)
				r.Close(at(10_000))
				require.Empty(t, r.open)
				require.Zero(t, r.overview.ready)
			})
		}
	}
}

// An error whose text cannot be had still fails and ends the span.
func TestErrorThatPanics(t *testing.T) {
	handled := keepErrors(t)
	stages := newTestStages()
	r := NewRecorder(stages, RecorderOptions{Journal: io.Discard})
	s := r.StartSector(context.Background(), SectorInfo{Job: "j"}, at(0))
	p := s.StartPartition(0, at(0))
	var none *failureOfNil
	p.Synthesis(0, at(0)).Fail(at(1), none)
	p.End(at(2), none)
	s.End(at(3), none)
	r.Close(at(4))
	require.Len(t, *handled, 4)
	requireTree(t, `
		prove sector @prover 0..3 prover.attempt=1 prover.job.id=j ERROR()
		  partition 0 @prover 0..2 prover.job.id=j prover.partition.index=0 ERROR()
		    synthesis @synthesis 0..1 prover.partition.index=0 prover.synthesis.worker=0 ERROR()
		proving run @prover 0..3
		  sector j @prover 0..3 prover.attempt=1 prover.job.id=j ERROR() ->prove sector 0..3
		    synthesis @synthesis 0..1
	`, stages.trees(t))
}

type failureOfNil struct{ text string }

func (f *failureOfNil) Error() string { return f.text }

// A panic of the pipeline passes through deferred ends.
func TestPanicOfThePipelinePasses(t *testing.T) {
	stages := newTestStages()
	r := NewRecorder(stages, RecorderOptions{})
	s := r.StartSector(context.Background(), SectorInfo{Job: "j"}, at(0))
	require.PanicsWithValue(t, "out of memory", func() {
		defer s.End(at(2), nil)
		defer s.StartPartition(0, at(0)).Synthesis(0, at(0)).End(at(1))
		panic("out of memory")
	})
	r.Close(at(3))
	require.Len(t, stages.named(t, SpanSynthesis), 2)
}

// Spans that are not sampled, or not recorded at all, break nothing.
func TestSampling(t *testing.T) {
	for name, sampler := range map[string]sdktrace.Sampler{
		"never": sdktrace.NeverSample(),
		"ratio": sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.5)),
		"none":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			checkQuiet(t)
			stages := newTestStages(sdktrace.WithSampler(sampler))
			if sampler == nil {
				for i := range stages.tracers {
					stages.tracers[i] = noop.NewTracerProvider().Tracer("")
				}
			}
			r := NewRecorder(stages, RecorderOptions{})
			for range 20 {
				tell(r)
			}
			tellStatuses(r)
			r.Close(at(1000))
			require.Len(t, stages.spans.Ended(), len(stages.spans.Started()))
			for _, s := range stages.spans.Ended() {
				require.True(t, s.SpanContext().IsSampled())
			}
			if name != "ratio" {
				require.Empty(t, stages.spans.Ended())
			}
		})
	}
}

// A backend that takes nothing does not hold up a live pipeline.
func TestBackendThatHangs(t *testing.T) {
	clearEnv(t, "OTEL_BSP_MAX_QUEUE_SIZE=64", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=16")
	server := otlptest.Start(t, otlptest.Options{Reply: func(otlptest.Request) otlptest.Reply { return otlptest.Reply{Hang: true} }})
	p := mustSetup(t, Options{Endpoint: server.Endpoint()})
	told := make(chan struct{})
	go func() {
		defer close(told)
		r := NewRecorder(p.Stages(), RecorderOptions{})
		for range 100 {
			tell(r)
		}
		r.Close(at(1000))
	}()
	select {
	case <-told:
	case <-testContext(t).Done():
		t.Fatal("the recorder waits for the backend")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d, err := p.Shutdown(ctx)
	require.Error(t, err)
	require.Zero(t, d.Delivered)
	require.Equal(t, d.Ended, d.Failed+d.Dropped)
	require.Greater(t, d.Ended, int64(1000))
}

// A recorder of a replay leaves no goroutine behind, and ends spans that end
// late itself.
func TestReplayLeavesNothingBehind(t *testing.T) {
	checkQuiet(t)
	stages := newTestStages()
	r := NewRecorder(stages, RecorderOptions{Run: "run"})
	newTeller(r, 1, clockOf(0)).tell(20 * endingBatch)
	r.Close(at(1000))
	r.Close(at(1000))
	late := stages.Tracer(StagePipeline)
	_, span := late.Start(context.Background(), "late")
	r.ender.end(span, at(2000))
	require.Len(t, stages.spans.Ended(), len(stages.spans.Started()))
}

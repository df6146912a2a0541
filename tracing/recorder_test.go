package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
)

// testStages are tracers whose spans are kept, with a provider for each stage.
type testStages struct {
	tracers [numStages]trace.Tracer
	spans   *tracetest.SpanRecorder
}

func newTestStages(options ...sdktrace.TracerProviderOption) *testStages {
	s := &testStages{spans: tracetest.NewSpanRecorder()}
	for stage := range s.tracers {
		r := resource.NewSchemaless(semconv.ServiceName(Stage(stage).ServiceName(DefaultServiceName)))
		s.tracers[stage] = sdktrace.NewTracerProvider(append([]sdktrace.TracerProviderOption{
			sdktrace.WithSpanProcessor(s.spans), sdktrace.WithResource(r), sdktrace.WithIDGenerator(idGenerator{}),
		}, options...)...).Tracer(ScopeName)
	}
	return s
}

func (s *testStages) Tracer(stage Stage) trace.Tracer { return s.tracers[stage] }

var testStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at returns the time of a millisecond of the test.
func at(ms int) time.Time { return testStart.Add(time.Duration(ms) * time.Millisecond) }

// trees writes all spans that have ended as trees, one span a line: its name,
// its service, its times in ms, and what else it has. Roots and siblings are in
// the order of their starts, then of their names.
func (s *testStages) trees(t testing.TB) string {
	t.Helper()
	ended := s.spans.Ended()
	require.Len(t, ended, len(s.spans.Started()), "spans that started and ended")
	byID := make(map[trace.SpanID]sdktrace.ReadOnlySpan)
	for _, x := range ended {
		require.Nil(t, byID[x.SpanContext().SpanID()], "two spans have an id")
		byID[x.SpanContext().SpanID()] = x
		require.Equal(t, ScopeName, x.InstrumentationScope().Name)
	}
	slices.SortStableFunc(ended, func(a, b sdktrace.ReadOnlySpan) int {
		return cmp.Or(a.StartTime().Compare(b.StartTime()), cmp.Compare(a.Name(), b.Name()), a.EndTime().Compare(b.EndTime()))
	})
	children := make(map[trace.SpanID][]sdktrace.ReadOnlySpan)
	for _, x := range ended {
		id := x.Parent().SpanID()
		if byID[id] == nil {
			id = trace.SpanID{} // a parent that is not the recorder's
		}
		children[id] = append(children[id], x)
	}
	var out strings.Builder
	var write func(parent trace.SpanID, depth int)
	write = func(parent trace.SpanID, depth int) {
		for _, x := range children[parent] {
			fmt.Fprintf(&out, "%s%s\n", strings.Repeat("  ", depth), describe(x, byID))
			write(x.SpanContext().SpanID(), depth+1)
		}
	}
	write(trace.SpanID{}, 0)
	return out.String()
}

func describe(x sdktrace.ReadOnlySpan, byID map[trace.SpanID]sdktrace.ReadOnlySpan) string {
	service, _ := x.Resource().Set().Value(semconv.ServiceNameKey)
	ms := func(at time.Time) int64 { return at.Sub(testStart).Milliseconds() }
	words := []string{fmt.Sprintf("%s @%s %d..%d", x.Name(), strings.TrimPrefix(service.AsString(), "prover-"), ms(x.StartTime()), ms(x.EndTime()))}
	attrs := x.Attributes()
	slices.SortFunc(attrs, func(a, b attribute.KeyValue) int { return cmp.Compare(a.Key, b.Key) })
	for _, kv := range attrs {
		words = append(words, string(kv.Key)+"="+kv.Value.String())
	}
	switch status := x.Status(); status.Code {
	case codes.Error:
		words = append(words, "ERROR("+status.Description+")")
	case codes.Ok:
		words = append(words, "OK")
	}
	for _, e := range x.Events() {
		words = append(words, fmt.Sprintf("%s@%d", e.Name, ms(e.Time)))
	}
	for _, l := range x.Links() {
		to := byID[l.SpanContext.SpanID()]
		words = append(words, fmt.Sprintf("->%s %d..%d", to.Name(), ms(to.StartTime()), ms(to.EndTime())))
	}
	return strings.Join(words, " ")
}

// named returns what trees writes of the spans of a name.
func (s *testStages) named(t testing.TB, name string) []string {
	t.Helper()
	var found []string
	for line := range strings.Lines(s.trees(t)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, name+" @") {
			found = append(found, line)
		}
	}
	return found
}

// requireTree holds trees against the wanted ones, without the indentation
// that they have as a literal.
func requireTree(t *testing.T, want, got string) {
	t.Helper()
	lines := strings.Split(strings.Trim(want, "\n\t"), "\n")
	for i := range lines {
		lines[i] = strings.TrimLeft(lines[i], "\t")
	}
	require.Equal(t, strings.Join(lines, "\n"), strings.TrimRight(got, "\n"))
}

// tell tells a recorder of two partitions of a sector, with everything that can
// be told.
func tell(r *Recorder) {
	s := r.StartSector(context.Background(), SectorInfo{Job: "porep-1000-77", Attempt: 2, ProofKind: "porep-c2", Partitions: 2, Admitted: at(-500)}, at(0))

	p0 := s.StartPartition(0, at(0))
	synth0 := p0.Synthesis(3, at(0), ReportedDuration.Int(99))
	synth0.Start(SpanWitness, at(0)).End(at(40))
	synth0.Start(SpanConstraints, at(40)).End(at(100))
	p1 := s.StartPartition(1, at(5))
	synth1 := p1.Synthesis(4, at(5))
	synth0.End(at(100))
	queue0 := p0.Queue(at(101))
	queue0.PickUp(Unknown, 1, at(110))
	prove0 := p0.Prove(2, 1, at(111), Inferred.StringSlice([]string{InferredStart}))
	prove0.Start(SpanPrepare, at(111)).End(at(120))
	wait := prove0.Start(SpanDeviceWait, at(120), attribute.String("lock", "a"))
	wait.Start("inside the wait", at(121)).End(at(122))
	wait.End(at(130))
	synth1.End(at(140))
	queue1 := p1.Queue(at(141))
	prove0.Start(SpanNTTMSMH, at(130), attribute.Int("rows", 8)).End(at(200))
	prove0.Set(GPUUtilization.Float64(0.5), GPUSamples.Int(7))
	prove0.End(at(210))
	p0.End(at(210), nil)
	queue1.PickUp(Unknown, 1, at(215))
	prove1 := p1.Prove(3, 1, at(216))
	prove1.End(at(300))
	p1.End(at(300), nil)
	s.Verify(at(300)).End(at(310))
	s.End(at(311), nil)
}

var knownDevices = []Device{
	{Ordinal: 1, UUID: "GPU-1", Name: "left", Model: "H200", Vendor: "NVIDIA", DriverVersion: "570.1", PCIBusID: "0000:1b:00.0"},
	{Ordinal: 0, UUID: "GPU-0"},
	{Ordinal: 1, UUID: "told twice"},
	{Ordinal: Unknown},
}

func TestContract(t *testing.T) {
	stages := newTestStages()
	r := NewRecorder(stages, RecorderOptions{Backend: "cuda", Devices: knownDevices})
	tell(r)
	r.Close(at(400))
	requireTree(t, `
		prove sector @prover -500..311 filecoin.miner.id=1000 filecoin.sector.number=77 prover.attempt=2 prover.backend=cuda prover.job.id=porep-1000-77 prover.partition.count=2 prover.proof.kind=porep-c2
		  admission wait @queue -500..0
		  partition 0 @prover 0..210 prover.job.id=porep-1000-77 prover.partition.count=2 prover.partition.index=0
		    synthesis @synthesis 0..100 prover.partition.index=0 prover.reported_duration_ms=99 prover.synthesis.worker=3
		      witness @synthesis 0..40
		      constraint evaluation @synthesis 40..100
		    queue wait @queue 101..110 prover.partition.index=0 prover.queue.depth=0
		    gpu prove @gpu 111..210 cuda.device.ordinal=1 gpu.pci.bus_id=0000:1b:00.0 gpu.samples=7 gpu.utilization.mean=0.5 hw.driver_version=570.1 hw.id=GPU-1 hw.model=H200 hw.name=left hw.type=gpu hw.vendor=NVIDIA prover.backend=cuda prover.gpu.worker=2 prover.inferred=["start"] prover.partition.index=0
		      prepare @gpu 111..120 cuda.device.ordinal=1 gpu.pci.bus_id=0000:1b:00.0 hw.driver_version=570.1 hw.id=GPU-1 hw.model=H200 hw.name=left hw.type=gpu hw.vendor=NVIDIA
		      device wait @queue 120..130 lock=a
		        inside the wait @queue 121..122
		      ntt msm h @gpu 130..200 cuda.device.ordinal=1 gpu.pci.bus_id=0000:1b:00.0 hw.driver_version=570.1 hw.id=GPU-1 hw.model=H200 hw.name=left hw.type=gpu hw.vendor=NVIDIA rows=8
		  partition 1 @prover 5..300 prover.job.id=porep-1000-77 prover.partition.count=2 prover.partition.index=1
		    synthesis @synthesis 5..140 prover.partition.index=1 prover.synthesis.worker=4
		    queue wait @queue 141..215 prover.partition.index=1 prover.queue.depth=0 ->gpu prove 111..210
		    gpu prove @gpu 216..300 cuda.device.ordinal=1 gpu.pci.bus_id=0000:1b:00.0 hw.driver_version=570.1 hw.id=GPU-1 hw.model=H200 hw.name=left hw.type=gpu hw.vendor=NVIDIA prover.backend=cuda prover.gpu.worker=3 prover.partition.index=1
		  verify @prover 300..310
		proving run @prover -500..311 prover.backend=cuda
		  gpu 0 @gpu -500..311 cuda.device.ordinal=0 hw.id=GPU-0 hw.type=gpu
		    idle @queue 0..311 cuda.device.ordinal=0 prover.idle.cause=synthesis
		  gpu 1 @gpu -500..311 cuda.device.ordinal=1 gpu.pci.bus_id=0000:1b:00.0 hw.driver_version=570.1 hw.id=GPU-1 hw.model=H200 hw.name=left hw.type=gpu hw.vendor=NVIDIA
		    idle @queue 0..111 cuda.device.ordinal=1 prover.idle.cause=synthesis
		    idle @queue 210..216 cuda.device.ordinal=1 prover.idle.cause=handoff
		  sector 77 @prover -500..311 filecoin.miner.id=1000 filecoin.sector.number=77 prover.attempt=2 prover.job.id=porep-1000-77 prover.partition.count=2 prover.proof.kind=porep-c2 ->prove sector -500..311
		    synthesis @synthesis 0..140
		    gpu prove @gpu 111..300 hw.type=gpu
	`, stages.trees(t))
}

// What is not known is absent.
func TestContractOfAWholeSector(t *testing.T) {
	stages := newTestStages()
	r := NewRecorder(stages, RecorderOptions{})
	s := r.StartSector(context.Background(), SectorInfo{Job: "cd613e30-d8f1"}, at(0))
	whole := s.WholeSector()
	whole.Synthesis(Unknown, at(0)).End(at(10))
	whole.Queue(at(10)).PickUp(Unknown, Unknown, at(20))
	prove := whole.Prove(Unknown, Unknown, at(20))
	prove.Start(SpanDeviceWait, at(21)).End(at(22))
	prove.Start("msm l", at(22)).End(at(25))
	prove.End(at(30))
	whole.End(at(30), nil)
	s.End(at(30), nil)
	r.Close(at(30))
	requireTree(t, `
		prove sector @prover 0..30 prover.attempt=1 prover.job.id=cd613e30-d8f1
		  synthesis @synthesis 0..10
		  queue wait @queue 10..20 prover.queue.depth=0
		  gpu prove @gpu 20..30 hw.type=gpu
		    device wait @queue 21..22
		    msm l @gpu 22..25 hw.type=gpu
		proving run @prover 0..30
		  sector cd613e30 @prover 0..30 prover.attempt=1 prover.job.id=cd613e30-d8f1 ->prove sector 0..30
		    synthesis @synthesis 0..10
		    gpu prove @gpu 20..30 hw.type=gpu
	`, stages.trees(t))
}

// What is told of a replayed run gives the tree that it gives live, with ids
// that are the same each time.
func TestReplayIsLive(t *testing.T) {
	facts := map[string]func(*Recorder){
		"contract": tell,
		"statuses": tellStatuses,
		"random":   func(r *Recorder) { newTeller(r, 1, clockOf(0)).once().tell(2000) },
	}
	for name, tell := range facts {
		t.Run(name, func(t *testing.T) {
			checkQuiet(t)
			live := newTestStages()
			r := NewRecorder(live, RecorderOptions{Devices: knownDevices})
			tell(r)
			r.Close(at(1_000_000))

			var ids [2][]trace.SpanContext
			for i := range ids {
				replayed := newTestStages()
				r := NewRecorder(replayed, RecorderOptions{Devices: knownDevices, Run: "run"})
				tell(r)
				r.Close(at(1_000_000))
				require.Equal(t, live.trees(t), replayed.trees(t))
				for _, s := range replayed.spans.Ended() {
					ids[i] = append(ids[i], s.SpanContext())
				}
			}
			require.Equal(t, ids[0], ids[1])
		})
	}
}

// tellStatuses tells of everything that can happen to a sector but success.
func tellStatuses(r *Recorder) {
	// A failed synthesis: the siblings are skipped.
	s := r.StartSector(context.Background(), SectorInfo{Job: "failed", Partitions: 3}, at(0))
	p0, p1, p2 := s.StartPartition(0, at(0)), s.StartPartition(1, at(0)), s.StartPartition(2, at(0))
	synth0, synth1 := p0.Synthesis(0, at(0)), p1.Synthesis(1, at(0))
	synth1.End(at(10))
	queue1 := p1.Queue(at(10))
	synth0.Fail(at(20), Failure("unsatisfied constraint"))
	p0.End(at(20), Failure("unsatisfied constraint"))
	queue1.PickUp(Unknown, 0, at(30))
	p1.Skip(at(30))
	p2.Skip(at(31))
	s.End(at(31), Failure("partition 0: unsatisfied constraint"))

	// A partition that fails with open phases.
	s = r.StartSector(context.Background(), SectorInfo{Job: "open"}, at(100))
	p := s.StartPartition(0, at(100))
	p.Prove(0, 0, at(110)).Start(SpanPrepare, at(111))
	p.End(at(120), errors.New("out of memory"))
	s.Verify(at(130))
	s.End(at(131), errors.New("cannot verify"))

	// A sector that ends before its parts.
	s = r.StartSector(context.Background(), SectorInfo{Job: "early"}, at(200))
	s.StartPartition(0, at(200)).Synthesis(0, at(200)).Start(SpanWitness, at(201))
	s.End(at(210), nil)

	// Ended otherwise: by the partition, by hand, and by Close.
	s = r.StartSector(context.Background(), SectorInfo{Job: "abandoned"}, at(300))
	s.StartPartition(0, at(300)).Abandon(at(305))
	whole := s.WholeSector()
	whole.Synthesis(0, at(300))
	whole.End(at(306), nil)
	s.WholeSector().Queue(at(307))
	s.Abandon(at(310))
	s = r.StartSector(context.Background(), SectorInfo{Job: "waiting", Admitted: at(320)}, at(320))
	s.Abandon(at(330))
}

func TestStatuses(t *testing.T) {
	stages := newTestStages()
	r := NewRecorder(stages, RecorderOptions{})
	tellStatuses(r)
	open := r.StartSector(context.Background(), SectorInfo{Job: "cut short"}, at(400))
	open.StartPartition(0, at(400)).Queue(at(401))
	r.Close(at(410))
	requireTree(t, `
		prove sector @prover 0..31 prover.attempt=1 prover.job.id=failed prover.partition.count=3 ERROR(partition 0: unsatisfied constraint) exception@31
		  partition 0 @prover 0..20 prover.job.id=failed prover.partition.count=3 prover.partition.index=0 ERROR(unsatisfied constraint) exception@20
		    synthesis @synthesis 0..20 prover.partition.index=0 prover.synthesis.worker=0 ERROR(unsatisfied constraint) exception@20
		  partition 1 @prover 0..30 prover.job.id=failed prover.partition.count=3 prover.partition.index=1 prover.partition.skipped=true
		    synthesis @synthesis 0..10 prover.partition.index=1 prover.synthesis.worker=1
		    queue wait @queue 10..30 prover.partition.index=1 prover.queue.depth=0
		  partition 2 @prover 0..31 prover.job.id=failed prover.partition.count=3 prover.partition.index=2 prover.partition.skipped=true
		proving run @prover 0..410
		  gpu 0 @gpu 0..410 cuda.device.ordinal=0 hw.type=gpu
		    idle @queue 0..110 cuda.device.ordinal=0 prover.idle.cause=synthesis
		  sector failed @prover 0..31 prover.attempt=1 prover.job.id=failed prover.partition.count=3 ERROR(partition 0: unsatisfied constraint) exception@31 ->prove sector 0..31
		    synthesis @synthesis 0..20
		  sector open @prover 100..131 prover.attempt=1 prover.job.id=open ERROR(cannot verify) exception@131 ->prove sector 100..131
		    gpu prove @gpu 110..120 hw.type=gpu
		  sector early @prover 200..210 prover.attempt=1 prover.job.id=early ->prove sector 200..210
		    synthesis @synthesis 200..210
		  sector abandone @prover 300..310 prover.attempt=1 prover.job.id=abandoned prover.unfinished=true ERROR(the record stops before it ended) ->prove sector 300..310
		    synthesis @synthesis 300..306
		  sector waiting @prover 320..330 prover.attempt=1 prover.job.id=waiting prover.unfinished=true ERROR(the record stops before it ended) ->prove sector 320..330
		  sector cut shor @prover 400..410 prover.attempt=1 prover.job.id=cut short prover.unfinished=true ERROR(the record stops before it ended) ->prove sector 400..410
		prove sector @prover 100..131 prover.attempt=1 prover.job.id=open ERROR(cannot verify) exception@131
		  partition 0 @prover 100..120 prover.job.id=open prover.partition.index=0 ERROR(out of memory) exception@120
		    gpu prove @gpu 110..120 cuda.device.ordinal=0 hw.type=gpu prover.gpu.worker=0 prover.partition.index=0 ERROR(out of memory) exception@120
		      prepare @gpu 111..120 cuda.device.ordinal=0 hw.type=gpu ERROR(out of memory) exception@120
		  verify @prover 130..131 ERROR(cannot verify) exception@131
		prove sector @prover 200..210 prover.attempt=1 prover.job.id=early
		  partition 0 @prover 200..210 prover.job.id=early prover.partition.index=0 prover.unfinished=true ERROR(the record stops before it ended)
		    synthesis @synthesis 200..210 prover.partition.index=0 prover.synthesis.worker=0 prover.unfinished=true ERROR(the record stops before it ended)
		      witness @synthesis 201..210 prover.unfinished=true ERROR(the record stops before it ended)
		prove sector @prover 300..310 prover.attempt=1 prover.job.id=abandoned prover.unfinished=true ERROR(the record stops before it ended)
		  partition 0 @prover 300..305 prover.job.id=abandoned prover.partition.index=0 prover.unfinished=true ERROR(the record stops before it ended)
		  synthesis @synthesis 300..306 prover.synthesis.worker=0 prover.unfinished=true ERROR(the record stops before it ended)
		  queue wait @queue 307..310 prover.queue.depth=0 prover.unfinished=true ERROR(the record stops before it ended)
		prove sector @prover 320..330 prover.attempt=1 prover.job.id=waiting prover.unfinished=true ERROR(the record stops before it ended)
				prove sector @prover 400..410 prover.attempt=1 prover.job.id=cut short prover.unfinished=true ERROR(the record stops before it ended)
		  partition 0 @prover 400..410 prover.job.id=cut short prover.partition.index=0 prover.unfinished=true ERROR(the record stops before it ended)
		    queue wait @queue 401..410 prover.partition.index=0 prover.queue.depth=0 prover.unfinished=true ERROR(the record stops before it ended)
	`, stages.trees(t))

	for _, s := range stages.spans.Ended() {
		if s.Name() == SpanSynthesis && s.Status().Code == codes.Error && len(s.Events()) > 0 {
			require.Contains(t, s.Events()[0].Attributes, semconv.ExceptionMessage("unsatisfied constraint"))
		}
	}
}

func TestExtent(t *testing.T) {
	var e extent
	e.cover(at(10), at(20))
	e.cover(at(5), at(15))
	e.cover(at(18), at(30))
	require.Equal(t, extent{at(5), at(30)}, e)
}

// A time that is zero is now, also the admission before it.
func TestLiveTimes(t *testing.T) {
	stages := newTestStages()
	before := time.Now()
	r := NewRecorder(stages, RecorderOptions{})
	s := r.StartSector(context.Background(), SectorInfo{Job: "j", Admitted: time.Now()}, time.Time{})
	p := s.StartPartition(0, time.Time{})
	p.Synthesis(0, time.Time{}).End(time.Time{})
	p.Queue(time.Time{}).PickUp(0, 0, time.Time{})
	p.Prove(0, 0, time.Time{}).Start(SpanPrepare, time.Time{}).End(time.Time{})
	p.End(time.Time{}, errors.New("no"))
	skipped := s.StartPartition(1, time.Time{})
	skipped.Skip(time.Time{})
	s.StartPartition(2, time.Time{}).Abandon(time.Time{})
	s.StartPartition(3, time.Time{}).Synthesis(0, time.Time{}).Fail(time.Time{}, errors.New("no"))
	s.Verify(time.Time{}).End(time.Time{})
	s.End(time.Time{}, errors.New("no"))
	r.StartSector(context.Background(), SectorInfo{Job: "k"}, time.Time{}).Abandon(time.Time{})
	r.Close(time.Time{})
	after := time.Now()
	byID := make(map[trace.SpanID]sdktrace.ReadOnlySpan)
	for _, x := range stages.spans.Ended() {
		byID[x.SpanContext().SpanID()] = x
	}
	require.Len(t, byID, len(stages.spans.Started()))
	for _, x := range byID {
		require.False(t, x.StartTime().Before(before), x.Name())
		require.False(t, x.EndTime().Before(x.StartTime()), x.Name())
		require.False(t, x.EndTime().After(after), x.Name())
		if parent := byID[x.Parent().SpanID()]; parent != nil {
			require.False(t, x.StartTime().Before(parent.StartTime()), x.Name())
			require.False(t, x.EndTime().After(parent.EndTime()), x.Name())
		}
		for _, e := range x.Events() {
			require.True(t, e.Time.Equal(x.EndTime()), x.Name())
		}
	}
}

// Everything ends after it starts, and after what is inside, whatever the clock
// does.
func TestEndBeforeStart(t *testing.T) {
	stages := newTestStages()
	r := NewRecorder(stages, RecorderOptions{})
	s := r.StartSector(context.Background(), SectorInfo{Job: "j", Admitted: at(200)}, at(100))
	p := s.StartPartition(0, at(110))
	p.Synthesis(0, at(120)).End(at(1))
	p.Prove(0, 0, at(130)).Start(SpanPrepare, at(131)).End(at(2))
	p.End(at(3), nil)
	s.End(at(4), nil)
	r.Close(at(5))
	for _, x := range stages.spans.Ended() {
		require.True(t, x.EndTime().After(x.StartTime()), x.Name())
	}
	require.Empty(t, stages.named(t, SpanAdmissionWait))
	require.Contains(t, stages.named(t, SpanSector)[0], "@prover 100..131 ")
}

func TestParent(t *testing.T) {
	stages := newTestStages()
	local, span := stages.Tracer(StagePipeline).Start(context.Background(), "request")
	defer span.End()
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true})
	for _, ctx := range []context.Context{local, trace.ContextWithRemoteSpanContext(context.Background(), remote)} {
		parent := trace.SpanContextFromContext(ctx)
		for _, run := range []string{"", "run"} {
			r := NewRecorder(stages, RecorderOptions{Run: run})
			s := r.StartSector(ctx, SectorInfo{Job: "j"}, at(0))
			p := s.StartPartition(0, at(0))
			ph := p.Synthesis(0, at(0))

			root := s.span.(sdktrace.ReadOnlySpan)
			require.Equal(t, parent, root.Parent())
			require.Equal(t, parent.TraceID(), s.SpanContext().TraceID())
			require.Equal(t, s.SpanContext(), p.span.(sdktrace.ReadOnlySpan).Parent())
			require.Equal(t, p.span.SpanContext(), ph.span.(sdktrace.ReadOnlySpan).Parent())

			// Spans of the caller's own hang where they belong, with its values.
			type key struct{}
			own := context.WithValue(context.Background(), key{}, 1)
			for want, ctx := range map[trace.Span]context.Context{s.span: s.Context(own), p.span: p.Context(own), ph.span: ph.Context(own)} {
				require.Equal(t, want, trace.SpanFromContext(ctx))
				require.Equal(t, 1, ctx.Value(key{}))
			}
			// The run's trace is its own.
			require.NotEqual(t, parent.TraceID(), r.RunContext().TraceID())
			require.True(t, r.RunContext().IsValid())
			r.Close(at(1))
		}
	}
}

func TestAttempts(t *testing.T) {
	stages := newTestStages()
	r := NewRecorder(stages, RecorderOptions{Run: "run"})
	for _, attempt := range []int{-1, 2, 3} {
		s := r.StartSector(context.Background(), SectorInfo{Job: "porep-1-2", Attempt: attempt}, at(0))
		require.Equal(t, TraceIDFor("run", "porep-1-2", max(attempt, 1)), s.SpanContext().TraceID())
		s.End(at(1), nil)
	}
	r.Close(at(1))
	for _, name := range []string{SpanSector, "sector 2"} {
		lines := stages.named(t, name)
		require.Len(t, lines, 3)
		for i, line := range lines {
			require.Contains(t, line, fmt.Sprintf("prover.attempt=%d", i+1))
		}
	}
}

func TestParseJob(t *testing.T) {
	for _, c := range []struct {
		job           string
		miner, sector uint64
		ok            bool
		label         string
	}{
		{"porep-1000-77", 1000, 77, true, "77"},
		{"snap-1-2", 1, 2, true, "2"},
		{"porep-0-0", 0, 0, true, "0"},
		{"porep-9223372036854775807-9223372036854775807", 1<<63 - 1, 1<<63 - 1, true, "9223372036854775807"},
		{"porep-9223372036854775808-1", 0, 0, false, "porep-92"},
		{"porep-1-99999999999999999999999", 0, 0, false, "porep-1-"},
		{"porep-1000-77-1", 0, 0, false, "porep-10"},
		{"porep-1000", 0, 0, false, "porep-10"},
		{"porep--1-2", 0, 0, false, "porep--1"},
		{"porep-1--2", 0, 0, false, "porep-1-"},
		{"porep-+1-2", 0, 0, false, "porep-+1"},
		{"porep-0x1-2", 0, 0, false, "porep-0x"},
		{"porep-1_0-2", 0, 0, false, "porep-1_"},
		{"porep- 1-2", 0, 0, false, "porep- 1"},
		{"porep-1-2\n", 0, 0, false, "porep-1-"},
		{"PoRep-1-2", 0, 0, false, "PoRep-1-"},
		{"window-1-2", 0, 0, false, "window-1"},
		{"porep--", 0, 0, false, "porep--"},
		{"cd613e30-d8f1-4adf-91b7-584a2265b1f5", 0, 0, false, "cd613e30"},
		{"12345678", 0, 0, false, "12345678"},
		{"", 0, 0, false, ""},
		{"ééééééééé", 0, 0, false, "éééééééé"},
		{"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7", 0, 0, false, "\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8"},
	} {
		miner, sector, ok := ParseJob(c.job)
		require.Equal(t, []any{c.miner, c.sector, c.ok}, []any{miner, sector, ok}, "%q", c.job)
		require.Equal(t, "sector "+c.label, SectorSpanName(c.job), "%q", c.job)
		attrs := attribute.NewSet((&SectorInfo{Job: c.job}).append(nil)...)
		require.Equal(t, c.ok, attrs.HasValue(MinerID) && attrs.HasValue(SectorNumber), "%q", c.job)
		require.Equal(t, c.ok, attrs.HasValue(MinerID) || attrs.HasValue(SectorNumber), "%q", c.job)
	}
}

func TestNames(t *testing.T) {
	require.Equal(t, "partition 0", PartitionSpanName(0))
	require.Equal(t, "partition 15", PartitionSpanName(15))
	require.Equal(t, "partition 16", PartitionSpanName(16))
	require.Equal(t, "partition -1", PartitionSpanName(-1))
	require.Equal(t, "gpu 12", DeviceSpanName(12))
	for stage, want := range map[Stage]string{StagePipeline: "x", StageSynthesis: "x-synthesis", StageQueue: "x-queue", StageGPU: "x-gpu"} {
		require.Equal(t, want, stage.ServiceName("x"))
	}
}

func TestQueueDepth(t *testing.T) {
	stages := newTestStages()
	r := NewRecorder(stages, RecorderOptions{})
	s := r.StartSector(context.Background(), SectorInfo{Job: "j"}, at(0))
	var waits []*Phase
	for i := range 3 {
		waits = append(waits, s.StartPartition(i, at(0)).Queue(at(i)))
	}
	waits[0].PickUp(Unknown, 0, at(10))
	waits[0].PickUp(Unknown, 0, at(10))
	s.StartPartition(3, at(11)).Queue(at(11))
	waits[1].End(at(12)) // without a pick-up
	s.StartPartition(4, at(13)).Queue(at(13))
	s.End(at(20), nil) // takes out the rest
	r.StartSector(context.Background(), SectorInfo{Job: "k"}, at(21)).StartPartition(0, at(21)).Queue(at(21))
	r.Close(at(30))
	var depths []string
	for _, line := range stages.named(t, SpanQueueWait) {
		_, depth, _ := strings.Cut(line, "prover.queue.depth=")
		depths = append(depths, depth[:1])
	}
	require.Equal(t, []string{"0", "1", "2", "2", "2", "0"}, depths)
}

func TestLinksOfAQueueWait(t *testing.T) {
	type proof struct{ device, from, to int } // to is 0 while it lasts
	for _, c := range []struct {
		name           string
		proofs         []proof
		device         int
		offered, taken int
		want           []string
	}{
		{"none", nil, 0, 10, 20, nil},
		{"one that overlaps", []proof{{0, 5, 15}}, 0, 10, 20, []string{"5..15"}},
		{"one that lasts", []proof{{0, 5, 0}}, 0, 10, 20, []string{"5..100"}},
		{"one that covers", []proof{{0, 12, 15}}, 0, 10, 20, []string{"12..15"}},
		{"ended when offered", []proof{{0, 5, 10}}, 0, 10, 20, nil},
		{"started when taken", []proof{{0, 20, 0}}, 0, 10, 20, nil},
		{"another device", []proof{{1, 5, 15}}, 0, 10, 20, nil},
		{"unknown device", []proof{{1, 5, 15}}, Unknown, 10, 20, nil},
		{"proofs on an unknown device", []proof{{Unknown, 5, 15}}, Unknown, 10, 20, []string{"5..15"}},
		{"at most four, the latest", []proof{{0, 1, 11}, {0, 2, 12}, {0, 3, 13}, {0, 4, 14}, {0, 5, 15}, {1, 6, 16}}, 0, 10, 20, []string{"2..12", "3..13", "4..14", "5..15"}},
		{"four among others", []proof{{0, 1, 11}, {0, 2, 3}, {0, 3, 13}, {0, 4, 14}, {0, 5, 6}, {0, 6, 16}}, 0, 10, 20, []string{"1..11", "3..13", "4..14", "6..16"}},
		{"more than are kept", []proof{{0, 1, 11}, {0, 2, 3}, {0, 3, 4}, {0, 4, 5}, {0, 5, 6}, {0, 6, 7}, {0, 7, 8}, {0, 8, 9}, {0, 9, 12}}, 0, 10, 20, []string{"9..12"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			stages := newTestStages()
			r := NewRecorder(stages, RecorderOptions{})
			s := r.StartSector(context.Background(), SectorInfo{Job: "j"}, at(0))
			for i, p := range c.proofs {
				ph := s.StartPartition(i, at(p.from)).Prove(0, p.device, at(p.from))
				if p.to > 0 {
					ph.End(at(p.to))
				}
			}
			s.StartPartition(99, at(0)).Queue(at(c.offered)).PickUp(Unknown, c.device, at(c.taken))
			s.End(at(100), nil)
			r.Close(at(100))
			_, links, _ := strings.Cut(stages.named(t, SpanQueueWait)[0], "depth=0")
			var want strings.Builder
			for _, w := range c.want {
				want.WriteString(" ->gpu prove " + w)
			}
			require.Equal(t, want.String(), links)
		})
	}
}

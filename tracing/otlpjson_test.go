package tracing

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// pdataOf converts spans with the collector's library, to which the encoder's
// output is held.
func pdataOf(spans []sdktrace.ReadOnlySpan) ptrace.Traces {
	type scopeKey struct {
		r *resource.Resource
		s instrumentation.Scope
	}
	td := ptrace.NewTraces()
	resources := make(map[*resource.Resource]ptrace.ResourceSpans)
	scopes := make(map[scopeKey]ptrace.ScopeSpans)
	for _, s := range spans {
		r, scope := s.Resource(), s.InstrumentationScope()
		rs, ok := resources[r]
		if !ok {
			rs = td.ResourceSpans().AppendEmpty()
			resources[r] = rs
			putAttributes(rs.Resource().Attributes(), r.Attributes())
			rs.SetSchemaUrl(r.SchemaURL())
		}
		ss, ok := scopes[scopeKey{r, scope}]
		if !ok {
			ss = rs.ScopeSpans().AppendEmpty()
			scopes[scopeKey{r, scope}] = ss
			ss.Scope().SetName(scope.Name)
			ss.Scope().SetVersion(scope.Version)
			putAttributes(ss.Scope().Attributes(), scope.Attributes.ToSlice())
			ss.SetSchemaUrl(scope.SchemaURL)
		}
		putSpan(ss.Spans().AppendEmpty(), s)
	}
	return td
}

func putSpan(d ptrace.Span, s sdktrace.ReadOnlySpan) {
	c, parent := s.SpanContext(), s.Parent()
	d.SetTraceID(pcommon.TraceID(c.TraceID()))
	d.SetSpanID(pcommon.SpanID(c.SpanID()))
	d.SetParentSpanID(pcommon.SpanID(parent.SpanID()))
	d.TraceState().FromRaw(c.TraceState().String())
	d.SetFlags(testFlags(c.TraceFlags(), parent.IsRemote()))
	d.SetName(s.Name())
	d.SetKind(map[trace.SpanKind]ptrace.SpanKind{
		trace.SpanKindInternal: ptrace.SpanKindInternal,
		trace.SpanKindServer:   ptrace.SpanKindServer,
		trace.SpanKindClient:   ptrace.SpanKindClient,
		trace.SpanKindProducer: ptrace.SpanKindProducer,
		trace.SpanKindConsumer: ptrace.SpanKindConsumer,
	}[s.SpanKind()])
	d.SetStartTimestamp(pcommon.NewTimestampFromTime(s.StartTime()))
	d.SetEndTimestamp(pcommon.NewTimestampFromTime(s.EndTime()))
	putAttributes(d.Attributes(), s.Attributes())
	d.SetDroppedAttributesCount(uint32(s.DroppedAttributes()))
	for _, e := range s.Events() {
		de := d.Events().AppendEmpty()
		de.SetName(e.Name)
		de.SetTimestamp(pcommon.NewTimestampFromTime(e.Time))
		putAttributes(de.Attributes(), e.Attributes)
		de.SetDroppedAttributesCount(uint32(e.DroppedAttributeCount))
	}
	d.SetDroppedEventsCount(uint32(s.DroppedEvents()))
	for _, l := range s.Links() {
		dl := d.Links().AppendEmpty()
		dl.SetTraceID(pcommon.TraceID(l.SpanContext.TraceID()))
		dl.SetSpanID(pcommon.SpanID(l.SpanContext.SpanID()))
		dl.TraceState().FromRaw(l.SpanContext.TraceState().String())
		dl.SetFlags(testFlags(l.SpanContext.TraceFlags(), l.SpanContext.IsRemote()))
		putAttributes(dl.Attributes(), l.Attributes)
		dl.SetDroppedAttributesCount(uint32(l.DroppedAttributeCount))
	}
	d.SetDroppedLinksCount(uint32(s.DroppedLinks()))
	switch s.Status().Code {
	case codes.Ok:
		d.Status().SetCode(ptrace.StatusCodeOk)
	case codes.Error:
		d.Status().SetCode(ptrace.StatusCodeError)
	}
	d.Status().SetMessage(s.Status().Description)
}

func testFlags(f trace.TraceFlags, remote bool) uint32 {
	if remote {
		return uint32(f) | 0x300
	}
	return uint32(f) | 0x100
}

func putAttributes(m pcommon.Map, attrs []attribute.KeyValue) {
	for _, kv := range attrs {
		putValue(m.PutEmpty(string(kv.Key)), kv.Value)
	}
}

func putValue(d pcommon.Value, v attribute.Value) {
	switch v.Type() {
	case attribute.BOOL:
		d.SetBool(v.AsBool())
	case attribute.INT64:
		d.SetInt(v.AsInt64())
	case attribute.FLOAT64:
		d.SetDouble(v.AsFloat64())
	case attribute.STRING:
		d.SetStr(v.AsString())
	case attribute.BYTESLICE:
		d.SetEmptyBytes().FromRaw(v.AsByteSlice())
	case attribute.MAP:
		putAttributes(d.SetEmptyMap(), v.AsMap())
	case attribute.BOOLSLICE:
		a := d.SetEmptySlice()
		for _, x := range v.AsBoolSlice() {
			a.AppendEmpty().SetBool(x)
		}
	case attribute.INT64SLICE:
		a := d.SetEmptySlice()
		for _, x := range v.AsInt64Slice() {
			a.AppendEmpty().SetInt(x)
		}
	case attribute.FLOAT64SLICE:
		a := d.SetEmptySlice()
		for _, x := range v.AsFloat64Slice() {
			a.AppendEmpty().SetDouble(x)
		}
	case attribute.STRINGSLICE:
		a := d.SetEmptySlice()
		for _, x := range v.AsStringSlice() {
			a.AppendEmpty().SetStr(x)
		}
	case attribute.SLICE:
		a := d.SetEmptySlice()
		for _, x := range v.AsSlice() {
			putValue(a.AppendEmpty(), x)
		}
	}
}

// encode returns a request of spans.
func encode(e *jsonEncoder, spans []sdktrace.ReadOnlySpan) []byte {
	e.add(spans)
	return e.appendRequest(nil)
}

// requireSameAsPdata checks a line against the collector's library: both ways
// of writing the spans have to be read as the same.
func requireSameAsPdata(t *testing.T, spans []sdktrace.ReadOnlySpan) {
	t.Helper()
	line := encode(new(jsonEncoder), spans)
	require.True(t, json.Valid(line), "not JSON: %s", line)
	require.NotContains(t, string(line), "\n")
	strict := ptrace.JSONUnmarshaler{DisallowUnknownFields: true}
	got, err := strict.UnmarshalTraces(line)
	require.NoError(t, err, "%s", line)

	var m ptrace.JSONMarshaler
	want, err := m.MarshalTraces(pdataOf(spans))
	require.NoError(t, err)
	again, err := m.MarshalTraces(got)
	require.NoError(t, err)
	require.Equal(t, string(want), string(again))
}

func TestJSONEncoder(t *testing.T) {
	state, err := trace.ParseTraceState("vendor=1,other=2")
	require.NoError(t, err)
	context1 := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 0xab}, SpanID: trace.SpanID{2, 0xff}, TraceFlags: trace.FlagsSampled, TraceState: state})
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 0xab}, SpanID: trace.SpanID{3}, TraceFlags: trace.FlagsSampled, Remote: true})
	r1 := resource.NewWithAttributes("https://example.org/schema", attribute.String("service.name", "a"), attribute.Int("n", 1))
	r2 := resource.NewSchemaless()
	scope1 := instrumentation.Scope{Name: "one"}
	scope2 := instrumentation.Scope{Name: "two", Version: "v1", SchemaURL: "https://example.org/s", Attributes: attribute.NewSet(attribute.Bool("b", true))}
	start := time.Unix(1_700_000_000, 123_456_789)

	full := tracetest.SpanStub{
		Name: "full", SpanContext: context1, Parent: remote, SpanKind: trace.SpanKindConsumer,
		StartTime: start, EndTime: start.Add(time.Second),
		Attributes: []attribute.KeyValue{
			attribute.Bool("bool", true),
			attribute.Int64("min", math.MinInt64),
			attribute.Int64("max", math.MaxInt64),
			attribute.Float64("float", 0.1),
			attribute.Float64("tiny", 5e-324),
			attribute.Float64("huge", math.MaxFloat64),
			attribute.Float64("zero", math.Copysign(0, -1)),
			attribute.Float64("nan", math.NaN()),
			attribute.Float64("inf", math.Inf(1)),
			attribute.Float64("-inf", math.Inf(-1)),
			attribute.String("string", "\x00\x01\x1f \"\\/\b\f\n\r\t\x7f é 世界 🙂 <&> \u2028"),
			attribute.String("", ""),
			attribute.BoolSlice("bools", []bool{true, false}),
			attribute.Int64Slice("ints", []int64{1, -2}),
			attribute.Float64Slice("floats", []float64{1.5, math.Inf(1)}),
			attribute.StringSlice("strings", []string{"start", "end"}),
			attribute.StringSlice("none", nil),
			attribute.ByteSlice("bytes", []byte{0, 1, 2, 0xff}),
			attribute.Slice("slice", attribute.IntValue(1), attribute.StringValue("x"), attribute.SliceValue(attribute.BoolValue(true))),
			attribute.Map("map", attribute.Int("a", 1), attribute.Map("b", attribute.String("c", "d"))),
			{Key: "empty"},
		},
		Events: []sdktrace.Event{
			{Name: "exception", Time: start, Attributes: []attribute.KeyValue{attribute.String("exception.message", "out of memory")}, DroppedAttributeCount: 3},
			{Name: "bare", Time: start},
		},
		Links: []sdktrace.Link{
			{SpanContext: context1, Attributes: []attribute.KeyValue{attribute.Int("i", 1)}, DroppedAttributeCount: 2},
			{SpanContext: remote},
		},
		Status:            sdktrace.Status{Code: codes.Error, Description: "no \"proof\""},
		DroppedAttributes: 4, DroppedEvents: 5, DroppedLinks: 6,
		Resource: r1, InstrumentationScope: scope1,
	}
	stubs := tracetest.SpanStubs{
		full,
		{Name: "other scope", SpanContext: context1, StartTime: start, EndTime: start, Resource: r1, InstrumentationScope: scope2, SpanKind: trace.SpanKindServer, Status: sdktrace.Status{Code: codes.Ok}},
		{Name: "other resource", SpanContext: remote, StartTime: start, EndTime: start, Resource: r2, InstrumentationScope: scope1, SpanKind: trace.SpanKindClient},
		{Name: "first again", SpanContext: context1, Parent: context1, StartTime: start, EndTime: start, Resource: r1, InstrumentationScope: scope1, SpanKind: trace.SpanKindProducer},
		{Name: "second again", SpanContext: context1, StartTime: start, EndTime: start, Resource: r1, InstrumentationScope: scope2, SpanKind: trace.SpanKindInternal},
	}
	requireSameAsPdata(t, stubs.Snapshots())
	for i := range stubs {
		requireSameAsPdata(t, stubs.Snapshots()[i:i+1])
	}
}

// Before 1970, and where a time is missing, the protocol has nothing but zero.
func TestJSONEncoderEarlyTimes(t *testing.T) {
	stub := tracetest.SpanStub{StartTime: time.Unix(-5, 0), EndTime: time.Unix(0, 7), Resource: resource.Empty()}
	line := string(encode(new(jsonEncoder), []sdktrace.ReadOnlySpan{stub.Snapshot()}))
	require.Contains(t, line, `"startTimeUnixNano":"0","endTimeUnixNano":"7"`)
}

func TestJSONEncoderReuse(t *testing.T) {
	var e jsonEncoder
	spans := testSpans(t, 50)
	first := string(encode(&e, spans))
	require.Equal(t, first, string(encode(&e, spans)))
	require.Equal(t, string(encode(new(jsonEncoder), spans[:3])), string(encode(&e, spans[:3])))
}

func FuzzJSONString(f *testing.F) {
	for _, s := range []string{"", "plain", "\xff", "a\xc3", "\xed\xa0\x80", "é\x00\"\\", "\u2028", strings.Repeat("x\n", 9)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		b := appendString(nil, s)
		require.NoError(t, json.Unmarshal(b, &got), "%q", b)
		require.Equal(t, string([]rune(s)), got)
	})
}

func FuzzJSONFloat(f *testing.F) {
	for _, v := range []float64{0, 1, -1.5, 1e-6, 1e-7, 1e20, 1e21, math.Pi} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return
		}
		var got float64
		require.NoError(t, json.Unmarshal(appendFloat(nil, v), &got))
		require.Equal(t, v, got)
	})
}

// testSpans returns ended spans such as a recorder makes, with the resources of
// the four stages.
func testSpans(tb testing.TB, n int) []sdktrace.ReadOnlySpan {
	tb.Helper()
	recorder := tracetest.NewSpanRecorder()
	tracers := testTracers(recorder)
	random := rand.New(rand.NewPCG(1, 2))
	start := time.Unix(1_700_000_000, 0)
	for i := range n {
		start = start.Add(time.Duration(random.IntN(1000)) * time.Millisecond)
		emitTestSpan(tracers[i%len(tracers)], context.Background(), i, start)
	}
	return recorder.Ended()
}

func testTracers(processor sdktrace.SpanProcessor) [numStages]trace.Tracer {
	var tracers [numStages]trace.Tracer
	base := baseResource(context.Background(), DefaultServiceName, Options{})
	for s := range tracers {
		tracers[s] = sdktrace.NewTracerProvider(
			sdktrace.WithSpanProcessor(processor),
			sdktrace.WithResource(stageResource(base, nil, Stage(s).ServiceName(DefaultServiceName), false)),
		).Tracer(ScopeName)
	}
	return tracers
}

// emitTestSpan makes a span with eight attributes, as most of the contract's
// have.
func emitTestSpan(tracer trace.Tracer, ctx context.Context, i int, start time.Time) {
	_, span := tracer.Start(ctx, SpanProve, trace.WithTimestamp(start), trace.WithAttributes(
		JobID.String("porep-1000-123456"),
		Attempt.Int(1),
		ProofKind.String("porep-c2"),
		MinerID.Int(1000),
		SectorNumber.Int(123456),
		PartitionIndex.Int(i%10),
		GPUWorker.Int(i%2),
		attribute.String("hw.id", "GPU-4f1c2b6a-77aa-4c4e-9d6a-0123456789ab"),
	))
	span.End(trace.WithTimestamp(start.Add(1500 * time.Millisecond)))
}

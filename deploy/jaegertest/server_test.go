package jaegertest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/provetrace/provetrace/deploy/jaegertest"
)

// patience bounds what waits for Jaeger, on a machine that does much else.
const patience = time.Minute

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func grpcExporter(t *testing.T, s *jaegertest.Server) sdktrace.SpanExporter {
	exporter, err := otlptracegrpc.New(t.Context(),
		otlptracegrpc.WithEndpoint(s.GRPC), otlptracegrpc.WithInsecure())
	require.NoError(t, err)
	return exporter
}

func httpExporter(t *testing.T, s *jaegertest.Server) sdktrace.SpanExporter {
	exporter, err := otlptracehttp.New(t.Context(),
		otlptracehttp.WithEndpoint(s.HTTP), otlptracehttp.WithInsecure())
	require.NoError(t, err)
	return exporter
}

// services gives a tracer for each stage, all of which end in one exporter.
func services(t *testing.T, exporter sdktrace.SpanExporter) func(service string) trace.Tracer {
	t.Cleanup(func() { require.NoError(t, exporter.Shutdown(context.Background())) })
	return func(service string) trace.Tracer {
		return sdktrace.NewTracerProvider(
			sdktrace.WithSyncer(exporter),
			sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", service))),
		).Tracer("jaegertest")
	}
}

// pipeline sends one trace: a sector, its partition and the partition's proof on
// the GPU, which fails.
func pipeline(t *testing.T, exporter sdktrace.SpanExporter, start time.Time) trace.TraceID {
	tracer := services(t, exporter)
	at := func(seconds int) trace.SpanEventOption {
		return trace.WithTimestamp(start.Add(time.Duration(seconds) * time.Second))
	}
	ctx, sector := tracer("prover").Start(context.Background(), "prove sector", at(0),
		trace.WithAttributes(attribute.Int64("filecoin.sector.number", 1<<53+1)))
	ctx, partition := tracer("prover").Start(ctx, "partition 3", at(1))
	_, gpu := tracer("prover-gpu").Start(ctx, "gpu prove", at(2),
		trace.WithLinks(trace.Link{SpanContext: sector.SpanContext()}),
		trace.WithAttributes(
			attribute.String("hw.name", "GPU 0"),
			attribute.Float64("gpu.utilization.mean", 1),
			attribute.Bool("prover.unfinished", true),
			attribute.StringSlice("prover.inferred", []string{"start", "end"})))
	gpu.AddEvent("exception", at(3), trace.WithAttributes(attribute.String("exception.message", "out of memory")))
	gpu.SetStatus(codes.Error, "out of memory")
	gpu.End(at(4))
	partition.End(at(5))
	sector.End(at(6))
	return sector.SpanContext().TraceID()
}

// checkPipeline holds what Jaeger returns against what pipeline sent.
func checkPipeline(t *testing.T, got *jaegertest.Trace, id trace.TraceID, start time.Time) {
	t.Helper()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second).UTC() }
	require.Equal(t, id, got.ID)
	require.Len(t, got.Spans, 3)
	sector, partition, gpu := got.Spans[0], got.Spans[1], got.Spans[2]

	require.Equal(t, "prove sector", sector.Name)
	require.Equal(t, "prover", sector.Service)
	require.Equal(t, []jaegertest.Span{sector}, got.Children(trace.SpanID{}))
	require.Equal(t, map[string]any{"filecoin.sector.number": int64(1<<53 + 1)}, sector.Attributes)
	require.Equal(t, at(0), sector.Start)
	require.Equal(t, at(6), sector.End)
	require.Equal(t, codes.Unset, sector.StatusCode)

	require.Equal(t, "partition 3", partition.Name)
	require.Equal(t, []jaegertest.Span{partition}, got.Children(sector.SpanID))

	require.Equal(t, []jaegertest.Span{{
		TraceID:  id,
		SpanID:   gpu.SpanID,
		ParentID: partition.SpanID,
		Name:     "gpu prove",
		Kind:     trace.SpanKindInternal,
		Service:  "prover-gpu",
		Scope:    "jaegertest",
		Start:    at(2),
		End:      at(4),
		Attributes: map[string]any{
			"hw.name":              "GPU 0",
			"gpu.utilization.mean": 1.0,
			"prover.unfinished":    true,
			"prover.inferred":      `["start","end"]`,
		},
		Resource: map[string]any{"service.name": "prover-gpu"},
		Links:    []jaegertest.Link{{TraceID: id, SpanID: sector.SpanID}},
		Events: []jaegertest.Event{{
			Name:       "exception",
			Time:       at(3),
			Attributes: map[string]any{"exception.message": "out of memory"},
		}},
		StatusCode:    codes.Error,
		StatusMessage: "out of memory",
	}}, got.Named("gpu prove"))
}

// Spans sent over either protocol come back as they were sent, before and after
// a restart.
func TestStoredAndKept(t *testing.T) {
	jaeger := jaegertest.Start(t)
	ctx := testContext(t)
	// Nanoseconds that a microsecond clock would lose.
	start := time.Now().Add(-time.Hour).Truncate(time.Second).Add(123456789)

	sent := map[string]trace.TraceID{
		"gRPC": pipeline(t, grpcExporter(t, jaeger), start),
		"HTTP": pipeline(t, httpExporter(t, jaeger), start),
	}
	check := func(t *testing.T) {
		for protocol, id := range sent {
			got, err := jaeger.WaitTrace(ctx, id, 3)
			require.NoError(t, err, protocol)
			checkPipeline(t, got, id, start)
		}
		names, err := jaeger.Services(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"prover", "prover-gpu"}, names)

		found, err := jaeger.Find(ctx, "prover-gpu", start, start.Add(time.Minute), 10)
		require.NoError(t, err)
		require.Len(t, found, 2)
		for _, got := range found {
			checkPipeline(t, got, got.ID, start)
		}
		one, err := jaeger.Find(ctx, "prover-gpu", start, start.Add(time.Minute), 1)
		require.NoError(t, err)
		require.Len(t, one, 1)
	}
	t.Run("before", check)
	grpc, ui := jaeger.GRPC, jaeger.UI
	jaeger.Restart(t)
	require.Equal(t, []string{grpc, ui}, []string{jaeger.GRPC, jaeger.UI})
	t.Run("after a restart", check)

	_, err := jaeger.Trace(ctx, trace.TraceID{15: 1})
	require.ErrorIs(t, err, jaegertest.ErrNotFound)
	none, err := jaeger.Find(ctx, "no-such-service", start, start.Add(time.Minute), 10)
	require.NoError(t, err)
	require.Empty(t, none)
}

// A log's age has nothing to do with how long its spans are kept: they are found
// by their own time, even those that are older than the time to live.
func TestOldSpans(t *testing.T) {
	jaeger := jaegertest.Start(t)
	ctx := testContext(t)
	now := time.Now().Truncate(time.Second)
	starts := map[string]time.Time{
		"10 months ago": now.AddDate(0, -10, 0),
		"3 years ago":   now.AddDate(-3, 0, 0),
	}
	sent := map[string]trace.TraceID{}
	exporter := grpcExporter(t, jaeger)
	for age, start := range starts {
		sent[age] = pipeline(t, keepOpen{exporter}, start)
	}
	require.NoError(t, exporter.Shutdown(ctx))

	for _, moment := range []string{"when just stored", "after a restart"} {
		for age, start := range starts {
			t.Run(age+" "+moment, func(t *testing.T) {
				got, err := jaeger.WaitTrace(ctx, sent[age], 3)
				require.NoError(t, err)
				checkPipeline(t, got, sent[age], start)

				found, err := jaeger.Find(ctx, "prover", start.Add(-time.Hour), start.Add(time.Hour), 10)
				require.NoError(t, err)
				require.Len(t, found, 1)
				checkPipeline(t, found[0], sent[age], start)
			})
		}
		recent, err := jaeger.Find(ctx, "prover", now.Add(-time.Hour), now, 10)
		require.NoError(t, err)
		require.Empty(t, recent, "the last hour has no spans")
		if moment == "when just stored" {
			jaeger.Restart(t)
		}
	}
}

// keepOpen is an exporter that more than one pipeline uses.
type keepOpen struct{ sdktrace.SpanExporter }

func (keepOpen) Shutdown(context.Context) error { return nil }

// A span of one service that starts before its parent in another one is shown
// where it was, by the query API and by what the UI reads.
func TestClockSkewIsNotAdjusted(t *testing.T) {
	jaeger := jaegertest.Start(t)
	ctx := testContext(t)
	tracer := services(t, httpExporter(t, jaeger))
	start := time.Now().Add(-time.Hour).Truncate(time.Second).UTC()

	parentContext, parent := tracer("prover").Start(ctx, "prove sector", trace.WithTimestamp(start))
	_, child := tracer("prover-gpu").Start(parentContext, "gpu prove", trace.WithTimestamp(start.Add(-time.Second)))
	child.End(trace.WithTimestamp(start.Add(time.Second)))
	parent.End(trace.WithTimestamp(start.Add(4 * time.Second)))
	id := parent.SpanContext().TraceID()

	got, err := jaeger.WaitTrace(ctx, id, 2)
	require.NoError(t, err)
	for _, want := range []struct {
		name  string
		start time.Time
	}{
		{"prove sector", start},
		{"gpu prove", start.Add(-time.Second)},
	} {
		spans := got.Named(want.name)
		require.Len(t, spans, 1)
		require.Equal(t, want.start, spans[0].Start)
		require.Equal(t, want.start.UnixMicro(), uiStart(ctx, t, jaeger, id, want.name))
	}
}

// uiStart asks the API that the UI reads when a span starts, in microseconds.
func uiStart(ctx context.Context, t *testing.T, s *jaegertest.Server, id trace.TraceID, name string) int64 {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/api/traces/%s", s.UI, id), nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	var answer struct {
		Data []struct {
			Spans []struct {
				OperationName string `json:"operationName"`
				StartTime     int64  `json:"startTime"`
			} `json:"spans"`
		} `json:"data"`
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
	require.Len(t, answer.Data, 1)
	for _, span := range answer.Data[0].Spans {
		if span.OperationName == name {
			return span.StartTime
		}
	}
	t.Fatalf("the UI's API has no span %q", name)
	return 0
}

func TestSkippedOnlyWhenTold(t *testing.T) {
	t.Setenv("PROVETRACE_NO_JAEGER", "1")
	var skipped bool
	t.Run("without Jaeger", func(t *testing.T) {
		defer func() { skipped = t.Skipped() }()
		jaegertest.Start(t)
	})
	require.True(t, skipped)
}

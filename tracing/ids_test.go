package tracing

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

func TestTreeIDs(t *testing.T) {
	type tuple struct {
		run, job string
		attempt  int
		path     string
	}
	// Neighbours that a hash over joined strings would take for the same.
	tuples := []tuple{
		{"r", "j", 1, "p"},
		{"r", "j", 1, ""},
		{"r", "j", 2, "p"},
		{"r", "j", -1, "p"},
		{"r", "", 1, "p"},
		{"", "rj", 1, "p"},
		{"rj", "", 1, "p"},
		{"r\x01", "j", 1, "p"},
		{"r", "\x01j", 1, "p"},
		{"r", "j\x02", 1, "p"},
		{"r", "j", 1, "p/q"},
		{"r", "j", 1, "pq"},
		{"r", "j/p", 1, ""},
		{"r", "jp", 1, ""},
	}
	traces := make(map[trace.TraceID]tuple)
	spans := make(map[trace.SpanID]tuple)
	for _, u := range tuples {
		ids, again := newTreeIDs(u.run, u.job, u.attempt), newTreeIDs(u.run, u.job, u.attempt)
		traceID, spanID := ids.traceID(), ids.spanID(u.path, "name")
		require.True(t, traceID.IsValid())
		require.True(t, spanID.IsValid())
		require.Equal(t, spanID, again.spanID(u.path, "name"), "ids of the same place differ")
		require.NotEqual(t, spanID, again.spanID(u.path, "other"))
		require.Equal(t, traceID, TraceIDFor(u.run, u.job, u.attempt))
		if other, ok := spans[spanID]; ok {
			t.Errorf("%+v and %+v have the same span id", u, other)
		}
		spans[spanID] = u
		if other, ok := traces[traceID]; ok {
			other.path, u.path = "", ""
			require.Equal(t, other, u, "traces of different attempts have the same id")
		}
		traces[traceID] = u
	}
}

// Converted runs must keep their ids through releases, so that they can be
// sent again to where they are.
func TestTreeIDsAreStable(t *testing.T) {
	ids := newTreeIDs("run", "porep-1000-77", 1)
	require.Equal(t, "e12c29c0ffe99eacb67966025e8b3016", ids.traceID().String())
	require.Equal(t, "4454d278eb60edae", ids.spanID("prove sector", "partition 3").String())
}

func TestTreeIDsDoNotAllocate(t *testing.T) {
	ids := newTreeIDs("engine-2026-01-02T03:04:05Z-porep-1000-77", "porep-1000-123456", 1)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = ids.spanID("prove sector/partition 3/gpu prove", "ntt msm h")
	}))
}

func TestIDGenerator(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithIDGenerator(idGenerator{}))
	tracer := provider.Tracer(ScopeName)
	ids := newTreeIDs("run", "job", 1)

	ctx, root := tracer.Start(ids.with(context.Background(), "", "root"), "root")
	require.Equal(t, ids.traceID(), root.SpanContext().TraceID())
	require.Equal(t, ids.spanID("", "root"), root.SpanContext().SpanID())

	_, child := tracer.Start(ids.with(ctx, "root", "child"), "child")
	require.Equal(t, ids.traceID(), child.SpanContext().TraceID())
	require.Equal(t, ids.spanID("root", "child"), child.SpanContext().SpanID())

	// Without ids of its own, a child does not inherit its parent's.
	seen := map[trace.SpanID]bool{root.SpanContext().SpanID(): true, child.SpanContext().SpanID(): true}
	for range 100 {
		_, other := tracer.Start(ctx, "other")
		require.Equal(t, ids.traceID(), other.SpanContext().TraceID())
		require.False(t, seen[other.SpanContext().SpanID()])
		seen[other.SpanContext().SpanID()] = true
	}
	_, free := tracer.Start(context.Background(), "free")
	require.True(t, free.SpanContext().IsValid())
	require.NotEqual(t, ids.traceID(), free.SpanContext().TraceID())
}

func ExampleTraceIDFor() {
	fmt.Println(TraceIDFor("run", "porep-1000-77", 1))
	// Output: e12c29c0ffe99eacb67966025e8b3016
}

func BenchmarkTreeIDs(b *testing.B) {
	ids := newTreeIDs("engine-2026-01-02T03:04:05Z-porep-1000-77", "porep-1000-123456", 1)
	b.ReportAllocs()
	for b.Loop() {
		_ = ids.spanID("prove sector/partition 3/gpu prove", "ntt msm h")
	}
}

package tracing

import (
	"context"
	"testing"
	"time"

	"github.com/provetrace/provetrace/tracing/otlptest"
)

// BenchmarkEndToEnd makes spans and delivers them, as a conversion does.
func BenchmarkEndToEnd(b *testing.B) {
	for _, bm := range []struct {
		name   string
		server otlptest.Options
		grpc   bool
	}{
		{"grpc", otlptest.Options{Discard: true}, true},
		{"http", otlptest.Options{Discard: true, HTTP: true}, false},
	} {
		b.Run(bm.name, func(b *testing.B) {
			o := Options{Endpoint: otlptest.Start(b, bm.server).Endpoint(), Protocol: protocolHTTP, Lossless: true, DeterministicIDs: true}
			if bm.grpc {
				o.Protocol = protocolGRPC
			}
			benchmarkPipeline(b, o)
		})
	}
	b.Run("file", func(b *testing.B) {
		benchmarkPipeline(b, Options{File: b.TempDir() + "/out.json", Lossless: true, DeterministicIDs: true})
	})
}

func benchmarkPipeline(b *testing.B, o Options) {
	p, err := Setup(context.Background(), o)
	if err != nil {
		b.Fatal(err)
	}
	stages := p.Stages(RunID.String("run"))
	ids := newTreeIDs("run", "porep-1000-123456", 1)
	start := time.Unix(1_700_000_000, 0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		ctx := ids.with(context.Background(), "prove sector/partition 3", "gpu prove")
		emitTestSpan(stages.Tracer(Stage(i%int(numStages))), ctx, i, start)
	}
	delivery, err := p.Shutdown(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(delivery.Delivered)/b.Elapsed().Seconds(), "spans/s")
}

// BenchmarkLiveSpan is what a span costs a prover whose backend is dead.
func BenchmarkLiveSpan(b *testing.B) {
	p, err := Setup(context.Background(), Options{Endpoint: "http://127.0.0.1:1"})
	if err != nil {
		b.Fatal(err)
	}
	stages := p.Stages()
	start := time.Unix(1_700_000_000, 0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		emitTestSpan(stages.Tracer(StageGPU), context.Background(), i, start)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = p.Shutdown(ctx)
}

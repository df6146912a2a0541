package tracing

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// discard is a span processor that does nothing.
type discard struct{}

func (discard) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (discard) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (discard) Shutdown(context.Context) error                  { return nil }
func (discard) ForceFlush(context.Context) error                { return nil }

// benchDevice is a device of which everything is known.
var benchDevice = Device{
	Ordinal: 0, UUID: "GPU-7f5a2d41-93c1-4c8e-9a55-0f6a7d1c2b3e", Name: "gpu 0", Model: "NVIDIA H200",
	Vendor: "NVIDIA", DriverVersion: "570.86.15", PCIBusID: "00000000:1b:00.0",
}

// BenchmarkPhase compares a phase that the recorder records live with a span
// of the very same attributes that is made with the SDK alone.
func BenchmarkPhase(b *testing.B) {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(discard{}))
	tracer := provider.Tracer(ScopeName)
	recorder := NewRecorder(oneTracer{tracer}, RecorderOptions{Backend: "cuda", Devices: []Device{benchDevice}})
	defer recorder.Close(time.Time{})
	sector := recorder.StartSector(context.Background(), SectorInfo{Job: "porep-1000-7", Partitions: 10}, time.Time{})
	partition := sector.StartPartition(3, time.Time{})
	ctx := partition.Context(context.Background())
	device := benchDevice.attributes()

	b.Run("synthesis/bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, span := tracer.Start(ctx, SpanSynthesis, trace.WithAttributes(PartitionIndex.Int(3), SynthesisWorker.Int(5)))
			span.End()
		}
	})
	b.Run("synthesis/recorder", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			partition.Synthesis(5, time.Time{}).End(time.Time{})
		}
	})
	b.Run("prove/bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			attrs := make([]attribute.KeyValue, 0, len(device)+3)
			attrs = append(append(attrs, PartitionIndex.Int(3)), device...)
			attrs = append(attrs, GPUWorker.Int(1), Backend.String("cuda"))
			_, span := tracer.Start(ctx, SpanProve, trace.WithAttributes(attrs...))
			span.End()
		}
	})
	b.Run("prove/recorder", func(b *testing.B) {
		// A second worker's proof, so that there are no gaps with spans of
		// their own.
		defer sector.StartPartition(4, time.Time{}).Prove(0, 0, time.Time{}).End(time.Time{})
		b.ReportAllocs()
		for b.Loop() {
			partition.Prove(1, 0, time.Time{}).End(time.Time{})
		}
	})
}

// oneTracer gives all stages the same tracer.
type oneTracer struct{ tracer trace.Tracer }

func (t oneTracer) Tracer(Stage) trace.Tracer { return t.tracer }

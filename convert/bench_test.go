package convert_test

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/provetrace/provetrace/convert"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
)

// BenchmarkConvert converts a log to OTLP JSON, which is thrown away: the
// fixture with the most lines, and the file that PROVETRACE_BENCH_LOG names.
func BenchmarkConvert(b *testing.B) {
	b.Run("split", func(b *testing.B) { benchmarkConvert(b, "testdata/split.log") })
	if name := os.Getenv("PROVETRACE_BENCH_LOG"); name != "" {
		b.Run("file", func(b *testing.B) { benchmarkConvert(b, name) })
	}
}

func benchmarkConvert(b *testing.B, name string) {
	info, err := os.Stat(name)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	var spans int64
	for b.Loop() {
		p, err := tracing.Setup(b.Context(), tracing.Options{File: "-", Writer: io.Discard, Lossless: true, DeterministicIDs: true})
		if err != nil {
			b.Fatal(err)
		}
		logs, err := convert.Logs(b.Context(), []string{name}, false, nil)
		if err != nil {
			b.Fatal(err)
		}
		for u, err := range run.Read(b.Context(), name, run.Options{}, logs[0].Sources...) {
			if err != nil {
				b.Fatal(err)
			}
			if err := convert.Run(b.Context(), p, u, convert.RunID(u, ""), nil); err != nil {
				b.Fatal(err)
			}
		}
		d, err := p.Shutdown(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		spans = d.Delivered
	}
	b.ReportMetric(float64(spans)*float64(b.N)/b.Elapsed().Seconds(), "spans/s")
}

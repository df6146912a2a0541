package figures_test

import (
	"os"
	"testing"

	"github.com/provetrace/provetrace/convert/figures"
)

// BenchmarkOf computes the figures of a run that is read: of the fixture with
// the most timings, and of the file that PROVETRACE_BENCH_LOG names.
func BenchmarkOf(b *testing.B) {
	b.Run("split", func(b *testing.B) { benchmarkOf(b, fixtures+"/split.log") })
	if name := os.Getenv("PROVETRACE_BENCH_LOG"); name != "" {
		b.Run("file", func(b *testing.B) { benchmarkOf(b, name) })
	}
}

func benchmarkOf(b *testing.B, path string) {
	r := readLog(b, path)[0]
	b.ReportAllocs()
	partitions := 0
	for b.Loop() {
		partitions += figures.Of(r).Partitions
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(partitions), "ns/partition")
}

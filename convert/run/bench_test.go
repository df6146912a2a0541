package run

import (
	"bytes"
	"io"
	"os"
	"runtime/debug"
	"testing"
)

// BenchmarkRead reads and assembles a log: the fixtures' largest with the
// engine's lines around, and the file that PROVETRACE_BENCH_LOG names.
func BenchmarkRead(b *testing.B) {
	noisy, err := os.ReadFile("../testdata/split.log")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("noisy", func(b *testing.B) {
		benchmarkRead(b, int64(len(noisy)), Source{Name: "split.log", Open: func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(noisy)), nil
		}})
	})
	if name := os.Getenv("PROVETRACE_BENCH_LOG"); name != "" {
		info, err := os.Stat(name)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("file", func(b *testing.B) { benchmarkRead(b, info.Size(), fileSource(name)) })
	}
}

func benchmarkRead(b *testing.B, size int64, s Source) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // as the commands do
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(120 << 20))
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range Read(b.Context(), s.Name, Options{}, s) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

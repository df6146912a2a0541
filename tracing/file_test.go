package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// readTraces reads an OTLP file, which may be compressed.
func readTraces(t *testing.T, name string) ptrace.Traces {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	switch filepath.Ext(name) {
	case ".gz":
		r, err := gzip.NewReader(bytes.NewReader(data))
		require.NoError(t, err)
		data, err = io.ReadAll(r)
		require.NoError(t, err)
	case ".zst":
		r, err := zstd.NewReader(bytes.NewReader(data))
		require.NoError(t, err)
		defer r.Close()
		data, err = io.ReadAll(r)
		require.NoError(t, err)
	}
	all := ptrace.NewTraces()
	for line := range bytes.Lines(data) {
		require.True(t, bytes.HasSuffix(line, []byte("\n")), "the last line is cut")
		td, err := new(ptrace.JSONUnmarshaler).UnmarshalTraces(line)
		require.NoError(t, err)
		td.ResourceSpans().MoveAndAppendTo(all.ResourceSpans())
	}
	return all
}

func requireFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if names == nil {
		names = []string{}
	}
	require.Equal(t, names, got)
}

func TestFile(t *testing.T) {
	for _, name := range []string{"out.json", "out.jsonl.gz", "out.json.zst"} {
		for _, n := range []int{0, 1, 5000} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				checkQuiet(t)
				clearEnv(t)
				dir := t.TempDir()
				file := filepath.Join(dir, name)
				p := mustSetup(t, Options{File: file, Lossless: true, DeterministicIDs: true})
				stages := p.Stages(RunID.String("run"))
				emit(stages, n)
				_, err := os.Stat(file)
				require.ErrorIs(t, err, os.ErrNotExist, "the file is there before it is whole")
				delivery, err := p.Shutdown(testContext(t))
				require.NoError(t, err)
				require.Equal(t, Delivery{Ended: int64(n), Delivered: int64(n)}, delivery)
				requireFiles(t, dir, name)
				require.Equal(t, n, readTraces(t, file).SpanCount())
			})
		}
	}
}

// What is read back is what the collector's library makes of the same spans.
func TestFileRoundTrip(t *testing.T) {
	spans := testSpans(t, 100)
	var out bytes.Buffer
	e := newWriterExporter(&out)
	require.NoError(t, e.ExportSpans(context.Background(), spans))
	require.NoError(t, e.Shutdown(context.Background()))
	got, err := new(ptrace.JSONUnmarshaler).UnmarshalTraces(out.Bytes())
	require.NoError(t, err)
	var m ptrace.JSONMarshaler
	a, err := m.MarshalTraces(got)
	require.NoError(t, err)
	b, err := m.MarshalTraces(pdataOf(spans))
	require.NoError(t, err)
	require.Equal(t, string(b), string(a))
}

func TestFileReplaces(t *testing.T) {
	clearEnv(t)
	dir := t.TempDir()
	file, link := filepath.Join(dir, "out.json"), filepath.Join(dir, "link.json")
	require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
	require.NoError(t, os.Symlink("out.json", link))
	p := mustSetup(t, Options{File: link})
	emit(p.Stages(), 3)
	_, err := p.Shutdown(testContext(t))
	require.NoError(t, err)
	requireFiles(t, dir, "link.json", "out.json")
	require.Equal(t, 3, readTraces(t, file).SpanCount())
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, os.ModeSymlink, info.Mode().Type(), "the link was replaced")
}

func TestFileErrors(t *testing.T) {
	clearEnv(t)
	dir := t.TempDir()
	sealed := filepath.Join(dir, "sealed")
	require.NoError(t, os.Mkdir(sealed, 0o500))
	tests := []struct{ name, file, want string }{
		{"directory", dir, "which is a directory: give the name of a file"},
		{"no directory", filepath.Join(dir, "no", "out.json"), "its directory does not exist"},
		{"a file for a directory", "/dev/null/out.json", "not a directory"},
	}
	if os.Getuid() != 0 {
		tests = append(tests, struct{ name, file, want string }{"unwritable", filepath.Join(sealed, "out.json"), "permission is denied"})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Setup(context.Background(), Options{File: tt.file})
			require.ErrorContains(t, err, "cannot write spans to "+tt.file)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// full passes so many bytes on and then fails as a full disk does.
type full struct {
	w    io.Writer
	left int
}

func (f *full) Write(p []byte) (int, error) {
	n := min(len(p), f.left)
	f.left -= n
	n, err := f.w.Write(p[:n])
	if err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

func TestFileDiskFull(t *testing.T) {
	for _, name := range []string{"out.json", "out.json.gz", "out.json.zst"} {
		t.Run(name, func(t *testing.T) {
			checkQuiet(t)
			clearEnv(t, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=10")
			dir := t.TempDir()
			file := filepath.Join(dir, name)
			require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
			p := mustSetup(t, Options{File: file})
			e := p.courier.next.(*fileExporter)
			e.w = &full{e.w, 20_000}
			emit(p.Stages(), 100)
			delivery, err := p.Shutdown(testContext(t))
			require.EqualError(t, err, "cannot write spans to "+file+": no space is left: free some, or write elsewhere; no file is left behind")
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.Equal(t, Delivery{Ended: 100, Failed: 100}, delivery)
			requireFiles(t, dir, name)
			kept, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, "old", string(kept), "a file that was there before is lost")
		})
	}
}

func TestFileDevices(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	checkQuiet(t)
	clearEnv(t)
	p := mustSetup(t, Options{File: "/dev/full"})
	emit(p.Stages(), 4)
	delivery, err := p.Shutdown(testContext(t))
	require.EqualError(t, err, "cannot write spans to /dev/full: no space is left: free some, or write elsewhere")
	require.Equal(t, Delivery{Ended: 4, Failed: 4}, delivery)

	p = mustSetup(t, Options{File: "/dev/null"})
	emit(p.Stages(), 4)
	_, err = p.Shutdown(testContext(t))
	require.NoError(t, err)
	info, err := os.Stat("/dev/null")
	require.NoError(t, err)
	require.False(t, info.Mode().IsRegular(), "the device was replaced by a file")
}

func TestFileWriter(t *testing.T) {
	checkQuiet(t)
	clearEnv(t)
	var out bytes.Buffer
	p := mustSetup(t, Options{File: "-", Writer: &out})
	emit(p.Stages(), 8)
	delivery, err := p.Shutdown(testContext(t))
	require.NoError(t, err)
	require.Equal(t, Delivery{Ended: 8, Delivered: 8}, delivery)
	require.Equal(t, 1, strings.Count(out.String(), "\n"))

	p = mustSetup(t, Options{File: "-", Writer: failingWriter{syscall.EPIPE}, Lossless: true})
	emit(p.Stages(), 8)
	delivery, err = p.Shutdown(testContext(t))
	require.EqualError(t, err, "cannot write spans to the output: what read it has stopped reading")
	require.Equal(t, Delivery{Ended: 8, Failed: 8}, delivery)
}

// The file of a replay has full lines, however long its making takes.
func TestFileLines(t *testing.T) {
	for name, tt := range map[string]struct {
		env  []string
		want []int
	}{
		"default": {nil, []int{losslessBatch, losslessBatch, 5000 - 2*losslessBatch}},
		"set":     {[]string{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE=1700", "OTEL_BSP_SCHEDULE_DELAY=1"}, []int{1700, 1700, 1600}},
	} {
		t.Run(name, func(t *testing.T) {
			checkQuiet(t)
			clearEnv(t, tt.env...)
			var got []int
			p := mustSetup(t, Options{File: "-", Lossless: true, DeterministicIDs: true, Writer: writerFunc(func(line []byte) (int, error) {
				td, err := new(ptrace.JSONUnmarshaler).UnmarshalTraces(line)
				got = append(got, td.SpanCount())
				return len(line), err
			})})
			emit(p.Stages(), 5000)
			delivery, err := p.Shutdown(testContext(t))
			require.NoError(t, err)
			require.Equal(t, Delivery{Ended: 5000, Delivered: 5000}, delivery)
			require.Equal(t, tt.want, got)
		})
	}
}

// What counts as delivered are the spans of the lines that were written.
func TestFileWriterFailsHalfway(t *testing.T) {
	checkQuiet(t)
	clearEnv(t, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=100")
	for ended, want := range map[int]int64{250: 200, 1000: 200} {
		lines := 0
		p := mustSetup(t, Options{File: "-", Lossless: true, DeterministicIDs: true, Writer: writerFunc(func(line []byte) (int, error) {
			if lines++; lines > 2 {
				return 0, syscall.EPIPE
			}
			return len(line), nil
		})})
		emit(p.Stages(), ended)
		delivery, err := p.Shutdown(testContext(t))
		require.EqualError(t, err, "cannot write spans to the output: what read it has stopped reading")
		require.Equal(t, Delivery{Ended: int64(ended), Delivered: want, Failed: int64(ended) - want}, delivery)
	}
}

// A file that a shutdown could not complete does not get its name.
func TestFileShutdownIsBounded(t *testing.T) {
	checkQuiet(t)
	clearEnv(t, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=1")
	dir := t.TempDir()
	p := mustSetup(t, Options{File: filepath.Join(dir, "out.json")})
	e := p.courier.next.(*fileExporter)
	writing, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	e.w = writerFunc(func(b []byte) (int, error) {
		once.Do(func() { close(writing) })
		<-release
		return len(b), nil
	})
	emit(p.Stages(), 10)
	<-writing
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	delivery, err := p.Shutdown(ctx)
	require.ErrorContains(t, err, "stopped before everything was written")
	require.Equal(t, Delivery{Ended: 10, Failed: 10}, delivery)
	close(release)
	require.Eventually(t, func() bool {
		entries, err := os.ReadDir(dir)
		return err == nil && len(entries) == 0
	}, time.Minute, time.Millisecond)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func BenchmarkFileExport(b *testing.B) {
	spans := testSpans(b, losslessBatch)
	for _, name := range []string{"out.json", "out.json.gz", "out.json.zst"} {
		b.Run(name, func(b *testing.B) {
			e, err := newFileExporter(filepath.Join(b.TempDir(), name))
			if err != nil {
				b.Fatal(err)
			}
			defer e.fail(context.Canceled)
			b.ReportAllocs()
			for b.Loop() {
				if err := e.ExportSpans(context.Background(), spans); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(spans)), "ns/span")
			b.ReportMetric(float64(b.N*len(e.line))/1e6/b.Elapsed().Seconds(), "MB/s")
		})
	}
}

// The collector's library, which the encoder is measured against.
func BenchmarkPdataJSON(b *testing.B) {
	spans := testSpans(b, losslessBatch)
	var m ptrace.JSONMarshaler
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.MarshalTraces(pdataOf(spans)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(spans)), "ns/span")
}

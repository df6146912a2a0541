package tracing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// A fileExporter writes each batch of spans as a line of OTLP JSON, the format
// of the collector's file exporter and receiver. The file gets its name only
// when it is whole: until then, it is a hidden one in the same directory.
//
// Like any exporter it is called by one goroutine at a time.
type fileExporter struct {
	name string // for people, and what the file is to be called
	w    io.Writer

	file       *os.File       // nil where a writer was given
	temp       string         // what the file is called until it is whole; empty where it is written in place
	compressor io.WriteCloser // nil where there is none

	enc  jsonEncoder
	line []byte
	err  error
}

// newFileExporter opens a file. A name that ends in .gz or .zst has it
// compressed. What exists and is no regular file, such as a pipe, is written in
// place.
func newFileExporter(name string) (*fileExporter, error) {
	e := &fileExporter{name: name}
	// A link stays one, and what it names is replaced.
	if target, err := filepath.EvalSymlinks(name); err == nil {
		e.name = target
	}
	info, err := os.Stat(e.name)
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("cannot write spans to %s, which is a directory: give the name of a file", name)
	case err == nil && info.Mode()&os.ModeNamedPipe != 0:
		// Without its other end, opening would wait, and see no interrupt.
		e.file, err = os.OpenFile(e.name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if errors.Is(err, syscall.ENXIO) {
			return nil, fmt.Errorf("cannot write spans to %s: nothing reads the pipe, start its reader first", name)
		}
	case err == nil && !info.Mode().IsRegular():
		e.file, err = os.OpenFile(e.name, os.O_WRONLY, 0)
	default:
		// Not os.CreateTemp, whose files only their owner may read.
		e.temp = filepath.Join(filepath.Dir(e.name), "."+filepath.Base(e.name)+"."+strconv.FormatUint(rand.Uint64(), 36)+".tmp")
		e.file, err = os.OpenFile(e.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot write spans to %s: %w", name, fileCause(err))
	}
	e.w = e.file
	switch {
	case strings.HasSuffix(name, ".gz"):
		e.compressor, err = gzip.NewWriterLevel(e.file, gzip.BestSpeed)
	case strings.HasSuffix(name, ".zst"):
		e.compressor, err = zstd.NewWriter(e.file)
	}
	if err != nil {
		e.discard()
		return nil, fmt.Errorf("starting to compress %s: %w", name, err)
	}
	if e.compressor != nil {
		e.w = e.compressor
	}
	return e, nil
}

// newWriterExporter writes to a writer, which is called once for each line.
func newWriterExporter(w io.Writer) *fileExporter {
	return &fileExporter{name: "the output", w: w}
}

// ExportSpans appends a line to the file. After an error, all further calls
// return that error.
func (e *fileExporter) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	if e.err != nil || len(spans) == 0 {
		return e.err
	}
	e.line = append(e.enc.appendRequest(e.line[:0], spans), '\n')
	if _, err := e.w.Write(e.line); err != nil {
		e.fail(err)
	}
	return e.err
}

// Shutdown completes the file and gives it its name. It removes the file
// instead where something failed or where ctx is done.
func (e *fileExporter) Shutdown(ctx context.Context) error {
	e.line = nil
	if e.err == nil {
		if err := ctx.Err(); err != nil {
			e.fail(err)
		}
	}
	if e.err != nil || e.file == nil {
		return e.err
	}
	if err := e.finish(); err != nil {
		e.fail(err)
	}
	return e.err
}

func (e *fileExporter) finish() error {
	if e.compressor != nil {
		if err := e.compressor.Close(); err != nil {
			return err
		}
		e.compressor = nil
	}
	if e.temp == "" {
		err := e.file.Close()
		e.file = nil
		return err
	}
	if err := e.file.Sync(); err != nil {
		return err
	}
	err := e.file.Close()
	e.file = nil
	if err != nil {
		return err
	}
	if err := os.Rename(e.temp, e.name); err != nil {
		return err
	}
	e.temp = ""
	// Some file systems cannot sync a directory; the file is whole without.
	if dir, err := os.Open(filepath.Dir(e.name)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}

// fail records an error and removes what there is of the file.
func (e *fileExporter) fail(err error) {
	left := ""
	if e.temp != "" {
		left = "; no file is left behind"
	}
	e.discard()
	e.err = fmt.Errorf("cannot write spans to %s: %w%s", e.name, fileCause(err), left)
}

// discard closes the file and removes it.
func (e *fileExporter) discard() {
	if e.file != nil {
		_ = e.file.Close()
		e.file = nil
	}
	if e.compressor != nil {
		// For its goroutines' sake: what it writes fails, the file is closed.
		_ = e.compressor.Close()
		e.compressor = nil
	}
	if e.temp != "" {
		_ = os.Remove(e.temp)
		e.temp = ""
	}
}

// A hint is an error with a sentence for people in the place of its own text.
type hint struct {
	text string
	err  error
}

func (h *hint) Error() string { return h.text }
func (h *hint) Unwrap() error { return h.err }

// fileCause says what to do about an error of the file system. The path that
// the error has is left out: it can be the hidden one.
func fileCause(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &hint{"no space is left: free some, or write elsewhere", err}
	case errors.Is(err, syscall.EPIPE):
		return &hint{"what read it has stopped reading", err}
	case errors.Is(err, fs.ErrNotExist):
		return &hint{"its directory does not exist: create it, or write elsewhere", err}
	case errors.Is(err, fs.ErrPermission):
		return &hint{"permission is denied: write elsewhere", err}
	case errors.Is(err, errUnfinished), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &hint{"it was stopped before everything was written", err}
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	var linkErr *os.LinkError
	if errors.As(err, &linkErr) {
		return linkErr.Err
	}
	return err
}

package tracing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/provetrace/provetrace/tracing/outfile"
)

// A fileExporter writes spans as lines of OTLP JSON, the format of the
// collector's file exporter and receiver.
//
// Like any exporter it is called by one goroutine at a time.
type fileExporter struct {
	w       io.Writer
	file    *outfile.File // nil where a writer was given
	perLine int           // spans in a line; 0 for those of each export

	enc     jsonEncoder
	line    []byte
	written atomic.Int64 // spans in whole lines
	err     error
}

// newFileExporter opens a file.
func newFileExporter(name string) (*fileExporter, error) {
	f, err := outfile.Create("spans", name)
	if err != nil {
		return nil, err
	}
	return &fileExporter{w: f, file: f}, nil
}

// newWriterExporter writes to a writer, which is called once for each line.
func newWriterExporter(w io.Writer) *fileExporter { return &fileExporter{w: w} }

// ExportSpans adds spans to the file. After an error, all further calls return
// that error.
func (e *fileExporter) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	for len(spans) > 0 && e.err == nil {
		n := len(spans)
		if e.perLine > 0 {
			n = min(n, e.perLine-e.enc.spans)
		}
		e.enc.add(spans[:n])
		spans = spans[n:]
		if e.perLine == 0 || e.enc.spans == e.perLine {
			e.endLine()
		}
	}
	return e.err
}

// endLine writes the line of the spans since the last one.
func (e *fileExporter) endLine() {
	spans := e.enc.spans
	e.line = append(e.enc.appendRequest(e.line[:0]), '\n')
	if _, err := e.w.Write(e.line); err != nil {
		e.fail(err)
		return
	}
	e.written.Add(int64(spans))
}

// Shutdown completes the file. It removes the file instead where something
// failed or where ctx is done.
func (e *fileExporter) Shutdown(ctx context.Context) error {
	if e.err == nil {
		if err := ctx.Err(); err != nil {
			e.fail(err)
		} else if e.enc.spans > 0 {
			e.endLine()
		}
	}
	e.enc, e.line = jsonEncoder{}, nil
	if e.err != nil || e.file == nil {
		return e.err
	}
	e.err = e.file.Close()
	e.file = nil
	return e.err
}

// fail records an error and removes what there is of the file.
func (e *fileExporter) fail(err error) {
	err = fileCause(err)
	if e.file == nil {
		e.err = fmt.Errorf("cannot write spans to the output: %w", err)
		return
	}
	e.err = e.file.Abort(err)
	e.file = nil
}

// A hint is an error with a sentence for people in the place of its own text.
type hint struct {
	text string
	err  error
}

func (h *hint) Error() string { return h.text }
func (h *hint) Unwrap() error { return h.err }

// fileCause says what to do about an error of a file.
func fileCause(err error) error {
	if errors.Is(err, errUnfinished) {
		return &hint{"it was stopped before everything was written", err}
	}
	return outfile.Cause(err)
}

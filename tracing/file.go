package tracing

import (
	"context"
	"errors"
	"fmt"
	"io"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/provetrace/provetrace/tracing/outfile"
)

// A fileExporter writes each batch of spans as a line of OTLP JSON, the format
// of the collector's file exporter and receiver.
//
// Like any exporter it is called by one goroutine at a time.
type fileExporter struct {
	w    io.Writer
	file *outfile.File // nil where a writer was given

	enc  jsonEncoder
	line []byte
	err  error
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

// Shutdown completes the file. It removes the file instead where something
// failed or where ctx is done.
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

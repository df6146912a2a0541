package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/provetrace/provetrace/convert"
	"github.com/provetrace/provetrace/convert/cli/flags"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
	"github.com/provetrace/provetrace/tracing/outfile"
)

// How long the last spans may take: to be written, to be sent, and to be sent
// to an endpoint that has failed already or by a user who has interrupted.
// Sending waits longer than an export does by default, so that the export's
// own error is the one to be told.
const (
	writeWithin = time.Minute
	sendWithin  = 15 * time.Second
	hurryWithin = 2 * time.Second
)

// trace opens what the run is recorded in.
func (p *proving) trace(ctx context.Context, stderr *os.File) (err error) {
	exporting := p.endpoint != "" || p.jaeger != "" || os.Getenv("OTEL_TRACES_EXPORTER") == "otlp" ||
		os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	if exporting {
		p.export, err = tracing.Setup(ctx, tracing.Options{Endpoint: p.endpoint, Protocol: p.protocol, Writer: stderr})
		if err != nil {
			return flags.Usage(err) // of an option or a variable
		}
	}
	p.file, err = tracing.Setup(ctx, tracing.Options{File: p.dir.spans(), Lossless: true, Also: p.export})
	if err == nil {
		name := p.options.journal
		if name == "" {
			name = p.dir.journal()
		}
		if info, e := os.Stat(name); e == nil && info.Mode()&os.ModeNamedPipe != 0 {
			err = fmt.Errorf("cannot write the journal to %s, which is a pipe: name a file", name)
		} else if p.journal, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666); err != nil {
			err = fmt.Errorf("cannot write the journal to %s: %w", name, outfile.Cause(err))
		}
	}
	if err != nil {
		p.drop()
	}
	return err
}

// drop ends a recording of nothing, and leaves no file of it.
func (p *proving) drop() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, to := range []*tracing.Pipeline{p.file, p.export} {
		if to != nil {
			_, _ = to.Shutdown(ctx)
		}
	}
	if p.journal != nil {
		_ = p.journal.Close()
		if p.options.journal == "" {
			_ = os.Remove(p.journal.Name())
		}
	}
}

// recorded reads the run back from its spans, so that what is told of it is
// what report says of the file.
func (p *proving) recorded(ctx context.Context) (*run.Run, error) {
	logs, err := convert.Logs(ctx, []string{p.dir.spans()}, false, nil)
	if err != nil {
		return nil, err
	}
	for r, err := range convert.Read(ctx, logs[0], run.Options{}) {
		return r, err
	}
	return nil, nil // it was interrupted before anything began
}

// send waits, but not for long, until the spans are where they are sent.
func (p *proving) send(ctx context.Context, s *summary) {
	if p.export == nil {
		return
	}
	within := sendWithin
	if p.export.Err() != nil || ctx.Err() != nil {
		within = hurryWithin
	}
	if ctx.Err() != nil { // else an interrupt ends the waiting
		ctx = context.WithoutCancel(ctx)
	}
	p.screen.stage(stage{doing: "sending the spans"})
	send, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	delivery, err := p.export.Shutdown(send)
	s.Spans.Sent, s.Spans.To = &delivery.Delivered, p.export.String()
	if err != nil {
		p.warn("%d of %d spans are not sent: %v", delivery.Ended-delivery.Delivered, delivery.Ended, err)
	}
}

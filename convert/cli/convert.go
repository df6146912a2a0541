// Package cli is the command line of convert.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/provetrace/provetrace/convert"
	"github.com/provetrace/provetrace/convert/report"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
)

// memoryLimit is the soft limit that keeps the collector's own memory small
// beside that of the model, in bytes. GOMEMLIMIT overrides it.
const memoryLimit = 100 << 20

// flushWithin bounds how long the last spans may take to be delivered.
const flushWithin = time.Minute

type options struct {
	output   string
	endpoint string
	protocol string
	join     bool
	run      string
	epoch    string
	workers  int
	jaeger   string
	format   string

	at  time.Time // what epoch says
	now bool
}

// Command returns the convert command.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "convert LOG...",
		Short: "Turn TIMELINE logs into traces",
		Long: `convert reads TIMELINE logs of a proving engine and makes of each run the spans
that a live pipeline would have recorded: a trace for each sector and one for
the whole run. They go to an OTLP endpoint, or with -o to a file.

A LOG is a file (plain, gzip or zstd), a directory of them, a pattern, or - for
standard input. The lines may carry the prefixes of journalctl, syslog,
Kubernetes or docker compose, and the engine's own log may stand between them:
it tells the wall clock, the devices and the failures. What the log lacks is
derived where it can be, and marked.

Where to: http://localhost:4317 by OTLP over gRPC, unless --endpoint or the
standard variables say otherwise: OTEL_EXPORTER_OTLP_ENDPOINT, _PROTOCOL,
_HEADERS, _COMPRESSION, _TIMEOUT, _CERTIFICATE, OTEL_SERVICE_NAME,
OTEL_RESOURCE_ATTRIBUTES and so on.

Exit code: 0 when all was converted and delivered, 1 when not, 2 when called
wrongly.`,
		Example: `  # see the waterfall in the terminal and keep the spans in a file
  provetrace convert bench.log -o bench.json

  # send the traces to Jaeger and get links to them
  provetrace convert bench.log --jaeger http://localhost:16686

  # the pieces of one rotated log, as one run
  provetrace convert --join cuzk.log*

  # from the journal, as if the run had just ended
  journalctl -u cuzk -o short-iso-precise | provetrace convert - --epoch now`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name at least one log to convert, or - for standard input")
			}
			return nil
		},
		PreRunE: func(*cobra.Command, []string) error { return o.check() },
		RunE: func(c *cobra.Command, args []string) error {
			return o.convert(c.Context(), args, os.Stdin, os.Stdout, os.Stderr)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&o.output, "output", "o", "", "write OTLP JSON, a request a line, to `FILE` (.gz and .zst are compressed, - is standard output)")
	f.StringVar(&o.endpoint, "endpoint", "", "send to the OTLP endpoint `URL`")
	f.StringVar(&o.protocol, "protocol", "", "grpc or http/protobuf (default grpc)")
	f.StringVar(&o.jaeger, "jaeger", "", "print links into the Jaeger whose pages are at `URL`")
	f.StringVar(&o.format, "format", "text", "text or json: the account on standard output")
	f.BoolVar(&o.join, "join", false, "read all LOGs as the pieces of one log, oldest first")
	f.StringVar(&o.run, "run", "", "`NAME` the run: spans converted again under a name replace the earlier ones (default: its epoch and first job)")
	f.StringVar(&o.epoch, "epoch", "", "wall clock `TIME` of the engine's start, or now: the run ends now (default: as the log tells)")
	f.IntVar(&o.workers, "gpu-workers-per-device", 0, "`N` GPU workers drive each device, where the log does not tell (default: all drive one)")
	c.MarkFlagsMutuallyExclusive("output", "endpoint")
	c.MarkFlagsMutuallyExclusive("output", "protocol")
	complete(c, "format", "text", "json")
	complete(c, "protocol", "grpc", "http/protobuf")
	complete(c, "epoch", "now")
	return c
}

// complete completes a flag's value.
func complete(c *cobra.Command, flag string, values ...string) {
	err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag does not exist
	}
}

func (o *options) check() error {
	if o.format != "text" && o.format != "json" {
		return fmt.Errorf("--format %q is neither text nor json", o.format)
	}
	if o.workers < 0 {
		return fmt.Errorf("--gpu-workers-per-device %d is less than 1", o.workers)
	}
	if o.jaeger != "" {
		u, err := url.Parse(o.jaeger)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("--jaeger %q is not the URL of a page, such as http://localhost:16686", o.jaeger)
		}
	}
	if o.epoch != "" {
		var err error
		if o.at, o.now, err = convert.ParseEpoch(o.epoch); err != nil {
			return fmt.Errorf("--epoch: %w", err)
		}
	}
	return nil
}

// convert does the command's work.
func (o *options) convert(ctx context.Context, args []string, stdin io.Reader, stdout, stderr *os.File) error {
	readOptions := run.Options{WorkersPerDevice: o.workers, Epoch: o.at, EndNow: o.now}
	logs, err := convert.Logs(args, o.join, stdin)
	if err != nil {
		return err
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	pipeline, err := tracing.Setup(ctx, tracing.Options{
		Endpoint: o.endpoint, Protocol: o.protocol, File: o.output, Writer: stdout,
		Lossless: true, DeterministicIDs: true,
	})
	if err != nil {
		return err
	}

	account := stdout
	if o.output == "-" {
		account = stderr
	}
	width, color := report.Terminal(account)
	var out printer
	if o.format == "json" {
		out = &jsonPrinter{w: account}
	} else {
		out = &textPrinter{w: account, width: width, color: color}
	}
	bar := newProgress(stderr)
	var failures []error
	for _, log := range logs {
		if err := o.convertLog(ctx, pipeline, log, readOptions, out, bar); err != nil {
			failures = append(failures, err)
		}
		if ctx.Err() != nil || pipeline.Err() != nil {
			break
		}
	}
	bar.clear()

	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
	defer cancel()
	if ctx.Err() != nil {
		cancel() // an interrupted run has no file
	}
	delivery, err := pipeline.Shutdown(flush)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := out.delivered(delivery, pipeline.String()); err != nil {
		failures = append(failures, err)
	}
	if err != nil {
		failures = append(failures, err)
	}
	return join(failures)
}

// join joins errors into one sentence.
func join(errs []error) error {
	seen := make(map[string]bool)
	var parts []string
	for _, err := range errs {
		if text := err.Error(); !seen[text] {
			seen[text] = true
			parts = append(parts, text)
		}
	}
	switch len(parts) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return errors.New(strings.Join(parts, "; "))
}

// convertLog converts each run of a log.
func (o *options) convertLog(ctx context.Context, p *tracing.Pipeline, log *convert.Log, ro run.Options, out printer, bar *progress) error {
	defer bar.clear()
	bar.reading(log)
	runs, events := 0, int64(0)
	for u, err := range run.Read(ctx, log.Name, ro, log.Sources...) {
		if err != nil {
			return err
		}
		runs++
		events += u.Input.Events
		name := o.run
		if name != "" && runs > 1 {
			name = fmt.Sprintf("%s#%d", name, runs)
		}
		id := convert.RunID(u, name)
		bar.writing(log)
		err = convert.Run(ctx, p, u, id, bar.tell)
		bar.clear()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := out.run(u, id, jaeger{o.jaeger, p.ServiceName()}); err != nil {
			return err
		}
		if err != nil {
			return nil // the pipeline's own error, which Shutdown tells
		}
		bar.reading(log)
	}
	if events == 0 {
		return fmt.Errorf("no TIMELINE event in %s: is it the engine's standard error?", log.Name)
	}
	return nil
}

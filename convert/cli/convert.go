// Package cli is the command line of convert.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/provetrace/provetrace/convert"
	"github.com/provetrace/provetrace/convert/cli/flags"
	"github.com/provetrace/provetrace/convert/report"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
	"github.com/provetrace/provetrace/tracing/jaeger"
)

// memoryLimit is the soft limit of the heap, in bytes. The commands make much
// garbage beside a model that is small for most logs: the collector runs only
// when the heap nears the limit. GOGC and GOMEMLIMIT override this.
const memoryLimit = 120 << 20

// collectSeldom has the collector run as seldom as that.
func collectSeldom() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(memoryLimit)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(-1)
	}
}

// limited is when limitMemory last ended, and how long it took.
var limited struct {
	at   time.Time
	took time.Duration
}

// limitMemory sets the soft limit for the model that is held at present: with
// less room beside it, the collector would do nothing but run. It may be called
// for each of very many runs, and then looks at few of them.
func limitMemory() {
	began := time.Now()
	if os.Getenv("GOMEMLIMIT") != "" || began.Sub(limited.at) < 20*limited.took {
		return
	}
	model := ofHeap("/memory/classes/heap/objects:bytes")
	if model > memoryLimit*3/4 { // with its garbage
		runtime.GC()
		model = ofHeap("/gc/heap/live:bytes")
	}
	debug.SetMemoryLimit(max(memoryLimit, model+model/3))
	limited.at = time.Now()
	limited.took = limited.at.Sub(began)
}

// ofHeap returns one of the runtime's metrics.
func ofHeap(metric string) int64 {
	sample := []metrics.Sample{{Name: metric}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// flushWithin bounds how long the last spans may take to be delivered.
const flushWithin = time.Minute

type options struct {
	input
	output   string
	endpoint string
	protocol string
	run      string
	jaeger   string
	ui       jaeger.UI // what jaeger says
	format   string
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
derived where it can be, and marked. A file of spans is taken as well: OTLP as
JSON or protobuf, or Jaeger's JSON, whatever wrote it. Of a directory, files named
like *.log, *.txt, *.out and *.err are taken, and those like *.json, *.jsonl and
*.pb that hold spans, also rotated or compressed ones.

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
		PreRunE: func(c *cobra.Command, _ []string) error { return o.check(c.Flags()) },
		RunE: func(c *cobra.Command, args []string) error {
			return o.convert(c.Context(), args, os.Stdin, os.Stdout, os.Stderr)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&o.output, "output", "o", "", "write OTLP JSON, a request a line, to `FILE` (.gz and .zst are compressed, - is standard output)")
	f.StringVar(&o.endpoint, "endpoint", "", "send to the OTLP endpoint `URL`")
	f.StringVar(&o.protocol, "protocol", "", "send by `PROTOCOL` grpc or http/protobuf (default: grpc, but http/protobuf to port 4318)")
	f.StringVar(&o.jaeger, "jaeger", "", "print links into the Jaeger whose pages are at `URL`")
	f.StringVar(&o.format, "format", "text", "print the account as `FORMAT` text or json")
	f.StringVar(&o.run, "run", "", "call the run `NAME`, from which the ids of its spans follow (default: its epoch and first job)")
	o.input.flags(c)
	flags.Complete(c, "format", "text", "json")
	flags.Complete(c, "protocol", "grpc", "http/protobuf")
	return c
}

func (o *options) check(given *pflag.FlagSet) error {
	if err := o.input.check(given); err != nil {
		return err
	}
	switch {
	case o.output != "" && (o.endpoint != "" || o.protocol != ""):
		return errors.New("--output does not go with --endpoint or --protocol: the spans are either written or sent")
	case o.protocol != "" && o.protocol != "grpc" && o.protocol != "http/protobuf":
		return fmt.Errorf("--protocol %q is neither grpc nor http/protobuf", o.protocol)
	case o.format != "text" && o.format != "json":
		return fmt.Errorf("--format %q is neither text nor json", o.format)
	}
	if o.jaeger != "" {
		var err error
		if o.ui, err = jaeger.Parse(o.jaeger); err != nil {
			return fmt.Errorf("--jaeger %w", err)
		}
	}
	return nil
}

// A conversion is one call of the command.
type conversion struct {
	*options
	pipeline *tracing.Pipeline
	out      printer
	bar      *progress
	ids      map[string]int // how often each run's id was used
	failures []error
}

// convert does the command's work.
func (o *options) convert(ctx context.Context, args []string, stdin io.Reader, stdout, stderr *os.File) error {
	account := stdout
	if o.output == "-" || o.output == "" && o.endpoint == "" && os.Getenv("OTEL_TRACES_EXPORTER") == "console" {
		account = stderr // the spans have the output
	}
	c := &conversion{options: o, ids: make(map[string]int)}
	if o.format == "json" {
		c.out = &jsonPrinter{w: account}
	} else {
		width, color := report.Terminal(account)
		c.out = &textPrinter{w: account, width: width, color: color, perDevice: o.workers}
	}
	logs, err := o.setup(ctx, c, args, stdin, stdout, stderr)
	if err != nil {
		if !flags.IsUsage(err) {
			c.fail(c.out.end(tracing.Delivery{}, "", []error{err}))
		}
		return errors.Join(append([]error{err}, c.failures...)...)
	}
	collectSeldom()
	// What waits for room in the pipeline would not see an interrupt.
	defer context.AfterFunc(ctx, func() { c.pipeline.Shutdown(ctx) })()
	c.bar = newProgress(stderr)
	for _, log := range logs {
		c.fail(c.convertLog(ctx, log))
		if ctx.Err() != nil || c.pipeline.Err() != nil {
			break
		}
	}
	c.bar.close()

	flush, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	nothing := len(c.ids) == 0
	if nothing {
		cancel() // leaves no file, and replaces none
	}
	delivery, err := c.pipeline.Shutdown(flush)
	switch {
	case ctx.Err() != nil:
		c.failures = []error{errInterrupted}
	case !nothing:
		c.fail(err)
	}
	c.fail(c.out.end(delivery, c.pipeline.String(), c.failures))
	return errors.Join(c.failures...)
}

var errInterrupted = errors.New("interrupted")

// setup finds the logs and makes the pipeline.
func (o *options) setup(ctx context.Context, c *conversion, args []string, stdin io.Reader, stdout, stderr *os.File) ([]*convert.Log, error) {
	logs, err := o.logs(ctx, args, o.output, stdin, stderr)
	if err != nil {
		return nil, err
	}
	c.pipeline, err = tracing.Setup(ctx, tracing.Options{
		Endpoint: o.endpoint, Protocol: o.protocol, File: o.output, Writer: stdout,
		Lossless: true, DeterministicIDs: true,
	})
	if err != nil && o.output == "" {
		err = flags.Usage(err) // of an option or a variable
	}
	return logs, err
}

// fail keeps a failure, unless it is already known.
func (c *conversion) fail(err error) {
	if err == nil || slices.ContainsFunc(c.failures, func(e error) bool { return e.Error() == err.Error() }) {
		return
	}
	c.failures = append(c.failures, err)
}

// convertLog converts each run of a log.
func (c *conversion) convertLog(ctx context.Context, log *convert.Log) error {
	return c.each(ctx, log, c.bar, "converted", func(r *run.Run) (err error) {
		id := ""
		if len(r.Sectors) > 0 {
			id = c.unique(convert.RunID(r, c.options.run))
			c.bar.write(log)
			err = convert.Run(ctx, c.pipeline, r, id, c.bar.tell)
			c.bar.wrote()
		}
		if ctx.Err() != nil {
			return nil
		}
		// A run whose delivery failed is told of as well; why it failed is the
		// pipeline's own error.
		c.bar.aside(func() { c.fail(c.out.run(r, id, jaegerPages{c.ui, c.pipeline.ServiceName()})) })
		switch {
		case c.pipeline.Err() != nil:
			return errStop
		case err != nil:
			c.fail(fmt.Errorf("%s: %w", r.Name, err))
		}
		return nil
	})
}

// unique returns an id under which no other run was converted: two that are to
// have the same name, or that are copies of each other, stay two.
func (c *conversion) unique(id string) string {
	c.ids[id]++
	if n := c.ids[id]; n > 1 {
		return c.unique(fmt.Sprintf("%s#%d", id, n))
	}
	return id
}

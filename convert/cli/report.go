package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/provetrace/provetrace/convert"
	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/report"
	"github.com/provetrace/provetrace/convert/report/page"
	"github.com/provetrace/provetrace/convert/report/perfetto"
	"github.com/provetrace/provetrace/convert/run"
)

type reportOptions struct {
	input
	rendering
	sector string
	since  string
	until  string

	from, to instant // what since and until say
}

// ReportCommand returns the report command.
func ReportCommand() *cobra.Command {
	var o reportOptions
	c := &cobra.Command{
		Use:   "report LOG...",
		Short: "Say where the GPUs wait, and for what",
		Long: `report reads TIMELINE logs of a proving engine, or files of spans, and says of
each run what limits it: seconds per proof, how busy each GPU was and why it was
idle, how long each phase takes, and what removing the largest cause would give.

A LOG is what convert takes: a file (plain, gzip or zstd), a directory of them,
a pattern, or - for standard input. Files of spans are OTLP as JSON or protobuf,
as convert -o and the collector write them, or a download from Jaeger; of a
directory, those of its *.json, *.jsonl and *.pb that hold spans.

--format html is a page to look at, which needs nothing but a browser; perfetto
is a Chrome trace for ui.perfetto.dev and chrome://tracing.

--since and --until take a time of the run's clock, as the report prints it (90s,
1:30, 1:02:03.5), or a wall-clock time such as 2026-02-18T14:59:07Z. What the
devices did is then cut at these times, and the proofs that end between them
count. --sector tells of one sector's partitions, and of the devices while it was
under way.

Exit code: 0 when all was reported, 1 when not, 2 when called wrongly.`,
		Example: `  # what limits the run?
  provetrace report bench.log

  # its figures, for a program
  provetrace report bench.log --format json | jq '.runs[].seconds_per_proof'

  # a page with the waterfall
  provetrace report bench.log --format html -o bench.html

  # without the cold start
  provetrace report bench.log --since 2m

  # one sector
  provetrace report curio.log --sector 4201`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name at least one log to report on, or - for standard input")
			}
			return nil
		},
		PreRunE: func(c *cobra.Command, _ []string) error { return o.check(c.Flags()) },
		RunE: func(c *cobra.Command, args []string) error {
			return o.report(c.Context(), args, os.Stdin, os.Stdout, os.Stderr)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	o.rendering.flags(c, "report", "the report", "text", "json", "html", "perfetto")
	f.StringVar(&o.sector, "sector", "", "report on the `SECTOR` of this number, label or job id")
	f.StringVar(&o.since, "since", "", "leave out what was before `TIME`")
	f.StringVar(&o.until, "until", "", "leave out what was after `TIME`")
	o.input.flags(c)
	return c
}

func (o *reportOptions) check(given *pflag.FlagSet) error {
	if err := o.input.check(given); err != nil {
		return err
	}
	if err := o.rendering.check(); err != nil {
		return err
	}
	var err error
	if o.from, err = parseMoment(o.since); err != nil {
		return fmt.Errorf("--since: %w", err)
	}
	if o.to, err = parseMoment(o.until); err != nil {
		return fmt.Errorf("--until: %w", err)
	}
	bothGiven, sameClock := o.from.given && o.to.given, o.from.wall.IsZero() == o.to.wall.IsZero()
	if bothGiven && sameClock && !o.from.before(o.to) {
		return fmt.Errorf("--since %s is not before --until %s", o.since, o.until)
	}
	return nil
}

// An instant is a time of a run: by its own clock, or by the wall clock.
type instant struct {
	given  bool
	offset int64 // ms
	wall   time.Time
}

// of returns the instant by a run's clock, in ms.
func (m instant) of(r *run.Run) int64 {
	if m.wall.IsZero() {
		return m.offset
	}
	return max(m.wall.Sub(r.Epoch.Time).Milliseconds(), 0)
}

// before reports whether an instant is before another by the same clock.
func (m instant) before(other instant) bool {
	return m.offset < other.offset || m.wall.Before(other.wall)
}

// parseMoment reads the argument of --since or --until.
func parseMoment(s string) (instant, error) {
	if s == "" {
		return instant{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return instant{given: true, offset: d.Milliseconds()}, nil
	}
	if ms, ok := parseClock(s); ok {
		return instant{given: true, offset: ms}, nil
	}
	_, err := strconv.ParseFloat(s, 64)
	isNumber := err == nil
	at, now, err := convert.ParseEpoch(s)
	if err != nil || now || isNumber {
		return instant{}, fmt.Errorf("%q is not a time: give one of the run's clock such as 90s or 1:30, or of the wall clock such as 2026-02-18T14:59:07Z", s)
	}
	return instant{given: true, wall: at}, nil
}

// parseClock reads a time of the run's clock as the report prints it, m:ss or
// h:mm:ss with or without a fraction, in ms.
func parseClock(s string) (ms int64, ok bool) {
	parts := strings.Split(s, ":")
	if len(parts) != 2 && len(parts) != 3 {
		return 0, false
	}
	var total float64
	for i, part := range parts {
		v, err := strconv.ParseFloat(part, 64)
		isWhole := i == len(parts)-1 || !strings.ContainsAny(part, ".eE")
		if err != nil || !(v >= 0 && v < 1e6) || i > 0 && v >= 60 || !isWhole {
			return 0, false
		}
		total = total*60 + v
	}
	return int64(total*1000 + 0.5), true
}

// scope returns the part of a run that is asked for, and whether it has any.
func (o *reportOptions) scope(r *run.Run) (s figures.Scope, some bool) {
	if o.from.given {
		s.From = o.from.of(r)
	}
	if o.to.given {
		s.To = max(o.to.of(r), 1) // 0 would be the end
	}
	if o.sector == "" {
		return s, !o.from.given && !o.to.given || slices.ContainsFunc(r.Sectors, s.Has)
	}
	within := s
	s.Only = func(sector *run.Sector) bool { return sector.Job == o.sector || sector.Label() == o.sector }
	first, last := int64(run.Unknown), int64(run.Unknown)
	for _, sector := range r.Sectors {
		if s.Only(sector) && within.Has(sector) {
			from, to := sector.Extent()
			if first == run.Unknown || from < first {
				first = from
			}
			last = max(last, to)
		}
	}
	s.From = max(s.From, first)
	s.To = min(s.Until(), last)
	return s, first != run.Unknown
}

// A reporter writes reports on runs.
type reporter interface {
	run(r *run.Run, f *figures.Figures, s figures.Scope) error
	// end ends the report; failures are what could not be reported.
	end(failures []error) error
}

// report does the command's work.
func (o *reportOptions) report(ctx context.Context, args []string, stdin io.Reader, stdout, stderr *os.File) error {
	logs, err := o.logs(ctx, args, o.output, stdin, stderr)
	if err != nil {
		return err
	}
	collectSeldom()

	out, err := o.create(stdout)
	if err != nil {
		return err
	}
	to := o.reporter(out)
	bar := newProgress(stderr)
	var failures []error
	reported := 0
	for _, log := range logs {
		if err := o.reportLog(ctx, log, bar, to, &reported); err != nil && out.err == nil {
			failures = append(failures, err)
		}
		if ctx.Err() != nil || out.err != nil {
			break
		}
	}
	bar.close()
	switch {
	case ctx.Err() != nil:
		failures = []error{errInterrupted}
	case reported == 0 && failures == nil:
		failures = []error{o.nothing()}
	}
	if reported > 0 || o.format == "json" {
		if err := to.end(failures); err != nil && out.err == nil {
			failures = append(failures, err)
			out.abort()
		}
	}
	if reported == 0 || ctx.Err() != nil {
		out.abort() // leaves no file, and replaces none
	}
	if err := out.close(); err != nil {
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// nothing says that no run has what is asked for.
func (o *reportOptions) nothing() error {
	switch between := o.from.given || o.to.given; {
	case o.sector != "" && between:
		return fmt.Errorf("no run has a sector %s in the time between --since and --until", o.sector)
	case o.sector != "":
		return fmt.Errorf("no run has a sector %s: give its number, the first 8 characters of its job id, or the job id", o.sector)
	default:
		return errors.New("no run has a sector in the time between --since and --until")
	}
}

// reportLog reports on each run of a log.
func (o *reportOptions) reportLog(ctx context.Context, log *convert.Log, bar *progress, to reporter, reported *int) error {
	return o.each(ctx, log, bar, "reported", func(r *run.Run) error {
		scope, some := o.scope(r)
		if len(r.Sectors) > 0 && !some {
			return nil
		}
		*reported++
		f := figures.Within(r, scope)
		var err error
		bar.aside(func() { err = to.run(r, f, scope) })
		return err
	})
}

func (o *reportOptions) reporter(out *output) reporter {
	switch o.format {
	case "json":
		return &jsonReporter{w: out}
	case "html":
		return &pageReporter{w: out}
	case "perfetto":
		return &traceReporter{pageReporter{w: out}}
	default:
		return &textReporter{w: out, width: out.width, color: out.color, perDevice: o.workers}
	}
}

// A textReporter writes reports for people.
type textReporter struct {
	w         io.Writer
	width     int
	color     bool
	perDevice int
	runs      int
}

func (t *textReporter) run(r *run.Run, f *figures.Figures, s figures.Scope) error {
	w := bufio.NewWriter(t.w)
	if t.runs++; t.runs > 1 {
		fmt.Fprintln(w)
	}
	a := newAccount(r, "", jaegerPages{})
	facts := textPrinter{width: t.width, perDevice: t.perDevice}
	facts.facts(w, &a)
	if len(r.Sectors) > 0 {
		fmt.Fprintln(w)
		o := report.TextOptions{Width: t.width, Color: t.color, ASCII: !report.UTF8Locale(), Scope: s}
		if err := report.Text(w, r, f, o); err != nil {
			return err
		}
	}
	return w.Flush()
}

func (t *textReporter) end([]error) error { return nil }

// A jsonReporter writes figures as one JSON object, as they come.
type jsonReporter struct {
	w    io.Writer
	runs int
}

func (j *jsonReporter) run(r *run.Run, f *figures.Figures, s figures.Scope) error {
	b, err := encode(report.JSON(r, f, s))
	if err != nil {
		return err
	}
	before := ",\n"
	if j.runs == 0 {
		before = "{\"runs\":[\n"
	}
	j.runs++
	if _, err := io.WriteString(j.w, before); err != nil {
		return err
	}
	_, err = j.w.Write(b)
	return err
}

func (j *jsonReporter) end(failures []error) error {
	before := "\n],"
	if j.runs == 0 {
		before = `{"runs":[],`
	}
	errs, err := encode(messages(failures))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(j.w, "%s\"errors\":%s}\n", before, errs)
	return err
}

// A pageReporter writes one page of all runs.
type pageReporter struct {
	w    io.Writer
	runs []page.Run
}

func (p *pageReporter) run(r *run.Run, f *figures.Figures, s figures.Scope) error {
	if len(r.Sectors) > 0 {
		p.runs = append(p.runs, page.Run{Model: r, Figures: f, Scope: s})
	}
	return nil
}

func (p *pageReporter) end([]error) error {
	if len(p.runs) == 0 {
		return nil
	}
	return page.Write(p.w, p.runs...)
}

// A traceReporter writes one run as a Chrome trace, which can hold no more.
type traceReporter struct{ pageReporter }

func (t *traceReporter) end([]error) error {
	switch len(t.runs) {
	case 0:
		return nil
	case 1:
		w := bufio.NewWriter(t.w)
		r := &t.runs[0]
		if err := perfetto.Write(w, r.Model, r.Figures, r.Scope); err != nil {
			return err
		}
		return w.Flush()
	default:
		return fmt.Errorf("a Chrome trace is of one run, and there are %d: name one log of one run", len(t.runs))
	}
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/provetrace/provetrace/convert"
	"github.com/provetrace/provetrace/convert/cli/flags"
	"github.com/provetrace/provetrace/convert/compare"
	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/report"
	"github.com/provetrace/provetrace/convert/report/page"
	"github.com/provetrace/provetrace/convert/run"
)

type compareOptions struct {
	input
	rendering
	failOn []string

	limits []compare.Limit // what failOn says
}

// CompareCommand returns the compare command.
func CompareCommand() *cobra.Command {
	var o compareOptions
	c := &cobra.Command{
		Use:   "compare A B...",
		Short: "Say by how much runs differ, and whether that is more than noise",
		Long: `compare reads two or more sets of runs and holds each against the first: seconds
per proof, utilization, cold start, each phase and the idle times by their causes,
with the change in percent.

A set is a file, a directory or a pattern, as report takes them; NAME=PATTERN
gives it a name. All runs in its files are repetitions of the same.

Of repetitions, the runs' figures are compared by the Mann-Whitney U test: from
four runs of each on it can tell a change from noise. Of single runs, the durations
of their partitions and the times between their proofs are compared in their
place; what is one number of a run cannot be told from noise then.

--fail-on CONDITION exits with 1 where the condition holds for a set beside the
first, and where its figure is not known. It can be given several times. It is a
figure, > or < (>=, <=), and
  a change against the first set, signed:     seconds_per_proof.steady>+3%
  a value, of times in the figure's unit:     utilization_active<0.9
Figures: ` + strings.Join(wrapList(compare.Names(), len("Figures: "), 78), "\n") + `
and those of a phase by its name, as the table has them. Shares are from 0 to 1.

--format html is a page with the first run of each set on a common time axis.

Exit code: 0 when all was compared and no condition holds, 1 when not, 2 when
called wrongly.`,
		Example: `  # did the change help?
  provetrace compare before.log after.log

  # with repetitions
  provetrace compare before='runs/before-*.log' after='runs/after-*.log'

  # in CI
  provetrace compare main.log branch.log --fail-on 'seconds_per_proof.steady>+3%'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("name at least two sets of runs to compare")
			}
			return nil
		},
		PreRunE: func(c *cobra.Command, _ []string) error { return o.check(c.Flags()) },
		RunE: func(c *cobra.Command, args []string) error {
			return o.compare(c.Context(), args, os.Stdin, os.Stdout, os.Stderr)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	o.rendering.flags(c, "compare", "the comparison", "text", "json", "csv", "html")
	f.StringArrayVar(&o.failOn, "fail-on", nil, "exit with 1 where the `CONDITION` holds")
	o.input.flags(c)
	return c
}

// wrapList lists words in lines, of which the first has some columns less.
func wrapList(words []string, less, width int) []string {
	lines := []string{""}
	for i, word := range words {
		if i < len(words)-1 {
			word += ","
		}
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case less+len(*last)+1+len(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
			less = 0
		}
	}
	return lines
}

func (o *compareOptions) check(given *pflag.FlagSet) error {
	if err := o.input.check(given); err != nil {
		return err
	}
	if err := o.rendering.check(); err != nil {
		return err
	}
	for _, s := range o.failOn {
		l, err := compare.ParseLimit(s)
		if err != nil {
			return fmt.Errorf("--fail-on: %w", err)
		}
		o.limits = append(o.limits, l)
	}
	return nil
}

// compare does the command's work.
func (o *compareOptions) compare(ctx context.Context, args []string, stdin io.Reader, stdout, stderr *os.File) error {
	collectSeldom()
	sets := make([]compare.Set, len(args))
	logs := make([][]*convert.Log, len(args))
	stdins := 0
	for i, arg := range args {
		name, pattern := setOf(arg)
		if pattern == convert.Stdin {
			if stdins++; stdins > 1 {
				return flags.Usage(errors.New("only one set can be standard input"))
			}
		}
		var err error
		if logs[i], err = o.logs(ctx, []string{pattern}, o.output, stdin, stderr); err != nil {
			return err
		}
		sets[i].Name = name
	}
	bar := newProgress(stderr)
	var failed error
	var shown []page.Run
	for i := range sets {
		var first *run.Run
		if first, failed = o.readSet(ctx, &sets[i], logs[i], bar); failed != nil || ctx.Err() != nil {
			break
		}
		if o.format == "html" {
			shown = append(shown, page.Run{Model: first, Figures: sets[i].Runs[0]})
		}
	}
	bar.close()
	if ctx.Err() != nil {
		failed = errInterrupted
	}
	if failed != nil {
		return failed
	}
	c := compare.Of(sets...)
	out, err := o.create(stdout)
	if err != nil {
		return err
	}
	failures := o.verify(c)
	if err := o.write(out, c, shown); err != nil && out.err == nil {
		failures = append(failures, err)
		out.abort()
	}
	if err := out.close(); err != nil {
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// setOf returns the name and the pattern of an argument.
func setOf(arg string) (name, pattern string) {
	if _, err := os.Stat(arg); err != nil {
		if name, pattern, ok := strings.Cut(arg, "="); ok && name != "" && pattern != "" {
			return name, pattern
		}
	}
	if arg == convert.Stdin {
		return "standard input", arg
	}
	return arg, arg
}

// readSet reads the runs of a set and returns the first.
func (o *compareOptions) readSet(ctx context.Context, s *compare.Set, logs []*convert.Log, bar *progress) (first *run.Run, err error) {
	for _, log := range logs {
		err := o.each(ctx, log, bar, "", func(r *run.Run) error {
			if len(r.Sectors) == 0 {
				return nil
			}
			s.Runs = append(s.Runs, figures.Of(r))
			if first == nil {
				first = r
			}
			return nil
		})
		if err != nil || ctx.Err() != nil {
			return nil, err
		}
	}
	return first, nil
}

func (o *compareOptions) write(out *output, c *compare.Comparison, shown []page.Run) error {
	switch o.format {
	case "json":
		b, err := encode(report.ComparisonJSON(c))
		if err != nil {
			return err
		}
		_, err = out.Write(append(b, '\n'))
		return err
	case "csv":
		return report.ComparisonCSV(out, c)
	case "html":
		return page.Write(out, shown...)
	default:
		return report.ComparisonText(out, c, report.TextOptions{Width: out.width, Color: out.color, ASCII: !report.UTF8Locale()})
	}
}

// verify returns what the limits fail on.
func (o *compareOptions) verify(c *compare.Comparison) []error {
	var failures []error
	for _, l := range o.limits {
		breaches, err := c.Check(l)
		if err != nil {
			failures = append(failures, fmt.Errorf("--fail-on: %w", err))
		}
		for _, b := range breaches {
			text := fmt.Sprintf("%s of %s is %.6g", b.Figure, b.Set, b.Value)
			if b.Change != nil {
				text += fmt.Sprintf(", %+.1f%% against %s", 100**b.Change, c.Sets[0].Name)
			}
			failures = append(failures, fmt.Errorf("%s: --fail-on %q holds", text, b.Text))
		}
	}
	return failures
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/provetrace/provetrace/convert"
	"github.com/provetrace/provetrace/convert/cli/flags"
	"github.com/provetrace/provetrace/convert/report"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/convert/whatif"
	"github.com/provetrace/provetrace/prover"
)

type whatIfOptions struct {
	input
	rendering

	synthesisWorkers string
	workersPerDevice string
	devices          string
	mode             string
	finish           string
	faster           []string

	changes [][]change // alternatives, by the flag that lists them
}

// A change is what an alternative changes of a run's settings.
type change func(*whatif.Settings)

// WhatIfCommand returns the what-if command.
func WhatIfCommand() *cobra.Command {
	var o whatIfOptions
	c := &cobra.Command{
		Use:   "what-if LOG...",
		Short: "Predict what other settings would have given",
		Long: `what-if replays the durations that a run measured through the pipeline's own
scheduler, on simulated devices, under other settings, and prints the seconds per
proof and the utilization that they would have given. The first rows are the run
as it was, measured and predicted: no other prediction is more exact than these
two agree.

A LOG is what report takes. Each setting takes several values, and all their
combinations are predicted, at most ` + strconv.Itoa(maxRows) + `; what is not given stays as it was. Without
any setting, changes that are worth a look are predicted one by one.

--faster PHASE=FACTOR makes a phase that much faster: synthesis, gpu (all of the
GPU interval but the wait for the device), device, prepare, finish, or a phase by
its name in the report, such as "ntt msm h=1.5x". With a comma between them
several are faster at once; given several times, each is an alternative.

What the model does not hold: cores and memory bandwidth that syntheses and GPU
workers take from each other (each keeps the time that it took), the memory
budget and the bound of the queue, and the time between a worker's partitions.
Of a log without device phases they are estimated, and of a run of more than
` + strconv.Itoa(whatif.MaxPartitions) + ` partitions the first sectors are replayed; the output says so.

Exit code: 0 when all was predicted, 1 when not, 2 when called wrongly.`,
		Example: `  # what would help?
  provetrace what-if bench.log

  # how many synthesis workers, with one GPU and with two?
  provetrace what-if bench.log --synthesis-workers 5,10,20 --devices 1,2

  # if the NTTs took half the time
  provetrace what-if bench.log --faster 'ntt msm h=2x'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name at least one log to predict from, or - for standard input")
			}
			return nil
		},
		PreRunE: func(c *cobra.Command, _ []string) error { return o.check(c.Flags()) },
		RunE: func(c *cobra.Command, args []string) error {
			return o.whatIf(c.Context(), args, os.Stdin, os.Stdout, os.Stderr)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.synthesisWorkers, "synthesis-workers", "", "`N`,... syntheses at once")
	f.StringVar(&o.workersPerDevice, "workers-per-device", "", "`N`,... GPU workers for each device")
	f.StringVar(&o.devices, "devices", "", "`N`,... devices")
	f.StringVar(&o.mode, "mode", "", "prove by `MODE`,...: partition or sector")
	f.StringVar(&o.finish, "finish", "", "finish proofs `HOW`,...: split (while the worker is at the next one) or inline")
	f.StringArrayVar(&o.faster, "faster", nil, "`PHASE=FACTOR`,... makes phases faster, as in device=1.5x")
	o.rendering.flags(c, "predict", "the predictions", "text", "json", "csv")
	o.input.flags(c)
	flags.Complete(c, "mode", prover.Partition.String(), prover.Sector.String())
	flags.Complete(c, "finish", "split", "inline")
	return c
}

// maxRows bounds the predictions that are made of a run.
const maxRows = 100

func (o *whatIfOptions) check(given *pflag.FlagSet) error {
	if err := o.input.check(given); err != nil {
		return err
	}
	if err := o.rendering.check(); err != nil {
		return err
	}
	for _, setting := range []struct {
		flag, values string
		parse        func(string) (change, error)
	}{
		// In the order of the flags, the first of which varies slowest.
		{"synthesis-workers", o.synthesisWorkers, number(func(s *whatif.Settings, n int) { s.SynthesisWorkers = n })},
		{"workers-per-device", o.workersPerDevice, number(func(s *whatif.Settings, n int) { s.WorkersPerDevice = n })},
		{"devices", o.devices, number(func(s *whatif.Settings, n int) { s.Devices = n })},
		{"mode", o.mode, parseMode(o.synthesisWorkers != "")},
		{"finish", o.finish, parseFinish},
	} {
		if setting.values == "" {
			continue
		}
		var alternatives []change
		for value := range strings.SplitSeq(setting.values, ",") {
			c, err := setting.parse(strings.TrimSpace(value))
			if err != nil {
				return fmt.Errorf("--%s: %w", setting.flag, err)
			}
			alternatives = append(alternatives, c)
		}
		o.changes = append(o.changes, alternatives)
	}
	var factors []change
	for _, s := range o.faster {
		all, err := whatif.ParseFactors(s)
		if err != nil {
			return fmt.Errorf("--faster: %w", err)
		}
		factors = append(factors, func(s *whatif.Settings) { s.Faster = all })
	}
	if factors != nil {
		o.changes = append(o.changes, factors)
	}
	rows := 1
	for _, alternatives := range o.changes {
		if rows *= len(alternatives); rows > maxRows {
			return fmt.Errorf("the settings have more than %d combinations: give fewer values", maxRows)
		}
	}
	return nil
}

// number returns a reader of numbers.
func number(set func(*whatif.Settings, int)) func(string) (change, error) {
	return func(value string) (change, error) {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a number from 1 on", value)
		}
		return func(s *whatif.Settings) { set(s, n) }, nil
	}
}

// parseMode returns a reader of modes. Where no number of synthesis workers is
// given, whole sectors are synthesized one at a time.
func parseMode(workersGiven bool) func(string) (change, error) {
	return func(value string) (change, error) {
		var mode prover.Mode
		if err := mode.UnmarshalText([]byte(value)); err != nil {
			return nil, err
		}
		return func(s *whatif.Settings) {
			if mode != s.Mode && mode == prover.Sector && !workersGiven {
				s.SynthesisWorkers = 1
			}
			s.Mode = mode
		}, nil
	}
}

func parseFinish(value string) (change, error) {
	if value != "split" && value != "inline" {
		return nil, fmt.Errorf("%q is not known: it is split or inline", value)
	}
	return func(s *whatif.Settings) { s.InlineFinish = value == "inline" }, nil
}

// settings returns those that are to be predicted of a run.
func (o *whatIfOptions) settings(w *whatif.Workload) []whatif.Settings {
	if o.changes == nil {
		return w.Alternatives()
	}
	all := []whatif.Settings{w.Settings()}
	for _, alternatives := range o.changes {
		var combined []whatif.Settings
		for _, s := range all {
			for _, c := range alternatives {
				changed := s
				c(&changed)
				combined = append(combined, changed)
			}
		}
		all = combined
	}
	return all
}

// whatIf does the command's work.
func (o *whatIfOptions) whatIf(ctx context.Context, args []string, stdin io.Reader, stdout, stderr *os.File) error {
	logs, err := o.logs(ctx, args, o.output, stdin, stderr)
	if err != nil {
		return err
	}
	collectSeldom()
	out, err := o.create(stdout)
	if err != nil {
		return err
	}
	bar := newProgress(stderr)
	var failures []error
	var forecasts []*whatif.Forecast
	for _, log := range logs {
		of, err := o.forecast(ctx, log, bar)
		forecasts = append(forecasts, of...)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			failures = append(failures, err)
		}
	}
	bar.close()
	if ctx.Err() != nil {
		failures = []error{errInterrupted}
	}
	if ctx.Err() == nil && (len(forecasts) > 0 || o.format == "json") {
		if err := o.write(out, forecasts, failures); err != nil && out.err == nil {
			failures = append(failures, err)
		}
	}
	if len(forecasts) == 0 || ctx.Err() != nil {
		out.abort() // leaves no file, and replaces none
	}
	if err := out.close(); err != nil {
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// forecast predicts for each run of a log.
func (o *whatIfOptions) forecast(ctx context.Context, log *convert.Log, bar *progress) (all []*whatif.Forecast, err error) {
	err = o.each(ctx, log, bar, "predicted from", func(r *run.Run) error {
		if len(r.Sectors) == 0 {
			return nil
		}
		w, err := whatif.Measure(r)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		bar.predict(log)
		f, err := w.Forecast(ctx, r.Name, o.settings(w), bar.tell)
		bar.wrote()
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		all = append(all, f)
		return nil
	})
	return all, err
}

// predict begins to show how many predictions are made, by what tell says.
func (p *progress) predict(log *convert.Log) {
	p.told.Store(0)
	p.set(&p.writing, "predicting", log, parts, func() int64 { return int64(p.told.Load()) })
}

func (o *whatIfOptions) write(out *output, all []*whatif.Forecast, failures []error) error {
	switch o.format {
	case "json":
		runs := make([]any, len(all))
		for i, f := range all {
			runs[i] = report.ForecastJSON(f)
		}
		b, err := encode(struct {
			Runs   []any    `json:"runs"`
			Errors []string `json:"errors"`
		}{runs, messages(failures)})
		if err != nil {
			return err
		}
		_, err = out.Write(append(b, '\n'))
		return err
	case "csv":
		return report.ForecastCSV(out, all...)
	default:
		for i, f := range all {
			if i > 0 {
				if _, err := io.WriteString(out, "\n"); err != nil {
					return err
				}
			}
			if err := report.ForecastText(out, f, report.TextOptions{Width: out.width, Color: out.color, ASCII: !report.UTF8Locale()}); err != nil {
				return err
			}
		}
		return nil
	}
}

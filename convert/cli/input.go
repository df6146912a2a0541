package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/provetrace/provetrace/convert"
	"github.com/provetrace/provetrace/convert/cli/flags"
	"github.com/provetrace/provetrace/convert/report"
	"github.com/provetrace/provetrace/convert/run"
)

// An input says how the logs that a command is called with are read.
type input struct {
	join    bool
	epoch   string
	workers int

	at  time.Time // what epoch says
	now bool
}

// flags adds the flags of the input to a command.
func (in *input) flags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&in.join, "join", false, "read all LOGs as the pieces of one rotated log")
	f.StringVar(&in.epoch, "epoch", "", "wall clock `TIME` of the engine's start, or now: the run ends now (default: as the log tells)")
	f.IntVar(&in.workers, "gpu-workers-per-device", 0, "`N` GPU workers drive each device, where the log does not tell (default: all drive one)")
	flags.Explain(c)
	flags.Complete(c, "epoch", "now")
}

// check checks that no flag is empty, and those of the input.
func (in *input) check(given *pflag.FlagSet) error {
	if err := flags.NoneEmpty(given); err != nil {
		return err
	}
	if given.Changed("gpu-workers-per-device") && in.workers < 1 {
		return fmt.Errorf("--gpu-workers-per-device %d is less than 1", in.workers)
	}
	if in.epoch != "" {
		var err error
		if in.at, in.now, err = convert.ParseEpoch(in.epoch); err != nil {
			return fmt.Errorf("--epoch: %w", err)
		}
	}
	return nil
}

// read yields the runs of a log, or of a file of spans. An error comes last.
func (in *input) read(ctx context.Context, log *convert.Log) iter.Seq2[*run.Run, error] {
	o := run.Options{WorkersPerDevice: in.workers, Epoch: in.at, EndNow: in.now}
	return convert.Read(ctx, log, o)
}

// errStop is what the caller of each has it stop with, and is no failure.
var errStop = errors.New("stop")

// each calls f with each run of a log, until that returns an error or ctx is
// done. Where a log breaks off, become says what is done with what stands before;
// it is empty where nothing is.
func (in *input) each(ctx context.Context, log *convert.Log, bar *progress, become string, f func(*run.Run) error) error {
	bar.read(log)
	var seen found
	for r, err := range in.read(ctx, log) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return readError(err, become != "" && seen.sectors > 0, become)
		}
		seen.add(r)
		limitMemory()
		if err := f(r); err == errStop || ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
	}
	return seen.nothing(log)
}

// logs finds the logs that the arguments name, and says on w what is notable
// about them. None is to be the output.
func (in *input) logs(ctx context.Context, args []string, output string, stdin io.Reader, w io.Writer) ([]*convert.Log, error) {
	logs, err := convert.Logs(ctx, args, in.join, stdin)
	switch {
	case errors.Is(err, convert.ErrJoin):
		err = flags.Usage(err)
	case err == nil:
		err = notALog(output, logs)
	}
	if err != nil {
		return nil, err
	}
	for _, l := range logs {
		for _, name := range l.Repeated {
			fmt.Fprintf(w, "provetrace: %s is named more than once, and read once\n", report.Sanitize(name))
		}
	}
	if older, newer, ok := convert.Rotated(logs); ok {
		fmt.Fprintf(w, "provetrace: %s and %s look like pieces of one rotated log: with --join they are read as one\n",
			report.Sanitize(older), report.Sanitize(newer))
	}
	return logs, nil
}

// notALog returns an error if an output is a file that is to be read.
func notALog(output string, logs []*convert.Log) error {
	info, err := os.Stat(output)
	if err != nil {
		return nil
	}
	for _, l := range logs {
		if info.Mode().IsRegular() && l.Reads(info) {
			return flags.Usage(fmt.Errorf("--output %s is one of the logs: give another name", output))
		}
	}
	return nil
}

// A found is what the runs of a log hold.
type found struct {
	sectors   int
	malformed int64 // lines
	problem   *run.Problem
}

func (f *found) add(r *run.Run) {
	f.sectors += len(r.Sectors)
	f.malformed += r.Input.Malformed
	if f.problem == nil && len(r.Input.Problems) > 0 {
		f.problem = &r.Input.Problems[0]
	}
}

// nothing returns an error if a log that was read has no sectors.
func (f *found) nothing(log *convert.Log) error {
	switch {
	case f.sectors > 0:
		return nil
	case log.Read() == 0:
		return fmt.Errorf("%s is empty", log.Name)
	case f.problem != nil:
		return fmt.Errorf("no TIMELINE line of %s can be read (%d malformed): %s: %s", log.Name, f.malformed, f.problem.Place(), f.problem.What)
	case beginsJSON(log.Head()):
		return fmt.Errorf("%s is JSON without spans of the contract%s", log.Name, jaegerSays(log.Head()))
	default:
		return fmt.Errorf("no TIMELINE event in %s: is it the engine's standard error?", log.Name)
	}
}

// beginsJSON reports whether a text that begins so can be JSON.
func beginsJSON(head []byte) bool {
	d := json.NewDecoder(bytes.NewReader(head))
	for tokens := 0; ; tokens++ {
		if _, err := d.Token(); err != nil {
			return tokens > 0 && (err == io.EOF || err == io.ErrUnexpectedEOF)
		}
	}
}

// jaegerSays returns what an answer of Jaeger's API says that went wrong, if it
// is one: {"data":null,"errors":[{"msg":…}]}.
func jaegerSays(answer []byte) string {
	var a struct {
		Errors []struct{ Msg string }
	}
	if json.Unmarshal(answer, &a) != nil || len(a.Errors) == 0 || a.Errors[0].Msg == "" {
		return ""
	}
	return fmt.Sprintf(", but the error %q of a Jaeger", a.Errors[0].Msg)
}

// readError says what could not be read of a log, and what became of the rest.
func readError(err error, inPart bool, become string) error {
	text := strings.TrimPrefix(err.Error(), "timeline: ") // the package
	if inPart {
		text += "; what stands before it is " + become
	}
	return errors.New(text)
}

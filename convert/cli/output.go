package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/provetrace/provetrace/convert"
	"github.com/provetrace/provetrace/convert/cli/flags"
	"github.com/provetrace/provetrace/convert/report"
	"github.com/provetrace/provetrace/tracing/outfile"
)

// A rendering says how what a command tells is written, and where to.
type rendering struct {
	output string
	format string

	what    string   // for people
	formats []string // that there are; the first is the default
}

// flags adds the flags of the rendering of what a command, whose verb is given,
// tells.
func (r *rendering) flags(c *cobra.Command, verb, what string, formats ...string) {
	r.what, r.formats = what, formats
	f := c.Flags()
	f.StringVar(&r.format, "format", formats[0], verb+" as `FORMAT` "+flags.OneOf(formats))
	f.StringVarP(&r.output, "output", "o", "", "write "+what+" to `FILE` (.gz and .zst are compressed, - is standard output)")
	flags.Complete(c, "format", formats...)
}

// check returns an error if the format is none of those that there are.
func (r *rendering) check() error {
	if !slices.Contains(r.formats, r.format) {
		return fmt.Errorf("--format %q is not one of %s", r.format, flags.OneOf(r.formats))
	}
	return nil
}

// An output is where a command writes: standard output, or a file that gets its
// name once it is whole. It keeps the first error.
type output struct {
	what  string
	w     io.Writer
	file  *outfile.File // nil for standard output
	width int           // columns for text
	color bool
	err   error
}

// create begins the output; without a name, or with -, it is standard output.
func (r *rendering) create(stdout *os.File) (*output, error) {
	o := &output{what: r.what}
	if r.output == "" || r.output == convert.Stdin {
		if r.output == "" && (r.format == "html" || r.format == "perfetto") && term.IsTerminal(int(stdout.Fd())) {
			return nil, flags.Usage(fmt.Errorf("--format %s is not for terminals: give a file with -o", r.format))
		}
		o.w = stdout
		o.width, o.color = report.Terminal(stdout)
		return o, nil
	}
	var err error
	if o.file, err = outfile.Create(r.what, r.output); err != nil {
		return nil, err
	}
	o.w, o.width = o.file, report.FileWidth()
	return o, nil
}

func (o *output) Write(b []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(b)
	if err != nil {
		o.fail(err)
	}
	return n, o.err
}

func (o *output) fail(err error) {
	if o.file == nil {
		o.err = fmt.Errorf("cannot write %s: %w", o.what, outfile.Cause(err))
		return
	}
	o.err = o.file.Abort(err)
	o.file = nil
}

// abort leaves no file.
func (o *output) abort() {
	if o.file != nil {
		_ = o.file.Abort(context.Canceled)
		o.file = nil
	}
}

// close completes the output and returns its error.
func (o *output) close() error {
	if o.err == nil && o.file != nil {
		o.err = o.file.Close()
		o.file = nil
	}
	return o.err
}

// messages are the texts of errors.
func messages(errs []error) []string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return texts
}

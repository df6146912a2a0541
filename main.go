// Command provetrace makes the proving of Filecoin sectors visible as
// OpenTelemetry traces.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	convert "github.com/provetrace/provetrace/convert/cli"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], convert.Command())
	stop()
	os.Exit(code)
}

// execute runs the command line and returns the exit code. An error goes to
// standard error as one line.
func execute(ctx context.Context, args []string, subcommands ...*cobra.Command) int {
	root := &cobra.Command{
		Use:   "provetrace",
		Short: "Make GPU proving pipelines visible as OpenTelemetry traces",
		Long: `provetrace makes the proving of Filecoin sectors visible: each partition's
synthesis, queue wait and GPU phases as OpenTelemetry spans, to be seen as a
waterfall in Jaeger or any backend that speaks OTLP.`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("provetrace {{.Version}}\n")
	root.AddCommand(subcommands...)
	root.SetArgs(args)

	// What fails before a subcommand begins was called wrongly.
	began := false
	for _, c := range subcommands {
		run := c.RunE
		c.RunE = func(c *cobra.Command, args []string) error {
			began = true
			return run(c, args)
		}
	}
	called, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	fmt.Fprintf(os.Stderr, "provetrace: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	if began {
		return exitFailed
	}
	fmt.Fprintf(os.Stderr, "Run '%s --help' for how to use it.\n", called.CommandPath())
	return exitUsage
}

// version returns the module's version, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel " + s.Value[:12]
		}
	}
	return "devel"
}

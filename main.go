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
	"syscall"

	"github.com/spf13/cobra"

	convert "github.com/provetrace/provetrace/convert/cli"
	"github.com/provetrace/provetrace/convert/report"
	prove "github.com/provetrace/provetrace/prover/cli"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	// A reader that goes away is an error like others, so that what was begun is
	// put in order. Without any signals Ignore would ignore all.
	if len(writeSignals) > 0 {
		signal.Ignore(writeSignals...)
	}
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := execute(ctx, os.Args[1:], prove.Command(), convert.Command(), convert.ReportCommand(), convert.CompareCommand(), convert.WhatIfCommand())
	stop()
	os.Exit(code)
}

// execute runs the command line and returns the exit code. Each error goes to
// standard error as one line.
func execute(ctx context.Context, args []string, subcommands ...*cobra.Command) int {
	root := &cobra.Command{
		Use:   "provetrace",
		Short: "Make GPU proving pipelines visible as OpenTelemetry traces",
		Long: `provetrace makes the proving of Filecoin sectors visible: each partition's
synthesis, queue wait and GPU phases as OpenTelemetry spans, to be seen as a
waterfall in Jaeger or any backend that speaks OTLP.`,
		Version:                    version(),
		SilenceUsage:               true,
		SilenceErrors:              true,
		DisableSuggestions:         true, // execute makes them
		SuggestionsMinimumDistance: 2,
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
	for _, e := range each(err) {
		fmt.Fprintf(os.Stderr, "provetrace: %s\n", report.Sanitize(e.Error()))
	}
	if usage := (interface{ Usage() })(nil); began && !errors.As(err, &usage) {
		return exitFailed
	}
	if called == root && len(args) > 0 {
		for _, name := range root.SuggestionsFor(args[0]) {
			fmt.Fprintf(os.Stderr, "Did you mean '%s %s'?\n", root.Name(), name)
		}
	}
	fmt.Fprintf(os.Stderr, "Run '%s --help' for how to use it.\n", called.CommandPath())
	return exitUsage
}

// each returns the errors that were joined.
func each(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
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

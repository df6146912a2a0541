// Package flags is what the flags of all subcommands have in common: how their
// values are listed, completed and checked, and how a wrong one is told.
package flags

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A usageError says that the command was called wrongly. The command line looks
// for its method.
type usageError struct{ error }

func (usageError) Usage() {}

// Usage returns err as one that says that the command was called wrongly.
func Usage(err error) error { return usageError{err} }

// IsUsage reports whether an error says so.
func IsUsage(err error) bool { return errors.As(err, new(usageError)) }

// OneOf lists alternatives, of which there are two at least.
func OneOf(of []string) string {
	last := len(of) - 1
	return strings.Join(of[:last], ", ") + " or " + of[last]
}

// Complete has the shell complete a flag's value.
func Complete(c *cobra.Command, flag string, values ...string) {
	err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag does not exist
	}
}

// Explain has a value that a flag cannot have be told in one sentence.
func Explain(c *cobra.Command) {
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		v := (*pflag.InvalidValueError)(nil)
		if !errors.As(err, &v) {
			return err
		}
		give := ""
		switch flag := v.GetFlag(); flag.Value.Type() {
		case "int", "uint64", "float64":
			give = "a number"
		case "bool":
			give = "true or false"
		default:
			return fmt.Errorf("--%s: %w", flag.Name, v.Unwrap())
		}
		return fmt.Errorf("--%s cannot be %q: give %s", v.GetFlag().Name, v.GetValue(), give)
	})
}

// NoneEmpty returns an error if a flag was given without a value.
func NoneEmpty(f *pflag.FlagSet) error {
	var empty error
	f.Visit(func(f *pflag.Flag) {
		if f.Value.String() == "" {
			empty = fmt.Errorf("--%s is empty: give a value, or leave it out", f.Name)
		}
	})
	return empty
}

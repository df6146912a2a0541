//go:build !windows

package report

import "os"

// escapesUnderstood reports whether the terminal f obeys escape sequences.
func escapesUnderstood(*os.File) bool { return true }

//go:build unix

package main

import (
	"os"
	"syscall"
)

// writeSignals come with a failed write: its error says the same.
var writeSignals = []os.Signal{syscall.SIGPIPE, syscall.SIGXFSZ}

//go:build !unix

package main

import "os"

var writeSignals []os.Signal

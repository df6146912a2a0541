//go:build !unix

package run

import (
	"errors"
	"os"
)

// canMap reports whether files can be mapped on this system.
const canMap = false

// mapFile maps nothing: elsewhere a file that is mapped cannot be cut by who
// writes it.
func mapFile(*os.File, int64, int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapFile([]byte) {}

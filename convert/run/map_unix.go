//go:build unix && !linux

package run

import (
	"os"

	"golang.org/x/sys/unix"
)

// canMap reports whether files can be mapped on this system.
const canMap = true

// mapFile maps n bytes of a file into memory, which are not to be written to.
func mapFile(f *os.File, start int64, n int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), start, n, unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(b []byte) {
	// There is no failure but of what was never mapped.
	_ = unix.Munmap(b)
}

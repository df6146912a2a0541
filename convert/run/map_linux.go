package run

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// canMap reports whether files can be mapped on this system.
const canMap = true

// mapFile maps n bytes of a file into memory, which are not to be written to.
func mapFile(f *os.File, start int64, n int) ([]byte, error) {
	p, err := unix.MmapPtr(int(f.Fd()), start, nil, uintptr(n), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), n), nil
}

// unmapFile is no system call to the runtime: it takes so long until the other
// cores have forgotten the mapping, some tenth of a millisecond, that the runtime
// would give this one to another thread meanwhile, which has nothing to do.
func unmapFile(b []byte) {
	// There is no failure but of what was never mapped.
	_, _, _ = unix.RawSyscall(unix.SYS_MUNMAP, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), 0)
}

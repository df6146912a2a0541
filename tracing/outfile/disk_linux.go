package outfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// beginToWrite has the system begin to write a part of a file to the disk. It
// waits where the disk already has more to do than it can take.
func beginToWrite(f *os.File, from, n int64) {
	// A file system that does not know of it leaves all to the sync, which also
	// tells of errors.
	_ = unix.SyncFileRange(int(f.Fd()), from, n, unix.SYNC_FILE_RANGE_WRITE)
}

package outfile

import "os"

// A disk is a regular file that is synced in the end. It has the system write
// what is in the file already while there is more to come, so that the sync has
// little left to wait for.
type disk struct {
	*os.File
	length, begun int64 // bytes that are in the file, and that the system was asked to write
}

// stretch is how much the system is asked to write at once, in bytes: enough for
// a disk to write it in one piece, and nothing beside what a sync would else
// have to wait for.
const stretch = 16 << 20

func (d *disk) Write(b []byte) (int, error) {
	n, err := d.File.Write(b)
	if d.length += int64(n); d.length-d.begun >= stretch {
		beginToWrite(d.File, d.begun, d.length-d.begun)
		d.begun = d.length
	}
	return n, err
}

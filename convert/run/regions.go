package run

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync/atomic"
)

// A PlainFile is a source that is a regular file, whose text is the log. Read
// looks into a large one in place, where the system can map files into memory,
// instead of copying it.
type PlainFile interface {
	io.ReadCloser

	// Plain returns the file, at its beginning.
	Plain() *os.File

	// Took is told of bytes that were read in place, in the file's order.
	Took(n int)
}

// regionSize is how much of a file is mapped at once, in bytes: little memory,
// and enough for the mapping to cost nothing. Only tests change it, to multiples
// of a page.
var regionSize = int64(4 << 20)

// A region is a piece of a file in memory.
type region struct {
	start int64 // in the file
	data  []byte
	uses  atomic.Int32 // blocks whose data it is, and one more while blocks are cut from it
}

// release frees a region unless it is still in use.
func (g *region) release() {
	if g.uses.Add(-1) == 0 {
		unmapFile(g.data)
		g.data = nil
	}
}

// regions maps files, one after the other, piece by piece.
type regions struct {
	file   PlainFile // nil if it is not to be mapped, or not any more
	size   int64     // when it was opened; what is added later is not mapped
	at     int64     // in the file, of what was not cut yet
	now    *region   // that blocks are cut from, or nil
	mapped []*region // all that ever were
}

// open goes on to a source.
func (r *regions) open(source io.Reader) {
	r.leave()
	f, ok := source.(PlainFile)
	if !ok || !canMap {
		return
	}
	if info, err := f.Plain().Stat(); err == nil && info.Mode().IsRegular() && info.Size() >= regionSize {
		r.file, r.size, r.at = f, info.Size(), 0
	}
}

// next puts the next lines into a block, and reports whether they could be had
// from a region. If not the file is to be read on from where they begin.
func (r *regions) next(b *block) (in bool, err error) {
	if r.file == nil {
		return false, nil
	}
	var lines []byte
	if r.reach() {
		err = inPlace(func() {
			lines = r.now.data[r.at-r.now.start:]
			lines = lines[:min(len(lines), blockSize)]
			lines = lines[:bytes.LastIndexByte(lines, '\n')+1]
		})
	}
	if len(lines) == 0 { // one of them is longer, or it is the file's end
		file := r.file
		r.leave()
		if err == nil {
			_, err = file.Plain().Seek(r.at, io.SeekStart)
		}
		return false, err
	}
	b.data, b.region = lines[:len(lines):len(lines)], r.now
	r.now.uses.Add(1)
	r.at += int64(len(lines))
	r.file.Took(len(lines))
	return true, nil
}

// reach makes the present region one that the next block is in, and reports
// whether there is such.
func (r *regions) reach() bool {
	if r.now != nil && r.at+int64(blockSize) <= r.now.start+int64(len(r.now.data)) {
		return true
	}
	r.drop()
	if r.at == r.size {
		return false
	}
	start := r.at - r.at%int64(os.Getpagesize())
	data, err := mapFile(r.file.Plain(), start, int(min(regionSize, r.size-start)))
	if err != nil {
		return false // then reading says what is wrong, if anything is
	}
	r.now = &region{start: start, data: data}
	r.now.uses.Store(1)
	r.mapped = append(r.mapped, r.now)
	return true
}

// leave ends the reading of a file in place.
func (r *regions) leave() {
	r.drop()
	r.file = nil
}

// drop ends the cutting of blocks from the present region.
func (r *regions) drop() {
	if r.now != nil {
		r.now.release()
		r.now = nil
	}
}

// close frees all regions. Nobody looks into them any more.
func (r *regions) close() {
	for _, g := range r.mapped {
		if g.data != nil {
			unmapFile(g.data)
		}
	}
	*r = regions{}
}

// errCutShort is why a mapped file could not be read.
var errCutShort = errors.New("the file was cut short while it was read")

// inPlace runs what looks into regions. The goroutine's faults are panics
// (debug.SetPanicOnFault): the one that comes of a file that has become shorter
// is the error.
func inPlace(look func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // where the fault was, as the runtime's own error tells
			err = errCutShort
		default:
			panic(p)
		}
	}()
	look()
	return nil
}

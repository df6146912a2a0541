package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// blockSize is how much of a log is read at once, in bytes: little enough for a
// core's own cache to hold it until its lines have been looked at. Only tests
// change it.
var blockSize = 512 << 10

// A block is a stretch of a source that ends with a line, or with the source.
type block struct {
	source *Source
	data   []byte // the lines
	last   bool   // of the source
	err    error  // why it is the last one, if not since the source ends

	hasRoom bool
	room    []byte  // that the data is in, unless it is in a region
	region  *region // or nil

	next *block // set before cut is closed, nil if there is none
	cut  chan struct{}

	// What the lines say, once lexed is closed; nil if that cannot be told from
	// this block alone.
	batch *batch
	lexed chan struct{}
}

func newBlock() *block {
	return &block{cut: make(chan struct{}), lexed: make(chan struct{})}
}

// A cutter cuts sources into blocks, in their order, for whoever asks.
type cutter struct {
	rooms chan []byte // for the data of blocks, where it needs any; how many there are bounds what is read ahead

	mu      sync.Mutex
	sources []Source
	source  *Source // being read, nil between two
	file    io.ReadCloser
	regions regions // of the file
	rest    []byte  // of the source, the beginning of a line
	tail    *block  // the last one that was cut
	ended   bool
}

// newCutter returns a cutter, and what comes before its first block.
func newCutter(sources []Source, rooms int) (c *cutter, before *block) {
	before = newBlock()
	c = &cutter{sources: sources, rooms: make(chan []byte, rooms), tail: before}
	for range rooms {
		c.rooms <- nil // made when it is needed
	}
	return c, before
}

// next waits for room, cuts the next block and returns it. It returns nil where
// there is none or ctx is done.
func (c *cutter) next(ctx context.Context) *block {
	select {
	case room := <-c.rooms:
		return c.cut(ctx, room, nil)
	case <-ctx.Done():
		return nil
	}
}

// after returns the block after b, cutting it if nobody has. Then it has no
// batch.
func (c *cutter) after(ctx context.Context, b *block) *block {
	select {
	case <-b.cut:
		return b.next
	default:
	}
	select {
	case <-b.cut:
	case room := <-c.rooms:
		if n := c.cut(ctx, room, b); n != nil {
			close(n.lexed)
		}
		<-b.cut
	case <-ctx.Done():
		return nil
	}
	return b.next
}

// cut cuts the next block into room, if there is one; unless it is nil, only the
// one after b.
func (c *cutter) cut(ctx context.Context, room []byte, b *block) *block {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || b != nil && b != c.tail {
		c.rooms <- room
		return nil
	}
	if c.source == nil && len(c.sources) == 0 || ctx.Err() != nil {
		c.end()
		c.rooms <- room
		return nil
	}
	n := newBlock()
	n.room, n.hasRoom = room, true
	if err := c.read(n); err != nil {
		n.err = err
		c.sources = nil
	}
	c.tail.next = n
	close(c.tail.cut)
	c.tail = n
	return n
}

// end says that there is no further block.
func (c *cutter) end() {
	c.ended = true
	c.sources = nil
	if c.file != nil {
		c.file.Close()
		c.file = nil
	}
	close(c.tail.cut)
}

// close frees what a log leaves that is not read to its end. No lexer is at work
// any more.
func (c *cutter) close() {
	if !c.ended {
		c.end()
	}
	c.regions.close()
}

// read reads the lines of a block, into its room if need be.
func (c *cutter) read(b *block) error {
	if c.source == nil {
		c.source, c.sources = &c.sources[0], c.sources[1:]
		b.source, b.last = c.source, true
		f, err := c.source.Open()
		if err != nil {
			c.source = nil
			return err
		}
		c.file = f
		c.regions.open(f)
	}
	b.source, b.last = c.source, false
	if in, err := c.regions.next(b); in || err != nil {
		return err
	}
	if b.room == nil {
		b.room = make([]byte, blockSize)
	}
	n := copy(b.room, c.rest)
	c.rest = c.rest[:0]
	more, err := readFull(c.file, b.room[n:])
	b.data = b.room[:n+more]
	if err == nil {
		// What has no line's end is a part of one that is longer.
		if end := bytes.LastIndexByte(b.data, '\n') + 1; end > 0 {
			c.rest = append(c.rest, b.data[end:]...)
			b.data = b.data[:end]
		}
		return nil
	}
	b.last = true
	if err == io.EOF {
		err = nil
	}
	if e := c.file.Close(); e != nil && err == nil && !errors.Is(e, io.EOF) {
		err = fmt.Errorf("reading %s: %w", c.source.Name, e)
	} else if err != nil {
		read := &readError{name: c.source.Name, err: err}
		if len(b.data) == 0 || b.data[len(b.data)-1] == '\n' {
			read.line = 1 // the one after the last that was read
		}
		err = read
	}
	c.source, c.file = nil, nil
	return err
}

// A readError is why a source could not be read to its end.
type readError struct {
	name string
	line int64 // that could not be read; until the feed has it, from the last one that was read
	err  error
}

func (e *readError) Error() string {
	return fmt.Sprintf("reading %s, line %d: %v", e.name, e.line, e.err)
}
func (e *readError) Unwrap() error { return e.err }

// readFull fills b. Any error, io.EOF too, comes with what was read before it.
func readFull(r io.Reader, b []byte) (n int, err error) {
	for empty := 0; n < len(b) && err == nil; {
		var more int
		more, err = r.Read(b[n:])
		if more < 0 || more > len(b)-n {
			return n, errors.New("the reader returned an impossible count")
		}
		if n += more; more > 0 {
			empty = 0
		} else if empty++; empty == 100 && err == nil {
			return n, io.ErrNoProgress
		}
	}
	return n, err
}

// free gives the room of a block back, whose data nobody uses any more.
func (c *cutter) free(b *block) {
	if b.hasRoom {
		if b.region != nil {
			b.region.release()
		}
		c.rooms <- b.room
		b.data, b.room, b.region, b.hasRoom = nil, nil, nil, false
	}
}

package timeline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	bufferSize = 256 << 10

	maxText   = 64 << 10 // bytes of an event, or of a TextRecord
	maxPrefix = 256      // bytes kept before the marker
	maxShown  = 256      // bytes kept of a malformed line
)

// A RecordType says what a [Record] holds.
type RecordType uint8

const (
	EventRecord     RecordType = iota + 1 // an event
	MalformedRecord                       // a marker, or the rest of a torn line, that gives no event
	TextRecord                            // a line without a marker
)

// A Record is what the [Reader] makes of a line, or of a part of one: a line
// that others have torn holds several. Its slices are valid until the next
// Scan. The bytes are the log's own; a terminal must not see them as they are.
type Record struct {
	Type     RecordType
	Stitched bool  // EventRecord: put together from a torn line's two pieces
	Line     int64 // number of the line from 1; of a stitched event, of the line with its head
	Byte     int64 // offset of the line's first byte in the stream

	Event   Event  // EventRecord: what the line says
	Prefix  []byte // the last 256 bytes of what stands before the line's first marker
	Text    []byte // TextRecord: the line without its end, cut to 64 KiB; MalformedRecord: its text, cut to 256 bytes
	Problem string // MalformedRecord: what is wrong, in a short phrase
}

// Stats counts what a [Reader] has read.
type Stats struct {
	Bytes     int64 // bytes of the lines below
	Lines     int64 // lines that have been read, yielded or not
	Events    int64 // EventRecords
	Malformed int64 // MalformedRecords
	Stitched  int64 // EventRecords made of two pieces
}

// A Reader reads a log, in the manner of [bufio.Scanner].
//
// Records come in the order of their lines. Behind a torn line the Reader
// holds them back for up to eight lines, until it knows whether one of those
// is the rest.
type Reader struct {
	src      io.Reader
	name     string
	keepText bool

	own        []byte // room to read into
	buf        []byte // own, or what Reset was given in place of it
	start, end int    // what is unread of buf; start is the first byte of a line
	searched   int    // buf[start:searched] holds no newline
	mark       int    // the first marker in buf[start:end], or end; stale if below start
	base       int64  // offset in the stream of buf[0]
	line       int64  // number of the line at start
	eof        bool
	err        error

	rec   Record
	stats Stats

	held   queue
	torso  torso
	prefix []byte // of the torso
}

// NewReader returns a Reader of the log r, which name stands for in errors.
// It buffers: r will have been read further than the records.
func NewReader(r io.Reader, name string) *Reader {
	room := make([]byte, bufferSize)
	return &Reader{src: r, name: name, own: room, buf: room, mark: -1, line: 1}
}

// Reset makes the Reader start again, as a new one would that keeps text as this
// one does, with the log that begins with front, which is read in place, and
// goes on with src.
func (r *Reader) Reset(front []byte, src io.Reader, name string) {
	*r = Reader{
		src: src, name: name, keepText: r.keepText, own: r.own, buf: r.own,
		mark: -1, line: 1, held: r.held, prefix: r.prefix,
	}
	if len(front) > 0 {
		r.buf, r.end = front, len(front)
	}
	r.held.front = len(r.held.items)
}

// Idle reports whether Scan has yielded all that was read so far, so that the
// log could as well end here and another one begin. A source may ask from
// within its Read.
func (r *Reader) Idle() bool { return r.start == r.end && r.torso.line == 0 && !r.held.busy() }

// KeepText makes Scan yield the lines without a marker too, as TextRecords, if
// keep is set. Without it they are skipped, at the speed of a search through
// memory. It is to be called before the first Scan.
func (r *Reader) KeepText(keep bool) { r.keepText = keep }

// Record returns the record that the last Scan found. It is reused.
func (r *Reader) Record() *Record { return &r.rec }

// Err returns the error of the underlying reader that ended the scan, with the
// name of the log and the line; nil if the scan went to the end.
func (r *Reader) Err() error { return r.err }

// Stats returns the counts so far. Once Scan has returned false they are those
// of the whole log.
func (r *Reader) Stats() Stats {
	s := r.stats
	s.Bytes = r.base + int64(r.start)
	s.Lines = r.line - 1
	return s
}

// Scan goes on to the next record and reports whether there is one. What is
// wrong with a line does not end the scan.
func (r *Reader) Scan() bool {
	if b := r.buf[r.start:r.end]; hasMarker(b) && r.torso.line == 0 && !r.held.busy() {
		if n := parsePartition(b, &r.rec.Event); n > 0 {
			r.yieldEvent(r.start, r.start+n)
			return true
		}
	}
	return r.scan()
}

// scan is Scan for what it takes more to tell.
func (r *Reader) scan() bool {
	for {
		if r.held.busy() {
			if r.held.pop(&r.rec) {
				r.count()
				return true
			}
			if r.held.busy() && !r.takeLine() {
				r.held.settle()
			}
			continue
		}
		if r.torso.line != 0 {
			r.takeLine()
			continue
		}

		b := r.buf[r.start:r.end]
		mark := r.start
		if !hasMarker(b) {
			if r.mark < r.start {
				r.findMark()
			}
			if r.keepText {
				if i := bytes.IndexByte(b, '\n'); i >= 0 && r.start+i < r.mark {
					r.yieldText(b[:i])
					return true
				}
			} else if r.skipText() {
				continue
			}
			mark = r.mark
		}
		if mark < r.end {
			if n := parseFast(r.buf[mark:r.end], &r.rec.Event); n > 0 && !endsInMarkerStart(r.buf[r.start:mark]) {
				r.yieldEvent(mark, mark+n)
				return true
			}
		}
		if r.more() {
			continue
		}
		if !r.takeLine() {
			return false
		}
	}
}

// yieldEvent sets the record to the event that the fast path found between
// mark and next.
func (r *Reader) yieldEvent(mark, next int) {
	rec := &r.rec
	if rec.Type != EventRecord || rec.Stitched || rec.Prefix != nil {
		rec.Type, rec.Stitched = EventRecord, false
		rec.Prefix, rec.Text, rec.Problem = nil, nil, ""
	}
	rec.Line, rec.Byte = r.line, r.base+int64(r.start)
	if mark > r.start {
		rec.Prefix = r.buf[max(r.start, mark-maxPrefix):mark:mark]
	}
	r.start = next
	r.line++
	r.stats.Events++
}

// yieldText sets the record to the line at start.
func (r *Reader) yieldText(line []byte) {
	rec := &r.rec
	rec.Type, rec.Stitched = TextRecord, false
	rec.Line, rec.Byte = r.line, r.base+int64(r.start)
	rec.Prefix, rec.Text, rec.Problem = nil, clip(line), ""
	r.start += len(line) + 1
	r.line++
}

// clip drops the CR of a line end and what is beyond the limit of a text.
func clip(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	line = line[:min(len(line), maxText)]
	return line[:len(line):len(line)]
}

func (r *Reader) count() {
	switch r.rec.Type {
	case EventRecord:
		r.stats.Events++
		if r.rec.Stitched {
			r.stats.Stitched++
		}
	case MalformedRecord:
		r.stats.Malformed++
	}
}

var newline = []byte{'\n'}

// findMark looks for the next marker in what is unread.
func (r *Reader) findMark() {
	r.mark = r.end
	if i := indexMarker(r.buf[r.start:r.end]); i >= 0 {
		r.mark = r.start + i
	}
}

const markerFront = len("TIME")

var markerEnd = []byte(marker[markerFront:])

// indexMarker returns the index of the first marker in b, or -1. It looks for
// the marker's end, since the engine's other lines are full of the capital T
// that begins it: each has a time.
func indexMarker(b []byte) int {
	for i := 0; ; {
		n := bytes.Index(b[i:], markerEnd)
		if n < 0 {
			return -1
		}
		i += n
		if hasSuffix(b[:i], marker[:markerFront]) {
			return i - markerFront
		}
		i += len(markerEnd)
	}
}

// skipText goes on to the line with the marker, or, without one, past the
// lines in the buffer that have ended. It reports whether it went to the
// latter.
func (r *Reader) skipText() bool {
	b := r.buf[r.start:r.mark]
	if bytes.IndexByte(b, '\n') < 0 {
		return false
	}
	// Backwards from the marker it is one line at most.
	n := bytes.LastIndexByte(b, '\n') + 1
	r.line += int64(bytes.Count(b[:n], newline))
	r.start += n
	return r.mark == r.end
}

// endsInMarkerStart reports whether prefix ends in a part of a marker: another
// writer's bytes may have torn a line there.
func endsInMarkerStart(prefix []byte) bool {
	return markerStart(prefix) > 0
}

// markerStart returns the length of the longest proper start of the marker
// that prefix ends in.
func markerStart(prefix []byte) int {
	if len(prefix) == 0 {
		return 0
	}
	switch prefix[len(prefix)-1] {
	case 'T', 'I', 'M', 'E', 'L', 'N':
	default:
		return 0
	}
	for n := len(marker) - 1; n > 0; n-- {
		if hasSuffix(prefix, marker[:n]) {
			return n
		}
	}
	return 0
}

// more reads on if that is what the line at start lacks, and reports whether
// it has become complete by that.
func (r *Reader) more() bool {
	had := r.base + int64(r.end)
	return r.lineEnd() >= 0 && r.base+int64(r.end) > had
}

// lineEnd returns the index in buf of the newline that ends the line at start,
// reading as far as that takes. It returns -1 if the input ends before, or if
// the line fills the buffer.
func (r *Reader) lineEnd() int {
	for {
		from := max(r.start, r.searched)
		if i := bytes.IndexByte(r.buf[from:r.end], '\n'); i >= 0 {
			r.searched = from + i
			return from + i
		}
		r.searched = r.end
		if !r.fill() {
			return -1
		}
	}
}

// fill moves what is unread to the front of its own room and reads once. It
// reports whether there is more to look at; not if the buffer is full.
func (r *Reader) fill() bool {
	if r.eof {
		return false
	}
	lent := &r.buf[0] != &r.own[0]
	if r.end-r.start > len(r.own) {
		return false
	}
	if r.start > 0 || lent {
		copy(r.own, r.buf[r.start:r.end])
		r.buf = r.own
		r.base += int64(r.start)
		r.end -= r.start
		r.searched = max(r.searched-r.start, 0)
		r.start = 0
	}
	r.mark = -1
	if r.end == len(r.buf) {
		return false
	}
	for range 100 {
		n, err := r.src.Read(r.buf[r.end:])
		if n < 0 || n > len(r.buf)-r.end {
			n, err = 0, errors.New("the reader returned an impossible count")
		}
		r.end += n
		if err != nil {
			r.eof = true
			if err != io.EOF {
				r.fail(err)
			}
			return n > 0
		}
		if n > 0 {
			return true
		}
	}
	r.eof = true
	r.fail(io.ErrNoProgress)
	return false
}

// fail sets the error, with the line that the input ended in.
func (r *Reader) fail(err error) {
	line := r.line + int64(bytes.Count(r.buf[r.start:r.end], newline))
	if r.name == "" {
		r.err = fmt.Errorf("timeline: reading line %d: %w", line, err)
	} else {
		r.err = fmt.Errorf("timeline: reading %s, line %d: %w", r.name, line, err)
	}
}

package timeline

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
)

// AppendTo appends the event to b as a line of the log, newline included, and
// returns the extended slice. The keys stand in the order in which the engine
// writes them.
//
// A byte of the job that a line cannot carry (a comma, a control character)
// becomes '_', and so does the end of one that would read as another marker.
// A whole sector's SYNTH_START without a ProofKind is written as kind=unknown.
// Other fields that the event does not have are left out, even where a reader
// needs them; [Writer.Write] refuses such an event.
func (e Event) AppendTo(b []byte) []byte {
	b = append(b, marker...)
	b = strconv.AppendInt(b, max(e.Offset, 0), 10)
	b = append(b, ',')
	b = append(b, e.Kind.String()...)
	b = append(b, ',')
	b = appendWord(b, e.Job)
	b = append(b, ',')

	detail := len(b)
	switch e.Kind {
	case GPUPickup, GPUStart, GPUEnd:
		b = appendPair(b, detail, "worker=", int64(e.Worker))
	}
	b = appendPair(b, detail, "partition=", int64(e.Partition))
	switch e.Kind {
	case SynthStart:
		if e.Partition >= 0 {
			break
		}
		b = append(b, "kind="...)
		if len(e.ProofKind) == 0 {
			b = append(b, "unknown"...)
		} else {
			b = appendWord(b, e.ProofKind)
		}
	case SynthEnd:
		b = appendPair(b, detail, "synth_ms=", e.Duration)
	case GPUQueue:
		if e.Partition < 0 {
			b = append(b, "monolithic"...)
		}
	case GPUEnd:
		b = appendPair(b, detail, "gpu_ms=", e.Duration)
	}
	return append(b, '\n')
}

// appendPair appends the pair unless its value is unknown, after a comma
// unless the detail, which begins at the index detail, is still empty.
func appendPair(b []byte, detail int, key string, v int64) []byte {
	if v < 0 {
		return b
	}
	if len(b) > detail {
		b = append(b, ',')
	}
	b = append(b, key...)
	return strconv.AppendInt(b, v, 10)
}

// appendWord appends w with '_' for what the middle of a line cannot carry.
func appendWord(b, w []byte) []byte {
	b = append(b, w...)
	for i, c := range b[len(b)-len(w):] {
		if c == ',' || c < 0x20 || c == 0x7f {
			b[len(b)-len(w)+i] = '_'
		}
	}
	if len(w) == 0 || hasSuffix(b, marker[:len(marker)-1]) {
		// An empty job cannot be told from a cut line, and a comma follows.
		b = append(b[:len(b)-min(len(w), 1)], '_')
	}
	return b
}

func hasSuffix(b []byte, s string) bool {
	return len(b) >= len(s) && string(b[len(b)-len(s):]) == s
}

// check says what a line of the event would lack.
func (e *Event) check() error {
	switch {
	case e.Kind < SynthStart || e.Kind > GPUEnd:
		return fmt.Errorf("%v is no event of the log", e.Kind)
	case e.Offset < 0 || e.Offset > maxNumber:
		return fmt.Errorf("offset %d ms is out of range", e.Offset)
	case len(e.Job) == 0:
		return errors.New("no job id")
	case len(e.Job)+len(e.ProofKind) > maxText/2:
		return errors.New("its job id is too long")
	case e.Partition > maxIndex:
		return fmt.Errorf("partition %d is out of range", e.Partition)
	}
	switch e.Kind {
	case GPUPickup, GPUStart, GPUEnd:
		if e.Worker < 0 || e.Worker > maxIndex {
			return fmt.Errorf("worker %d is out of range", e.Worker)
		}
	}
	switch e.Kind {
	case SynthEnd, GPUEnd:
		if e.Duration < 0 || e.Duration > maxNumber {
			return fmt.Errorf("duration %d ms is out of range", e.Duration)
		}
	}
	return nil
}

// A Writer writes events as lines. It may be used by many goroutines.
type Writer struct {
	mu   sync.Mutex
	w    io.Writer
	buf  []byte
	torn bool // the last line was written in part
}

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: w, buf: make([]byte, 0, 256)}
}

// Write writes the event with a single call of the underlying Write, so that a
// crash loses the line in flight at most; nothing is buffered. It returns an
// error, and writes nothing, for an event without what a reader needs of its
// kind. After a failed write that left part of a line behind, the next line
// begins with a newline of its own.
func (w *Writer) Write(e Event) error {
	if err := e.check(); err != nil {
		return fmt.Errorf("timeline: writing %v of job %q: %w", e.Kind, e.Job, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = w.buf[:0]
	if w.torn {
		w.buf = append(w.buf, '\n')
	}
	w.buf = e.AppendTo(w.buf)
	n, err := w.w.Write(w.buf)
	if err == nil && n < len(w.buf) {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.torn = w.torn && n <= 0 || n > 0 && n < len(w.buf)
		return fmt.Errorf("timeline: writing %v of job %q: %w", e.Kind, e.Job, err)
	}
	w.torn = false
	return nil
}

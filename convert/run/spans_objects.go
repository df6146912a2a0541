package run

import (
	"bufio"
	"errors"
	"io"
)

// A jsonState is where in a JSON text a reader is.
type jsonState struct {
	nesting
	line  int64 // from 1
	first bool  // the next byte is the first of its line
}

// nesting is how deep inside objects and lists a place of a JSON text is.
type nesting struct {
	depth    int
	inString bool
	escaped  bool // behind a backslash

	deepest int // so far
	values  int // so far: objects, lists and what stands behind a comma
}

// step takes the next byte.
func (n *nesting) step(c byte) {
	switch {
	case n.escaped:
		n.escaped = false
	case n.inString:
		switch c {
		case '"':
			n.inString = false
		case '\\':
			n.escaped = true
		}
	case c == '"':
		n.inString = true
	case c == '{', c == '[':
		n.values++
		n.depth++
		n.deepest = max(n.deepest, n.depth)
	case c == ',':
		n.values++
	case c == '}', c == ']':
		n.depth--
	}
}

// special are the bytes that step, or a reader of lines, does not pass over:
// those outside of strings, and those inside.
var special = func() (is [256]uint8) {
	for _, c := range "\"{}[],\n" {
		is[c] |= outsideString
	}
	for _, c := range "\"\\\n" {
		is[c] |= insideString
	}
	return is
}()

const (
	outsideString = 1 << iota
	insideString
)

// plain returns how many bytes step passes over.
func (n *nesting) plain(b []byte) int {
	mask := uint8(outsideString)
	switch {
	case n.escaped:
		return 0
	case n.inString:
		mask = insideString
	}
	for i, c := range b {
		if special[c]&mask != 0 {
			return i
		}
	}
	return len(b)
}

// check returns an error for a message that a decoder should be spared.
func (n *nesting) check() error {
	switch {
	case n.deepest > maxNesting:
		return damaged("has more than %d objects and lists inside each other", maxNesting)
	case n.values > maxValues:
		return errTooMany
	}
	return nil
}

// checkJSON does so for a whole message.
func checkJSON(data []byte) error {
	var n nesting
	for i := n.plain(data); i < len(data); i += 1 + n.plain(data[i+1:]) {
		n.step(data[i])
	}
	return n.check()
}

// level returns how many objects and lists are around a message.
func (f spanFormat) level() int {
	switch f {
	case formatResult:
		return 1
	case formatJaeger:
		return 2
	}
	return 0
}

// nextObject returns the next message of JSON: an object at the format's level.
//
// Mostly, a request is on a line of its own; a document can also be laid out on
// many lines, of which only the first begins with its brace. So an object that
// is cut short ends where a line begins with the next one.
func (m *messages) nextObject() ([]byte, error) {
	level := m.format.level()
	s := &m.json
	inside, tooLarge := false, false // the message
	m.data = m.data[:0]
	for {
		if _, err := m.in.Peek(1); err != nil {
			if errors.Is(err, io.EOF) && s.depth > 0 {
				if !inside {
					m.number = s.line
				}
				err = m.ends(err)
			}
			return nil, err
		}
		chunk, _ := m.in.Peek(m.in.Buffered())
		from := 0 // where the message begins in the chunk
		for i := 0; i < len(chunk); i++ {
			first := s.first
			if inside && !first {
				if i += s.plain(chunk[i:]); i == len(chunk) {
					break
				}
			}
			c := chunk[i]
			s.first = c == '\n'
			if s.first {
				s.line++
			}
			switch {
			case first && c == '{' && level == 0 && s.depth > 0:
				m.in.Discard(i)
				s.nesting, s.first = nesting{}, true
				return nil, errCut
			case s.first && s.inString: // which no string holds
				m.in.Discard(i + 1)
				s.nesting = nesting{}
				return nil, errCut
			case inside:
				if s.step(c); s.depth > level {
					continue
				}
				m.data = append(m.data, chunk[from:i+1]...)
				m.in.Discard(i + 1)
				if tooLarge || len(m.data) > maxMessage {
					return nil, damaged("is larger than %d MiB", maxMessage>>20)
				}
				return m.data, s.check()
			case c == '{' && s.depth == level && !s.inString:
				inside, from, m.number = true, i, s.line
				s.deepest, s.values = 0, 0
				s.step(c)
			case level > 0 || c == ' ' || c == '\t' || c == '\r' || c == '\n':
				if s.step(c); s.depth < 0 {
					s.depth = 0
				}
			default:
				m.number = s.line
				m.in.Discard(i)
				return nil, m.skipLine()
			}
		}
		if inside && !tooLarge {
			m.data = append(m.data, chunk[from:]...)
			if tooLarge = len(m.data) > maxMessage; tooLarge {
				m.data = m.data[:0]
			}
		}
		m.in.Discard(len(chunk))
	}
}

// skipLine skips the rest of a line that is no JSON.
func (m *messages) skipLine() error {
	for {
		_, err := m.in.ReadSlice('\n')
		switch {
		case err == nil:
			m.json.line++
			m.json.first = true
			return damaged("is no JSON object")
		case errors.Is(err, io.EOF):
			return damaged("is no JSON object")
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

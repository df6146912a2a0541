package timeline

import "bytes"

const (
	maxJob = 512 // bytes of a job in a torn line, where nothing else tells a job from other text

	// maxPending is the length of the longest line with such a job.
	maxPending = maxJob + 128
)

// A source says where in the log a record stands.
type source struct {
	line, byte int64
	prefix     []byte // held by the queue
	words      int    // how many words the capture has put before the line
}

// A torso is a line that has filled the queue before its end.
type torso struct {
	source
	inside bool // start is at a marker
	end    int  // what lineEnd returned
}

// takeLine moves the line at start, whatever it is, into the queue, or as many
// of its markers as the queue takes. It reports whether there was a line.
func (r *Reader) takeLine() bool {
	r.held.begin()
	line := r.torso
	seen := line.line != 0 // a marker has been seen on the line
	if seen {
		line.prefix = r.held.hold(r.prefix)
		r.torso = torso{}
	} else {
		line.end = r.lineEnd()
		if line.end < 0 && r.eof && r.start == r.end {
			return false
		}
		line.source = source{line: r.line, byte: r.base + int64(r.start)}
	}

	var long []byte // the start of a line that has not fitted the buffer
	for {
		if seen && r.held.full() {
			r.held.settle()
			line.prefix = nil
			r.torso = line
			return true
		}
		ended := line.end >= 0 || r.eof
		text := r.buf[r.start:r.end]
		if line.end >= 0 {
			text = r.buf[r.start:line.end]
		}
		if !line.inside {
			if i := indexMarker(text); i >= 0 {
				if !seen {
					seen = true
					r.takePrefix(&line.source, text[max(0, i-maxPrefix):i])
				}
				r.start += i
				line.inside = true
				continue
			}
			if ended {
				switch {
				case seen:
				case long != nil:
					r.held.addText(line.source, clip(long), r.keepText)
				default:
					r.takeText(line.source, text, line.end >= 0)
				}
				break
			}
			if !seen && long == nil {
				long = r.held.hold(text[:maxText])
			}
			// A marker may have begun at the end, and its prefix matters.
			r.start += len(text) - maxPrefix - len(marker) + 1
			line.end = r.lineEnd()
			continue
		}
		if i := indexMarker(text[len(marker):]); i >= 0 {
			i += len(marker)
			r.takeSegment(line.source, text[:i], false, true)
			r.start += i
			continue
		}
		if ended {
			r.takeSegment(line.source, text, true, line.end >= 0)
			break
		}
		if len(text) > maxText+len(marker) {
			r.takeSegment(line.source, text, true, true)
			r.start += len(text) - len(marker) + 1
			line.inside = false
		}
		line.end = r.lineEnd()
	}
	if line.end >= 0 {
		r.start = line.end + 1
	} else {
		r.start = r.end
	}
	r.line++
	r.held.endLine(line.line)
	return true
}

// takePrefix keeps the prefix of the line, and counts the words of it that the
// rest of a torn line will have too if a capture put them there.
func (r *Reader) takePrefix(src *source, prefix []byte) {
	r.prefix = append(r.prefix[:0], prefix...)
	src.prefix = r.held.hold(prefix)
	own := src.prefix[:len(prefix)-markerStart(prefix)]
	if n := len(own); n > 0 && own[n-1] == ' ' {
		src.words = words(own)
	}
	if len(own) < len(prefix) {
		// Not a marker: without a rest it is nothing but the prefix.
		head := source{line: src.line, byte: src.byte, prefix: own, words: src.words}
		r.held.addHead(startOfMarker, head, src.prefix[len(own):], nil, "")
	}
}

// takeText queues a line without a marker, or notes it as what may be the rest
// of a torn one.
func (r *Reader) takeText(src source, text []byte, ended bool) {
	if n := len(text); !ended && n > 0 && text[n-1] == '\r' {
		ended = true
	}
	if r.held.addTail(src, text, ended) {
		return
	}
	r.held.addText(src, clip(text), r.keepText)
}

// takeSegment queues what stands between a marker and the next one or the
// line's end. last says that it is the latter, and ended that the line has an
// end.
func (r *Reader) takeSegment(src source, raw []byte, last, ended bool) {
	q := &r.held
	text := raw
	if len(raw) > maxText {
		q.addMalformed(src, raw, problemLong)
		return
	}
	if bytes.IndexByte(raw, esc) >= 0 {
		text = StripANSI(q.reserve(len(raw)), raw)
	}
	if n := len(text); last && n > 0 && text[n-1] == '\r' {
		ended = true
		text = bytes.TrimRight(text, "\r")
	}

	var e Event
	v, problem := parse(text, &e, true)
	var other []byte
	if v != whole {
		if text, other = splitIntruder(text); other != nil || v == bad {
			v, problem = parse(text, &e, false)
		}
	}
	torn := !last || other != nil
	done := v == whole && final(&e)
	switch {
	case v == bad:
		q.addMalformed(src, raw, problem)
	case !torn && !ended && !done:
		q.addMalformed(src, raw, problemEnds)
	case done || v == whole && !torn && ended:
		q.addEvent(src, &e)
	case len(text) > maxPending && v == whole:
		q.addEvent(src, &e)
	case len(text) > maxPending:
		q.addMalformed(src, raw, problem)
	default:
		role := cutLine
		if v == whole {
			role = wholeLine
			if knownKindStart(e.ProofKind) {
				role, problem = cutLine, problemCut
			}
		}
		q.addHead(role, src, text, raw, problem)
	}
	if other != nil {
		q.addText(src, clip(other), r.keepText)
	}
}

// final reports whether nothing could follow the text of the event.
func final(e *Event) bool {
	return e.Kind == GPUQueue && e.Partition == WholeSector
}

var proofKinds = [...]string{"porep-c2", "snap-update", "window-post", "winning-post"}

// knownKindStart reports whether b is a part of a known kind of proof.
func knownKindStart(b []byte) bool {
	for _, k := range proofKinds {
		if len(b) > 0 && len(b) < len(k) && string(b) == k[:len(b)] {
			return true
		}
	}
	return false
}

var (
	cudaTiming = []byte("CUZK_TIMING: ")
	levels     = [...]string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR"}
)

// splitIntruder divides text, which is no event, at the bytes of another
// writer that landed in it: a CUZK_TIMING line, a line of the engine's own log,
// or a binary run in the detail.
func splitIntruder(text []byte) (own, other []byte) {
	at := len(text)
	if i := bytes.Index(text, cudaTiming); i >= 0 {
		at = i
	}
	for i := len(marker); i < at; i++ {
		n := bytes.IndexByte(text[i:at], 'T')
		if n < 0 {
			break
		}
		i += n
		if i >= len(marker)+10 && isEngineLine(text[i-10:]) {
			at = i - 10
		}
	}
	commas := 0
	for i, c := range text[:at] {
		if c == ',' {
			commas++
		} else if commas > 3 && (c < ' ' || c >= 0x7f) {
			at = i
			break
		}
	}
	if at == len(text) {
		return text, nil
	}
	return text[:at], text[at:]
}

// isEngineLine reports whether b begins like a line of the engine's log:
// "2026-02-18T14:59:07.123856Z  INFO ".
func isEngineLine(b []byte) bool {
	_, n, _, ok := ParseTime(b)
	if !ok {
		return false
	}
	b = bytes.TrimLeft(b[n:], " ")
	for _, l := range levels {
		if len(b) >= len(l) && string(b[:len(l)]) == l {
			return true
		}
	}
	return false
}

// words counts the words of b.
func words(b []byte) int {
	n, space := 0, true
	for _, c := range b {
		s := c == ' ' || c == '\t'
		if space && !s {
			n++
		}
		space = s
	}
	return n
}

// Package enginelog reads the lines that the cuzk engine and its CUDA library
// write beside the TIMELINE lines: the engine's own log (tracing-subscriber's
// text format, with or without colours) and the CUZK_TIMING durations.
//
// In goes a line of a log, whatever a capture put before it; out comes the
// fact that it tells, if it is a line of the engine.
package enginelog

import (
	"bytes"
	"time"

	"github.com/provetrace/provetrace/tracing/timeline"
)

// A Kind says what a line tells.
type Kind uint8

const (
	Other         Kind = iota // any line of the engine: its time only
	Started                   // the engine starts
	Admitted                  // Job was accepted
	Dispatched                // Job has Count partitions
	WorkerStarted             // Worker drives the device of ordinal Device
	Synthesized               // Partition of Job was built in Millis
	Skipped                   // Partition of Job is not proved, since Job has failed
	Failed                    // Job, or its Partition, failed for Reason
	Timings                   // CUDA durations
)

// Unknown is the value of a Fact's numbers that the line does not give.
const Unknown = -1

// A Fact is what a line tells. Its slices are valid until the next line.
type Fact struct {
	Kind      Kind
	Time      int64 // µs since 1970, UTC; Timings have none
	Job       []byte
	Partition int64
	Count     int64
	Worker    int64
	Device    int64
	Millis    int64
	Reason    []byte

	Timings Durations
}

// Durations are the values of one CUZK_TIMING line, in ms, Unknown where the
// line does not have them.
type Durations struct {
	Thread  int64 // gpu_tid
	PreLock int64 // pre_lock_cpu_ms
	Wait    int64 // mutex_wait_ms
	NTTMSMH int64 // ntt_msm_h_ms
	Barrier int64 // barrier_wait_ms
	Batch   int64 // batch_add_ms
	Tail    int64 // tail_msm_ms
	Total   int64 // gpu_total_ms
	Held    int64 // mutex_held_ms
	StartFn int64 // total_start_fn_ms
	BG2     int64 // b_g2_msm_ms
}

// A Parser reads lines. The zero value is ready.
type Parser struct {
	plain []byte // a line without its colours

	// The day of the last time read: nearly all lines share it.
	day     [10]byte
	dayUnix int64 // µs
}

var (
	timingMarker = []byte("CUZK_TIMING:")
	escape       = byte(0x1b)
)

// Parse reads a line into f and reports whether it is one of the engine's.
func (p *Parser) Parse(line []byte, f *Fact) bool {
	if len(line) == 0 {
		return false
	}
	if c := line[0]; c == 'C' || c < '0' || c > '9' {
		if at := bytes.Index(line, timingMarker); at >= 0 {
			return parseTimings(line[at+len(timingMarker):], f)
		}
		if bytes.IndexByte(line, escape) >= 0 {
			p.plain = timeline.StripANSI(p.plain[:0], line)
			line = p.plain
		}
	}
	// A capture's prefix can hold a time as well; the engine's is the one
	// before the level.
	for at := 0; ; {
		z := bytes.IndexByte(line[at:], 'Z')
		if z < 0 {
			return p.parseLate(line, f)
		}
		end := at + z
		at = end + 1
		rest := line[at:]
		if len(rest) < 2 || rest[0] != ' ' {
			continue
		}
		level := levelOf(rest)
		if level == noLevel {
			continue
		}
		start := end - len("2026-02-18T14:59:07.123856")
		if start < 0 {
			continue
		}
		us, ok := p.time(line[start : end+1])
		if !ok {
			continue
		}
		f.Kind, f.Time = Other, us
		parseMessage(rest, level, f)
		return true
	}
}

// parseLate reads lines that a prefix with a digit in front hides from Parse's
// short cut: timings and colours behind a capture's time.
func (p *Parser) parseLate(line []byte, f *Fact) bool {
	if at := bytes.Index(line, timingMarker); at >= 0 {
		return parseTimings(line[at+len(timingMarker):], f)
	}
	if bytes.IndexByte(line, escape) < 0 {
		return false
	}
	plain := timeline.StripANSI(p.plain[:0], line)
	p.plain = plain
	if len(plain) == len(line) || len(plain) == 0 {
		return false
	}
	return p.Parse(plain, f)
}

// time reads a time such as 2026-02-18T14:59:07.123856Z.
func (p *Parser) time(b []byte) (int64, bool) {
	if len(b) != 27 || b[10] != 'T' || b[13] != ':' || b[16] != ':' || b[19] != '.' {
		return 0, false
	}
	if [10]byte(b[:10]) != p.day {
		day, err := time.Parse(time.DateOnly, string(b[:10]))
		if err != nil {
			return 0, false
		}
		p.day, p.dayUnix = [10]byte(b[:10]), day.UnixMicro()
	}
	h, ok1 := digits(b[11:13])
	m, ok2 := digits(b[14:16])
	s, ok3 := digits(b[17:19])
	us, ok4 := digits(b[20:26])
	if !ok1 || !ok2 || !ok3 || !ok4 || h > 23 || m > 59 || s > 60 {
		return 0, false
	}
	return p.dayUnix + ((h*60+m)*60+s)*1e6 + us, true
}

// digits reads a decimal number of 1 to 18 digits that fills b.
func digits(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		d := c - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + int64(d)
	}
	return n, true
}

type level uint8

const (
	noLevel level = iota
	failing       // ERROR
	passing       // any other
)

// levelOf reads the level that stands behind the spaces at the start of rest.
func levelOf(rest []byte) level {
	i := 1
	for i < len(rest) && i < 3 && rest[i] == ' ' {
		i++
	}
	rest = rest[i:]
	for _, l := range [...]string{"INFO ", "DEBUG ", "WARN ", "ERROR ", "TRACE "} {
		if len(rest) > len(l) && string(rest[:len(l)]) == l {
			if l[0] == 'E' {
				return failing
			}
			return passing
		}
	}
	return noLevel
}

// Phrases of the engine's messages, each with the kind of fact that it tells.
var phrases = [...]struct {
	text string
	kind Kind
}{
	{"partition synthesis complete", Synthesized},
	{"Prove request_id=", Admitted},
	{"SubmitProof request_id=", Admitted},
	{"dispatching per-partition synthesis", Dispatched},
	{"skipping GPU prove for failed", Skipped},
	{"pipeline GPU worker started", WorkerStarted},
	{"cuzk-daemon starting", Started},
}

// parseMessage reads what stands behind the time: level, target, message and
// fields.
func parseMessage(rest []byte, l level, f *Fact) {
	at := bytes.Index(rest, []byte(": "))
	if at < 0 {
		return
	}
	message := rest[at+2:]
	if l == failing {
		job := field(message, "job_id")
		if job == nil {
			job = field(message, "request_id")
		}
		if job == nil {
			return
		}
		f.Kind, f.Job, f.Partition = Failed, job, number(field(message, "partition"))
		f.Reason = reason(message)
		return
	}
	for i := range phrases {
		ph := &phrases[i]
		if len(message) < len(ph.text) || message[0] != ph.text[0] || string(message[:len(ph.text)]) != ph.text {
			continue
		}
		f.Kind = ph.kind
		switch ph.kind {
		case Admitted:
			f.Job = field(message, "request_id")
		case Dispatched:
			f.Job, f.Count = field(message, "job_id"), number(field(message, "num_partitions"))
		case WorkerStarted:
			f.Worker, f.Device = number(field(message, "worker_id")), number(field(message, "gpu"))
			if f.Worker < 0 || f.Device < 0 {
				f.Kind = Other
			}
			return
		case Synthesized:
			f.Job, f.Partition, f.Millis = field(message, "job_id"), number(field(message, "partition")), number(field(message, "synth_ms"))
		case Skipped:
			f.Job, f.Partition = field(message, "job_id"), number(field(message, "partition"))
		case Started:
			return
		}
		if len(f.Job) == 0 {
			f.Kind = Other
		}
		return
	}
}

// field returns the value of a field, without the quotes that surround it, or
// nil. A value ends at the next space, a quoted one at its quote.
func field(message []byte, key string) []byte {
	for at := 0; at < len(message); {
		i := bytes.Index(message[at:], []byte(key))
		if i < 0 {
			return nil
		}
		i += at
		at = i + len(key)
		if at >= len(message) || message[at] != '=' || (i > 0 && message[i-1] != ' ') {
			continue
		}
		value := message[at+1:]
		if len(value) > 0 && value[0] == '"' {
			if end := bytes.IndexByte(value[1:], '"'); end >= 0 {
				return value[1 : 1+end]
			}
		}
		if end := bytes.IndexByte(value, ' '); end >= 0 {
			value = value[:end]
		}
		return value
	}
	return nil
}

// number reads a field's number, which Rust's Debug may have wrapped: Some(7).
func number(b []byte) int64 {
	b = bytes.TrimSuffix(bytes.TrimPrefix(b, []byte("Some(")), []byte(")"))
	if n, ok := digits(b); ok {
		return n
	}
	return Unknown
}

// reason returns why something failed: the error field, which can hold spaces
// where it stands before the ids, behind the message itself.
func reason(message []byte) []byte {
	text := message
	for _, id := range []string{"job_id=", "request_id=", "partition="} {
		if i := bytes.Index(text, []byte(id)); i == 0 || i > 0 && text[i-1] == ' ' {
			text = text[:i]
		}
	}
	for _, key := range []string{"error=", "err="} {
		i := bytes.Index(message, []byte(key))
		if i < 0 || (i > 0 && message[i-1] != ' ') {
			continue
		}
		value := message[i+len(key):]
		if i < len(text) { // the ids stand behind it
			value = text[i+len(key):]
		}
		head := bytes.TrimSpace(message[:i])
		if j := bytes.IndexByte(head, '='); j >= 0 { // fields before it
			head = bytes.TrimSpace(head[:bytes.LastIndexByte(head[:j], ' ')+1])
		}
		return append(append(bytes.Clone(head), ": "...), bytes.Trim(value, `" `)...)
	}
	return bytes.Clone(bytes.TrimSpace(text))
}

// parseTimings reads what stands behind the marker of a timing line.
func parseTimings(b []byte, f *Fact) bool {
	f.Kind = Timings
	d := &f.Timings
	*d = Durations{Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown}
	any := false
	for len(b) > 0 {
		if b[0] == ' ' {
			b = b[1:]
			continue
		}
		pair := b
		if i := bytes.IndexByte(b, ' '); i >= 0 {
			pair, b = b[:i], b[i+1:]
		} else {
			b = nil
		}
		eq := bytes.IndexByte(pair, '=')
		if eq < 0 {
			continue
		}
		n, ok := digits(pair[eq+1:])
		if !ok {
			continue
		}
		if to := d.of(pair[:eq]); to != nil {
			*to, any = n, true
		}
	}
	return any
}

// of returns where the value of a key goes.
func (d *Durations) of(key []byte) *int64 {
	switch string(key) {
	case "gpu_tid":
		return &d.Thread
	case "pre_lock_cpu_ms":
		return &d.PreLock
	case "mutex_wait_ms":
		return &d.Wait
	case "ntt_msm_h_ms":
		return &d.NTTMSMH
	case "barrier_wait_ms":
		return &d.Barrier
	case "batch_add_ms":
		return &d.Batch
	case "tail_msm_ms":
		return &d.Tail
	case "gpu_total_ms":
		return &d.Total
	case "mutex_held_ms":
		return &d.Held
	case "total_start_fn_ms":
		return &d.StartFn
	case "b_g2_msm_ms":
		return &d.BG2
	}
	return nil
}

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

// A Fact is what a line tells. Its slices are valid until the next line; of an
// Other line, only Kind and Stamp have a meaning.
type Fact struct {
	Kind      Kind
	Time      int64  // µs since 1970, UTC; Timings have none, and of Other lines Stamp is it
	Stamp     []byte // the time of an Other line, for Parser.Time: few of them are needed
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
	plain  []byte // a line without its colours
	reason []byte

	// The day of the last time read: nearly all lines share it.
	day     [10]byte
	dayUnix int64 // µs
}

const (
	timingMarker = "CUZK_TIMING:"
	escape       = 0x1b
)

// Parse reads a line into f and reports whether it is one of the engine's.
// Where it is not, f has no meaning.
func (p *Parser) Parse(line []byte, f *Fact) bool {
	if len(line) > len(timingMarker) && string(line[:len(timingMarker)]) == timingMarker {
		return parseTimings(line[len(timingMarker):], f)
	}
	if len(line) > 27 && line[26] == 'Z' {
		if dull(line, f) {
			return true
		}
		if line[27] != ' ' {
			return false // another program's, with a time in the same form
		}
	} else if bytes.IndexByte(line, 'Z') < 0 {
		return false // no engine's time, and no timing marker
	}
	if p.engine(line, f) {
		return true
	}
	if at := bytes.Index(line, []byte(timingMarker)); at >= 0 {
		line = line[at+len(timingMarker):]
		if bytes.IndexByte(line, escape) >= 0 {
			p.plain = timeline.StripANSI(p.plain[:0], line)
			line = p.plain
		}
		return parseTimings(line, f)
	}
	if bytes.IndexByte(line, escape) >= 0 {
		p.plain = timeline.StripANSI(p.plain[:0], line)
		return p.engine(p.plain, f)
	}
	return false
}

// engine reads a line of the engine's own log. A capture's prefix can hold a
// time as well; the engine's is the one before the level.
func (p *Parser) engine(line []byte, f *Fact) bool {
	for at := 0; ; {
		z := bytes.IndexByte(line[at:], 'Z')
		if z < 0 {
			return false
		}
		end := at + z
		at = end + 1
		start := end - len("2026-02-18T14:59:07.123856")
		if start < 0 {
			continue
		}
		level := levelOf(line[at:])
		if level == noLevel {
			continue
		}
		us, ok := p.Time(line[start : end+1])
		if !ok {
			continue
		}
		*f = Fact{Time: us, Stamp: line[start : end+1], Partition: Unknown, Count: Unknown, Worker: Unknown, Device: Unknown, Millis: Unknown}
		p.message(line[at:], level, f)
		return true
	}
}

// dull reads what most lines are: the engine's own, without a prefix or colours,
// with a message that tells no more than its time. It only looks at fixed
// places, and leaves all other lines to engine.
func dull(line []byte, f *Fact) bool {
	const level, target = 28, 34
	if len(line) <= target || line[27] != ' ' || line[target-1] != ' ' || line[10] != 'T' || line[19] != '.' {
		return false
	}
	switch string(line[level : target-1]) {
	case " INFO", "DEBUG", " WARN", "TRACE":
	default:
		return false
	}
	end := bytes.IndexByte(line[target:], ' ')
	if end < 1 || line[target+end-1] != ':' || target+end+1 == len(line) {
		return false
	}
	if message := line[target+end+1:]; len(message) >= 4 {
		switch string(message[:4]) {
		case "part", "Prov", "Subm", "disp", "skip", "pipe", "cuzk", "prov": // a phrase may begin
			return false
		}
	}
	f.Kind, f.Stamp = Other, line[:27]
	return true
}

// Time reads the time of an Other line, such as 2026-02-18T14:59:07.123856Z, in
// µs since 1970. ok is false where it is none.
func (p *Parser) Time(stamp []byte) (us int64, ok bool) {
	if len(stamp) != 27 {
		return 0, false
	}
	b := (*[27]byte)(stamp)
	if b[10] != 'T' || b[13] != ':' || b[16] != ':' || b[19] != '.' {
		return 0, false
	}
	if [10]byte(b[:10]) != p.day {
		day, err := time.Parse(time.DateOnly, string(b[:10]))
		if err != nil {
			return 0, false
		}
		p.day, p.dayUnix = [10]byte(b[:10]), day.UnixMicro()
	}
	bad := false
	two := func(i int) int64 {
		tens, ones := b[i]-'0', b[i+1]-'0'
		bad = bad || tens > 9 || ones > 9
		return int64(tens)*10 + int64(ones)
	}
	h, m, sec := two(11), two(14), two(17)
	us = two(20)*1e4 + two(22)*100 + two(24)
	if bad || h > 23 || m > 59 || sec > 60 {
		return 0, false
	}
	return p.dayUnix + ((h*60+m)*60+sec)*1e6 + us, true
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
	if len(rest) == 0 || rest[0] != ' ' {
		return noLevel
	}
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
// dull has their beginnings.
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
	{"provetrace starting", Started}, // of a recorder's journal
}

// message reads what stands behind the time: level, target, message and fields.
func (p *Parser) message(rest []byte, l level, f *Fact) {
	at := bytes.Index(rest, []byte(": "))
	if at < 0 {
		return
	}
	message := rest[at+2:]
	if l == failing {
		job := field(message, "job_id")
		if len(job) == 0 {
			job = field(message, "request_id")
		}
		if len(job) == 0 {
			return
		}
		f.Kind, f.Job, f.Partition = Failed, job, number(field(message, "partition"))
		f.Reason = p.reasonOf(message)
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
	at := fieldAt(message, key)
	if at < 0 {
		return nil
	}
	value := message[at:]
	if text, ok := quoted(value); ok {
		return text
	}
	if end := bytes.IndexByte(value, ' '); end >= 0 {
		value = value[:end]
	}
	return value
}

// fieldAt returns where the value of a field begins, or -1.
func fieldAt(message []byte, key string) int {
	for at := 0; ; {
		i := bytes.Index(message[at:], []byte(key))
		if i < 0 {
			return -1
		}
		i += at
		at = i + len(key)
		if at < len(message) && message[at] == '=' && (i == 0 || message[i-1] == ' ') {
			return at + 1
		}
	}
}

// quoted returns the text between the quotes with which b begins.
func quoted(b []byte) (text []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, false
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return b[1:i], true
		}
	}
	return nil, false
}

// number reads a field's number, which Rust's Debug may have wrapped: Some(7).
func number(b []byte) int64 {
	b = bytes.TrimSuffix(bytes.TrimPrefix(b, []byte("Some(")), []byte(")"))
	if n, ok := digits(b); ok {
		return n
	}
	return Unknown
}

// reasonOf returns why something failed: the message and its error field. The
// latter can hold spaces without any quotes, and ends where the ids begin.
func (p *Parser) reasonOf(message []byte) []byte {
	text := bytes.TrimSpace(message[:textEnd(message)])
	at := fieldAt(message, "error")
	if at < 0 {
		at = fieldAt(message, "err")
	}
	if at < 0 {
		return text
	}
	value, ok := quoted(message[at:])
	if !ok {
		value = message[at:]
		for _, id := range [...]string{" job_id=", " request_id=", " partition="} {
			if i := bytes.Index(value, []byte(id)); i >= 0 {
				value = value[:i]
			}
		}
		value = bytes.TrimSpace(value)
	}
	p.reason = append(p.reason[:0], text...)
	if len(text) > 0 && len(value) > 0 {
		p.reason = append(p.reason, ": "...)
	}
	p.reason = append(p.reason, value...)
	return p.reason
}

// textEnd returns where the first field of a message begins.
func textEnd(message []byte) int {
	eq := bytes.IndexByte(message, '=')
	if eq < 0 {
		return len(message)
	}
	return bytes.LastIndexByte(message[:eq], ' ') + 1
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

package timeline

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
)

const (
	marker = "TIMELINE,"

	maxDigits      = 18 // of an offset or a duration: what an int64 holds for certain
	maxIndexDigits = 9  // of a partition or a worker: likewise an int32
	maxNumber      = 1e18 - 1
	maxIndex       = 1e9 - 1
)

// What a line's detail holds, in the order in which the engine writes it.
const (
	hasWorker = 1 << iota
	hasPartition
	hasProofKind
	hasMonolithic
	hasDuration
)

// needs says what the detail of a kind must hold: all of one set, and one of
// the other unless that is empty. Without it a line that has been cut could
// pass for a whole one.
var needs = [8]struct{ all, any uint8 }{
	SynthStart: {any: hasPartition | hasProofKind},
	SynthEnd:   {all: hasDuration},
	ChanSend:   {},
	GPUQueue:   {any: hasPartition | hasMonolithic},
	GPUPickup:  {all: hasWorker},
	GPUStart:   {all: hasWorker},
	GPUEnd:     {all: hasWorker | hasDuration},
}

// The words that the fast path compares, as little-endian integers.
const (
	wordTIME  = 'T' | 'I'<<8 | 'M'<<16 | 'E'<<24 | 'L'<<32 | 'I'<<40 | 'N'<<48 | 'E'<<56
	wordPart  = 'p' | 'a'<<8 | 'r'<<16 | 't'<<24 | 'i'<<32 | 't'<<40 | 'i'<<48 | 'o'<<56
	wordSynth = 's' | 'y'<<8 | 'n'<<16 | 't'<<24 | 'h'<<32 | '_'<<40 | 'm'<<48 | 's'<<56
	wordWork  = 'w' | 'o'<<8 | 'r'<<16 | 'k'<<24 | 'e'<<32 | 'r'<<40 | '='<<48
	wordGPUms = 'g' | 'p'<<8 | 'u'<<16 | '_'<<24 | 'm'<<32 | 's'<<40 | '='<<48
	wordKind  = 'k' | 'i'<<8 | 'n'<<16 | 'd'<<24 | '='<<32
	wordMono  = 'm' | 'o'<<8 | 'n'<<16 | 'o'<<24 | 'l'<<32 | 'i'<<40 | 't'<<48 | 'h'<<56

	wordOn = 'n' | '='<<8

	low2 = 1<<16 - 1
	low5 = 1<<40 - 1
	low7 = 1<<56 - 1

	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// A kindWord is what the fast path compares a kind's name with: its first 8
// bytes, and those of the next 4 that the mask has, to the comma behind it.
type kindWord struct {
	head       uint64
	tail, mask uint32
	kind       Kind
	length     uint8 // with the comma
}

// kindWords has the kinds' names at their kindHash, which tells them apart: the
// kinds of a log's lines alternate too much for a processor to foresee a row
// of comparisons.
var kindWords = func() (words [16]kindWord) {
	for k, name := range kindNames {
		if k == 0 {
			continue
		}
		text := append([]byte(name), ',', 0, 0, 0, 0)
		w := kindWord{head: binary.LittleEndian.Uint64(text), kind: Kind(k), length: uint8(len(name) + 1)}
		w.mask = uint32(1<<(8*(len(name)+1-8)) - 1)
		w.tail = binary.LittleEndian.Uint32(text[8:]) & w.mask
		words[kindHash(w.head)] = w
	}
	return words
}()

func kindHash(head uint64) uint64 { return (head >> 32 * 0x7b3 >> 28) & 15 }

func hasMarker(b []byte) bool {
	return len(b) >= len(marker) && binary.LittleEndian.Uint64(b) == wordTIME && b[8] == ','
}

// parseFast reads the event at the start of b, which begins with the marker,
// and returns the length of its line, newline included. It takes only the line
// that an engine writes and nothing has touched, and returns 0 for any other;
// it consumes each byte as what it must be, so that a second marker, an escape
// sequence or another writer's bytes always fail. e is the event before it, or
// any other.
func parseFast(b []byte, e *Event) int {
	if n := parsePartition(b, e); n > 0 {
		return n
	}
	return parseWhole(b, e)
}

const (
	lookAhead = 320 // bytes that parsePartition looks at, more than it needs
	longestID = 128 // among what it takes
)

// parsePartition is parseFast for what nearly all lines are: an event of a
// partition, with the keys in the engine's order and a job as long as the last
// one. A number's length is compared before it is added: a processor goes on
// with the expected one, instead of waiting for what the digits say.
func parsePartition(b []byte, e *Event) int {
	length := uint(len(e.Job))
	if len(b) < lookAhead || length < 8 || length > longestID {
		return 0
	}
	line := (*[lookAhead]byte)(b)
	i := uint(len(marker))
	w := word(line, i)
	var offset int64
	switch n := leadingDigits(w); n {
	case 7:
		offset, i = decimal(w, 7), i+7
	case 6:
		offset, i = decimal(w, 6), i+6
	case 8:
		offset = decimal(w, 8)
		w = word(line, i+8)
		switch leadingDigits(w) {
		case 0:
			i += 8
		case 1:
			offset, i = offset*10+int64(w&15), i+9
		case 2:
			offset, i = offset*100+decimal(w, 2), i+10
		default:
			return 0
		}
	case 0:
		return 0
	default:
		offset, i = decimal(w, n), i+uint(n)
	}
	head := word(line, i+1)
	name := &kindWords[kindHash(head)]
	if char(line, i) != ',' || head != name.head || uint32(word(line, i+9))&name.mask != name.tail {
		return 0
	}
	i += 1 + uint(name.length)

	// Ids are of letters, digits and hyphens. A comma and all that is for other
	// paths is less than those.
	job := i
	i += length
	low := below(line, i-8)
	if length == uuidLength {
		low |= below(line, job) | below(line, job+8) | below(line, job+16) | below(line, job+24)
	} else {
		for at := job; at < i-8; at += 8 {
			low |= below(line, at)
		}
	}
	if low&highs != 0 || char(line, i) != ',' {
		return 0
	}
	i++

	kind, worker := name.kind, int32(Unknown)
	if kind >= GPUPickup {
		if word(line, i)&low7 != wordWork {
			return 0
		}
		w, n := word(line, i+7), uint(1)
		if worker = int32(byte(w) - '0'); worker > 9 || byte(w>>8) != ',' {
			if worker, n = index(w); n == 0 || char(line, i+7+n) != ',' {
				return 0
			}
		}
		i += 7 + n + 1
	}
	if word(line, i) != wordPart || word(line, i+8)&low2 != wordOn {
		return 0
	}
	w = word(line, i+10)
	partition, n := int32(byte(w)-'0'), uint(1)
	if partition > 9 || byte(w>>8)-'0' <= 9 {
		if partition, n = index(w); n == 0 {
			return 0
		}
	}
	i += 10 + n

	duration := int64(Unknown)
	if kind == SynthEnd || kind == GPUEnd {
		w := word(line, i+1)
		switch {
		case char(line, i) != ',':
			return 0
		case w&low7 == wordGPUms && kind == GPUEnd:
			i += 8
		case w == wordSynth && kind == SynthEnd && char(line, i+9) == '=':
			i += 10
		default:
			return 0
		}
		w = word(line, i)
		switch n := leadingDigits(w); n {
		case 5:
			duration, i = decimal(w, 5), i+5
		case 4:
			duration, i = decimal(w, 4), i+4
		case 0, 8:
			return 0
		default:
			duration, i = decimal(w, n), i+uint(n)
		}
	}
	if char(line, i) != '\n' {
		return 0
	}
	e.Job, e.ProofKind = b[job:job+length:job+length], nil
	e.Offset, e.Kind, e.Partition, e.Worker, e.Duration = offset, kind, partition, worker, duration
	return int(i) + 1
}

// word returns the 8 bytes at i, which is below 256: that the compiler knows it
// saves half of the instructions.
func word(line *[lookAhead]byte, i uint) uint64 { return binary.LittleEndian.Uint64(line[i&0xff:]) }

func char(line *[lookAhead]byte, i uint) byte { return line[i&0xff] }

const uuidLength = 36 // as nearly all ids have

// below has the high bit of some byte set if one of the 8 at i is less than a
// hyphen.
func below(line *[lookAhead]byte, i uint) uint64 {
	w := word(line, i)
	return (w - ones*'-') &^ w
}

// index reads the number of a partition or a worker, of up to 7 digits, that w
// begins with, and returns how many there are, or 0.
func index(w uint64) (v int32, n uint) {
	digits := leadingDigits(w)
	if digits == 0 || digits == 8 {
		return 0, 0
	}
	return int32(decimal(w, digits)), uint(digits)
}

// parseWhole is parseFast for all that it takes.
func parseWhole(b []byte, e *Event) int {
	// The shortest line is far longer than what is read ahead of a check: its
	// head, and 12 bytes from where a key begins.
	i := len(marker)
	offset, n := leadingNumber(b[i:])
	i += n
	if n == 0 || n > maxDigits || len(b)-i < 24 || b[i] != ',' {
		return 0
	}
	i++
	head := binary.LittleEndian.Uint64(b[i:])
	name := &kindWords[kindHash(head)]
	if head != name.head || binary.LittleEndian.Uint32(b[i+8:])&name.mask != name.tail {
		return 0
	}
	kind := name.kind
	i += int(name.length)

	// The job ends at a comma; a control character or a space is for the slow
	// path. Eight bytes at a time, by the usual has-zero and has-less tricks,
	// whose lowest flag is exact.
	job := i
	for {
		if len(b)-i < 8 {
			return 0
		}
		w := binary.LittleEndian.Uint64(b[i:])
		x := w ^ ones*','
		if m := ((x-ones)&^x | (w-ones*0x21)&^w) & highs; m != 0 {
			i += bits.TrailingZeros64(m) >> 3
			break
		}
		i += 8
	}
	if b[i] != ',' || i == job {
		return 0
	}
	e.Job = b[job:i:i]
	if i++; i == len(b) {
		return 0
	}

	seen := uint8(0)
	partition, worker := int32(WholeSector), int32(Unknown)
	duration := int64(Unknown)
	e.ProofKind = nil
	if b[i] == '\n' || b[i] == '\r' {
		// The job of a line that was cut after a second marker.
		if kind != ChanSend || hasSuffix(e.Job, marker[:8]) {
			return 0
		}
	} else {
		for {
			if len(b)-i < 12 {
				return 0
			}
			w := binary.LittleEndian.Uint64(b[i:])
			var has uint8
			switch {
			case w == wordPart && b[i+8] == 'n' && b[i+9] == '=':
				has, i = hasPartition, i+10
			case w&low7 == wordWork && kind >= GPUPickup:
				has, i = hasWorker, i+7
			case w&low7 == wordGPUms && kind == GPUEnd,
				w == wordSynth && kind == SynthEnd && b[i+8] == '=':
				i += 7
				if kind == SynthEnd {
					i += 2
				}
				has = hasDuration
			case w == wordMono && kind == GPUQueue && b[i+8] == 'i' && b[i+9] == 'c':
				has, i = hasMonolithic, i+10
			case w&low5 == wordKind && kind == SynthStart:
				has, i = hasProofKind, i+5
			default:
				return 0
			}
			if seen&has != 0 {
				return 0
			}
			seen |= has

			start := i
			switch has {
			case hasProofKind:
				for i < len(b) && b[i] > ' ' && b[i] < 0x7f && b[i] != ',' {
					i++
				}
				e.ProofKind = b[start:i:i]
				if i == start {
					return 0
				}
			case hasMonolithic:
			default:
				v, n := leadingNumber(b[i:])
				i += n
				if n == 0 || n > maxDigits {
					return 0
				}
				if has == hasDuration {
					duration = v
					break
				}
				if n > maxIndexDigits {
					return 0
				}
				if has == hasWorker {
					worker = int32(v)
				} else {
					partition = int32(v)
				}
			}
			if i >= len(b) {
				return 0
			}
			if b[i] != ',' {
				break
			}
			i++
		}
	}
	if b[i] == '\r' {
		i++
	}
	if i >= len(b) || b[i] != '\n' {
		return 0
	}
	if n := needs[kind&7]; seen&n.all != n.all || n.any != 0 && seen&n.any == 0 {
		return 0
	}
	e.Offset, e.Kind, e.Partition, e.Worker, e.Duration = offset, kind, partition, worker, duration
	return i + 1
}

// leadingDigits returns how many of the 8 bytes in w are digits before the
// first that is none: the lowest whose high bit the addition sets.
func leadingDigits(w uint64) int {
	w ^= ones * '0'
	return bits.TrailingZeros64((w+ones*(0x7f-9)|w)&highs) >> 3
}

// decimal returns the number that the first n bytes in w are the digits of, n
// being 1 to 8: pairs, then fours, then all eight (Lemire, "Quickly parsing
// eight digits").
func decimal(w uint64, n int) int64 {
	w = (w ^ ones*'0') << (64 - 8*uint(n))
	w = w*10 + w>>8
	return int64((w&0xff000000ff*(100+1000000<<32) + w>>16&0xff000000ff*(1+10000<<32)) >> 32)
}

// leadingNumber reads the digits that b begins with and returns how many there
// are; beyond maxDigits, where the value is wrong, it stops counting.
func leadingNumber(b []byte) (v int64, n int) {
	for n < len(b) && n <= maxDigits {
		d := b[n] - '0'
		if d > 9 {
			break
		}
		v = v*10 + int64(d)
		n++
	}
	return v, n
}

// A verdict says how far a text got towards being an event.
type verdict uint8

const (
	whole verdict = iota // it is one
	cut                  // it ends before the event does; bytes after it could complete it
	bad                  // no bytes after it could make it one
)

// parse reads the event in b, which begins with the marker and ends where the
// line does. strict takes nothing but the keys of the event's kind; otherwise
// others are ignored. The problem is set unless the verdict is whole.
func parse(b []byte, e *Event, strict bool) (v verdict, problem string) {
	*e = Event{Partition: WholeSector, Worker: Unknown, Duration: Unknown}
	rest := b[len(marker):]

	field, rest, more := bytes.Cut(rest, comma)
	if len(field) == 0 {
		if !more {
			return cut, problemCut
		}
		return bad, "no offset"
	}
	e.Offset, problem = number(field, maxDigits)
	switch {
	case problem != "":
		return bad, "the offset " + problem
	case !more:
		return cut, problemCut
	}

	field, rest, more = bytes.Cut(rest, comma)
	for k, name := range kindNames {
		switch {
		case k == 0:
		case more && string(field) == name:
			e.Kind = Kind(k)
		case !more && len(field) <= len(name) && string(field) == name[:len(field)]:
			return cut, problemCut
		}
	}
	if e.Kind == 0 {
		return bad, "unknown event " + strconv.QuoteToASCII(string(field[:min(len(field), 32)]))
	}

	field, rest, more = bytes.Cut(rest, comma)
	if !more {
		return cut, problemCut
	}
	if len(field) == 0 {
		return bad, "no job id"
	}
	e.Job = field
	return parseDetail(rest, e, strict)
}

var comma = []byte{','}

// parseDetail reads the pairs after the job.
func parseDetail(rest []byte, e *Event, strict bool) (v verdict, problem string) {
	seen := uint8(0)
	for more := len(rest) > 0; more; {
		var pair []byte
		pair, rest, more = bytes.Cut(rest, comma)
		name, value, isPair := bytes.Cut(pair, equals)
		has, digits := uint8(0), maxDigits
		switch string(name) {
		case "partition":
			has, digits = hasPartition, maxIndexDigits
		case "worker":
			if e.Kind >= GPUPickup {
				has, digits = hasWorker, maxIndexDigits
			}
		case "synth_ms":
			if e.Kind == SynthEnd {
				has = hasDuration
			}
		case "gpu_ms":
			if e.Kind == GPUEnd {
				has = hasDuration
			}
		case "kind":
			if e.Kind == SynthStart {
				has = hasProofKind
			}
		case "monolithic":
			if e.Kind == GPUQueue && !isPair {
				has, isPair = hasMonolithic, true
			}
		}
		if !isPair {
			switch alone := string(name) == "monolithic"; {
			case alone && !strict:
				continue
			case !alone && !more && isKeyPrefix(name):
				return cut, problemCut
			}
			return bad, "no value for " + strconv.QuoteToASCII(string(name[:min(len(name), 32)]))
		}
		if has == 0 {
			if strict {
				return bad, "unknown key " + strconv.QuoteToASCII(string(name[:min(len(name), 32)]))
			}
			continue
		}
		if has == hasMonolithic {
			seen |= has
			continue
		}
		if len(value) == 0 {
			if !more {
				return cut, problemCut
			}
			return bad, "no value for " + string(name)
		}
		var n int64
		if has != hasProofKind {
			if n, problem = number(value, digits); problem != "" {
				return bad, string(name) + " " + problem
			}
		}
		again := seen&has != 0
		seen |= has
		switch has {
		case hasPartition:
			again = again && int64(e.Partition) != n
			e.Partition = int32(n)
		case hasWorker:
			again = again && int64(e.Worker) != n
			e.Worker = int32(n)
		case hasDuration:
			again = again && e.Duration != n
			e.Duration = n
		case hasProofKind:
			if !printable(value) {
				return bad, "kind is not text"
			}
			again = again && !bytes.Equal(e.ProofKind, value)
			e.ProofKind = value
		}
		if again {
			return bad, "two values for " + string(name)
		}
	}
	switch n := needs[e.Kind]; {
	case n.all&^seen&hasWorker != 0:
		return cut, "no worker"
	case n.all&^seen != 0 && e.Kind == SynthEnd:
		return cut, "no synth_ms"
	case n.all&^seen != 0:
		return cut, "no gpu_ms"
	case n.any != 0 && n.any&seen == 0 && e.Kind == SynthStart:
		return cut, "no partition and no kind"
	case n.any != 0 && n.any&seen == 0:
		return cut, "no partition"
	}
	return whole, ""
}

var (
	equals = []byte{'='}
	keys   = [...]string{"partition", "worker", "synth_ms", "gpu_ms", "kind", "monolithic"}
)

// isKeyPrefix reports whether name could be what is left of a key.
func isKeyPrefix(name []byte) bool {
	for _, k := range keys {
		if len(name) <= len(k) && string(name) == k[:len(name)] {
			return true
		}
	}
	return false
}

// number reads b, which is not empty, as a decimal number.
func number(b []byte, digits int) (n int64, problem string) {
	for i, c := range b {
		c -= '0'
		if c > 9 {
			return 0, "is not a whole number"
		}
		if i == digits {
			return 0, "is out of range"
		}
		n = n*10 + int64(c)
	}
	return n, ""
}

func printable(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

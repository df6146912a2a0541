package run

import (
	"encoding/binary"
	"iter"
)

// A sector of which nothing is left to derive rests: its partitions are in order,
// and while many are held, it is frozen. Frozen partitions take some 20 bytes
// each instead of 44, and a log of a gigabyte holds two million. It wakes when an
// event is of it.

// Only tests change these.
var (
	restAfter  = 64      // sectors that begin before one rests, which is still at hand in the processor's cache then
	freezeFrom = 1 << 19 // partitions from which on sectors are frozen
)

// rest has sectors rest that began some time ago.
func (a *assembly) rest() {
	if a.rested < len(a.run.Sectors)-1-restAfter {
		a.conclude(a.run.Sectors[a.rested])
		a.rested++
	}
	if a.used < freezeFrom {
		return
	}
	for range 2 { // more than begin, to make good for those before freezeFrom
		if a.cooled < a.rested {
			if s := a.run.Sectors[a.cooled]; s.whole {
				a.freeze(s)
			}
			a.cooled++
		}
	}
}

// conclude has a sector rest if it is whole, and reports whether it does.
func (a *assembly) conclude(s *Sector) bool {
	if !s.whole && s.told() {
		a.concluded.add(s)
		s.whole = true
	}
	return s.whole
}

// wake ends a sector's rest: there is more of it.
func (s *Sector) wake() {
	for b := s.frozen; len(b) > 0; {
		var p packed
		b = thaw(b, &p)
		s.parts = append(s.parts, p)
	}
	s.frozen, s.whole = nil, false
	for i := range s.parts {
		s.note(i)
	}
}

// freeze freezes a sector that rests.
func (a *assembly) freeze(s *Sector) {
	a.frozen = freeze(a.frozen[:0], s.parts)
	if len(a.frozen) > cap(a.ice)-len(a.ice) {
		a.ice = make([]byte, 0, max(iceSize, len(a.frozen)))
	}
	at := len(a.ice)
	a.ice = append(a.ice, a.frozen...)
	s.frozen = a.ice[at:len(a.ice):len(a.ice)]
	if len(a.spare) < maxSpare {
		a.spare = append(a.spare, s.parts[:0])
	} else {
		a.room -= cap(s.parts)
	}
	s.parts = nil
}

const iceSize = 64 << 10

// maxSpare is from how many frozen sectors the room is kept. Far more are frozen
// than begin, once the first are.
const maxSpare = 256

// told reports whether lines tell all partitions of the sector, and all of their
// times, one after the other.
func (s *Sector) told() bool {
	if s.failed || len(s.parts) == 0 || len(s.parts) < s.Count {
		return false
	}
	for i := range s.parts {
		p := &s.parts[i]
		last := int32(absent + 1)
		for _, t := range p.t {
			if t < last {
				return false
			}
			last = t
		}
	}
	return true
}

// each yields the sector's partitions, each of which is valid until the next.
func (s *Sector) each() iter.Seq[*packed] {
	return func(yield func(*packed) bool) {
		for i := range s.parts {
			if !yield(&s.parts[i]) {
				return
			}
		}
		var p packed
		for b := s.frozen; len(b) > 0; {
			if b = thaw(b, &p); !yield(&p) {
				return
			}
		}
	}
}

// freeze returns partitions as bytes, appended to b. Times follow each other as
// differences, which are small.
func freeze(b []byte, parts []packed) []byte {
	for i := range parts {
		p := &parts[i]
		known := byte(0)
		for at, t := range p.t {
			if t != absent {
				known |= 1 << at
			}
		}
		b = append(b, byte(p.state), known, p.inferred)
		b = binary.AppendVarint(b, int64(p.index))
		b = binary.AppendVarint(b, int64(p.worker))
		b = binary.AppendVarint(b, int64(p.timings))
		last := int64(0)
		for _, t := range p.t {
			if t != absent {
				b = binary.AppendVarint(b, int64(t)-last)
				last = int64(t)
			}
		}
		b = binary.AppendVarint(b, int64(p.synthMS)-p.between(SynthStart, SynthEnd))
		b = binary.AppendVarint(b, int64(p.gpuMS)-p.between(GPUStart, GPUEnd))
	}
	return b
}

// between returns the ms between two times, 0 where they are not both known.
func (p *packed) between(from, to Boundary) int64 {
	if p.t[from] == absent || p.t[to] == absent {
		return 0
	}
	return int64(p.t[to]) - int64(p.t[from])
}

// thaw reads the first of frozen partitions and returns those behind it.
func thaw(b []byte, p *packed) []byte {
	next := func() int64 {
		n, size := binary.Varint(b)
		b = b[size:]
		return n
	}
	var known byte
	p.state, known, p.inferred = State(b[0]), b[1], b[2]
	b = b[3:]
	p.index = int32(next())
	p.worker = int16(next())
	p.timings = int32(next())
	last := int64(0)
	for at := range p.t {
		p.t[at] = absent
		if known&(1<<at) != 0 {
			last += next()
			p.t[at] = int32(last)
		}
	}
	p.synthMS = int32(next() + p.between(SynthStart, SynthEnd))
	p.gpuMS = int32(next() + p.between(GPUStart, GPUEnd))
	return b
}

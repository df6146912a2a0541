package run

import "encoding/binary"

// A sector that nothing happens to is kept frozen: its partitions take some 20
// bytes each instead of 44, and a log of a gigabyte holds two million. It thaws
// when an event is of it.

// maxThawed bounds the sectors that are kept thawed beside those under way.
const maxThawed = 64

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

package run

import (
	"iter"
	"math"

	"github.com/provetrace/provetrace/tracing"
)

// A packed is a partition as a run keeps it: a log of a gigabyte holds two
// million.
type packed struct {
	t        [numBoundaries]int32 // ms from the sector's base, or absent
	synthMS  int32                // or Unknown
	gpuMS    int32                // or Unknown
	timings  int32                // in the run's slab of timings, or else of details, or Unknown
	index    int32
	worker   int16 // or Unknown
	inferred uint8 // bits by Boundary
	state    State
}

const (
	absent = math.MinInt32

	maxWorker    = math.MaxInt16
	maxPartition = math.MaxInt16
	maxOffset    = 1<<40 - 1 // ms: 34 years, so that all that is made of it fits a time
)

// wholeJob is the partition of a failure that is the job's.
const wholeJob = math.MinInt32

// A failureKey names what failed.
type failureKey struct {
	sector    *Sector
	partition int32
}

// unpack returns a partition for the use outside.
func (s *Sector) unpack(k *packed) (p Partition) {
	p.Index, p.Worker, p.Device, p.State = int(k.index), int(k.worker), s.run.deviceOf(int(k.worker)), k.state
	p.SynthMS, p.GPUMS, p.SynthesisWorker, p.QueueDepth = int64(k.synthMS), int64(k.gpuMS), Unknown, Unknown
	p.inferred, p.base = k.inferred, s.base
	for b, t := range k.t {
		p.Times[b] = Unknown
		if t != absent {
			p.Times[b] = s.base + int64(t)
		}
	}
	switch {
	case k.timings == Unknown:
	case s.run.details.chunks != nil:
		d := s.run.details.at(k.timings)
		p.detail, p.names = d, s.run.names
		if d.device != Unknown {
			p.Device = int(d.device)
		}
		p.SynthesisWorker, p.QueueDepth, p.Telemetry = int(d.synthesisWorker), int(d.queueDepth), d.telemetry
	default:
		p.timings = s.run.timings.at(k.timings)
	}
	if k.state == Failed {
		p.Failure = s.run.failures[failureKey{s, k.index}]
	}
	return p
}

// deviceOf returns the ordinal of the device that a worker drives, or Unknown.
func (r *Run) deviceOf(worker int) int {
	if worker < 0 || worker >= len(r.drives) {
		return Unknown
	}
	return int(r.drives[worker]) - 1
}

// find returns the sector's partition of an index, or nil.
func (s *Sector) find(index int32) *packed {
	if uint32(index) < uint32(len(s.few)) {
		if i := s.few[index]; i != 0 {
			return &s.parts[i-1]
		}
	}
	if s.whole {
		s.wake()
	}
	if s.index != nil {
		if i, ok := s.index[index]; ok {
			return &s.parts[i]
		}
		return nil
	}
	for i := range s.parts {
		if s.parts[i].index == index {
			return &s.parts[i]
		}
	}
	return nil
}

// indexFrom is the number of partitions from which on a sector keeps an index
// of them.
const indexFrom = 64

// add adds a partition.
func (s *Sector) add(index int32, a *assembly) *packed {
	if len(s.parts) == cap(s.parts) {
		s.parts = a.grow(s.parts)
	}
	s.parts = append(s.parts, packed{
		t:       [numBoundaries]int32{absent, absent, absent, absent, absent, absent},
		synthMS: Unknown, gpuMS: Unknown, timings: Unknown, index: index, worker: Unknown, state: Incomplete,
	})
	n := len(s.parts)
	a.used++
	a.usual = max(a.usual, min(n, indexFrom))
	s.note(n - 1)
	return &s.parts[n-1]
}

// note makes the partition at a place one that find finds, as it does those
// before it.
func (s *Sector) note(place int) {
	index := s.parts[place].index
	if uint32(index) < uint32(len(s.few)) && place < indexFrom {
		s.few[index] = uint8(place + 1)
	}
	switch {
	case s.index != nil:
		s.index[index] = int32(place)
	case place >= indexFrom:
		s.index = make(map[int32]int32, 2*place)
		for i := range s.parts[:place+1] {
			s.index[s.parts[i].index] = int32(i)
		}
	}
}

// timings are where a partition's GPU interval went, in ms, from CUDA timings.
type timings struct {
	acquired int32 // the device lock, from the sector's base
	prepare  int32
	wait     int32
	ntt      int32
	barrier  int32
	batch    int32
	tail     int32
	bg2Start int32 // from the sector's base
	bg2      int32 // or Unknown
}

// released returns when the device's own phases were over.
func (t *timings) released() int32 { return t.acquired + t.ntt + t.barrier + t.batch + t.tail }

// A detail is what spans tell of a partition, and logs do not.
type detail struct {
	device          int16 // or Unknown
	synthesisWorker int16 // or Unknown
	queueDepth      int32 // or Unknown
	telemetry       *Telemetry
	phases          []packedPhase // those of the synthesis, then those of the GPU interval
	inSynthesis     int32         // how many of the phases are of the synthesis
}

// A packedPhase is a phase as a run keeps it.
type packedPhase struct {
	start, end int32 // ms from the sector's base
	name       int32 // in the run's names
}

// phases yields phases that a detail holds.
func (p *Partition) phases(of []packedPhase) iter.Seq[Phase] {
	names, base := p.names, p.base // and not p, which would have to be allocated
	return func(yield func(Phase) bool) {
		for _, ph := range of {
			if !yield(Phase{names[ph.name], base + int64(ph.start), base + int64(ph.end)}) {
				return
			}
		}
	}
}

// HasPhases reports whether [Partition.Phases] or [Partition.SynthesisPhases] can
// yield any, which costs less than to ask them.
func (p *Partition) HasPhases() bool { return p.timings != nil || p.detail != nil }

// SynthesisPhases yields the parts of the partition's synthesis in order of
// their start, where spans tell them.
func (p Partition) SynthesisPhases() iter.Seq[Phase] {
	if p.detail == nil {
		return noPhases
	}
	return p.phases(p.detail.phases[:p.detail.inSynthesis])
}

// Phases yields the parts of the partition's GPU interval in order of their
// start, where CUDA timings or spans tell them. From CUDA timings, each is as
// long as its timing says, and those of a device never overlap.
func (p Partition) Phases() iter.Seq[Phase] {
	if p.detail != nil {
		return p.phases(p.detail.phases[p.detail.inSynthesis:])
	}
	t := p.timings
	if t == nil {
		return noPhases
	}
	base, proofStart, proofEnd := p.base, p.Times[GPUStart], p.Times[GPUEnd]
	return func(yield func(Phase) bool) {
		at := base + int64(t.acquired)
		locked := at - int64(t.wait)
		for _, ph := range [...]struct {
			name   string
			start  int64
			length int32
		}{
			{tracing.SpanPrepare, proofStart, int32(locked - proofStart)},
			{tracing.SpanDeviceWait, locked, t.wait},
			{tracing.SpanNTTMSMH, at, t.ntt},
			{tracing.SpanBatchAdd, at + int64(t.ntt+t.barrier), t.batch},
			{tracing.SpanTailMSM, at + int64(t.ntt+t.barrier+t.batch), t.tail},
			{tracing.SpanBG2MSM, base + int64(t.bg2Start), t.bg2},
		} {
			if ph.length < 0 {
				continue
			}
			// The sums of cut values can be some ms off.
			in := Phase{ph.name, max(ph.start, proofStart), max(ph.start+int64(ph.length), proofStart)}
			if proofEnd != Unknown {
				in.Start, in.End = min(in.Start, proofEnd), min(in.End, proofEnd)
			}
			if !yield(in) {
				return
			}
		}
	}
}

func noPhases(func(Phase) bool) {}

// A slab holds values that stay where they are.
type slab[T any] struct{ chunks [][]T }

const slabSize = 4096

func (s *slab[T]) at(i int32) *T { return &s.chunks[i/slabSize][i%slabSize] }

// add returns the number and the place of a new value.
func (s *slab[T]) add() (int32, *T) {
	n := len(s.chunks)
	if n == 0 || len(s.chunks[n-1]) == slabSize {
		s.chunks = append(s.chunks, make([]T, 0, slabSize))
		n++
	}
	c := &s.chunks[n-1]
	*c = (*c)[:len(*c)+1]
	i := len(*c) - 1
	return int32((n-1)*slabSize + i), &(*c)[i]
}

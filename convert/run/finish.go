package run

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// finish derives what the log did not tell and closes the run.
func (a *assembly) finish(name string, length Length) *Run {
	r := a.run
	r.Name = name
	r.Input.Bytes, r.Input.Lines = length.Bytes, length.Lines
	r.Epoch = a.epoch.settle(a.o, r.Last, a.feed.sources[len(a.feed.sources)-1].ModTime, time.Now())
	a.kernels.finish()
	a.mapDevices()

	clock, hasClock := a.epoch.ofEngineLog()
	for _, f := range a.failed {
		at := f.told
		if hasClock {
			at = (f.wall - clock.Time.UnixMicro()) / msMicros
		}
		a.failedAt(f.sector, f.sector.find(f.index), at)
	}
	var lacking []*Sector
	for _, s := range r.Sectors {
		if !a.conclude(s) {
			lacking = append(lacking, s)
		}
	}
	for _, s := range lacking {
		for i := range s.parts {
			a.complete(s, &s.parts[i])
		}
	}
	a.inferEnds(lacking)
	for _, s := range lacking {
		for i := range s.parts {
			a.order(&s.parts[i])
		}
		a.concluded.add(s)
	}
	r.longestSynthesis, r.longestProof = a.concluded.longestSynthesis, a.concluded.longestProof
	r.Input.Timings -= a.concluded.orphans
	r.Input.Orphans += a.concluded.orphans
	for _, s := range lacking {
		a.settle(s)
	}
	for _, s := range r.Sectors {
		s.Admitted = admitted(s, clock, hasClock)
		r.First = min(r.First, s.first)
		r.tally.add(s)
	}
	byFirst := func(a, b *Sector) int { return cmp.Compare(a.first, b.first) }
	if !slices.IsSortedFunc(r.Sectors, byFirst) { // as they nearly always are
		slices.SortStableFunc(r.Sectors, byFirst)
	}
	return r
}

// conclusions gathers what is known once the times of sectors are.
type conclusions struct {
	longestSynthesis, longestProof int64 // ms
	orphans                        int64 // timings that turned out to be outside of their partitions
}

// add puts the partitions of a sector in order, whose times are.
func (c *conclusions) add(s *Sector) {
	sorted, first := true, int32(math.MaxInt32)
	for i := range s.parts {
		p := &s.parts[i]
		if p.timings != Unknown && !p.holds(s.run.timings.at(p.timings)) {
			p.timings = Unknown
			c.orphans++
		}
		c.longestSynthesis = max(c.longestSynthesis, p.between(SynthStart, SynthEnd))
		c.longestProof = max(c.longestProof, p.between(Queued, GPUEnd))
		for _, t := range p.t {
			if t != absent {
				first = min(first, t)
				break
			}
		}
		sorted = sorted && (i == 0 || s.parts[i-1].index < p.index)
	}
	s.first = s.base + int64(first)
	if !sorted {
		slices.SortFunc(s.parts, func(a, b packed) int { return cmp.Compare(a.index, b.index) })
	}
	s.few, s.index = [len(s.few)]uint8{}, nil
	if s.parts[0].index >= 0 {
		s.Count = max(s.Count, len(s.parts))
	} else {
		s.Count = 0
	}
}

// holds reports whether CUDA timings lie inside the partition's GPU interval,
// which can have moved when its times were put in order.
func (p *packed) holds(t *timings) bool {
	return p.t[GPUStart] != absent && t.acquired-t.wait >= p.t[GPUStart]-fitAtMost &&
		(p.t[GPUEnd] == absent || t.released() <= p.t[GPUEnd]+fitAtMost)
}

// admitted returns when a sector was admitted, in µs of the run's clock, if the
// engine's clock tells that.
func admitted(s *Sector, clock Epoch, hasClock bool) int64 {
	if s.Admitted == Unknown || !hasClock {
		return Unknown
	}
	// The first event is up to 1 ms later than its offset.
	at, first := s.Admitted-clock.Time.UnixMicro(), s.first*msMicros
	if at < 0 || at > first+msMicros+clock.Uncertainty.Microseconds() {
		return Unknown // it cannot be what led to these events
	}
	return min(at, first)
}

// infer sets a time that no line gives. Nothing is before the engine's start,
// and what a line tells was over when it was written.
func (a *assembly) infer(s *Sector, p *packed, b Boundary, at int32) {
	p.t[b] = min(max(at, s.relative(0)), s.relative(a.run.Last))
	a.markInferred(p, b)
}

func (a *assembly) markInferred(p *packed, b Boundary) {
	p.inferred |= 1 << b
	a.run.Input.Inferred++
}

// complete derives the times that a partition lacks.
func (a *assembly) complete(s *Sector, p *packed) {
	has := func(b Boundary) bool { return p.t[b] != absent }
	if !has(SynthEnd) && p.state != Failed {
		switch {
		case has(Queued):
			a.infer(s, p, SynthEnd, p.t[Queued])
		case has(SynthStart) && p.synthMS >= 0:
			a.infer(s, p, SynthEnd, p.t[SynthStart]+p.synthMS)
		}
	}
	if !has(SynthStart) && has(SynthEnd) && p.synthMS >= 0 {
		a.infer(s, p, SynthStart, p.t[SynthEnd]-p.synthMS)
	}
	if !has(PickedUp) && has(GPUStart) {
		a.infer(s, p, PickedUp, p.t[GPUStart])
	}
	if !has(GPUStart) && has(GPUEnd) {
		switch {
		case has(PickedUp):
			a.infer(s, p, GPUStart, p.t[PickedUp])
		case p.gpuMS >= 0:
			a.infer(s, p, GPUStart, p.t[GPUEnd]-p.gpuMS)
			a.infer(s, p, PickedUp, p.t[GPUStart])
		}
	}
	if !has(Queued) && has(SynthEnd) && has(PickedUp) {
		a.infer(s, p, Queued, p.t[SynthEnd])
	}
}

// order makes sure that no time is before the one that it follows. Clocks of
// threads that print at once can differ by a ms; a derived time can be off by
// more, and gives way to those that lines tell.
func (a *assembly) order(p *packed) {
	last, sorted := int32(absent), true
	for _, t := range p.t {
		if t != absent {
			sorted = sorted && t >= last
			last = t
		}
	}
	if sorted {
		return
	}
	derived := p.inferred
	last = absent
	for b := range p.t {
		if p.t[b] == absent || derived&(1<<b) != 0 {
			continue
		}
		if p.t[b] < last {
			p.t[b] = last
			a.markInferred(p, Boundary(b))
		}
		last = p.t[b]
	}
	next := int32(math.MaxInt32)
	for b := len(p.t) - 1; b >= 0; b-- {
		if p.t[b] == absent {
			continue
		}
		if derived&(1<<b) != 0 {
			p.t[b] = min(p.t[b], next)
		}
		next = p.t[b]
	}
	last = absent
	for b := range p.t {
		if p.t[b] != absent {
			p.t[b] = max(p.t[b], last)
			last = p.t[b]
		}
	}
}

// An openEnd is a partition whose end no line tells, and when its worker took
// the next one.
type openEnd struct {
	sector *Sector
	part   *packed
	start  int64 // ms
	next   int64 // ms
	waited bool  // the next one had been waiting
}

// inferEnds derives lost ends in an engine whose workers finish a proof before
// they take the next partition: if that had been waiting for the worker, the
// end was then. Only sectors that lack times have such partitions.
func (a *assembly) inferEnds(lacking []*Sector) {
	if a.split || !a.inTurn {
		return
	}
	open := make(map[int16][]openEnd)
	for _, s := range lacking {
		for i := range s.parts {
			p := &s.parts[i]
			if p.worker >= 0 && p.t[GPUStart] != absent && p.t[GPUEnd] == absent {
				open[p.worker] = append(open[p.worker], openEnd{sector: s, part: p, start: s.base + int64(p.t[GPUStart]), next: math.MaxInt64})
			}
		}
	}
	if len(open) == 0 {
		return
	}
	for _, ends := range open {
		slices.SortFunc(ends, func(a, b openEnd) int { return cmp.Compare(a.start, b.start) })
	}
	for _, s := range a.run.Sectors {
		for p := range s.each() {
			if p.worker < 0 || p.t[PickedUp] == absent {
				continue
			}
			ends := open[p.worker]
			at := s.base + int64(p.t[PickedUp])
			// The latest that had begun by then.
			n, _ := slices.BinarySearchFunc(ends, at, func(e openEnd, at int64) int { return cmp.Compare(e.start, at) })
			if n > 0 && ends[n-1].part != p && at < ends[n-1].next {
				ends[n-1].next = at
				ends[n-1].waited = p.t[Queued] != absent && p.t[Queued] < p.t[PickedUp]
			}
		}
	}
	for _, ends := range open {
		for _, e := range ends {
			// Much longer than any proof, and its worker did something else
			// before that the log has lost as well.
			if e.waited && e.part.state == Incomplete && e.next-e.start <= 3*a.longest/2 {
				a.infer(e.sector, e.part, GPUEnd, e.sector.relative(e.next))
				e.part.state = Finished
			}
		}
	}
}

// settle says how the partitions of a sector ended that were not proved.
func (a *assembly) settle(s *Sector) {
	if !s.failed {
		a.findFailure(s)
	}
	if !s.failed {
		return
	}
	for i := range s.parts {
		p := &s.parts[i]
		if p.state == Incomplete && p.t[SynthEnd] != absent && p.t[GPUStart] == absent {
			p.state = Skipped
		}
	}
}

// findFailure finds the failure of a sector in a log without the engine's own
// lines: partitions were picked up and not proved, after another one's
// synthesis began that has not ended in a time in which any other has.
func (a *assembly) findFailure(s *Sector) {
	skipped := int32(absent)
	for i := range s.parts {
		if p := &s.parts[i]; p.t[PickedUp] != absent && p.t[GPUStart] == absent && (skipped == absent || p.t[PickedUp] < skipped) {
			skipped = p.t[PickedUp]
		}
	}
	if skipped == absent || a.run.longestSynthesis == 0 {
		return
	}
	for i := range s.parts {
		p := &s.parts[i]
		start := p.t[SynthStart]
		if start == absent || start >= skipped || a.run.Last-s.base-int64(start) <= 2*a.run.longestSynthesis ||
			slices.ContainsFunc(p.t[SynthEnd:], func(t int32) bool { return t != absent }) {
			continue
		}
		const reason = "its synthesis did not end, and the sector's other partitions were skipped"
		p.state = Failed
		a.blame(s, p.index, reason)
		a.blame(s, wholeJob, reason)
		a.infer(s, p, SynthEnd, skipped)
	}
}

// failedAt ends what a partition was doing when it was told that it has failed,
// or is skipped. One that has been in the kernels was not skipped.
func (a *assembly) failedAt(s *Sector, p *packed, ms int64) {
	for from, t := range p.t {
		to := Boundary(from) + 1
		inside := to == SynthEnd || to == GPUEnd
		if p.state == Skipped {
			inside = inside && p.timings == Unknown || to == PickedUp
		}
		if !inside || t == absent {
			continue
		}
		if !slices.ContainsFunc(p.t[to:], func(t int32) bool { return t != absent }) {
			a.infer(s, p, to, max(s.relative(ms), t))
		}
	}
}

// mapDevices says which workers drive which device.
func (a *assembly) mapDevices() {
	r := a.run
	r.WorkersAssumed = len(a.workers) == 0
	byOrdinal := make(map[int]*Device)
	for w := range a.workers {
		a.sees(w)
	}
	for w := range a.drives {
		if !a.drives[w].seen {
			continue
		}
		ordinal := 0
		if d, ok := a.workers[int16(w)]; ok {
			ordinal = int(d)
		} else if n := a.o.WorkersPerDevice; n > 0 {
			ordinal = w / n
		} else if !r.WorkersAssumed {
			continue // the log maps others and not this one
		}
		d := byOrdinal[ordinal]
		if d == nil {
			d = &Device{Ordinal: ordinal}
			byOrdinal[ordinal] = d
		}
		d.Workers = append(d.Workers, w)
	}
	for _, d := range byOrdinal {
		r.Devices = append(r.Devices, *d)
	}
	for _, d := range r.Devices {
		for _, w := range d.Workers {
			if n := w + 1; n > len(r.drives) {
				r.drives = append(r.drives, make([]int32, n-len(r.drives))...)
			}
			r.drives[w] = int32(d.Ordinal) + 1
		}
	}
	slices.SortFunc(r.Devices, func(a, b Device) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
}

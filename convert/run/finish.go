package run

import (
	"cmp"
	"slices"
	"time"
)

// finish derives what the log did not tell and closes the run.
func (a *assembly) finish(name string, length Length) *Run {
	r := a.run
	r.Name = name
	r.Input.Bytes, r.Input.Lines = length.Bytes, length.Lines
	r.Epoch = a.epoch.settle(a.o, r.Last, a.lexer.sources[len(a.lexer.sources)-1].ModTime, time.Now())
	for _, h := range a.kernels.over {
		h.over.to = r.Last + fitAtMost
		a.kernels.give(h)
	}
	r.Input.Orphans += int64(len(a.kernels.open) + len(a.kernels.undecided))
	a.mapDevices()

	if !a.split {
		for _, l := range a.lost {
			if p := l.sector.find(l.index); p.t[GPUEnd] == absent {
				a.infer(p, GPUEnd, l.sector.relative(l.at))
				p.state = Finished
			}
		}
	}
	clock, hasClock := a.epoch.ofEngineLog()
	for _, f := range a.failed {
		at := f.told
		if hasClock {
			at = (f.wall - clock.Time.UnixMicro()) / msMicros
		}
		a.failedAt(f.sector, f.sector.find(f.index), at)
	}
	for _, s := range r.Sectors {
		if s.Admitted != Unknown {
			if hasClock {
				s.Admitted -= clock.Time.UnixMicro()
			}
			if first, _ := s.Extent(); !hasClock || s.Admitted > first*msMicros {
				s.Admitted = Unknown // it cannot be what led to these events
			}
		}
		for i := range s.parts {
			p := &s.parts[i]
			a.complete(s, p)
			if p.t[SynthStart] != absent && p.t[SynthEnd] != absent {
				r.longestSynthesis = max(r.longestSynthesis, int64(p.t[SynthEnd])-int64(p.t[SynthStart]))
			}
			if p.t[Queued] != absent && p.t[GPUEnd] != absent {
				r.longestProof = max(r.longestProof, int64(p.t[GPUEnd])-int64(p.t[Queued]))
			}
		}
		a.settle(s)
		s.first, _ = s.Extent()
		slices.SortFunc(s.parts, func(a, b packed) int { return cmp.Compare(a.index, b.index) })
		s.index = nil
		if s.parts[0].index >= 0 {
			s.Count = max(s.Count, len(s.parts))
		} else {
			s.Count = 0
		}
	}
	slices.SortStableFunc(r.Sectors, func(a, b *Sector) int {
		return cmp.Compare(a.first, b.first)
	})
	return r
}

// infer sets a time that no line gives.
func (a *assembly) infer(p *packed, b Boundary, at int32) {
	p.t[b] = at
	p.inferred |= 1 << b
	a.run.Input.Inferred++
}

// complete derives the times that a partition lacks, and makes sure that none
// is before the one that it follows.
func (a *assembly) complete(s *Sector, p *packed) {
	has := func(b Boundary) bool { return p.t[b] != absent }
	if !has(SynthEnd) && p.state != Failed {
		switch {
		case has(Queued):
			a.infer(p, SynthEnd, p.t[Queued])
		case has(SynthStart) && p.synthMS >= 0:
			a.infer(p, SynthEnd, p.t[SynthStart]+p.synthMS)
		}
	}
	if !has(SynthStart) && has(SynthEnd) && p.synthMS >= 0 {
		a.infer(p, SynthStart, p.t[SynthEnd]-p.synthMS)
	}
	if !has(PickedUp) && has(GPUStart) {
		a.infer(p, PickedUp, p.t[GPUStart])
	}
	if !has(GPUStart) && has(GPUEnd) {
		switch {
		case has(PickedUp):
			a.infer(p, GPUStart, p.t[PickedUp])
		case p.gpuMS >= 0:
			a.infer(p, GPUStart, p.t[GPUEnd]-p.gpuMS)
			a.infer(p, PickedUp, p.t[GPUStart])
		}
	}
	if !has(Queued) && has(SynthEnd) && has(PickedUp) {
		a.infer(p, Queued, p.t[SynthEnd])
	}
	// Clocks of threads that print at once can differ by a ms, and a derived
	// time by more.
	last := int32(absent)
	for b := range p.t {
		if p.t[b] == absent {
			continue
		}
		if p.t[b] < last {
			p.t[b] = last
		}
		last = p.t[b]
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
// synthesis began that never ended.
func (a *assembly) findFailure(s *Sector) {
	skipped := int32(absent)
	for i := range s.parts {
		if p := &s.parts[i]; p.t[PickedUp] != absent && p.t[GPUStart] == absent && (skipped == absent || p.t[PickedUp] < skipped) {
			skipped = p.t[PickedUp]
		}
	}
	if skipped == absent {
		return
	}
	for i := range s.parts {
		p := &s.parts[i]
		if p.t[SynthStart] == absent || p.t[SynthEnd] != absent || p.t[PickedUp] != absent || p.t[SynthStart] >= skipped {
			continue
		}
		const reason = "its synthesis did not end, and the sector's other partitions were skipped"
		s.failed, p.state = true, Failed
		if a.run.failures == nil {
			a.run.failures = make(map[failureKey]string)
		}
		a.run.failures[failureKey{s, p.index}] = reason
		a.run.failures[failureKey{s, wholeJob}] = reason
		a.infer(p, SynthEnd, skipped)
	}
}

// failedAt ends what a failed partition was doing when its failure was told.
func (a *assembly) failedAt(s *Sector, p *packed, ms int64) {
	for _, stage := range [...][2]Boundary{{GPUStart, GPUEnd}, {SynthStart, SynthEnd}} {
		if from, to := stage[0], stage[1]; p.t[from] != absent && p.t[to] == absent {
			a.infer(p, to, max(s.relative(ms), p.t[from]))
			return
		}
	}
}

// mapDevices says which workers drive which device.
func (a *assembly) mapDevices() {
	r := a.run
	r.WorkersAssumed = len(a.workers) == 0
	byOrdinal := make(map[int]*Device)
	for w := range a.workers {
		if int(w) >= len(a.drives) {
			a.drives = append(a.drives, make([]drive, int(w)+1-len(a.drives))...)
		}
		a.drives[w].seen = true
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

package figures

// From these utilizations on, a device counts as always busy, and its kernels
// as what keeps it so.
const (
	alwaysBusy    = 0.95
	kernelsAlways = 0.85
)

// verdict says what limits the run, by the device that was busy for longest.
func (c *collector) verdict() {
	f := c.f
	v := &f.Verdict
	for i := range f.GPUs {
		g := &f.GPUs[i]
		if g.UtilizationActive != nil && (v.GPU == nil || g.BusyMS > f.GPUs[*v.GPU].BusyMS) {
			v.GPU = &i
		}
	}
	if v.GPU == nil {
		return
	}
	g := &f.GPUs[*v.GPU]
	if *g.UtilizationActive >= alwaysBusy {
		v.Bound = BoundGPU
		if k := g.KernelUtilizationActive; k != nil {
			if *k < kernelsAlways {
				v.Bound = BoundWorker
			}
			c.removes(c.idleOfKernels)
		}
		return
	}
	cause, most := UnknownCause, int64(0)
	for _, of := range [...]Cause{Synthesizing, Handoff, NoWork, UnknownCause} {
		if ms, _ := g.IdleMS(of); ms > most {
			cause, most = of, ms
		}
	}
	v.Bound = bounds[cause]
	if cause != UnknownCause {
		v.IdleMS = &most
		c.removes(func(g *GPU, from, to int64) (int64, bool) { return g.idleWithin(cause, from, to), true })
	}
}

var bounds = map[Cause]Bound{
	Synthesizing: BoundSynthesis, Handoff: BoundHandoff, NoWork: BoundNoWork, UnknownCause: BoundUnknown,
}

// removes notes what seconds per proof there would be without the time that
// each device loses between two times, where that is known. Devices share the
// work, so that the run is shorter by their mean.
func (c *collector) removes(loses func(g *GPU, from, to int64) (ms int64, known bool)) {
	f := c.f
	var from, to int64
	per, proofs := f.SecondsPerProof.Steady, f.Proofs-1
	switch {
	case per != nil:
		from, to = f.ProofEnds[0], f.ProofEnds[proofs]
	case f.SecondsPerProof.Overall != nil:
		to, per, proofs = maxMS, f.SecondsPerProof.Overall, f.Proofs
	default:
		return
	}
	var lost, devices int64
	for i := range f.GPUs {
		if g := &f.GPUs[i]; g.UtilizationActive != nil {
			if ms, known := loses(g, from, to); known {
				lost += ms
				devices++
			}
		}
	}
	f.Verdict.Saved = known(float64(lost) / float64(devices) / float64(proofs) / 1000)
	f.Verdict.Without = known(*per - *f.Verdict.Saved)
}

// idleWithin returns how long the device was idle for a cause between two times.
func (g *GPU) idleWithin(of Cause, from, to int64) int64 {
	var ms int64
	for _, i := range g.Idle {
		if i.Cause == of {
			ms += overlap(i.StartMS, i.StartMS+i.DurationMS, from, to)
		}
	}
	return ms
}

// idleOfKernels returns for how long no kernel ran on a device in its active
// window, between two times.
func (c *collector) idleOfKernels(g *GPU, from, to int64) (ms int64, known bool) {
	if g.KernelBusyMS == nil {
		return 0, false
	}
	d := c.devices[*g.Ordinal]
	first, last := d.proving.extent()
	ms = overlap(first, last, from, to)
	for start, end := range d.kernels.stretches {
		ms -= overlap(start, end, from, to)
	}
	return ms, true
}

// overlap returns for how long two stretches of time overlap.
func overlap(start, end, from, to int64) int64 {
	return max(min(end, to)-max(start, from), 0)
}

package whatif

import (
	"cmp"
	"math"
	"slices"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/run"
)

// An Outcome is what a run did, or would have done. What is not known is nil.
type Outcome struct {
	Proofs          int                     `json:"proofs"` // whole ones
	SecondsPerProof figures.SecondsPerProof `json:"seconds_per_proof"`
	MakespanMS      int64                   `json:"makespan_ms"`

	// The means over the devices that worked of their busy share of their active
	// windows, by GPU intervals and by the device's own phases.
	Utilization       *float64 `json:"utilization_active"`
	KernelUtilization *float64 `json:"kernel_utilization_active"`

	// SynthesisUtilization is the share of the synthesis workers' time, from the
	// first synthesis to the end of the last, in which they built partitions.
	SynthesisUtilization *float64 `json:"synthesis_utilization"`
}

// Rate returns the steady seconds per proof where they are known, else the
// overall ones, 0 where neither is.
func (o *Outcome) Rate() float64 {
	switch s := o.SecondsPerProof; {
	case s.Steady != nil:
		return *s.Steady
	case s.Overall != nil:
		return *s.Overall
	}
	return 0
}

// An interval is a time in ms.
type interval struct{ start, end float64 }

// intervals are what an outcome is computed from.
type intervals struct {
	workers   int // for synthesis
	syntheses []interval
	proofs    []float64 // ends of whole ones
	devices   map[int]*deviceTime
}

// A deviceTime is what a device did.
type deviceTime struct {
	busy, kernels []interval
	unknown       bool // not all of the kernels are known
}

func (v *intervals) device(ordinal int) *deviceTime {
	if v.devices == nil {
		v.devices = make(map[int]*deviceTime)
	}
	d := v.devices[ordinal]
	if d == nil {
		d = &deviceTime{}
		v.devices[ordinal] = d
	}
	return d
}

// outcome is computed with the definitions of package figures.
func (v *intervals) outcome() Outcome {
	o := Outcome{Proofs: len(v.proofs)}
	first, lastSynthesis, _ := union(v.syntheses)
	last := lastSynthesis
	var busy, kernels []float64
	for _, d := range v.devices {
		from, to, took := union(d.busy)
		last = max(last, to)
		if to <= from {
			continue
		}
		busy = append(busy, took/(to-from))
		if !d.unknown {
			_, _, inside := union(d.kernels)
			kernels = append(kernels, inside/(to-from))
		}
	}
	o.MakespanMS = int64(math.Round(last - first))
	o.Utilization = mean(busy)
	if len(kernels) == len(busy) {
		o.KernelUtilization = mean(kernels)
	}
	if length := lastSynthesis - first; length > 0 {
		var built float64
		for _, s := range v.syntheses {
			built += s.end - s.start
		}
		share := built / length / float64(v.workers)
		o.SynthesisUtilization = &share
	}
	if n := len(v.proofs); n > 0 {
		overall := (last - first) / 1000 / float64(n)
		o.SecondsPerProof.Overall = &overall
		if n > 1 {
			steady := (slices.Max(v.proofs) - slices.Min(v.proofs)) / 1000 / float64(n-1)
			o.SecondsPerProof.Steady = &steady
		}
	}
	return o
}

// union returns the first start, the last end, and how much is covered.
func union(all []interval) (first, last, covered float64) {
	if len(all) == 0 {
		return 0, 0, 0
	}
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.start, b.start) })
	first, last = all[0].start, all[0].start
	for _, i := range all {
		if i.end > last {
			covered += i.end - max(i.start, last)
			last = i.end
		}
	}
	return first, last, covered
}

// mean returns the mean, nil of nothing. It adds in order of size, so that it
// does not depend on that of the devices.
func mean(of []float64) *float64 {
	if len(of) == 0 {
		return nil
	}
	slices.Sort(of)
	var sum float64
	for _, v := range of {
		sum += v
	}
	sum /= float64(len(of))
	return &sum
}

// outcome returns what the run did.
func (w *Workload) outcome() Outcome {
	v := intervals{workers: w.settings.SynthesisWorkers}
	for _, j := range w.jobs {
		end := int64(run.Unknown)
		for i := range j.parts {
			p := &j.parts[i]
			if p.times[synthStart] != run.Unknown && p.times[synthEnd] != run.Unknown {
				v.syntheses = append(v.syntheses, interval{float64(p.times[synthStart]), float64(p.times[synthEnd])})
			}
			end = max(end, p.times[gpuEnd])
			if !p.proved {
				continue
			}
			d := v.device(p.device)
			d.busy = append(d.busy, interval{float64(p.gpuStart), float64(p.times[gpuEnd])})
			d.kernels = append(d.kernels, p.kernels...)
			d.unknown = d.unknown || len(p.kernels) == 0
		}
		if j.finished && end != run.Unknown {
			v.proofs = append(v.proofs, float64(end))
		}
	}
	return v.outcome()
}

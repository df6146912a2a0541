package whatif

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/prover/backend/sim"
)

// divide gives each proof its steps: those that were measured, else their
// median, else what the overlaps of a device's workers tell.
func (w *Workload) divide() error {
	proved := w.proved(func(*partition) int { return 0 })
	measured := 0
	for _, p := range proved {
		if !p.measured {
			continue
		}
		measured++
		for _, ph := range slices.Concat(p.steps.Device, p.steps.Finish) {
			w.name(ph.Name)
		}
	}
	for _, j := range w.jobs {
		for i := range j.parts {
			for _, ph := range j.parts[i].steps.Synthesis {
				w.name(ph.Name)
			}
		}
	}
	switch {
	case measured > 0:
		if missing := len(proved) - measured; missing > 0 {
			w.note("%s no device phases: the medians of the others stand for them.", countOf(missing, "partition has", "partitions have"))
		}
		return nil
	case w.settings.WorkersPerDevice == 1:
		w.detail = undivided
		w.whole(proved)
		return nil
	default:
		w.detail = estimated
		return w.estimate(proved)
	}
}

// name keeps the name of a phase.
func (w *Workload) name(name string) {
	if name != Synthesis && name != Finish && !slices.Contains(w.names, name) {
		w.names = append(w.names, name)
	}
}

// whole takes the GPU intervals of a device's only worker as work of the device,
// but for what was finished while the worker was at the next.
func (w *Workload) whole(proved []*partition) {
	tail := w.tail()
	for _, p := range proved {
		p.measured = true
		took := ms(p.times[gpuEnd] - p.times[pickedUp])
		tail := min(tail, took)
		p.steps.Device = []sim.Phase{{Name: Device, Duration: took - tail}}
		p.steps.Finish = finish(tail)
	}
	w.note("The log has no device phases: a GPU interval counts as the device's, whose share of it is not known.")
}

// tail returns how long the finishing of a proof takes, on average, while its
// worker is at the next one, 0 where workers finish their proofs first.
func (w *Workload) tail() time.Duration {
	if w.settings.InlineFinish {
		return 0
	}
	var tails []time.Duration
	for a, b := range w.successions(func(p *partition) int { return p.worker }) {
		waited := b.times[pickedUp]-b.times[queued] > slackMS
		if waited && b.times[pickedUp] < a.times[gpuEnd] {
			tails = append(tails, ms(a.times[gpuEnd]-b.times[pickedUp]))
		}
	}
	return median(tails)
}

func finish(took time.Duration) []sim.Phase {
	if took <= 0 {
		return nil
	}
	return []sim.Phase{{Name: Finish, Duration: took}}
}

// fewest is of how many proofs an estimate is made at least.
const fewest = 5

// fewestAlone is how many of them nothing has hindered: with one alone, as at the
// start of a run whose proofs never end before the next ones, chance decides.
const fewestAlone = 2

// estimate divides the GPU intervals of workers that share a device. They wait
// for each other, so that an interval alone does not tell how long the device
// worked: where a worker waited, its proof ends after the one before it by the
// time on the device. A proof that began while the device's other workers had
// nothing did not wait: what it took beyond that is the CPUs'.
func (w *Workload) estimate(proved []*partition) error {
	var alone, spacing []time.Duration
	byDevice := w.proved(func(p *partition) int { return p.device })
	ended := int64(run.Unknown)
	for i, p := range byDevice {
		if i > 0 && byDevice[i-1].device != p.device {
			ended = run.Unknown
		}
		if p.times[pickedUp] >= ended {
			alone = append(alone, ms(p.times[gpuEnd]-p.times[pickedUp]))
		}
		ended = max(ended, p.times[gpuEnd])
	}
	unhindered := median(alone)
	slices.SortStableFunc(byDevice, func(a, b *partition) int {
		return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.times[gpuEnd], b.times[gpuEnd]))
	})
	for i := 1; i < len(byDevice); i++ {
		a, b := byDevice[i-1], byDevice[i]
		waited := ms(b.times[gpuEnd]-b.times[pickedUp]) > unhindered
		if a.device == b.device && b.times[pickedUp] < a.times[gpuEnd] && waited {
			spacing = append(spacing, ms(b.times[gpuEnd]-a.times[gpuEnd]))
		}
	}
	if len(spacing) < fewest || len(alone) < fewestAlone {
		return errors.New("the log has no device phases, and too few proofs on a device overlap, or too few do not, to tell how long it worked on each: " + needed)
	}
	tail := w.tail()
	device := min(median(spacing), unhindered-tail)
	prepare := max(unhindered-tail-device, 0)
	for _, p := range proved {
		p.measured = true
		p.steps.Prepare, p.steps.Finish = prepare, finish(tail)
		p.steps.Device = []sim.Phase{{Name: Device, Duration: device}}
	}
	w.note("The log has no device phases, so that they are estimated, the same for each partition: %.2f s on the device, the median time from one proof's end to the next where a worker had waited for the device (%d of %d), and %.2f s on CPUs, what a proof took beyond that where none was before it (%d).",
		device.Seconds(), len(spacing), len(proved), (unhindered - device).Seconds(), len(alone))
	return nil
}

func median(of []time.Duration) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[len(of)/2]
}

// fill gives finished partitions of which the run lacks a time the medians of
// the others.
func (w *Workload) fill() {
	var syntheses, prepares, devices, finishes []time.Duration
	for _, j := range w.jobs {
		for i := range j.parts {
			p := &j.parts[i]
			if p.steps.Synthesis != nil {
				syntheses = append(syntheses, total(p.steps.Synthesis))
			}
			if p.measured {
				prepares = append(prepares, p.steps.Prepare)
				devices = append(devices, total(p.steps.Device)+p.rest)
				finishes = append(finishes, total(p.steps.Finish))
			}
		}
	}
	synthesis, prepare, device, tail := median(syntheses), median(prepares), median(devices), median(finishes)
	filled := 0
	for _, j := range w.jobs {
		for i := range j.parts {
			p := &j.parts[i]
			lacks := false
			if p.steps.Synthesis == nil {
				p.steps.Synthesis = []sim.Phase{{Name: Synthesis, Duration: synthesis}}
				lacks = true
			}
			if !p.measured && (p.proved || j.finished) {
				lacks = lacks || !p.proved
				p.steps.Prepare, p.steps.Finish = prepare, finish(tail)
				p.steps.Device = []sim.Phase{{Name: Device, Duration: device}}
			}
			if lacks {
				filled++
			}
		}
	}
	if filled > 0 {
		w.note("%s times that the log lacks: the medians of the others stand for them.", countOf(filled, "partition has", "partitions have"))
	}
}

func total(phases []sim.Phase) time.Duration {
	var sum time.Duration
	for _, ph := range phases {
		sum += ph.Duration
	}
	return sum
}

// arrivals finds out how the jobs came. One that was admitted well before its
// first synthesis came then. One that began as a synthesis worker became free
// had waited for that, and could have come as early as the one before it. One
// that found a worker free came at that time, or, where a proof had just ended,
// because of that.
func (w *Workload) arrivals() {
	var starts, ends []int64
	var syntheses []time.Duration
	for _, j := range w.jobs {
		for i := range j.parts {
			if t := j.parts[i].times; t[synthStart] != run.Unknown && t[synthEnd] != run.Unknown {
				starts, ends = append(starts, t[synthStart]), append(ends, t[synthEnd])
				syntheses = append(syntheses, ms(t[synthEnd]-t[synthStart]))
			}
		}
	}
	slices.Sort(starts)
	slices.Sort(ends)
	slack := max(slackMS, median(syntheses).Milliseconds()/100)
	// busy returns how many syntheses ran, or had just ended, as one began.
	busy := func(t int64) int {
		begun, _ := slices.BinarySearch(starts, t)
		over, _ := slices.BinarySearch(ends, t-slack)
		return begun - over
	}
	origin := w.jobs[0].start
	var before []int64 // ends of the jobs before, in their order
	waited, timed, fed := 0, 0, 0
	for i, j := range w.jobs {
		came := j.start
		if at := j.sector.Admitted; at != run.Unknown && at/1000 < came {
			came = at / 1000
		}
		ended, _ := slices.BinarySearch(before, came+1)
		switch {
		case came <= origin:
		case j.start-came <= slack && busy(j.start) >= w.settings.SynthesisWorkers:
			j.arrival = w.jobs[i-1].arrival
			waited++
		case ended > 0 && came-before[ended-1] <= slack:
			j.arrival.after = ended
			fed++
		default:
			j.arrival.at = ms(came - origin)
			timed++
		}
		end := int64(run.Unknown)
		for k := range j.parts {
			end = max(end, j.parts[k].times[gpuEnd])
		}
		at, _ := slices.BinarySearch(before, end)
		before = slices.Insert(before, at, end)
	}
	if waited > 0 {
		w.note("%s as a synthesis worker became free: that counts as having waited, so that with more workers it would have been earlier.", countOf(waited, "job began", "jobs began"))
	}
	if timed > 0 {
		w.note("%s while synthesis workers were free: the predictions keep the times.", countOf(timed, "job came", "jobs came"))
	}
	if fed > 0 {
		w.note("%s as another's proof ended: so it is in the predictions, whenever that is.", countOf(fed, "job came", "jobs came"))
	}
}

package whatif

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/prover"
	"github.com/provetrace/provetrace/prover/backend/sim"
	"github.com/provetrace/provetrace/tracing"
)

// A Workload is what a run tells for predictions: the durations of its
// partitions, how its jobs came, and the settings that it had.
type Workload struct {
	settings Settings
	jobs     []*job
	measured Outcome
	detail   detail
	names    []string // of phases inside the steps
	notes    []string

	seen int // syntheses at once, at most
}

// A job is a sector of the run.
type job struct {
	sector   *run.Sector
	parts    []partition
	start    int64 // ms of the run's clock
	arrival  arrival
	first    int  // the number of its first partition, through the run
	finished bool // all of its partitions are, so that its proof counts
}

// An arrival says when a job comes: at a time, but not before so many proofs of
// others have ended.
type arrival struct {
	at    time.Duration // since the run's first synthesis
	after int
}

// A partition is what the run measured of one.
type partition struct {
	times    [5]int64 // synthesis, GPU interval: ms of the run's clock
	steps    sim.Durations
	rest     time.Duration // of the time under the device's lock, in none of its phases
	device   int
	worker   int
	measured bool // the steps inside the GPU interval are known
	proved   bool

	gpuStart int64      // ms
	kernels  []interval // the device's phases
}

// detail says how well the run tells the steps of a GPU interval.
type detail uint8

const (
	divided   detail = iota // its device phases are known
	estimated               // they are not, but the overlaps of a device's workers tell them on average
	undivided               // it is one piece
)

// MaxPartitions bounds the partitions that are replayed: of a longer run its
// first sectors are.
const MaxPartitions = 20_000

// Measure returns what a run tells. Without any partition that was proved there
// is nothing to replay.
func Measure(r *run.Run) (*Workload, error) {
	w := &Workload{}
	of := figures.Of(r)
	switch of.Mode {
	case figures.MixedModes:
		return nil, errors.New("the run has whole sectors and partitions, which no setting of the pipeline has: give one with either")
	case figures.WholeSectors:
		w.settings.Mode = prover.Sector
	}
	w.settings.Devices, w.settings.WorkersPerDevice = 1, 1
	used := 0
	for i := range of.GPUs {
		if n := len(of.GPUs[i].Workers); n > 0 {
			used++
			w.settings.WorkersPerDevice = max(w.settings.WorkersPerDevice, n)
		}
	}
	w.settings.Devices = max(used, 1)
	w.seen = of.Synthesis.Max
	w.settings.SynthesisWorkers = max(w.seen, 1)

	if err := w.collect(r); err != nil {
		return nil, err
	}
	w.settings.InlineFinish = w.inline()
	if err := w.divide(); err != nil {
		return nil, err
	}
	w.fill()
	w.arrivals()
	if r.WorkersAssumed && w.settings.WorkersPerDevice > 1 {
		w.note("No line tells which worker drives which device: all count as of one.")
	}
	w.measured = w.outcome()
	if c := of.Synthesis; c.Correlation != nil && *c.Correlation >= 0.5 && c.SlopeMS != nil && of.Partitions >= 20 {
		w.note("Syntheses slowed each other in this run, by %.1f s for each further one beside it: with another number of synthesis workers each would take another time, which the predictions do not hold.", *c.SlopeMS/1000)
	}
	return w, nil
}

// Settings returns those that the run had, as far as it tells them.
func (w *Workload) Settings() Settings { return w.settings }

// Measured returns what the run did, of the part of it that is replayed.
func (w *Workload) Measured() Outcome { return w.measured }

// Notes say, in sentences, what the predictions rest on.
func (w *Workload) Notes() []string { return w.notes }

func (w *Workload) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// collect takes the jobs in the order of their first syntheses, with what is
// known of their partitions.
func (w *Workload) collect(r *run.Run) error {
	sectors := slices.Clone(r.Sectors)
	slices.SortStableFunc(sectors, func(a, b *run.Sector) int { return cmp.Compare(a.First(), b.First()) })
	total, proved, partly := 0, 0, 0
	for i, s := range sectors {
		if total > 0 && total+s.Len() > MaxPartitions {
			w.note("Of %d sectors the first %d are replayed.", len(sectors), i)
			break
		}
		j := &job{sector: s, finished: s.State() == run.Finished, start: run.Unknown}
		for p := range s.Partitions() {
			q, ok := measure(&p)
			if !ok {
				continue
			}
			j.parts = append(j.parts, q)
			if start := q.times[0]; start != run.Unknown && (j.start == run.Unknown || start < j.start) {
				j.start = start
			}
		}
		if j.start == run.Unknown {
			continue
		}
		for i := range j.parts {
			if j.parts[i].proved {
				proved++
			}
		}
		j.first = total
		total += len(j.parts)
		w.jobs = append(w.jobs, j)
		if !j.finished {
			partly++
		}
	}
	if proved == 0 {
		return errors.New("the run has no partition whose synthesis and proof are known, so that there is nothing to replay")
	}
	slices.SortStableFunc(w.jobs, func(a, b *job) int { return cmp.Compare(a.start, b.start) })
	if partly > 0 {
		w.note("%s not finished: what is known of the partitions is replayed as load, and counts as no proof.", countOf(partly, "sector is", "sectors are"))
	}
	return nil
}

// Times of a partition.
const (
	synthStart = iota
	synthEnd
	queued
	pickedUp
	gpuEnd
)

// measure takes what a run tells of a partition, and reports whether that is
// anything that took time.
func measure(p *run.Partition) (partition, bool) {
	q := partition{device: p.Device, worker: p.Worker}
	for i, b := range [...]run.Boundary{run.SynthStart, run.SynthEnd, run.Queued, run.PickedUp, run.GPUEnd} {
		q.times[i] = p.Times[b]
	}
	if q.times[pickedUp] == run.Unknown {
		q.times[pickedUp] = p.Times[run.GPUStart]
	}
	if q.gpuStart = p.Times[run.GPUStart]; q.gpuStart == run.Unknown {
		q.gpuStart = q.times[pickedUp]
	}
	q.proved = p.State == run.Finished && q.times[pickedUp] != run.Unknown && q.times[gpuEnd] != run.Unknown
	if q.times[synthStart] != run.Unknown && q.times[synthEnd] != run.Unknown {
		q.steps.Synthesis = parts(slices.Collect(p.SynthesisPhases()), Synthesis, q.times[synthStart], q.times[synthEnd])
	} else if p.State != run.Finished {
		return q, false
	}
	if q.proved {
		q.divide(p)
	}
	return q, true
}

// divide takes the steps of the GPU interval from its phases, where they are
// known.
func (q *partition) divide(p *run.Partition) {
	first, last, locked := int64(run.Unknown), int64(run.Unknown), int64(run.Unknown)
	var tail []run.Phase // of the CPUs, that begin before the device is done too
	var inside int64
	for ph := range p.Phases() {
		switch {
		case figures.OnDevice(ph.Name):
			if first == run.Unknown {
				first = ph.Start
			}
			last = max(last, ph.End)
			inside += ph.End - ph.Start
			q.kernels = append(q.kernels, interval{float64(ph.Start), float64(ph.End)})
			q.steps.Device = append(q.steps.Device, sim.Phase{Name: ph.Name, Duration: ms(ph.End - ph.Start)})
		case ph.Name == tracing.SpanDeviceWait:
			locked = ph.Start
		case ph.Name != tracing.SpanPrepare:
			tail = append(tail, ph)
		}
	}
	if first == run.Unknown {
		return
	}
	if locked == run.Unknown {
		locked = first
	}
	q.measured = true
	q.steps.Prepare = ms(locked - q.times[pickedUp])
	q.rest = ms(last - first - inside)
	q.steps.Finish = parts(tail, Finish, last, q.times[gpuEnd])
}

// parts returns the phases of a step from one time to another, and under the
// step's own name what of it they are not.
func parts(known []run.Phase, name string, from, to int64) []sim.Phase {
	var all []sim.Phase
	rest := max(to-from, 0)
	for _, ph := range known {
		if length := min(ph.End-max(ph.Start, from), rest); length > 0 {
			rest -= length
			all = append(all, sim.Phase{Name: ph.Name, Duration: ms(length)})
		}
	}
	return append(all, sim.Phase{Name: name, Duration: ms(rest)})
}

func ms(v int64) time.Duration { return time.Duration(max(v, 0)) * time.Millisecond }

// inline reports whether no GPU worker took a partition before it had finished
// the last.
func (w *Workload) inline() bool {
	for a, b := range w.successions(func(p *partition) int { return p.worker }) {
		if b.times[pickedUp] < a.times[gpuEnd]-slackMS {
			return false
		}
	}
	return true
}

// slackMS is by how much, in ms, the times of what happens at once can differ in
// a log.
const slackMS = 50

// proved returns the partitions that were proved, by a key and then by when they
// were picked up.
func (w *Workload) proved(key func(*partition) int) []*partition {
	var all []*partition
	for _, j := range w.jobs {
		for i := range j.parts {
			if p := &j.parts[i]; p.proved {
				all = append(all, p)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *partition) int {
		return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(a.times[pickedUp], b.times[pickedUp]))
	})
	return all
}

// successions yields each two partitions that follow each other on the same
// worker, or device.
func (w *Workload) successions(key func(*partition) int) func(func(a, b *partition) bool) {
	return func(yield func(a, b *partition) bool) {
		all := w.proved(key)
		for i, b := range all {
			if i > 0 && key(all[i-1]) == key(b) && key(b) != run.Unknown && !yield(all[i-1], b) {
				return
			}
		}
	}
}

// countOf writes a number with its noun.
func countOf(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

package whatif

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/provetrace/provetrace/prover"
	"github.com/provetrace/provetrace/prover/backend"
	"github.com/provetrace/provetrace/prover/backend/sim"
	"github.com/provetrace/provetrace/prover/groth16"
)

// Predict replays the run under other settings. It returns early, with the
// context's error, when ctx is done.
func (w *Workload) Predict(ctx context.Context, s Settings) (Outcome, error) {
	if err := w.Check(s); err != nil {
		return Outcome{}, err
	}
	if w.longest(s) > longest {
		return Outcome{}, fmt.Errorf("the steps add up to more than %.0f years, which no run took: look at the times of the log", longest.Hours()/24/365)
	}
	r := &replay{w: w, s: s, units: make(map[unit]*progress), finishing: make(map[int]int)}
	var err error
	r.Backend, err = sim.New(sim.Options{Durations: r.durations, Devices: s.Devices, Clock: &r.clock})
	if err != nil {
		return Outcome{}, err
	}
	for _, d := range r.Backend.Devices() {
		r.devices = append(r.devices, &device{Device: d, r: r})
	}
	r.pipeline, err = prover.New(prover.Options{
		Backend: r, Mode: s.Mode, SynthesisWorkers: s.SynthesisWorkers, WorkersPerDevice: s.WorkersPerDevice,
		Queue: math.MaxInt32, InlineFinish: s.InlineFinish,
	})
	if err != nil {
		return Outcome{}, err
	}
	err = r.run(ctx)
	if e := r.pipeline.Close(); err == nil {
		err = e
	}
	if err != nil {
		return Outcome{}, err
	}
	r.times.workers = s.SynthesisWorkers
	return r.times.outcome(), nil
}

// longest bounds what all steps take one after the other, far below what a
// duration can hold.
const longest = 1e9 * time.Second

// longest returns what all steps take one after the other, or more.
func (w *Workload) longest(s Settings) time.Duration {
	slower := max(1, float64(s.SynthesisWorkers)/float64(w.settings.SynthesisWorkers))
	for _, f := range s.Faster {
		slower *= max(1, 1/f.By)
	}
	var sum float64
	for _, j := range w.jobs {
		for i := range j.parts {
			p := &j.parts[i]
			for _, d := range [...]time.Duration{total(p.steps.Synthesis), p.steps.Prepare, total(p.steps.Device), p.rest, total(p.steps.Finish)} {
				sum += float64(d) * slower
			}
		}
	}
	return time.Duration(min(sum, math.MaxInt64/2))
}

// A replay is a run under other settings. As the pipeline's backend it sees each
// step begin and end, so that it knows where each unit is.
type replay struct {
	*sim.Backend
	w        *Workload
	s        Settings
	clock    sim.VirtualClock
	pipeline *prover.Pipeline
	devices  []*device

	mu           sync.Mutex
	changes      uint64 // of what follows
	submitted    int    // jobs
	over         int    // of them, those whose units are
	units        map[unit]*progress
	open         int         // units submitted that are not over
	steps        int         // under way
	synthesizing int         // of them, syntheses
	between      int         // units between two steps that nothing keeps apart
	held         int         // GPU workers that have a unit
	ran          []*progress // units that the device is done with, and that are not being finished
	finishing    map[int]int // units being finished, by worker
	left         []int       // units that are not over, by job
	times        intervals
}

// A unit is what goes through the pipeline in one piece.
type unit struct {
	job       int
	partition int // of a partition's own unit
}

// A progress is where a unit is on its way through a device.
type progress struct {
	unit
	size   int // partitions
	done   int // of them, with the present step
	worker int
	picked float64 // ms
}

// unitOf returns the unit that a partition is in.
func (r *replay) unitOf(job, partition int) unit {
	if r.s.Mode == prover.Sector {
		partition = 0
	}
	return unit{job, partition}
}

// size returns of how many partitions a unit of a job is.
func (r *replay) size(job int) int {
	if r.s.Mode == prover.Sector {
		return len(r.w.jobs[job].parts)
	}
	return 1
}

// change changes what the replay knows.
func (r *replay) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
	f()
}

// run submits the jobs as they come, and advances the clock whenever all is done
// that can be done at the present time.
func (r *replay) run(ctx context.Context) error {
	jobs, ctx := errgroup.WithContext(ctx)
	err := func() error {
		for {
			if err := r.settle(ctx); err != nil {
				return err
			}
			next, some := r.clock.Next()
			if n := r.submitted; n < len(r.w.jobs) {
				a := r.w.jobs[n].arrival
				if due := a.at <= r.clock.Now(); due && a.after <= r.over {
					r.submit(ctx, jobs, n)
					continue
				} else if !due && a.after <= r.over && (!some || a.at < next) {
					next, some = a.at, true
				}
			}
			if !some {
				return nil
			}
			r.clock.Advance(next)
		}
	}()
	if e := jobs.Wait(); e != nil {
		return e
	}
	return err
}

func (r *replay) submit(ctx context.Context, jobs *errgroup.Group, n int) {
	parts := len(r.w.jobs[n].parts)
	r.change(func() {
		r.submitted++
		r.left = append(r.left, parts/r.size(n))
		r.open += parts / r.size(n)
	})
	job := prover.Job{ID: strconv.Itoa(n), Statement: &statement{r.Statement(strconv.Itoa(n), parts), r, n}}
	jobs.Go(func() error {
		_, err := r.pipeline.Prove(ctx, job)
		return err
	})
}

// settle waits until nothing more happens at the present time.
func (r *replay) settle(ctx context.Context) error {
	const spins = 1000
	for n := 0; ; n++ {
		if r.settled() {
			return nil
		}
		if n%spins == spins-1 {
			time.Sleep(50 * time.Microsecond) // the machine is busy
		}
		runtime.Gosched()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// settled reports whether all units are where they stay until the clock is
// advanced. It asks the pipeline between two looks at where the replay has seen
// them, between which nothing changed, so that both are of the same moment.
func (r *replay) settled() bool {
	r.mu.Lock()
	changes, at := r.changes, r.known()
	r.mu.Unlock()
	stats, asleep := r.pipeline.Stats(), r.clock.Steps()
	r.mu.Lock()
	same := changes == r.changes
	r.mu.Unlock()

	workers := r.s.Devices * r.s.WorkersPerDevice
	return same && at.stay && at.steps == asleep &&
		// Every unit is known to the pipeline where it is known to the replay.
		stats.Pending+stats.Synthesizing+stats.Queued+stats.Proving == at.open &&
		stats.Synthesizing == at.synthesizing && stats.Proving == at.proving &&
		// No worker is free while there is work for it.
		(stats.Pending == 0 || stats.Synthesizing == r.s.SynthesisWorkers) &&
		(stats.Queued == 0 || at.held == workers)
}

// A place says where units are.
type place struct {
	stay                                     bool // none is on its way from one step to the next
	steps, open, synthesizing, proving, held int
}

func (r *replay) known() place {
	at := place{stay: r.between == 0, steps: r.steps, open: r.open, synthesizing: r.synthesizing, proving: len(r.units), held: r.held}
	for _, d := range r.devices {
		at.stay = at.stay && (d.waiting == 0 || d.running > 0)
	}
	for _, u := range r.ran {
		// A worker has one proof finished for it at a time.
		at.stay = at.stay && r.finishing[u.worker] > 0
	}
	return at
}

// A statement is a job that is replayed.
type statement struct {
	*sim.Statement
	r   *replay
	job int
}

func (s *statement) Synthesize(ctx context.Context, partition int, part func(name string)) (*groth16.Assignment, error) {
	r := s.r
	start := r.now()
	r.change(func() {
		r.steps++
		r.synthesizing++
	})
	a, err := s.Statement.Synthesize(ctx, partition, part)
	r.change(func() {
		r.steps--
		r.synthesizing--
		r.times.syntheses = append(r.times.syntheses, interval{start, r.now()})
	})
	return a, err
}

// now returns the time in ms.
func (r *replay) now() float64 { return r.clock.Now().Seconds() * 1000 }

// Devices returns the replay's devices.
func (r *replay) Devices() []backend.Device {
	var all []backend.Device
	for _, d := range r.devices {
		all = append(all, d)
	}
	return all
}

// A device is a device of the replay.
type device struct {
	backend.Device
	r       *replay
	waiting int // units that are prepared
	running int
}

func (d *device) Prepare(ctx context.Context, t backend.Task) (backend.Proving, error) {
	r := d.r
	job, err := strconv.Atoi(t.Job)
	if err != nil {
		return nil, fmt.Errorf("the job %q is not one of the replay's: %w", t.Job, err)
	}
	of := r.unitOf(job, t.Partition)
	var u *progress
	r.change(func() {
		if u = r.units[of]; u == nil {
			u = &progress{unit: of, size: r.size(job), worker: t.Worker, picked: r.now()}
			r.units[of] = u
			r.held++
		}
		u.begin(r)
	})
	p, err := d.Device.Prepare(ctx, t)
	r.change(func() {
		if u.end(r) {
			d.waiting++
		}
	})
	return &proving{p, d, u}, err
}

// begin begins a step of one of the unit's partitions. It reports whether that
// is the first.
func (u *progress) begin(r *replay) bool {
	r.steps++
	if u.done > 0 {
		r.between--
	}
	return u.done == 0
}

// end ends a step of one of the unit's partitions. It reports whether that is
// the last.
func (u *progress) end(r *replay) bool {
	r.steps--
	if u.done++; u.done < u.size {
		r.between++
		return false
	}
	u.done = 0
	return true
}

// A proving is a partition on its way through a device.
type proving struct {
	backend.Proving
	d *device
	u *progress
}

func (p *proving) Run(ctx context.Context, told backend.PhaseFunc) error {
	r := p.d.r
	r.change(func() {
		if p.u.begin(r) {
			p.d.waiting--
		}
		p.d.running++
	})
	at := r.now()
	err := p.Proving.Run(ctx, func(name string, start, end time.Time) {
		took := end.Sub(start).Seconds() * 1000
		if name != "" {
			r.change(func() {
				t := r.times.device(p.d.Info().Ordinal)
				t.kernels = append(t.kernels, interval{at, at + took})
			})
		}
		at += took
		told(name, start, end)
	})
	r.change(func() {
		p.d.running--
		if p.u.end(r) {
			r.ran = append(r.ran, p.u)
		}
	})
	return err
}

func (p *proving) Finish(ctx context.Context, told backend.PhaseFunc) (groth16.Proof, error) {
	r, u := p.d.r, p.u
	r.change(func() {
		if u.begin(r) {
			r.ran = slices.DeleteFunc(r.ran, func(other *progress) bool { return other == u })
			r.finishing[u.worker]++
			if !r.s.InlineFinish {
				r.held--
			}
		}
	})
	proof, err := p.Proving.Finish(ctx, told)
	r.change(func() {
		if u.end(r) {
			r.finished(u, p.d)
		}
	})
	return proof, err
}

// finished settles a unit.
func (r *replay) finished(u *progress, d *device) {
	r.finishing[u.worker]--
	if r.s.InlineFinish {
		r.held--
	}
	delete(r.units, u.unit)
	r.open--
	t := r.times.device(d.Info().Ordinal)
	t.busy = append(t.busy, interval{u.picked, r.now()})
	t.unknown = r.w.detail == undivided
	if r.left[u.job]--; r.left[u.job] > 0 {
		return
	}
	r.over++
	if r.w.jobs[u.job].finished {
		r.times.proofs = append(r.times.proofs, r.now())
	}
}

// durations returns how long the steps of a partition take under the settings.
func (r *replay) durations(name string, partition int) sim.Durations {
	n, _ := strconv.Atoi(name) // as submit wrote it
	j := r.w.jobs[n]
	p := &j.parts[partition]
	cores := 1.0
	if r.s.Mode == prover.Sector && r.w.settings.Mode == prover.Partition {
		cores = r.s.coreShare(r.w.settings.SynthesisWorkers, len(j.parts))
	}
	var d sim.Durations
	for _, ph := range p.steps.Synthesis {
		d.Synthesis = append(d.Synthesis, sim.Phase{Name: ph.Name, Duration: scaled(ph.Duration, cores*r.s.share(Synthesis, ph.Name))})
	}
	// Steps of the same length then end in an order that is always the same.
	d.Synthesis[0].Duration += time.Duration(j.first + partition)
	d.Prepare = scaled(p.steps.Prepare, r.s.share(GPU, Prepare))
	for _, ph := range p.steps.Device {
		d.Device = append(d.Device, sim.Phase{Name: ph.Name, Duration: scaled(ph.Duration, r.s.share(GPU, Device, ph.Name))})
	}
	if p.rest > 0 {
		d.Device = append(d.Device, sim.Phase{Duration: scaled(p.rest, r.s.share(GPU, Device))})
	}
	for _, ph := range p.steps.Finish {
		d.Finish = append(d.Finish, sim.Phase{Name: ph.Name, Duration: scaled(ph.Duration, r.s.share(GPU, Finish, ph.Name))})
	}
	return d
}

// coreShare returns how long the synthesis of a partition takes where sectors
// are proved in one piece, as a share of what it took where partitions were: the
// cores of all the run's workers are then divided by the sectors that are
// synthesized at once, and a sector's partitions can use as many as they are.
func (s Settings) coreShare(workers, partitions int) float64 {
	return max(float64(s.SynthesisWorkers)/float64(workers), 1/float64(partitions))
}

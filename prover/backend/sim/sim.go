// Package sim is the backend that spends given times instead of computing, so
// that scheduling can be studied, tested and foretold without a GPU.
//
// In go the durations of each partition's steps, from a [Profile] of the
// engine's experiments or from measurements, and a scale; out come proofs that
// are empty, at the times at which real ones would have been there. A scale of
// 1/1000 has a second last a millisecond, in the spans too: these say so by
// prover.backend=sim and by the device's name. A [Statement] is the synthesis
// side of it.
//
// With a [VirtualClock], steps take no real time at all.
//
// Simulated work takes no CPU, so that what the engine's workers take from each
// other (cores, memory bandwidth) shows only as far as the durations have it.
package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/provetrace/provetrace/prover/backend"
	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/tracing"
)

// Durations are what the steps of a partition take. The names of phases are
// those of their spans.
type Durations struct {
	Synthesis []Phase
	Prepare   time.Duration
	Device    []Phase // under the device's lock
	Finish    []Phase
}

// A Phase is a part of a step.
type Phase struct {
	Name     string
	Duration time.Duration
}

// A DurationsFunc gives the durations of a partition, before scaling. It may be
// called from many goroutines, more than once for a partition, and then gives
// the same.
type DurationsFunc func(job string, partition int) Durations

// Options are the options of [New].
type Options struct {
	Durations DurationsFunc
	Devices   int     // 0 means 1
	Scale     float64 // by which durations are multiplied; 0 means 1
	Faults    Faults

	// Clock, where not nil, is the time that steps take, in place of the real
	// one. A pipeline's recorder does not know it.
	Clock *VirtualClock
}

// A timekeeper is the time that steps take.
type timekeeper interface {
	time() time.Time
	until(ctx context.Context, at time.Time) error // sleeps, unless ctx is done
	close()
}

// Faults are failures that are wanted. Which steps fail follows from the seed.
type Faults struct {
	Seed   uint64
	Errors float64 // the share of steps that return an error, 0 to 1
	Panics float64 // the share of steps that panic
}

// A Backend is the simulated devices.
type Backend struct {
	durations DurationsFunc
	scale     float64
	faults    Faults
	clock     timekeeper
	devices   []backend.Device
}

// New returns a backend. Close ends it.
func New(o Options) (*Backend, error) {
	if o.Devices == 0 {
		o.Devices = 1
	}
	if o.Scale == 0 {
		o.Scale = 1
	}
	switch {
	case o.Durations == nil:
		return nil, errors.New("sim: there are no durations to spend: take those of a profile")
	case o.Devices < 0:
		return nil, fmt.Errorf("sim: there cannot be %d devices: give at least 1, or 0 for 1", o.Devices)
	case !(o.Scale > 0) || math.IsInf(o.Scale, 0):
		return nil, fmt.Errorf("sim: the scale %v is no factor for times: give a number above 0", o.Scale)
	case !(o.Faults.Errors >= 0 && o.Faults.Panics >= 0 && o.Faults.Errors+o.Faults.Panics <= 1):
		return nil, fmt.Errorf("sim: shares of %v errors and %v panics are impossible: give 0 to 1, and both together at most 1", o.Faults.Errors, o.Faults.Panics)
	}
	b := &Backend{durations: o.Durations, scale: o.Scale, faults: o.Faults}
	if b.clock = o.Clock; o.Clock == nil {
		b.clock = newClock()
	}
	for n := range o.Devices {
		b.devices = append(b.devices, &device{b, n})
	}
	return b, nil
}

// Name returns sim.
func (b *Backend) Name() string { return "sim" }

// Devices returns the simulated devices.
func (b *Backend) Devices() []backend.Device { return b.devices }

// Close ends the backend.
func (b *Backend) Close() error {
	b.clock.close()
	return nil
}

// A device is a simulated GPU.
type device struct {
	b       *Backend
	ordinal int
}

func (d *device) Info() tracing.Device {
	return tracing.Device{Ordinal: d.ordinal, Name: "simulated GPU", Model: "simulated GPU"}
}

func (d *device) Prepare(ctx context.Context, t backend.Task) (backend.Proving, error) {
	p := &proving{b: d.b, task: t, durations: d.b.durations(t.Job, t.Partition)}
	if err := p.step(ctx, "prepare", []Phase{{Duration: p.durations.Prepare}}, nil); err != nil {
		return nil, err
	}
	return p, nil
}

// A proving is a simulated proof on its way.
type proving struct {
	b         *Backend
	task      backend.Task
	durations Durations
}

func (p *proving) Run(ctx context.Context, phase backend.PhaseFunc) error {
	return p.step(ctx, "run", p.durations.Device, phase)
}

func (p *proving) Finish(ctx context.Context, phase backend.PhaseFunc) (groth16.Proof, error) {
	return groth16.Proof{}, p.step(ctx, "finish", p.durations.Finish, phase)
}

func (p *proving) Release() {}

// step spends the time of a step of the partition, and fails if it is to.
func (p *proving) step(ctx context.Context, name string, phases []Phase, told backend.PhaseFunc) error {
	if err := p.b.spend(ctx, phases, told); err != nil {
		return err
	}
	return p.b.faults.at(name, p.task.Job, p.task.Partition)
}

// spend spends the time of phases one after the other, on absolute deadlines,
// so that what one takes too long does not add up, and tells those that are
// over.
func (b *Backend) spend(ctx context.Context, phases []Phase, told backend.PhaseFunc) error {
	start := b.clock.time()
	end := start
	for _, ph := range phases {
		end = end.Add(b.scaled(ph.Duration))
	}
	err := b.clock.until(ctx, end)
	if told == nil {
		return err
	}
	now := b.clock.time()
	for i, ph := range phases {
		next := start.Add(b.scaled(ph.Duration))
		switch {
		case err != nil && next.After(now):
			return err
		case err == nil && i == len(phases)-1:
			next = now
		}
		told(ph.Name, start, next)
		start = next
	}
	return err
}

func (b *Backend) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * b.scale)
}

// A Statement is a simulated sector.
type Statement struct {
	b          *Backend
	job        string
	partitions int
}

// Statement returns a sector of a job with so many partitions.
func (b *Backend) Statement(job string, partitions int) *Statement {
	return &Statement{b, job, partitions}
}

// Partitions returns how many partitions there are.
func (s *Statement) Partitions() int { return s.partitions }

// Synthesize spends the time of a partition's synthesis. It returns nil without
// an error.
func (s *Statement) Synthesize(ctx context.Context, partition int, part func(name string)) (*groth16.Assignment, error) {
	end := s.b.clock.time()
	for _, ph := range s.b.durations(s.job, partition).Synthesis {
		part(ph.Name)
		end = end.Add(s.b.scaled(ph.Duration))
		if err := s.b.clock.until(ctx, end); err != nil {
			return nil, err
		}
	}
	return nil, s.b.faults.at("synthesize", s.job, partition)
}

// Verify takes no time.
func (s *Statement) Verify(ctx context.Context, proofs []groth16.Proof) error {
	if len(proofs) != s.partitions {
		return fmt.Errorf("there are %d proofs of %d partitions", len(proofs), s.partitions)
	}
	return s.b.faults.at("verify", s.job, tracing.Unknown)
}

// at fails a step if it is to fail.
func (f Faults) at(step, job string, partition int) error {
	if f.Errors == 0 && f.Panics == 0 {
		return nil
	}
	switch u := random(f.Seed, step, job, partition).Float64(); {
	case u < f.Errors:
		return fmt.Errorf("simulated fault in %s", step)
	case u < f.Errors+f.Panics:
		panic("simulated panic in " + step)
	}
	return nil
}

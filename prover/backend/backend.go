// Package backend is what the pipeline asks of the devices that prove
// partitions. The packages below it are such devices: cpu and sim.
//
// A partition goes through a device in three steps, so that a device is held by
// one worker for no longer than its own phases take: Prepare on the CPU, Run
// under the device's lock, and Finish on the CPU again, while the device is
// already another worker's.
package backend

import (
	"context"
	"time"

	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/tracing"
)

// A Task is a synthesized partition that is to be proved.
type Task struct {
	Job        string
	Partition  int
	Worker     int                 // of the pipeline, counted through the devices
	Assignment *groth16.Assignment // nil where the synthesis is simulated
}

// A Backend is a kind of device, and all of them that there are.
type Backend interface {
	// Name is the value of prover.backend: cpu, cuda, sim.
	Name() string

	// Devices are the devices, in the order of their ordinals from 0. They stay
	// the same until Close.
	Devices() []Device

	// Close frees the devices. No task is under way any more.
	Close() error
}

// A Device proves partitions. Several workers use it at once, but only one is
// in Run.
type Device interface {
	// Info says what the device is.
	Info() tracing.Device

	// Prepare does what can be done for a task before the device is free.
	Prepare(ctx context.Context, t Task) (Proving, error)
}

// A Proving is a task on its way through a device. Its methods are called one
// after the other; Run and Finish return early, with the context's error, when
// the context is done. It is the caller's: where another partition of the sector
// fails, what a device has begun goes on to its end.
type Proving interface {
	// Run does what needs the device. The caller holds its lock.
	Run(ctx context.Context, phase PhaseFunc) error

	// Finish does what is left and returns the proof, the zero one where the
	// proving is simulated.
	Finish(ctx context.Context, phase PhaseFunc) (groth16.Proof, error)

	// Release frees what the task holds. It is called once, last, whatever
	// happened before.
	Release()
}

// A PhaseFunc takes a phase of a device that is over, by its name in the span
// contract. A device tells the phases of a task in the order of their starts;
// those inside Run do not overlap.
type PhaseFunc func(name string, start, end time.Time)

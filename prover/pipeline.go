// Package prover is the pipeline that proves sectors. In go jobs, each with a
// [Statement] that can be synthesized partition by partition; out come the
// proofs of all partitions, verified, and on the way every phase is told to a
// [tracing.Recorder].
//
//	admission ──▶ synthesis workers ──▶ queue ──▶ workers of a device ──▶ verification
//	              within the memory     bounded   prepare, lock, run
//	              budget                          └─▶ finisher
//
// Partitions are synthesized, and proved, in the order oldest job first, then
// lowest partition. A device belongs to one of its workers only while the
// partition's own phases run on it; what comes before and after overlaps with
// the other workers' phases. The queue is bounded: where it is full, synthesis
// workers wait with what they have built.
//
// A partition that fails fails its sector, whose other partitions are then
// skipped unless a device has begun them. Other sectors go on.
package prover

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/provetrace/provetrace/prover/backend"
	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/tracing"
)

// A Mode says what goes through the pipeline in one piece.
type Mode uint8

const (
	Partition Mode = iota // each partition of a sector on its own
	Sector                // all partitions of a sector together
)

func (m Mode) String() string {
	switch m {
	case Partition:
		return "partition"
	case Sector:
		return "sector"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// MarshalText writes the mode as String does.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads partition or sector.
func (m *Mode) UnmarshalText(text []byte) error {
	for _, known := range []Mode{Partition, Sector} {
		if string(text) == known.String() {
			*m = known
			return nil
		}
	}
	return fmt.Errorf("the mode %q is not known: it is partition or sector", text)
}

// DefaultWorkersPerDevice is how many workers a device has: while one holds
// it, the other prepares its next partition.
const DefaultWorkersPerDevice = 2

// maxPartitions bounds the partitions of a sector: far more than any has.
const maxPartitions = 1 << 15

// Options are the options of [New]. What is zero has the default given.
type Options struct {
	// Backend has the devices. [Pipeline.Close] closes it.
	Backend backend.Backend

	// Recorder is told what happens. Nil records nothing. It is to be made with
	// the backend's name and devices, and closed after the pipeline.
	Recorder *tracing.Recorder

	// Mode is Partition by default.
	Mode Mode

	// SynthesisWorkers bounds the partitions, in Sector mode the sectors, that
	// are synthesized at once. By default it is 1 in Sector mode, else
	// GOMAXPROCS.
	SynthesisWorkers int

	// WorkersPerDevice is by default DefaultWorkersPerDevice.
	WorkersPerDevice int

	// Queue bounds the partitions, in Sector mode the sectors, that wait for a
	// worker without holding up a synthesis worker. By default it is twice the
	// workers of all devices.
	Queue int

	// InlineFinish has a device's worker finish a partition itself before it
	// takes the next, as the engine did before it split proving. By default
	// the worker goes on, with at most one partition being finished for it.
	InlineFinish bool

	// Memory is the budget, in bytes, for partitions from the start of their
	// synthesis until the device is done with them; PartitionBytes is what one
	// takes of it. By default there is no bound.
	Memory, PartitionBytes int64
}

// check says what is impossible, and fills in the defaults.
func (o *Options) check() error {
	if o.Backend == nil {
		return errors.New("there is no backend: choose one")
	}
	devices := len(o.Backend.Devices())
	if devices == 0 {
		return fmt.Errorf("the backend %s has no device: choose another one", o.Backend.Name())
	}
	if o.Mode > Sector {
		return fmt.Errorf("%v is no mode: it is partition or sector", o.Mode)
	}
	for _, n := range []struct {
		value    *int
		standard int
		name     string
	}{
		{&o.SynthesisWorkers, o.Mode.synthesisWorkers(), "synthesis workers"},
		{&o.WorkersPerDevice, DefaultWorkersPerDevice, "workers per device"},
		{&o.Queue, 0, "places in the queue"},
	} {
		switch {
		case *n.value < 0:
			return fmt.Errorf("there cannot be %d %s: give at least 1, or 0 for the default", *n.value, n.name)
		case *n.value == 0:
			*n.value = n.standard
		}
	}
	if o.Queue == 0 {
		o.Queue = 2 * devices * o.WorkersPerDevice
	}
	switch {
	case o.Memory < 0 || o.PartitionBytes < 0:
		return errors.New("the memory budget and the size of a partition cannot be negative")
	case o.Memory > 0 && o.PartitionBytes == 0:
		return errors.New("the memory budget has no meaning without the size of a partition: give both")
	case o.Memory > 0 && o.Memory < o.PartitionBytes:
		return fmt.Errorf("the memory budget of %d bytes is less than the %d that one partition takes: raise it", o.Memory, o.PartitionBytes)
	}
	return nil
}

func (m Mode) synthesisWorkers() int {
	if m == Sector {
		return 1
	}
	return runtime.GOMAXPROCS(0)
}

// A Job is a sector that is to be proved.
type Job struct {
	ID        string // of which one is in the pipeline at a time
	Attempt   int    // at this job, from 1; 0 means 1
	ProofKind string // porep-c2, …; may be empty
	Statement Statement
}

// A Statement is what is proved of a sector. Its partitions are synthesized in
// several goroutines at once, none of which it may end (as [runtime.Goexit]
// does, and with it a test's FailNow).
type Statement interface {
	// Partitions is how many there are: at least one, and always the same.
	Partitions() int

	// Synthesize builds a partition, by its index from 0. It calls part, in
	// its own goroutine, as it begins [tracing.SpanWitness] and then
	// [tracing.SpanConstraints], and returns early, with the context's error,
	// when ctx is done.
	Synthesize(ctx context.Context, partition int, part func(name string)) (*groth16.Assignment, error)

	// Verify checks the proofs of all partitions, in their order.
	Verify(ctx context.Context, proofs []groth16.Proof) error
}

// ErrClosed is why a job is refused once the pipeline is closed.
var ErrClosed = errors.New("the pipeline is closed")

// A Pipeline proves sectors. It may be used from many goroutines.
type Pipeline struct {
	o       Options
	devices []*device

	mu       sync.Mutex
	begin    sync.Cond       // a unit may have become free to be synthesized
	agenda   []*sector       // those with units to begin, the oldest first
	jobs     map[string]bool // under way
	admitted uint64          // sectors
	queue    queue
	idle     []*worker // in the order in which they fell idle
	free     int64     // bytes of the budget
	counts   Stats
	closed   bool // no further job is admitted
	stopped  bool // nothing is left to do

	sectors sync.WaitGroup
	workers sync.WaitGroup
	ended   chan struct{} // closed when all is
	err     error         // of closing the backend; set before ended is closed
}

// Stats is what a pipeline does at a moment. In Sector mode, all but Running and
// Proved counts sectors.
type Stats struct {
	Pending      int // not begun
	Synthesizing int
	Queued       int // offered to the devices' workers
	Proving      int // taken by a worker, and not finished
	Running      int // devices that a worker holds
	Proved       int // partitions, since the start
}

// New starts a pipeline. [Pipeline.Close] ends it.
func New(o Options) (*Pipeline, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("prover: %w", err)
	}
	p := &Pipeline{o: o, jobs: make(map[string]bool), queue: queue{room: o.Queue}, free: o.Memory, ended: make(chan struct{})}
	p.begin.L = &p.mu
	for n, d := range o.Backend.Devices() {
		dev := newDevice(d)
		p.devices = append(p.devices, dev)
		for k := range o.WorkersPerDevice {
			w := &worker{p: p, id: n*o.WorkersPerDevice + k, device: dev, next: make(chan *unit, 1)}
			p.idle = append(p.idle, w)
		}
	}
	for _, w := range slices.Clone(p.idle) {
		p.workers.Go(w.work)
	}
	for id := range o.SynthesisWorkers {
		p.workers.Go(func() { p.synthesize(id) })
	}
	return p, nil
}

// Prove proves a sector and returns the proofs of its partitions. It returns
// when they have been verified, when the sector has failed and nothing of it is
// under way any more, or at once when ctx is done: then what is under way of
// the sector winds down by itself. The sector's trace is a child of the span in
// ctx.
func (p *Pipeline) Prove(ctx context.Context, job Job) ([]groth16.Proof, error) {
	s, err := p.admit(ctx, job)
	if err != nil {
		return nil, fmt.Errorf("prover: job %q: %w", job.ID, err)
	}
	select {
	case <-s.done:
		err = s.err
	case <-ctx.Done():
		err = context.Cause(ctx)
		if p.fail(s, err); p.failure(s) == nil {
			<-s.done // it has just been proved
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("prover: job %q: %w", job.ID, err)
	}
	return s.proofs, nil
}

// admit takes a job into the pipeline.
func (p *Pipeline) admit(ctx context.Context, job Job) (*sector, error) {
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case job.ID == "":
		return nil, errors.New("it has no id: give each job its own")
	case job.Statement == nil:
		return nil, errors.New("it has no statement to prove")
	}
	var partitions int
	if err := catch(func() error { partitions = job.Statement.Partitions(); return nil }); err != nil {
		return nil, fmt.Errorf("counting its partitions: %w", err)
	}
	if partitions < 1 || partitions > maxPartitions {
		return nil, fmt.Errorf("its statement has %d partitions: it can have 1 to %d", partitions, maxPartitions)
	}
	s := newSector(ctx, job, partitions, p.o.Mode)
	if need := p.o.PartitionBytes * int64(len(s.units[0].partitions)); p.o.Memory > 0 && need > p.o.Memory {
		s.cancel(nil)
		return nil, fmt.Errorf("its %d partitions take %d bytes, and the memory budget is %d: raise it, or prove partition by partition", partitions, need, p.o.Memory)
	}
	if err := p.reserve(s); err != nil {
		s.cancel(nil)
		return nil, err
	}
	now := time.Now()
	info := tracing.SectorInfo{Job: job.ID, Attempt: job.Attempt, ProofKind: job.ProofKind, Admitted: now}
	if p.o.Mode == Partition {
		info.Partitions = partitions
	}
	s.rec = p.o.Recorder.StartSector(ctx, info, now)

	p.mu.Lock()
	defer p.mu.Unlock()
	p.admitted++
	s.age = p.admitted
	p.agenda = append(p.agenda, s)
	p.counts.Pending += len(s.units)
	p.begin.Broadcast()
	return s, nil
}

// reserve makes a sector the one of its job.
func (p *Pipeline) reserve(s *sector) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	if p.jobs[s.job.ID] {
		return errors.New("it is being proved already: wait for that to end")
	}
	p.jobs[s.job.ID] = true
	p.sectors.Go(func() { p.conclude(s) })
	return nil
}

// Stats returns what the pipeline does at present.
func (p *Pipeline) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.counts
	s.Queued = len(p.queue.units)
	for _, d := range p.devices {
		if d.held() {
			s.Running++
		}
	}
	return s
}

// Close waits until all jobs have ended, ends the pipeline and closes its
// backend, whose error it returns. Further jobs are refused from the start.
func (p *Pipeline) Close() error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.mu.Unlock()
	if !first {
		<-p.ended
		return p.err
	}
	p.sectors.Wait()

	p.mu.Lock()
	p.stopped = true
	p.begin.Broadcast()
	for _, w := range p.idle {
		w.next <- nil
	}
	p.idle = nil
	p.mu.Unlock()
	p.workers.Wait()
	if err := catch(p.o.Backend.Close); err != nil {
		p.err = fmt.Errorf("prover: closing the backend %s: %w", p.o.Backend.Name(), err)
	}
	close(p.ended)
	return p.err
}

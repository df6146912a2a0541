package prover

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/provetrace/provetrace/prover/backend"
	"github.com/provetrace/provetrace/tracing"
)

// A device is one of the backend's, with its lock.
type device struct {
	backend.Device
	ordinal int
	busy    int // workers that have a unit; guarded by the pipeline's mu

	// lock holds a token while the device is free. A channel hands it to those
	// who wait in the order in which they came, and lets them give up.
	lock chan struct{}
}

func newDevice(d backend.Device) *device {
	dev := &device{Device: d, ordinal: d.Info().Ordinal, lock: make(chan struct{}, 1)}
	dev.lock <- struct{}{}
	return dev
}

// held reports whether a worker has the lock.
func (d *device) held() bool { return len(d.lock) == 0 }

// release gives the lock to the one who waits for it, who goes on at once: what
// its last holder does next takes the device no time.
func (d *device) release() {
	d.lock <- struct{}{}
	runtime.Gosched()
}

// A worker takes units through a device.
type worker struct {
	p         *Pipeline
	id        int // counted through the devices
	device    *device
	next      chan *unit     // what the worker is given while it is idle; nil when the pipeline has stopped
	finishing sync.WaitGroup // the unit that is finished for the worker
}

// work is the worker's goroutine.
func (w *worker) work() {
	for u := <-w.next; u != nil; u = w.take() {
		w.prove(u)
	}
	w.finishing.Wait()
}

// take waits for the next unit, since the worker is done with the last.
func (w *worker) take() *unit {
	p := w.p
	p.mu.Lock()
	w.device.busy--
	if u := p.queue.pop(); u != nil {
		w.device.busy++
		p.counts.Proving++
		p.mu.Unlock()
		return u
	}
	if p.stopped {
		p.mu.Unlock()
		return nil
	}
	p.idle = append(p.idle, w)
	p.mu.Unlock()
	return <-w.next
}

// leastBusy returns the idle worker that is to have the next unit, or nil: of
// the device with the fewest units, so that none waits for a device while
// another one is free, and among these the one that has been idle longest.
func (p *Pipeline) leastBusy() *worker {
	if len(p.idle) == 0 {
		return nil
	}
	w := slices.MinFunc(p.idle, func(a, b *worker) int { return a.device.busy - b.device.busy })
	p.idle = slices.DeleteFunc(p.idle, func(other *worker) bool { return other == w })
	w.device.busy++
	p.counts.Proving++
	return w
}

// A proof is a unit in a worker's hands.
type proof struct {
	u      *unit
	span   *tracing.Phase
	parts  []backend.Proving
	phases []phase // so far not told, since that would take the device's time
}

type phase struct {
	name       string
	start, end time.Time
}

// add takes a phase that is over.
func (f *proof) add(name string, start, end time.Time) {
	f.phases = append(f.phases, phase{name, start, end})
}

// tell tells the recorder of the phases.
func (f *proof) tell() {
	for _, ph := range f.phases {
		f.span.Start(ph.name, ph.start).End(ph.end)
	}
	f.phases = f.phases[:0]
}

// prove takes a unit through the device, and leaves it to be finished.
func (w *worker) prove(u *unit) {
	now := time.Now()
	u.wait.PickUp(w.id, w.device.ordinal, now)
	f := &proof{u: u, span: u.rec.Prove(w.id, w.device.ordinal, now)}
	err := w.run(f)
	f.tell()
	w.p.release(u)
	if err != nil || w.p.o.InlineFinish {
		w.finish(f, err)
		return
	}
	w.finishing.Wait() // so that memory is bounded
	w.finishing.Go(func() { w.finish(f, nil) })
}

// run prepares a unit, waits for the device, and runs the unit on it.
func (w *worker) run(f *proof) error {
	s := f.u.s
	start := time.Now()
	err := w.prepare(f)
	prepared := time.Now()
	f.add(tracing.SpanPrepare, start, prepared)
	if err != nil {
		return err
	}
	select {
	case <-w.device.lock:
	case <-s.work.Done():
		f.add(tracing.SpanDeviceWait, prepared, time.Now())
		return context.Cause(s.work)
	}
	defer w.device.release()
	f.add(tracing.SpanDeviceWait, prepared, time.Now())
	if s.work.Err() != nil {
		return context.Cause(s.work)
	}
	for i, part := range f.parts {
		if err := catch(func() error { return part.Run(f.span.Context(s.caller), f.add) }); err != nil {
			return fmt.Errorf("partition %d: device %d: %w", f.u.partitions[i], w.device.ordinal, err)
		}
	}
	return nil
}

func (w *worker) prepare(f *proof) error {
	s := f.u.s
	ctx := f.span.Context(s.work)
	for i, partition := range f.u.partitions {
		task := backend.Task{Job: s.job.ID, Partition: partition, Worker: w.id, Assignment: f.u.assignments[i]}
		err := catch(func() error {
			part, err := w.device.Prepare(ctx, task)
			if err == nil {
				f.parts = append(f.parts, part)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("partition %d: preparing it for device %d: %w", partition, w.device.ordinal, err)
		}
	}
	f.u.assignments = nil
	return nil
}

// finish finishes a unit, unless it has failed, and settles it.
func (w *worker) finish(f *proof, err error) {
	s := f.u.s
	for i, part := range f.parts {
		if err != nil {
			break
		}
		err = catch(func() (err error) {
			s.proofs[f.u.partitions[i]], err = part.Finish(f.span.Context(s.caller), f.add)
			return err
		})
		f.tell()
		if err != nil {
			err = fmt.Errorf("partition %d: finishing its proof: %w", f.u.partitions[i], err)
		}
	}
	for _, part := range f.parts {
		if e := catch(func() error { part.Release(); return nil }); e != nil && err == nil {
			err = fmt.Errorf("releasing what the proof has held: %w", e)
		}
	}
	now := time.Now()
	if err != nil {
		f.span.Fail(now, err)
	}
	f.span.End(now)
	w.p.mu.Lock()
	w.p.counts.Proving--
	if err == nil {
		w.p.counts.Proved += len(f.u.partitions)
	}
	w.p.mu.Unlock()
	w.p.end(f.u, now, err)
}

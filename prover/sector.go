package prover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/tracing"
)

// A sector is a job on its way. Its contexts are the request's: they go with it
// from one worker to the next.
type sector struct {
	job    Job
	age    uint64 // by admission: the lowest is the oldest
	rec    *tracing.Sector
	units  []*unit
	proofs []groth16.Proof // by partition

	caller context.Context // done when the caller gives up
	work   context.Context // done too when the sector has failed
	cancel context.CancelCauseFunc

	next    int            // of units, to be begun; guarded by the pipeline's mu
	failure error          // the first; guarded by the pipeline's mu
	proved  bool           // nothing can fail any more; guarded by the pipeline's mu
	left    sync.WaitGroup // units that are not settled

	done chan struct{} // closed when all is over
	err  error         // why there is no proof; set before done is closed
}

// A unit is what goes through the pipeline in one piece.
type unit struct {
	s          *sector
	partitions []int
	bytes      int64 // taken from the budget

	rec         *tracing.Partition
	wait        *tracing.Phase // in the queue
	assignments []*groth16.Assignment

	inside   bool          // within the queue's bound; guarded by the pipeline's mu
	admitted chan struct{} // closed when the unit no longer holds up its synthesis worker
}

func newSector(ctx context.Context, job Job, partitions int, mode Mode) *sector {
	s := &sector{job: job, caller: ctx, proofs: make([]groth16.Proof, partitions), done: make(chan struct{})}
	s.work, s.cancel = context.WithCancelCause(ctx)
	all := make([]int, partitions)
	for i := range all {
		all[i] = i
	}
	size := 1
	if mode == Sector {
		size = partitions
	}
	for part := range slices.Chunk(all, size) {
		s.units = append(s.units, &unit{s: s, partitions: part, admitted: make(chan struct{})})
	}
	s.left.Add(len(s.units))
	return s
}

// compare orders units as they are synthesized and proved.
func (u *unit) compare(v *unit) int {
	return cmp.Or(cmp.Compare(u.s.age, v.s.age), cmp.Compare(u.partitions[0], v.partitions[0]))
}

// given reports whether err is no more than what the sector's contexts have
// said to a unit, since the sector has failed or its caller has given up.
func (s *sector) given(err error) bool {
	cause := context.Cause(s.work)
	return cause != nil && (errors.Is(err, cause) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

// fail fails a sector, for the first of the reasons given. What of it is not
// begun, or waits in the queue, is skipped at once; what is being synthesized,
// as soon as that has noticed.
func (p *Pipeline) fail(s *sector, err error) {
	p.mu.Lock()
	if s.failure != nil || s.proved {
		p.mu.Unlock()
		return
	}
	s.failure = err
	s.cancel(err)
	pending := s.units[s.next:]
	s.next = len(s.units)
	p.agenda = slices.DeleteFunc(p.agenda, func(other *sector) bool { return other == s })
	p.counts.Pending -= len(pending)
	queued := p.queue.remove(s)
	p.begin.Broadcast()
	p.mu.Unlock()

	now := time.Now()
	for _, u := range queued {
		u.wait.End(now)
		p.end(u, now, err)
	}
	for range pending {
		s.left.Done()
	}
}

// end settles a unit: it is proved, it has failed, or it is given up since its
// sector has failed or its caller has given up.
func (p *Pipeline) end(u *unit, at time.Time, err error) {
	p.release(u)
	s := u.s
	switch {
	case err == nil:
		u.rec.End(at, nil)
	case s.given(err):
		cause := context.Cause(s.work)
		if p.o.Mode == Partition {
			u.rec.Skip(at)
		} else {
			u.rec.End(at, cause)
		}
		p.fail(s, cause) // the caller's giving up can be noticed here first
	default:
		u.rec.End(at, err)
		p.fail(s, err)
	}
	s.left.Done()
}

// release gives back what a unit has of the budget.
func (p *Pipeline) release(u *unit) {
	if u.bytes == 0 {
		return
	}
	p.mu.Lock()
	p.free += u.bytes
	p.begin.Broadcast()
	p.mu.Unlock()
	u.bytes = 0
}

// conclude ends a sector once all of its units are settled.
func (p *Pipeline) conclude(s *sector) {
	s.left.Wait()
	if p.failure(s) == nil {
		verify := s.rec.Verify(time.Time{})
		err := catch(func() error { return s.job.Statement.Verify(verify.Context(s.caller), s.proofs) })
		if err != nil {
			err = fmt.Errorf("verifying the proof: %w", err)
			verify.Fail(time.Time{}, err)
			p.fail(s, err)
		}
		verify.End(time.Time{})
	}
	p.mu.Lock()
	s.err = s.failure
	s.proved = s.err == nil
	p.mu.Unlock()
	s.rec.End(time.Time{}, s.err)
	s.cancel(nil)
	p.mu.Lock()
	delete(p.jobs, s.job.ID)
	p.mu.Unlock()
	close(s.done)
}

// failure returns why a sector has failed, or nil.
func (p *Pipeline) failure(s *sector) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.failure
}

package prover

import (
	"fmt"
	"slices"
	"time"

	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/tracing"
)

// synthesize is a synthesis worker.
func (p *Pipeline) synthesize(worker int) {
	for u := p.nextToSynthesize(); u != nil; u = p.nextToSynthesize() {
		at, err := p.build(worker, u)
		p.mu.Lock()
		p.counts.Synthesizing--
		p.mu.Unlock()
		if err != nil {
			p.end(u, at, err)
			continue
		}
		p.offer(u)
	}
}

// nextToSynthesize waits for the first unit in order that has not been begun,
// and for its share of the budget: a later one does not overtake it. It returns
// nil when the pipeline has stopped.
func (p *Pipeline) nextToSynthesize() *unit {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if len(p.agenda) > 0 {
			s := p.agenda[0]
			u := s.units[s.next]
			need := p.o.PartitionBytes * int64(len(u.partitions))
			if p.o.Memory == 0 {
				need = 0
			}
			if need <= p.free {
				p.free -= need
				u.bytes = need
				if s.next++; s.next == len(s.units) {
					p.agenda = slices.Delete(p.agenda, 0, 1)
				}
				p.counts.Pending--
				p.counts.Synthesizing++
				return u
			}
		} else if p.stopped {
			return nil
		}
		p.begin.Wait()
	}
}

// build synthesizes a unit. It returns when that ended.
func (p *Pipeline) build(worker int, u *unit) (at time.Time, err error) {
	s := u.s
	now := time.Now()
	if p.o.Mode == Sector {
		u.rec = s.rec.WholeSector()
	} else {
		u.rec = s.rec.StartPartition(u.partitions[0], now)
	}
	synthesis := u.rec.Synthesis(worker, now)
	var part *tracing.Phase
	begin := func(name string) {
		now := time.Now()
		part.End(now)
		part = synthesis.Start(name, now)
	}
	u.assignments = make([]*groth16.Assignment, len(u.partitions))
	for i, partition := range u.partitions {
		err := catch(func() (err error) {
			u.assignments[i], err = s.job.Statement.Synthesize(synthesis.Context(s.work), partition, begin)
			return err
		})
		now = time.Now()
		if err != nil {
			err = fmt.Errorf("partition %d: synthesis: %w", partition, err)
			part.Fail(now, err)
			synthesis.Fail(now, err)
			return now, err
		}
		part.End(now)
	}
	synthesis.End(now)
	return now, nil
}

// offer puts a unit into the queue, or hands it to a worker that is idle, and
// waits while the queue is over its bound.
func (p *Pipeline) offer(u *unit) {
	now := time.Now()
	u.wait = u.rec.Queue(now)
	p.mu.Lock()
	err := u.s.failure
	if err == nil {
		if w := p.leastBusy(); w != nil {
			w.next <- u
			p.mu.Unlock()
			return
		}
		p.queue.push(u)
	}
	p.mu.Unlock()
	if err != nil {
		u.wait.End(now)
		p.end(u, now, err)
		return
	}
	<-u.admitted
}

package convert

import (
	"container/heap"
	"context"
	"iter"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
	"github.com/provetrace/provetrace/tracing/timeline"
)

// replay tells a recorder what happened in a run, in the order in which it
// happened, and closes it. From time to time it tells which share of the
// sectors has begun, and stops on an error.
func replay(ctx context.Context, r *run.Run, rec *tracing.Recorder, tick func(float64) error) error {
	defer rec.Close(r.Time(r.Last))
	p := player{r: r, rec: rec}
	next := 0
	for steps := 0; next < len(r.Sectors) || len(p.cursors) > 0; steps++ {
		if steps&0x3ff == 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := tick(float64(next) / float64(len(r.Sectors))); err != nil {
				return err
			}
		}
		if next < len(r.Sectors) {
			if s := r.Sectors[next]; len(p.cursors) == 0 || s.First() <= p.cursors[0].at {
				p.begin(ctx, s)
				next++
				continue
			}
		}
		c := p.cursors[0]
		if p.step(c); c.done {
			heap.Pop(&p.cursors)
			p.free = append(p.free, c)
		} else {
			heap.Fix(&p.cursors, 0)
		}
	}
	return nil
}

// A player is a run in replay: it holds the sectors under way.
type player struct {
	r       *run.Run
	rec     *tracing.Recorder
	cursors cursors
	free    []*cursor            // whose partitions have ended
	attrs   []attribute.KeyValue // the latest facts
}

// A playing is a sector under way.
type playing struct {
	sector *run.Sector
	rec    *tracing.Sector
	left   int   // partitions
	last   int64 // end so far, ms
}

// A cursor is a partition under way, at its next boundary.
type cursor struct {
	at   int64 // ms
	next run.Boundary
	done bool

	of        *playing
	partition run.Partition
	end       int64
	rec       *tracing.Partition
	phase     *tracing.Phase // the one that is open
}

// ending is the step behind the last boundary.
const ending = run.GPUEnd + 1

type cursors []*cursor

func (c cursors) Len() int           { return len(c) }
func (c cursors) Less(i, j int) bool { return c[i].at < c[j].at }
func (c cursors) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *cursors) Push(x any)        { *c = append(*c, x.(*cursor)) }
func (c *cursors) Pop() any {
	old := *c
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*c = old[:len(old)-1]
	return x
}

// begin begins a sector.
func (p *player) begin(ctx context.Context, s *run.Sector) {
	info := tracing.SectorInfo{Job: s.Job, Attempt: s.Attempt, ProofKind: s.ProofKind, Partitions: s.Count}
	if s.Admitted != run.Unknown && s.KnowsStarts() { // else the wait would not be the admission's
		info.Admitted = p.r.Epoch.Time.Add(time.Duration(s.Admitted) * time.Microsecond)
	}
	of := &playing{sector: s, rec: p.rec.StartSector(ctx, info, p.r.Time(s.First())), last: s.First()}
	for partition := range s.Partitions() {
		of.left++
		c := p.newCursor()
		*c = cursor{of: of, partition: partition, end: s.EndOf(&partition)}
		c.seek()
		heap.Push(&p.cursors, c)
	}
	if of.left == 0 { // it only waited
		of.rec.Abandon(p.r.Time(s.First()))
	}
}

// newCursor returns a cursor, which may have been used before.
func (p *player) newCursor() *cursor {
	if n := len(p.free); n > 0 {
		c := p.free[n-1]
		p.free = p.free[:n-1]
		return c
	}
	return new(cursor)
}

// seek moves the cursor to the next boundary that is known.
func (c *cursor) seek() {
	for c.next < ending && !c.partition.Known(c.next) {
		c.next++
	}
	if c.next < ending {
		c.at = c.partition.Times[c.next]
	} else {
		c.at = c.end
	}
}

// step tells the recorder of the cursor's boundary and moves the cursor on.
func (p *player) step(c *cursor) {
	at := p.r.Time(c.at)
	part := &c.partition
	if c.rec == nil {
		if part.Index == timeline.WholeSector {
			c.rec = c.of.rec.WholeSector()
		} else {
			c.rec = c.of.rec.StartPartition(part.Index, at)
		}
	}
	switch c.next {
	case run.SynthStart:
		c.phase = c.rec.Synthesis(part.SynthesisWorker, at, p.facts(c, run.SynthStart)...)
		p.phases(c.phase, part.SynthesisPhases())
	case run.SynthEnd:
		p.endPhase(c, run.SynthEnd, at)
	case run.Queued:
		c.phase = c.rec.Queue(at, p.facts(c, run.Queued)...)
	case run.PickedUp:
		p.endPhase(c, run.PickedUp, at)
	case run.GPUStart:
		c.phase = c.rec.Prove(part.Worker, part.Device, at, p.facts(c, run.GPUStart)...)
		p.phases(c.phase, part.Phases())
	case run.GPUEnd:
		p.endPhase(c, run.GPUEnd, at)
	case ending:
		p.endPartition(c, at)
		return
	}
	c.next++
	c.seek()
}

// phases records the parts of a phase.
func (p *player) phases(of *tracing.Phase, parts iter.Seq[run.Phase]) {
	for in := range parts {
		of.Start(in.Name, p.r.Time(in.Start)).End(p.r.Time(in.End))
	}
}

// endPhase ends the phase whose end a boundary is.
func (p *player) endPhase(c *cursor, to run.Boundary, at time.Time) {
	ph := c.phase
	c.phase = nil
	if ph == nil {
		return // its start is not known
	}
	part := &c.partition
	switch {
	case part.State == run.Failed && p.isLast(part, to):
		ph.Fail(at, tracing.Failure(part.Failure))
	case to == run.PickedUp:
		ph.PickUp(part.Worker, part.Device, at)
	default:
		ph.End(at)
	}
}

// facts returns what is known beside its times of the phase that begins at a
// boundary.
func (p *player) facts(c *cursor, from run.Boundary) []attribute.KeyValue {
	part := &c.partition
	attrs := p.attrs[:0]
	reported := int64(run.Unknown)
	switch from {
	case run.SynthStart:
		reported = part.SynthMS
	case run.GPUStart:
		reported = part.GPUMS
		attrs = appendTelemetry(attrs, part.Telemetry)
	}
	if reported != run.Unknown {
		attrs = append(attrs, tracing.ReportedDuration.Int64(reported))
	}
	var ends []string
	if part.Inferred(from) {
		ends = append(ends, tracing.InferredStart)
	}
	if part.Inferred(from+1) || !part.Known(from+1) {
		ends = append(ends, tracing.InferredEnd)
	}
	if ends != nil {
		attrs = append(attrs, tracing.Inferred.StringSlice(ends))
	}
	p.attrs = attrs
	return attrs
}

// appendTelemetry appends what a device's sensors told, if anything.
func appendTelemetry(attrs []attribute.KeyValue, t *run.Telemetry) []attribute.KeyValue {
	if t == nil {
		return attrs
	}
	for _, x := range []struct {
		known bool
		kv    attribute.KeyValue
	}{
		{t.Utilization != run.Unknown, tracing.GPUUtilization.Float64(t.Utilization)},
		{t.MemoryUsed != run.Unknown, tracing.GPUMemoryUsed.Int64(t.MemoryUsed)},
		{t.Power != run.Unknown, tracing.GPUPower.Float64(t.Power)},
		{t.Temperature != run.Unknown, tracing.GPUTemperature.Int64(t.Temperature)},
		{t.PCIeRx != run.Unknown, tracing.GPUPCIeRx.Float64(t.PCIeRx)},
		{t.PCIeTx != run.Unknown, tracing.GPUPCIeTx.Float64(t.PCIeTx)},
		{t.Samples != run.Unknown, tracing.GPUSamples.Int64(t.Samples)},
	} {
		if x.known {
			attrs = append(attrs, x.kv)
		}
	}
	return attrs
}

// isLast reports whether nothing is known of a partition after a boundary.
func (p *player) isLast(part *run.Partition, b run.Boundary) bool {
	for b++; b < ending; b++ {
		if part.Known(b) {
			return false
		}
	}
	return true
}

// endPartition ends a partition, and its sector with the last of them.
func (p *player) endPartition(c *cursor, at time.Time) {
	c.done = true
	part, of := &c.partition, c.of
	switch part.State {
	case run.Finished:
		c.rec.End(at, nil)
	case run.Failed:
		c.rec.End(at, tracing.Failure(part.Failure))
	case run.Skipped:
		c.rec.Skip(at)
	case run.Incomplete:
		c.rec.Abandon(at)
	}
	of.last = max(of.last, c.end)
	if of.left--; of.left > 0 {
		return
	}
	for _, check := range of.sector.Checks() {
		of.rec.Verify(p.r.Time(check.Start)).End(p.r.Time(check.End))
		of.last = max(of.last, check.End)
	}
	last := p.r.Time(of.last)
	reason, failed := of.sector.Failed()
	switch {
	case failed && reason == "":
		of.rec.End(last, tracing.Failure("a partition failed"))
	case failed:
		of.rec.End(last, tracing.Failure(reason))
	case of.sector.State() == run.Incomplete:
		of.rec.Abandon(last)
	default:
		of.rec.End(last, nil)
	}
}

package run

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/provetrace/provetrace/tracing"
	"github.com/provetrace/provetrace/tracing/timeline"
)

// A sectorTree is what a trace has of a sector.
type sectorTree struct {
	span       *record // nil where it is missing
	job        string
	count      int32
	admission  *record
	checks     []*record
	partitions []*partitionTree
}

// A partitionTree is what a trace has of a partition.
type partitionTree struct {
	span      *record // nil where it is missing, or the sector is proved in one piece
	index     int32
	synthesis *record
	queue     *record
	prove     *record
	inner     []*record // phases of the synthesis and of the proof
}

// A grove is a trace of which sectors are made.
type grove struct {
	spans      []record // by id
	sectors    []*sectorTree
	bySpan     map[uint64]*sectorTree    // by the id of its span, be that there or not
	partitions map[uint64]*partitionTree // as well
	indices    map[placed]bool
	lineages   []lineage // of the spans, as far as they were asked for
	repeated   int       // spans that say again what others do
}

// A lineage says where a span's parents lead.
type lineage uint8

const (
	lineageUnknown  lineage = iota
	lineageFollowed         // being found out
	lineageEnds             // to a root, or to a span that is missing
	lineageCircular         // into a circle
)

// placed is a place that one partition can have.
type placed struct {
	sector *sectorTree
	index  int32
}

// settle makes sectors of the spans of a trace.
func (of *gathered) settle(g *gatherer, t *tree) {
	gr := grove{
		spans: t.spans, bySpan: make(map[uint64]*sectorTree),
		partitions: make(map[uint64]*partitionTree), indices: make(map[placed]bool),
	}
	gr.grow(t.id.String())
	of.r.Input.Events += int64(len(t.spans))
	of.r.Input.Duplicates += int64(gr.repeated)
	for i := range gr.spans {
		r := &gr.spans[i]
		if r.is(markPlaced) {
			continue
		}
		of.r.Input.Events--
		if (r.kind != kindOther || gr.outer(r) != nil) && gr.circular(i) {
			g.problem(fmt.Sprintf("has a span %q of trace %s whose parents go in a circle", r.span(), t.id))
		} else {
			g.input.Foreign++
		}
	}
	for _, s := range gr.sectors {
		if problem := of.addSector(s); problem != "" {
			g.problem(problem)
		}
	}
}

// find returns the span of an id, or nil.
func (g *grove) find(id uint64) *record {
	if i, ok := g.search(id); ok {
		return &g.spans[i]
	}
	return nil
}

// search returns where the span of an id is.
func (g *grove) search(id uint64) (int, bool) {
	return slices.BinarySearchFunc(g.spans, id, func(r record, id uint64) int { return cmp.Compare(r.id, id) })
}

// circular reports whether the parents of a span go in a circle. No span is
// followed twice, however often it is asked.
func (g *grove) circular(i int) bool {
	if g.lineages == nil {
		g.lineages = make([]lineage, len(g.spans))
	}
	var followed []int
	leads := lineageEnds
	for at, ok := i, true; ok; at, ok = g.search(g.spans[at].parent) {
		if known := g.lineages[at]; known != lineageUnknown {
			if leads = known; known == lineageFollowed {
				leads = lineageCircular
			}
			break
		}
		g.lineages[at] = lineageFollowed
		followed = append(followed, at)
	}
	for _, at := range followed {
		g.lineages[at] = leads
	}
	return leads == lineageCircular
}

// grow gives each span its place. A span whose parent is missing, since the
// record stops before that ended, has it by what it says itself.
func (g *grove) grow(trace string) {
	slices.SortStableFunc(g.spans, func(a, b record) int { return cmp.Compare(a.id, b.id) })
	all := len(g.spans)
	g.spans = slices.CompactFunc(g.spans, func(a, b record) bool { return a.id == b.id })
	g.repeated = all - len(g.spans)

	g.each(kindSector, func(r *record) bool {
		s := g.sector(r.id, r.name)
		s.span, s.count = r, r.count
		return true
	})
	g.each(kindPartition, func(r *record) bool {
		s := g.bySpan[r.parent]
		if s == nil {
			if g.find(r.parent) != nil {
				return false
			}
			s = g.sector(r.parent, cmp.Or(r.name, trace))
		}
		s.count = max(s.count, r.count)
		if p := g.partition(s, r.id, r.index); p != nil {
			p.span = r
		}
		return true
	})
	g.each(kindAdmission, func(r *record) bool {
		s := g.bySpan[r.parent]
		if s != nil {
			s.admission = r
		}
		return s != nil
	})
	g.each(kindVerify, func(r *record) bool {
		s := g.bySpan[r.parent]
		if s != nil {
			s.checks = append(s.checks, r)
		}
		return s != nil
	})
	g.each(kindOverview, func(*record) bool { return true })
	g.each(kindOverviewSector, func(*record) bool { return true })
	for _, kind := range []recordKind{kindSynthesis, kindQueue, kindProve} {
		g.each(kind, func(r *record) bool { return g.phase(r, trace) })
	}
	g.each(kindOther, g.inner)
}

// each takes the spans of a kind, and marks those that have a place.
func (g *grove) each(kind recordKind, take func(*record) bool) {
	for i := range g.spans {
		if r := &g.spans[i]; r.kind == kind && take(r) {
			r.marks |= markPlaced
		}
	}
}

// sector returns the sector whose span has an id.
func (g *grove) sector(id uint64, job string) *sectorTree {
	s := g.bySpan[id]
	if s == nil {
		s = &sectorTree{job: job}
		g.bySpan[id] = s
		g.sectors = append(g.sectors, s)
	}
	return s
}

// partition returns a new partition of a sector, or nil if the sector has it
// already.
func (g *grove) partition(s *sectorTree, id uint64, index int32) *partitionTree {
	if g.indices[placed{s, index}] {
		g.repeated++
		return nil
	}
	g.indices[placed{s, index}] = true
	p := &partitionTree{index: index}
	g.partitions[id] = p
	s.partitions = append(s.partitions, p)
	return p
}

// phase puts a phase into its partition.
func (g *grove) phase(r *record, trace string) bool {
	p := g.partitions[r.parent]
	if p == nil {
		s := g.bySpan[r.parent]
		parent := g.find(r.parent)
		switch {
		case s != nil && s.span != nil:
			p = g.partition(s, r.parent, timeline.WholeSector)
		case parent != nil:
			return parent.kind == kindOverviewSector
		case r.index >= 0:
			if len(g.sectors) == 0 {
				g.sector(0, trace)
			}
			if len(g.sectors) > 1 {
				return false
			}
			p = g.partition(g.sectors[0], r.parent, r.index)
		}
		if p == nil {
			return false
		}
	}
	of := &p.prove
	switch r.kind {
	case kindSynthesis:
		of = &p.synthesis
	case kindQueue:
		of = &p.queue
	}
	if *of != nil {
		g.repeated++
	} else {
		*of = r
	}
	return true
}

// outer returns the synthesis or the proof that a span is a phase of, or nil. A
// program's own spans in it are of another scope.
func (g *grove) outer(r *record) *record {
	parent := g.find(r.parent)
	if parent == nil || parent.scope != r.scope || parent.kind != kindSynthesis && parent.kind != kindProve {
		return nil
	}
	return parent
}

// inner puts a phase of a synthesis or of a proof into its partition.
func (g *grove) inner(r *record) bool {
	parent := g.outer(r)
	if parent == nil {
		return false
	}
	p := g.partitions[parent.parent]
	if p == nil || p.synthesis != parent && p.prove != parent {
		return false
	}
	p.inner = append(p.inner, r)
	return true
}

// ms returns a time in ms of the run's clock.
func (of *gathered) ms(ns int64) int64 { return floor(ns-of.epoch, int64(time.Millisecond)) }

// floor returns n in units, cut to whole ones.
func floor(n, unit int64) int64 {
	q := n / unit
	if n%unit < 0 {
		q--
	}
	return q
}

// addSector adds a sector to the run, or says why that cannot be.
func (of *gathered) addSector(t *sectorTree) (problem string) {
	s := &Sector{Job: t.job, Admitted: Unknown, Count: int(t.count), run: of.r, open: true}
	if x := t.span; x != nil {
		if !of.replayed && x.is(markFailed) && interrupted(x.reason) {
			t.giveUp()
		}
		s.Attempt = int(x.attempt)
		if x.more != nil {
			s.ProofKind = x.more.proofKind
		}
		s.open = x.is(markUnfinished)
		if s.failed = x.is(markFailed) && !s.open; s.failed {
			of.blame(s, wholeJob, x.reason)
		}
		if ofLog := of.replayed && of.r.Epoch.Source != EpochSpans; len(t.partitions) == 0 && ofLog && t.count == 0 {
			// All that its log has is when it was proved.
			t.partitions = append(t.partitions, &partitionTree{index: timeline.WholeSector})
		}
	}
	first, last := t.extent()
	s.base = of.ms(first)
	if of.ms(last)-s.base > maxSpan {
		return fmt.Sprintf("has a sector %q that takes longer than can be", t.job)
	}
	for _, p := range t.partitions {
		if k, ok := of.pack(s, t, p); ok {
			s.parts = append(s.parts, k)
		}
	}
	admission := t.admission
	switch waited := t.span != nil && s.open; {
	case len(s.parts) > 0:
		slices.SortFunc(s.parts, func(a, b packed) int { return cmp.Compare(a.index, b.index) })
		if s.parts[0].index >= 0 {
			s.Count = max(s.Count, len(s.parts))
		} else {
			s.Count = 0
		}
		s.first, _ = s.Extent()
	case waited:
		admission, s.first = t.span, of.ms(t.span.end)
	default:
		return fmt.Sprintf("has a sector %q of which nothing else is known", t.job)
	}
	of.first = min(of.first, s.first)
	if admission != nil {
		s.Admitted = min(floor(admission.start-of.epoch, int64(time.Microsecond)), s.first*msMicros)
		of.first = min(of.first, floor(s.Admitted, msMicros))
	}
	if len(t.checks) > 0 {
		var checks []Phase
		for _, x := range t.checks {
			checks = append(checks, Phase{tracing.SpanVerify, of.ms(x.start), of.ms(x.end)})
		}
		slices.SortFunc(checks, func(a, b Phase) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
		if of.r.checks == nil {
			of.r.checks = make(map[*Sector][]Phase)
		}
		of.r.checks[s] = checks
	}
	of.last = max(of.last, of.ms(last))
	of.r.Sectors = append(of.r.Sectors, s)
	return ""
}

// interrupted reports whether a reason is none of the sector's: its pipeline was
// interrupted, or who wanted the proof has given up. The words are those of this
// command, of context.Canceled and of signal.NotifyContext.
func interrupted(reason string) bool {
	return reason == tracing.StatusInterrupted || reason == context.Canceled.Error() || strings.HasSuffix(reason, " signal received")
}

// giveUp makes of a sector that a pipeline has given up what it would have been
// had the record stopped: what was under way then counts as unfinished.
func (t *sectorTree) giveUp() {
	t.span.marks |= markUnfinished
	for _, p := range t.partitions {
		switch {
		case p.span == nil:
		case p.span.is(markSkipped):
			p.span.marks = p.span.marks&^markSkipped | markUnfinished
		default:
			continue // it had ended
		}
		for _, x := range []*record{p.synthesis, p.queue, p.prove} {
			if x != nil && x.is(markFailed) {
				x.marks |= markUnfinished
			}
		}
		if p.queue != nil && p.queue.worker == Unknown && p.prove == nil {
			p.queue.marks |= markUnfinished // no worker has ended the wait
		}
	}
}

// extent returns when the first of the sector's spans starts and the last one
// ends, in ns since 1970.
func (t *sectorTree) extent() (first, last int64) {
	first, last = math.MaxInt64, math.MinInt64
	cover := func(spans ...*record) {
		for _, x := range spans {
			if x != nil {
				first, last = min(first, x.start), max(last, x.end)
			}
		}
	}
	cover(t.span, t.admission)
	cover(t.checks...)
	for _, p := range t.partitions {
		cover(p.span, p.synthesis, p.queue, p.prove)
		cover(p.inner...)
	}
	return first, last
}

// blame notes why a sector, or a partition of it, failed.
func (of *gathered) blame(s *Sector, partition int32, reason string) {
	if of.r.failures == nil {
		of.r.failures = make(map[failureKey]string)
	}
	of.r.failures[failureKey{s, partition}] = reason
}

// state returns how the partition ended.
func (p *partitionTree) state(t *sectorTree) State {
	fails := func(x *record) bool { return x != nil && x.is(markFailed) && !x.is(markUnfinished) }
	span := p.span
	if p.index == timeline.WholeSector {
		span = t.span
	}
	switch {
	case p.span != nil && p.span.is(markSkipped):
		return Skipped
	case p.span != nil && fails(p.span), fails(p.synthesis), fails(p.queue), fails(p.prove):
		return Failed
	case span != nil && span == p.span:
		if span.is(markUnfinished) {
			return Incomplete
		}
		return Finished
	case p.prove != nil && !p.prove.is(markUnfinished):
		return Finished
	case span == nil || span.is(markUnfinished):
		return Incomplete
	case fails(span) && p.synthesis != nil:
		return Skipped
	case fails(span):
		return Failed
	}
	return Finished
}

// pack returns a partition as the run keeps it, if any of its times is known.
func (of *gathered) pack(s *Sector, t *sectorTree, p *partitionTree) (packed, bool) {
	k := packed{
		t:       [numBoundaries]int32{absent, absent, absent, absent, absent, absent},
		synthMS: Unknown, gpuMS: Unknown, timings: Unknown, index: p.index, worker: Unknown, state: p.state(t),
	}
	span := p.span
	if p.index == timeline.WholeSector {
		span = t.span
	}
	at := func(ns int64) int32 { return s.relative(of.ms(ns)) }
	put := func(b Boundary, t int32, inferred bool) {
		k.t[b] = t
		if inferred {
			k.inferred |= 1 << b
		}
	}
	if x := p.synthesis; x != nil {
		k.synthMS = x.reported
		put(SynthStart, at(x.start), x.is(markStart))
		if !x.is(markUnfinished) {
			put(SynthEnd, at(x.end), x.is(markEnd))
		}
	}
	if x := p.queue; x != nil {
		k.worker = int16(x.worker)
		put(Queued, at(x.start), x.is(markStart))
		if !x.is(markUnfinished|markFailed) && (!x.is(markEnd) || p.prove != nil) {
			put(PickedUp, at(x.end), x.is(markEnd))
		}
	}
	if x := p.prove; x != nil {
		k.worker = int16(max(x.worker, int32(k.worker)))
		k.gpuMS = x.reported
		put(GPUStart, at(x.start), x.is(markStart))
		if !x.is(markUnfinished) {
			put(GPUEnd, at(x.end), x.is(markEnd))
		}
	}
	if of.replayed && span != nil {
		of.patch(&k, p, at(span.start), at(span.end))
	}
	if k.state == Finished && k.t[GPUEnd] == absent && span != nil {
		put(GPUEnd, at(span.end), !of.replayed)
	}
	if k.state == Failed {
		for _, x := range []*record{span, p.synthesis, p.queue, p.prove} {
			if x != nil && x.is(markFailed) && !x.is(markUnfinished) {
				of.blame(s, k.index, x.reason)
				break
			}
		}
	}
	of.r.Input.Inferred += int64(bits.OnesCount8(k.inferred))
	a := assembly{run: of.r}
	a.complete(s, &k)
	a.order(&k)
	k.timings = of.detail(s, p)
	return k, slices.ContainsFunc(k.t[:], func(t int32) bool { return t != absent })
}

// patch settles the times of a partition that its log lacks some of, by what a
// replay makes of that: a phase ends at the next time that is known, and the
// partition starts at the first and ends at the last.
func (of *gathered) patch(k *packed, p *partitionTree, start, end int32) {
	x := p.synthesis
	switch {
	case x != nil:
		// Had the end been known, there would be a queue wait.
		lost := x.is(markEnd) && !x.is(markUnfinished|markFailed) && p.queue == nil
		if lost && p.prove != nil {
			k.t[PickedUp] = k.t[SynthEnd]
		}
		if lost && (p.prove != nil || k.state == Finished && k.t[SynthEnd] == end) {
			k.t[SynthEnd] = absent
			k.inferred &^= 1 << SynthEnd
		}
	case p.queue != nil:
		if start < k.t[Queued] {
			k.t[SynthEnd] = start
		}
	case p.prove != nil || k.state != Finished:
		k.t[PickedUp] = start
	}
}

// detail keeps what spans tell of a partition beside its times and returns its
// number, or Unknown if that is nothing.
func (of *gathered) detail(s *Sector, p *partitionTree) int32 {
	d := detail{device: Unknown, synthesisWorker: Unknown, queueDepth: Unknown}
	empty := true
	if x := p.synthesis; x != nil && x.worker >= 0 {
		d.synthesisWorker, empty = int16(x.worker), false
	}
	if x := p.queue; x != nil && x.depth >= 0 {
		d.queueDepth, empty = x.depth, false
	}
	if x := p.prove; x != nil {
		if x.device >= 0 {
			d.device, empty = int16(x.device), false
		}
		if x.more != nil {
			d.telemetry, empty = x.more.telemetry, false
		}
	}
	slices.SortFunc(p.inner, func(a, b *record) int {
		return cmp.Or(
			compareBool(p.prove != nil && a.parent == p.prove.id, p.prove != nil && b.parent == p.prove.id),
			cmp.Compare(a.start, b.start),
			cmp.Compare(slices.Index(phaseOrder, a.name), slices.Index(phaseOrder, b.name)),
			cmp.Compare(a.end, b.end),
			cmp.Compare(a.id, b.id),
		)
	})
	for _, x := range p.inner {
		outer := p.prove
		if p.synthesis != nil && x.parent == p.synthesis.id {
			outer = p.synthesis
			d.inSynthesis++
		}
		inside := func(ns int64) int32 { return s.relative(of.ms(min(max(ns, outer.start), outer.end))) }
		d.phases = append(d.phases, packedPhase{inside(x.start), inside(x.end), numberOf(of.names, x.name)})
	}
	if int(d.inSynthesis) < len(d.phases) {
		of.r.Input.Timings++
	} else if empty && len(d.phases) == 0 {
		return Unknown
	}
	d.phases = slices.Clip(d.phases)
	n, kept := of.r.details.add()
	*kept = d
	return n
}

// phaseOrder are phases that can take no time and then begin at once with the next.
var phaseOrder = []string{
	tracing.SpanWitness, tracing.SpanConstraints,
	tracing.SpanPrepare, tracing.SpanDeviceWait, tracing.SpanNTTMSMH, tracing.SpanBatchAdd, tracing.SpanTailMSM, tracing.SpanBG2MSM,
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

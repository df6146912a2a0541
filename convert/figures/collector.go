package figures

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
	"github.com/provetrace/provetrace/tracing/timeline"
)

// Of returns the figures of a run.
func Of(r *run.Run) *Figures { return Within(r, Scope{}) }

// Within returns the figures of a part of a run.
func Within(r *run.Run, s Scope) *Figures {
	c := gather(r.Sectors, s)
	for _, d := range r.Devices {
		c.device(d.Ordinal).workers = d.Workers
	}
	f := c.f
	f.Name, f.Input = r.Name, r.Input
	slices.Sort(f.Divisions)
	f.ProofKinds = append([]string{}, f.ProofKinds...) // as JSON, nothing is no null
	f.Scope = s.selection(r)
	f.Epoch = Epoch{Time: r.Epoch.Time, Source: r.Epoch.Source}
	if u := r.Epoch.Uncertainty; u >= 0 {
		f.Epoch.UncertaintyMS = known(float64(u) / float64(time.Millisecond))
	}
	var meanwhile sync.WaitGroup
	meanwhile.Go(func() { f.Synthesis = c.concurrency() })
	meanwhile.Go(func() { f.Phases = c.phasesInOrder() })
	c.proofs(r)
	c.gpus(r)
	c.causes()
	c.makespan()
	c.verdict()
	meanwhile.Wait()
	return f
}

// A collector gathers in one pass over partitions what figures are made of, and
// fills in those that are sums over sectors.
type collector struct {
	f     *Figures
	scope Scope

	synthesizing   union // cut to the scope
	firstSynthesis int64 // start, or Unknown
	startless      bool  // some synthesis start is not known
	devices        map[int]*device
	latest         *device // that worked
	inSynthesis    []phase // inside a synthesis
	inProof        []phase // inside a GPU interval

	columns
}

// Columns hold what there is at most one of for each sector, or each partition.
type columns struct {
	whole     []proof    // of the whole run, since a step can lead into the scope
	syntheses syntheses  // cut to the scope
	ready     intervals  // from synthesized to being proved, cut to the scope
	phases    [3][]int32 // durations, by stage
}

// The stages of a sector.
const (
	inSynthesis = iota
	inQueue
	onGPU
)

// boundaries are where a partition enters and leaves the stages.
var boundaries = [...][2]run.Boundary{
	inSynthesis: {run.SynthStart, run.SynthEnd}, inQueue: {run.Queued, run.PickedUp}, onGPU: {run.GPUStart, run.GPUEnd},
}

// A device gathers the work of a GPU.
type device struct {
	ordinal int // or Unknown
	workers []int
	proofs  int   // of partitions
	timed   int   // those of which the device's phases are known
	proving union // cut to the scope, as all of these
	kernels union
	endless union // proofs whose end is not known, until they can have ended
}

// A phase gathers durations.
type phase struct {
	name string
	ms   []int32
}

// A proof is that of a whole sector.
type proof struct {
	sector     int  // its place in the run's
	counts     bool // in the scope
	firstReady int64
	start, end int64 // first GPU start and last GPU end
}

// gather gathers from sectors, from several parts of them at once.
func gather(sectors []*run.Sector, s Scope) *collector {
	const worthwhile = 256 // sectors
	parts := make([]*collector, min(runtime.GOMAXPROCS(0), 1+len(sectors)/worthwhile))
	from := func(part int) int { return part * len(sectors) / len(parts) }
	atOnce := func(do func(part int, of []*run.Sector)) {
		var doing sync.WaitGroup
		for i := range parts {
			doing.Go(func() { do(i, sectors[from(i):from(i+1)]) })
		}
		doing.Wait()
	}
	partitions := make([]int, len(parts)+1) // before each part
	atOnce(func(part int, of []*run.Sector) {
		n := 0
		for _, sector := range of {
			n += sector.Len()
		}
		partitions[part+1] = n
	})
	for i := range parts {
		partitions[i+1] += partitions[i]
	}
	all := newColumns(len(sectors), partitions[len(parts)])
	atOnce(func(part int, of []*run.Sector) {
		c := newCollector(s, all.between(from(part), from(part+1), partitions[part], partitions[part+1]))
		for i, sector := range of {
			c.sector(from(part)+i, sector)
		}
		c.merge()
		parts[part] = c
	})
	c := newCollector(s, all)
	for _, part := range parts {
		c.append(part)
	}
	c.merge() // also across the parts
	return c
}

func newCollector(s Scope, room columns) *collector {
	return &collector{f: new(Figures), scope: s, firstSynthesis: run.Unknown, devices: make(map[int]*device), columns: room}
}

// newColumns returns columns with room for some sectors and partitions.
func newColumns(sectors, partitions int) columns {
	c := columns{
		whole:     make([]proof, 0, sectors),
		syntheses: newSyntheses(partitions),
		ready:     newIntervals(partitions),
	}
	for i := range c.phases {
		c.phases[i] = make([]int32, 0, partitions)
	}
	return c
}

// between returns the room from one sector to another, and from one partition to
// another.
func (c *columns) between(sector, toSector, partition, toPartition int) columns {
	part := columns{
		whole:     c.whole[sector:sector:toSector],
		syntheses: c.syntheses.between(partition, toPartition),
		ready:     c.ready.between(partition, toPartition),
	}
	for i := range c.phases {
		part.phases[i] = c.phases[i][partition:partition:toPartition]
	}
	return part
}

// append adds what the next part of the room has been filled with.
func (c *columns) append(o *columns) {
	c.whole = behind(c.whole, o.whole)
	c.syntheses.append(&o.syntheses)
	c.ready.append(&o.ready)
	for i := range c.phases {
		c.phases[i] = behind(c.phases[i], o.phases[i])
	}
}

// merge puts the intervals in order that were gathered.
func (c *collector) merge() {
	c.synthesizing.merge()
	c.ready.sort()
	for _, d := range c.devices {
		d.proving.merge()
		d.kernels.merge()
		d.endless.merge()
	}
}

// append adds what was gathered from the sectors behind.
func (c *collector) append(o *collector) {
	c.columns.append(&o.columns)
	c.f.Sectors += o.f.Sectors
	c.f.Partitions += o.f.Partitions
	c.f.Failed += o.f.Failed
	c.f.Unfinished += o.f.Unfinished
	for _, kind := range o.f.ProofKinds {
		c.kind(kind)
	}
	for _, n := range o.f.Divisions {
		c.division(n)
	}
	c.mode(o.f.Mode)
	c.synthesizing.append(&o.synthesizing.intervals)
	c.firstSynthesis = earlier(c.firstSynthesis, o.firstSynthesis)
	c.startless = c.startless || o.startless
	for ordinal, of := range o.devices {
		d := c.device(ordinal)
		d.proofs += of.proofs
		d.timed += of.timed
		d.proving.append(&of.proving.intervals)
		d.kernels.append(&of.kernels.intervals)
		d.endless.append(&of.endless.intervals)
	}
	for _, p := range o.inSynthesis {
		c.inSynthesis = addTo(c.inSynthesis, p.name, p.ms...)
	}
	for _, p := range o.inProof {
		c.inProof = addTo(c.inProof, p.name, p.ms...)
	}
}

// kind notes a proof kind that a sector has, empty where it is not known.
func (c *collector) kind(kind string) {
	if kind != "" && !slices.Contains(c.f.ProofKinds, kind) {
		c.f.ProofKinds = append(c.f.ProofKinds, kind)
	}
}

// division notes how many partitions a finished sector has.
func (c *collector) division(n int) {
	if !slices.Contains(c.f.Divisions, n) {
		c.f.Divisions = append(c.f.Divisions, n)
	}
}

// mode notes the mode of a sector, or of several, or of none.
func (c *collector) mode(m Mode) {
	switch {
	case c.f.Mode == "":
		c.f.Mode = m
	case m != "" && m != c.f.Mode:
		c.f.Mode = MixedModes
	}
}

func (c *collector) device(ordinal int) *device {
	if c.latest == nil || c.latest.ordinal != ordinal {
		c.latest = c.devices[ordinal]
	}
	if c.latest == nil {
		c.latest = &device{ordinal: ordinal}
		c.devices[ordinal] = c.latest
	}
	return c.latest
}

// sector adds the work of a sector, which has a place among the run's.
func (c *collector) sector(place int, s *run.Sector) {
	state := s.State()
	selected := c.scope.Has(s)
	whole := proof{sector: place, firstReady: run.Unknown, start: run.Unknown, end: run.Unknown}
	mode, partitions := Mode(""), 0
	for p := range s.Partitions() {
		partitions++
		if mode = Partitions; p.Index == timeline.WholeSector {
			mode = WholeSectors
		}
		c.work(s, &p)
		if selected && state != run.Failed && p.State == run.Finished && c.scope.holds(p.Times[run.GPUEnd]) {
			c.durations(&p)
		}
		whole.firstReady = earlier(whole.firstReady, p.Times[run.SynthEnd])
		whole.start = earlier(whole.start, p.Times[run.GPUStart])
		whole.end = max(whole.end, p.Times[run.GPUEnd])
	}
	if state == run.Finished {
		whole.counts = selected && c.scope.holds(whole.end)
		c.whole = append(c.whole, whole)
	}
	if !selected {
		return
	}
	f := c.f
	f.Sectors++
	f.Partitions += partitions
	switch state {
	case run.Finished:
		c.division(partitions)
	case run.Failed:
		f.Failed++
	case run.Incomplete:
		f.Unfinished++
	}
	c.kind(s.ProofKind)
	c.mode(mode)
}

// earlier returns the earlier of two times, of which either can be unknown.
func earlier(a, b int64) int64 {
	if a == run.Unknown || b != run.Unknown && b < a {
		return b
	}
	return a
}

// work adds what a partition was to the synthesis workers and to its device.
func (c *collector) work(s *run.Sector, p *run.Partition) {
	if start, end, some := c.cut(synthesisOf(s, p)); some {
		c.synthesizing.add(start, end)
		c.syntheses.add(start, end, start == p.Times[run.SynthStart] && end == p.Times[run.SynthEnd])
	}
	if start, end, some := c.cut(readyOf(s, p)); some && start < end {
		c.ready.cover(start, end)
	}
	c.firstSynthesis = earlier(c.firstSynthesis, p.Times[run.SynthStart])
	c.startless = c.startless || !p.Known(run.SynthStart)

	if !p.Known(run.GPUStart) {
		return
	}
	d := c.device(p.Device)
	if !p.Known(run.GPUEnd) {
		if start, end, some := c.scope.cut(p.Times[run.GPUStart], s.EndOf(p)); some {
			d.endless.add(start, end)
		}
		return
	}
	start, end, some := c.scope.cut(p.Times[run.GPUStart], p.Times[run.GPUEnd])
	if !some {
		return
	}
	d.proving.add(start, end)
	d.proofs++
	if p.HasPhases() && c.kernels(d, p) {
		d.timed++
	}
}

// kernels adds the device's phases of a partition, and reports whether there
// are any.
func (c *collector) kernels(d *device, p *run.Partition) (timed bool) {
	for in := range p.Phases() {
		if !OnDevice(in.Name) {
			continue
		}
		timed = true
		if start, end, some := c.scope.cut(in.Start, in.End); some {
			d.kernels.add(start, end)
		}
	}
	return timed
}

// cut cuts an interval, if there is one, to the scope.
func (c *collector) cut(start, end int64, is bool) (int64, int64, bool) {
	if !is {
		return 0, 0, false
	}
	return c.scope.cut(start, end)
}

// synthesisOf returns when a partition was being synthesized, until the end of
// the partition where nothing tells its own.
func synthesisOf(s *run.Sector, p *run.Partition) (start, end int64, known bool) {
	switch {
	case !p.Known(run.SynthStart):
		return 0, 0, false
	case !p.Known(run.SynthEnd):
		return p.Times[run.SynthStart], s.EndOf(p), true
	default:
		return p.Times[run.SynthStart], p.Times[run.SynthEnd], true
	}
}

// readyOf returns when a partition was synthesized and not yet being proved.
func readyOf(s *run.Sector, p *run.Partition) (start, end int64, known bool) {
	start = p.Times[run.SynthEnd]
	if p.State == run.Failed && !p.Known(run.Queued) {
		return 0, 0, false // its synthesis failed
	}
	if start = earlier(start, p.Times[run.Queued]); start == run.Unknown {
		return 0, 0, false
	}
	if end = p.Times[run.GPUStart]; end == run.Unknown {
		end = s.EndOf(p)
	}
	return start, end, true
}

// OnDevice reports whether a phase of a proof is work of the device: neither a
// wait nor the CPU's part.
func OnDevice(phase string) bool {
	switch phase {
	case tracing.SpanPrepare, tracing.SpanDeviceWait, tracing.SpanBG2MSM, tracing.SpanMSMBG2:
		return false
	}
	return true
}

// durations adds how long the phases of a finished partition took.
func (c *collector) durations(p *run.Partition) {
	for i, b := range boundaries {
		if p.Known(b[0]) && p.Known(b[1]) {
			c.phases[i] = append(c.phases[i], int32(p.Times[b[1]]-p.Times[b[0]]))
		}
	}
	if p.HasPhases() {
		c.parts(p)
	}
}

// parts adds how long the parts of a partition's phases took.
func (c *collector) parts(p *run.Partition) {
	for in := range p.SynthesisPhases() {
		c.inSynthesis = addTo(c.inSynthesis, in.Name, int32(in.End-in.Start))
	}
	for in := range p.Phases() {
		c.inProof = addTo(c.inProof, in.Name, int32(in.End-in.Start))
	}
}

// addTo adds durations to the phase of a name.
func addTo(phases []phase, name string, ms ...int32) []phase {
	i := 0
	for i < len(phases) && phases[i].name != name {
		i++
	}
	if i == len(phases) {
		phases = append(phases, phase{name: name})
	}
	phases[i].ms = append(phases[i].ms, ms...)
	return phases
}

// phasesInOrder returns the distributions of all phases, in the order in which a
// partition goes through them.
func (c *collector) phasesInOrder() Phases {
	var all Phases
	add := func(inside bool, phases ...phase) {
		for _, p := range phases {
			all = append(all, Phase{p.name, inside, newDistribution(p.ms)})
		}
	}
	add(false, phase{tracing.SpanSynthesis, c.phases[inSynthesis]})
	add(true, c.inSynthesis...)
	add(false, phase{tracing.SpanQueueWait, c.phases[inQueue]}, phase{tracing.SpanProve, c.phases[onGPU]})
	add(true, c.inProof...)
	return all
}

// proofs settles what whole proofs tell.
func (c *collector) proofs(r *run.Run) {
	f := c.f
	byStart := func(a, b proof) int { return cmp.Compare(a.start, b.start) }
	if !slices.IsSortedFunc(c.whole, byStart) { // as they nearly always are
		slices.SortStableFunc(c.whole, byStart)
	}
	f.ProofEnds, f.Transitions = make([]int64, 0, len(c.whole)), make([]Transition, 0, len(c.whole))
	readiness := make([]int64, 0, len(c.whole)) // that transitions point into
	for i := range c.whole {
		after := &c.whole[i]
		if !after.counts {
			continue
		}
		f.ProofEnds = append(f.ProofEnds, after.end)
		if i == 0 || c.whole[i-1].start == run.Unknown {
			continue // nothing tells which was before
		}
		before := &c.whole[i-1]
		t := Transition{
			From: r.Sectors[before.sector].Job, To: r.Sectors[after.sector].Job,
			CrossSectorGapMS: after.start - before.end,
			to:               after.sector,
		}
		if after.firstReady != run.Unknown {
			readiness = append(readiness, after.firstReady-before.end)
			t.SynthesisReadinessMS = &readiness[len(readiness)-1]
		}
		f.Transitions = append(f.Transitions, t)
	}
	f.Proofs = len(f.ProofEnds)
	sortTimes(f.ProofEnds)
	if n := f.Proofs; n > 1 {
		f.SecondsPerProof.Steady = known(float64(f.ProofEnds[n-1]-f.ProofEnds[0]) / float64(n-1) / 1000)
	}
}

// gpus settles what the devices did.
func (c *collector) gpus(r *run.Run) {
	f := c.f
	f.GPUs = []GPU{}
	var ordered []*device
	for _, d := range c.devices {
		ordered = append(ordered, d)
	}
	slices.SortFunc(ordered, func(a, b *device) int {
		return cmp.Compare(uint(a.ordinal), uint(b.ordinal)) // Unknown, which is negative, comes last
	})
	for _, d := range ordered {
		g := d.figures()
		for i := range r.Devices {
			if of := &r.Devices[i]; of.Ordinal == d.ordinal {
				g.Name, g.Model = of.Name, of.Model
			}
		}
		f.GPUs = append(f.GPUs, g)
	}
}

// makespan settles what depends on the first synthesis and the last proof.
func (c *collector) makespan() {
	f := c.f
	firstGPU, lastGPU := int64(run.Unknown), int64(run.Unknown)
	for _, d := range c.devices {
		if d.proofs > 0 {
			from, to := d.proving.extent()
			firstGPU, lastGPU = earlier(firstGPU, from), max(lastGPU, to)
		}
	}
	if firstGPU == run.Unknown || len(c.synthesizing.starts) == 0 {
		return
	}
	began, _ := c.synthesizing.extent()
	f.MakespanMS = known(lastGPU - began)
	if c.firstSynthesis >= c.scope.From {
		f.ColdStartMS = known(firstGPU - began)
	}
	if isAll := c.scope.From == 0 && c.scope.To == 0; f.Proofs > 0 && isAll {
		f.SecondsPerProof.Overall = known(float64(*f.MakespanMS) / float64(f.Proofs) / 1000)
	}
	for i := range f.GPUs {
		if g := &f.GPUs[i]; g.Ordinal != nil {
			g.UtilizationOverall = ratio(g.BusyMS, *f.MakespanMS)
		}
	}
}

func (d *device) figures() GPU {
	g := GPU{Workers: d.workers, Proofs: d.proofs, BusyMS: d.proving.length(), SpanSumMS: d.proving.sum, Idle: []Idle{}}
	if g.Workers == nil {
		g.Workers = []int{}
	}
	if d.proofs > 0 && d.timed == d.proofs {
		g.KernelBusyMS = known(d.kernels.length())
	}
	if d.ordinal == run.Unknown {
		return g // the work can be of several devices
	}
	g.Ordinal = &d.ordinal
	if d.proofs == 0 {
		return g
	}
	from, to := d.proving.extent()
	window := to - from
	g.ActiveWindowMS = &window
	g.UtilizationActive = ratio(g.BusyMS, window)
	if g.KernelBusyMS != nil {
		g.KernelUtilizationActive = ratio(*g.KernelBusyMS, window)
	}
	g.Idle = make([]Idle, 0, len(d.proving.starts)-1)
	idleFrom := int64(run.Unknown)
	for start, end := range d.proving.stretches {
		if idleFrom != run.Unknown {
			g.Idle = append(g.Idle, Idle{StartMS: idleFrom, DurationMS: start - idleFrom})
		}
		idleFrom = end
	}
	return g
}

// ratio returns a/b, or nil where it has no meaning.
func ratio(a, b int64) *float64 {
	if b == 0 {
		return nil
	}
	return known(float64(a) / float64(b))
}

// Package perfetto writes a run as a Chrome trace, the JSON that Perfetto's UI
// and chrome://tracing open.
//
// In goes the model of a run with its figures, out come trace events, as
// described in "Trace Event Format" by the Chromium project: a process for
// each device, with a track for what the device does and one for each of its
// workers; one for the synthesis workers; and one for each sector, with a track
// for each partition. Flows lead from a synthesis to its proof. Counters tell
// how many syntheses run, how many partitions wait for a GPU and what the
// devices' sensors measured. Times are those of the run's clock, whose 0 is at
// ts 0.
//
// Of a part of a run, what reaches out of it is cut at its ends. What devices
// and synthesis workers did in it for sectors that are not selected is there
// too, since the figures are of all that they did; its slices are grey.
package perfetto

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/report"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
)

// Process ids. They name groups of tracks, nothing of the operating system's.
const (
	pidSynthesis     = 1
	pidUnknownDevice = 9
	pidDevices       = 10      // plus the ordinal
	pidSectors       = 100_000 // plus the sector's place
)

// Track ids: those of a device and of a sector are fixed, the others counted.
const (
	tidDevice     = 1
	tidSector     = 0
	tidPartitions = 1 // plus 1 and the partition's index; that of a whole sector is -1
)

// Categories, which a viewer can filter by.
const (
	catSynthesis = "synthesis"
	catQueue     = "queue"
	catGPU       = "gpu"
	catPipeline  = "pipeline"
)

// Write writes what a scope selects of a run. The figures are those of the
// scope.
func Write(w io.Writer, m *run.Run, f *figures.Figures, scope figures.Scope) error {
	t := trace{out: newWriter(w), model: m, scope: scope, sectors: scope.Sectors(m)}
	t.all = t.sectors
	if scope.Only != nil {
		everyone := scope
		everyone.Only = nil
		t.all = append(slices.Clip(t.sectors), slices.DeleteFunc(slices.Clone(everyone.Sectors(m)), scope.Has)...)
	}
	t.write(f)
	if err := t.out.close(); err != nil {
		return fmt.Errorf("write the trace of %s: %w", m.Name, err)
	}
	return nil
}

// A trace is a run on its way out.
type trace struct {
	out     *writer
	model   *run.Run
	scope   figures.Scope
	sectors []*run.Sector // selected
	all     []*run.Sector // and the others for which something was done
	units   []unit        // the partitions, numbered through the sectors
	proofs  []int         // numbers of the units that were proved, in the order of their starts
	kernels []kernel
	tracks  int // so far
}

// A kernel is a phase of the proof of a unit on its device.
type kernel struct {
	stretch
	name string
	unit int
}

// A unit is where and when a partition was synthesized and proved.
type unit struct {
	synthesis, proof stretch
	synthesizer      int    // or Unknown
	device, worker   int    // or Unknown
	on, by           *track // of the synthesis, and of the worker
	telemetry        *run.Telemetry
	other            bool // of a sector that is not selected
}

// A stretch is a stretch of time in ms, if it is known.
type stretch struct {
	start, end int64
	known      bool
}

// between returns what the scope has of a phase.
func (t *trace) between(p *run.Partition, from, to run.Boundary) stretch {
	return t.cut(stretch{p.Times[from], p.Times[to], p.Known(from) && p.Known(to)})
}

// cut cuts a stretch at the scope's ends. What then takes no time, and did
// before, is not known.
func (t *trace) cut(s stretch) stretch {
	in := stretch{max(s.start, t.scope.From), min(s.end, t.scope.Until()), s.known}
	in.known = s.known && (in.start < in.end || in.start == in.end && s.start == s.end)
	return in
}

// cutEnds says which ends of a stretch the scope has cut.
func (t *trace) cutEnds(a args, start, end int64) args {
	if start < t.scope.From {
		a = append(a, arg{"goes on before", t.scope.From - start})
	}
	if end > t.scope.Until() {
		a = append(a, arg{"goes on after", end - t.scope.Until()})
	}
	return a
}

// A track is a row of slices, which have to lie inside each other or apart.
type track struct {
	pid, tid int
	name     string
	end      int64    // of its last slice
	beside   []*track // of what overlaps with the phases of the proofs on it
}

// place returns the first of some tracks that is free, or a further one.
func (t *trace) place(among *[]*track, s stretch, pid int, name string) *track {
	for _, tr := range *among {
		if tr.end <= s.start {
			tr.end = s.end
			return tr
		}
	}
	t.tracks++
	if n := len(*among); n > 0 {
		name += fmt.Sprintf(" (%d)", n+1)
	}
	tr := &track{pid: pid, tid: tidDevice + t.tracks, name: name, end: s.end}
	*among = append(*among, tr)
	t.out.thread(tr.pid, tr.tid, tr.name, tr.tid)
	return tr
}

// survey finds a track for each synthesis and each proof.
func (t *trace) survey() {
	var syntheses []int
	inferred := true // no synthesis worker is known
	for i, s := range t.all {
		for p := range s.Partitions() {
			u := unit{
				synthesis: t.between(&p, run.SynthStart, run.SynthEnd), proof: t.between(&p, run.GPUStart, run.GPUEnd),
				synthesizer: p.SynthesisWorker, device: p.Device, worker: p.Worker, telemetry: p.Telemetry, other: i >= len(t.sectors),
			}
			n := len(t.units)
			t.units = append(t.units, u)
			if u.synthesis.known {
				syntheses = append(syntheses, n)
				inferred = inferred && u.synthesizer == run.Unknown
			}
			if u.proof.known {
				t.proofs = append(t.proofs, n)
			}
		}
	}
	slices.SortStableFunc(syntheses, func(a, b int) int {
		return cmp.Or(cmp.Compare(t.units[a].synthesis.start, t.units[b].synthesis.start), cmp.Compare(t.units[a].synthesis.end, t.units[b].synthesis.end))
	})
	slices.SortStableFunc(t.proofs, func(a, b int) int {
		return cmp.Or(cmp.Compare(t.units[a].proof.start, t.units[b].proof.start), cmp.Compare(t.units[a].proof.end, t.units[b].proof.end))
	})
	by := make(map[int]*[]*track)
	of := func(key int) *[]*track {
		if by[key] == nil {
			by[key] = new([]*track)
		}
		return by[key]
	}
	for _, n := range syntheses {
		u := &t.units[n]
		name := numbered("worker", u.synthesizer)
		if inferred {
			name = "slot"
		}
		u.on = t.place(of(u.synthesizer), u.synthesis, pidSynthesis, name)
	}
	clear(by)
	for _, n := range t.proofs {
		u := &t.units[n]
		u.by = t.place(of(u.worker), u.proof, pidOfDevice(u.device), numbered("worker", u.worker))
	}
}

func (t *trace) write(f *figures.Figures) {
	t.out.open(t.model, report.ScopeText(t.model, t.scope))
	t.processes()
	t.survey()
	if slices.ContainsFunc(t.proofs, func(n int) bool { return pidOfDevice(t.units[n].device) == pidUnknownDevice }) {
		t.process(pidUnknownDevice, "GPU ?")
	}
	n := 0
	for i, s := range t.all {
		if i < len(t.sectors) {
			t.sector(pidSectors+i, s)
		}
		for p := range s.Partitions() {
			t.partition(pidSectors+i, n, s, &p)
			n++
		}
	}
	t.devices(f)
	t.load()
	for _, n := range t.proofs {
		t.telemetry(&t.units[n])
	}
}

func pidOfDevice(ordinal int) int {
	if ordinal < 0 || ordinal >= pidSectors-pidDevices {
		return pidUnknownDevice
	}
	return pidDevices + ordinal
}

func numbered(name string, n int) string {
	if n < 0 {
		return name + " ?"
	}
	return name + " " + strconv.Itoa(n)
}

// processes names the groups of tracks, devices first.
func (t *trace) processes() {
	for _, d := range t.model.Devices {
		name := numbered("GPU", d.Ordinal)
		if own := cmp.Or(d.Name, d.Model); own != "" {
			name += ", " + report.Sanitize(own)
		}
		t.process(pidOfDevice(d.Ordinal), name)
	}
	t.out.process(pidSynthesis, "synthesis", pidSectors-1)
}

func (t *trace) process(pid int, name string) {
	t.out.process(pid, name, pid)
	t.out.thread(pid, tidDevice, "device", 0)
}

// sector writes what a sector's own track shows.
func (t *trace) sector(pid int, s *run.Sector) {
	name := "sector " + report.Sanitize(s.Label())
	if s.Attempt > 1 {
		name += " #" + strconv.Itoa(s.Attempt)
	}
	t.out.process(pid, name, pid)
	t.out.thread(pid, tidSector, "sector", 0)
	first, last := s.Extent()
	if first == run.Unknown {
		return
	}
	for p := range s.Partitions() {
		last = max(last, s.EndOf(&p))
	}
	start := first
	if s.Admitted != run.Unknown {
		start = min(first, max(s.Admitted/1000, 0))
	}
	a := args{{tracing.JobID, s.Job}, {tracing.Attempt, s.Attempt}}
	if s.ProofKind != "" {
		a = append(a, arg{tracing.ProofKind, s.ProofKind})
	}
	if s.Count > 0 {
		a = append(a, arg{tracing.PartitionCount, s.Count})
	}
	if reason, failed := s.Failed(); failed {
		a = append(a, arg{"failed", cmp.Or(reason, "true")})
	}
	for _, check := range s.Checks() {
		last = max(last, check.End)
	}
	t.slice(pid, tidSector, catPipeline, tracing.SpanSector, stretch{start, last, true}, a)
	if start < first {
		t.slice(pid, tidSector, catQueue, tracing.SpanAdmissionWait, stretch{start, first, true}, nil)
	}
	free := first
	for _, check := range s.Checks() {
		if check.Start >= free {
			t.slice(pid, tidSector, catPipeline, tracing.SpanVerify, stretch{check.Start, check.End, true}, nil)
			free = check.End
		}
	}
}

// slice writes what the scope has of a stretch.
func (t *trace) slice(pid, tid int, category, name string, s stretch, a args) {
	if in := t.cut(s); in.known {
		t.out.slice(pid, tid, category, name, in, t.cutEnds(a, s.start, s.end))
	}
}

// partition writes a partition on its own track, on that of its synthesis and
// on that of its worker; one of another sector has no track of its own.
func (t *trace) partition(pid, n int, s *run.Sector, p *run.Partition) {
	u := &t.units[n]
	t.out.grey = u.other
	own := &track{pid: pid, tid: tidPartitions + 1 + p.Index, name: "whole sector"}
	if p.Index >= 0 {
		own.name = "partition " + strconv.Itoa(p.Index)
	}
	tracks := []*track{own}
	if u.other {
		tracks = nil
	} else {
		t.out.thread(pid, own.tid, own.name, own.tid)
	}
	who := args{{tracing.JobID, s.Job}}
	if p.Index >= 0 {
		who = append(who, arg{tracing.PartitionIndex, p.Index})
	}

	if u.synthesis.known {
		a := ends(who, p, run.SynthStart, run.SynthEnd)
		a = a.known(tracing.ReportedDuration, p.SynthMS).known(tracing.SynthesisWorker, int64(p.SynthesisWorker))
		a = t.cutEnds(a, p.Times[run.SynthStart], p.Times[run.SynthEnd])
		for _, tr := range append(tracks, u.on) {
			t.out.slice(tr.pid, tr.tid, catSynthesis, tracing.SpanSynthesis, u.synthesis, a)
			t.inside(tr, catSynthesis, u.synthesis, p.SynthesisPhases())
		}
	}
	if wait := t.between(p, run.Queued, run.PickedUp); wait.known && wait.end > wait.start && !u.other {
		a := ends(who, p, run.Queued, run.PickedUp).known(tracing.QueueDepth, int64(p.QueueDepth))
		a = t.cutEnds(a, p.Times[run.Queued], p.Times[run.PickedUp])
		t.out.slice(pid, own.tid, catQueue, tracing.SpanQueueWait, wait, a)
	}
	if u.proof.known {
		a := ends(who, p, run.GPUStart, run.GPUEnd)
		a = a.known(tracing.ReportedDuration, p.GPUMS).known(tracing.GPUWorker, int64(p.Worker)).known(tracing.DeviceOrdinal, int64(p.Device))
		a = t.cutEnds(a, p.Times[run.GPUStart], p.Times[run.GPUEnd])
		for _, tr := range append(tracks, u.by) {
			t.out.slice(tr.pid, tr.tid, catGPU, tracing.SpanProve, u.proof, a)
			t.inside(tr, catGPU, u.proof, p.Phases())
		}
		for ph := range p.Phases() {
			if in := t.cut(stretch{ph.Start, ph.End, figures.OnDevice(ph.Name) && ph.End > ph.Start}); in.known {
				t.kernels = append(t.kernels, kernel{in, ph.Name, n})
			}
		}
		if u.synthesis.known {
			t.out.flow(n, u.on, u.synthesis, u.by, u.proof)
		}
	}
	if !u.other {
		t.outcome(own, s, p)
	}
	t.out.grey = false
}

// inside writes the parts of a slice into it. What overlaps with another part
// gets a track beside.
func (t *trace) inside(tr *track, category string, whole stretch, parts iter.Seq[run.Phase]) {
	for _, beside := range tr.beside {
		beside.end = whole.start // the proofs on a track do not overlap
	}
	free := whole.start
	for ph := range parts {
		in := stretch{max(ph.Start, whole.start), min(ph.End, whole.end), true}
		switch {
		case in.end <= in.start: // nothing to see, and not every viewer orders it well
		case in.start >= free:
			t.out.slice(tr.pid, tr.tid, category, ph.Name, in, nil)
			free = in.end
		default:
			beside := t.place(&tr.beside, in, tr.pid, tr.name+", beside")
			t.out.slice(beside.pid, beside.tid, category, ph.Name, in, nil)
		}
	}
}

// ends returns who, and which ends of a phase are inferred.
func ends(who args, p *run.Partition, from, to run.Boundary) args {
	which := ""
	switch start, end := p.Inferred(from), p.Inferred(to); {
	case start && end:
		which = tracing.InferredStart + ", " + tracing.InferredEnd
	case start:
		which = tracing.InferredStart
	case end:
		which = tracing.InferredEnd
	default:
		return slices.Clip(who)
	}
	return append(slices.Clip(who), arg{tracing.Inferred, which})
}

// outcome marks how a partition ended that was not proved.
func (t *trace) outcome(own *track, s *run.Sector, p *run.Partition) {
	last := slices.Max(p.Times[:])
	if last == run.Unknown {
		return
	}
	isIn := last >= t.scope.From && last <= t.scope.Until()
	switch {
	case p.State == run.Failed && isIn:
		t.out.instant(own, "failed", last, args{{"reason", cmp.Or(p.Failure, "unknown")}})
	case p.State == run.Skipped && isIn:
		t.out.instant(own, "skipped", last, nil)
	case p.State == run.Incomplete:
		t.slice(own.pid, own.tid, catPipeline, "unfinished", stretch{last, s.EndOf(p), true}, args{{tracing.Unfinished, true}})
	}
}

// devices writes what the devices did: the phases of the proofs or, where these
// are not known, when they were busy; and their gaps.
func (t *trace) devices(f *figures.Figures) {
	slices.SortStableFunc(t.kernels, func(a, b kernel) int { return cmp.Compare(a.start, b.start) })
	on := make(map[int]*[]*track)
	for _, k := range t.kernels {
		u := &t.units[k.unit]
		pid := pidOfDevice(u.device)
		if on[pid] == nil {
			on[pid] = &[]*track{{pid: pid, tid: tidDevice}}
		}
		tr := t.place(on[pid], k.stretch, pid, "device")
		t.out.grey = u.other
		t.out.slice(tr.pid, tr.tid, catGPU, k.name, k.stretch, args{{"track", u.by.name}})
	}
	t.out.grey = false
	kernels := make(map[int]bool)
	for i := range f.GPUs {
		g := &f.GPUs[i]
		ordinal := run.Unknown
		if g.Ordinal != nil {
			ordinal = *g.Ordinal
		}
		kernels[ordinal] = g.KernelBusyMS != nil
		for _, gap := range g.Idle {
			t.out.slice(pidOfDevice(ordinal), tidDevice, catGPU, tracing.SpanIdle, stretch{gap.StartMS, gap.StartMS + gap.DurationMS, true},
				args{{tracing.IdleCause, cmp.Or(string(gap.Cause), "unknown")}})
		}
	}
	busy := make(map[int]stretch)
	flush := func(device int) {
		if s := busy[device]; s.known {
			t.out.slice(pidOfDevice(device), tidDevice, catGPU, "busy", s, nil)
		}
	}
	for _, n := range t.proofs {
		u := &t.units[n]
		if kernels[u.device] {
			continue
		}
		s := busy[u.device]
		if s.known && u.proof.start <= s.end {
			s.end = max(s.end, u.proof.end)
		} else {
			flush(u.device)
			s = u.proof
		}
		busy[u.device] = s
	}
	for _, device := range slices.Sorted(maps.Keys(busy)) {
		flush(device)
	}
}

// load counts how many syntheses run and how many partitions wait.
func (t *trace) load() {
	var syntheses, waits []step
	n := 0
	for _, s := range t.all {
		for p := range s.Partitions() {
			if in := t.units[n].synthesis; in.known {
				syntheses = append(syntheses, step{in.start, 1}, step{in.end, -1})
			}
			if in := t.between(&p, run.Queued, run.PickedUp); in.known {
				waits = append(waits, step{in.start, 1}, step{in.end, -1})
			}
			n++
		}
	}
	t.count("running syntheses", syntheses)
	t.count("queue depth", waits)
}

// A step is by how much a count changes at a time.
type step struct{ at, by int64 }

func (t *trace) count(name string, steps []step) {
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	var n int64
	for i, s := range steps {
		n += s.by
		if i+1 == len(steps) || steps[i+1].at != s.at {
			t.out.counter(pidSynthesis, name, s.at, float64(n))
		}
	}
}

// telemetry writes what the device's sensors told, at the proof's start: the
// values are of the whole proof.
func (t *trace) telemetry(u *unit) {
	m := u.telemetry
	if m == nil {
		return
	}
	for _, c := range [...]struct {
		name  string
		value float64
		unit  float64
	}{
		{"utilization, %", m.Utilization, 100},
		{"memory used, MiB", float64(m.MemoryUsed), 1. / (1 << 20)},
		{"power, W", m.Power, 1},
		{"temperature, °C", float64(m.Temperature), 1},
		{"PCIe received, MB/s", m.PCIeRx, 1e-6},
		{"PCIe sent, MB/s", m.PCIeTx, 1e-6},
	} {
		if c.value != run.Unknown {
			t.out.counter(u.by.pid, c.name, u.proof.start, c.value*c.unit)
		}
	}
}

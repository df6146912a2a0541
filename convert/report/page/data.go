package page

import (
	"cmp"
	"encoding/json"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/report"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
)

// A phaseClass is what a phase inside a proof, or inside a synthesis, is of.
type phaseClass int

const (
	onDevice phaseClass = iota
	onCPU
	waiting
	inSynthesis
)

func classOf(phase string) phaseClass {
	switch {
	case phase == tracing.SpanWitness || phase == tracing.SpanConstraints:
		return inSynthesis
	case phase == tracing.SpanDeviceWait:
		return waiting
	case figures.OnDevice(phase):
		return onDevice
	}
	return onCPU
}

// curves are a device's telemetry, as the page names it.
var curves = [...]struct {
	name, unit string
	of         func(*run.Telemetry) float64
}{
	{"utilization", "%", func(t *run.Telemetry) float64 { return scaled(t.Utilization, 100) }},
	{"memory", "bytes", func(t *run.Telemetry) float64 { return float64(t.MemoryUsed) }},
	{"power", "W", func(t *run.Telemetry) float64 { return t.Power }},
	{"temperature", "°C", func(t *run.Telemetry) float64 { return float64(t.Temperature) }},
	{"PCIe in", "bytes/s", func(t *run.Telemetry) float64 { return t.PCIeRx }},
	{"PCIe out", "bytes/s", func(t *run.Telemetry) float64 { return t.PCIeTx }},
}

func scaled(v, by float64) float64 {
	if v == run.Unknown {
		return v
	}
	return v * by
}

// A drawn tells how much of a run the page draws.
type drawn struct {
	sectors int   // that the page draws
	of      int   // that the scope has
	began   int64 // ms of the run's clock: the first synthesis, or where the scope begins
	others  bool  // the devices' work for sectors that the scope does not have is drawn
	cut     bool  // but not all of it
	places  map[attempt]int
	inside  bool // phases inside proofs are known
	checks  bool // and the proofs' own verification
}

// An attempt names a sector of a run.
type attempt struct {
	job    string
	number int
}

// encode returns the data of the runs as JSON: numbers in rows, and each text
// once. The Go encoder escapes what could end the script element that the data
// stands in.
func encode(runs []Run, maxSpans int) ([]byte, []drawn) {
	b := []byte(`{"runs":[`)
	told := make([]drawn, len(runs))
	for i, r := range runs {
		if i > 0 {
			b = append(b, ',')
		}
		e := encoder{b: b, texts: make(map[string]int), phases: make(map[string]int)}
		told[i] = e.run(r, mark(i), maxSpans)
		b = e.b
	}
	return append(b, "]}"...), told
}

// mark names a run among several.
func mark(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return strconv.Itoa(i + 1)
}

type encoder struct {
	b      []byte
	texts  map[string]int
	order  []string
	phases map[string]int
	names  []string // of the phases
	origin int64
}

// maxText bounds a text, in bytes: a log's line, and so an id, can be of any
// length.
const maxText = 300

// text returns the number of a text, which is shown as a terminal would have
// to: without anything that is invisible or changes its surroundings.
func (e *encoder) text(s string) int {
	n, ok := e.texts[s]
	if !ok {
		n = len(e.order)
		e.texts[s] = n
		if len(s) > maxText {
			s = s[:maxText] + "…"
		}
		e.order = append(e.order, report.Sanitize(s))
	}
	return n
}

// textOr is text, or -1 of an empty one.
func (e *encoder) textOr(s string) int {
	if s == "" {
		return -1
	}
	return e.text(s)
}

func (e *encoder) phase(name string) int {
	n, ok := e.phases[name]
	if !ok {
		n = len(e.names)
		e.phases[name] = n
		e.names = append(e.names, name)
	}
	return n
}

func (e *encoder) raw(s string) { e.b = append(e.b, s...) }

func (e *encoder) ints(vs ...int) {
	for i, v := range vs {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.b = strconv.AppendInt(e.b, int64(v), 10)
	}
}

// value writes what the standard encoder makes of v, which it always can.
func (e *encoder) value(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte("null")
	}
	e.b = append(e.b, text...)
}

// at writes a time of the run's clock as one of the axis.
func (e *encoder) at(ms int64) { e.b = strconv.AppendInt(e.b, ms-e.origin, 10) }

func (e *encoder) run(r Run, mark string, maxSpans int) drawn {
	m := r.Model
	sectors := r.Scope.Sectors(m)
	e.origin = origin(sectors, r)
	d := drawn{of: len(sectors), began: max(e.origin, r.Scope.From), places: make(map[attempt]int)}

	e.raw(`{"name":`)
	e.value(report.Sanitize(m.Name))
	e.raw(`,"mark":"` + mark + `","sectors":[`)
	begin, end, spans, written := e.origin, e.origin, 0, 0
	write := func(s *run.Sector) (room bool) {
		if spans > maxSpans {
			return false
		}
		if written > 0 {
			e.raw(",")
		}
		written++
		n, first, last := e.sector(s)
		spans += n
		begin, end = min(begin, first), max(end, last)
		return true
	}
	for _, s := range sectors {
		if !write(s) {
			break
		}
		d.places[attempt{s.Job, s.Attempt}] = d.sectors
		d.sectors++
		d.checks = d.checks || len(s.Checks()) > 0
	}
	for _, s := range others(r) {
		d.others = true
		if d.cut = !write(s); d.cut {
			break
		}
	}
	begin, end = max(begin, r.Scope.From), min(end, r.Scope.Until())
	end = max(begin, end)
	d.inside = slices.ContainsFunc(e.names, func(name string) bool { return classOf(name) != inSynthesis })
	e.raw(`],"chosen":`)
	e.ints(d.sectors)
	e.raw(`,"idle":[`)
	e.idle(r.Figures.GPUs, end)
	e.raw(`],"devices":[`)
	for i, dev := range m.Devices {
		if i > 0 {
			e.raw(",")
		}
		e.raw("[")
		e.ints(dev.Ordinal, e.textOr(cmp.Or(dev.Name, dev.Model)))
		e.raw("]")
	}
	e.raw(`],"curves":[`)
	for i, c := range curves {
		if i > 0 {
			e.raw(",")
		}
		e.value([]string{c.name, c.unit})
	}
	e.raw(`],"phases":[`)
	for i, name := range e.names {
		if i > 0 {
			e.raw(",")
		}
		e.raw("[")
		e.value(report.Sanitize(name))
		e.raw(",")
		e.ints(int(classOf(name)))
		e.raw("]")
	}
	e.raw(`],"strings":`)
	e.value(e.order)
	e.raw(`,"epoch":`)
	e.value(m.Time(e.origin).UnixMilli())
	e.raw(`,"clock":`)
	e.ints(int(e.origin))
	e.raw(`,"begin":`)
	e.at(begin)
	e.raw(`,"end":`)
	e.at(end)
	e.raw("}")
	return d
}

// others returns the sectors for which the devices and the synthesis workers
// did what is in the figures, though the scope does not have the sectors.
func others(r Run) []*run.Sector {
	if r.Scope.Only == nil {
		return nil
	}
	all := r.Scope
	all.Only = nil
	var in []*run.Sector
	for _, s := range all.Sectors(r.Model) {
		if !r.Scope.Has(s) {
			in = append(in, s)
		}
	}
	return in
}

// origin returns the first synthesis start, else the first time of all.
func origin(sectors []*run.Sector, r Run) int64 {
	first := int64(run.Unknown)
	for _, s := range sectors {
		if first != run.Unknown && s.First() > first {
			continue
		}
		for p := range s.Partitions() {
			if p.Known(run.SynthStart) && (first == run.Unknown || p.Times[run.SynthStart] < first) {
				first = p.Times[run.SynthStart]
			}
		}
	}
	if first == run.Unknown {
		first = max(r.Model.First, 0)
	}
	return first
}

// sector writes a sector, and returns the number of its spans, its first time
// and its last.
func (e *encoder) sector(s *run.Sector) (spans int, first, last int64) {
	if first = s.First(); first == run.Unknown {
		first = e.origin
	}
	e.raw("[")
	reason, _ := s.Failed()
	e.ints(e.text(s.Label()), e.text(s.Job), e.textOr(s.ProofKind), s.Attempt, int(s.State()), e.textOr(reason))
	e.raw(",")
	if s.Admitted == run.Unknown {
		e.raw("null")
	} else {
		admitted := max(s.Admitted/1000, 0)
		e.at(admitted)
		first = min(first, admitted)
		spans++
	}
	e.raw(",[")
	partitions := 0
	for p := range s.Partitions() {
		if partitions > 0 {
			e.raw(",")
		}
		partitions++
		n, end := e.partition(s, &p)
		spans += n
		last = max(last, end)
	}
	if partitions == 0 {
		last = s.First() // it only waited
	}
	e.raw("],[")
	for i, check := range s.Checks() {
		if i > 0 {
			e.raw(",")
		}
		e.ints(int(check.Start-e.origin), int(check.End-check.Start))
		spans++
		last = max(last, check.End)
	}
	e.raw("]]")
	return spans, first, last
}

// partition writes a partition. Each of its times is relative to the known one
// before it.
func (e *encoder) partition(s *run.Sector, p *run.Partition) (spans int, last int64) {
	inferred := 0
	for b := range p.Times {
		if p.Inferred(run.Boundary(b)) {
			inferred |= 1 << b
		}
	}
	e.raw("[")
	e.ints(p.Index, int(p.State), p.Worker, p.Device, p.SynthesisWorker, p.QueueDepth, inferred, int(p.SynthMS), int(p.GPUMS), e.textOr(p.Failure))
	e.raw(",[")
	times := p.Times[:]
	if p.State == run.Incomplete {
		times = append(slices.Clone(times), s.EndOf(p))
	}
	before := e.origin
	for i, t := range times {
		if i > 0 {
			e.raw(",")
		}
		if t == run.Unknown {
			e.raw("null")
			continue
		}
		e.b = strconv.AppendInt(e.b, t-before, 10)
		before = t
		last = max(last, t)
	}
	e.raw("],[")
	before = e.origin
	for _, phases := range []iter.Seq[run.Phase]{p.SynthesisPhases(), p.Phases()} {
		for ph := range phases {
			if spans > 0 {
				e.raw(",")
			}
			e.ints(e.phase(ph.Name), int(ph.Start-before), int(ph.End-ph.Start))
			before = ph.Start
			spans++
		}
	}
	e.raw("]")
	if t := p.Telemetry; t != nil {
		e.raw(",[")
		for i, c := range curves {
			if i > 0 {
				e.raw(",")
			}
			e.sample(c.of(t))
		}
		e.raw("]")
	}
	e.raw("]")
	return spans + 3, last // and synthesis, wait and proof
}

// sample writes a measured value with the digits that a curve can show.
func (e *encoder) sample(v float64) {
	if v == run.Unknown || math.IsNaN(v) || math.IsInf(v, 0) {
		e.raw("null")
		return
	}
	e.b = strconv.AppendFloat(e.b, v, 'g', 5, 64)
}

// idle writes the devices' gaps that begin before a time.
func (e *encoder) idle(gpus []figures.GPU, until int64) {
	first := true
	for _, g := range gpus {
		ordinal := run.Unknown
		if g.Ordinal != nil {
			ordinal = *g.Ordinal
		}
		for _, gap := range g.Idle {
			if gap.StartMS >= until {
				continue
			}
			if !first {
				e.raw(",")
			}
			first = false
			e.raw("[")
			e.ints(ordinal, int(gap.StartMS-e.origin), int(gap.DurationMS), e.text(string(gap.Cause)))
			e.raw("]")
		}
	}
}

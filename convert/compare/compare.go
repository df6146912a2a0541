// Package compare says by how much runs differ, and whether that is more than
// noise.
//
// In go sets of runs' figures, each set one run or several repetitions of the
// same; out come the figures of each set with their change against the first
// set. It knows no text.
package compare

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/tracing"
)

// A Set is one of the sides that are compared.
type Set struct {
	Name string
	Runs []*figures.Figures // at least one; more are repetitions
}

// A Comparison holds the figures of sets, each against the first set.
type Comparison struct {
	Sets    []Set
	Figures []Figure
}

// A Figure is one that can be compared.
type Figure struct {
	Name   string // as in --fail-on
	Unit   Unit
	Better Better
	Of     []Value // by set
}

// A Unit says what a figure's values are.
type Unit string

const (
	Seconds      Unit = "s"
	Milliseconds Unit = "ms"
	Share        Unit = "share" // 0..1
)

// A Better says which values of a figure are better.
type Better string

const (
	Lower   Better = "lower"
	Higher  Better = "higher"
	Neither Better = "neither"
)

// A Value is a figure of a set.
type Value struct {
	Center *float64 // of a run, or the median of the runs'; nil if it is not known of all
	N      int      // runs

	// The change against the first set, of which these are not told.
	Change *float64 // relative, so that 0.03 is 3% more; nil where it is not known
	P      *float64 // the probability of at least such a difference if there were none; nil where it cannot be told
	N1, N2 int      // how many values of the first set, and of this one, P compares
	Effect Effect
}

// An Effect says what a change is.
type Effect string

const (
	Unchanged   Effect = "unchanged"
	Improvement Effect = "better"
	Regression  Effect = "worse"
	Difference  Effect = "different"   // of a figure without a better direction
	Noise       Effect = "noise"       // no more than noise
	CannotTell  Effect = "cannot-tell" // there are too few values to tell it from noise
	NotKnown    Effect = "unknown"     // the figure itself is
)

// A metric finds a figure in a run.
type metric struct {
	name   string
	unit   Unit
	better Better
	of     func(*figures.Figures) *float64

	// samples returns what the run's figure sums up, where its location says
	// the same as the figure.
	samples func(*figures.Figures) []float64
}

// Of compares sets, of which there are at least two.
func Of(sets ...Set) *Comparison {
	c := &Comparison{Sets: sets}
	for _, m := range metrics(sets) {
		f := Figure{Name: m.name, Unit: m.unit, Better: m.better}
		for i := range sets {
			v := m.value(&sets[i])
			if i > 0 {
				m.change(&v, &f.Of[0], &sets[0], &sets[i])
			}
			f.Of = append(f.Of, v)
		}
		if slices.ContainsFunc(f.Of, func(v Value) bool { return v.Center != nil }) {
			c.Figures = append(c.Figures, f)
		}
	}
	return c
}

// Named returns the figure of a name, or nil.
func (c *Comparison) Named(name string) *Figure {
	for i := range c.Figures {
		if c.Figures[i].Name == name {
			return &c.Figures[i]
		}
	}
	return nil
}

// Names of figures.
const (
	Overall           = "seconds_per_proof.overall"
	Steady            = "seconds_per_proof.steady"
	ColdStart         = "cold_start_ms"
	Utilization       = "utilization_active"
	KernelUtilization = "kernel_utilization_active"
	Idle              = "idle." // and a cause: the share of the active windows
	Phase             = "phases."
	P50, P95          = ".p50_ms", ".p95_ms"
)

// Names are the names of the figures that any run can have.
func Names() []string {
	var names []string
	for _, m := range metrics(nil) {
		names = append(names, m.name)
	}
	return names
}

// metrics returns the figures to compare: those that any run has, and those of
// the phases that the sets' runs know.
func metrics(sets []Set) []metric {
	ms := []metric{
		{name: Overall, unit: Seconds, better: Lower, of: func(f *figures.Figures) *float64 { return f.SecondsPerProof.Overall }},
		{name: Steady, unit: Seconds, better: Lower, of: func(f *figures.Figures) *float64 { return f.SecondsPerProof.Steady }, samples: between},
		{name: ColdStart, unit: Milliseconds, better: Lower, of: func(f *figures.Figures) *float64 { return number(f.ColdStartMS) }},
		{name: Utilization, unit: Share, better: Higher, of: func(f *figures.Figures) *float64 {
			return ofWindows(f, func(g *figures.GPU) *int64 { return &g.BusyMS })
		}},
		{name: KernelUtilization, unit: Share, better: Higher, of: func(f *figures.Figures) *float64 {
			return ofWindows(f, func(g *figures.GPU) *int64 { return g.KernelBusyMS })
		}},
	}
	for _, cause := range figures.Causes {
		ms = append(ms, metric{name: Idle + string(cause), unit: Share, better: Lower, of: func(f *figures.Figures) *float64 {
			return ofWindows(f, func(g *figures.GPU) *int64 {
				idle, _ := g.IdleMS(cause)
				return &idle
			})
		}})
	}
	names := []string{tracing.SpanSynthesis, tracing.SpanQueueWait, tracing.SpanProve}
	for _, s := range sets {
		for _, f := range s.Runs {
			for _, p := range f.Phases {
				if !slices.Contains(names, p.Name) {
					names = append(names, p.Name)
				}
			}
		}
	}
	for _, name := range names {
		better := Lower
		switch name {
		case tracing.SpanQueueWait, tracing.SpanDeviceWait, tracing.SpanProve:
			better = Neither // a wait, or with one in it: what keeps the device busy makes others wait
		}
		ms = append(ms,
			metric{name: Phase + name + P50, unit: Milliseconds, better: better, of: func(f *figures.Figures) *float64 {
				return ofPhase(f, name, func(p *figures.Phase) *int64 { return p.P50MS })
			}, samples: func(f *figures.Figures) []float64 { return durations(f, name) }},
			metric{name: Phase + name + P95, unit: Milliseconds, better: better, of: func(f *figures.Figures) *float64 {
				return ofPhase(f, name, func(p *figures.Phase) *int64 { return p.P95MS })
			}})
	}
	return ms
}

// between returns the seconds between the ends of a run's proofs, whose mean
// the steady seconds per proof are.
func between(f *figures.Figures) []float64 {
	var s []float64
	for i := 1; i < len(f.ProofEnds); i++ {
		s = append(s, float64(f.ProofEnds[i]-f.ProofEnds[i-1])/1000)
	}
	return s
}

// ofWindows returns a time of the devices as a share of their active windows,
// or nil where it is not known of all that have worked.
func ofWindows(f *figures.Figures, ms func(*figures.GPU) *int64) *float64 {
	var sum, windows int64
	for i := range f.GPUs {
		g := &f.GPUs[i]
		if g.ActiveWindowMS == nil {
			continue
		}
		of := ms(g)
		if of == nil {
			return nil
		}
		sum += *of
		windows += *g.ActiveWindowMS
	}
	if windows == 0 {
		return nil
	}
	share := float64(sum) / float64(windows)
	return &share
}

func ofPhase(f *figures.Figures, name string, ms func(*figures.Phase) *int64) *float64 {
	p := f.Phases.Named(name)
	if p == nil {
		return nil
	}
	return number(ms(p))
}

func durations(f *figures.Figures, name string) []float64 {
	p := f.Phases.Named(name)
	if p == nil {
		return nil
	}
	all := make([]float64, len(p.Sorted))
	for i, ms := range p.Sorted {
		all[i] = float64(ms)
	}
	return all
}

func number(ms *int64) *float64 {
	if ms == nil {
		return nil
	}
	v := float64(*ms)
	return &v
}

// perRun returns the figure of each of a set's runs, or nil where it is not
// known of all.
func (m *metric) perRun(s *Set) []float64 {
	var all []float64
	for _, f := range s.Runs {
		v := m.of(f)
		if v == nil {
			return nil
		}
		all = append(all, *v)
	}
	return all
}

// confidence of the intervals that benchmath gives, which are not shown.
const confidence = 0.95

func (m *metric) value(s *Set) Value {
	v := Value{N: len(s.Runs)}
	if all := m.perRun(s); all != nil {
		center := benchmath.AssumeNothing.Summary(benchmath.NewSample(all, &benchmath.DefaultThresholds), confidence).Center
		v.Center = &center
	}
	return v
}

// change notes how a set's value differs from that of the first set.
//
// Of repetitions, the runs' values are compared, by the Mann-Whitney U test: it
// takes four of each to tell anything at a level of 5%. Of single runs, what
// the figure sums up is compared in their place: the durations of partitions,
// or the times between proofs. They are not independent of each other, so that
// repetitions tell more.
func (m *metric) change(v, first *Value, a, b *Set) {
	v.Effect = NotKnown
	if v.Center == nil || first.Center == nil {
		return
	}
	if *first.Center != 0 {
		change := *v.Center / *first.Center - 1
		v.Change = &change
	}
	xs, ys := m.perRun(a), m.perRun(b)
	if len(xs) == 1 && len(ys) == 1 && m.samples != nil {
		xs, ys = m.samples(a.Runs[0]), m.samples(b.Runs[0])
	}
	test := benchmath.AssumeNothing.Compare(
		benchmath.NewSample(xs, &benchmath.DefaultThresholds), benchmath.NewSample(ys, &benchmath.DefaultThresholds))
	v.N1, v.N2 = test.N1, test.N2
	switch {
	case *v.Center == *first.Center && slices.Equal(xs, ys):
		v.Effect = Unchanged
		return
	case leastP(test.N1, test.N2) > test.Alpha || math.IsNaN(test.P):
		v.Effect = CannotTell
		return
	}
	v.P = &test.P
	switch {
	case test.P > test.Alpha:
		v.Effect = Noise
	case *v.Center == *first.Center || m.better == Neither:
		v.Effect = Difference
	case (*v.Center < *first.Center) == (m.better == Lower):
		v.Effect = Improvement
	default:
		v.Effect = Regression
	}
}

// leastP returns the smallest probability that the U test can give for samples
// of some sizes: that of the two extremes among all orders of the values.
func leastP(n1, n2 int) float64 {
	p := 2.0
	for i := 1; i <= min(n1, n2); i++ {
		p *= float64(i) / float64(max(n1, n2)+i)
	}
	return p
}

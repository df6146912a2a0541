package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
	"github.com/provetrace/provetrace/tracing/timeline"
)

// TextOptions say how [Text] lays out.
type TextOptions struct {
	Width int  // columns, at least 40; 0 for DefaultWidth
	Rows  int  // of a table at most; 0 for 24
	Color bool // with the terminal's own 16 colours
	ASCII bool // with ASCII only

	Scope figures.Scope // of the figures
}

// Text writes the report on a run: the verdict, the waterfall, and tables of
// the sectors, the devices with their idle gaps, and the phases.
func Text(w io.Writer, r *run.Run, f *figures.Figures, o TextOptions) error {
	draw := WaterfallOptions(o).withDefaults()
	t := text{pen: pen{width: draw.Width, color: o.Color}, f: f, rows: draw.Rows, ascii: o.ASCII}
	t.verdict()
	t.summary()
	if _, err := w.Write(t.out.Bytes()); err != nil {
		return err
	}
	if err := Waterfall(w, r, draw); err != nil {
		return err
	}
	t.out.Reset()
	t.tables(t.ascii, t.sectors(), t.phases())
	if o.Scope.Only != nil {
		t.tables(t.ascii, t.partitions(r, o.Scope))
	}
	t.tables(t.ascii, t.gpus(), t.idle(), t.gaps())
	t.syntheses()
	_, err := w.Write(t.out.Bytes())
	return err
}

// A text is a report in the making.
type text struct {
	pen
	f     *figures.Figures
	rows  int
	ascii bool
}

// verdict says what limits the run, and what would help.
func (t *text) verdict() {
	v := VerdictOf(t.f)
	t.sentence(styleBold, v.Reason)
	if v.Remedy != "" {
		t.sentence(styleNone, v.Remedy)
	}
	t.endLine()
}

// summary writes the figures of the run as a whole, those that are known.
func (t *text) summary() {
	f := t.f
	var items []item
	add := func(text string) { items = append(items, item{text: text}) }
	if v := f.SecondsPerProof.Overall; v != nil {
		add(fmt.Sprintf("%.2f s a proof overall", *v))
	}
	if v := f.SecondsPerProof.Steady; v != nil {
		add(fmt.Sprintf("%.2f s a proof in the steady state", *v))
	}
	add(countOf(f.Proofs, "whole proof"))
	if f.MakespanMS != nil {
		add("makespan " + ms(f.MakespanMS))
	}
	if f.ColdStartMS != nil {
		add("cold start " + ms(f.ColdStartMS))
	}
	sep := " · "
	if t.ascii {
		sep = " | "
	}
	t.wrap(sep, styleNone, items...)
	t.endLine()
}

// ms writes a duration that may be unknown.
func ms(v *int64) string {
	switch {
	case v == nil:
		return "-"
	case *v == 0:
		return "0 s"
	case *v >= 100_000*second:
		return (time.Duration(*v/second) * time.Second).String()
	default:
		return formatSeconds(*v)
	}
}

// signed writes a difference of times.
func signed(v *int64) string {
	switch {
	case v != nil && *v < 0:
		return "-" + formatSeconds(-*v)
	case v != nil && *v > 0:
		return "+" + formatSeconds(*v)
	default:
		return ms(v)
	}
}

func (t *text) sectors() *table {
	tb := &table{title: "sector", head: []string{"synthesis", "queue", "GPU", "wall", "gap", "ready"}}
	all := t.f.PerSector
	for i := range all[:min(len(all), t.rows)] {
		s := &all[i]
		name := s.Label
		if s.Attempt > 1 {
			name += " #" + strconv.Itoa(s.Attempt)
		}
		tb.add(name, ms(s.SynthesisMS), ms(s.QueueMS), ms(s.GPUMS), ms(s.WallMS), signed(s.CrossSectorGapMS), signed(s.SynthesisReadinessMS))
		if s.State != figures.Finished {
			tb.mark(string(s.State), s.State == figures.Failed)
		}
	}
	if more := len(all) - t.rows; more > 0 {
		tb.notes = append(tb.notes, fmt.Sprintf("%s more; --format json has all", countOf(more, "sector")))
	}
	if len(all) > 1 {
		tb.notes = append(tb.notes, "gap, ready: from the last GPU end of the sector before, in the order of GPU starts, to this one's first GPU start and first synthesis end")
	}
	return tb
}

// partitions tells of each partition of the selected sectors.
func (t *text) partitions(r *run.Run, scope figures.Scope) *table {
	tb := &table{title: "partition", head: []string{"from", "synthesis", "queue", "GPU", "until", "worker", "device"}}
	for _, s := range r.Sectors {
		if !scope.Has(s) {
			continue
		}
		for p := range s.Partitions() {
			if len(tb.rows) == maxPartitions {
				tb.notes = []string{fmt.Sprintf("only the first %d are shown", maxPartitions)}
				return tb
			}
			name := s.Label()
			if s.Attempt > 1 {
				name += " #" + strconv.Itoa(s.Attempt)
			}
			if p.Index != timeline.WholeSector {
				name += "/" + strconv.Itoa(p.Index)
			}
			first, last := extentOf(&p)
			tb.add(name, first, between(&p, run.SynthStart), between(&p, run.Queued), between(&p, run.GPUStart), last,
				number(p.Worker), number(p.Device))
			tb.mark(stateName(p.State), p.State == run.Failed)
		}
	}
	return tb
}

// maxPartitions bounds the partitions that are told of one by one.
const maxPartitions = 100

// extentOf returns the first and the last known time of a partition.
func extentOf(p *run.Partition) (first, last string) {
	extent := nowhere
	for _, t := range p.Times {
		extent.widen(t)
	}
	if extent == nowhere {
		return "-", "-"
	}
	return clock(extent.start), clock(extent.end)
}

// between returns how long the phase took that begins at a boundary.
func between(p *run.Partition, b run.Boundary) string {
	if !p.Known(b) || !p.Known(b+1) {
		return "-"
	}
	took := p.Times[b+1] - p.Times[b]
	return ms(&took)
}

// number writes a number that may be unknown.
func number(n int) string {
	if n == run.Unknown {
		return "-"
	}
	return strconv.Itoa(n)
}

// stateName says how a partition ended, if it did not finish.
func stateName(s run.State) string {
	return [...]string{run.Finished: "", run.Failed: "failed", run.Skipped: "skipped", run.Incomplete: "unfinished"}[s]
}

func (t *text) gpus() *table {
	tb := &table{title: "GPU", head: []string{"workers", "proofs", "busy", "window", "busy/window", "kernels/window", "busy/run"}}
	var overlapping bool
	for i := range t.f.GPUs[:min(len(t.f.GPUs), t.rows)] {
		g := &t.f.GPUs[i]
		tb.add(gpuName(g), strconv.Itoa(len(g.Workers)), grouped(g.Proofs), formatSeconds(g.BusyMS), ms(g.ActiveWindowMS),
			percent(g.UtilizationActive), percent(g.KernelUtilizationActive), percent(g.UtilizationOverall))
		overlapping = overlapping || g.SpanSumMS > g.BusyMS
	}
	if overlapping {
		var total int64
		for _, g := range t.f.GPUs {
			total += g.SpanSumMS
		}
		tb.notes = append(tb.notes, fmt.Sprintf("busy counts a time once in which several workers prove; their intervals add up to %s", formatSeconds(total)))
	}
	return tb
}

func gpuName(g *figures.GPU) string {
	if g.Ordinal == nil {
		return "GPU ?"
	}
	return fmt.Sprintf("GPU %d", *g.Ordinal)
}

// idle sums the gaps by their causes.
func (t *text) idle() *table {
	tb := &table{title: "idle", head: []string{"gaps", "in all", "longest", "of window"}}
	for i := range t.f.GPUs[:min(len(t.f.GPUs), t.rows)] {
		g := &t.f.GPUs[i]
		for _, c := range append(figures.Causes[:], figures.UnknownCause) {
			total, n := g.IdleMS(c)
			if n == 0 {
				continue
			}
			var longest int64
			for _, i := range g.Idle {
				if i.Cause == c {
					longest = max(longest, i.DurationMS)
				}
			}
			share := float64(total) / float64(*g.ActiveWindowMS)
			tb.add(gpuName(g)+" "+causeName(c), grouped(n), formatSeconds(total), formatSeconds(longest), percent(&share))
		}
	}
	return tb
}

func causeName(c figures.Cause) string {
	if c == figures.UnknownCause {
		return "unknown cause"
	}
	return string(c)
}

// mostGaps bounds the gaps that are named one by one.
const mostGaps = 8

// gaps names the longest gaps, in the order of time.
func (t *text) gaps() *table {
	type gap struct {
		gpu *figures.GPU
		figures.Idle
	}
	var gaps []gap // the longest so far, the longest first
	all := 0
	for i := range t.f.GPUs {
		for _, idle := range t.f.GPUs[i].Idle {
			all++
			if len(gaps) == mostGaps && idle.DurationMS <= gaps[mostGaps-1].DurationMS {
				continue
			}
			at := len(gaps)
			for at > 0 && gaps[at-1].DurationMS < idle.DurationMS {
				at--
			}
			gaps = slices.Insert(gaps, at, gap{&t.f.GPUs[i], idle})
			gaps = gaps[:min(len(gaps), mostGaps)]
		}
	}
	slices.SortStableFunc(gaps, func(a, b gap) int { return cmp.Compare(a.StartMS, b.StartMS) })
	tb := &table{title: "idle gap", head: []string{"from", "lasts", "cause"}}
	if all > len(gaps) {
		tb.title = fmt.Sprintf("longest gaps of %s", grouped(all))
	}
	for _, g := range gaps {
		tb.add(gpuName(g.gpu), clock(g.StartMS), formatSeconds(g.DurationMS), causeName(g.Cause))
	}
	return tb
}

// clock writes a time of the run's clock.
func clock(ms int64) string {
	if ms < minute {
		return fmt.Sprintf("%.3f s", float64(ms)/second)
	}
	if ms < hour {
		return fmt.Sprintf("%d:%02d.%03d", ms/minute, ms%minute/second, ms%second)
	}
	return fmt.Sprintf("%d:%02d:%02d.%03d", ms/hour, ms%hour/minute, ms%minute/second, ms%second)
}

func (t *text) phases() *table {
	tb := &table{title: "phase", head: []string{"n", "mean", "p50", "p95", "min", "max"}}
	for _, p := range t.f.Phases {
		if p.N == 0 {
			continue
		}
		name := p.Name
		if p.Inside {
			name = "  " + name
		}
		mean := int64(*p.MeanMS + 0.5)
		tb.add(name, grouped(p.N), ms(&mean), ms(p.P50MS), ms(p.P95MS), ms(p.MinMS), ms(p.MaxMS))
	}
	return tb
}

// slows says from which correlation on, over how many syntheses, the text tells
// that they slow each other.
const (
	slowsFrom = 0.5
	slowsOver = 20
)

// syntheses says how many syntheses ran at once, and whether they slowed each
// other.
func (t *text) syntheses() {
	c := t.f.Synthesis
	if c.Max < 2 {
		return
	}
	t.endLine()
	told := fmt.Sprintf("%.1f syntheses ran at once on average, at most %d.", *c.Mean, c.Max)
	if p := t.f.Phases.Named(tracing.SpanSynthesis); c.Correlation != nil && *c.Correlation >= slowsFrom && p.N >= slowsOver {
		told += fmt.Sprintf(" They slow each other: one takes %s longer for each further one beside it (correlation %.2f).",
			formatSeconds(int64(*c.SlopeMS+0.5)), *c.Correlation)
	}
	t.note(told)
}

package report

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
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
	t.scope(r, o.Scope)
	t.verdict()
	t.summary()
	if _, err := w.Write(t.out.Bytes()); err != nil {
		return err
	}
	if err := Waterfall(w, r, draw); err != nil {
		return err
	}
	t.out.Reset()
	t.tables(t.ascii, t.sectors(r, o.Scope), t.phases())
	if f.Failed > 0 {
		t.failures(r, o.Scope)
	}
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

// scope says which part of the run is told of, and what that holds.
func (t *text) scope(r *run.Run, scope figures.Scope) {
	told := ScopeText(r, scope)
	if told == "" {
		return
	}
	if scope.Only == nil {
		told = "only " + told
	}
	f := t.f
	told += ": " + countOf(f.Sectors, "sector")
	var of []string
	if f.Failed > 0 {
		of = append(of, grouped(f.Failed)+" failed")
	}
	if f.Unfinished > 0 {
		of = append(of, grouped(f.Unfinished)+" unfinished")
	}
	if len(of) > 0 {
		told += " (" + strings.Join(of, ", ") + ")"
	}
	t.sentence(styleNone, told+", "+countOf(f.Partitions, "partition"))
	t.endLine()
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
		add(perProof(*v) + " a proof overall")
	}
	if v := f.SecondsPerProof.Steady; v != nil {
		add(perProof(*v) + " a proof in the steady state")
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

func (t *text) sectors(r *run.Run, scope figures.Scope) *table {
	tb := &table{title: "sector", head: []string{"synthesis", "queue", "GPU", "wall", "gap", "ready"}}
	steps := false
	more := t.f.Sectors
	for s := range t.f.Rows(r, scope) {
		if len(tb.rows) == t.rows {
			break
		}
		more--
		steps = steps || s.CrossSectorGapMS != nil
		tb.add(attemptName(s.Label, s.Attempt), ms(s.SynthesisMS), ms(s.QueueMS), ms(s.GPUMS), ms(s.WallMS), signed(s.CrossSectorGapMS), signed(s.SynthesisReadinessMS))
		if s.State != figures.Finished {
			tb.mark(string(s.State), s.State == figures.Failed)
		}
	}
	if more > 0 {
		tb.notes = append(tb.notes, fmt.Sprintf("%s more; --format json has all", countOf(more, "sector")))
	}
	if steps {
		tb.notes = append(tb.notes, "gap, ready: from the last GPU end of the sector before, in the order of GPU starts, to this one's first GPU start and first synthesis end")
	}
	return tb
}

// attemptName names an attempt at a sector.
func attemptName(label string, attempt int) string {
	if attempt > 1 {
		return label + " #" + strconv.Itoa(attempt)
	}
	return label
}

// maxFailures bounds the failures that are told of one by one, and
// maxFailureLines what is told of each.
const (
	maxFailures     = 5
	maxFailureLines = 4
)

// A failure is why a sector, or one of its partitions, has no proof.
type failure struct {
	what   string
	reason string // may hold anything that a log can
}

// failuresOf yields the failures in the sectors that a scope has: those of
// partitions, or the sector's where no partition is known to have failed.
func failuresOf(r *run.Run, scope figures.Scope) iter.Seq[failure] {
	return func(yield func(failure) bool) {
		for _, s := range r.Sectors {
			reason, failed := s.Failed()
			if !failed || !scope.Has(s) {
				continue
			}
			name := attemptName(s.Label(), s.Attempt)
			inPartition := false
			for p := range s.Partitions() {
				if p.State != run.Failed || p.Index == timeline.WholeSector {
					continue
				}
				inPartition = true
				if !yield(failure{fmt.Sprintf("%s failed in partition %d", name, p.Index), cmp.Or(p.Failure, reason)}) {
					return
				}
			}
			if !inPartition && !yield(failure{name + " failed", reason}) {
				return
			}
		}
	}
}

// failures says why sectors failed.
func (t *text) failures(r *run.Run, scope figures.Scope) {
	n := 0
	for f := range failuresOf(r, scope) {
		if n++; n == 1 {
			t.endLine()
		}
		if n > maxFailures {
			continue
		}
		told := Sanitize(f.what + ": " + cmp.Or(f.reason, "the log does not say why"))
		lines := 0
		for line := range Wrapped(told, min(t.width, maxLine)) {
			if lines++; lines > maxFailureLines {
				break
			}
			t.put(styleFailed, fit(line, t.width, t.ascii))
			t.endLine()
		}
	}
	if more := n - maxFailures; more > 0 {
		t.note(fmt.Sprintf("and %s more", grouped(more)))
	}
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
			name := attemptName(s.Label(), s.Attempt)
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
	tb.notes = append(tb.notes, identities(t.f.GPUs[:len(tb.rows)])...)
	return tb
}

// identities says what the devices are, as far as that is known: once for all
// that are the same.
func identities(gpus []figures.GPU) []string {
	var told []string // in the order of the first device
	same := make(map[string][]string)
	for i := range gpus {
		g := &gpus[i]
		is := strings.Join(slices.DeleteFunc(slices.Compact([]string{g.Name, g.Model}), func(s string) bool { return s == "" }), ", ")
		if is == "" {
			continue
		}
		if same[is] == nil {
			told = append(told, is)
		}
		same[is] = append(same[is], gpuName(g))
	}
	for i, is := range told {
		told[i] = strings.Join(same[is], ", ") + ": " + Sanitize(is)
	}
	return told
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

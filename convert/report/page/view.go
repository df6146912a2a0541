package page

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/report"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
)

// A view is what the page's template shows, in words.
type view struct {
	CSS    template.CSS
	JS     template.JS
	Data   template.JS
	Policy string

	Title    string
	Runs     []runView
	Several  bool
	Tiles    []row // the key figures
	Overall  table
	Idle     table
	Phases   []phaseRow
	KindNote string
	Inside   bool // phases inside proofs are known
	Checks   bool // and the proofs' own verification

	Failed, Unfinished bool // some sector is
	Others             bool // what was done for sectors that are not chosen is drawn too
}

// A runView is what stands beside one run.
type runView struct {
	Mark        string
	Name        string
	About       string
	Scope       string // of what the run is shown, where that is not all
	Verdict     verdict
	Cut         string // what the page does not draw
	GPUs        []gpuRow
	Transitions []transitionRow
	Sectors     []sectorRow
	More        int // sectors that the table has no row for
	Facts       [][2]string
}

// A table is figures of the runs, side by side.
type table struct {
	Of    string
	Marks []string // of the runs, where there are several
	Rows  []row
}

// A row is a figure of each run, with the change against the first.
type row struct {
	Name  string
	Note  string
	Cells []cell
}

type cell struct {
	Text   string
	Change string
	Trend  string // better, worse or same
}

type gpuRow struct {
	Name                           string
	Active, Overall, Kernels, Busy string
	Proofs                         int
	ActiveShare, KernelShare       float64 // 0 to 100
	HasKernels                     bool
	Idle                           []idleRow
}

type idleRow struct {
	Cause  string
	Length string
	Gaps   int
	Share  float64 // of the active window, 0 to 100
}

type phaseRow struct {
	Name string
	Runs []phaseCells
}

type phaseCells struct {
	N                        int
	Mean, P50, P95, Min, Max string
	Change                   cell
}

type transitionRow struct{ From, To, Gap, Readiness string }

type sectorRow struct {
	Label, State, Synthesis, Queue, GPU, Wall string
	Place                                     string // in the page's data
}

// maxRows bounds the tables of sectors and of transitions.
const maxRows = 500

// sameShare is up to which change two figures are taken as the same.
const sameShare = 0.001

func newView(runs []Run, told []drawn) *view {
	v := &view{Several: len(runs) > 1}
	var names []string
	for i, r := range runs {
		v.Runs = append(v.Runs, newRunView(r, told[i], i))
		v.Inside = v.Inside || told[i].inside
		v.Checks = v.Checks || told[i].checks
		v.Others = v.Others || told[i].others
		v.Failed = v.Failed || r.Figures.Failed > 0
		v.Unfinished = v.Unfinished || r.Figures.Unfinished > 0
		names = append(names, v.Runs[i].Name)
	}
	v.Title = strings.Join(names, " · ")
	v.KindNote = kindNote(runs)
	v.Overall.Of, v.Idle.Of = "figure", "waiting for"
	if v.Several {
		for _, r := range v.Runs {
			v.Overall.Marks = append(v.Overall.Marks, r.Mark)
		}
		v.Idle.Marks = v.Overall.Marks
	}
	fs := make([]*figures.Figures, len(runs))
	for i, r := range runs {
		fs[i] = r.Figures
	}
	v.figures(fs)
	return v
}

func newRunView(r Run, d drawn, i int) runView {
	f := r.Figures
	v := runView{Mark: mark(i), Name: report.Sanitize(r.Model.Name), Scope: report.ScopeText(r.Model, r.Scope), Verdict: verdictOf(f)}
	parts := []string{count(f.Sectors, "sector", "sectors")}
	if f.Partitions > f.Sectors {
		parts = append(parts, count(f.Partitions, "partition", "partitions"))
	}
	if f.Failed > 0 {
		parts = append(parts, grouped(f.Failed)+" failed")
	}
	if f.Unfinished > 0 {
		parts = append(parts, grouped(f.Unfinished)+" unfinished")
	}
	if len(f.ProofKinds) > 0 {
		parts = append(parts, report.Sanitize(strings.Join(f.ProofKinds, ", ")))
	}
	parts = append(parts, r.Model.Time(d.began).UTC().Format("2 Jan 2006, 15:04:05 UTC"))
	v.About = strings.Join(parts, " · ")
	if d.sectors < d.of {
		v.Cut = fmt.Sprintf("The waterfall shows the first %s of %s sectors: a page draws up to %s spans. The figures are of all.",
			grouped(d.sectors), grouped(d.of), grouped(MaxSpans))
	}
	if d.cut {
		v.Cut = strings.TrimSpace(v.Cut + " Some of what the GPUs did for other sectors is not drawn, either.")
	}
	for i := range f.GPUs {
		v.GPUs = append(v.GPUs, newGPURow(&f.GPUs[i]))
	}
	for _, t := range f.Transitions[:min(len(f.Transitions), maxRows)] {
		readiness := "–"
		if t.SynthesisReadinessMS != nil {
			readiness = signed(*t.SynthesisReadinessMS)
		}
		v.Transitions = append(v.Transitions, transitionRow{label(t.From), label(t.To), signed(t.CrossSectorGapMS), readiness})
	}
	for s := range f.Rows(r.Model, r.Scope) {
		if len(v.Sectors) == maxRows {
			break
		}
		row := sectorRow{
			Label: report.Sanitize(s.Label), State: string(s.State), Synthesis: duration(s.SynthesisMS), Queue: duration(s.QueueMS),
			GPU: duration(s.GPUMS), Wall: duration(s.WallMS),
		}
		if s.Attempt > 1 {
			row.Label += " #" + strconv.Itoa(s.Attempt)
		}
		if n, ok := d.places[attempt{s.Job, s.Attempt}]; ok {
			row.Place = fmt.Sprintf("%d:%d", i, n)
		}
		v.Sectors = append(v.Sectors, row)
	}
	v.More = f.Sectors - len(v.Sectors)
	v.Facts = inputFacts(f)
	return v
}

func inputFacts(f *figures.Figures) [][2]string {
	in := f.Input
	facts := [][2]string{{"wall clock from", epochSources[f.Epoch.Source]}}
	if u := f.Epoch.UncertaintyMS; u != nil {
		facts = append(facts, [2]string{"uncertainty", "± " + strconv.FormatFloat(*u, 'g', 3, 64) + " ms"})
	}
	for _, n := range []struct {
		name  string
		count int64
	}{
		{"lines read", in.Lines}, {"events", in.Events}, {"malformed lines", in.Malformed}, {"stitched lines", in.Stitched},
		{"repeated events", in.Duplicates}, {"inferred times", in.Inferred}, {"CUDA timings", in.Timings}, {"of no partition", in.Orphans},
	} {
		if n.count > 0 {
			facts = append(facts, [2]string{n.name, grouped(int(n.count))})
		}
	}
	return facts
}

var epochSources = map[run.EpochSource]string{
	run.EpochEngineLog: "the engine's own lines",
	run.EpochPrefix:    "the times before the lines",
	run.EpochFileTime:  "the file's modification time",
	run.EpochReadTime:  "the time of reading",
	run.EpochNextRun:   "the start of the next run",
	run.EpochGiven:     "the user",
	run.EpochNow:       "the time of reading",
	run.EpochSpans:     "the spans",
}

// label returns the short name of the sector of a job, as it is shown.
func label(job string) string { return report.Sanitize(tracing.SectorLabel(job)) }

func newGPURow(g *figures.GPU) gpuRow {
	r := gpuRow{Name: "GPU ?", Active: share(g.UtilizationActive), Overall: share(g.UtilizationOverall), Kernels: share(g.KernelUtilizationActive),
		Busy: duration(&g.BusyMS), Proofs: g.Proofs, HasKernels: g.KernelUtilizationActive != nil}
	if g.Ordinal != nil {
		r.Name = "GPU " + strconv.Itoa(*g.Ordinal)
	}
	if g.UtilizationActive != nil {
		r.ActiveShare = 100 * *g.UtilizationActive
	}
	if r.HasKernels {
		r.KernelShare = 100 * *g.KernelUtilizationActive
	}
	for _, cause := range append(figures.Causes[:], figures.UnknownCause) {
		ms, gaps := g.IdleMS(cause)
		if gaps == 0 {
			continue
		}
		row := idleRow{Cause: causeText(cause), Length: duration(&ms), Gaps: gaps}
		if g.ActiveWindowMS != nil && *g.ActiveWindowMS > 0 {
			row.Share = 100 * float64(ms) / float64(*g.ActiveWindowMS)
		}
		r.Idle = append(r.Idle, row)
	}
	return r
}

func causeText(c figures.Cause) string { return cmp.Or(string(c), "unknown cause") }

// A direction says which way a figure gets better.
type direction int

const (
	neither direction = iota
	lower
	higher
)

// A figure is how a row gets its numbers.
type figure struct {
	name, note string
	of         func(*figures.Figures) *float64
	text       func(*float64) string
	better     direction
}

func (v *view) figures(fs []*figures.Figures) {
	steady := figure{"seconds per proof", "steady: between the first and the last proof", func(f *figures.Figures) *float64 { return f.SecondsPerProof.Steady }, seconds, lower}
	overall := figure{"seconds per proof, overall", "makespan by proofs", func(f *figures.Figures) *float64 { return f.SecondsPerProof.Overall }, seconds, lower}
	active := figure{"GPU busy", "share of its active window", ofBusiest(func(g *figures.GPU) *float64 { return g.UtilizationActive }), share, higher}
	whole := figure{"GPU busy, overall", "share of the makespan", ofBusiest(func(g *figures.GPU) *float64 { return g.UtilizationOverall }), share, higher}
	kernels := figure{"GPU kernels", "share of its active window", ofBusiest(func(g *figures.GPU) *float64 { return g.KernelUtilizationActive }), share, higher}
	cold := figure{"cold start", "first synthesis to first proof's start", func(f *figures.Figures) *float64 { return number(f.ColdStartMS) }, durationOf, lower}
	makespan := figure{"makespan", "first synthesis start to last GPU end", func(f *figures.Figures) *float64 { return number(f.MakespanMS) }, durationOf, neither}
	proofs := figure{"whole proofs", "", func(f *figures.Figures) *float64 { return of(float64(f.Proofs)) }, counted, neither}
	atOnce := figure{"syntheses at once", "mean, while any runs", func(f *figures.Figures) *float64 { return f.Synthesis.Mean }, decimal, neither}

	first := steady
	if steady.of(fs[0]) == nil {
		first = overall
	}
	for _, fig := range []figure{first, active, kernels, cold, makespan} {
		if r := fig.row(fs); known(r) {
			v.Tiles = append(v.Tiles, r)
		}
	}
	for _, fig := range []figure{steady, overall, active, whole, kernels, cold, makespan, proofs, atOnce} {
		v.Overall.Rows = append(v.Overall.Rows, fig.row(fs))
	}
	for _, cause := range append(figures.Causes[:], figures.UnknownCause) {
		idle := figure{causeText(cause), "", func(f *figures.Figures) *float64 {
			var total int64
			for i := range f.GPUs {
				ms, _ := f.GPUs[i].IdleMS(cause)
				total += ms
			}
			return of(float64(total))
		}, durationOf, lower}
		if r := idle.row(fs); cause != figures.UnknownCause || known(r) && r.Cells[0].Text != "0" {
			v.Idle.Rows = append(v.Idle.Rows, r)
		}
	}
	v.phases(fs)
}

// phases puts the runs' phases side by side, in the order of the first that
// has them.
func (v *view) phases(fs []*figures.Figures) {
	var names []string
	seen := make(map[string]bool)
	for _, f := range fs {
		for _, p := range f.Phases {
			if p.N > 0 && !seen[p.Name] {
				seen[p.Name] = true
				names = append(names, p.Name)
			}
		}
	}
	for _, name := range names {
		row := phaseRow{Name: report.Sanitize(name)}
		median := figure{text: durationOf, better: lower, of: func(f *figures.Figures) *float64 {
			if p := f.Phases.Named(name); p != nil {
				return number(p.P50MS)
			}
			return nil
		}}
		for i, f := range fs {
			cells := phaseCells{Mean: "–", P50: "–", P95: "–", Min: "–", Max: "–"}
			if p := f.Phases.Named(name); p != nil && p.N > 0 {
				cells = phaseCells{N: p.N, Mean: durationOf(p.MeanMS), P50: duration(p.P50MS), P95: duration(p.P95MS), Min: duration(p.MinMS), Max: duration(p.MaxMS)}
			}
			if i > 0 {
				cells.Change = median.cell(fs[0], f)
			}
			row.Runs = append(row.Runs, cells)
		}
		v.Phases = append(v.Phases, row)
	}
}

func (fig figure) row(fs []*figures.Figures) row {
	r := row{Name: fig.name, Note: fig.note}
	for i, f := range fs {
		c := cell{Text: fig.text(fig.of(f))}
		if i > 0 {
			c = fig.cell(fs[0], f)
		}
		r.Cells = append(r.Cells, c)
	}
	return r
}

// cell tells a figure and how it changed: by percent of what it was, and a
// share by percentage points.
func (fig figure) cell(base, f *figures.Figures) cell {
	was, is := fig.of(base), fig.of(f)
	c := cell{Text: fig.text(is)}
	if was == nil || is == nil || fig.better == neither {
		return c
	}
	change := *is - *was
	switch {
	case fig.isShare():
		c.Change = fmt.Sprintf("%+.1f points", 100*change)
	case *was == 0:
		return c
	default:
		change /= math.Abs(*was)
		c.Change = fmt.Sprintf("%+.1f%%", 100*change)
	}
	c.Change = strings.Replace(c.Change, "-", "−", 1)
	switch {
	case math.Abs(change) < sameShare:
		c.Change, c.Trend = "±0", "same"
	case (change < 0) == (fig.better == lower):
		c.Trend = "better"
	default:
		c.Trend = "worse"
	}
	return c
}

func (fig figure) isShare() bool { return strings.HasPrefix(fig.note, "share") }

func known(r row) bool {
	for _, c := range r.Cells {
		if c.Text != unknown {
			return true
		}
	}
	return false
}

func ofBusiest(of func(*figures.GPU) *float64) func(*figures.Figures) *float64 {
	return func(f *figures.Figures) *float64 {
		if f.Verdict.GPU == nil {
			return nil
		}
		return of(&f.GPUs[*f.Verdict.GPU])
	}
}

func of(v float64) *float64 { return &v }

func number(ms *int64) *float64 {
	if ms == nil {
		return nil
	}
	return of(float64(*ms))
}

// kindNote says where runs are not of the same kind.
func kindNote(runs []Run) string {
	first := runs[0].Figures
	for _, r := range runs[1:] {
		f := r.Figures
		if f.Mode != first.Mode && f.Mode != "" && first.Mode != "" {
			return fmt.Sprintf("The runs differ in mode: %s and %s.", first.Mode, f.Mode)
		}
		if a, b := strings.Join(first.ProofKinds, ", "), strings.Join(f.ProofKinds, ", "); a != b && a != "" && b != "" {
			return report.Sanitize(fmt.Sprintf("The runs differ in what they prove: %s and %s.", a, b))
		}
	}
	return ""
}

// A verdict says what limits a run: in a few words, and why.
type verdict struct {
	Bound    figures.Bound
	Headline string
	Detail   string
}

func verdictOf(f *figures.Figures) verdict {
	words := report.VerdictOf(f)
	headline, detail, _ := strings.Cut(words.Reason, ": ")
	return verdict{f.Verdict.Bound, headline, capitalized(strings.TrimSpace(detail + " " + words.Remedy))}
}

// capitalized returns s with its first letter as a capital.
func capitalized(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return ""
	}
	return string(unicode.ToUpper(r)) + s[n:]
}

const unknown = "–"

func seconds(v *float64) string {
	if v == nil {
		return unknown
	}
	return strconv.FormatFloat(*v, 'f', 1, 64) + " s"
}

func share(v *float64) string {
	if v == nil {
		return unknown
	}
	digits := 1
	if *v > 0.999 && *v < 1 {
		digits = 2 // nearly all is not all
	}
	return strconv.FormatFloat(100**v, 'f', digits, 64) + "%"
}

func decimal(v *float64) string {
	if v == nil {
		return unknown
	}
	return strconv.FormatFloat(*v, 'f', 1, 64)
}

func counted(v *float64) string { return grouped(int(*v)) }

func duration(ms *int64) string { return durationOf(number(ms)) }

// durationOf writes a duration given in ms.
func durationOf(ms *float64) string {
	if ms == nil {
		return unknown
	}
	s := *ms / 1000
	switch a := math.Abs(s); {
	case a == 0:
		return "0 s"
	case a < 1:
		return strconv.FormatFloat(*ms, 'f', 0, 64) + " ms"
	case a < 10:
		return strconv.FormatFloat(s, 'f', 2, 64) + " s"
	case a < 1000:
		return strconv.FormatFloat(s, 'f', 1, 64) + " s"
	case a < 3600:
		return fmt.Sprintf("%d min %02d s", int(s)/60, int(s)%60)
	default:
		return strconv.FormatFloat(s/3600, 'f', 1, 64) + " h"
	}
}

func signed(ms int64) string {
	text := duration(&ms)
	if ms > 0 {
		return "+" + text
	}
	return strings.Replace(text, "-", "−", 1)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + many
}

// grouped writes n with a thin space between thousands.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

var functions = template.FuncMap{
	"grouped": grouped,
	// bar writes a share of 100 as a length.
	"bar": func(share float64) string { return strconv.FormatFloat(min(max(share, 0), 100), 'f', 1, 64) + "%" },
}

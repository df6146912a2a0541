package report

import (
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/run"
)

// WaterfallOptions say how [Waterfall] draws.
type WaterfallOptions struct {
	Width int  // columns, at least 40; 0 for DefaultWidth
	Rows  int  // sectors to show at most; 0 for 24
	Color bool // with the terminal's own 16 colours
	ASCII bool // with ASCII only

	// Scope is what to draw of the run. The GPUs' lanes show what they did for
	// all sectors.
	Scope figures.Scope
}

const (
	minWaterfallWidth = 40
	maxWaterfallWidth = 1000
	defaultRows       = 24
)

func (o WaterfallOptions) withDefaults() WaterfallOptions {
	if o.Width == 0 {
		o.Width = DefaultWidth
	}
	o.Width = min(max(o.Width, minWaterfallWidth), maxWaterfallWidth)
	if o.Rows <= 0 {
		o.Rows = defaultRows
	}
	return o
}

// Waterfall draws the run for a terminal: a lane for each sector, which tells
// when it was synthesized, waited and was proved, with its wall time at the
// right; then one for each GPU, whose height is the share of the column's time
// that the GPU was busy, with the utilization of its active window. Where the
// device's phases are known of every proof, a second lane does the same for its kernels.
//
// Of a run with more sectors than rows, the first ones are shown; the time
// axis and the GPUs' lanes then cover these sectors' time only.
func Waterfall(w io.Writer, r *run.Run, o WaterfallOptions) error {
	_, err := w.Write(drawWaterfall(len(o.Scope.Sectors(r)), waterfallSectors(r, o.Scope), o.withDefaults()))
	return err
}

// A waterfallSector is what the drawing needs of a sector.
type waterfallSector struct {
	label      string // not yet sanitized
	attempt    int
	first      int64 // of its times
	state      run.State
	admitted   int64 // ms of the run's clock, or Unknown
	partitions iter.Seq[run.Partition]
	hidden     bool // has no lane of its own
}

func waterfallSectors(r *run.Run, scope figures.Scope) iter.Seq[waterfallSector] {
	return func(yield func(waterfallSector) bool) {
		for _, s := range r.Sectors {
			admitted := s.Admitted
			if admitted != run.Unknown {
				admitted = max(admitted/1000, 0)
			}
			if !yield(waterfallSector{s.Label(), s.Attempt, s.First(), s.State(), admitted, s.Partitions(), !scope.Has(s)}) {
				return
			}
		}
	}
}

// A span is a stretch of time in ms of the run's clock.
type span struct{ start, end int64 }

// widen makes s hold t too, where t is known.
func (s *span) widen(t int64) {
	if t == run.Unknown {
		return
	}
	if s.start == run.Unknown || t < s.start {
		s.start = t
	}
	s.end = max(s.end, t)
}

var nowhere = span{run.Unknown, run.Unknown}

// drawWaterfall goes through the sectors twice, so that what it keeps does not
// grow with the run: first for the extent of those shown, then for the lanes.
func drawWaterfall(total int, sectors iter.Seq[waterfallSector], o WaterfallOptions) []byte {
	var (
		heads  []laneHead
		extent = nowhere
	)
	for s := range sectors {
		if len(heads) == o.Rows {
			break
		}
		if s.hidden {
			continue
		}
		h := headOf(s, o)
		extent.widen(h.extent.start)
		extent.widen(h.extent.end)
		heads = append(heads, h)
	}
	c := canvas{pen: pen{width: o.Width, color: o.Color}, o: o, glyphs: glyphsFor(o)}
	if extent == nowhere {
		return []byte("nothing to draw: no event has a time\n")
	}
	extent.start, extent.end = max(extent.start, o.Scope.From), min(extent.end, o.Scope.Until())
	lostUntil := 0 // the sectors before have seen a later one finish
	for i, h := range heads {
		if h.state == run.Finished {
			lostUntil = i
		}
	}
	for i := range heads {
		// The engine proves the oldest sector first: if a later one has
		// finished, it is lines that are missing, and this one ended too.
		if heads[i].until = extent.end; i < lostUntil {
			heads[i].until = heads[i].extent.end
		}
	}
	c.layOut(heads, extent)

	c.header()
	var gpus gpuLanes
	n := 0
	for s := range sectors {
		if n < len(heads) && !s.hidden {
			c.sector(s, heads[n])
			n++
		}
		if n == len(heads) && s.first > extent.end {
			break // and so are all that follow
		}
		gpus.add(s, extent)
	}
	if more := total - len(heads); more > 0 {
		c.more(more, len(heads))
	}
	c.rule()
	c.gpus(&gpus, extent)
	c.legend()
	return c.out.Bytes()
}

// A laneHead is what stands beside a sector's lane.
type laneHead struct {
	label    string
	state    run.State
	extent   span  // of what is known
	until    int64 // to when what is unfinished is drawn
	failedAt int64
}

func headOf(s waterfallSector, o WaterfallOptions) laneHead {
	h := laneHead{state: s.state, extent: nowhere, failedAt: run.Unknown}
	h.extent.widen(s.admitted)
	partitions := 0
	for p := range s.partitions {
		partitions++
		last := int64(run.Unknown)
		for _, t := range p.Times {
			h.extent.widen(t)
			last = max(last, t)
		}
		// A partition of which only the start is known does not tell when it
		// failed.
		if p.State == run.Failed && last != p.Times[run.SynthStart] {
			h.failedAt = max(h.failedAt, last)
		}
	}
	if partitions == 0 && s.admitted != run.Unknown { // it only waited
		h.extent.widen(s.first)
	}
	if h.state == run.Failed && h.failedAt == run.Unknown {
		h.failedAt = h.extent.end
	}
	suffix := ""
	if s.attempt > 1 {
		suffix = " #" + strconv.Itoa(s.attempt)
	}
	h.label = fit(s.label, maxLabel(o.Width)-len(suffix), o.ASCII) + suffix
	return h
}

// wall returns the sector's wall time, at least that if its end is not known.
func (h laneHead) wall() string {
	switch {
	case h.extent == nowhere:
		return "-"
	case h.state == run.Incomplete:
		return ">" + formatSeconds(h.extent.end-h.extent.start)
	default:
		return formatSeconds(h.extent.end - h.extent.start)
	}
}

func maxLabel(width int) int {
	return min(max(width/6, 10), 16)
}

// glyphs are the characters that a waterfall is drawn with. Each stage has
// one of its own, so that colours add nothing but ease.
type glyphs struct {
	synthesis, proving, both, waiting, unfinished, failed, ellipsis rune

	levels                     []rune // of a GPU's column, from hardly busy to busy throughout
	line, first, between, last rune   // of the axis
}

var (
	unicodeGlyphs = glyphs{
		synthesis: '░', proving: '█', both: '▓', waiting: '·', unfinished: '╌', failed: '✗', ellipsis: '…',
		levels: []rune("▁▂▃▄▅▆▇"), // no full block, which would touch the lane above
		line:   '─', first: '├', between: '┼', last: '┤',
	}
	asciiGlyphs = glyphs{
		synthesis: '.', proving: '#', both: '%', waiting: '-', unfinished: '?', failed: 'X', ellipsis: '~',
		levels: []rune("_=#"),
		line:   '-', first: '+', between: '+', last: '+',
	}
)

func glyphsFor(o WaterfallOptions) glyphs {
	if o.ASCII {
		return asciiGlyphs
	}
	g := unicodeGlyphs
	if o.Color {
		g.synthesis = '▒' // the lighter shade hides its colour
	}
	return g
}

// A canvas collects the lines of a waterfall.
type canvas struct {
	pen
	o      WaterfallOptions
	glyphs glyphs

	label  int // columns of the labels, with the mark
	mark   int // columns of the mark and the blank before it, 0 where no sector has one
	plot   int // columns of the lanes
	wall   int // columns of the wall times and percentages
	start  int64
	perCol float64 // ms
	extent span
	axis   axis

	// Whether the legend must tell of them.
	failed, unfinished, waiting, overlapping, hasGPUs, hasKernels bool
}

const (
	gap        = 1 // columns between a lane and what stands beside it
	finest     = 8 // samples of a column
	kernelsTag = "kernels"
)

func (c *canvas) layOut(heads []laneHead, extent span) {
	c.label = len(kernelsTag)
	c.wall = len("100.0%")
	for _, h := range heads {
		c.label = max(c.label, textWidth(h.label))
		c.wall = max(c.wall, len(h.wall()))
		if h.state != run.Finished {
			c.mark = 2
		}
	}
	c.label += c.mark
	c.plot = c.o.Width - c.label - gap - gap - c.wall
	c.extent = extent
	c.start = extent.start
	c.axis = newAxis(extent, c.plot)
	// The axis starts at a round time where that costs little.
	if round := floorTo(c.start, c.axis.step); float64(c.start-round) <= float64(extent.end-extent.start)/20 {
		c.start = round
		c.axis = newAxis(span{round, extent.end}, c.plot)
	}
	c.perCol = float64(c.axis.step) / float64(c.axis.columns)
}

// header writes the axis.
func (c *canvas) header() {
	c.put(styleDim, c.axis.unit)
	at := len(c.axis.unit)
	for _, t := range c.ticks() {
		text := c.axis.format(t)
		col := c.label + gap + c.column(t)
		if col <= at || col+len(text) >= c.o.Width-len("wall") {
			continue
		}
		c.pad(col - at)
		c.put(styleDim, text)
		at = col + len(text)
	}
	c.pad(c.o.Width - len("wall") - at)
	c.put(styleDim, "wall")
	c.endLine()
	c.rule()
}

// rule draws the line of the axis.
func (c *canvas) rule() {
	line := make([]rune, c.plot)
	for i := range line {
		line[i] = c.glyphs.line
	}
	for _, t := range c.ticks() {
		line[c.column(t)] = c.glyphs.between
	}
	line[0] = c.glyphs.first
	line[len(line)-1] = c.glyphs.last
	c.pad(c.label + gap)
	c.put(styleDim, string(line))
	c.endLine()
}

// ticks returns the round times on the axis.
func (c *canvas) ticks() []int64 {
	var ts []int64
	t := floorTo(c.start, c.axis.step)
	if t < c.start {
		t += c.axis.step
	}
	for ; t >= c.start; t += c.axis.step { // an int64 may end before the axis does
		if c.position(t) >= float64(c.plot) {
			break
		}
		ts = append(ts, t)
	}
	return ts
}

func (c *canvas) column(t int64) int {
	return min(max(int(c.position(t)), 0), c.plot-1)
}

// position returns where t is, in columns.
func (c *canvas) position(t int64) float64 {
	return float64(t-c.start) * float64(c.axis.columns) / float64(c.axis.step)
}

// sector draws a sector's lane.
func (c *canvas) sector(s waterfallSector, h laneHead) {
	c.put(styleNone, h.label)
	used := textWidth(h.label)
	switch h.state {
	case run.Failed:
		c.pad(c.label - used - 1)
		c.putRune(styleFailed, c.glyphs.failed)
		c.failed = true
	case run.Incomplete:
		c.pad(c.label - used - 1)
		c.putRune(styleDim, c.glyphs.unfinished)
		c.unfinished = true
	default:
		c.pad(c.label - used)
	}
	c.pad(gap)

	l := newLane(c.plot, c.start, c.perCol, c.extent)
	if s.admitted != run.Unknown {
		first, partitions := nowhere, 0
		for p := range s.partitions {
			partitions++
			first.widen(p.Times[run.SynthStart])
		}
		if partitions == 0 { // it only waited
			first.widen(s.first)
		}
		if first != nowhere {
			l.cover(stageWaiting, s.admitted, first.start)
		}
	}
	for p := range s.partitions {
		l.partition(p, h.until)
	}
	failed := -1
	if h.failedAt >= c.extent.start && h.failedAt <= c.extent.end {
		failed = c.column(h.failedAt)
	}
	for i, st := range l.columns() {
		if i == failed {
			c.putRune(styleFailed, c.glyphs.failed)
			continue
		}
		switch st {
		case stageSynthesis:
			c.putRune(styleSynthesis, c.glyphs.synthesis)
		case stageProving:
			c.putRune(styleProving, c.glyphs.proving)
		case stageBoth:
			c.putRune(styleBoth, c.glyphs.both)
			c.overlapping = true
		case stageWaiting:
			c.putRune(styleDim, c.glyphs.waiting)
			c.waiting = true
		case stageUnfinished:
			c.putRune(styleDim, c.glyphs.unfinished)
			c.unfinished = true
		default:
			c.putRune(styleNone, ' ')
		}
	}
	c.put(styleNone, fmt.Sprintf("%*s", gap+c.wall, h.wall()))
	c.endLine()
}

// more tells of the sectors that are not shown.
func (c *canvas) more(n, shown int) {
	c.note(fmt.Sprintf("%c %s more %s; axis and GPUs cover the time of the %s shown",
		c.glyphs.ellipsis, grouped(n), plural(n, "sector", "sectors"), grouped(shown)))
}

// gpus draws the devices' lanes.
func (c *canvas) gpus(g *gpuLanes, extent span) {
	ordinals := g.ordinals()
	c.hasGPUs = len(ordinals) > 0
	shown := ordinals[:min(len(ordinals), max(c.o.Rows, defaultRows))]
	for _, ordinal := range shown {
		name := "GPU ?"
		if ordinal != run.Unknown {
			name = "GPU " + strconv.Itoa(ordinal)
		}
		d := g.devices[ordinal]
		d.proving.merge()
		window := span{d.proving.spans[0].start, d.proving.spans[len(d.proving.spans)-1].end}
		c.busy(name, styleProving, d.proving.spans, window)
		// What is not known of some proofs would count as idle.
		if d.kernels.merge(); len(d.kernels.spans) > 0 && d.timed == d.proofs {
			c.hasKernels = true
			c.busy(kernelsTag, styleProving, d.kernels.spans, window)
		}
	}
	if more := len(ordinals) - len(shown); more > 0 {
		c.note(fmt.Sprintf("%c %s more %s", c.glyphs.ellipsis, grouped(more), plural(more, "GPU", "GPUs")))
	}
}

// busy draws a lane as high as the spans, which do not overlap, fill its
// columns, and the share that they fill of the window.
func (c *canvas) busy(name string, st style, spans []span, window span) {
	var total int64
	filled := make([]float64, c.plot)
	for _, s := range spans {
		total += s.end - s.start
		lo, hi := c.position(s.start), c.position(s.end)
		for i := max(int(lo), 0); i < c.plot && float64(i) < hi; i++ {
			filled[i] += min(hi, float64(i+1)) - max(lo, float64(i))
		}
	}
	c.put(styleNone, name)
	c.pad(c.label - len(name) + gap)
	levels := c.glyphs.levels
	for _, f := range filled {
		level := int(math.Round(f * float64(len(levels))))
		switch {
		case f == 0:
			c.putRune(styleNone, ' ')
		default:
			c.putRune(st, levels[min(max(level, 1), len(levels))-1])
		}
	}
	var share *float64
	if window.end > window.start {
		of := float64(total) / float64(window.end-window.start)
		share = &of
	}
	c.put(styleNone, fmt.Sprintf("%*s", gap+c.wall, percent(share)))
	c.endLine()
}

// legend says what the glyphs mean, those in use only.
func (c *canvas) legend() {
	g := c.glyphs
	items := []item{{styleSynthesis, g.synthesis, "synthesis"}}
	if c.overlapping {
		items = append(items, item{styleBoth, g.both, "synthesis and GPU"})
	}
	items = append(items, item{styleProving, g.proving, "GPU"})
	if c.waiting {
		items = append(items, item{styleDim, g.waiting, "waiting"})
	}
	if c.unfinished {
		items = append(items, item{styleDim, g.unfinished, "unfinished"})
	}
	if c.failed {
		items = append(items, item{styleFailed, g.failed, "failed"})
	}
	column := "a column is under 0.001 s"
	if ms := int64(math.Round(c.perCol)); ms > 0 {
		column = "a column is " + formatSeconds(ms)
	}
	items = append(items, item{text: column})
	c.wrap("  ", styleDim, items...)
	if c.hasGPUs {
		text := "GPU lanes: " + string(g.levels) + " busy share of the column; % busy from first to last work"
		if c.hasKernels {
			text += "; kernels: without preparation and waits"
		}
		c.note(text)
	}
}

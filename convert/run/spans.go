package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/provetrace/provetrace/tracing"
)

// ReadSpans yields the runs whose spans files hold, which are read as one, in
// the order of their time. It is for files what [Read] is for logs: an error
// comes last, and what stands before the place that cannot be read is there.
//
// A file holds OTLP: JSON, a request a line as tracing.Setup and the
// collector's file exporter write it, or laid out as one document; protobuf, as
// one request or with lengths in front as the collector writes it. Or it is
// Jaeger's JSON of traces. The first bytes tell. Spans can be in any order, of
// any number of runs, and among those of other programs, which are counted.
//
// A run is told by provetrace.run where it was made of a log, else by
// service.namespace and service.instance.id. Times are cut to whole ms of the
// run's clock, as in a log: that of the log, or else one that starts with the
// ms in which the run does.
//
// Spans of a log give the run of the log again, but for what they do not carry:
// its bytes, lines and events, and what its malformed lines are; workers that
// never took a partition; the admission of a sector without all of its synthesis
// starts; the order of sectors that began in the same ms, where nothing else
// tells it; events behind the last sector's end; and of a partition that lacks
// times, which of two equal ones is the known one.
//
// A sector that a live pipeline has given up, since it was interrupted, has not
// failed: it is incomplete, as if the record had stopped.
//
// The options Epoch and EndNow move a run, which then is another one, without
// the id of the spans.
//
// A run takes memory in proportion to its partitions and their phases. Beyond
// that, spans are held until the trace that they are of is complete: of a file in
// about the order of their ends, 256 Ki. A message can have 64 MiB.
func ReadSpans(ctx context.Context, name string, o Options, sources ...Source) iter.Seq2[*Run, error] {
	return func(yield func(*Run, error) bool) {
		g := newGatherer(maxHeld, lateBy)
		var failed error
		for _, s := range sources {
			if failed = g.read(ctx, s); failed != nil {
				break
			}
		}
		if ctx.Err() != nil {
			yield(nil, context.Cause(ctx))
			return
		}
		runs := g.finish(name)
		for _, r := range runs {
			r.move(o, time.Now())
			if !yield(r, nil) {
				return
			}
		}
		switch {
		case failed != nil:
			yield(nil, failed)
		case len(runs) == 0:
			yield(nil, g.nothing(name))
		}
	}
}

// nothing says why there is no run.
func (g *gatherer) nothing(name string) error {
	if len(g.input.Problems) > 0 {
		p := g.input.Problems[0]
		return fmt.Errorf("no span of the contract in %s: %s %s", name, p.Place(), p.What)
	}
	switch n := g.input.Foreign; n {
	case 0:
		return fmt.Errorf("no span of the contract in %s, and no other", name)
	case 1:
		return fmt.Errorf("no span of the contract in %s: its only span is not of a sector's proof", name)
	default:
		return fmt.Errorf("no span of the contract in %s: none of its %d spans is of a sector's proof", name, n)
	}
}

// A runKey names the run that a span is of.
type runKey struct{ run, namespace, instance string }

// A gatherer gathers the spans of files by run and trace.
type gatherer struct {
	runs  map[runKey]*gathered
	order []*gathered       // as they were found
	words map[string]string // to hold each text once
	input Input             // what is of no single run
	at    Problem           // the place of the present message

	held int // records
	most int // maxHeld
	late int // lateBy
	room int // how many may be held before those of complete traces are settled
	seen int // spans
}

const (
	// maxHeld is how many spans are held before those of traces are settled
	// that look complete.
	maxHeld = 1 << 18

	// lateBy is how many spans after the last one of a trace that looks
	// complete further ones of it may come, where there are very many.
	lateBy = 1 << 17

	maxWords = 1 << 16
	maxWord  = 4 << 10 // bytes
)

func newGatherer(most, late int) *gatherer {
	return &gatherer{runs: make(map[runKey]*gathered), words: make(map[string]string), most: most, late: late, room: most}
}

// A gathered is a run in the making.
type gathered struct {
	r        *Run
	replayed bool  // the spans were made of a log
	epoch    int64 // ns since 1970; 0 where the spans do not tell
	first    int64 // of all times, ms
	last     int64 // of all times, ms
	traces   map[pcommon.TraceID]*tree
	order    []*tree // as they were found
	devices  map[int32]*Device
	workers  map[int32]map[int32]bool // by device
	names    map[string]int32         // of phases
	scopes   map[string]int32         // instrumentation scopes
}

// A tree is what is known of a trace.
type tree struct {
	id      pcommon.TraceID
	spans   []record
	root    bool // it has a sector's span
	settled bool // it has become sectors
	latest  int  // of the spans seen
}

// read reads a file.
func (g *gatherer) read(ctx context.Context, s Source) error {
	in, err := s.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	counted := &counter{r: in, n: &g.input.Bytes}
	m, err := newMessages(counted)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", s.Name, err)
	}
	defer m.close()
	g.at = Problem{File: s.Name, Message: m.format == formatProto || m.format == formatFramed}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		traces, err := m.next()
		g.at.Line = m.number
		damage := (*damage)(nil)
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &damage):
			g.problem(damage.what)
			continue
		case err != nil && m.number == 0:
			return fmt.Errorf("cannot read %s: %w", s.Name, err)
		case err != nil:
			return fmt.Errorf("cannot read %s at %s: %w", s.Name, g.at.Place(), err)
		}
		g.input.Messages++
		g.add(traces, m.format == formatJaeger)
		if g.held > g.room {
			g.relieve()
		}
	}
}

// problem keeps what cannot be read at the present place.
func (g *gatherer) problem(what string) {
	g.input.Malformed++
	if len(g.input.Problems) < maxProblems {
		p := g.at
		p.What = what
		g.input.Problems = append(g.input.Problems, p)
	}
}

// A counter counts the bytes that are read.
type counter struct {
	r io.Reader
	n *int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	*c.n += int64(n)
	return n, err
}

// word returns an equal text that others share. One that is longer than names
// and reasons are is cut.
func (g *gatherer) word(s string) string {
	if len(s) > maxWord {
		s = strings.ToValidUTF8(s[:maxWord], "")
	}
	if w, ok := g.words[s]; ok {
		return w
	}
	if len(g.words) == maxWords {
		clear(g.words)
	}
	g.words[s] = s
	return s
}

// add adds the spans of a message. Their times can be cut to µs.
func (g *gatherer) add(traces ptrace.Traces, micros bool) {
	for _, rs := range traces.ResourceSpans().All() {
		of := g.runOf(rs.Resource().Attributes())
		cut := int64(0)
		if micros {
			// All times of a replay are whole ms, or µs, from its epoch.
			cut = of.epoch % int64(time.Microsecond)
		}
		for _, ss := range rs.ScopeSpans().All() {
			scope := numberOf(of.scopes, ss.Scope().Name())
			for _, s := range ss.Spans().All() {
				g.addSpan(of, s, scope, cut)
			}
		}
	}
}

// runOf returns the run of a resource.
func (g *gatherer) runOf(resource pcommon.Map) *gathered {
	var key runKey
	var source, epoch string
	var input Input
	assumed := false
	uncertainty := time.Duration(-1)
	for k, v := range resource.All() {
		switch k {
		case string(tracing.RunID):
			key.run = v.Str()
		case string(semconv.ServiceNamespaceKey):
			key.namespace = v.Str()
		case string(semconv.ServiceInstanceIDKey):
			key.instance = v.Str()
		case string(tracing.EpochSource):
			source = v.Str()
		case string(tracing.EpochTime):
			epoch = v.Str()
		case string(tracing.EpochError):
			if ms := measured(v); ms >= 0 && ms < maxSpan {
				uncertainty = time.Duration(ms*float64(time.Millisecond) + 0.5)
			}
		case string(tracing.InputMalformed):
			input.Malformed = tally(v)
		case string(tracing.InputStitched):
			input.Stitched = tally(v)
		case string(tracing.InputDuplicates):
			input.Duplicates = tally(v)
		case string(tracing.InputOrphans):
			input.Orphans = tally(v)
		case string(tracing.WorkersAssumed):
			assumed = v.Bool()
		}
	}
	if key.run != "" {
		key = runKey{run: key.run}
	}
	if of := g.runs[key]; of != nil {
		return of
	}
	of := &gathered{
		r: &Run{ID: key.run, Last: math.MaxInt64}, replayed: key.run != "",
		first: math.MaxInt64, last: math.MinInt64,
		traces: make(map[pcommon.TraceID]*tree), devices: make(map[int32]*Device),
		workers: make(map[int32]map[int32]bool), names: make(map[string]int32), scopes: make(map[string]int32),
	}
	of.r.Epoch = Epoch{Source: EpochSpans}
	if of.replayed {
		of.r.Epoch = Epoch{Source: EpochSource(source), Uncertainty: uncertainty}
		of.r.Input, of.r.WorkersAssumed = input, assumed
		at, err := time.Parse(time.RFC3339Nano, epoch)
		if err == nil && at.Year() >= 1970 && at.Year() < 2200 {
			of.epoch = at.UnixNano()
		}
	}
	g.runs[key] = of
	g.order = append(g.order, of)
	return of
}

// numberOf returns the number of a name among others, and gives it one if need
// be.
func numberOf(names map[string]int32, name string) int32 {
	n, ok := names[name]
	if !ok {
		n = int32(len(names))
		names[name] = n
	}
	return n
}

// addSpan adds a span to its trace, or counts it as another program's.
func (g *gatherer) addSpan(of *gathered, s ptrace.Span, scope int32, cut int64) {
	g.seen++
	r, device, backend, beyond := readRecord(s)
	r.scope = scope
	r.start += cut
	r.end += cut
	if r.kind == kindOther && beyond != "" {
		g.problem(fmt.Sprintf("has a span %q of trace %s whose %s cannot be", s.Name(), s.TraceID(), beyond))
		return
	}
	// A phase can be of any name, but is inside a synthesis or a proof.
	if r.kind == kindOther && r.parent == 0 {
		g.input.Foreign++
		return
	}
	t := of.traces[s.TraceID()]
	if t == nil {
		t = &tree{id: s.TraceID()}
		of.traces[t.id] = t
		of.order = append(of.order, t)
	}
	switch {
	case t.settled:
		g.problem(fmt.Sprintf("has a span %q of trace %s, long after the others of that", s.Name(), t.id))
		return
	case r.start <= 0 || r.end < r.start:
		g.problem(fmt.Sprintf("has a span %q of trace %s whose times are none", s.Name(), t.id))
		return
	}
	if backend != "" {
		of.r.Backend = g.word(backend)
	}
	if r.device >= 0 && (r.kind == kindProve || r.kind == kindOverview && s.Name() != tracing.SpanIdle) {
		of.sees(device, r.worker)
	}
	r.name, r.reason = g.word(r.name), g.word(r.reason)
	t.spans = append(t.spans, r)
	t.root = t.root || r.kind == kindSector
	t.latest = g.seen
	g.held++
}

// sees notes a device and a worker, which may be Unknown, that drives it.
func (of *gathered) sees(d Device, worker int32) {
	ordinal := int32(d.Ordinal)
	known := of.devices[ordinal]
	if known == nil {
		known = &Device{Ordinal: d.Ordinal}
		of.devices[ordinal] = known
		of.workers[ordinal] = make(map[int32]bool)
	}
	known.UUID = cmp.Or(known.UUID, d.UUID)
	known.Name = cmp.Or(known.Name, d.Name)
	known.Model = cmp.Or(known.Model, d.Model)
	known.Vendor = cmp.Or(known.Vendor, d.Vendor)
	known.DriverVersion = cmp.Or(known.DriverVersion, d.DriverVersion)
	known.PCIBusID = cmp.Or(known.PCIBusID, d.PCIBusID)
	if worker >= 0 {
		of.workers[ordinal][worker] = true
	}
}

// relieve settles the traces that look complete, so that their spans need not
// be held.
func (g *gatherer) relieve() {
	for _, of := range g.order {
		for _, t := range of.order {
			if t.root && !t.settled && g.seen-t.latest > g.late {
				g.settle(of, t)
			}
		}
	}
	g.room = max(g.most, 2*g.held)
}

// settle makes sectors of a trace.
func (g *gatherer) settle(of *gathered, t *tree) {
	of.settle(g, t)
	g.held -= len(t.spans)
	t.spans, t.settled = nil, true
}

// finish makes the runs of all that was read.
func (g *gatherer) finish(name string) []*Run {
	var found []*gathered
	for _, of := range g.order {
		for _, t := range of.order {
			if !t.settled {
				g.settle(of, t)
			}
		}
		if len(of.r.Sectors) > 0 {
			of.finish()
			found = append(found, of)
		}
	}
	slices.SortFunc(found, func(a, b *gathered) int {
		return cmp.Or(
			a.r.Time(a.r.First).Compare(b.r.Time(b.r.First)),
			cmp.Compare(a.r.ID, b.r.ID),
			cmp.Compare(a.r.Sectors[0].Job, b.r.Sectors[0].Job),
		)
	})
	var runs []*Run
	for i, of := range found {
		r := of.r
		r.Name = name
		if i > 0 {
			r.Name = name + "#" + strconv.Itoa(i+1)
		} else {
			in := &g.input
			r.Input.Bytes, r.Input.Messages, r.Input.Foreign = in.Bytes, in.Messages, in.Foreign
			r.Input.Malformed += in.Malformed
			r.Input.Problems = in.Problems
		}
		runs = append(runs, r)
	}
	return runs
}

// finish closes a run whose sectors are there.
func (of *gathered) finish() {
	r := of.r
	r.Last = of.last
	r.names = make([]string, len(of.names))
	for name, n := range of.names {
		r.names[n] = name
	}
	if of.epoch == 0 || of.first < 0 {
		of.shift(of.first)
	}
	r.Epoch.Time = time.Unix(0, of.epoch).UTC()
	slices.SortFunc(r.Sectors, func(a, b *Sector) int {
		return cmp.Or(
			cmp.Compare(a.first, b.first),
			cmp.Compare(a.Admitted, b.Admitted),
			cmp.Compare(a.lastStart(), b.lastStart()),
			cmp.Compare(a.end(), b.end()),
			cmp.Compare(a.Job, b.Job),
			cmp.Compare(a.Attempt, b.Attempt),
		)
	})
	of.countAttempts()
	r.First = r.Sectors[0].first
	for _, s := range r.Sectors {
		for p := range s.each() {
			r.longestSynthesis = max(r.longestSynthesis, p.between(SynthStart, SynthEnd))
			r.longestProof = max(r.longestProof, p.between(Queued, GPUEnd))
		}
		r.tally.add(s)
	}
	for ordinal, d := range of.devices {
		for w := range of.workers[ordinal] {
			d.Workers = append(d.Workers, int(w))
		}
		slices.Sort(d.Workers)
		r.Devices = append(r.Devices, *d)
	}
	slices.SortFunc(r.Devices, func(a, b Device) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	for _, d := range r.Devices {
		for _, w := range d.Workers {
			if more := w + 1 - len(r.drives); more > 0 {
				r.drives = append(r.drives, make([]int32, more)...)
			}
			r.drives[w] = int32(d.Ordinal) + 1
		}
	}
}

// end returns the last known time of the sector.
func (s *Sector) end() int64 {
	_, last := s.Extent()
	return last
}

// lastStart returns when the last synthesis of the sector began. Of sectors that
// begin at once, an engine prefers the older one, and it also ends first.
func (s *Sector) lastStart() int64 {
	last := int64(Unknown)
	for p := range s.each() {
		if t := p.t[SynthStart]; t != absent {
			last = max(last, s.base+int64(t))
		}
	}
	return last
}

// move moves the run to where the user wants it.
func (r *Run) move(o Options, now time.Time) {
	switch {
	case o.EndNow:
		at := now.Add(-time.Duration(r.Last) * time.Millisecond)
		r.Epoch = Epoch{at.UTC().Truncate(time.Millisecond), EpochNow, 0}
	case !o.Epoch.IsZero():
		r.Epoch = Epoch{o.Epoch, EpochGiven, 0}
	default:
		return
	}
	r.ID = ""
}

// shift moves the run's clock on by so many ms.
func (of *gathered) shift(ms int64) {
	r := of.r
	of.epoch += ms * int64(time.Millisecond)
	r.Last -= ms
	for _, s := range r.Sectors {
		s.first -= ms
		s.base -= ms
		if s.Admitted != Unknown {
			s.Admitted -= ms * msMicros
		}
		checks := s.Checks()
		for i := range checks {
			checks[i].Start -= ms
			checks[i].End -= ms
		}
	}
}

// countAttempts gives sectors of a job different numbers, where a pipeline did
// not count them.
func (of *gathered) countAttempts() {
	type attempt struct {
		job string
		n   int
	}
	seen := make(map[attempt]bool)
	last := make(map[string]int)
	for _, s := range of.r.Sectors {
		if s.Attempt < 1 || seen[attempt{s.Job, s.Attempt}] {
			s.Attempt = last[s.Job] + 1
		}
		seen[attempt{s.Job, s.Attempt}] = true
		last[s.Job] = max(last[s.Job], s.Attempt)
	}
}

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"time"

	"github.com/provetrace/provetrace/convert/enginelog"
	"github.com/provetrace/provetrace/tracing/timeline"
)

// A Length says how much of a log there is.
type Length struct {
	Bytes, Lines int64
}

func (l Length) plus(m Length) Length { return Length{l.Bytes + m.Bytes, l.Lines + m.Lines} }

// A what says what an item is.
type what uint8

const (
	itemEvent what = iota
	itemMalformed
	itemFact
	itemTimings
)

// An item is what a line says.
type item struct {
	offset    int64  // ms
	byte      int64  // the line's place, from its batch's first item's
	line      uint32 // likewise
	duration  int32  // ms, or Unknown
	job       int32  // its number, the complement of that in the batch until the feed has it
	extra     int32  // in the batch, or Unknown
	partition int16  // or timeline.WholeSector
	worker    int16  // or Unknown
	what      what
	kind      timeline.Kind
	stitched  bool
}

// An extra is what few items have.
type extra struct {
	fact       enginelog.Kind
	device     int32
	count      int64
	wall       int64 // µs since 1970, or 0
	until      int64 // µs since 1970: the last time of the lines that the item stands for
	resolution time.Duration
	source     string
	line       int64  // number, from the block's first one until the feed has it
	text       string // a kind of proof, a reason
	problem    string
	timings    enginelog.Durations
}

// A batch is a stretch of items of a block.
type batch struct {
	items      []item
	extras     []extra
	jobs       idTable
	numbers    []int32 // of the jobs, once the feed has it
	begin, end Length  // before its first item's line, if it has any, and behind its last line; from the block's first until the feed has it
}

// item returns an item, whose job has its number then.
func (b *batch) item(i int) *item {
	it := &b.items[i]
	if it.job < 0 {
		it.job = b.numbers[^it.job]
	}
	return it
}

// A lexer reads the lines of blocks. Several share a log.
//
// Each reads a block as if a log began there. Where one turns out to end in the
// midst of a torn line, or of one longer than itself, this cannot be done: then
// the feed's own lexer reads it, and on through the next ones, in their order.
type lexer struct {
	cutter  *cutter
	free    chan *batch
	started time.Time
	lines   *timeline.Reader
	parser  enginelog.Parser
	fact    enginelog.Fact

	latest    [27]byte // the time of the latest of some lines in a row, as written
	hasLatest bool

	out *batch

	at   *block // being read
	rest []byte // unread of at
}

func newLexer(c *cutter, free chan *batch, started time.Time) *lexer {
	l := &lexer{cutter: c, free: free, started: started}
	l.restart()
	return l
}

// restart gives the lexer a new reader of lines.
func (l *lexer) restart() {
	l.lines = timeline.NewReader(nil, "")
	l.lines.KeepText(true)
}

// run lexes blocks until there are no more.
func (l *lexer) run(ctx context.Context) {
	debug.SetPanicOnFault(true) // see inPlace
	for b := l.cutter.next(ctx); b != nil; b = l.cutter.next(ctx) {
		l.lex(b)
	}
}

// lex says what the lines of a block are.
func (l *lexer) lex(b *block) {
	defer close(b.lexed)
	l.begin(b, oneBlock{l})
	out, more, err := l.read(math.MaxInt)
	switch {
	case err != nil:
		b.batch, b.err = out, err
		l.restart() // it was left in the middle of a line
	case !more && l.lines.Err() == nil:
		b.batch = out
	}
}

// begin begins with a block. src reads from it.
func (l *lexer) begin(b *block, src io.Reader) {
	l.at, l.rest = b, nil
	l.lines.Reset(b.data, src, "")
}

// read returns what the next lines say, some n items of them, and whether there
// are more. An error is of a file that is looked at in place; it comes with what
// was read before.
func (l *lexer) read(n int) (out *batch, more bool, err error) {
	l.out, l.hasLatest = l.newBatch(), false
	if err = inPlace(func() { more = l.readItems(n) }); err != nil {
		more, err = false, &readError{name: l.at.source.Name, line: 1, err: err}
	}
	if l.hasLatest {
		l.settle()
	}
	s := l.lines.Stats()
	l.out.end = Length{s.Bytes, s.Lines}
	return l.out, more, err
}

func (l *lexer) readItems(n int) (more bool) {
	for len(l.out.items) < n {
		if more = l.lines.Scan(); !more {
			break
		}
		rec := l.lines.Record()
		switch rec.Type {
		case timeline.EventRecord:
			l.event(rec)
		case timeline.MalformedRecord:
			l.malformed(rec, rec.Problem, string(rec.Text))
		case timeline.TextRecord:
			if l.parser.Parse(rec.Text, &l.fact) {
				l.engine(rec, &l.fact)
			}
		}
	}
	return more
}

// errTorn is why a block cannot be read alone.
var errTorn = errors.New("the block ends before what is in it does")

// A oneBlock reads the block that its lexer is at.
type oneBlock struct{ l *lexer }

func (r oneBlock) Read(p []byte) (int, error) {
	l := r.l
	if len(l.rest) == 0 {
		if l.at.last || l.lines.Idle() {
			return 0, io.EOF
		}
		return 0, errTorn
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// A throughBlocks reads the block that its lexer is at, and on through the next
// ones until one ends with a line that is done with.
type throughBlocks struct {
	l   *lexer
	ctx context.Context
}

func (r throughBlocks) Read(p []byte) (int, error) {
	for {
		n, err := oneBlock{r.l}.Read(p)
		if err != errTorn {
			return n, err
		}
		b := r.l.cutter.after(r.ctx, r.l.at)
		if b == nil {
			return 0, errTorn // nobody wants to know any more
		}
		<-b.lexed
		r.l.cutter.free(r.l.at)
		r.l.at, r.l.rest = b, b.data
	}
}

// shortLine is how long an event's line is at least, nearly always, in bytes.
const shortLine = 80

func (l *lexer) newBatch() *batch {
	select {
	case b := <-l.free:
		b.items, b.extras = b.items[:0], b.extras[:0]
		b.jobs.reset()
		return b
	default:
		return &batch{items: make([]item, 0, blockSize/shortLine)}
	}
}

// add returns a new item in the present batch.
func (l *lexer) add(rec *timeline.Record, w what) *item {
	if l.hasLatest {
		l.settle()
	}
	b := l.out
	if len(b.items) == 0 {
		b.begin = Length{rec.Byte, rec.Line - 1}
	}
	if len(b.items) < cap(b.items) {
		b.items = b.items[:len(b.items)+1]
	} else {
		b.items = append(b.items, item{})
	}
	it := &b.items[len(b.items)-1]
	*it = item{byte: rec.Byte - b.begin.Bytes, line: uint32(rec.Line - 1 - b.begin.Lines), extra: Unknown, what: w}
	return it
}

// extra returns a new extra for an item of the present batch.
func (l *lexer) extra(it *item) *extra {
	b := l.out
	it.extra = int32(len(b.extras))
	b.extras = append(b.extras, extra{})
	return &b.extras[it.extra]
}

// settle says until when the lines went on for which the latest item stands.
func (l *lexer) settle() {
	l.hasLatest = false
	if t, ok := l.parser.Time(l.latest[:]); ok && plausible(t) {
		b := l.out
		b.extras[b.items[len(b.items)-1].extra].until = t
	}
}

func (l *lexer) event(rec *timeline.Record) {
	ev := &rec.Event
	if problem := beyond(ev); problem != "" {
		text := ev.AppendTo(nil)
		l.malformed(rec, problem, string(text[:min(len(text)-1, maxShown)]))
		return
	}
	it := l.add(rec, itemEvent)
	it.kind = ev.Kind
	it.offset = ev.Offset
	it.partition = int16(ev.Partition)
	it.worker = int16(ev.Worker)
	it.duration = span(ev.Duration)
	it.job = ^l.out.jobs.of(ev.Job)
	it.stitched = rec.Stitched
	if len(ev.ProofKind) > 0 {
		l.extra(it).text = string(ev.ProofKind)
	}
	if len(rec.Prefix) > 0 {
		ref := l.started
		if t := l.at.source.ModTime; !t.IsZero() {
			ref = t
		}
		if t, resolution, ok := rec.PrefixTime(ref); ok && plausible(t.UnixMicro()) {
			if it.extra < 0 {
				l.extra(it)
			}
			x := &l.out.extras[it.extra]
			x.wall, x.resolution = t.UnixMicro(), resolution
		}
	}
}

// maxShown is how much is kept of an event that is out of range, in bytes.
const maxShown = 256

// beyond says which number of an event is larger than a run can hold.
func beyond(ev *timeline.Event) string {
	switch {
	case ev.Partition > maxPartition:
		return fmt.Sprintf("a partition beyond %d", maxPartition)
	case ev.Worker > maxWorker:
		return fmt.Sprintf("a worker beyond %d", maxWorker)
	case ev.Offset > maxOffset:
		return "an offset beyond 34 years"
	}
	return ""
}

// span returns a duration in ms as a partition keeps it.
func span(ms int64) int32 {
	if ms > maxSpan {
		return Unknown
	}
	return int32(ms)
}

// plausible reports whether a time, in µs since 1970, is one that a clock can
// have shown, and not a random number. Times up to 2200 fit what they are
// exported as.
func plausible(us int64) bool { return us > 0 && us < 230*365*24*3600*1e6 }

func (l *lexer) malformed(rec *timeline.Record, problem, text string) {
	x := l.extra(l.add(rec, itemMalformed))
	x.source, x.line, x.problem, x.text = l.at.source.Name, rec.Line, problem, text
}

// engine adds what a line of the engine says.
func (l *lexer) engine(rec *timeline.Record, f *enginelog.Fact) {
	if f.Kind == enginelog.Other {
		// Of many in a row, the first and the last bound the epoch.
		if b := l.out; len(b.items) > 0 && b.items[len(b.items)-1].what == itemFact {
			l.latest, l.hasLatest = [len(l.latest)]byte(f.Stamp), true
			return
		}
		f.Time, _ = l.parser.Time(f.Stamp)
	}
	if f.Kind != enginelog.Timings && !plausible(f.Time) {
		return
	}
	it := l.add(rec, itemFact)
	x := l.extra(it)
	x.fact, x.wall, x.until = f.Kind, f.Time, f.Time
	switch f.Kind {
	case enginelog.Timings:
		it.what, x.timings = itemTimings, f.Timings
	case enginelog.WorkerStarted:
		if f.Worker > maxWorker {
			x.fact = enginelog.Other
			return
		}
		it.worker, x.device = int16(f.Worker), int32(min(f.Device, maxWorker))
	case enginelog.Dispatched:
		it.job, x.count = ^l.out.jobs.of(f.Job), f.Count
	case enginelog.Admitted:
		it.job = ^l.out.jobs.of(f.Job)
	case enginelog.Synthesized, enginelog.Skipped, enginelog.Failed:
		it.job, it.duration = ^l.out.jobs.of(f.Job), span(f.Millis)
		it.partition = timeline.WholeSector
		if f.Partition >= 0 && f.Partition <= maxPartition {
			it.partition = int16(f.Partition)
		}
		if f.Kind == enginelog.Failed {
			x.text = string(f.Reason)
		}
	}
}

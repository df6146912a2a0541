package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/readahead"

	"github.com/provetrace/provetrace/convert/enginelog"
	"github.com/provetrace/provetrace/tracing/timeline"
)

// A Length says how much of a log there is.
type Length struct {
	Bytes, Lines int64
}

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
	at        Length // the line's place in the log
	offset    int64  // ms
	duration  int32  // ms, or Unknown
	job       int32  // its number
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
	line       int64
	text       string // a kind of proof, a reason
	problem    string
	timings    enginelog.Durations
}

// A batch is a stretch of items.
type batch struct {
	items  []item
	extras []extra
	end    Length // behind its last line
}

const (
	readBuffers = 4
	readSize    = 256 << 10 // bytes

	batchItems = 1024
	batches    = 4 // under way at once
)

// A lexer reads the lines of a log, in a goroutine of its own, so that reading
// and assembling share the work.
type lexer struct {
	sources []Source
	started time.Time
	batches chan *batch
	free    chan *batch
	parser  enginelog.Parser

	latest    [27]byte // the time of the latest of some lines in a row, as written
	hasLatest bool
	jobs      jobs

	out    *batch
	source *Source // being read
	before Length  // of the sources before it
	err    error   // for the receiver of the last batch
}

func newLexer(sources []Source) *lexer {
	l := &lexer{
		sources: sources, started: time.Now(),
		batches: make(chan *batch, batches), free: make(chan *batch, batches+2), // those held by the feed
	}
	for range cap(l.free) {
		l.free <- &batch{items: make([]item, 0, batchItems)}
	}
	return l
}

// run reads all sources.
func (l *lexer) run(ctx context.Context) {
	defer close(l.batches)
	for i := range l.sources {
		l.source = &l.sources[i]
		if err := l.read(ctx); err != nil {
			l.err = err
			break
		}
	}
	l.jobs.byID = nil // no further line needs a number
	if l.out != nil {
		l.flush(ctx)
	}
}

// read reads a source.
func (l *lexer) read(ctx context.Context) (err error) {
	f, err := l.source.Open()
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); e != nil && err == nil && !errors.Is(e, io.EOF) {
			err = fmt.Errorf("reading %s: %w", l.source.Name, e)
		}
	}()
	ahead, err := readahead.NewReaderSize(f, readBuffers, readSize)
	if err != nil {
		return err
	}
	defer ahead.Close()
	lines := timeline.NewReader(ahead, l.source.Name)
	lines.KeepText(true)
	var fact enginelog.Fact
	for lines.Scan() {
		rec := lines.Record()
		switch rec.Type {
		case timeline.EventRecord:
			l.parser.Bare = len(rec.Prefix) == 0
			l.event(ctx, rec)
		case timeline.MalformedRecord:
			l.malformed(ctx, rec, rec.Problem, string(rec.Text))
		case timeline.TextRecord:
			if l.parser.Parse(rec.Text, &fact) {
				l.fact(ctx, rec, &fact)
			}
		}
		if rec.Line&0xfff == 0 && ctx.Err() != nil {
			return nil // the receiver knows
		}
	}
	s := lines.Stats()
	l.before.Bytes += s.Bytes
	l.before.Lines += s.Lines
	if l.out != nil {
		l.out.end = l.before
	}
	return lines.Err()
}

// add returns a new item in the present batch.
func (l *lexer) add(ctx context.Context, rec *timeline.Record, w what) *item {
	l.settle()
	at := Length{l.before.Bytes + rec.Byte, l.before.Lines + rec.Line - 1}
	b := l.out
	if b == nil || len(b.items) == batchItems {
		if b != nil {
			b.end = at
			l.flush(ctx)
		}
		select {
		case b = <-l.free:
			b.items, b.extras = b.items[:0], b.extras[:0]
		case <-ctx.Done():
			b = &batch{items: make([]item, 0, batchItems)} // nobody will see it
		}
		l.out = b
	}
	b.items = b.items[:len(b.items)+1]
	it := &b.items[len(b.items)-1]
	*it = item{at: at, extra: Unknown, what: w}
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
	if !l.hasLatest {
		return
	}
	l.hasLatest = false
	if t, ok := l.parser.Time(l.latest[:]); ok && plausible(t) {
		b := l.out
		b.extras[b.items[len(b.items)-1].extra].until = t
	}
}

func (l *lexer) flush(ctx context.Context) {
	l.settle()
	select {
	case l.batches <- l.out:
	case <-ctx.Done(): // nobody waits for it
	}
	l.out = nil
}

func (l *lexer) event(ctx context.Context, rec *timeline.Record) {
	ev := &rec.Event
	if problem := beyond(ev); problem != "" {
		text := ev.AppendTo(nil)
		l.malformed(ctx, rec, problem, string(text[:min(len(text)-1, maxShown)]))
		return
	}
	it := l.add(ctx, rec, itemEvent)
	it.kind = ev.Kind
	it.offset = ev.Offset
	it.partition = int16(ev.Partition)
	it.worker = int16(ev.Worker)
	it.duration = span(ev.Duration)
	it.job = l.jobs.of(ev.Job)
	it.stitched = rec.Stitched
	if len(ev.ProofKind) > 0 {
		l.extra(it).text = string(ev.ProofKind)
	}
	if len(rec.Prefix) > 0 {
		ref := l.started
		if !l.source.ModTime.IsZero() {
			ref = l.source.ModTime
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

func (l *lexer) malformed(ctx context.Context, rec *timeline.Record, problem, text string) {
	x := l.extra(l.add(ctx, rec, itemMalformed))
	x.source, x.line, x.problem, x.text = l.source.Name, rec.Line, problem, text
}

// fact adds what a line of the engine says.
func (l *lexer) fact(ctx context.Context, rec *timeline.Record, f *enginelog.Fact) {
	if f.Kind == enginelog.Other {
		// Of many in a row, the first and the last bound the epoch.
		if b := l.out; b != nil && len(b.items) > 0 && b.items[len(b.items)-1].what == itemFact {
			l.latest, l.hasLatest = [len(l.latest)]byte(f.Stamp), true
			return
		}
		f.Time, _ = l.parser.Time(f.Stamp)
	}
	if f.Kind != enginelog.Timings && !plausible(f.Time) {
		return
	}
	it := l.add(ctx, rec, itemFact)
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
		it.job, x.count = l.jobs.of(f.Job), f.Count
	case enginelog.Admitted:
		it.job = l.jobs.of(f.Job)
	case enginelog.Synthesized, enginelog.Skipped, enginelog.Failed:
		it.job, it.duration = l.jobs.of(f.Job), span(f.Millis)
		it.partition = timeline.WholeSector
		if f.Partition >= 0 && f.Partition <= maxPartition {
			it.partition = int16(f.Partition)
		}
		if f.Kind == enginelog.Failed {
			x.text = string(f.Reason)
		}
	}
}

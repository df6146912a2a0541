package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// Options are the options of [Read].
type Options struct {
	// WorkersPerDevice maps GPU workers to devices where the log does not:
	// device = worker / WorkersPerDevice. 0 means that there is one device.
	WorkersPerDevice int

	// Epoch, where not zero, is the wall clock of offset 0, whatever the log
	// says.
	Epoch time.Time

	// EndNow moves the run so that its last event is at present, whatever the
	// log says.
	EndNow bool
}

// A Source is one piece of a log.
type Source struct {
	Name    string
	ModTime time.Time // of the last write, zero where unknown
	Open    func() (io.ReadCloser, error)
}

// Read yields the runs of a log of one or more pieces, which are read one after
// the other as one stream. The name is that of the log. An error comes last,
// without a run; what stands before the place that cannot be read is a run as
// well. A log without any event has a run without sectors if it has a line with
// the marker, for its account, and none otherwise.
//
// One run is held at a time, and those before it that need its epoch for their
// own. A run takes memory in proportion to its partitions, some 60 bytes each,
// and not to the length of the log.
func Read(ctx context.Context, name string, o Options, sources ...Source) iter.Seq2[*Run, error] {
	return func(yield func(*Run, error) bool) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // see inPlace
		ctx, cancel := context.WithCancel(ctx)
		helpers := min(runtime.GOMAXPROCS(0)-1, maxHelpers)
		c, before := newCutter(sources, 4*helpers+8)
		defer c.close()
		var lexing sync.WaitGroup
		defer lexing.Wait()
		defer cancel()
		f := newFeed(ctx, c, before, sources)
		for range helpers {
			lexing.Go(func() { newLexer(c, f.free, f.started).run(ctx) })
		}
		var begin Length
		var held []*Run
		for runs := 1; ; runs++ {
			asm := newAssembly(o, f)
			for it := f.next(); it != nil; it = f.next() {
				if asm.restarts(it, f) {
					f.back()
					break
				}
				asm.take(it, f.extra(it))
			}
			if ctx.Err() != nil {
				yield(nil, context.Cause(ctx))
				return
			}
			if !asm.empty() {
				u := name
				if runs > 1 {
					u = fmt.Sprintf("%s#%d", name, runs)
				}
				end := f.length()
				held = append(held, asm.finish(u, Length{end.Bytes - begin.Bytes, end.Lines - begin.Lines}))
				begin = end
			}
			if f.ended() {
				cancel()
				lexing.Wait()
				f.leave()
			}
			// A run without a clock of its own ended before the next one began.
			if last := len(held) - 1; f.ended() || last >= 0 && held[last].Epoch.own() {
				for i := last - 1; i >= 0; i-- {
					held[i].endBefore(held[i+1])
				}
				for _, r := range held {
					if !yield(r, nil) {
						return
					}
				}
				held = nil
			}
			if f.ended() {
				if f.err != nil {
					yield(nil, f.err)
				}
				return
			}
		}
	}
}

// maxHelpers bounds the goroutines that lex a log beside the one that assembles
// it.
const maxHelpers = 3

// A feed is where the assembly takes the items from that the lexers make, in
// the order of the log. It can look ahead. While it has to wait for the next
// block it lexes one itself.
type feed struct {
	ctx     context.Context
	cutter  *cutter
	free    chan *batch
	sources []Source
	started time.Time
	jobs    jobs
	err     error // of the last block

	lexer *lexer
	solo  bool   // the lexer is reading through blocks, from the present one on
	block *block // the present one, nil at the end
	begin Length // before it
	lines int64  // of its source before it
	read  Length // of what was received of it

	batches []*batch // the present one and those that were looked at ahead
	items   []item   // of the present one
	i       int      // of the next item
	end     Length   // behind the batches
}

func newFeed(ctx context.Context, c *cutter, before *block, sources []Source) *feed {
	f := &feed{ctx: ctx, cutter: c, free: make(chan *batch, cap(c.rooms)), sources: sources, started: time.Now(), jobs: newJobs(), block: before}
	f.lexer = newLexer(c, f.free, f.started)
	before.batch = &batch{}
	close(before.lexed)
	return f
}

// next returns the next item, or nil at the end. It is valid until the next
// call.
func (f *feed) next() *item {
	if f.i == len(f.items) && !f.turn() {
		return nil
	}
	f.i++
	return f.batches[0].item(f.i - 1)
}

// turn goes on from a batch of which all items were taken to the next one, and
// reports whether there is one.
func (f *feed) turn() bool {
	if len(f.batches) < 2 && !f.receive() {
		return false
	}
	if f.i > 0 {
		select {
		case f.free <- f.batches[0]:
		default:
		}
		f.batches = slices.Delete(f.batches, 0, 1)
	}
	f.items, f.i = f.batches[0].items, 0
	return true
}

// back takes the last item back.
func (f *feed) back() { f.i-- }

// receive waits for a further batch with items, and reports whether there is
// one.
func (f *feed) receive() bool {
	for f.block != nil {
		b, more := f.nextBatch()
		if b == nil {
			continue
		}
		f.read = b.end
		f.end = f.begin.plus(f.read)
		if len(b.items) > 0 {
			f.number(b)
			f.batches = append(f.batches, b)
		}
		if !more {
			f.advance()
		}
		if len(b.items) > 0 {
			return true
		}
	}
	return false
}

// soloItems is about how many items the feed's own lexer reads at once.
const soloItems = 4096

// nextBatch returns the next batch of the present block, nil if it is not there
// yet, and whether there are more.
func (f *feed) nextBatch() (b *batch, more bool) {
	if f.solo {
		var err error
		if b, more, err = f.lexer.read(soloItems); err != nil {
			f.lexer.at.err = err
		}
		f.solo = more
		return b, more
	}
	select {
	case <-f.block.lexed:
	default:
		f.help()
		return nil, true
	}
	if b = f.block.batch; b == nil {
		f.solo = true
		f.lexer.begin(f.block, throughBlocks{f.lexer, f.ctx})
	}
	return b, false
}

// help lexes a block, or waits for the present one if there is no room for a
// further one.
func (f *feed) help() {
	select {
	case room := <-f.cutter.rooms:
		if b := f.cutter.cut(f.ctx, room, nil); b != nil {
			f.lexer.lex(b)
			return
		}
	default:
	}
	select {
	case <-f.block.lexed:
	case <-f.ctx.Done():
		f.block = nil
	}
}

// number gives what a batch tells its place in the log.
func (f *feed) number(b *batch) {
	b.numbers = f.jobs.of(&b.jobs, b.numbers)
	for i := range b.extras {
		if x := &b.extras[i]; x.problem != "" {
			x.line += f.lines
		}
	}
	b.begin, b.end = f.begin.plus(b.begin), f.begin.plus(b.end)
}

// advance goes on to the block behind what was received.
func (f *feed) advance() {
	b := f.block
	if b.batch == nil {
		b = f.lexer.at // which has read further
	}
	f.begin, f.lines, f.read = f.begin.plus(f.read), f.lines+f.read.Lines, Length{}
	f.cutter.free(b)
	if b.err != nil {
		f.err, f.block = b.err, nil
		if read := (*readError)(nil); errors.As(b.err, &read) {
			read.line += f.lines
		}
		return
	}
	if b.last {
		f.lines = 0
	}
	for f.block = nil; ; {
		select {
		case <-b.cut:
			f.block = b.next
			if f.block == nil {
				f.jobs.byHash = nil // no further line needs a number
			}
			return
		default:
		}
		select {
		case <-b.cut:
		case room := <-f.cutter.rooms:
			if n := f.cutter.cut(f.ctx, room, nil); n != nil {
				f.lexer.lex(n)
			}
		case <-f.ctx.Done():
			return
		}
	}
}

// ended reports whether all items were taken.
func (f *feed) ended() bool {
	return f.i == len(f.items) && len(f.batches) < 2 && !f.receive()
}

// leave frees what was needed to read the log, all of which has been taken.
// Nobody but the feed is at work any more.
func (f *feed) leave() {
	f.jobs, f.lexer, f.free = jobs{}, nil, nil
	f.batches, f.items, f.i = nil, nil, 0
	f.cutter.rooms = nil
}

// extra returns what an item has beside its own fields.
func (f *feed) extra(it *item) *extra {
	if it.extra < 0 {
		return nil
	}
	return &f.batches[0].extras[it.extra]
}

// events yields the events from the last item that next returned on.
func (f *feed) events() iter.Seq[*item] {
	return func(yield func(*item) bool) {
		from := f.i - 1
		for n := 0; n < len(f.batches) || f.receive(); n++ {
			for i := from; i < len(f.batches[n].items); i++ {
				if it := f.batches[n].item(i); it.what == itemEvent && !yield(it) {
					return
				}
			}
			from = 0
		}
	}
}

// length returns how much of the log stands before the next item.
func (f *feed) length() Length {
	for n, i := 0, f.i; n < len(f.batches); n, i = n+1, 0 {
		if b := f.batches[n]; i < len(b.items) {
			return b.begin.plus(Length{b.items[i].byte, int64(b.items[i].line)})
		}
	}
	return f.end
}

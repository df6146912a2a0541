package run

import (
	"context"
	"fmt"
	"io"
	"iter"
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
		ctx, cancel := context.WithCancel(ctx)
		l := newLexer(sources)
		var lexing sync.WaitGroup
		defer lexing.Wait()
		defer cancel()
		lexing.Go(func() { l.run(ctx) })

		f := feed{batches: l.batches, free: l.free}
		var begin Length
		var held []*Run
		for runs := 1; ; runs++ {
			asm := newAssembly(o, l)
			for it := f.next(); it != nil; it = f.next() {
				if asm.restarts(it, &f) {
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
				if l.err != nil {
					yield(nil, l.err)
				}
				return
			}
		}
	}
}

// A feed is where the assembly takes the items of the lexer's batches from. It
// can look ahead.
type feed struct {
	batches <-chan *batch
	free    chan<- *batch
	now     *batch
	i       int    // of the next item
	then    *batch // the one after now, once it was needed
}

// next returns the next item, or nil at the end. It is valid until the next
// call.
func (f *feed) next() *item {
	for f.now == nil || f.i == len(f.now.items) {
		if !f.ahead() {
			return nil
		}
		if f.now != nil {
			select {
			case f.free <- f.now:
			default: // the lexer has made more, since it was told to stop
			}
		}
		f.now, f.then, f.i = f.then, nil, 0
	}
	f.i++
	return &f.now.items[f.i-1]
}

// back takes the last item back.
func (f *feed) back() { f.i-- }

// ahead makes sure that the batch after this one is there, and reports whether
// there is one.
func (f *feed) ahead() bool {
	if f.then == nil {
		f.then = <-f.batches
	}
	return f.then != nil
}

// ended reports whether all items were taken.
func (f *feed) ended() bool { return (f.now == nil || f.i == len(f.now.items)) && !f.ahead() }

// extra returns what an item has beside its own fields.
func (f *feed) extra(it *item) *extra {
	if it.extra < 0 {
		return nil
	}
	return &f.now.extras[it.extra]
}

// events yields the events from the last item that next returned on, as far as
// the feed can look.
func (f *feed) events() iter.Seq[*item] {
	return func(yield func(*item) bool) {
		for i := f.i - 1; i < len(f.now.items); i++ {
			if it := &f.now.items[i]; it.what == itemEvent && !yield(it) {
				return
			}
		}
		if !f.ahead() {
			return
		}
		for i := range f.then.items {
			if it := &f.then.items[i]; it.what == itemEvent && !yield(it) {
				return
			}
		}
	}
}

// length returns how much of the log stands before the next item.
func (f *feed) length() Length {
	switch {
	case f.now == nil:
		return Length{}
	case f.i < len(f.now.items):
		return f.now.items[f.i].at
	default:
		return f.now.end
	}
}

package tracing

import (
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// An ender ends spans. Live, it does so at once. In a replay, which does
// nothing else but start and end spans, it ends them in a goroutine of its own
// and in the same order: so two cores share the work.
type ender struct {
	replays bool

	mu      sync.Mutex
	batch   []ending
	batches chan []ending // nil when closed
	free    chan []ending
	done    sync.WaitGroup
}

// An ending is a span with its end.
type ending struct {
	span trace.Span
	at   time.Time
}

const (
	endingBatch   = 256
	endingBatches = 4
)

// replay begins the ender's goroutine, which close ends.
func (e *ender) replay() {
	e.replays = true
	e.batches = make(chan []ending, endingBatches)
	e.free = make(chan []ending, endingBatches+1)
	for range cap(e.free) {
		e.free <- make([]ending, 0, endingBatch)
	}
	e.done.Go(func() {
		room := make([]trace.SpanEndOption, 0, 1)
		for b := range e.batches {
			for _, x := range b {
				end(x.span, x.at, room)
			}
			clear(b)
			e.free <- b[:0]
		}
	})
}

// end ends a span. There may be room for its options.
func end(span trace.Span, at time.Time, room []trace.SpanEndOption) {
	defer guard()
	span.End(append(room, trace.WithTimestamp(at))...)
}

// end ends a span: now when live, else soon.
func (e *ender) end(span trace.Span, at time.Time) {
	e.endIn(nil, span, at)
}

// endIn ends a span that has room for its options.
func (e *ender) endIn(room []trace.SpanEndOption, span trace.Span, at time.Time) {
	if !e.replays {
		end(span, at, room)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.batches == nil { // closed
		end(span, at, room)
		return
	}
	if e.batch == nil {
		e.batch = <-e.free
	}
	if e.batch = append(e.batch, ending{span, at}); len(e.batch) == cap(e.batch) {
		e.batches <- e.batch
		e.batch = nil
	}
}

// close ends all spans that wait for it.
func (e *ender) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.batches == nil {
		return
	}
	if e.batch != nil {
		e.batches <- e.batch
	}
	close(e.batches)
	e.done.Wait()
	e.batches, e.batch = nil, nil
}

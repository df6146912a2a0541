package tracing

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// A Delivery is what became of the spans of a pipeline. Ended is the sum of the
// others.
type Delivery struct {
	Ended     int64 // sampled spans that ended before the shutdown
	Delivered int64 // spans that the backend accepted, or that are in the file
	Failed    int64 // spans whose export failed, or which the backend rejected
	Dropped   int64 // spans lost since the queue was full; none if lossless
}

// A counter hands ended spans to the batch processor and counts them.
type counter struct {
	sdktrace.SpanProcessor
	ended atomic.Int64
}

func (c *counter) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanContext().IsSampled() {
		c.ended.Add(1)
	}
	c.SpanProcessor.OnEnd(s)
}

// OnStart does nothing, as that of any processor here. Were it the embedded
// one's, who starts spans would read what lies beside the count of who ends
// them, and two cores would wait for each other.
func (c *counter) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// An inline is a span processor that exports in the goroutine that ends the
// spans. In a replay that is the recorder's ender, and handing each span on to
// a further goroutine would take about as long as writing it.
type inline struct {
	exporter sdktrace.SpanExporter

	mu    sync.Mutex
	batch []sdktrace.ReadOnlySpan
	done  bool
}

// inlineBatch is how many spans an inline exports at once: few enough that they
// still are in the processor's cache.
const inlineBatch = 64

func newInline(e sdktrace.SpanExporter) *inline {
	return &inline{exporter: e, batch: make([]sdktrace.ReadOnlySpan, 0, inlineBatch)}
}

func (p *inline) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (p *inline) OnEnd(s sdktrace.ReadOnlySpan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return
	}
	if p.batch = append(p.batch, s); len(p.batch) == cap(p.batch) {
		_ = p.export(context.Background())
	}
}

// ForceFlush exports what has ended.
func (p *inline) ForceFlush(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.export(ctx)
}

// Shutdown exports what has ended, and shuts the exporter down.
func (p *inline) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	return errors.Join(p.export(ctx), p.exporter.Shutdown(ctx))
}

func (p *inline) export(ctx context.Context) error {
	if len(p.batch) == 0 {
		return nil
	}
	defer func() {
		clear(p.batch)
		p.batch = p.batch[:0]
	}()
	return p.exporter.ExportSpans(ctx, p.batch)
}

// A courier is the exporter that the span processor sees. It counts what
// becomes of the spans and keeps failures, which the processor would else give
// to the process's error handler, batch by batch.
type courier struct {
	next     sdktrace.SpanExporter
	explain  func(error) error
	lossless bool

	taken, delivered, failed atomic.Int64
	first                    atomic.Pointer[error]

	mu      sync.Mutex
	stopped error              // why nothing is exported any more
	cancel  context.CancelFunc // of the export under way
}

// ExportSpans exports the spans and always returns nil.
func (c *courier) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	n := int64(len(spans))
	c.taken.Add(n)
	if c.lossless && c.first.Load() != nil {
		c.failed.Add(n)
		return nil
	}
	ctx, done, err := c.begin(ctx)
	var delivered int64
	if err == nil {
		delivered, err = c.send(ctx, spans)
		done()
		if stopped := c.stopReason(); err != nil && stopped != nil {
			err = stopped
		}
	}
	c.delivered.Add(delivered)
	c.failed.Add(n - delivered)
	if err != nil {
		c.record(err)
	}
	return nil
}

// send exports spans and returns how many the backend took. What is too large
// for the backend goes in parts.
func (c *courier) send(ctx context.Context, spans []sdktrace.ReadOnlySpan) (int64, error) {
	err := c.next.ExportSpans(ctx, spans)
	if err != nil && strings.Contains(err.Error(), "invalid UTF-8") {
		// Strings of protobuf messages have to be UTF-8.
		spans = validSpans(spans)
		err = c.next.ExportSpans(ctx, spans)
	}
	n := int64(len(spans))
	if err == nil {
		return n, nil
	}
	if rejected, ok := rejectedSpans(err); ok {
		if rejected <= 0 {
			// By the protocol, a message without rejected spans is a warning
			// of a backend that accepted everything.
			return n, nil
		}
		return n - min(rejected, n), err
	}
	if n > 1 && isTooLarge(err) {
		half := len(spans) / 2
		first, err := c.send(ctx, spans[:half])
		second, err2 := c.send(ctx, spans[half:])
		if err == nil {
			err = err2
		}
		return first + second, err
	}
	return 0, err
}

// Shutdown shuts the exporter down.
func (c *courier) Shutdown(ctx context.Context) error {
	ctx, done, err := c.begin(ctx)
	if err != nil {
		// The exporter still has to free what it holds.
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		cancel()
		_ = c.next.Shutdown(ctx)
		if _, ok := c.next.(*fileExporter); ok {
			c.record(err) // there is no file
		}
		return nil
	}
	defer done()
	err = c.next.Shutdown(ctx)
	if _, ok := c.next.(*fileExporter); ok && err != nil {
		// Unlike a connection's, the end of a file can fail all its spans.
		c.record(err)
	}
	return nil
}

// begin returns a context that stop cancels.
func (c *courier) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped != nil {
		return ctx, nil, c.stopped
	}
	ctx, cancel := context.WithCancel(ctx)
	c.cancel = cancel
	return ctx, cancel, nil
}

// stop cancels the export under way and fails all further ones.
func (c *courier) stop(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped == nil {
		c.stopped = err
	}
	if c.cancel != nil {
		c.cancel()
	}
}

func (c *courier) stopReason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}

// record keeps the first failure.
func (c *courier) record(err error) {
	if c.first.Load() == nil {
		err = c.explain(err)
		c.first.CompareAndSwap(nil, &err)
	}
}

// err returns the first failure.
func (c *courier) err() error {
	if p := c.first.Load(); p != nil {
		return *p
	}
	return nil
}

// validSpans returns spans without what is not UTF-8.
func validSpans(spans []sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	valid := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, s := range spans {
		valid[i] = validSpan{s}
	}
	return valid
}

// A validSpan is a span in whose strings U+FFFD stands for what is not UTF-8.
type validSpan struct {
	sdktrace.ReadOnlySpan
}

func (s validSpan) Name() string { return valid(s.ReadOnlySpan.Name()) }

func (s validSpan) Attributes() []attribute.KeyValue {
	return validAttributes(s.ReadOnlySpan.Attributes())
}

func (s validSpan) Status() sdktrace.Status {
	status := s.ReadOnlySpan.Status()
	status.Description = valid(status.Description)
	return status
}

func (s validSpan) Events() []sdktrace.Event {
	events := append([]sdktrace.Event(nil), s.ReadOnlySpan.Events()...)
	for i := range events {
		events[i].Name = valid(events[i].Name)
		events[i].Attributes = validAttributes(events[i].Attributes)
	}
	return events
}

func (s validSpan) Links() []sdktrace.Link {
	links := append([]sdktrace.Link(nil), s.ReadOnlySpan.Links()...)
	for i := range links {
		links[i].Attributes = validAttributes(links[i].Attributes)
	}
	return links
}

func validAttributes(attrs []attribute.KeyValue) []attribute.KeyValue {
	out := make([]attribute.KeyValue, len(attrs))
	for i, kv := range attrs {
		out[i] = attribute.KeyValue{Key: attribute.Key(valid(string(kv.Key))), Value: validValue(kv.Value)}
	}
	return out
}

func validValue(v attribute.Value) attribute.Value {
	switch v.Type() {
	case attribute.STRING:
		return attribute.StringValue(valid(v.AsString()))
	case attribute.STRINGSLICE:
		values := v.AsStringSlice()
		for i := range values {
			values[i] = valid(values[i])
		}
		return attribute.StringSliceValue(values)
	case attribute.SLICE:
		values := v.AsSlice()
		for i := range values {
			values[i] = validValue(values[i])
		}
		return attribute.SliceValue(values...)
	case attribute.MAP:
		return attribute.MapValue(validAttributes(v.AsMap())...)
	default:
		return v
	}
}

func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

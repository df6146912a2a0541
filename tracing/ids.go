package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// idsContext hands ids to the idGenerator. The generator looks at the context's
// type instead of at its values: ids are of the one span that is started with
// the context and must not be found by that span's children.
type idsContext struct {
	context.Context
	tree *treeIDs
	span trace.SpanID
}

// idGenerator takes a span's ids from the context that the span is started
// with, and makes random ones where there are none.
type idGenerator struct{}

// NewIDs returns the ids of a root span.
func (g idGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if c, ok := ctx.(*idsContext); ok {
		return c.tree.traceID(), c.span
	}
	var id trace.TraceID
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID returns the id of a child span.
func (idGenerator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if c, ok := ctx.(*idsContext); ok {
		return c.span
	}
	var id trace.SpanID
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}

// TraceIDFor returns the id of the trace that a converted run has for an
// attempt of a job. The run's own traces are those of the job "", where the
// attempt is the number of the part.
func TraceIDFor(run, job string, attempt int) trace.TraceID {
	return newTreeIDs(run, job, attempt).traceID()
}

// treeIDs derives the ids of the spans of a replayed trace from their places in
// its tree, so that replaying it twice gives the same ones. It may be used by
// many goroutines.
type treeIDs [sha256.Size]byte

func newTreeIDs(run, job string, attempt int) *treeIDs {
	// The strings have their lengths in front, so that no two attempts are
	// hashed as the same bytes.
	var buf [256]byte
	b := binary.AppendUvarint(buf[:0], uint64(len(run)))
	b = append(b, run...)
	b = binary.AppendUvarint(b, uint64(len(job)))
	b = append(b, job...)
	b = binary.AppendVarint(b, int64(attempt))
	sum := treeIDs(sha256.Sum256(b))
	return &sum
}

// traceID returns the id of the trace.
func (t *treeIDs) traceID() (id trace.TraceID) {
	copy(id[:], t[:])
	if !id.IsValid() {
		id[len(id)-1] = 1
	}
	return id
}

// spanID returns the id of the span of a name below a path.
func (t *treeIDs) spanID(path, name string) (id trace.SpanID) {
	// The sum has a fixed length, so that the path needs none in front of it.
	var buf [192]byte
	b := append(append(append(append(buf[:0], t[:]...), path...), '/'), name...)
	sum := sha256.Sum256(b)
	copy(id[:], sum[:])
	if !id.IsValid() {
		id[len(id)-1] = 1
	}
	return id
}

// with returns a context in which the next span gets the ids of a name below a
// path. It has to be what Start is called with, not wrapped again, and without
// trace.WithNewRoot, which wraps it.
func (t *treeIDs) with(ctx context.Context, path, name string) context.Context {
	return &idsContext{Context: ctx, tree: t, span: t.spanID(path, name)}
}

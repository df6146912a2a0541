package tracing

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Bits of a span's and of a link's flags above the W3C trace flags, by
// opentelemetry/proto/trace/v1/trace.proto, enum SpanFlags.
const (
	flagHasIsRemote = 0x100
	flagIsRemote    = 0x200
)

// A jsonEncoder writes spans as OTLP JSON: the protobuf JSON mapping of an
// ExportTraceServiceRequest, in which ids are hexadecimal
// (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).
//
// It exists beside pdata's marshaler since it takes a quarter of that one's
// time, which would else bound how fast a log converts; the tests hold what
// both write to be the same.
type jsonEncoder struct {
	groups []spanGroup
	spans  int // in all groups
}

// A spanGroup is the spans of a request that share a resource and a scope.
type spanGroup struct {
	resource *resource.Resource
	scope    instrumentation.Scope
	json     []byte // of the spans, with commas between them
	written  bool
}

// add adds spans to the request. Each is written at once, while it is at hand
// in the processor's cache.
func (e *jsonEncoder) add(spans []sdktrace.ReadOnlySpan) {
	for _, s := range spans {
		g := e.group(s)
		if len(g.json) > 0 {
			g.json = append(g.json, ',')
		}
		g.json = appendSpan(g.json, s)
	}
	e.spans += len(spans)
}

// group returns the group that a span belongs to. A request has the few
// resources of the stages of a few runs, so that looking through the groups is
// fastest.
func (e *jsonEncoder) group(s sdktrace.ReadOnlySpan) *spanGroup {
	r, scope := s.Resource(), s.InstrumentationScope()
	for i := range e.groups {
		if g := &e.groups[i]; g.resource == r && g.scope == scope {
			return g
		}
	}
	n := len(e.groups)
	e.groups = slices.Grow(e.groups, 1)[:n+1]
	g := &e.groups[n]
	*g = spanGroup{resource: r, scope: scope, json: g.json[:0]} // with the room of an earlier request
	return g
}

// appendRequest appends the request as one JSON object and begins the next.
// Resources come in the order in which the spans first name them, so that the
// same spans always give the same bytes.
func (e *jsonEncoder) appendRequest(b []byte) []byte {
	b = append(b, `{"resourceSpans":[`...)
	comma := false
	for i := range e.groups {
		if e.groups[i].written {
			continue
		}
		b = appendComma(b, &comma)
		b = e.appendResource(b, i)
	}
	e.groups, e.spans = e.groups[:0], 0
	return append(b, "]}"...)
}

// appendResource appends the group g and the further ones of its resource.
func (e *jsonEncoder) appendResource(b []byte, g int) []byte {
	r := e.groups[g].resource
	b = append(b, `{"resource":{`...)
	if r.Len() > 0 {
		b = append(b, `"attributes":[`...)
		for it := r.Iter(); it.Next(); {
			if i, kv := it.IndexedAttribute(); i > 0 {
				b = appendKeyValue(append(b, ','), kv)
			} else {
				b = appendKeyValue(b, kv)
			}
		}
		b = append(b, ']')
	}
	b = append(b, `},"scopeSpans":[`...)
	comma := false
	for i := g; i < len(e.groups); i++ {
		sg := &e.groups[i]
		if sg.resource != r {
			continue
		}
		sg.written = true
		b = appendComma(b, &comma)
		b = appendScope(b, sg.scope)
		b = append(b, `,"spans":[`...)
		b = append(b, sg.json...)
		b = append(b, ']')
		b = appendSchemaURL(b, sg.scope.SchemaURL)
		b = append(b, '}')
	}
	b = append(b, ']')
	b = appendSchemaURL(b, r.SchemaURL())
	return append(b, '}')
}

func appendScope(b []byte, scope instrumentation.Scope) []byte {
	b = append(b, `{"scope":{"name":`...)
	b = appendString(b, scope.Name)
	if scope.Version != "" {
		b = append(b, `,"version":`...)
		b = appendString(b, scope.Version)
	}
	if scope.Attributes.Len() > 0 {
		b = appendAttributes(append(b, ','), scope.Attributes.ToSlice())
	}
	return append(b, '}')
}

func appendSchemaURL(b []byte, url string) []byte {
	if url == "" {
		return b
	}
	b = append(b, `,"schemaUrl":`...)
	return appendString(b, url)
}

func appendSpan(b []byte, s sdktrace.ReadOnlySpan) []byte {
	context, parent := s.SpanContext(), s.Parent()
	b = append(b, '{')
	b = appendSpanContext(b, context)
	if id := parent.SpanID(); id.IsValid() {
		b = append(b, `,"parentSpanId":"`...)
		b = hex.AppendEncode(b, id[:])
		b = append(b, '"')
	}
	b = appendFlags(b, context.TraceFlags(), parent.IsRemote())
	b = append(b, `,"name":`...)
	b = appendString(b, s.Name())
	// The API numbers kinds as the protocol does.
	b = append(b, `,"kind":`...)
	b = strconv.AppendInt(b, int64(s.SpanKind()), 10)
	b = append(b, `,"startTimeUnixNano":"`...)
	b = strconv.AppendInt(b, max(0, s.StartTime().UnixNano()), 10)
	b = append(b, `","endTimeUnixNano":"`...)
	b = strconv.AppendInt(b, max(0, s.EndTime().UnixNano()), 10)
	b = append(b, '"')
	if attrs := s.Attributes(); len(attrs) > 0 {
		b = appendAttributes(append(b, ','), attrs)
	}
	b = appendCount(b, `,"droppedAttributesCount":`, s.DroppedAttributes())
	if events := s.Events(); len(events) > 0 {
		b = append(b, `,"events":[`...)
		for i := range events {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendEvent(b, &events[i])
		}
		b = append(b, ']')
	}
	b = appendCount(b, `,"droppedEventsCount":`, s.DroppedEvents())
	if links := s.Links(); len(links) > 0 {
		b = append(b, `,"links":[`...)
		for i := range links {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendLink(b, &links[i])
		}
		b = append(b, ']')
	}
	b = appendCount(b, `,"droppedLinksCount":`, s.DroppedLinks())
	b = appendStatus(b, s.Status())
	return append(b, '}')
}

// appendSpanContext appends what spans and links say of a context.
func appendSpanContext(b []byte, c trace.SpanContext) []byte {
	traceID, spanID := c.TraceID(), c.SpanID()
	b = append(b, `"traceId":"`...)
	b = hex.AppendEncode(b, traceID[:])
	b = append(b, `","spanId":"`...)
	b = hex.AppendEncode(b, spanID[:])
	b = append(b, '"')
	if state := c.TraceState(); state.Len() > 0 {
		b = append(b, `,"traceState":`...)
		b = appendString(b, state.String())
	}
	return b
}

// appendFlags appends the flags that the SDK's exporters send: the W3C ones and
// whether the parent, or the link's target, is of another process.
func appendFlags(b []byte, flags trace.TraceFlags, remote bool) []byte {
	f := uint64(flags) | flagHasIsRemote
	if remote {
		f |= flagIsRemote
	}
	b = append(b, `,"flags":`...)
	return strconv.AppendUint(b, f, 10)
}

func appendEvent(b []byte, e *sdktrace.Event) []byte {
	b = append(b, `{"timeUnixNano":"`...)
	b = strconv.AppendInt(b, max(0, e.Time.UnixNano()), 10)
	b = append(b, `","name":`...)
	b = appendString(b, e.Name)
	if len(e.Attributes) > 0 {
		b = appendAttributes(append(b, ','), e.Attributes)
	}
	b = appendCount(b, `,"droppedAttributesCount":`, e.DroppedAttributeCount)
	return append(b, '}')
}

func appendLink(b []byte, l *sdktrace.Link) []byte {
	b = append(b, '{')
	b = appendSpanContext(b, l.SpanContext)
	if len(l.Attributes) > 0 {
		b = appendAttributes(append(b, ','), l.Attributes)
	}
	b = appendCount(b, `,"droppedAttributesCount":`, l.DroppedAttributeCount)
	b = appendFlags(b, l.SpanContext.TraceFlags(), l.SpanContext.IsRemote())
	return append(b, '}')
}

func appendStatus(b []byte, s sdktrace.Status) []byte {
	b = append(b, `,"status":{`...)
	comma := false
	if s.Description != "" {
		b = appendComma(b, &comma)
		b = append(b, `"message":`...)
		b = appendString(b, s.Description)
	}
	// The API numbers the codes otherwise than the protocol does.
	switch s.Code {
	case codes.Ok:
		b = append(appendComma(b, &comma), `"code":1`...)
	case codes.Error:
		b = append(appendComma(b, &comma), `"code":2`...)
	}
	return append(b, '}')
}

// appendCount appends a count of dropped things, unless it is zero.
func appendCount(b []byte, field string, n int) []byte {
	if n <= 0 {
		return b
	}
	b = append(b, field...)
	return strconv.AppendInt(b, min(int64(n), math.MaxUint32), 10)
}

func appendAttributes(b []byte, attrs []attribute.KeyValue) []byte {
	b = append(b, `"attributes":[`...)
	for i := range attrs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendKeyValue(b, attrs[i])
	}
	return append(b, ']')
}

func appendKeyValue(b []byte, kv attribute.KeyValue) []byte {
	b = append(b, `{"key":`...)
	b = appendString(b, string(kv.Key))
	b = append(b, `,"value":`...)
	b = appendValue(b, kv.Value)
	return append(b, '}')
}

// appendValue appends a value as an AnyValue. 64-bit integers are strings, as
// the protobuf JSON mapping has them.
func appendValue(b []byte, v attribute.Value) []byte {
	switch v.Type() {
	case attribute.STRING:
		b = append(b, `{"stringValue":`...)
		b = appendString(b, v.AsString())
	case attribute.INT64:
		b = append(b, `{"intValue":"`...)
		b = strconv.AppendInt(b, v.AsInt64(), 10)
		b = append(b, '"')
	case attribute.BOOL:
		b = append(b, `{"boolValue":`...)
		b = strconv.AppendBool(b, v.AsBool())
	case attribute.FLOAT64:
		b = append(b, `{"doubleValue":`...)
		b = appendFloat(b, v.AsFloat64())
	case attribute.BYTESLICE:
		b = append(b, `{"bytesValue":"`...)
		b = base64.StdEncoding.AppendEncode(b, v.AsByteSlice())
		b = append(b, '"')
	case attribute.STRINGSLICE:
		b = appendArray(b, v.AsStringSlice(), attribute.StringValue)
	case attribute.INT64SLICE:
		b = appendArray(b, v.AsInt64Slice(), attribute.Int64Value)
	case attribute.BOOLSLICE:
		b = appendArray(b, v.AsBoolSlice(), attribute.BoolValue)
	case attribute.FLOAT64SLICE:
		b = appendArray(b, v.AsFloat64Slice(), attribute.Float64Value)
	case attribute.SLICE:
		b = appendArray(b, v.AsSlice(), func(v attribute.Value) attribute.Value { return v })
	case attribute.MAP:
		b = append(b, `{"kvlistValue":{"values":[`...)
		for i, kv := range v.AsMap() {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendKeyValue(b, kv)
		}
		b = append(b, "]}"...)
	default:
		b = append(b, '{')
	}
	return append(b, '}')
}

func appendArray[T any](b []byte, values []T, value func(T) attribute.Value) []byte {
	b = append(b, `{"arrayValue":{"values":[`...)
	for i := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendValue(b, value(values[i]))
	}
	return append(b, "]}"...)
}

// appendFloat appends a number, or one of the strings by which the protobuf
// JSON mapping writes what is none.
func appendFloat(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(b, `"-Infinity"`...)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, f, format, -1, 64)
}

// plain tells the bytes that a JSON string holds as they are.
var plain = func() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

const hexDigits = "0123456789abcdef"

// appendString appends a JSON string. Bytes that are not UTF-8 become U+FFFD,
// without which the whole line would not be JSON.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(b, s[start:i]...)
				b = append(b, "\uFFFD"...)
				start = i + 1
			}
			i += size
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, `\u00`...)
			b = append(b, hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// appendComma appends a comma from the second call on.
func appendComma(b []byte, comma *bool) []byte {
	if *comma {
		return append(b, ',')
	}
	*comma = true
	return b
}

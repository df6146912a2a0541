package run

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
)

// Jaeger's JSON of a trace, as its query API and its UI give it
// (https://github.com/jaegertracing/jaeger-idl and the model of
// github.com/jaegertracing/jaeger/internal/uimodel). Its times are whole µs.
type (
	jaegerTrace struct {
		Spans     []jaegerSpan             `json:"spans"`
		Processes map[string]jaegerProcess `json:"processes"`
	}
	jaegerSpan struct {
		TraceID    string            `json:"traceID"`
		SpanID     string            `json:"spanID"`
		Name       string            `json:"operationName"`
		References []jaegerReference `json:"references"`
		Start      int64             `json:"startTime"` // µs since 1970
		Duration   int64             `json:"duration"`  // µs
		Tags       []jaegerTag       `json:"tags"`
		Process    string            `json:"processID"`
	}
	jaegerReference struct {
		Type    string `json:"refType"`
		TraceID string `json:"traceID"`
		SpanID  string `json:"spanID"`
	}
	jaegerProcess struct {
		Tags []jaegerTag `json:"tags"` // the resource's attributes
	}
	jaegerTag struct {
		Key   string `json:"key"`
		Value any    `json:"value"`
	}
)

// Tags by which Jaeger keeps what OTLP has fields for
// (https://opentelemetry.io/docs/specs/otel/common/mapping-to-non-otlp/).
const (
	tagScope             = "otel.scope.name"
	tagStatus            = "otel.status_code"
	tagStatusDescription = "otel.status_description"
	tagError             = "error"
)

// decodeJaeger returns a trace of Jaeger's as spans of OTLP, as far as the
// contract needs them.
func decodeJaeger(data []byte) (ptrace.Traces, error) {
	var t jaegerTrace
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&t); err != nil {
		return ptrace.Traces{}, err
	}
	traces := ptrace.NewTraces()
	type place struct{ process, scope string }
	places := make(map[place]ptrace.ScopeSpans)
	for i := range t.Spans {
		s := &t.Spans[i]
		at := place{process: s.Process}
		for _, tag := range s.Tags {
			if tag.Key == tagScope {
				at.scope, _ = tag.Value.(string)
			}
		}
		scope, ok := places[at]
		if !ok {
			resource := traces.ResourceSpans().AppendEmpty()
			attrs := resource.Resource().Attributes()
			p := t.Processes[s.Process]
			putTags(attrs, p.Tags)
			scope = resource.ScopeSpans().AppendEmpty()
			scope.Scope().SetName(at.scope)
			places[at] = scope
		}
		if err := s.appendTo(scope.Spans()); err != nil {
			return ptrace.Traces{}, fmt.Errorf("span %q: %w", s.Name, err)
		}
	}
	return traces, nil
}

// appendTo appends the span.
func (s *jaegerSpan) appendTo(spans ptrace.SpanSlice) error {
	x := spans.AppendEmpty()
	traceHigh, traceLow, ok := parseJaegerID(s.TraceID)
	_, id, idOK := parseJaegerID(s.SpanID)
	if !ok || !idOK {
		return errors.New("an id is not hexadecimal")
	}
	x.SetTraceID(traceID(traceHigh, traceLow))
	x.SetSpanID(spanID(id))
	for _, r := range s.References {
		if r.Type == "CHILD_OF" && r.TraceID == s.TraceID {
			if _, parent, ok := parseJaegerID(r.SpanID); ok {
				x.SetParentSpanID(spanID(parent))
				break
			}
		}
	}
	x.SetName(s.Name)
	const most = math.MaxInt64 / 1000 / 2
	if s.Start < 0 || s.Duration < 0 || s.Start > most || s.Duration > most {
		return errors.New("a time is out of range")
	}
	x.SetStartTimestamp(pcommon.Timestamp(s.Start * 1000))
	x.SetEndTimestamp(pcommon.Timestamp((s.Start + s.Duration) * 1000))
	putTags(x.Attributes(), s.Tags)
	for _, tag := range s.Tags {
		switch tag.Key {
		case tagStatus:
			if tag.Value == "ERROR" {
				x.Status().SetCode(ptrace.StatusCodeError)
			}
		case tagError:
			if tag.Value == true {
				x.Status().SetCode(ptrace.StatusCodeError)
			}
		case tagStatusDescription:
			if text, ok := tag.Value.(string); ok {
				x.Status().SetMessage(text)
			}
		}
	}
	return nil
}

// putTags puts those tags as attributes that are read. A map of others could
// take time with the square of its length.
func putTags(attrs pcommon.Map, tags []jaegerTag) {
	for _, tag := range tags {
		if !isRead[attribute.Key(tag.Key)] {
			continue
		}
		switch v := tag.Value.(type) {
		case string:
			attrs.PutStr(tag.Key, v)
		case bool:
			attrs.PutBool(tag.Key, v)
		case json.Number:
			if n, err := v.Int64(); err == nil {
				attrs.PutInt(tag.Key, n)
			} else if f, err := v.Float64(); err == nil {
				attrs.PutDouble(tag.Key, f)
			}
		}
	}
}

// parseJaegerID reads an id of up to 128 bits, whose leading zeros can be
// missing.
func parseJaegerID(s string) (high, low uint64, ok bool) {
	if len(s) > 32 || len(s) == 0 {
		return 0, 0, false
	}
	var err error
	if n := len(s) - 16; n > 0 {
		if high, err = strconv.ParseUint(s[:n], 16, 64); err != nil {
			return 0, 0, false
		}
		s = s[n:]
	}
	low, err = strconv.ParseUint(s, 16, 64)
	return high, low, err == nil
}

func traceID(high, low uint64) (id pcommon.TraceID) {
	binary.BigEndian.PutUint64(id[:8], high)
	binary.BigEndian.PutUint64(id[8:], low)
	return id
}

func spanID(low uint64) (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], low)
	return id
}

package jaegertest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// warningsAttribute is the attribute under which Jaeger returns its warnings.
const warningsAttribute = "@jaeger@warnings"

// The query API answers with OTLP's JSON encoding, in a "result":
// https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
type (
	answerJSON struct {
		Result struct {
			ResourceSpans []resourceSpansJSON `json:"resourceSpans"`
		} `json:"result"`
	}
	resourceSpansJSON struct {
		Resource struct {
			Attributes attributesJSON `json:"attributes"`
		} `json:"resource"`
		ScopeSpans []scopeSpansJSON `json:"scopeSpans"`
	}
	scopeSpansJSON struct {
		Scope struct {
			Name string `json:"name"`
		} `json:"scope"`
		Spans []spanJSON `json:"spans"`
	}
	spanJSON struct {
		TraceID    string         `json:"traceId"`
		SpanID     string         `json:"spanId"`
		ParentID   string         `json:"parentSpanId"`
		Name       string         `json:"name"`
		Kind       int            `json:"kind"`
		Start      int64          `json:"startTimeUnixNano,string"`
		End        int64          `json:"endTimeUnixNano,string"`
		Attributes attributesJSON `json:"attributes"`
		Events     []struct {
			Name       string         `json:"name"`
			Time       int64          `json:"timeUnixNano,string"`
			Attributes attributesJSON `json:"attributes"`
		} `json:"events"`
		Links []struct {
			TraceID string `json:"traceId"`
			SpanID  string `json:"spanId"`
		} `json:"links"`
		Status struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"status"`
	}
	attributesJSON []struct {
		Key   string    `json:"key"`
		Value valueJSON `json:"value"`
	}
	// valueJSON has one of its fields set, or none for an empty value.
	valueJSON struct {
		String *string         `json:"stringValue"`
		Bool   *bool           `json:"boolValue"`
		Int    *int64          `json:"intValue,string"`
		Double json.RawMessage `json:"doubleValue"` // a number, or a string such as "NaN"
		Bytes  []byte          `json:"bytesValue"`
		Array  *struct {
			Values []valueJSON `json:"values"`
		} `json:"arrayValue"`
	}
)

// decode reads an answer of the query API, which mixes the spans of its traces.
func decode(body []byte) ([]*Trace, error) {
	var answer answerJSON
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	byID := map[trace.TraceID]*Trace{}
	for _, resource := range answer.Result.ResourceSpans {
		attributes, err := resource.Resource.Attributes.values()
		if err != nil {
			return nil, fmt.Errorf("resource: %w", err)
		}
		for _, scope := range resource.ScopeSpans {
			for _, encoded := range scope.Spans {
				span, err := encoded.span()
				if err != nil {
					return nil, fmt.Errorf("span %q %s: %w", encoded.Name, encoded.SpanID, err)
				}
				span.Scope = scope.Scope.Name
				span.Resource = attributes
				span.Service, _ = attributes["service.name"].(string)
				if byID[span.TraceID] == nil {
					byID[span.TraceID] = &Trace{ID: span.TraceID}
				}
				byID[span.TraceID].Spans = append(byID[span.TraceID].Spans, span)
			}
		}
	}

	traces := make([]*Trace, 0, len(byID))
	for _, t := range byID {
		slices.SortFunc(t.Spans, func(a, b Span) int {
			return cmp.Or(a.Start.Compare(b.Start), slices.Compare(a.SpanID[:], b.SpanID[:]))
		})
		traces = append(traces, t)
	}
	slices.SortFunc(traces, func(a, b *Trace) int {
		return cmp.Or(a.Spans[0].Start.Compare(b.Spans[0].Start), slices.Compare(a.ID[:], b.ID[:]))
	})
	return traces, nil
}

// span decodes all but what the span's resource and scope tell.
func (s spanJSON) span() (Span, error) {
	span := Span{
		Name:          s.Name,
		Kind:          trace.SpanKind(s.Kind), // OTLP and the API number them alike
		Start:         time.Unix(0, s.Start).UTC(),
		End:           time.Unix(0, s.End).UTC(),
		StatusMessage: s.Status.Message,
	}
	var err error
	if span.TraceID, err = trace.TraceIDFromHex(s.TraceID); err != nil {
		return Span{}, err
	}
	if span.SpanID, err = trace.SpanIDFromHex(s.SpanID); err != nil {
		return Span{}, err
	}
	if s.ParentID != "" {
		if span.ParentID, err = trace.SpanIDFromHex(s.ParentID); err != nil {
			return Span{}, fmt.Errorf("parent: %w", err)
		}
	}
	if span.Attributes, err = s.Attributes.values(); err != nil {
		return Span{}, err
	}
	if warnings, ok := span.Attributes[warningsAttribute]; ok {
		delete(span.Attributes, warningsAttribute)
		list, ok := warnings.([]any)
		if !ok {
			list = []any{warnings}
		}
		for _, warning := range list {
			span.Warnings = append(span.Warnings, fmt.Sprint(warning))
		}
	}
	for _, l := range s.Links {
		var link Link
		if link.TraceID, err = trace.TraceIDFromHex(l.TraceID); err != nil {
			return Span{}, fmt.Errorf("link: %w", err)
		}
		if link.SpanID, err = trace.SpanIDFromHex(l.SpanID); err != nil {
			return Span{}, fmt.Errorf("link: %w", err)
		}
		span.Links = append(span.Links, link)
	}
	for _, e := range s.Events {
		event := Event{Name: e.Name, Time: time.Unix(0, e.Time).UTC()}
		if event.Attributes, err = e.Attributes.values(); err != nil {
			return Span{}, fmt.Errorf("event %q: %w", e.Name, err)
		}
		span.Events = append(span.Events, event)
	}
	// OTLP numbers ok 1 and error 2, the API the other way round.
	switch s.Status.Code {
	case 0:
		span.StatusCode = codes.Unset
	case 1:
		span.StatusCode = codes.Ok
	case 2:
		span.StatusCode = codes.Error
	default:
		return Span{}, fmt.Errorf("unknown status code %d", s.Status.Code)
	}
	return span, nil
}

// values decodes attributes.
func (a attributesJSON) values() (map[string]any, error) {
	values := make(map[string]any, len(a))
	for _, attribute := range a {
		value, err := attribute.Value.value()
		if err != nil {
			return nil, fmt.Errorf("attribute %q: %w", attribute.Key, err)
		}
		values[attribute.Key] = value
	}
	return values, nil
}

func (v valueJSON) value() (any, error) {
	switch {
	case v.String != nil:
		return *v.String, nil
	case v.Bool != nil:
		return *v.Bool, nil
	case v.Int != nil:
		return *v.Int, nil
	case v.Double != nil:
		return strconv.ParseFloat(strings.Trim(string(v.Double), `"`), 64)
	case v.Bytes != nil:
		return v.Bytes, nil
	case v.Array != nil:
		list := make([]any, 0, len(v.Array.Values))
		for _, element := range v.Array.Values {
			value, err := element.value()
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	}
	return nil, nil
}

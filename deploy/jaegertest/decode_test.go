package jaegertest

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

func TestDecode(t *testing.T) {
	traces, err := decode([]byte(`{"result":{"resourceSpans":[{
		"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"prover"}}]},
		"scopeSpans":[{"scope":{"name":"scope"},"spans":[{
			"traceId":"0000000000000000000000000000000b","spanId":"0000000000000002","parentSpanId":"0000000000000001",
			"name":"late","kind":1,"startTimeUnixNano":"2000000001","endTimeUnixNano":"3000000000",
			"attributes":[
				{"key":"string","value":{"stringValue":""}},
				{"key":"bool","value":{"boolValue":false}},
				{"key":"int","value":{"intValue":"9223372036854775807"}},
				{"key":"double","value":{"doubleValue":0.5}},
				{"key":"infinity","value":{"doubleValue":"-Infinity"}},
				{"key":"bytes","value":{"bytesValue":"AQI="}},
				{"key":"array","value":{"arrayValue":{"values":[{"intValue":"1"},{"stringValue":"2"}]}}},
				{"key":"empty","value":{}},
				{"key":"@jaeger@warnings","value":{"arrayValue":{"values":[{"stringValue":"odd"}]}}}],
			"links":[{"traceId":"0000000000000000000000000000000a","spanId":"0000000000000003"}],
			"events":[{"name":"event","timeUnixNano":"2500000000"}],
			"status":{"code":1}},
		{
			"traceId":"0000000000000000000000000000000b","spanId":"0000000000000001",
			"name":"early","startTimeUnixNano":"1000000000","endTimeUnixNano":"4000000000",
			"status":{"code":2,"message":"bad"}},
		{
			"traceId":"0000000000000000000000000000000a","spanId":"0000000000000003",
			"name":"first","startTimeUnixNano":"0","endTimeUnixNano":"1"}
		]}]}]}}`))
	require.NoError(t, err)

	resource := map[string]any{"service.name": "prover"}
	a, b := trace.TraceID{15: 0xa}, trace.TraceID{15: 0xb}
	require.Equal(t, []*Trace{
		{ID: a, Spans: []Span{{
			TraceID: a, SpanID: trace.SpanID{7: 3}, Name: "first", Service: "prover", Scope: "scope",
			Start: time.Unix(0, 0).UTC(), End: time.Unix(0, 1).UTC(),
			Attributes: map[string]any{}, Resource: resource,
		}}},
		{ID: b, Spans: []Span{{
			TraceID: b, SpanID: trace.SpanID{7: 1}, Name: "early", Service: "prover", Scope: "scope",
			Start: time.Unix(1, 0).UTC(), End: time.Unix(4, 0).UTC(),
			Attributes: map[string]any{}, Resource: resource,
			StatusCode: codes.Error, StatusMessage: "bad",
		}, {
			TraceID: b, SpanID: trace.SpanID{7: 2}, ParentID: trace.SpanID{7: 1}, Name: "late",
			Kind: trace.SpanKindInternal, Service: "prover", Scope: "scope",
			Start: time.Unix(2, 1).UTC(), End: time.Unix(3, 0).UTC(),
			Attributes: map[string]any{
				"string": "", "bool": false, "int": int64(math.MaxInt64), "double": 0.5,
				"infinity": math.Inf(-1), "bytes": []byte{1, 2}, "array": []any{int64(1), "2"}, "empty": nil,
			},
			Resource:   resource,
			Links:      []Link{{TraceID: a, SpanID: trace.SpanID{7: 3}}},
			Events:     []Event{{Name: "event", Time: time.Unix(2, 5e8).UTC(), Attributes: map[string]any{}}},
			StatusCode: codes.Ok,
			Warnings:   []string{"odd"},
		}}},
	}, traces)
}

func TestDecodeRejects(t *testing.T) {
	span := func(fields string) string {
		return `{"result":{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0000000000000000000000000000000a",` +
			`"spanId":"0000000000000001","name":"x","startTimeUnixNano":"0","endTimeUnixNano":"0",` + fields + `}]}]}]}}`
	}
	for name, body := range map[string]string{
		"no JSON":        `<html>`,
		"trace ID":       span(`"traceId":"a"`),
		"span ID":        span(`"spanId":""`),
		"parent ID":      span(`"parentSpanId":"zz"`),
		"link":           span(`"links":[{"traceId":"a","spanId":"b"}]`),
		"status":         span(`"status":{"code":3}`),
		"double":         span(`"attributes":[{"key":"a","value":{"doubleValue":"x"}}]`),
		"event's double": span(`"events":[{"name":"e","timeUnixNano":"0","attributes":[{"key":"a","value":{"doubleValue":[]}}]}]`),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decode([]byte(body))
			require.Error(t, err)
		})
	}
}

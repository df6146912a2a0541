package run

import "google.golang.org/protobuf/encoding/protowire"

// A protoKind is a message of OTLP's traces in protobuf, as far as such can be
// inside each other
// (https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/trace/v1/trace.proto).
type protoKind uint8

const (
	protoOther protoKind = iota
	protoRequest
	protoResourceSpans
	protoResource
	protoEntity
	protoScopeSpans
	protoScope
	protoSpan
	protoEvent
	protoLink
	protoKeyValue
	protoValue
	protoArray
	protoKeyValues
)

// protoInside are the fields that are messages, or lists of texts.
var protoInside = [...]map[protowire.Number]protoKind{
	protoRequest:       {1: protoResourceSpans},
	protoResourceSpans: {1: protoResource, 2: protoScopeSpans},
	protoResource:      {1: protoKeyValue, 3: protoEntity},
	protoEntity:        {3: protoOther, 4: protoOther},
	protoScopeSpans:    {1: protoScope, 2: protoSpan},
	protoScope:         {3: protoKeyValue},
	protoSpan:          {9: protoKeyValue, 11: protoEvent, 13: protoLink, 15: protoOther},
	protoEvent:         {3: protoKeyValue},
	protoLink:          {4: protoKeyValue},
	protoKeyValue:      {2: protoValue},
	protoValue:         {5: protoArray, 6: protoKeyValues},
	protoArray:         {1: protoValue},
	protoKeyValues:     {1: protoKeyValue},
}

// checkProto returns an error for a request in protobuf that a decoder should be
// spared, as nesting.check does for one in JSON. What is no protobuf, the
// decoder tells.
func checkProto(data []byte) error {
	if countProto(data, protoRequest, maxNesting) > maxValues {
		return errTooMany
	}
	return nil
}

// countProto counts the messages inside a message, so deep.
func countProto(data []byte, kind protoKind, depth int) (n int) {
	inside := protoInside[kind]
	for len(data) > 0 && depth > 0 && inside != nil {
		number, wire, size := protowire.ConsumeTag(data)
		if size < 0 {
			return n
		}
		data = data[size:]
		if size = protowire.ConsumeFieldValue(number, wire, data); size < 0 {
			return n
		}
		if in, ok := inside[number]; ok && wire == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(data)
			n += 1 + countProto(value, in, depth-1)
		}
		data = data[size:]
	}
	return n
}

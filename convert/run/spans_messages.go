package run

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"

	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

const (
	// SpansHead is how many of a file's first bytes [IsSpans] may need.
	SpansHead = 512

	// maxMessage bounds a message, in bytes: an export request, of a single
	// one in protobuf the spans of one resource, or a trace of Jaeger's. It is
	// decoded as a whole.
	maxMessage = 64 << 20

	// maxNesting bounds how deep objects and lists stand inside each other in
	// JSON. Decoders recurse. A request has some ten levels.
	maxNesting = 100

	// maxValues bounds the values in a message: empty ones take 2 bytes there,
	// and a hundred times as much when they are decoded. Those of spans take 15
	// bytes and more each, so that no message reaches this before it reaches
	// maxMessage, or nearly.
	maxValues = 4 << 20
)

var errTooMany = damaged("holds more than %d Mi values", maxValues>>20)

// IsSpans reports whether a file that begins so holds spans in a format that
// [ReadSpans] reads.
func IsSpans(head []byte) bool { return formatOf(head) != formatUnknown }

// A spanFormat is how a file holds spans.
type spanFormat uint8

const (
	formatUnknown spanFormat = iota

	// OTLP's JSON encoding, one request after the other, on lines of their own
	// (https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/) or not.
	formatJSON

	// The same inside {"result":…}, as Jaeger's API v3 answers.
	formatResult

	// Jaeger's own JSON, {"data":[…]}, of its API and of the download in its UI.
	formatJaeger

	// A request in protobuf.
	formatProto

	// Requests with their lengths in front, as 4 bytes, big end first: those of
	// the collector's file exporter in protobuf, or compressed one by one
	// (https://github.com/open-telemetry/opentelemetry-collector-contrib/tree/main/exporter/fileexporter#file-format).
	formatFramed
)

var (
	jsonHead   = regexp.MustCompile(`^\s*(\{\s*\}\s*)*\{\s*"resource_?([sS]pans|[lL]ogs|[mM]etrics)"\s*:`)
	resultHead = regexp.MustCompile(`^\s*\{\s*"result"\s*:\s*\{\s*"resource_?[sS]pans"\s*:`)
	jaegerHead = regexp.MustCompile(`^\s*\{\s*"data"\s*:\s*\[\s*(\]|\{\s*"traceID"\s*:)`)
)

const zstdMagic = "\x28\xb5\x2f\xfd"

func formatOf(head []byte) spanFormat {
	switch {
	case jsonHead.Match(head):
		return formatJSON
	case resultHead.Match(head):
		return formatResult
	case jaegerHead.Match(head):
		return formatJaeger
	case isRequest(head, math.MaxUint32):
		return formatProto
	case len(head) > 4:
		size, body := binary.BigEndian.Uint32(head), head[4:]
		if isRequest(body, uint64(size)) || size > 4 && bytes.HasPrefix(body, []byte(zstdMagic)) || jsonHead.Match(body) {
			return formatFramed
		}
	}
	return formatUnknown
}

// isRequest reports whether the first bytes, of at most so many, can be those
// of an ExportTraceServiceRequest in protobuf. Text that begins with an empty
// line looks alike, so that the first fields are followed down to the key of
// the resource's first attribute.
func isRequest(b []byte, size uint64) bool {
	const list = 1<<3 | 2 // field 1, of a length
	for level := range 4 {
		if len(b) == 0 {
			return false
		}
		tag := b[0]
		// Of the levels between, the first fields can be empty and left out.
		if tag != list && (level == 0 || level == 3 || tag != 2<<3|2 && tag != 3<<3|2) {
			return false
		}
		n, k := binary.Uvarint(b[1:])
		if k <= 0 || n > size || uint64(1+k) > size-n {
			return false
		}
		if tag != list {
			return true
		}
		if n == 0 {
			return level > 0
		}
		b, size = b[1+k:], n
	}
	return true
}

// messages are those of a file of spans, one after the other.
type messages struct {
	in     *bufio.Reader
	format spanFormat

	number int64 // of the last message, or of the line in which it begins
	data   []byte
	zstd   *zstd.Decoder
	room   []byte // for what is decompressed
	json   jsonState
	cut    bool // nothing can follow
}

// A damage is what cannot be read of a file, while what follows it can.
type damage struct{ what string }

func (d *damage) Error() string { return d.what }

func damaged(format string, args ...any) error { return &damage{fmt.Sprintf(format, args...)} }

// newMessages returns the messages of a file. They are none of a file that is
// empty.
func newMessages(in io.Reader) (*messages, error) {
	m := &messages{in: bufio.NewReaderSize(in, 256<<10), json: jsonState{line: 1, first: true}}
	head, err := m.in.Peek(SpansHead)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	m.format = formatOf(head)
	if m.format == formatUnknown && len(head) > 0 {
		return nil, errors.New("it holds no spans: OTLP as JSON or protobuf, and Jaeger's JSON, can be read")
	}
	return m, nil
}

func (m *messages) close() {
	if m.zstd != nil {
		m.zstd.Close()
	}
}

// next returns the spans of the next message, a [*damage] in the place of one
// that cannot be read, or io.EOF.
func (m *messages) next() (ptrace.Traces, error) {
	if m.cut {
		return ptrace.Traces{}, io.EOF
	}
	var data []byte
	var err error
	switch m.format {
	case formatUnknown:
		err = io.EOF
	case formatProto:
		data, err = m.nextResource()
	case formatFramed:
		data, err = m.nextFrame()
	default:
		data, err = m.nextObject()
	}
	if err != nil {
		return ptrace.Traces{}, err
	}
	isJSON := len(data) > 0 && data[0] == '{'
	switch {
	case m.format == formatFramed && isJSON:
		err = checkJSON(data)
	case !isJSON:
		err = checkProto(data)
	}
	if err != nil {
		return ptrace.Traces{}, err
	}
	var traces ptrace.Traces
	switch {
	case m.format == formatJaeger:
		traces, err = decodeJaeger(data)
	case isJSON:
		var d ptrace.JSONUnmarshaler
		traces, err = d.UnmarshalTraces(data)
	default:
		var d ptrace.ProtoUnmarshaler
		traces, err = d.UnmarshalTraces(data)
	}
	if err != nil {
		return ptrace.Traces{}, damaged("cannot be read as spans: %s", shorten(err))
	}
	return traces, nil
}

// shorten returns a decoder's error without what it quotes of the input.
func shorten(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", error found in")
	return text
}

// nextResource returns the next spans of one resource, which are a request of
// their own: its field 1 is a list.
func (m *messages) nextResource() ([]byte, error) {
	tag, err := m.in.ReadByte()
	if err != nil {
		return nil, err
	}
	m.number++
	if tag != 1<<3|2 {
		m.cut = true
		return nil, damaged("no spans begin here; what follows is not read")
	}
	n, err := binary.ReadUvarint(m.in)
	if err != nil {
		return nil, m.ends(err)
	}
	if n > maxMessage {
		m.cut = true
		return nil, damaged("is larger than %d MiB; what follows is not read", maxMessage>>20)
	}
	m.data = binary.AppendUvarint(append(m.data[:0], tag), n)
	return m.read(len(m.data), int(n))
}

// nextFrame returns the next message that has its length in front.
func (m *messages) nextFrame() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(m.in, length[:1]); err != nil {
		return nil, err
	}
	m.number++
	if _, err := io.ReadFull(m.in, length[1:]); err != nil {
		return nil, m.ends(err)
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxMessage {
		m.cut = true
		return nil, damaged("is larger than %d MiB; what follows is not read", maxMessage>>20)
	}
	data, err := m.read(0, int(n))
	if err != nil || !bytes.HasPrefix(data, []byte(zstdMagic)) {
		return data, err
	}
	if m.zstd == nil {
		m.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxMessage))
		if err != nil {
			return nil, err
		}
	}
	m.room, err = m.zstd.DecodeAll(data, m.room[:0])
	if err != nil {
		return nil, damaged("cannot be decompressed: %v", err)
	}
	return m.room, nil
}

// read reads n bytes of a message behind those of it that there are.
func (m *messages) read(have, n int) ([]byte, error) {
	// In steps, so that a length that is made up takes no memory.
	const step = 1 << 20
	m.data = m.data[:have]
	for n > 0 {
		some := min(n, step)
		at := len(m.data)
		m.data = append(m.data, make([]byte, some)...)
		if _, err := io.ReadFull(m.in, m.data[at:]); err != nil {
			return nil, m.ends(err)
		}
		n -= some
	}
	return m.data, nil
}

// ends returns what it means that the file ends in the middle of a message.
func (m *messages) ends(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		m.cut = true
		return errCut
	}
	return err
}

var errCut = &damage{"is cut short"}

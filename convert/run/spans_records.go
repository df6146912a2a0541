package run

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/provetrace/provetrace/tracing"
)

// A recordKind says what a span is by its name and its own attributes. Whether
// it is of the contract, its place in the tree tells.
type recordKind uint8

const (
	kindOther     recordKind = iota // perhaps a phase of a synthesis or of a proof
	kindSector                      // prove sector
	kindPartition                   // partition N
	kindAdmission
	kindSynthesis
	kindQueue
	kindProve
	kindVerify
	kindOverview       // of the run's own trace
	kindOverviewSector // its spans of sectors, which have extents inside
)

// A record is a span as far as the model needs it.
type record struct {
	id, parent uint64
	start, end int64  // ns since 1970
	name       string // of what is of no kind; of a sector and a partition, the job
	reason     string // why it failed
	more       *recordMore

	index    int32 // of the partition, or Unknown
	count    int32 // of the sector's partitions; 0 where unknown
	attempt  int32 // 0 where unknown
	worker   int32 // of the GPU or of the synthesis, or Unknown
	device   int32 // ordinal, or Unknown
	depth    int32 // of the queue, or Unknown
	reported int32 // ms, or Unknown

	scope int32 // number of the instrumentation scope
	kind  recordKind
	marks recordMarks
}

// recordMore is what few spans have.
type recordMore struct {
	proofKind string
	telemetry *Telemetry
}

// recordMarks are what a span says of how far it is known, and how it ended; and
// whether it has its place.
type recordMarks uint8

const (
	markFailed recordMarks = 1 << iota // the status is an error's
	markUnfinished
	markSkipped
	markStart // is inferred
	markEnd   // is inferred
	markPlaced
)

func (r *record) is(m recordMarks) bool { return r.marks&m != 0 }

// isRead are the attributes that spans and resources are asked for.
var isRead = func() map[attribute.Key]bool {
	keys := make(map[attribute.Key]bool)
	for _, k := range []attribute.Key{
		tracing.JobID, tracing.Attempt, tracing.ProofKind, tracing.PartitionIndex, tracing.PartitionCount,
		tracing.SynthesisWorker, tracing.GPUWorker, tracing.QueueDepth, tracing.Backend, tracing.ReportedDuration,
		tracing.Inferred, tracing.Unfinished, tracing.PartitionSkipped,
		tracing.DeviceOrdinal, tracing.DevicePCIBusID, semconv.HwIDKey, semconv.HwNameKey, semconv.HwModelKey,
		semconv.HwVendorKey, semconv.HwDriverVersionKey,
		tracing.GPUUtilization, tracing.GPUMemoryUsed, tracing.GPUPower, tracing.GPUTemperature, tracing.GPUPCIeRx,
		tracing.GPUPCIeTx, tracing.GPUSamples,
		tracing.RunID, tracing.EpochTime, tracing.EpochSource, tracing.EpochError,
		tracing.InputMalformed, tracing.InputStitched, tracing.InputDuplicates, tracing.InputOrphans, tracing.WorkersAssumed,
		semconv.ServiceNamespaceKey, semconv.ServiceInstanceIDKey,
	} {
		keys[k] = true
	}
	return keys
}()

// kindOf tells a span's kind by its name.
func kindOf(name string) recordKind {
	switch name {
	case tracing.SpanSector:
		return kindSector
	case tracing.SpanAdmissionWait:
		return kindAdmission
	case tracing.SpanSynthesis:
		return kindSynthesis
	case tracing.SpanQueueWait:
		return kindQueue
	case tracing.SpanProve:
		return kindProve
	case tracing.SpanVerify:
		return kindVerify
	case tracing.SpanRun, tracing.SpanIdle:
		return kindOverview
	}
	return kindOther
}

// span returns the span's name, where it is of a sector's trace.
func (r *record) span() string {
	switch r.kind {
	case kindSector:
		return tracing.SpanSector
	case kindPartition:
		return tracing.PartitionSpanName(int(r.index))
	case kindAdmission:
		return tracing.SpanAdmissionWait
	case kindSynthesis:
		return tracing.SpanSynthesis
	case kindQueue:
		return tracing.SpanQueueWait
	case kindProve:
		return tracing.SpanProve
	case kindVerify:
		return tracing.SpanVerify
	}
	return r.name
}

// readRecord reads what a span tells. The device is that of its attributes,
// without its ordinal where it has none. Of an attribute that places the span,
// and whose value cannot be, beyond is the key.
func readRecord(s ptrace.Span) (r record, d Device, backend string, beyond attribute.Key) {
	r = record{
		id: idOf(s.SpanID()), parent: idOf(s.ParentSpanID()), kind: kindOf(s.Name()),
		start: int64(min(s.StartTimestamp(), math.MaxInt64)), end: int64(min(s.EndTimestamp(), math.MaxInt64)),
		index: Unknown, worker: Unknown, device: Unknown, depth: Unknown, reported: Unknown,
	}
	if s.Status().Code() == ptrace.StatusCodeError {
		r.marks |= markFailed
		r.reason = s.Status().Message()
	}
	var job, proofKind string
	t := Telemetry{
		Utilization: Unknown, MemoryUsed: Unknown, Power: Unknown, Temperature: Unknown,
		PCIeRx: Unknown, PCIeTx: Unknown, Samples: Unknown,
	}
	empty := t
	for key, v := range s.Attributes().All() {
		switch attribute.Key(key) {
		case tracing.JobID:
			job = v.Str()
		case tracing.Attempt:
			r.attempt = max(natural(v, math.MaxInt32), 0)
		case tracing.ProofKind:
			proofKind = v.Str()
		case tracing.PartitionIndex:
			if r.index = natural(v, maxPartition); r.index == Unknown {
				beyond = tracing.PartitionIndex
			}
		case tracing.PartitionCount:
			r.count = max(natural(v, maxPartition), 0)
		case tracing.SynthesisWorker, tracing.GPUWorker:
			r.worker = natural(v, maxWorker)
		case tracing.QueueDepth:
			r.depth = natural(v, math.MaxInt32)
		case tracing.ReportedDuration:
			r.reported = natural(v, maxSpan)
		case tracing.Inferred:
			r.marks |= inferredEnds(v)
		case tracing.Unfinished:
			if v.Bool() {
				r.marks |= markUnfinished
			}
		case tracing.PartitionSkipped:
			if v.Bool() {
				r.marks |= markSkipped
			}
		case tracing.Backend:
			backend = v.Str()
		case tracing.DeviceOrdinal:
			if r.device = natural(v, maxWorker); r.device == Unknown {
				beyond = tracing.DeviceOrdinal
			}
		case tracing.DevicePCIBusID:
			d.PCIBusID = v.Str()
		case semconv.HwIDKey:
			d.UUID = v.Str()
		case semconv.HwNameKey:
			d.Name = v.Str()
		case semconv.HwModelKey:
			d.Model = v.Str()
		case semconv.HwVendorKey:
			d.Vendor = v.Str()
		case semconv.HwDriverVersionKey:
			d.DriverVersion = v.Str()
		case tracing.GPUUtilization:
			t.Utilization = measured(v)
		case tracing.GPUMemoryUsed:
			t.MemoryUsed = int64(measured(v))
		case tracing.GPUPower:
			t.Power = measured(v)
		case tracing.GPUTemperature:
			t.Temperature = int64(measured(v))
		case tracing.GPUPCIeRx:
			t.PCIeRx = measured(v)
		case tracing.GPUPCIeTx:
			t.PCIeTx = measured(v)
		case tracing.GPUSamples:
			t.Samples = int64(measured(v))
		}
	}
	d.Ordinal = int(r.device)
	r.identify(s.Name(), job)
	if t != empty && r.kind == kindProve {
		r.more = &recordMore{telemetry: &t}
	} else if proofKind != "" && r.kind == kindSector {
		r.more = &recordMore{proofKind: proofKind}
	}
	return r, d, backend, beyond
}

// identify settles the kind of a span whose name alone does not tell it.
func (r *record) identify(name, job string) {
	switch {
	case r.kind == kindSector:
		if r.name = job; job == "" {
			r.kind, r.name = kindOther, name
		}
	case r.kind != kindOther:
	case r.index >= 0 && name == tracing.PartitionSpanName(int(r.index)):
		r.kind, r.name = kindPartition, job
	case r.device >= 0 && name == tracing.DeviceSpanName(int(r.device)):
		r.kind = kindOverview
	case job != "" && strings.HasPrefix(name, tracing.SectorSpanName("")):
		r.kind = kindOverviewSector
	default:
		r.name = name
	}
}

// natural returns an attribute's value of 0 or more and at most so much, or
// Unknown.
func natural(v pcommon.Value, most int32) int32 {
	if n := v.Int(); v.Type() == pcommon.ValueTypeInt && n >= 0 && n <= int64(most) {
		return int32(n)
	}
	return Unknown
}

// measured returns a measured value, or Unknown where it is none.
func measured(v pcommon.Value) float64 {
	f := v.Double()
	switch v.Type() {
	case pcommon.ValueTypeInt:
		f = float64(v.Int())
	case pcommon.ValueTypeDouble:
	default:
		return Unknown
	}
	if !(f >= 0 && f < 1<<62) {
		return Unknown
	}
	return f
}

// tally returns a count, 0 where it is none.
func tally(v pcommon.Value) int64 { return max(int64(measured(v)), 0) }

// inferredEnds reads which ends of a span are inferred, from a list or, as
// Jaeger keeps it, from a string with the list's JSON.
func inferredEnds(v pcommon.Value) (m recordMarks) {
	var ends []string
	switch v.Type() {
	case pcommon.ValueTypeSlice:
		for _, end := range v.Slice().All() {
			ends = append(ends, end.Str())
		}
	case pcommon.ValueTypeStr:
		if json.Unmarshal([]byte(v.Str()), &ends) != nil {
			return 0
		}
	}
	for _, end := range ends {
		switch end {
		case tracing.InferredStart:
			m |= markStart
		case tracing.InferredEnd:
			m |= markEnd
		}
	}
	return m
}

// idOf returns a span's id as a number, 0 where it has none.
func idOf(id pcommon.SpanID) uint64 { return binary.BigEndian.Uint64(id[:]) }

package tracing

import "go.opentelemetry.io/otel/attribute"

// A Stage is one of the four services that the spans of a pipeline are divided
// into. Backends such as Jaeger colour a span by its service, so that a
// waterfall reads as synthesis, waiting and GPU at a glance.
type Stage uint8

const (
	StagePipeline  Stage = iota // sectors, partitions, verification: the base name
	StageSynthesis              // circuit synthesis on CPUs: base + "-synthesis"
	StageQueue                  // every wait: base + "-queue"
	StageGPU                    // work of GPU workers and their devices: base + "-gpu"

	numStages
)

// DefaultServiceName is the base of the services' names where neither
// [Options.ServiceName] nor OTEL_SERVICE_NAME gives one.
const DefaultServiceName = "prover"

// ServiceName returns the stage's service.name under the given base.
func (s Stage) ServiceName(base string) string {
	switch s {
	case StageSynthesis:
		return base + "-synthesis"
	case StageQueue:
		return base + "-queue"
	case StageGPU:
		return base + "-gpu"
	default:
		return base
	}
}

// ScopeName is the instrumentation scope of every span of the contract.
const ScopeName = "github.com/provetrace/provetrace/tracing"

// Span names of the trace that each sector has. The partition's span is named
// by [PartitionSpanName].
const (
	SpanSector        = "prove sector"   // admitted (else first synthesis start) to last end
	SpanAdmissionWait = "admission wait" // admitted to first synthesis start
	SpanSynthesis     = "synthesis"      // of one partition, or of a whole sector
	SpanWitness       = "witness"        // inside synthesis
	SpanConstraints   = "constraint evaluation"
	SpanQueueWait     = "queue wait" // offered to the GPU queue to picked up
	SpanProve         = "gpu prove"  // GPU start to proof finished
	SpanVerify        = "verify"     // the proof's own check
)

// Span names inside [SpanProve]. Other devices name their phases themselves.
const (
	SpanPrepare    = "prepare"     // CPU preparation before the device lock
	SpanDeviceWait = "device wait" // waiting for the device lock

	// The phases in the engine's logs.
	SpanNTTMSMH  = "ntt msm h" // NTTs and the MSM over h
	SpanBatchAdd = "batch add" // batch additions
	SpanTailMSM  = "tail msm"  // the remaining MSMs on the device
	SpanBG2MSM   = "b_g2 msm"  // the G2 MSM's tail on a CPU, outside the lock

	// The phases of package prover's devices, by the parts of a Groth16 proof.
	SpanNTTH   = "ntt h"
	SpanMSMH   = "msm h"
	SpanMSML   = "msm l"
	SpanMSMA   = "msm a"
	SpanMSMBG1 = "msm b_g1"
	SpanMSMBG2 = "msm b_g2" // on a CPU, outside the lock
)

// Span names of the run's own trace, the overview. The spans of its sectors
// are named by [SectorSpanName], those of its devices by [DeviceSpanName].
const (
	SpanRun  = "proving run"
	SpanIdle = "idle" // a hole in a device's work, with its cause
)

// Attribute keys of the contract. An attribute whose value is not known is
// absent, never zero.
const (
	JobID            = attribute.Key("prover.job.id")               // string: the engine's or the request's id
	Attempt          = attribute.Key("prover.attempt")              // int: 1 for the first proof of a job
	ProofKind        = attribute.Key("prover.proof.kind")           // string: porep-c2, snap-update, window-post, winning-post
	MinerID          = attribute.Key("filecoin.miner.id")           // int: the miner's actor id
	SectorNumber     = attribute.Key("filecoin.sector.number")      // int
	PartitionIndex   = attribute.Key("prover.partition.index")      // int: from 0
	PartitionCount   = attribute.Key("prover.partition.count")      // int: partitions of the sector
	SynthesisWorker  = attribute.Key("prover.synthesis.worker")     // int: from 0
	GPUWorker        = attribute.Key("prover.gpu.worker")           // int: from 0, counted through the devices
	QueueDepth       = attribute.Key("prover.queue.depth")          // int: partitions already waiting when this one was offered
	Backend          = attribute.Key("prover.backend")              // string: cpu, cuda, sim
	ReportedDuration = attribute.Key("prover.reported_duration_ms") // int, ms: the engine's own timer (synth_ms, gpu_ms)
	Inferred         = attribute.Key("prover.inferred")             // []string of "start", "end": ends that the log lacks
	Unfinished       = attribute.Key("prover.unfinished")           // bool: the record stops before the span ended
	PartitionSkipped = attribute.Key("prover.partition.skipped")    // bool: not proved, since its sector had failed
	IdleCause        = attribute.Key("prover.idle.cause")           // string: an [IdleCause]'s text

	DeviceOrdinal  = attribute.Key("cuda.device.ordinal")             // int: CUDA's number of the device
	DevicePCIBusID = attribute.Key("gpu.pci.bus_id")                  // string: domain:bus:device.function
	GPUUtilization = attribute.Key("gpu.utilization.mean")            // float: 0..1
	GPUMemoryUsed  = attribute.Key("gpu.memory.used.max")             // int: bytes
	GPUPower       = attribute.Key("gpu.power.mean")                  // float: W
	GPUTemperature = attribute.Key("gpu.temperature.max")             // int: degrees Celsius
	GPUPCIeRx      = attribute.Key("gpu.pcie.rx.mean")                // float: bytes/s
	GPUPCIeTx      = attribute.Key("gpu.pcie.tx.mean")                // float: bytes/s
	GPUSamples     = attribute.Key("gpu.samples")                     // int: telemetry samples in the means
	RunSource      = attribute.Key("provetrace.source")               // resource, string: [SourceTimeline] or [SourceSpans] for a converted run
	RunID          = attribute.Key("provetrace.run")                  // resource, string: the run's name
	EpochTime      = attribute.Key("provetrace.epoch.time")           // resource, string, RFC 3339: the wall clock of a converted run's offset 0
	EpochSource    = attribute.Key("provetrace.epoch.source")         // resource, string: where the wall clock of a converted run comes from
	EpochError     = attribute.Key("provetrace.epoch.uncertainty_ms") // resource, float, ms: half the width of what the epoch can be

	// What a converted run was made of, where that is not 0 or false.
	InputMalformed  = attribute.Key("provetrace.input.malformed")  // resource, int: lines with the marker, or messages, spans and sectors, that could not be read
	InputStitched   = attribute.Key("provetrace.input.stitched")   // resource, int: events put together from torn lines
	InputDuplicates = attribute.Key("provetrace.input.duplicates") // resource, int: events that repeat or contradict an earlier one
	InputOrphans    = attribute.Key("provetrace.input.orphans")    // resource, int: groups of CUDA timings that fit no single partition
	WorkersAssumed  = attribute.Key("provetrace.workers.assumed")  // resource, bool: no line told which worker drives which device
)

// StatusInterrupted is the message of the status, an error's, of a sector that
// was given up when its pipeline was interrupted: it has not failed.
const StatusInterrupted = "interrupted"

// Values of [Inferred].
const (
	InferredStart = "start"
	InferredEnd   = "end"
)

// Values of [RunSource]: what a converted run was read from.
const (
	SourceTimeline = "timeline" // a log
	SourceSpans    = "spans"    // the spans of a live pipeline
)

// Idle causes, the values of [IdleCause]: why a device had no work.
const (
	CauseHandoff   = "handoff"   // a synthesized partition was waiting: the pipeline was slow to hand it over
	CauseSynthesis = "synthesis" // none was waiting, one was being synthesized
	CauseNoWork    = "no-work"   // nothing was under way
)

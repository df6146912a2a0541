package timeline

import "strconv"

// A Kind is one of the instrumented points of the engine's pipeline.
type Kind uint8

const (
	SynthStart Kind = iota + 1 // a CPU worker starts building the circuit
	SynthEnd                   // the circuit is built
	ChanSend                   // offered to the bounded GPU channel (older engines)
	GPUQueue                   // pushed to the GPU priority queue (newer engines)
	GPUPickup                  // a GPU worker took it
	GPUStart                   // proving starts
	GPUEnd                     // the proof of the partition is finished
)

var kindNames = [...]string{
	SynthStart: "SYNTH_START",
	SynthEnd:   "SYNTH_END",
	ChanSend:   "CHAN_SEND",
	GPUQueue:   "GPU_QUEUE",
	GPUPickup:  "GPU_PICKUP",
	GPUStart:   "GPU_START",
	GPUEnd:     "GPU_END",
}

// String returns the kind as the log writes it, such as SYNTH_START.
func (k Kind) String() string {
	if int(k) < len(kindNames) && k != 0 {
		return kindNames[k]
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// Values of an [Event]'s fields that the line does not give.
const (
	WholeSector = -1 // Partition: the event is of a whole sector
	Unknown     = -1 // Worker, Duration
)

// An Event is one line of the log. The zero Event is of no kind; a Partition
// of 0 is the first one, so that [WholeSector] has to be said.
type Event struct {
	Offset    int64  // ms since the engine started, on a monotonic clock
	Kind      Kind   // which point of the pipeline was passed
	Partition int32  // from 0, or WholeSector
	Worker    int32  // GPU worker from 0, counted through the devices, or Unknown
	Duration  int64  // ms by the engine's own timer (synth_ms, gpu_ms), or Unknown
	Job       []byte // the job's id, without the commas and line ends that a line cannot carry
	ProofKind []byte // SynthStart of a whole sector: porep-c2, …; else empty
}

// Package run is the model of a proving run: what each sector, partition and
// device did, and when. A [Reader] assembles it from a TIMELINE log, the lines
// of the engine's own log and its CUDA timings.
//
// The model knows nothing of spans or of text; convert replays it through the
// recorder, and report computes figures from it.
package run

import (
	"iter"
	"time"
)

// Unknown stands for a time, in ms of the run's clock, that is not known.
const Unknown = -1

// A Run is one life of an engine, from its start to the end of its log.
type Run struct {
	Name    string    // the log it comes from, with "#2" for the second run in it
	Epoch   Epoch     // the wall clock of the run's offset 0
	Sectors []*Sector // by their first event
	Devices []Device  // by ordinal
	Input   Input     // what was read for it

	// WorkersAssumed says that no line told which worker drives which device,
	// so that Options.WorkersPerDevice, or a single device, was assumed.
	WorkersAssumed bool
}

// An Epoch is the wall clock of a run's offset 0.
type Epoch struct {
	Time        time.Time
	Source      EpochSource
	Uncertainty time.Duration // half the width of what the time can be; negative where it cannot be told
}

// An EpochSource says what an [Epoch] was derived from.
type EpochSource string

const (
	EpochEngineLog EpochSource = "engine-log"  // wall-clock times of the engine's own lines
	EpochPrefix    EpochSource = "line-prefix" // times that the capture put before each line
	EpochFileTime  EpochSource = "file-time"   // the file's modification time, taken as the last event's
	EpochReadTime  EpochSource = "read-time"   // standard input: the time of reading, taken as the last event's
	EpochGiven     EpochSource = "given"       // the user's
	EpochNow       EpochSource = "now"         // the user's wish that the run ends now
)

// Input counts what was read for a run. Every line with the marker is either
// an event, or part of a stitched one, or malformed.
type Input struct {
	Bytes      int64
	Lines      int64
	Events     int64 // events used, stitched ones included
	Malformed  int64 // lines with the marker that no event could be read from
	Stitched   int64 // events put together from a torn line
	Duplicates int64 // events that say again what an earlier one said
	Inferred   int64 // boundaries that no line gives
	Timings    int64 // groups of CUDA timings given to a partition
	Orphans    int64 // groups of CUDA timings that fit no partition
}

// A Device is a GPU, as far as a log knows it.
type Device struct {
	Ordinal int   // CUDA's number
	Workers []int // ids of the GPU workers that drive it
}

// A Sector is one attempt at the proof of one job.
type Sector struct {
	Job       string
	Attempt   int     // from 1
	ProofKind string  // porep-c2, snap-update, …; empty where unknown
	Count     int     // partitions that the engine announced, else those seen; 0 for a whole-sector proof
	Admitted  float64 // ms of the run's clock, or Unknown
	Failure   string  // why it failed, empty otherwise

	parts []packed // see pack.go
	run   *Run
}

// Partitions yields the sector's partitions by their index. A whole-sector
// proof yields one, whose Index is timeline.WholeSector.
func (s *Sector) Partitions() iter.Seq[Partition] {
	return func(yield func(Partition) bool) {
		for i := range s.parts {
			if !yield(s.unpack(&s.parts[i])) {
				return
			}
		}
	}
}

// A State says how a partition ended.
type State uint8

const (
	Finished   State = iota // its proof is there
	Failed                  // its synthesis or its proof failed
	Skipped                 // not proved, since its sector had failed
	Incomplete              // the log ends, or has lost too much, before its end
)

// A Partition is the unit of work: one circuit, or the whole sector. Times are
// whole ms of the run's clock, Unknown where nothing tells them. Inferred says
// which were derived from other evidence.
type Partition struct {
	Index      int // from 0, or timeline.WholeSector
	Worker     int // GPU worker, or Unknown
	Device     int // ordinal of the worker's device, or Unknown
	State      State
	SynthStart int64
	SynthEnd   int64
	Queued     int64 // offered to the GPU queue
	PickedUp   int64
	GPUStart   int64
	GPUEnd     int64
	SynthMS    int64 // the engine's own timer, or Unknown
	GPUMS      int64 // the engine's own timer, or Unknown
	Inferred   Boundary
	Failure    string // why it failed, empty otherwise

	timings *timings
}

// Phases yields the parts of the partition's GPU interval in order of their
// start, where CUDA timings tell them.
func (p Partition) Phases() iter.Seq[Phase] {
	panic("assembled in pack.go")
}

// A Boundary is a set of a partition's times.
type Boundary uint8

const (
	AtSynthStart Boundary = 1 << iota
	AtSynthEnd
	AtQueued
	AtPickedUp
	AtGPUStart
	AtGPUEnd
)

// A Phase is a part of a partition's GPU interval, by its name in the span
// contract.
type Phase struct {
	Name       string
	Start, End int64
}

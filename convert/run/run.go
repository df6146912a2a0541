// Package run is the model of a proving run: what each sector, partition and
// device did, and when. [Read] assembles it from a TIMELINE log, the lines
// of the engine's own log and its CUDA timings, [ReadSpans] from the spans of
// the contract, be they a live pipeline's or made of a log.
//
// The model is the same for both: convert replays it through the recorder, and
// report makes figures and pictures of it.
package run

import (
	"iter"
	"strconv"
	"time"

	"github.com/provetrace/provetrace/tracing"
)

// Unknown stands for a time, worker, device or duration that is not known.
const Unknown = -1

// A Run is one life of an engine, from its start to the end of its log.
type Run struct {
	Name    string    // the log or file it comes from, with "#2" for the second run in it
	ID      string    // provetrace.run of the spans that it was read from; empty for a log's, and for a live pipeline's
	Backend string    // cpu, cuda, sim; empty where unknown
	Epoch   Epoch     // the wall clock of the run's offset 0
	Sectors []*Sector // by their first event
	Devices []Device  // by ordinal
	Input   Input     // what was read for it

	// WorkersAssumed says that no line told which worker drives which device,
	// so that Options.WorkersPerDevice, or a single device, was assumed.
	WorkersAssumed bool

	// First and Last are the times of the first and the last event, inferred
	// ones included, in ms of the run's clock.
	First, Last int64

	drives   []int32 // 1 + the ordinal of the device, by worker
	timings  slab[timings]
	details  slab[detail] // in place of timings in a run that was read from spans
	names    []string     // of phases in details
	failures map[failureKey]string
	checks   map[*Sector][]Phase

	tally Tally

	longestSynthesis, longestProof int64 // ms; the latter with the wait for it
}

// Time returns the wall clock of an offset in ms.
func (r *Run) Time(ms int64) time.Time {
	return r.Epoch.Time.Add(time.Duration(ms) * time.Millisecond)
}

// A Tally counts what became of a run's sectors and partitions.
type Tally struct {
	Partitions int
	Failed     int // sectors
	Unfinished int // sectors
	Skipped    int // partitions
	Startless  int // partitions, of which the synthesis start is not known
	Endless    int // partitions that a GPU worker began to prove, and whose end is not known
}

// Tally returns what became of the sectors and partitions.
func (r *Run) Tally() Tally { return r.tally }

// add counts a sector, of which all is known, without unpacking its partitions.
func (t *Tally) add(s *Sector) {
	t.Partitions += s.Len()
	switch s.State() {
	case Failed:
		t.Failed++
	case Incomplete:
		t.Unfinished++
	}
	if s.whole {
		return
	}
	for p := range s.each() {
		if p.state == Skipped {
			t.Skipped++
		}
		if p.t[SynthStart] == absent {
			t.Startless++
		}
		if p.t[GPUStart] != absent && p.t[GPUEnd] == absent {
			t.Endless++
		}
	}
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
	EpochNextRun   EpochSource = "next-run"    // the next run of the log, taken as begun when this one ended
	EpochGiven     EpochSource = "given"       // the user's
	EpochNow       EpochSource = "now"         // the user's wish that the run ends now
	EpochSpans     EpochSource = "spans"       // a live pipeline's spans, which have the wall clock
)

// Input counts what was read for a run. Every line of a log with the marker is
// an event, part of a stitched one, or malformed.
//
// Of a file of spans, an event is a span of the contract, and malformed is a
// message, a span or a sector that cannot be read. What cannot be told apart by
// run is counted for the first of the file. What spans of a log tell that this
// had of malformed lines, stitched events, duplicates and orphans counts too.
type Input struct {
	Bytes      int64 `json:"bytes"`
	Lines      int64 `json:"lines"`
	Events     int64 `json:"events"`     // stitched ones and duplicates included
	Malformed  int64 `json:"malformed"`  // lines with the marker that no event could be read from
	Stitched   int64 `json:"stitched"`   // events put together from a torn line
	Duplicates int64 `json:"duplicates"` // events that repeat or contradict an earlier one, not used
	Inferred   int64 `json:"inferred"`   // times that no line gives, derived from other lines
	Timings    int64 `json:"timings"`    // groups of CUDA timings given to a partition
	Orphans    int64 `json:"orphans"`    // groups of CUDA timings that fit no partition, or more than one

	Messages int64 `json:"messages,omitempty"` // of files of spans, in place of lines
	Foreign  int64 `json:"foreign,omitempty"`  // spans that are not of the contract

	Problems []Problem `json:"problems,omitempty"` // the first of what is malformed
}

// A Problem is a line with the marker that no event could be read from, or what
// cannot be read of a file of spans.
type Problem struct {
	File string `json:"file"`
	Line int64  `json:"line"`
	What string `json:"what"`
	Text string `json:"text"` // the beginning of the line, as it stands in the log; empty for spans

	Message bool `json:"message,omitempty"` // Line counts messages, since the file has no lines
}

// Place returns where in its file the problem is.
func (p *Problem) Place() string {
	unit := "line "
	if p.Message {
		unit = "message "
	}
	return unit + strconv.FormatInt(p.Line, 10)
}

// maxProblems bounds Input.Problems.
const maxProblems = 5

// A Device is a GPU, as far as it is known. A log tells no more than its workers.
type Device struct {
	Ordinal int   // CUDA's number
	Workers []int // ids of the GPU workers that drive it, in ascending order

	UUID          string // GPU-…
	Name          string
	Model         string
	Vendor        string
	DriverVersion string
	PCIBusID      string // domain:bus:device.function
}

// Telemetry is what a device's own sensors told during a proof, Unknown where
// they did not.
type Telemetry struct {
	Utilization float64 // mean, 0..1
	MemoryUsed  int64   // at most, bytes
	Power       float64 // mean, W
	Temperature int64   // at most, °C
	PCIeRx      float64 // mean, bytes/s
	PCIeTx      float64 // mean, bytes/s
	Samples     int64
}

// A Sector is one attempt at the proof of one job. It has partitions, unless it
// only waited for its first synthesis as long as the record goes.
type Sector struct {
	Job       string
	ProofKind string // porep-c2, snap-update, …; empty where unknown
	Attempt   int    // from 1, counted through the runs of a log
	Count     int    // partitions that the engine announced, else those seen; 0 for a whole-sector proof
	Admitted  int64  // µs of the run's clock, or Unknown

	run    *Run
	first  int64 // the earliest of its times, ms
	base   int64 // ms, to which the times in parts are relative
	parts  []packed
	frozen []byte          // the partitions, in place of parts
	few    [16]uint8       // 1 + the place in parts, by partition
	index  map[int32]int32 // likewise, of all where there are very many
	failed bool
	whole  bool // all partitions are finished, and lines told all of their times
	open   bool // its span says that the record stops before its end, or that it was given up
}

// Label returns the sector's short name: its number, else the first 8
// characters of the job id. It can hold any character that a log can.
func (s *Sector) Label() string { return tracing.SectorLabel(s.Job) }

// Partitions yields the sector's partitions by their index. A whole-sector
// proof yields one, whose Index is timeline.WholeSector.
func (s *Sector) Partitions() iter.Seq[Partition] {
	return func(yield func(Partition) bool) {
		for p := range s.each() {
			if !yield(s.unpack(p)) {
				return
			}
		}
	}
}

// Len returns the number of the sector's partitions.
func (s *Sector) Len() int {
	if s.frozen == nil {
		return len(s.parts)
	}
	n := 0
	for range s.each() {
		n++
	}
	return n
}

// Failed reports whether the sector's proof failed, and why.
func (s *Sector) Failed() (reason string, failed bool) {
	if !s.failed {
		return "", false
	}
	return s.run.failures[failureKey{s, wholeJob}], true
}

// Checks returns when the pipeline itself checked the proof, nil where that is
// not known.
func (s *Sector) Checks() []Phase { return s.run.checks[s] }

// KnowsStarts reports whether the synthesis start of each partition is known.
func (s *Sector) KnowsStarts() bool {
	if s.whole {
		return true
	}
	for p := range s.each() {
		if p.t[SynthStart] == absent {
			return false
		}
	}
	return true
}

// State returns how the sector ended: Finished only where all of its
// partitions are.
func (s *Sector) State() State {
	if s.failed {
		return Failed
	}
	n, finished := s.Len(), 0
	if s.whole {
		finished = n
	} else {
		for p := range s.each() {
			if p.state == Finished {
				finished++
			}
		}
	}
	if finished < n || n < s.Count || s.open {
		return Incomplete
	}
	return Finished
}

// First returns the earliest of the sector's times, in ms of the run's clock;
// where it only waited, when the record stops.
func (s *Sector) First() int64 { return s.first }

// Extent returns the first and the last known time of the sector, in ms of the
// run's clock.
func (s *Sector) Extent() (first, last int64) {
	first, last = Unknown, Unknown
	for p := range s.each() {
		for _, t := range p.t {
			if t == absent {
				continue
			}
			at := s.base + int64(t)
			if first == Unknown || at < first {
				first = at
			}
			last = max(last, at)
		}
	}
	if first == Unknown {
		return s.first, s.first
	}
	return first, last
}

// maxUnderWay is how many sectors, at most, can be taken as under way when the
// log ends. An engine has some ten.
const maxUnderWay = 1000

// EndOf returns when a partition ended. An incomplete one ends when it was last
// seen: with the log if it can have gone on until then, else, since the log has
// lost its end, with what is known of its sector.
func (s *Sector) EndOf(p *Partition) int64 {
	seen := int64(Unknown)
	for _, t := range p.Times {
		seen = max(seen, t)
	}
	if p.State != Incomplete {
		return seen
	}
	longest := s.run.longestSynthesis
	if p.Known(SynthEnd) {
		longest = s.run.longestProof
	}
	if longest > 0 && s.run.Last-seen > 3*longest || s.run.tally.Unfinished > maxUnderWay {
		_, last := s.Extent()
		return max(seen, last)
	}
	return s.run.Last
}

// A State says how a partition ended.
type State uint8

const (
	Finished   State = iota // its proof is there
	Failed                  // its synthesis or its proof failed
	Skipped                 // not proved, since its sector had failed
	Incomplete              // the log ends, or has lost too much, before its end
)

// A Boundary is one of a partition's times.
type Boundary uint8

const (
	SynthStart Boundary = iota
	SynthEnd
	Queued // offered to the GPU queue
	PickedUp
	GPUStart
	GPUEnd

	numBoundaries
)

// A Partition is the unit of work: one circuit, or the whole sector.
type Partition struct {
	Index  int // from 0, or timeline.WholeSector
	Worker int // GPU worker, or Unknown
	Device int // ordinal of the worker's device, or Unknown
	State  State

	// Times are by Boundary, in whole ms of the run's clock, Unknown where
	// nothing tells them. They never decrease from one known boundary to the
	// next.
	Times [numBoundaries]int64

	SynthMS int64  // the engine's own timer, or Unknown
	GPUMS   int64  // the engine's own timer, or Unknown
	Failure string // why it failed, where that is known

	// What spans tell, and logs do not.
	SynthesisWorker int        // or Unknown
	QueueDepth      int        // partitions already waiting when this one was offered, or Unknown
	Telemetry       *Telemetry // of the device during the proof, or nil

	inferred uint8 // bits by Boundary
	timings  *timings
	detail   *detail
	names    []string // of phases
	base     int64
}

// Known reports whether a time is known.
func (p *Partition) Known(b Boundary) bool { return p.Times[b] != Unknown }

// Inferred reports whether a time was derived from other evidence than its own
// line.
func (p *Partition) Inferred(b Boundary) bool { return p.inferred&(1<<b) != 0 }

// A Phase is a part of a partition's GPU interval or of its synthesis, by its
// name in the span contract, in ms of the run's clock.
type Phase struct {
	Name       string
	Start, End int64
}

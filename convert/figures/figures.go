// Package figures computes what a run tells about its pipeline: seconds per
// proof, the devices' utilization and idle gaps with their causes, how long
// each phase takes, and what limits the run.
//
// In goes the model of a run, out come numbers. All are of whole milliseconds
// of the run's clock. A time in which several things go on at once counts once:
// what a device, a sector or the syntheses took is the union of their
// intervals, never the sum.
package figures

import (
	"encoding/json"
	"time"

	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
)

// Figures are those of a run, or of the part of it that a [Scope] selects. As
// JSON, what is not known is null.
type Figures struct {
	Name  string `json:"name"`
	Epoch Epoch  `json:"epoch"`

	Scope *Selection `json:"scope,omitempty"` // nil for all of the run

	Sectors    int `json:"sectors"`
	Partitions int `json:"partitions"`
	Proofs     int `json:"proofs"`     // whole ones: all of the sector's partitions
	Failed     int `json:"failed"`     // sectors
	Unfinished int `json:"unfinished"` // sectors

	ProofKinds []string `json:"proof_kinds"` // in the order of their first sectors; without the unknown
	Mode       Mode     `json:"mode"`

	MakespanMS      *int64          `json:"makespan_ms"`   // first synthesis start to last GPU end
	ColdStartMS     *int64          `json:"cold_start_ms"` // first synthesis start to first GPU start
	SecondsPerProof SecondsPerProof `json:"seconds_per_proof"`

	// ProofEnds are when whole proofs ended, in ms of the run's clock, ascending.
	ProofEnds []int64 `json:"-"`

	GPUs        []GPU        `json:"gpus"` // by ordinal, an unknown one last
	Transitions []Transition `json:"transitions"`
	Phases      Phases       `json:"phases"`
	Synthesis   Concurrency  `json:"synthesis_concurrency"`
	Verdict     Verdict      `json:"verdict"`
	Input       run.Input    `json:"input"`

	// Divisions are the numbers of partitions that finished sectors have.
	Divisions []int `json:"-"`
}

// A Selection says which part of a run figures are of.
type Selection struct {
	SinceMS *int64   `json:"since_ms"` // of the run's clock; nil for its beginning
	UntilMS *int64   `json:"until_ms"` // nil for its end
	Only    []string `json:"only"`     // the job ids that are told of; nil for all
}

// An Epoch is the wall clock of a run's offset 0.
type Epoch struct {
	Time          time.Time       `json:"time"`
	Source        run.EpochSource `json:"source"`
	UncertaintyMS *float64        `json:"uncertainty_ms"`
}

// A Mode says into what the pipeline divides a sector's proof.
type Mode string

const (
	WholeSectors Mode = "whole-sector" // it does not
	Partitions   Mode = "partition"
	MixedModes   Mode = "mixed"
)

// MarshalJSON writes an unknown mode as null.
func (m Mode) MarshalJSON() ([]byte, error) { return orNull(string(m)) }

// SecondsPerProof are over whole proofs only.
type SecondsPerProof struct {
	Overall *float64 `json:"overall"` // makespan / proofs
	Steady  *float64 `json:"steady"`  // (last proof's end − first proof's end) / (proofs − 1)
}

// A GPU is what a device did.
type GPU struct {
	Ordinal *int   `json:"ordinal"`         // nil for the work of which no line tells the device
	Name    string `json:"name,omitempty"`  // where the spans tell it
	Model   string `json:"model,omitempty"` // likewise
	Workers []int  `json:"workers"`
	Proofs  int    `json:"proofs"` // of partitions, whose GPU interval is known

	BusyMS         int64  `json:"busy_ms"`          // union of the GPU intervals
	KernelBusyMS   *int64 `json:"kernel_busy_ms"`   // union of the device's phases, where they are known of all proofs
	ActiveWindowMS *int64 `json:"active_window_ms"` // first GPU start to last GPU end

	UtilizationActive       *float64 `json:"utilization_active"`        // busy / active window
	UtilizationOverall      *float64 `json:"utilization_overall"`       // busy / makespan
	KernelUtilizationActive *float64 `json:"kernel_utilization_active"` // kernel busy / active window

	// SpanSumMS is the sum of the GPU intervals. With two workers they overlap,
	// so that it can be twice the time that there was.
	SpanSumMS int64 `json:"span_sum_ms"`

	Idle []Idle `json:"idle"`
}

// An Idle is a hole of a device's work inside its active window.
type Idle struct {
	StartMS    int64 `json:"start_ms"`
	DurationMS int64 `json:"duration_ms"`
	Cause      Cause `json:"cause"`
}

// A Cause says why a device was idle.
type Cause string

const (
	Handoff      Cause = tracing.CauseHandoff   // a synthesized partition was waiting
	Synthesizing Cause = tracing.CauseSynthesis // none was, one was being synthesized
	NoWork       Cause = tracing.CauseNoWork    // neither
	UnknownCause Cause = ""                     // the log lacks what would tell
)

// Causes are the causes that can be known.
var Causes = [...]Cause{Synthesizing, Handoff, NoWork}

// MarshalJSON writes an unknown cause as null.
func (c Cause) MarshalJSON() ([]byte, error) { return orNull(string(c)) }

// IdleMS returns how long the device was idle for a cause, in how many gaps.
func (g *GPU) IdleMS(c Cause) (ms int64, gaps int) {
	for _, i := range g.Idle {
		if i.Cause == c {
			ms += i.DurationMS
			gaps++
		}
	}
	return ms, gaps
}

// A Transition is the change from one whole proof of the run to the next, in the
// order of their first GPU starts. Of a part of a run there are those to the
// proofs that count in it, also where the one before does not.
type Transition struct {
	From string `json:"from"` // job ids
	To   string `json:"to"`

	// CrossSectorGapMS is the first GPU start minus the previous sector's last
	// GPU end: negative where they overlap.
	CrossSectorGapMS int64 `json:"cross_sector_gap_ms"`

	// SynthesisReadinessMS is the first synthesis end minus the previous
	// sector's last GPU end: negative where the first partition was ready in time.
	SynthesisReadinessMS *int64 `json:"synthesis_readiness_ms"`

	to int // the place of the sector in the run's
}

// Phases are the pipeline's phases by their names in the span contract, in the
// order in which a partition goes through them. As JSON they are an object.
type Phases []Phase

// A Phase is how long a phase took, over the finished partitions of sectors
// that did not fail.
type Phase struct {
	Name   string `json:"-"`
	Inside bool   `json:"-"` // it is a part of the one before it that is not
	Distribution
}

// Named returns the phase of a name, or nil.
func (p Phases) Named(name string) *Phase {
	for i := range p {
		if p[i].Name == name {
			return &p[i]
		}
	}
	return nil
}

// MarshalJSON writes an object with the phases in their order.
func (p Phases) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i := range p {
		name, err := json.Marshal(p[i].Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(p[i])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}

// A Concurrency is how many syntheses ran at once, and what that did to them.
type Concurrency struct {
	Mean *float64 `json:"mean"` // while at least one ran
	Max  int      `json:"max"`

	// SlopeMS is by how much a synthesis takes longer for each one more that
	// runs beside it, by least squares over the finished ones, of the number
	// that ran beside each on average. Correlation is Pearson's.
	SlopeMS     *float64 `json:"slope_ms"`
	Correlation *float64 `json:"correlation"`
}

// A Bound is what limits a run.
type Bound string

const (
	BoundSynthesis Bound = "synthesis"  // the device waits for synthesis
	BoundHandoff   Bound = "handoff"    // the device waits though a partition is ready
	BoundNoWork    Bound = "no-work"    // the pipeline is not fed
	BoundGPU       Bound = "gpu"        // the device is always busy
	BoundWorker    Bound = "gpu-worker" // its workers are, the device is not
	BoundUnknown   Bound = ""
)

// MarshalJSON writes an unknown bound as null.
func (b Bound) MarshalJSON() ([]byte, error) { return orNull(string(b)) }

// A Verdict says what limits the run, by its busiest device.
type Verdict struct {
	Bound Bound `json:"bound"`
	GPU   *int  `json:"gpu"` // index in GPUs of the busiest; nil if none has worked

	// IdleMS is how long that device was idle for the cause that is the bound.
	IdleMS *int64 `json:"idle_ms"`

	// Without is the seconds per proof that removing the bound would give, and
	// Saved how much less that is: the steady ones where they are known. For an
	// idle cause that is the run without its gaps; for the workers, kernels
	// that follow each other without a break.
	Without *float64 `json:"seconds_per_proof_without"`
	Saved   *float64 `json:"seconds_per_proof_saved"`
}

func orNull(s string) ([]byte, error) {
	if s == "" {
		return []byte("null"), nil
	}
	return json.Marshal(s)
}

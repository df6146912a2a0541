package figures

import (
	"iter"
	"slices"

	"github.com/provetrace/provetrace/convert/run"
)

// A Sector is a row of the table of sectors. What its stages took is the time
// in which at least one of its partitions was in them; they overlap, so that
// they can add up to more than the wall time.
type Sector struct {
	Job       string `json:"job"`
	Label     string `json:"label"`
	Attempt   int    `json:"attempt"`
	ProofKind string `json:"proof_kind,omitempty"`
	State     State  `json:"state"`
	Reason    string `json:"reason,omitempty"` // why it failed

	Partitions int `json:"partitions"`

	StartMS     *int64 `json:"start_ms"` // admitted, else first known time
	SynthesisMS *int64 `json:"synthesis_ms"`
	QueueMS     *int64 `json:"queue_ms"`
	GPUMS       *int64 `json:"gpu_ms"`
	WallMS      *int64 `json:"wall_ms"` // of what is known, where it is unfinished

	// The transition to it, where it has one.
	CrossSectorGapMS     *int64 `json:"cross_sector_gap_ms"`
	SynthesisReadinessMS *int64 `json:"synthesis_readiness_ms"`
}

// A State is how a sector ended.
type State string

const (
	Finished   State = "finished"
	Failed     State = "failed"
	Unfinished State = "unfinished"
)

var states = [...]State{run.Finished: Finished, run.Failed: Failed, run.Incomplete: Unfinished}

// Rows yields the table of the sectors of the run that the figures are of, in
// the same scope, by their first event. It has [Figures.Sectors] rows, each of
// which is computed when it is wanted.
func (f *Figures) Rows(r *run.Run, s Scope) iter.Seq[Sector] {
	return func(yield func(Sector) bool) {
		steps := make([]int32, len(r.Sectors)) // 1 + the place in Transitions of that to the sector
		for i := range f.Transitions {
			steps[f.Transitions[i].to] = int32(i) + 1
		}
		var stages [3]intervals
		for i, sector := range r.Sectors {
			if !s.Has(sector) {
				continue
			}
			row := newRow(sector, &stages)
			if step := steps[i]; step > 0 {
				t := &f.Transitions[step-1]
				row.CrossSectorGapMS, row.SynthesisReadinessMS = &t.CrossSectorGapMS, t.SynthesisReadinessMS
			}
			if !yield(row) {
				return
			}
		}
	}
}

// newRow returns a sector's row, without the transition to it. It uses room for
// the sector's stages.
func newRow(s *run.Sector, stages *[3]intervals) Sector {
	row := Sector{Job: s.Job, Label: s.Label(), Attempt: s.Attempt, ProofKind: s.ProofKind, State: states[s.State()]}
	row.Reason, _ = s.Failed()
	for i := range stages {
		stages[i].reset()
	}
	first, last := int64(run.Unknown), int64(run.Unknown)
	for p := range s.Partitions() {
		row.Partitions++
		for i, b := range boundaries {
			if p.Known(b[0]) && p.Known(b[1]) {
				stages[i].cover(p.Times[b[0]], p.Times[b[1]])
			}
		}
		from, to := extent(&p)
		first, last = earlier(first, from), max(last, to)
	}
	if row.Partitions == 0 {
		first, last = s.Extent()
	}
	if s.Admitted != run.Unknown {
		first = earlier(first, max(s.Admitted/1000, 0))
	}
	for i, ms := range [...]**int64{inSynthesis: &row.SynthesisMS, inQueue: &row.QueueMS, onGPU: &row.GPUMS} {
		if stage := &stages[i]; len(stage.starts) > 0 {
			stage.sort()
			*ms = known(stage.length())
		}
	}
	row.StartMS, row.WallMS = known(first), known(last-first)
	return row
}

// extent returns the first and the last known time of a partition: they never
// decrease.
func extent(p *run.Partition) (first, last int64) {
	first, last = run.Unknown, run.Unknown
	for _, t := range p.Times {
		if t != run.Unknown {
			first = t
			break
		}
	}
	for _, t := range slices.Backward(p.Times[:]) {
		if t != run.Unknown {
			last = t
			break
		}
	}
	return first, last
}

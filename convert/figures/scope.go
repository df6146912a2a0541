package figures

import (
	"math"

	"github.com/provetrace/provetrace/convert/run"
)

// A Scope selects a part of a run. The zero Scope is all of it.
//
// What the devices and the synthesis workers did is cut at the scope's ends.
// Proofs count where their last GPU end lies in it, and partitions too. The
// overall seconds per proof are not known of a part.
type Scope struct {
	From int64 // ms of the run's clock
	To   int64 // ms; 0 means until the end

	// Only, where not nil, selects the sectors whose proofs, phases and rows
	// are told. The devices' figures stay those of all sectors, since their
	// work for others is no idle time. It is called from several goroutines.
	Only func(*run.Sector) bool
}

// maxMS is later than any time of a run's clock.
const maxMS = math.MaxInt64

// Until returns when the scope ends, in ms of the run's clock.
func (s Scope) Until() int64 {
	if s.To == 0 {
		return maxMS
	}
	return s.To
}

// Has reports whether a sector is selected and has some of its time in the
// scope.
func (s Scope) Has(sector *run.Sector) bool {
	if s.Only != nil && !s.Only(sector) {
		return false
	}
	if s.From == 0 && s.To == 0 {
		return true
	}
	first, last := sector.Extent()
	_, _, some := s.cut(first, last)
	return some
}

// selection says what the scope selects of a run, or nil where that is all.
func (s Scope) selection(r *run.Run) *Selection {
	if s.Only == nil && s.From == 0 && s.To == 0 {
		return nil
	}
	of := new(Selection)
	if s.From > 0 {
		of.SinceMS = &s.From
	}
	if s.To > 0 {
		of.UntilMS = &s.To
	}
	if s.Only == nil {
		return of
	}
	of.Only = []string{}
	attempts := make(map[string]bool)
	for _, sector := range s.Sectors(r) {
		if !attempts[sector.Job] {
			attempts[sector.Job] = true
			of.Only = append(of.Only, sector.Job)
		}
	}
	return of
}

// holds reports whether a time lies in the scope.
func (s Scope) holds(ms int64) bool { return ms >= s.From && ms <= s.Until() }

// cut cuts a stretch of time at the scope's ends, and reports whether any is
// left.
func (s Scope) cut(start, end int64) (int64, int64, bool) {
	to := s.Until()
	if end < s.From || start > to {
		return 0, 0, false
	}
	return max(start, s.From), min(end, to), true
}

// Sectors returns the sectors of a run that the scope has, by their first
// event.
func (s Scope) Sectors(r *run.Run) []*run.Sector {
	if s.Only == nil && s.From == 0 && s.To == 0 {
		return r.Sectors
	}
	var in []*run.Sector
	for _, sector := range r.Sectors {
		if s.Has(sector) {
			in = append(in, sector)
		}
	}
	return in
}

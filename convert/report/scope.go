package report

import (
	"strings"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/run"
)

// ScopeText says which part of a run a scope selects, as in "sector 4202 only,
// 2:00.000 to 3:00.000 of the run's clock"; nothing of all of it. It is safe to
// show.
func ScopeText(r *run.Run, s figures.Scope) string {
	var parts []string
	if s.Only != nil {
		parts = append(parts, onlyText(s.Sectors(r)))
	}
	switch {
	case s.From > 0 && s.To > 0:
		parts = append(parts, clock(s.From)+" to "+clock(s.To)+" of the run's clock")
	case s.From > 0:
		parts = append(parts, "from "+clock(s.From)+" of the run's clock")
	case s.To > 0:
		parts = append(parts, "until "+clock(s.To)+" of the run's clock")
	}
	return strings.Join(parts, ", ")
}

// onlyText names selected sectors. The attempts of one are one.
func onlyText(selected []*run.Sector) string {
	jobs := make(map[string]bool)
	for _, s := range selected {
		jobs[s.Job] = true
	}
	if len(jobs) == 1 {
		return "sector " + Sanitize(selected[0].Label()) + " only"
	}
	return countOf(len(jobs), "sector") + " only"
}

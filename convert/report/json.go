package report

import (
	"slices"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/run"
)

// JSON returns what the figures of a part of a run are as JSON: themselves, with
// the rows of the table of sectors, and with the verdict in words too.
func JSON(r *run.Run, f *figures.Figures, s figures.Scope) any {
	type verdict struct {
		figures.Verdict
		Text string `json:"text"`
	}
	v := VerdictOf(f)
	text := v.Reason
	if v.Remedy != "" {
		text += " " + v.Remedy
	}
	return struct {
		*figures.Figures
		PerSector []figures.Sector `json:"per_sector"`
		Verdict   verdict          `json:"verdict"`
	}{f, slices.AppendSeq(make([]figures.Sector, 0, f.Sectors), f.Rows(r, s)), verdict{f.Verdict, text}}
}

package report

import "github.com/provetrace/provetrace/convert/figures"

// JSON returns what a run's figures are as JSON: themselves, with the verdict
// in words too.
func JSON(f *figures.Figures) any {
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
		Verdict verdict `json:"verdict"`
	}{f, verdict{f.Verdict, text}}
}

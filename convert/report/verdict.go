package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/provetrace/provetrace/convert/figures"
)

// A Verdict says in words what limits a run, and what would help.
type Verdict struct {
	Reason string
	Remedy string // empty where none can be told
}

// VerdictOf returns the verdict of a run's figures.
func VerdictOf(f *figures.Figures) Verdict {
	v := &f.Verdict
	if v.GPU == nil {
		return Verdict{Reason: "What limits the run cannot be told: the log knows of no finished proof on a device."}
	}
	g := &f.GPUs[*v.GPU]
	name := fmt.Sprintf("GPU %d", *g.Ordinal)
	if n := len(f.GPUs); n > 1 {
		name = fmt.Sprintf("%s, the busiest of %d,", name, n)
	}
	active := percent(g.UtilizationActive)
	switch v.Bound {
	case figures.BoundGPU:
		if g.KernelUtilizationActive == nil {
			return Verdict{
				fmt.Sprintf("GPU-bound, as far as its intervals tell: %s was busy %s of its active window. Without the device's phases (CUZK_TIMING lines) the log cannot tell how much of that its kernels ran.", name, active),
				"A faster or a further GPU would help, unless CPU preparation fills the intervals.",
			}
		}
		return Verdict{
			fmt.Sprintf("GPU-bound: %s was busy %s of its active window, its kernels %s.", name, active, percent(g.KernelUtilizationActive)),
			withRemedy(f, "kernels that follow each other without a break", "beyond that, only faster kernels or a further GPU help"),
		}
	case figures.BoundWorker:
		return Verdict{
			fmt.Sprintf("The GPU workers are the limit, not the device: those of %s were busy %s of its active window, its kernels only %s. CPU preparation or the tail holds the workers.", name, active, percent(g.KernelUtilizationActive)),
			withRemedy(f, "kernels that follow each other without a break", "a second worker a device or a split finish goes that way"),
		}
	case figures.BoundUnknown:
		return Verdict{Reason: fmt.Sprintf("What limits the run cannot be told: %s was busy only %s of its active window, and the log has lost what would tell why.", name, active)}
	}
	cause := causes[v.Bound]
	_, gaps := g.IdleMS(figures.Cause(v.Bound))
	return Verdict{
		fmt.Sprintf("%s is the limit: %s was busy only %s of its active window, and idle for %s in %s %s.",
			cause.what, name, active, formatSeconds(*v.IdleMS), countOf(gaps, "gap"), cause.while),
		withRemedy(f, "no such gaps", cause.remedy),
	}
}

// causes are the words for what idle times can tell.
var causes = map[figures.Bound]struct{ what, while, remedy string }{
	figures.BoundSynthesis: {
		"Synthesis", "in which partitions were still being synthesized",
		"faster synthesis or more of it at once goes that way, as far as CPUs and memory allow",
	},
	figures.BoundHandoff: {
		"The hand-over to the GPU", "though a synthesized partition was waiting",
		"look at what a worker does between two partitions; a second worker a device hides it",
	},
	figures.BoundNoWork: {
		"The supply of work", "in which nothing was being synthesized",
		"more sectors at once go that way",
	},
}

// withRemedy says what seconds per proof a remedy would give.
func withRemedy(f *figures.Figures, with, how string) string {
	v := &f.Verdict
	now := f.SecondsPerProof.Steady
	if now == nil {
		now = f.SecondsPerProof.Overall
	}
	if v.Without == nil || *v.Saved < *now/100 {
		return capitalized(strings.TrimPrefix(how, "beyond that, ")) + "."
	}
	return fmt.Sprintf("With %s a proof would take %s instead of %s (%s less); %s.",
		with, perProof(*v.Without), perProof(*now), perProof(*v.Saved), how)
}

func capitalized(s string) string { return string(s[0]-'a'+'A') + s[1:] }

// perProof writes seconds per proof: with two decimals, and below a second with
// as many as three digits take.
func perProof(s float64) string {
	decimals := 2
	for v := math.Abs(s); v > 0 && v < 1 && decimals < 6; v *= 10 {
		decimals++
	}
	return strconv.FormatFloat(s, 'f', decimals, 64) + " s"
}

// percent writes a share, as exactly as its distance from nothing and all asks.
func percent(share *float64) string {
	switch {
	case share == nil:
		return "-"
	case *share >= 0.9995 && *share < 1: // no 100.0%
		return fmt.Sprintf("%.2f%%", 100**share)
	default:
		return fmt.Sprintf("%.1f%%", 100**share)
	}
}

func countOf(n int, thing string) string { return grouped(n) + " " + plural(n, thing, thing+"s") }

package compare

import (
	"slices"

	"github.com/provetrace/provetrace/convert/figures"
)

// A Trait is what runs should share for their figures to be comparable.
type Trait string

const (
	ProofKinds Trait = "proof kinds"
	Modes      Trait = "mode"
	Divisions  Trait = "partitions a sector"
	GPUs       Trait = "GPUs"
)

// A Work is what a set's runs do.
type Work struct {
	ProofKinds []string       // without the unknown
	Modes      []figures.Mode // without the unknown
	Partitions []int          // numbers of partitions that finished sectors have
	GPUs       []int          // numbers of devices that have proved, of runs where one has
	Bounds     []figures.Bound
}

// Work returns what a set's runs do.
func (s *Set) Work() Work {
	var w Work
	for _, f := range s.Runs {
		for _, kind := range f.ProofKinds {
			w.ProofKinds = with(w.ProofKinds, kind)
		}
		if f.Mode != "" {
			w.Modes = with(w.Modes, f.Mode)
		}
		for _, n := range f.Divisions {
			w.Partitions = with(w.Partitions, n)
		}
		gpus := 0
		for i := range f.GPUs {
			if f.GPUs[i].Proofs > 0 {
				gpus++
			}
		}
		if gpus > 0 {
			w.GPUs = with(w.GPUs, gpus)
		}
		w.Bounds = with(w.Bounds, f.Verdict.Bound)
	}
	slices.Sort(w.Partitions)
	slices.Sort(w.GPUs)
	return w
}

func with[T comparable](all []T, v T) []T {
	if slices.Contains(all, v) {
		return all
	}
	return append(all, v)
}

// Unlike returns in what a set's work differs from that of the first set, as
// far as both are known.
func (c *Comparison) Unlike(set int) []Trait {
	a, b := c.Sets[0].Work(), c.Sets[set].Work()
	var traits []Trait
	if len(a.ProofKinds) > 0 && len(b.ProofKinds) > 0 && !slices.Equal(a.ProofKinds, b.ProofKinds) {
		traits = append(traits, ProofKinds)
	}
	if len(a.Modes) > 0 && len(b.Modes) > 0 && !slices.Equal(a.Modes, b.Modes) {
		traits = append(traits, Modes)
	} else if len(a.Partitions) > 0 && len(b.Partitions) > 0 && !slices.Equal(a.Partitions, b.Partitions) {
		traits = append(traits, Divisions)
	}
	if len(a.GPUs) > 0 && len(b.GPUs) > 0 && !slices.Equal(a.GPUs, b.GPUs) {
		traits = append(traits, GPUs)
	}
	return traits
}

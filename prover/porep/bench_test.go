package porep

import (
	"fmt"
	"testing"
)

// BenchmarkSeal seals a sector of the default sizes.
func BenchmarkSeal(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (Parameters{}).Seal(b.Context(), SectorID{}, [32]byte{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNewCircuit compiles the default circuit.
func BenchmarkNewCircuit(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		c, err := NewCircuit(Parameters{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(c.System().NumConstraints()), "constraints")
	}
}

// BenchmarkSynthesis is what is done for a partition before it is proved.
func BenchmarkSynthesis(b *testing.B) {
	c, err := NewCircuit(Parameters{})
	if err != nil {
		b.Fatal(err)
	}
	s, r := c.System(), seal(b, Parameters{}, 1)
	w, err := s.Witness(b.Context(), r.PublicInputs(0), r.PrivateInputs(0))
	if err != nil {
		b.Fatal(err)
	}
	perSecond := func(b *testing.B) {
		b.ReportMetric(float64(s.NumConstraints())*float64(b.N)/b.Elapsed().Seconds(), "constraints/s")
	}
	b.Run("witness", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Witness(b.Context(), r.PublicInputs(0), r.PrivateInputs(0)); err != nil {
				b.Fatal(err)
			}
		}
		perSecond(b)
	})
	for _, tasks := range []int{1, 2} {
		b.Run(fmt.Sprintf("evaluation/tasks=%d", tasks), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, _, err := s.Evaluate(b.Context(), w, tasks); err != nil {
					b.Fatal(err)
				}
			}
			perSecond(b)
		})
	}
}

package prover_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/prover"
	"github.com/provetrace/provetrace/prover/backend/cpu"
	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/prover/r1cs"
	"github.com/provetrace/provetrace/tracing"
)

// A product is the statement that factors of numbers are known: each partition
// has two of them.
type product struct {
	sys     *r1cs.System
	vk      *groth16.VerifyingKey
	factors [][2]uint64
	wrong   int // the partition whose number is not the product, or -1
}

func (s *product) Partitions() int { return len(s.factors) }

func (s *product) public(partition int) []fr.Element {
	n := s.factors[partition][0] * s.factors[partition][1]
	if partition == s.wrong {
		n++
	}
	return []fr.Element{fr.NewElement(n)}
}

func (s *product) Synthesize(ctx context.Context, partition int, part func(string)) (*groth16.Assignment, error) {
	part(tracing.SpanWitness)
	f := s.factors[partition]
	w, err := s.sys.Witness(ctx, s.public(partition), []fr.Element{fr.NewElement(f[0]), fr.NewElement(f[1])})
	if err != nil {
		return nil, err
	}
	part(tracing.SpanConstraints)
	a, b, c, err := s.sys.Evaluate(ctx, w, 1)
	return &groth16.Assignment{Witness: w, A: a, B: b, C: c}, err
}

func (s *product) Verify(_ context.Context, proofs []groth16.Proof) error {
	var publics [][]fr.Element
	for i := range s.factors {
		publics = append(publics, s.public(i))
	}
	return groth16.VerifyBatch(s.vk, publics, proofs)
}

// TestCPU proves real statements in each mode, of which one is wrong.
func TestCPU(t *testing.T) {
	b := r1cs.NewBuilder()
	n := b.Public()
	b.Constrain(b.Private(), b.Private(), n)
	sys, err := b.Compile()
	require.NoError(t, err)
	pk, vk, err := groth16.Setup(t.Context(), sys, nil, 1)
	require.NoError(t, err)
	for _, mode := range []prover.Mode{prover.Partition, prover.Sector} {
		t.Run(mode.String(), func(t *testing.T) {
			device, spans := cpu.New(pk, cpu.Options{}), newSpans()
			rec := tracing.NewRecorder(spans, tracing.RecorderOptions{Backend: device.Name(), Devices: infos(device)})
			p := mustNew(t, prover.Options{Backend: device, Recorder: rec, Mode: mode})
			for i, wrong := range []int{-1, 2} {
				st := &product{sys: sys, vk: vk, factors: [][2]uint64{{3, 5}, {7, 11}, {13, 17}, {19, 23}}, wrong: wrong}
				proofs, err := p.Prove(t.Context(), prover.Job{ID: fmt.Sprint("porep-1000-", i), Statement: st})
				if wrong >= 0 {
					assert.Error(t, err)
					continue
				}
				require.NoError(t, err)
				for partition := range proofs {
					require.NoError(t, groth16.Verify(vk, st.public(partition), proofs[partition]))
				}
			}
			require.NoError(t, p.Close())
			rec.Close(time.Time{})
			right := spans.sectors(t)["porep-1000-0"]
			if mode == prover.Partition {
				right = right.named("partition 3")[0]
			}
			var names []string
			for _, ph := range right.named(tracing.SpanProve)[0].children[:8] {
				names = append(names, ph.Name())
			}
			want := []string{"prepare", "device wait", "ntt h", "msm h", "msm l", "msm a", "msm b_g1", "msm b_g2"}
			if mode == prover.Sector {
				want = append(want[:7], "ntt h") // of the next partition
			}
			require.Equal(t, want, names)
		})
	}
}

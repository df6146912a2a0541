package groth16

import (
	"context"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr/fft"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestMultiplierEqualsScalarMultiplication(t *testing.T) {
	_, _, g1, g2 := bls12381.Generators()
	m1 := newMultiplier[bls12381.G1Jac, bls12381.G1Affine](&g1)
	m2 := newMultiplier[bls12381.G2Jac, bls12381.G2Affine](&g2)
	rng := rand.NewChaCha8([32]byte{})
	var scalars []fr.Element
	for _, s := range []int64{0, 1, -1, 2, 255, 256, 257, 1 << 32, -256} {
		var e fr.Element
		scalars = append(scalars, *e.SetInt64(s))
	}
	for range 600 { // more than a task has
		e, err := randomElement(rng)
		require.NoError(t, err)
		scalars = append(scalars, e)
	}
	for _, tasks := range []int{1, 3} {
		g1s, err := m1.multiply(t.Context(), scalars, tasks)
		require.NoError(t, err)
		g2s, err := m2.multiply(t.Context(), scalars, tasks)
		require.NoError(t, err)
		for i, s := range scalars {
			var k big.Int
			s.BigInt(&k)
			var want1 bls12381.G1Affine
			var want2 bls12381.G2Affine
			require.Equal(t, *want1.ScalarMultiplication(&g1, &k), g1s[i], "%s·g₁", s.String())
			require.Equal(t, *want2.ScalarMultiplication(&g2, &k), g2s[i], "%s·g₂", s.String())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m1.multiply(ctx, scalars, 2)
	require.ErrorIs(t, err, context.Canceled)
}

func TestRangesCoverAllOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, tasks := rapid.IntRange(0, 100).Draw(t, "n"), rapid.IntRange(1, 120).Draw(t, "tasks")
		next, shortest, longest := 0, n, 0
		for from, to := range ranges(n, tasks) {
			require.Equal(t, next, from)
			require.Greater(t, to, from)
			shortest, longest, next = min(shortest, to-from), max(longest, to-from), to
		}
		require.Equal(t, n, next)
		require.LessOrEqual(t, longest-shortest, 1)
	})
}

// TestNTTHDivides checks h·z = a·b − c at a random point, where the polynomials
// are evaluated from their values on the roots, by Lagrange's formula.
func TestNTTHDivides(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{})
	random := func() fr.Element {
		e, err := randomElement(rng)
		require.NoError(t, err)
		return e
	}
	for logN := 1; logN <= 10; logN++ {
		for _, tasks := range []int{1, 2, 5} {
			n := 1 << logN
			domain := fft.NewDomain(uint64(n))
			var s Scalars
			for range n {
				a, b := random(), random()
				var c fr.Element
				c.Mul(&a, &b)
				s.EvaluationsA, s.EvaluationsB, s.EvaluationsC = append(s.EvaluationsA, a), append(s.EvaluationsB, b), append(s.EvaluationsC, c)
			}
			x := random()
			lagrange := fr.Vector(lagrangeAt(domain, &x))
			a, b, c := lagrange.InnerProduct(s.EvaluationsA), lagrange.InnerProduct(s.EvaluationsB), lagrange.InnerProduct(s.EvaluationsC)
			var want fr.Element
			want.Mul(&a, &b).Sub(&want, &c)

			h := s.NTTH(domain, tasks)
			require.Len(t, h, n-1)
			var got fr.Element
			for i := n - 2; i >= 0; i-- {
				got.Mul(&got, &x).Add(&got, &h[bits.Reverse64(uint64(i))>>(64-logN)])
			}
			z := zAt(&x, n)
			require.True(t, got.Mul(&got, &z).Equal(&want), "with %d roots and %d tasks", n, tasks)
		}
	}
}

func TestLagrangeSumsToOne(t *testing.T) {
	domain := fft.NewDomain(16)
	x := fr.NewElement(12345)
	values := fr.Vector(lagrangeAt(domain, &x))
	sum := values.Sum()
	require.True(t, sum.IsOne())
}

package groth16

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/big"
	"sync"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr/fft"
)

// An Assignment is a synthesized instance of a constraint system.
type Assignment struct {
	Witness []fr.Element // all variables: 1, the public ones, the private ones
	A, B, C []fr.Element // the matrices times the witness, an element a constraint
}

// Bytes is the memory that the assignment holds.
func (a *Assignment) Bytes() int64 {
	return fr.Bytes * int64(cap(a.Witness)+cap(a.A)+cap(a.B)+cap(a.C))
}

// Scalars are what the phases of a device take: the evaluations that [Scalars.NTTH]
// makes h of, and the scalars of the other MSMs, in the order of the key's points.
type Scalars struct {
	EvaluationsA, EvaluationsB, EvaluationsC []fr.Element // on the domain

	L, A, B []fr.Element // B for both B1 and B2
}

// Scalars returns what a device needs of an assignment. It copies, so that the
// assignment stays as it is.
func (pk *ProvingKey) Scalars(a *Assignment) (*Scalars, error) {
	if a == nil {
		return nil, errors.New("there is no assignment to prove: synthesize the instance first")
	}
	if len(a.Witness) != pk.Variables || len(a.A) != pk.Rows || len(a.B) != pk.Rows || len(a.C) != pk.Rows {
		return nil, fmt.Errorf("the assignment has %d variables and %d, %d and %d products, the proving key %d variables and %d constraints: use the key of the assignment's constraint system",
			len(a.Witness), len(a.A), len(a.B), len(a.C), pk.Variables, pk.Rows)
	}
	n := int(pk.Domain.Cardinality)
	evaluations := func(products []fr.Element) []fr.Element {
		e := make([]fr.Element, n)
		copy(e, products)
		return e
	}
	return &Scalars{
		EvaluationsA: evaluations(a.A), EvaluationsB: evaluations(a.B), EvaluationsC: evaluations(a.C),
		L: chosen(a.Witness, pk.ColumnsL), A: chosen(a.Witness, pk.ColumnsA), B: chosen(a.Witness, pk.ColumnsB),
	}, nil
}

// NTTH returns the scalars of [ProvingKey.H], the coefficients of h. The
// evaluations are overwritten.
//
// h = (a·b − c)/z is found on the coset g·H of the domain's roots H, where z is
// the constant gⁿ − 1 and not zero. No vector is put in the order of its indices
// on the way: the inverse transforms leave the order reversed which the forward
// ones take, and the key has its points in the order which the last one leaves.
func (s *Scalars) NTTH(domain *fft.Domain, tasks int) []fr.Element {
	opts := []fft.Option{fft.WithNbTasks(tasks)}
	coset := append(opts, fft.OnCoset())
	a, b, c := s.EvaluationsA, s.EvaluationsB, s.EvaluationsC
	for _, e := range [][]fr.Element{a, b, c} {
		domain.FFTInverse(e, fft.DIF, opts...)
		domain.FFT(e, fft.DIT, coset...)
	}

	zInverse := zAt(&domain.FrMultiplicativeGen, len(a))
	zInverse.Inverse(&zInverse)
	var wg sync.WaitGroup
	for from, to := range ranges(len(a), tasks) {
		wg.Go(func() {
			a, b, c := fr.Vector(a[from:to]), fr.Vector(b[from:to]), fr.Vector(c[from:to])
			a.Mul(a, b)
			a.Sub(a, c)
			a.ScalarMul(a, &zInverse)
		})
	}
	wg.Wait()

	domain.FFTInverse(a, fft.DIF, coset...)
	return a[:len(a)-1] // h has a degree of n − 2 at most
}

// Sums are what the MSMs over the points of a [ProvingKey] come to.
type Sums struct {
	H, L, A, B1 bls12381.G1Jac
	B2          bls12381.G2Jac
}

// Assemble makes a proof of the sums. What makes it zero-knowledge is read from
// rng, or where that is nil from crypto/rand.
func (pk *ProvingKey) Assemble(sums *Sums, rng io.Reader) (Proof, error) {
	r, err := randomElement(rng)
	if err != nil {
		return Proof{}, err
	}
	s, err := randomElement(rng)
	if err != nil {
		return Proof{}, err
	}
	var rs fr.Element
	rs.Mul(&r, &s).Neg(&rs)
	var rInt, sInt, rsInt big.Int
	r.BigInt(&rInt)
	s.BigInt(&sInt)
	rs.BigInt(&rsInt)

	var delta1, a, b1, c, t bls12381.G1Jac
	delta1.FromAffine(&pk.Delta1)

	a.ScalarMultiplication(&delta1, &rInt).AddAssign(&sums.A)
	a.AddMixed(&pk.Alpha1)

	b1.ScalarMultiplication(&delta1, &sInt).AddAssign(&sums.B1)
	b1.AddMixed(&pk.Beta1)

	var b, delta2 bls12381.G2Jac
	delta2.FromAffine(&pk.Delta2)
	b.ScalarMultiplication(&delta2, &sInt).AddAssign(&sums.B2)
	b.AddMixed(&pk.Beta2)

	c.Set(&sums.L).AddAssign(&sums.H)
	c.AddAssign(t.ScalarMultiplication(&a, &sInt))
	c.AddAssign(t.ScalarMultiplication(&b1, &rInt))
	c.AddAssign(t.ScalarMultiplication(&delta1, &rsInt))

	var p Proof
	p.A.FromJacobian(&a)
	p.B.FromJacobian(&b)
	p.C.FromJacobian(&c)
	return p, nil
}

// randomElement draws an element. 64 bytes are reduced, so that no element is
// likelier than another by more than 2⁻²⁵⁶.
func randomElement(rng io.Reader) (fr.Element, error) {
	if rng == nil {
		rng = rand.Reader
	}
	var e fr.Element
	var b [64]byte
	if _, err := io.ReadFull(rng, b[:]); err != nil {
		return e, fmt.Errorf("cannot draw a secret from the random number generator: %w", err)
	}
	e.SetBytes(b[:])
	return e, nil
}

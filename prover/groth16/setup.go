package groth16

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/bits"

	"github.com/consensys/gnark-crypto/ecc"
	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr/fft"

	"github.com/provetrace/provetrace/prover/r1cs"
)

// Setup makes development keys of a constraint system, in as many goroutines as
// there are tasks. The secrets are read from rng, or where that is nil from
// crypto/rand, and are forgotten.
func Setup(ctx context.Context, sys *r1cs.System, rng io.Reader, tasks int) (*ProvingKey, *VerifyingKey, error) {
	if tasks < 1 {
		return nil, nil, fmt.Errorf("%d tasks cannot make keys: give at least 1", tasks)
	}
	pk, err := newProvingKey(sys)
	if err != nil {
		return nil, nil, err
	}
	n := int(pk.Domain.Cardinality)
	secret, err := drawSecrets(rng, n)
	if err != nil {
		return nil, nil, err
	}
	_, _, g1, g2 := bls12381.Generators()
	m1 := newMultiplier[bls12381.G1Jac, bls12381.G1Affine](&g1)
	m2 := newMultiplier[bls12381.G2Jac, bls12381.G2Affine](&g2)

	lagrange := lagrangeAt(pk.Domain, &secret.tau)
	a, b, c := sys.Matrices()
	u := columnsAt(a, lagrange, pk.Variables)
	v := columnsAt(b, lagrange, pk.Variables)
	w := columnsAt(c, lagrange, pk.Variables)

	var gammaInverse, deltaInverse fr.Element
	gammaInverse.Inverse(&secret.gamma)
	deltaInverse.Inverse(&secret.delta)
	l := func(j uint32, divisorInverse *fr.Element) fr.Element {
		var sum, alphaV fr.Element
		sum.Mul(&secret.beta, &u[j])
		alphaV.Mul(&secret.alpha, &v[j])
		sum.Add(&sum, &alphaV).Add(&sum, &w[j])
		return *sum.Mul(&sum, divisorInverse)
	}
	public := make([]fr.Element, sys.NumPublic())
	for j := range public {
		public[j] = l(uint32(j), &gammaInverse)
	}
	private := make([]fr.Element, len(pk.ColumnsL))
	for i, j := range pk.ColumnsL {
		private[i] = l(j, &deltaInverse)
	}

	// [τⁱ·z(τ)/δ]₁, where NTTH leaves the coefficient of Xⁱ.
	h := make([]fr.Element, n)
	power := zAt(&secret.tau, n)
	power.Mul(&power, &deltaInverse)
	for i := range uint64(n) {
		h[bits.Reverse64(i)>>(64-bits.TrailingZeros(uint(n)))] = power
		power.Mul(&power, &secret.tau)
	}
	h = h[:n-1]

	vk := &VerifyingKey{System: pk.System}
	g1s, err := m1.multiply(ctx, []fr.Element{secret.alpha, secret.beta, secret.delta}, tasks)
	if err != nil {
		return nil, nil, fmt.Errorf("keys not made: %w", err)
	}
	g2s, err := m2.multiply(ctx, []fr.Element{secret.beta, secret.gamma, secret.delta}, tasks)
	if err != nil {
		return nil, nil, fmt.Errorf("keys not made: %w", err)
	}
	pk.Alpha1, pk.Beta1, pk.Delta1 = g1s[0], g1s[1], g1s[2]
	pk.Beta2, pk.Delta2 = g2s[0], g2s[2]
	vk.Alpha1, vk.Beta2, vk.Gamma2, vk.Delta2 = g1s[0], g2s[0], g2s[1], g2s[2]
	for _, part := range []struct {
		points  *[]bls12381.G1Affine
		scalars []fr.Element
	}{
		{&vk.Public, public},
		{&pk.H, h},
		{&pk.L, private},
		{&pk.A, chosen(u, pk.ColumnsA)},
		{&pk.B1, chosen(v, pk.ColumnsB)},
	} {
		if *part.points, err = m1.multiply(ctx, part.scalars, tasks); err != nil {
			return nil, nil, fmt.Errorf("keys not made: %w", err)
		}
	}
	if pk.B2, err = m2.multiply(ctx, chosen(v, pk.ColumnsB), tasks); err != nil {
		return nil, nil, fmt.Errorf("keys not made: %w", err)
	}
	return pk, vk, nil
}

// newProvingKey returns a key that has all that follows from the system.
func newProvingKey(sys *r1cs.System) (*ProvingKey, error) {
	const maxRows = 1 << 28 // the MSMs over more would not fit into memory
	rows := sys.NumConstraints()
	if rows < 1 || rows > maxRows {
		return nil, fmt.Errorf("a system of %d constraints cannot be proved: it needs 1 to %d", rows, maxRows)
	}
	pk := &ProvingKey{
		System:    sys.Hash(),
		Variables: sys.NumVariables(),
		Rows:      rows,
		Domain:    fft.NewDomain(max(2, ecc.NextPowerOfTwo(uint64(rows)))), // with one root, h would have no coefficient
	}
	const inA, inB, inC = 1, 2, 4
	occurs := make([]byte, pk.Variables)
	a, b, c := sys.Matrices()
	for _, m := range []struct {
		*r1cs.Matrix
		in byte
	}{{a, inA}, {b, inB}, {c, inC}} {
		for _, j := range m.Column {
			occurs[j] |= m.in
		}
	}
	for j, in := range occurs {
		if in != 0 && j >= sys.NumPublic() {
			pk.ColumnsL = append(pk.ColumnsL, uint32(j))
		}
		if in&inA != 0 {
			pk.ColumnsA = append(pk.ColumnsA, uint32(j))
		}
		if in&inB != 0 {
			pk.ColumnsB = append(pk.ColumnsB, uint32(j))
		}
	}
	return pk, nil
}

// secrets are what Setup forgets.
type secrets struct{ tau, alpha, beta, gamma, delta fr.Element }

// drawSecrets draws secrets of which none is zero, nor τ one of the n-th roots
// of unity.
func drawSecrets(rng io.Reader, n int) (secrets, error) {
	var s secrets
	for _, e := range []*fr.Element{&s.tau, &s.alpha, &s.beta, &s.gamma, &s.delta} {
		var err error
		if *e, err = randomElement(rng); err != nil {
			return s, err
		}
		if z := zAt(e, n); e.IsZero() || z.IsZero() {
			return s, errors.New("the random number generator gave an element that no key can be made of: take one that is not predictable")
		}
	}
	return s, nil
}

// zAt returns z(x) = xⁿ − 1.
func zAt(x *fr.Element, n int) fr.Element {
	var z fr.Element
	one := fr.One()
	z.Exp(*x, big.NewInt(int64(n)))
	return *z.Sub(&z, &one)
}

// lagrangeAt returns the values at τ of the polynomials that are 1 on one of the
// roots ωⁱ and 0 on the others: ωⁱ·z(τ)/(n·(τ − ωⁱ)).
func lagrangeAt(d *fft.Domain, tau *fr.Element) []fr.Element {
	n := int(d.Cardinality)
	values := make([]fr.Element, n)
	root := fr.One()
	for i := range values {
		values[i].Sub(tau, &root)
		root.Mul(&root, &d.Generator)
	}
	values = fr.BatchInvert(values)
	scale := zAt(tau, n)
	scale.Mul(&scale, &d.CardinalityInv)
	for i := range values {
		values[i].Mul(&values[i], &scale)
		scale.Mul(&scale, &d.Generator)
	}
	return values
}

// columnsAt returns the values of the polynomials of a matrix's columns, by
// those of the polynomials of its rows.
func columnsAt(m *r1cs.Matrix, lagrange []fr.Element, variables int) []fr.Element {
	values := make([]fr.Element, variables)
	for row := range len(m.RowStart) - 1 {
		for k := m.RowStart[row]; k < m.RowStart[row+1]; k++ {
			var t fr.Element
			t.Mul(&m.Coefficients[m.Value[k]], &lagrange[row])
			values[m.Column[k]].Add(&values[m.Column[k]], &t)
		}
	}
	return values
}

// chosen returns the values of some variables.
func chosen(values []fr.Element, columns []uint32) []fr.Element {
	c := make([]fr.Element, len(columns))
	for i, j := range columns {
		c[i] = values[j]
	}
	return c
}

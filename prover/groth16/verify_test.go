package groth16_test

import (
	"fmt"
	"slices"
	"testing"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/prover/groth16"
)

// root returns the inputs of the cubic circuit for another root.
func (c circuit) root(x uint64) circuit {
	c.public, c.private = elements(x*x*x+x+5), elements(x)
	return c
}

func TestVerifyRefusesWrongInputs(t *testing.T) {
	c := cubic(t)
	pk, vk := c.setup(t)
	proof := prove(t, pk, c.assign(t), nil)
	for _, public := range [][]fr.Element{elements(0), elements(34), elements(36), {}, elements(35, 35), nil} {
		require.Error(t, groth16.Verify(vk, public, proof), "%v", public)
	}
	require.NoError(t, groth16.Verify(vk, c.public, proof))
}

// TestVerifyRefusesWrongWitnesses changes each variable but the constant 1.
func TestVerifyRefusesWrongWitnesses(t *testing.T) {
	for _, c := range []circuit{cubic(t), chain(t, 4), noPublic(t), sparse(t)} {
		pk, vk := c.setup(t)
		right := c.assign(t)
		for j := 1; j < len(right.Witness); j++ {
			w := slices.Clone(right.Witness)
			one := fr.One()
			w[j].Add(&w[j], &one)
			wrong := c.evaluate(t, w)
			require.Error(t, groth16.Verify(vk, c.public, prove(t, pk, wrong, nil)), "%s, variable %d", c.name, j)
			require.Error(t, groth16.Verify(vk, w[1:c.system.NumPublic()], prove(t, pk, wrong, nil)), "%s, variable %d, also in the public inputs", c.name, j)
			if j < c.system.NumPublic() {
				continue // a proof may not depend on what the verifier has anyway
			}
			wrong.A, wrong.B, wrong.C = right.A, right.B, right.C
			require.Error(t, groth16.Verify(vk, c.public, prove(t, pk, wrong, nil)), "%s, variable %d, with the right products", c.name, j)
		}
	}
}

func TestVerifyRefusesMauledProofs(t *testing.T) {
	c := cubic(t)
	pk, vk := c.setup(t)
	proof, again := prove(t, pk, c.assign(t), nil), prove(t, pk, c.assign(t), nil)
	other := prove(t, pk, c.root(4).assign(t), nil)
	_, otherKey, err := groth16.Setup(t.Context(), c.system, seeded(2), 2)
	require.NoError(t, err)
	_, _, g1, g2 := bls12381.Generators()
	t1, t2 := torsion(t)
	out1, out2 := outsideG1(t), outsideG2()

	for name, maul := range map[string]func(p *groth16.Proof){
		"nothing in it":         func(p *groth16.Proof) { *p = groth16.Proof{} },
		"of another instance":   func(p *groth16.Proof) { *p = other },
		"A and C swapped":       func(p *groth16.Proof) { p.A, p.C = p.C, p.A },
		"A of another proof":    func(p *groth16.Proof) { p.A = again.A },
		"B of another proof":    func(p *groth16.Proof) { p.B = again.B },
		"C of another proof":    func(p *groth16.Proof) { p.C = again.C },
		"A negated":             func(p *groth16.Proof) { p.A.Neg(&p.A) },
		"B negated":             func(p *groth16.Proof) { p.B.Neg(&p.B) },
		"C negated":             func(p *groth16.Proof) { p.C.Neg(&p.C) },
		"A moved":               func(p *groth16.Proof) { p.A.Add(&p.A, &g1) },
		"B moved":               func(p *groth16.Proof) { p.B.Add(&p.B, &g2) },
		"C moved":               func(p *groth16.Proof) { p.C.Add(&p.C, &g1) },
		"A infinity":            func(p *groth16.Proof) { p.A.SetInfinity() },
		"B infinity":            func(p *groth16.Proof) { p.B.SetInfinity() },
		"C infinity":            func(p *groth16.Proof) { p.C.SetInfinity() },
		"α and β":               func(p *groth16.Proof) { p.A, p.B, p.C = vk.Alpha1, vk.Beta2, bls12381.G1Affine{} },
		"A outside of G1":       func(p *groth16.Proof) { p.A = out1 },
		"B outside of G2":       func(p *groth16.Proof) { p.B = out2 },
		"C outside of G1":       func(p *groth16.Proof) { p.C = out1 },
		"A moved out of G1":     func(p *groth16.Proof) { p.A.Add(&p.A, &t1) },
		"B moved out of G2":     func(p *groth16.Proof) { p.B.Add(&p.B, &t2) },
		"C moved out of G1":     func(p *groth16.Proof) { p.C.Add(&p.C, &t1) },
		"A not on the curve":    func(p *groth16.Proof) { p.A.X.Double(&p.A.X) },
		"coordinates exchanged": func(p *groth16.Proof) { p.C.X, p.C.Y = p.C.Y, p.C.X },
	} {
		mauled := proof
		maul(&mauled)
		require.Error(t, groth16.Verify(vk, c.public, mauled), name)
		require.Error(t, groth16.VerifyBatch(vk, [][]fr.Element{c.public, c.public}, []groth16.Proof{proof, mauled}), name)
	}
	require.Error(t, groth16.Verify(otherKey, c.public, proof), "another key")
	require.NoError(t, groth16.Verify(vk, c.public, proof))
}

func TestVerifyBatch(t *testing.T) {
	const n = 5
	c := cubic(t)
	pk, vk := c.setup(t)
	var publics [][]fr.Element
	var proofs []groth16.Proof
	for i := range uint64(n) {
		r := c.root(i)
		publics = append(publics, r.public)
		proofs = append(proofs, prove(t, pk, r.assign(t), nil))
	}
	require.ErrorContains(t, groth16.VerifyBatch(vk, nil, nil), "no proof")
	for k := 1; k <= n; k++ {
		require.NoError(t, groth16.VerifyBatch(vk, publics[:k], proofs[:k]), "%d proofs", k)
	}
	require.ErrorContains(t, groth16.VerifyBatch(vk, publics, proofs[1:]), "4 proofs")

	_, _, g1, _ := bls12381.Generators()
	for i := range n {
		bad := slices.Clone(proofs)
		bad[i].C.Add(&bad[i].C, &g1)
		require.ErrorContains(t, groth16.VerifyBatch(vk, publics, bad), fmt.Sprintf("proof %d of 5", i))

		// Such that the plain product of the equations still holds.
		j := (i + 1) % n
		bad[j].C.Sub(&bad[j].C, &g1)
		require.ErrorContains(t, groth16.VerifyBatch(vk, publics, bad), fmt.Sprintf("proof %d of 5", min(i, j)))

		wrong := slices.Clone(publics)
		wrong[i], wrong[j] = wrong[j], wrong[i]
		require.Error(t, groth16.VerifyBatch(vk, wrong, proofs), "public inputs exchanged")
		wrong = slices.Clone(publics)
		wrong[i] = nil
		require.ErrorContains(t, groth16.VerifyBatch(vk, wrong, proofs), fmt.Sprintf("proof %d of 5", i))
	}
}

// torsion returns points of the curves whose orders divide the cofactors, so
// that a subgroup check alone tells a point from what it is moved to by them.
func torsion(t testing.TB) (bls12381.G1Affine, bls12381.G2Affine) {
	out1, out2 := outsideG1(t), outsideG2()
	// The package's scalar multiplication is right in the subgroups only.
	var sum1 bls12381.G1Jac
	var sum2 bls12381.G2Jac
	order := fr.Modulus()
	for bit := order.BitLen() - 1; bit >= 0; bit-- {
		sum1.DoubleAssign()
		sum2.DoubleAssign()
		if order.Bit(bit) == 1 {
			sum1.AddMixed(&out1)
			sum2.AddMixed(&out2)
		}
	}
	var t1 bls12381.G1Affine
	var t2 bls12381.G2Affine
	t1.FromJacobian(&sum1)
	t2.FromJacobian(&sum2)
	require.True(t, t1.IsOnCurve() && !t1.IsInSubGroup(), "a point of G1's cofactor")
	require.True(t, t2.IsOnCurve() && !t2.IsInSubGroup(), "a point of G2's cofactor")
	return t1, t2
}

package groth16

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"

	"github.com/consensys/gnark-crypto/ecc"
	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// Verify returns an error unless the proof is one of the public inputs, the
// constant 1 not among them. From a right proof anyone can make others that are
// right for the same inputs, so that a proof's bytes do not identify it.
func Verify(vk *VerifyingKey, public []fr.Element, proof Proof) error {
	return verify(vk, [][]fr.Element{public}, []Proof{proof}, []fr.Element{fr.One()})
}

// VerifyBatch is Verify of several proofs, each with its public inputs, in less
// time. The error names the first proof that is wrong.
//
// It checks the product of the proofs' equations, each raised to a random number
// of 128 bits, so that wrong proofs pass with a probability of at most 2⁻¹²⁸.
func VerifyBatch(vk *VerifyingKey, publics [][]fr.Element, proofs []Proof) error {
	if len(publics) != len(proofs) {
		return fmt.Errorf("%d proofs cannot be verified with the public inputs of %d: give as many of both", len(proofs), len(publics))
	}
	if len(proofs) == 0 {
		return errors.New("there is no proof to verify: give at least one")
	}
	exponents := make([]fr.Element, len(proofs))
	for i := range exponents {
		var b [16]byte
		rand.Read(b[:]) // it does not fail
		exponents[i].SetBytes(b[:])
	}
	if verify(vk, publics, proofs, exponents) == nil {
		return nil
	}
	for i := range proofs {
		if err := Verify(vk, publics[i], proofs[i]); err != nil {
			return fmt.Errorf("proof %d of %d: %w", i, len(proofs), err)
		}
	}
	return errors.New("the proofs are right one by one but not together: report this fault of the verification")
}

// verify checks that the product of e(−A, B)·e(α, β)·e(P, γ)·e(C, δ) over the
// proofs, each raised to its exponent, is 1.
func verify(vk *VerifyingKey, publics [][]fr.Element, proofs []Proof, exponents []fr.Element) error {
	g1 := make([]bls12381.G1Affine, len(proofs), len(proofs)+3)
	g2 := make([]bls12381.G2Affine, len(proofs), len(proofs)+3)
	inputs := make([]fr.Element, len(vk.Public)) // the sum of all, the constant 1 first
	var cs bls12381.G1Jac
	for i := range proofs {
		p, public := &proofs[i], publics[i]
		if len(public) != len(vk.Public)-1 {
			return fmt.Errorf("a proof of %d public inputs cannot be verified: the verifying key is for %d", len(public), len(vk.Public)-1)
		}
		if !p.A.IsInSubGroup() || !p.B.IsInSubGroup() || !p.C.IsInSubGroup() {
			return errors.New("the proof is wrong: it has a point outside of its group")
		}
		x := &exponents[i]
		inputs[0].Add(&inputs[0], x)
		for j := range public {
			var t fr.Element
			inputs[j+1].Add(&inputs[j+1], t.Mul(x, &public[j]))
		}
		var exponent big.Int
		x.BigInt(&exponent)
		var c bls12381.G1Affine
		cs.AddMixed(c.ScalarMultiplication(&p.C, &exponent))
		g1[i].ScalarMultiplication(&p.A, &exponent)
		g1[i].Neg(&g1[i])
		g2[i] = p.B
	}
	var alpha, public, c bls12381.G1Affine
	var exponent big.Int
	alpha.ScalarMultiplication(&vk.Alpha1, inputs[0].BigInt(&exponent))
	if _, err := public.MultiExp(vk.Public, inputs, ecc.MultiExpConfig{NbTasks: 1}); err != nil {
		return fmt.Errorf("cannot add up the public inputs of a proof: %w", err)
	}
	c.FromJacobian(&cs)
	right, err := bls12381.PairingCheck(append(g1, alpha, public, c), append(g2, vk.Beta2, vk.Gamma2, vk.Delta2))
	if err != nil {
		return fmt.Errorf("cannot pair the points of a proof: %w", err)
	}
	if !right {
		return errors.New("the proof is wrong: it is not one of these public inputs under this verifying key")
	}
	return nil
}

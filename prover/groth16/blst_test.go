//go:build cgo

package groth16_test

import (
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/stretchr/testify/require"
	blst "github.com/supranational/blst/bindings/go"

	"github.com/provetrace/provetrace/prover/groth16"
)

// TestProofsHoldInBlst verifies with a second implementation of the curves and
// the pairing, which gets the bytes of proofs and the points of verifying keys.
func TestProofsHoldInBlst(t *testing.T) {
	for _, c := range circuits(t) {
		t.Run(c.name, func(t *testing.T) {
			pk, vk := c.setup(t)
			proof := prove(t, pk, c.assign(t), nil)
			require.True(t, verifyInBlst(t, vk, c.public, proof))

			for i := range c.public {
				wrong := append([]fr.Element(nil), c.public...)
				wrong[i].Double(&wrong[i])
				require.False(t, verifyInBlst(t, vk, wrong, proof))
				require.Error(t, groth16.Verify(vk, wrong, proof))
			}
			proof.C.Neg(&proof.C)
			require.False(t, verifyInBlst(t, vk, c.public, proof))
		})
	}
}

// verifyInBlst checks e(A, B) = e(α, β)·e(P, γ)·e(C, δ).
func verifyInBlst(t *testing.T, vk *groth16.VerifyingKey, public []fr.Element, proof groth16.Proof) bool {
	t.Helper()
	data, err := proof.MarshalBinary()
	require.NoError(t, err)
	a := new(blst.P1Affine).Uncompress(data[:48])
	b := new(blst.P2Affine).Uncompress(data[48:144])
	c := new(blst.P1Affine).Uncompress(data[144:])
	require.True(t, a != nil && b != nil && c != nil, "a proof that blst does not read")
	require.True(t, a.InG1() && b.InG2() && c.InG1())
	require.Equal(t, data, append(append(a.Compress(), b.Compress()...), c.Compress()...))

	g1 := func(raw [96]byte) *blst.P1Affine {
		p := new(blst.P1Affine).Deserialize(raw[:])
		require.True(t, p != nil && p.InG1())
		return p
	}
	g2 := func(raw [192]byte) *blst.P2Affine {
		p := new(blst.P2Affine).Deserialize(raw[:])
		require.True(t, p != nil && p.InG2())
		return p
	}
	var inputs blst.P1
	inputs.FromAffine(g1(vk.Public[0].RawBytes()))
	for i := range public {
		var p blst.P1
		p.FromAffine(g1(vk.Public[i+1].RawBytes()))
		scalar := public[i].Bytes()
		inputs.AddAssign(p.Mult(new(blst.Scalar).FromBEndian(scalar[:])))
	}
	right := blst.Fp12MillerLoop(g2(vk.Beta2.RawBytes()), g1(vk.Alpha1.RawBytes()))
	right.MulAssign(blst.Fp12MillerLoop(g2(vk.Gamma2.RawBytes()), inputs.ToAffine()))
	right.MulAssign(blst.Fp12MillerLoop(g2(vk.Delta2.RawBytes()), c))
	return blst.Fp12FinalVerify(blst.Fp12MillerLoop(b, a), right)
}

package groth16_test

import (
	"encoding/hex"
	"strings"
	"testing"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/prover/groth16"
)

// The generators and the point at infinity, compressed, as
// https://datatracker.ietf.org/doc/draft-irtf-cfrg-pairing-friendly-curves/ has
// them in the coordinates of its section 4.2.1 and the format of its appendix C.
const (
	g1Hex        = "97f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb"
	g2Hex        = "93e02b6052719f607dacd3a088274f65596bd0d09920b61ab5da61bbdc7f5049334cf11213945d57e5ac7d055d042b7e024aa2b2f08f0a91260805272dc51051c6e47ad4fa403b02b4510b647ae3d1770bac0326a805bbefd48056c8c121bdb8"
	infinity1Hex = "c00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
	infinity2Hex = infinity1Hex + "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
)

func TestProofOfPublishedPoints(t *testing.T) {
	_, _, g1, g2 := bls12381.Generators()
	var minus1 bls12381.G1Affine
	var minus2 bls12381.G2Affine
	minus1.Neg(&g1)
	minus2.Neg(&g2)
	negated := func(s string) string { return "b" + s[1:] } // the bit of the larger y
	for _, x := range []struct {
		name  string
		proof groth16.Proof
		hex   string
	}{
		{"generators", groth16.Proof{A: g1, B: g2, C: g1}, g1Hex + g2Hex + g1Hex},
		{"negated", groth16.Proof{A: minus1, B: minus2, C: g1}, negated(g1Hex) + negated(g2Hex) + g1Hex},
		{"infinity", groth16.Proof{}, infinity1Hex + infinity2Hex + infinity1Hex},
		{"infinity in C", groth16.Proof{A: g1, B: g2}, g1Hex + g2Hex + infinity1Hex},
	} {
		t.Run(x.name, func(t *testing.T) {
			data, err := x.proof.MarshalBinary()
			require.NoError(t, err)
			require.Len(t, data, groth16.ProofSize)
			require.Equal(t, x.hex, hex.EncodeToString(data))
			var back groth16.Proof
			require.NoError(t, back.UnmarshalBinary(data))
			require.Equal(t, x.proof, back)
		})
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	c := hex.EncodeToString
	outside1, outside2 := outsideG1(t), outsideG2()
	o1, o2 := outside1.Bytes(), outside2.Bytes()
	uncompressed := "17" + g1Hex[2:] // the generator's x without its bits
	modulus := fp.Modulus().FillBytes(make([]byte, fp.Bytes))
	modulus[0] |= 0x80
	for _, x := range []struct{ name, hex, says string }{
		{"empty", "", "192 bytes, not 0"},
		{"short", g1Hex + g2Hex + g1Hex[2:], "192 bytes, not 191"},
		{"long", g1Hex + g2Hex + g1Hex + "00", "192 bytes, not 193"},
		{"zeros", strings.Repeat("00", groth16.ProofSize), "the proof's A"},
		{"ones", strings.Repeat("ff", groth16.ProofSize), "the proof's A"},
		{"A uncompressed", uncompressed + g2Hex + g1Hex, "the proof's A"},
		{"B uncompressed", g1Hex + "13" + g2Hex[2:] + g1Hex, "the proof's B"},
		{"C uncompressed", g1Hex + g2Hex + uncompressed, "the proof's C"},
		{"A outside of G1", c(o1[:]) + g2Hex + g1Hex, "subgroup"},
		{"B outside of G2", g1Hex + c(o2[:]) + g1Hex, "subgroup"},
		{"C outside of G1", g1Hex + g2Hex + c(o1[:]), "subgroup"},
		{"x not below p", c(modulus) + g2Hex + g1Hex, "the proof's A"},
		{"x not on the curve", "80" + strings.Repeat("00", 46) + "01" + g2Hex + g1Hex, "square root"},
		{"infinity with more", infinity1Hex[:94] + "01" + g2Hex + g1Hex, "infinity"},
		{"infinity with a sign", "e0" + infinity1Hex[2:] + g2Hex + g1Hex, "the proof's A"},
	} {
		t.Run(x.name, func(t *testing.T) {
			data, err := hex.DecodeString(x.hex)
			require.NoError(t, err)
			_, _, g1, _ := bls12381.Generators()
			p := groth16.Proof{A: g1}
			require.ErrorContains(t, p.UnmarshalBinary(data), x.says)
			require.Equal(t, groth16.Proof{A: g1}, p, "the proof that was not read")
		})
	}
}

// FuzzProof reads any bytes: what is a proof has no other encoding.
func FuzzProof(f *testing.F) {
	for _, s := range []string{g1Hex + g2Hex + g1Hex, infinity1Hex + infinity2Hex + infinity1Hex, ""} {
		data, err := hex.DecodeString(s)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p groth16.Proof
		if p.UnmarshalBinary(data) != nil {
			return
		}
		require.True(t, p.A.IsInSubGroup() && p.B.IsInSubGroup() && p.C.IsInSubGroup())
		back, err := p.MarshalBinary()
		require.NoError(t, err)
		require.Equal(t, data, back)
	})
}

// outsideG1 returns a point of the curve that is not in G1.
func outsideG1(t testing.TB) bls12381.G1Affine {
	for i := range uint64(100) {
		x := fp.NewElement(i)
		var y fp.Element
		y.Square(&x).Mul(&y, &x).Add(&y, new(fp.Element).SetUint64(4)) // y² = x³ + 4
		if y.Sqrt(&y) == nil {
			continue
		}
		if p := (bls12381.G1Affine{X: x, Y: y}); !p.IsInSubGroup() {
			return p
		}
	}
	t.Fatal("every point is in G1")
	return bls12381.G1Affine{}
}

// outsideG2 returns a point of the curve that is not in G2.
func outsideG2() bls12381.G2Affine {
	var one bls12381.E2
	one.SetOne()
	p := bls12381.GeneratePointNotInG2(one)
	var a bls12381.G2Affine
	return *a.FromJacobian(&p)
}

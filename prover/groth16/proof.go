package groth16

import (
	"fmt"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
)

// ProofSize is the size of a proof in bytes.
const ProofSize = 2*bls12381.SizeOfG1AffineCompressed + bls12381.SizeOfG2AffineCompressed

// A Proof is a proof of one instance.
type Proof struct {
	A bls12381.G1Affine
	B bls12381.G2Affine
	C bls12381.G1Affine
}

// MarshalBinary returns the proof's [ProofSize] bytes: A, B and C, compressed
// as in the appendix "ZCash serialization format for BLS12_381" of
// https://datatracker.ietf.org/doc/draft-irtf-cfrg-pairing-friendly-curves/.
func (p Proof) MarshalBinary() ([]byte, error) {
	a, b, c := p.A.Bytes(), p.B.Bytes(), p.C.Bytes()
	data := make([]byte, 0, ProofSize)
	data = append(data, a[:]...)
	data = append(data, b[:]...)
	return append(data, c[:]...), nil
}

// UnmarshalBinary reads what MarshalBinary writes. Points that are not in the
// subgroups of prime order, or not in their only encoding, are errors.
func (p *Proof) UnmarshalBinary(data []byte) error {
	if len(data) != ProofSize {
		return fmt.Errorf("a proof has %d bytes, not %d", ProofSize, len(data))
	}
	const (
		endA = bls12381.SizeOfG1AffineCompressed
		endB = endA + bls12381.SizeOfG2AffineCompressed
	)
	// The parts are as short as compressed points are, so that others are refused.
	var q Proof
	if _, err := q.A.SetBytes(data[:endA]); err != nil {
		return fmt.Errorf("the proof's A is not a compressed point of G1: %w", err)
	}
	if _, err := q.B.SetBytes(data[endA:endB]); err != nil {
		return fmt.Errorf("the proof's B is not a compressed point of G2: %w", err)
	}
	if _, err := q.C.SetBytes(data[endB:]); err != nil {
		return fmt.Errorf("the proof's C is not a compressed point of G1: %w", err)
	}
	*p = q
	return nil
}

package groth16

import (
	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr/fft"
)

// A ProvingKey is what a device proves with: a development key, made by [Setup].
//
// The MSMs have a point only for variables that their sum can depend on:
// ColumnsL, ColumnsA and ColumnsB say which those are, and [ProvingKey.Scalars]
// chooses their values.
type ProvingKey struct {
	System    [32]byte // hash of the constraint system
	Variables int
	Domain    *fft.Domain // the n-th roots of unity
	Rows      int         // constraints

	Alpha1, Beta1, Delta1 bls12381.G1Affine // [α]₁, [β]₁, [δ]₁
	Beta2, Delta2         bls12381.G2Affine // [β]₂, [δ]₂

	H  []bls12381.G1Affine // [τⁱ·z(τ)/δ]₁ for i up to n − 2, at i's bits in reverse
	L  []bls12381.G1Affine // [lⱼ/δ]₁ for ColumnsL, all private
	A  []bls12381.G1Affine // [uⱼ(τ)]₁ for ColumnsA
	B1 []bls12381.G1Affine // [vⱼ(τ)]₁ for ColumnsB
	B2 []bls12381.G2Affine // [vⱼ(τ)]₂ for ColumnsB

	ColumnsL, ColumnsA, ColumnsB []uint32 // indices of variables
}

// A VerifyingKey is what a verifier checks proofs with: a development key, made
// by [Setup].
type VerifyingKey struct {
	System [32]byte // hash of the constraint system

	Alpha1                bls12381.G1Affine // [α]₁
	Beta2, Gamma2, Delta2 bls12381.G2Affine // [β]₂, [γ]₂, [δ]₂

	Public []bls12381.G1Affine // [lⱼ/γ]₁ for the constant 1 and the public inputs
}

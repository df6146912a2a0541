// Package groth16 is the proof system of Groth, "On the Size of Pairing-based
// Non-interactive Arguments" (https://eprint.iacr.org/2016/260, section 3.2),
// over BLS12-381, divided into the parts that a proving pipeline gives to
// different workers and devices.
//
// [Setup] makes the keys of a constraint system. A proof goes from the
// [Assignment] that synthesis makes of one instance, through the [Scalars] and
// the [Sums] that a device takes of them over the [ProvingKey], to the [Proof],
// which [Verify] and [VerifyBatch] check with the [VerifyingKey].
//
// # What is computed
//
// The n-th roots of unity, n a power of two, stand for a system's constraints.
// With the variables x = (1, public, private), and the polynomials uⱼ, vⱼ and wⱼ
// that take the values of column j of the matrices A, B and C on these roots,
// the constraints hold if z(X) = Xⁿ − 1 divides Σxⱼuⱼ · Σxⱼvⱼ − Σxⱼwⱼ; the
// quotient is h. Setup draws τ, α, β, γ and δ. With [y]₁ and [y]₂ for y times a
// generator, lⱼ = β·uⱼ(τ) + α·vⱼ(τ) + wⱼ(τ), and r and s drawn for each proof:
//
//	A = [α + Σ xⱼ·uⱼ(τ) + r·δ]₁                       msm a
//	B = [β + Σ xⱼ·vⱼ(τ) + s·δ]₂                       msm b_g2
//	C = [Σ xⱼ·lⱼ/δ]₁, over the private variables      msm l
//	  + [h(τ)·z(τ)/δ]₁                                ntt h, msm h
//	  + s·A + r·[β + Σ xⱼ·vⱼ(τ) + s·δ]₁ − [r·s·δ]₁    msm b_g1
//
// A proof is right if e(A, B) = e([α]₁, [β]₂) · e(P, [γ]₂) · e(C, [δ]₂), where
// P = [Σ xⱼ·lⱼ/γ]₁ over the constant 1 and the public inputs.
//
// # Development keys
//
// Whoever knows what Setup draws can prove anything, and here one process draws
// all of it. It forgets it, but nobody else can know that it did. Such keys
// show how long proving takes; they prove nothing to others. The keys' types and
// the head of their files call them development keys for that reason.
package groth16

// Package r1cs makes rank-1 constraint systems over the scalar field of
// BLS12-381. What goes in is a circuit, written once with a Builder; what comes
// out is a System, which every instance shares and which does the two parts of
// a synthesis: Witness computes the values of all variables from an instance's
// inputs, Evaluate the vectors a = A·w, b = B·w and c = C·w of which a prover
// shows that a∘b = c.
//
// The variables are numbered as Groth16 wants them (Groth, "On the Size of
// Pairing-based Non-interactive Arguments", EUROCRYPT 2016): the constant 1,
// the public inputs, the private inputs, then what the circuit computes.
package r1cs

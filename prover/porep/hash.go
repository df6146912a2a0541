package porep

import (
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr/poseidon2"

	"github.com/provetrace/provetrace/prover/r1cs"
)

var permutation = poseidon2.NewDefaultPermutation()

// compress hashes two values: P(l, r)₁ + r, as poseidon2's Compress.
func compress(l, r *fr.Element) fr.Element {
	state := [2]fr.Element{*l, *r}
	if err := permutation.Permutation(state[:]); err != nil {
		panic(err) // the default permutation has width 2
	}
	return *state[1].Add(&state[1], r)
}

// The uses of a chain.
const (
	labelChain = iota + 1
	columnChain
)

// initial is where a chain over n values begins.
func initial(use, n int) fr.Element { return fr.NewElement(uint64(use)<<32 | uint64(n)) }

// chain hashes any number of values.
func chain(use int, values []fr.Element) fr.Element {
	state := initial(use, len(values))
	for i := range values {
		state = compress(&state, &values[i])
	}
	return state
}

// compressGadget is compress in a circuit.
func compressGadget(b *r1cs.Builder, l, r r1cs.Linear) r1cs.Linear {
	_, out := permutationGadget(b, l, r)
	return out.Add(r)
}

// chainGadget is chain in a circuit.
func chainGadget(b *r1cs.Builder, use int, values []r1cs.Linear) r1cs.Linear {
	state := r1cs.Constant(initial(use, len(values)))
	for _, v := range values {
		state = compressGadget(b, state, v)
	}
	return state
}

// rewriteInterval is how many partial rounds the lane that has no S-box goes
// on as a linear combination, one term longer with each, until it is made a
// variable: a constraint more, against shorter rows in all.
const rewriteInterval = 8

// permutationGadget is Poseidon2 at width 2 in a circuit, round by round as in
// the paper, sections 5 and 6.
func permutationGadget(b *r1cs.Builder, x, y r1cs.Linear) (r1cs.Linear, r1cs.Linear) {
	params := poseidon2.GetDefaultParameters()
	key := func(round, lane int) r1cs.Linear { return r1cs.Constant(params.RoundKeys[round][lane]) }
	external := func() { // circ(2, 1)
		sum := x.Add(y)
		x, y = x.Add(sum), y.Add(sum)
	}
	full := func(round int) {
		x = powerGadget(b, x.Add(key(round, 0)))
		y = powerGadget(b, y.Add(key(round, 1)))
		external()
	}
	external()
	half := params.NbFullRounds / 2
	for round := range half {
		full(round)
	}
	for i := range params.NbPartialRounds {
		x = powerGadget(b, x.Add(key(half+i, 0)))
		sum := x.Add(y) // times [[2, 1], [1, 3]]
		x, y = x.Add(sum), y.Add(y).Add(sum)
		if (i+1)%rewriteInterval == 0 {
			y = b.Variable(y)
		}
	}
	for round := half + params.NbPartialRounds; round < params.NbFullRounds+params.NbPartialRounds; round++ {
		full(round)
	}
	return x, y
}

// powerGadget is the S-box x⁵.
func powerGadget(b *r1cs.Builder, x r1cs.Linear) r1cs.Linear {
	square := b.Mul(x, x)
	return b.Mul(b.Mul(square, square), x)
}

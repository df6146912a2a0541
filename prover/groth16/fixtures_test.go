package groth16_test

import (
	"io"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/prover/r1cs"
)

// A circuit is a constraint system with inputs that satisfy it.
type circuit struct {
	name            string
	system          *r1cs.System
	public, private []fr.Element
}

// circuits are the systems of the tests. Between them they have columns that are
// in one, some and no matrix, no public input, and a domain that is full.
func circuits(t testing.TB) []circuit {
	return []circuit{cubic(t), chain(t, 1), chain(t, 4), chain(t, 1<<12), noPublic(t), sparse(t)}
}

// cubic shows that a root of x³ + x + 5 = y is known, for y = 35.
func cubic(t testing.TB) circuit {
	b := r1cs.NewBuilder()
	y, x := b.Public(), b.Private()
	b.AssertEqual(b.Mul(b.Mul(x, x), x).Add(x).Add(r1cs.Constant(fr.NewElement(5))), y)
	return compile(t, "cubic", b, elements(35), elements(3))
}

// chain shows that y is a private x squared n times.
func chain(t testing.TB, n int) circuit {
	b := r1cs.NewBuilder()
	y, x := b.Public(), b.Private()
	power, value := x, fr.NewElement(3)
	for range n - 1 {
		power = b.Mul(power, power)
		value.Square(&value)
	}
	b.Constrain(power, power, y)
	value.Square(&value)
	return compile(t, "chain of "+strconv.Itoa(n), b, []fr.Element{value}, elements(3))
}

// noPublic shows that factors of 15 are known.
func noPublic(t testing.TB) circuit {
	b := r1cs.NewBuilder()
	b.Constrain(b.Private(), b.Private(), r1cs.Constant(fr.NewElement(15)))
	return compile(t, "no public input", b, nil, elements(3, 5))
}

// sparse has variables that are in A, in B or in C only, and the constant 1 in
// none.
func sparse(t testing.TB) circuit {
	b := r1cs.NewBuilder()
	p, q := b.Public(), b.Public()
	x, y, z := b.Private(), b.Private(), b.Private()
	b.Constrain(x, y, z)
	b.Constrain(x, p, q)
	return compile(t, "sparse", b, elements(1, 4), elements(4, 3, 12))
}

func compile(t testing.TB, name string, b *r1cs.Builder, public, private []fr.Element) circuit {
	t.Helper()
	sys, err := b.Compile()
	require.NoError(t, err)
	return circuit{name, sys, public, private}
}

// assign synthesizes the circuit's instance.
func (c circuit) assign(t testing.TB) *groth16.Assignment {
	t.Helper()
	w, err := c.system.Witness(t.Context(), c.public, c.private)
	require.NoError(t, err)
	require.NoError(t, c.system.Check(w))
	return c.evaluate(t, w)
}

// evaluate makes an assignment of any variables.
func (c circuit) evaluate(t testing.TB, w []fr.Element) *groth16.Assignment {
	t.Helper()
	a, b, cw, err := c.system.Evaluate(t.Context(), w, 2)
	require.NoError(t, err)
	return &groth16.Assignment{Witness: w, A: a, B: b, C: cw}
}

// setup makes keys, the same at each call.
func (c circuit) setup(t testing.TB) (*groth16.ProvingKey, *groth16.VerifyingKey) {
	t.Helper()
	pk, vk, err := groth16.Setup(t.Context(), c.system, seeded(1), 2)
	require.NoError(t, err)
	return pk, vk
}

// prove makes a proof of an assignment, right or wrong.
func prove(t testing.TB, pk *groth16.ProvingKey, a *groth16.Assignment, rng io.Reader) groth16.Proof {
	t.Helper()
	s, err := pk.Scalars(a)
	require.NoError(t, err)
	var sums groth16.Sums
	config := ecc.MultiExpConfig{NbTasks: 2}
	for _, err := range []error{
		second(sums.H.MultiExp(pk.H, s.NTTH(pk.Domain, 2), config)),
		second(sums.L.MultiExp(pk.L, s.L, config)),
		second(sums.A.MultiExp(pk.A, s.A, config)),
		second(sums.B1.MultiExp(pk.B1, s.B, config)),
		second(sums.B2.MultiExp(pk.B2, s.B, config)),
	} {
		require.NoError(t, err)
	}
	p, err := pk.Assemble(&sums, rng)
	require.NoError(t, err)
	return p
}

func second[T any](_ T, err error) error { return err }

// seeded returns what is random but the same for the same seed.
func seeded(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

func elements(values ...uint64) []fr.Element {
	e := make([]fr.Element, len(values))
	for i, v := range values {
		e[i].SetUint64(v)
	}
	return e
}

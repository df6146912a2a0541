package groth16_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/provetrace/provetrace/prover/groth16"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSetupDependsOnSecretsOnly(t *testing.T) {
	c := chain(t, 4)
	pk, vk, err := groth16.Setup(t.Context(), c.system, seeded(1), 1)
	require.NoError(t, err)
	samePK, sameVK, err := groth16.Setup(t.Context(), c.system, seeded(1), 7)
	require.NoError(t, err)
	require.Equal(t, pk, samePK)
	require.Equal(t, vk, sameVK)
	for _, rng := range []io.Reader{seeded(2), nil} {
		_, other, err := groth16.Setup(t.Context(), c.system, rng, 1)
		require.NoError(t, err)
		require.NotEqual(t, vk.Alpha1, other.Alpha1)
	}
}

// TestKeysHaveNoEmptyColumns looks at what of the circuit's variables the MSMs
// take.
func TestKeysHaveNoEmptyColumns(t *testing.T) {
	pk, vk := sparse(t).setup(t) // 1, p, q, x, y, z with x·y = z and x·p = q
	require.Equal(t, []uint32{3}, pk.ColumnsA)
	require.Equal(t, []uint32{1, 4}, pk.ColumnsB)
	require.Equal(t, []uint32{3, 4, 5}, pk.ColumnsL)
	require.Len(t, pk.H, 1)
	require.Len(t, pk.L, 3)
	require.Len(t, pk.A, 1)
	require.Len(t, pk.B1, 2)
	require.Len(t, pk.B2, 2)
	require.Len(t, vk.Public, 3)
	require.True(t, vk.Public[0].IsInfinity(), "the constant 1, which is in no constraint")
}

func TestSetupRefuses(t *testing.T) {
	c := cubic(t)
	failure := errors.New("no entropy")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, x := range []struct {
		name  string
		ctx   context.Context
		rng   io.Reader
		tasks int
		says  string
	}{
		{"no tasks", t.Context(), nil, 0, "0 tasks"},
		{"fewer than no tasks", t.Context(), nil, -1, "-1 tasks"},
		{"failing source", t.Context(), iotest.ErrReader(failure), 1, failure.Error()},
		{"short source", t.Context(), io.LimitReader(seeded(1), 100), 1, "unexpected EOF"},
		{"zeros", t.Context(), bytes.NewReader(make([]byte, 1000)), 1, "not predictable"},
		{"a root of unity", t.Context(), bytes.NewReader(append(make([]byte, 63), 1)), 1, "not predictable"},
		{"ended", ended, nil, 1, context.Canceled.Error()},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, _, err := groth16.Setup(x.ctx, c.system, x.rng, x.tasks)
			require.ErrorContains(t, err, x.says)
		})
	}
	_, _, err := groth16.Setup(ended, c.system, nil, 1)
	require.ErrorIs(t, err, context.Canceled)
}

func TestAssembleRefusesAFailingSource(t *testing.T) {
	pk, _ := cubic(t).setup(t)
	for _, n := range []int64{0, 64, 100} { // before r, before s, in s
		_, err := pk.Assemble(new(groth16.Sums), io.LimitReader(seeded(1), n))
		require.ErrorContains(t, err, "random number generator")
	}
}

func TestScalarsRefuse(t *testing.T) {
	c := cubic(t)
	pk, _ := c.setup(t)
	for name, change := range map[string]func(a *groth16.Assignment){
		"a variable less":   func(a *groth16.Assignment) { a.Witness = a.Witness[1:] },
		"a variable more":   func(a *groth16.Assignment) { a.Witness = append(a.Witness, fr.One()) },
		"a product of A":    func(a *groth16.Assignment) { a.A = a.A[1:] },
		"a product of B":    func(a *groth16.Assignment) { a.B = nil },
		"more products":     func(a *groth16.Assignment) { a.C = append(a.C, fr.One()) },
		"nothing":           func(a *groth16.Assignment) { *a = groth16.Assignment{} },
		"of another system": func(a *groth16.Assignment) { *a = *chain(t, 4).assign(t) },
	} {
		a := c.assign(t)
		change(a)
		_, err := pk.Scalars(a)
		require.ErrorContains(t, err, "constraint system", name)
	}
	_, err := pk.Scalars(nil)
	require.ErrorContains(t, err, "synthesize")
}

func TestAssignmentBytes(t *testing.T) {
	require.Zero(t, new(groth16.Assignment).Bytes())
	a := &groth16.Assignment{Witness: make([]fr.Element, 3), A: make([]fr.Element, 2), B: make([]fr.Element, 2), C: make([]fr.Element, 2, 4)}
	require.EqualValues(t, 32*(3+2+2+4), a.Bytes())
}

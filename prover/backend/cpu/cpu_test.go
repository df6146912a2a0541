package cpu_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/provetrace/provetrace/prover/backend"
	"github.com/provetrace/provetrace/prover/backend/cpu"
	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/prover/r1cs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A phase is one that the device told.
type phase struct {
	name       string
	start, end time.Time
}

// phases takes those of a proof.
type phases []phase

func (p *phases) take(name string, start, end time.Time) { *p = append(*p, phase{name, start, end}) }

func (p phases) names() []string {
	var names []string
	for _, x := range p {
		names = append(names, x.name)
	}
	return names
}

func TestProve(t *testing.T) {
	sys, public, private := chain(t, 300)
	pk, vk, err := groth16.Setup(t.Context(), sys, nil, 2)
	require.NoError(t, err)
	a := assign(t, sys, public, private)
	untouched := &groth16.Assignment{Witness: slices.Clone(a.Witness), A: slices.Clone(a.A), B: slices.Clone(a.B), C: slices.Clone(a.C)}
	for _, tasks := range []int{-1, 0, 1, 3, 512, 1 << 20} {
		b := cpu.New(pk, cpu.Options{Tasks: tasks})
		require.Equal(t, "cpu", b.Name())
		require.Len(t, b.Devices(), 1)
		device := b.Devices()[0]
		require.Equal(t, "cpu", device.Info().Name)
		require.Zero(t, device.Info().Ordinal)

		before := time.Now()
		p, err := device.Prepare(t.Context(), backend.Task{Assignment: a})
		require.NoError(t, err)
		var told phases
		require.NoError(t, p.Run(t.Context(), told.take))
		require.Equal(t, []string{"ntt h", "msm h", "msm l", "msm a", "msm b_g1"}, told.names())
		proof, err := p.Finish(t.Context(), told.take)
		require.NoError(t, err)
		require.Equal(t, "msm b_g2", told[len(told)-1].name)
		p.Release()
		for _, x := range told {
			require.False(t, x.start.Before(before), "%s starts before the end of what is before it", x.name)
			require.False(t, x.end.Before(x.start), "%s ends before it starts", x.name)
			before = x.end
		}
		require.NoError(t, groth16.Verify(vk, public, proof), "with %d tasks", tasks)
		require.NoError(t, b.Close())
	}
	require.Equal(t, untouched, a, "the assignment that was proved")
}

// TestProveTogether has several proofs on their way at once, as the workers of a
// device do, one of them at a time in Run.
func TestProveTogether(t *testing.T) {
	sys, public, private := chain(t, 300)
	pk, vk, err := groth16.Setup(t.Context(), sys, nil, 2)
	require.NoError(t, err)
	a := assign(t, sys, public, private)
	b := cpu.New(pk, cpu.Options{Tasks: 2})
	device := b.Devices()[0]
	var lock sync.Mutex
	proofs := make([]groth16.Proof, 4)
	errs := make([]error, len(proofs))
	var wg sync.WaitGroup
	for i := range proofs {
		wg.Go(func() {
			proofs[i], errs[i] = prove(t.Context(), device, a, &lock)
		})
	}
	wg.Wait()
	for i := range proofs {
		require.NoError(t, errs[i])
		require.NoError(t, groth16.Verify(vk, public, proofs[i]))
	}
	require.NoError(t, b.Close())
}

func prove(ctx context.Context, device backend.Device, a *groth16.Assignment, lock *sync.Mutex) (groth16.Proof, error) {
	ignore := func(string, time.Time, time.Time) {}
	p, err := device.Prepare(ctx, backend.Task{Assignment: a})
	if err != nil {
		return groth16.Proof{}, err
	}
	defer p.Release()
	lock.Lock()
	err = p.Run(ctx, ignore)
	lock.Unlock()
	if err != nil {
		return groth16.Proof{}, err
	}
	return p.Finish(ctx, ignore)
}

// TestCancel ends the context after each phase: no other one is begun.
func TestCancel(t *testing.T) {
	sys, public, private := chain(t, 30)
	pk, _, err := groth16.Setup(t.Context(), sys, nil, 2)
	require.NoError(t, err)
	a := assign(t, sys, public, private)
	device := cpu.New(pk, cpu.Options{Tasks: 2}).Devices()[0]
	for after := range 6 {
		ctx, cancel := context.WithCancel(t.Context())
		var told phases
		take := func(name string, start, end time.Time) {
			if told.take(name, start, end); len(told) == after {
				cancel()
			}
		}
		p, err := device.Prepare(ctx, backend.Task{Assignment: a})
		require.NoError(t, err)
		if after == 0 {
			cancel()
		}
		if err = p.Run(ctx, take); err == nil {
			_, err = p.Finish(ctx, take)
		}
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, told, after)
		p.Release()
		_, err = device.Prepare(ctx, backend.Task{Assignment: a})
		require.ErrorIs(t, err, context.Canceled)
	}
}

func TestPrepareRefuses(t *testing.T) {
	sys, public, private := chain(t, 30)
	pk, _, err := groth16.Setup(t.Context(), sys, nil, 2)
	require.NoError(t, err)
	device := cpu.New(pk, cpu.Options{}).Devices()[0]
	other, otherPublic, otherPrivate := chain(t, 31)
	for name, a := range map[string]*groth16.Assignment{
		"none":              nil,
		"empty":             {},
		"of another system": assign(t, other, otherPublic, otherPrivate),
		"not evaluated":     {Witness: assign(t, sys, public, private).Witness},
	} {
		_, err := device.Prepare(t.Context(), backend.Task{Assignment: a})
		require.Error(t, err, name)
		require.False(t, errors.Is(err, context.Canceled))
	}
}

// chain is a system of n constraints: y is a private x squared n times.
func chain(t testing.TB, n int) (sys *r1cs.System, public, private []fr.Element) {
	t.Helper()
	b := r1cs.NewBuilder()
	y, x := b.Public(), b.Private()
	value := fr.NewElement(3)
	private = []fr.Element{value}
	for range n - 1 {
		x = b.Mul(x, x)
		value.Square(&value)
	}
	b.Constrain(x, x, y)
	sys, err := b.Compile()
	require.NoError(t, err)
	return sys, []fr.Element{*value.Square(&value)}, private
}

// assign synthesizes an instance.
func assign(t testing.TB, sys *r1cs.System, public, private []fr.Element) *groth16.Assignment {
	t.Helper()
	w, err := sys.Witness(t.Context(), public, private)
	require.NoError(t, err)
	a, b, c, err := sys.Evaluate(t.Context(), w, 2)
	require.NoError(t, err)
	return &groth16.Assignment{Witness: w, A: a, B: b, C: c}
}

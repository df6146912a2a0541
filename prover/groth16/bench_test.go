package groth16_test

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/prover/groth16"
)

// benchmarkSize is the number of constraints of what the benchmarks prove.
const benchmarkSize = 1 << 15

func BenchmarkSetup(b *testing.B) {
	c := chain(b, benchmarkSize)
	for b.Loop() {
		_, _, err := groth16.Setup(b.Context(), c.system, nil, 2)
		require.NoError(b, err)
	}
	b.ReportMetric(benchmarkSize*float64(b.N)/b.Elapsed().Seconds(), "constraints/s")
}

func BenchmarkScalars(b *testing.B) {
	c := chain(b, benchmarkSize)
	pk, _ := c.setup(b)
	a := c.assign(b)
	b.ReportAllocs()
	for b.Loop() {
		_, err := pk.Scalars(a)
		require.NoError(b, err)
	}
}

func BenchmarkNTTH(b *testing.B) {
	c := chain(b, benchmarkSize)
	pk, _ := c.setup(b)
	s, err := pk.Scalars(c.assign(b))
	require.NoError(b, err)
	for b.Loop() {
		s.NTTH(pk.Domain, 2)
	}
}

func BenchmarkAssemble(b *testing.B) {
	pk, _ := cubic(b).setup(b)
	for b.Loop() {
		_, err := pk.Assemble(new(groth16.Sums), nil)
		require.NoError(b, err)
	}
}

func BenchmarkVerify(b *testing.B) {
	c := cubic(b)
	pk, vk := c.setup(b)
	proof := prove(b, pk, c.assign(b), nil)
	for b.Loop() {
		require.NoError(b, groth16.Verify(vk, c.public, proof))
	}
}

// BenchmarkVerifyBatch verifies as many proofs as a sector has partitions.
func BenchmarkVerifyBatch(b *testing.B) {
	const partitions = 10
	c := cubic(b)
	pk, vk := c.setup(b)
	proofs := slices.Repeat([]groth16.Proof{prove(b, pk, c.assign(b), nil)}, partitions)
	publics := slices.Repeat([][]fr.Element{c.public}, partitions)
	for b.Loop() {
		require.NoError(b, groth16.VerifyBatch(vk, publics, proofs))
	}
}

func BenchmarkProvingKey(b *testing.B) {
	c := chain(b, benchmarkSize)
	pk, _ := c.setup(b)
	var file bytes.Buffer
	_, err := pk.WriteTo(&file)
	require.NoError(b, err)
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(file.Len()))
		for b.Loop() {
			_, err := pk.WriteTo(io.Discard)
			require.NoError(b, err)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(file.Len()))
		b.ReportAllocs()
		for b.Loop() {
			_, err := groth16.ReadProvingKey(bytes.NewReader(file.Bytes()), c.system)
			require.NoError(b, err)
		}
	})
}

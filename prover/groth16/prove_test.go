package groth16_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/prover/groth16"
)

func TestProve(t *testing.T) {
	for _, c := range circuits(t) {
		t.Run(c.name, func(t *testing.T) {
			pk, vk := c.setup(t)
			a := c.assign(t)
			one, two := prove(t, pk, a, nil), prove(t, pk, a, nil)
			require.NoError(t, groth16.Verify(vk, c.public, one))
			require.NoError(t, groth16.Verify(vk, c.public, two))
			require.NotEqual(t, one, two, "proofs of the same instance, which must tell nothing")
		})
	}
}

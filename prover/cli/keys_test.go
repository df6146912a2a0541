package cli

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/prover/r1cs"
)

// product is the circuit of a number's factors.
func product(t *testing.T) *r1cs.System {
	t.Helper()
	b := r1cs.NewBuilder()
	b.Constrain(b.Private(), b.Private(), b.Public())
	sys, err := b.Compile()
	require.NoError(t, err)
	return sys
}

func setup(t *testing.T, sys *r1cs.System) keyPair {
	t.Helper()
	pk, vk, err := groth16.Setup(t.Context(), sys, nil, 1)
	require.NoError(t, err)
	return keyPair{pk, vk}
}

// TestKeyCache keeps keys, says what is wrong with those that cannot be used,
// and replaces them.
func TestKeyCache(t *testing.T) {
	sys := product(t)
	c, other := keyCache{filepath.Join(t.TempDir(), "keys")}, keyCache{t.TempDir()}
	_, err := c.load(sys)
	require.ErrorIs(t, err, os.ErrNotExist)
	want := setup(t, sys)
	require.NoError(t, c.store(sys, want))
	got, err := c.load(sys)
	require.NoError(t, err)
	require.Equal(t, want, got)

	require.NoError(t, c.store(sys, setup(t, sys)))
	got, err = c.load(sys)
	require.NoError(t, err)
	require.Equal(t, want, got, "keys that can be used were replaced")

	require.NoError(t, other.store(sys, setup(t, sys)))
	dir := c.of(sys)
	whole := map[string]string{provingKeyFile: read(t, dir, provingKeyFile), verifyingKeyFile: read(t, dir, verifyingKeyFile)}
	proving := whole[provingKeyFile]
	for _, bad := range []struct{ name, content, want string }{
		{provingKeyFile, "", "cannot use the proving key, so make the keys again: its head: unexpected EOF"},
		{provingKeyFile, proving[:200], "cannot use the proving key, so make the keys again: point "},
		{provingKeyFile, proving[:len(proving)-1] + "x", "cannot use the proving key, so make the keys again: its checksum is not that of its content"},
		{provingKeyFile, proving + "x", "cannot use the proving key, so make the keys again: there is more after its end"},
		{verifyingKeyFile, whole[verifyingKeyFile][:100], "cannot use the verifying key, so make the keys again: point 0: unexpected EOF"},
		{verifyingKeyFile, read(t, other.of(sys), verifyingKeyFile), "the proving and the verifying key are not of one setup, so make the keys again"},
	} {
		for name, content := range whole {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, bad.name), []byte(bad.content), 0o600))
		_, err := c.load(sys)
		require.Error(t, err)
		require.True(t, strings.HasPrefix(err.Error(), bad.want), err)
		want := setup(t, sys)
		require.NoError(t, c.store(sys, want))
		got, err := c.load(sys)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, []string{filepath.Base(dir)}, names(t, c.dir))
	}
}

// TestKeyCacheIsShared has several make the keys of a system at once: all end
// with keys that can be used, first where there are none, then where those that
// are there cannot.
func TestKeyCacheIsShared(t *testing.T) {
	sys := product(t)
	c := keyCache{t.TempDir()}
	keys := []keyPair{setup(t, sys), setup(t, sys), setup(t, sys), setup(t, sys)}
	for range 20 {
		var all sync.WaitGroup
		errs := make([]error, len(keys))
		for i := range errs {
			all.Go(func() { errs[i] = c.store(sys, keys[i]) })
		}
		all.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		_, err := c.load(sys)
		require.NoError(t, err)
		require.Len(t, names(t, c.dir), 1)
		require.NoError(t, os.Truncate(filepath.Join(c.of(sys), provingKeyFile), 100))
	}
}

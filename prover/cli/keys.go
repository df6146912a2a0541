package cli

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/prover/r1cs"
	"github.com/provetrace/provetrace/tracing/outfile"
)

// Names of the files of keys.
const (
	provingKeyFile   = "proving.key"
	verifyingKeyFile = "verifying.key"
)

// A keyCache keeps the development keys of constraint systems. Those of a
// system are in a directory named by its hash. They come from one setup, so
// that they appear together, by the renaming of the directory, and two
// processes do not mix theirs.
type keyCache struct {
	dir string
}

// userKeys is the cache of the user.
func userKeys() (keyCache, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return keyCache{}, fmt.Errorf("the user has no cache directory: %w", err)
	}
	return keyCache{filepath.Join(dir, "provetrace", "keys")}, nil
}

// of is the directory of a system's keys.
func (c keyCache) of(sys *r1cs.System) string {
	hash := sys.Hash()
	return filepath.Join(c.dir, hex.EncodeToString(hash[:]))
}

// A keyPair is what one setup makes.
type keyPair struct {
	proving   *groth16.ProvingKey
	verifying *groth16.VerifyingKey
}

// load returns the keys of a system, and an error that is [os.ErrNotExist] where
// the cache has none.
func (c keyCache) load(sys *r1cs.System) (keys keyPair, err error) {
	dir := c.of(sys)
	if keys.proving, err = readKey(filepath.Join(dir, provingKeyFile), sys, groth16.ReadProvingKey); err != nil {
		return keys, err
	}
	if keys.verifying, err = readKey(filepath.Join(dir, verifyingKeyFile), sys, groth16.ReadVerifyingKey); err != nil {
		return keys, err
	}
	pk, vk := keys.proving, keys.verifying
	if pk.Alpha1 != vk.Alpha1 || pk.Beta2 != vk.Beta2 || pk.Delta2 != vk.Delta2 {
		return keys, errors.New("the proving and the verifying key are not of one setup, so make the keys again")
	}
	return keys, nil
}

func readKey[K any](name string, sys *r1cs.System, read func(io.Reader, *r1cs.System) (K, error)) (key K, err error) {
	// A pipe would have whoever opens it wait for its other end.
	if info, err := os.Stat(name); err != nil {
		return key, err
	} else if !info.Mode().IsRegular() {
		return key, fmt.Errorf("%s is no regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return key, err
	}
	defer f.Close()
	return read(f, sys)
}

// store keeps keys, unless there are some by now that can be used.
func (c keyCache) store(sys *r1cs.System, keys keyPair) error {
	if err := c.tryStore(sys, keys); err != nil {
		return fmt.Errorf("cannot keep the keys in %s, so that the next run makes them again: %w", c.dir, outfile.Cause(err))
	}
	return nil
}

func (c keyCache) tryStore(sys *r1cs.System, keys keyPair) error {
	if err := os.MkdirAll(c.dir, 0o777); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(c.dir, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp) // where it has not got its name
	if err := keys.write(temp); err != nil {
		return err
	}
	dir := c.of(sys)
	if err := os.Rename(temp, dir); !errors.Is(err, os.ErrExist) {
		return err
	}
	if _, err := c.load(sys); err == nil {
		return nil // another process was faster
	}
	old, err := os.MkdirTemp(c.dir, ".old-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(old)
	if err := os.Rename(dir, filepath.Join(old, "keys")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Rename(temp, dir); !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil // as above
}

// write writes the files of both keys, to the disk itself.
func (k keyPair) write(dir string) error {
	if err := writeKey(filepath.Join(dir, provingKeyFile), k.proving); err != nil {
		return err
	}
	return writeKey(filepath.Join(dir, verifyingKeyFile), k.verifying)
}

func writeKey(name string, key io.WriterTo) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := key.WriteTo(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

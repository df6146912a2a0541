package groth16_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/prover/groth16"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fileOf returns what a key or a proof is written as.
func fileOf(t testing.TB, w io.WriterTo) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := w.WriteTo(&b)
	require.NoError(t, err)
	require.EqualValues(t, b.Len(), n)
	return b.Bytes()
}

// TestGolden holds the formats of keys and proofs, and what they are for given
// secrets.
func TestGolden(t *testing.T) {
	c := cubic(t)
	pk, vk := c.setup(t)
	proof, err := prove(t, pk, c.assign(t), seeded(3)).MarshalBinary()
	require.NoError(t, err)
	for name, got := range map[string][]byte{"cubic.proving": fileOf(t, pk), "cubic.verifying": fileOf(t, vk), "cubic.proof": proof} {
		path := filepath.Join("testdata", name)
		if *update {
			require.NoError(t, os.WriteFile(path, got, 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err, "-update writes it")
		require.Equal(t, want, got, "%s differs (-update accepts it)", path)
	}
}

func TestKeysSurviveTheirFiles(t *testing.T) {
	for _, c := range circuits(t) {
		t.Run(c.name, func(t *testing.T) {
			pk, vk := c.setup(t)
			readPK, err := groth16.ReadProvingKey(bytes.NewReader(fileOf(t, pk)), c.system)
			require.NoError(t, err)
			require.Equal(t, pk, readPK)
			readVK, err := groth16.ReadVerifyingKey(iotest.OneByteReader(bytes.NewReader(fileOf(t, vk))), c.system)
			require.NoError(t, err)
			require.Equal(t, vk, readVK)
			require.NoError(t, groth16.Verify(readVK, c.public, prove(t, readPK, c.assign(t), nil)))
		})
	}
}

// readers read either key of a circuit and return the error.
func readers(t testing.TB, c circuit) map[string]func(io.Reader) error {
	return map[string]func(io.Reader) error{
		"proving": func(r io.Reader) error {
			_, err := groth16.ReadProvingKey(r, c.system)
			return err
		},
		"verifying": func(r io.Reader) error {
			_, err := groth16.ReadVerifyingKey(r, c.system)
			return err
		},
	}
}

func TestReadRefusesDamage(t *testing.T) {
	c := cubic(t)
	pk, vk := c.setup(t)
	files := map[string][]byte{"proving": fileOf(t, pk), "verifying": fileOf(t, vk)}
	for kind, read := range readers(t, c) {
		file := files[kind]
		require.NoError(t, read(bytes.NewReader(file)))
		for i := range file {
			require.ErrorIs(t, read(bytes.NewReader(file[:i])), io.ErrUnexpectedEOF, "%s, cut at byte %d", kind, i)
			damaged := bytes.Clone(file)
			damaged[i] ^= 1 << (i % 8)
			require.ErrorContains(t, read(bytes.NewReader(damaged)), "make the keys again", "%s, byte %d", kind, i)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	c := cubic(t)
	pk, vk := c.setup(t)
	proving, verifying := fileOf(t, pk), fileOf(t, vk)
	otherPK, otherVK := chain(t, 4).setup(t)
	failure := errors.New("bad sector")
	alpha := vk.Alpha1.Bytes()
	head := bytes.IndexByte(verifying, '\n') + 1 + len(vk.System)

	offCurve := *pk
	offCurve.Alpha1.X.Double(&offCurve.Alpha1.X)
	offCurve2 := *pk
	offCurve2.B2 = append(offCurve2.B2[:0:0], offCurve2.B2...)
	offCurve2.B2[0].X, offCurve2.B2[0].Y = offCurve2.B2[0].Y, offCurve2.B2[0].X
	offCurveVK, outside1, outside2 := *vk, *vk, *vk
	offCurveVK.Gamma2.X.Double(&offCurveVK.Gamma2.X)
	outside1.Alpha1 = outsideG1(t)
	outside2.Delta2 = outsideG2()

	for _, x := range []struct {
		name, kind string
		r          io.Reader
		says       string
	}{
		{"nothing", "proving", bytes.NewReader(nil), "unexpected EOF"},
		{"zeros without end", "proving", zeros{}, "does not begin with"},
		{"zeros without end", "verifying", zeros{}, "does not begin with"},
		{"the verifying key", "proving", bytes.NewReader(verifying), "does not begin with"},
		{"the proving key", "verifying", bytes.NewReader(proving), "does not begin with"},
		{"a compressed point", "verifying", bytes.NewReader(append(bytes.Clone(verifying[:head]), alpha[:]...)), "point 0 is compressed"},
		{"of another system", "proving", bytes.NewReader(fileOf(t, otherPK)), "constraint system"},
		{"of another system", "verifying", bytes.NewReader(fileOf(t, otherVK)), "constraint system"},
		{"more at the end", "proving", bytes.NewReader(append(bytes.Clone(proving), 0)), "after its end"},
		{"more at the end", "verifying", io.MultiReader(bytes.NewReader(verifying), zeros{}), "after its end"},
		{"failing at the start", "proving", iotest.ErrReader(failure), failure.Error()},
		{"failing in a point", "proving", io.MultiReader(bytes.NewReader(proving[:300]), iotest.ErrReader(failure)), failure.Error()},
		{"failing at the checksum", "verifying", io.MultiReader(bytes.NewReader(verifying[:len(verifying)-9]), iotest.ErrReader(failure)), failure.Error()},
		{"failing at the end", "verifying", io.MultiReader(bytes.NewReader(verifying), iotest.ErrReader(failure)), failure.Error()},
		{"G1 off the curve", "proving", bytes.NewReader(fileOf(t, &offCurve)), "point 0 is not on its curve"},
		{"G2 off the curve", "proving", bytes.NewReader(fileOf(t, &offCurve2)), "is not on its curve"},
		{"off the curve", "verifying", bytes.NewReader(fileOf(t, &offCurveVK)), "point 2"},
		{"outside of G1", "verifying", bytes.NewReader(fileOf(t, &outside1)), "point 0"},
		{"outside of G2", "verifying", bytes.NewReader(fileOf(t, &outside2)), "point 3"},
	} {
		t.Run(x.kind+", "+x.name, func(t *testing.T) {
			require.ErrorContains(t, readers(t, c)[x.kind](x.r), x.says)
		})
	}
}

// zeros are as many as one reads.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// full is a disk that is.
type full struct{ room int64 }

func (f *full) Write(p []byte) (int, error) {
	n := min(int64(len(p)), f.room)
	if f.room -= n; n < int64(len(p)) {
		return int(n), errors.New("no space left")
	}
	return int(n), nil
}

func TestWriteTellsWhatFailed(t *testing.T) {
	pk, vk := chain(t, 1<<12).setup(t) // more than is buffered
	size := int64(len(fileOf(t, pk)))
	for _, room := range []int64{0, 1, 1 << 16, size / 2, size - 1} {
		n, err := pk.WriteTo(&full{room})
		require.ErrorContains(t, err, "cannot write the proving key: no space left")
		require.Equal(t, room, n)
	}
	_, err := vk.WriteTo(&full{1})
	require.ErrorContains(t, err, "cannot write the verifying key: no space left")
}

// FuzzKeys reads any bytes as keys of the cubic circuit, with a right checksum
// if it asks for that: what is read is what was written. The inputs are long, so
// give it -fuzzminimizetime=5x.
func FuzzKeys(f *testing.F) {
	c := cubic(f)
	for _, name := range []string{"cubic.proving", "cubic.verifying"} {
		file, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(file, false)
		f.Add(file[:len(file)-sha256.Size], true)
	}
	f.Fuzz(func(t *testing.T, file []byte, sum bool) {
		if sum {
			digest := sha256.Sum256(file)
			file = append(bytes.Clone(file), digest[:]...)
		}
		if pk, err := groth16.ReadProvingKey(bytes.NewReader(file), c.system); err == nil {
			require.Equal(t, file, fileOf(t, pk))
		}
		if vk, err := groth16.ReadVerifyingKey(bytes.NewReader(file), c.system); err == nil {
			require.Equal(t, file, fileOf(t, vk))
		}
	})
}

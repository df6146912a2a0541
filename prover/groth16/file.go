package groth16

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/provetrace/provetrace/prover/r1cs"
)

// A key's file is a line that says what it is, the hash of the constraint
// system, the points in the order of the fields, uncompressed in the format that
// [Proof.MarshalBinary] names, and the SHA-256 of all that.
const (
	provingKeyHead   = "provetrace development key: proving, version 1\n"
	verifyingKeyHead = "provetrace development key: verifying, version 1\n"
)

// compressed is the bit of a point's first byte that is set if it is compressed.
const compressed = 0x80

// points are all points of the key: a *G1Affine or a *G2Affine each.
func (pk *ProvingKey) points() iter.Seq[any] {
	return func(yield func(any) bool) {
		_ = yield(&pk.Alpha1) && yield(&pk.Beta1) && yield(&pk.Delta1) && yield(&pk.Beta2) && yield(&pk.Delta2) &&
			each(pk.H, yield) && each(pk.L, yield) && each(pk.A, yield) && each(pk.B1, yield) && each(pk.B2, yield)
	}
}

// points are all points of the key: a *G1Affine or a *G2Affine each.
func (vk *VerifyingKey) points() iter.Seq[any] {
	return func(yield func(any) bool) {
		_ = yield(&vk.Alpha1) && yield(&vk.Beta2) && yield(&vk.Gamma2) && yield(&vk.Delta2) && each(vk.Public, yield)
	}
}

func each[P any](points []P, yield func(any) bool) bool {
	for i := range points {
		if !yield(&points[i]) {
			return false
		}
	}
	return true
}

// WriteTo writes the key's file.
func (pk *ProvingKey) WriteTo(w io.Writer) (int64, error) {
	n, err := writeKey(w, provingKeyHead, pk.System, pk.points())
	if err != nil {
		return n, fmt.Errorf("cannot write the proving key: %w", err)
	}
	return n, nil
}

// WriteTo writes the key's file.
func (vk *VerifyingKey) WriteTo(w io.Writer) (int64, error) {
	n, err := writeKey(w, verifyingKeyHead, vk.System, vk.points())
	if err != nil {
		return n, fmt.Errorf("cannot write the verifying key: %w", err)
	}
	return n, nil
}

// ReadProvingKey reads the file of a proving key of the system, up to its end.
//
// How much that is, the system says. The points are checked to be on their
// curves and to be those that were written, but not to be of the right order,
// which would take longer than [Setup]: so it is not for keys from others, with
// which a proof may disclose its witness.
func ReadProvingKey(r io.Reader, sys *r1cs.System) (*ProvingKey, error) {
	pk, err := newProvingKey(sys)
	if err != nil {
		return nil, err
	}
	pk.H = make([]bls12381.G1Affine, pk.Domain.Cardinality-1)
	pk.L = make([]bls12381.G1Affine, len(pk.ColumnsL))
	pk.A = make([]bls12381.G1Affine, len(pk.ColumnsA))
	pk.B1 = make([]bls12381.G1Affine, len(pk.ColumnsB))
	pk.B2 = make([]bls12381.G2Affine, len(pk.ColumnsB))
	if err := readKey(r, provingKeyHead, pk.System, pk.points(), bls12381.NoSubgroupChecks()); err != nil {
		return nil, fmt.Errorf("cannot use the proving key, so make the keys again: %w", err)
	}
	return pk, nil
}

// ReadVerifyingKey reads the file of a verifying key of the system, up to its
// end. What a proof is worth depends on who made the key, which no check shows.
func ReadVerifyingKey(r io.Reader, sys *r1cs.System) (*VerifyingKey, error) {
	vk := &VerifyingKey{System: sys.Hash(), Public: make([]bls12381.G1Affine, sys.NumPublic())}
	if err := readKey(r, verifyingKeyHead, vk.System, vk.points()); err != nil {
		return nil, fmt.Errorf("cannot use the verifying key, so make the keys again: %w", err)
	}
	return vk, nil
}

func writeKey(w io.Writer, head string, system [32]byte, points iter.Seq[any]) (int64, error) {
	counted := &countingWriter{w: w}
	buffered := bufio.NewWriterSize(counted, 1<<16)
	digest := sha256.New()
	out := io.MultiWriter(buffered, digest)
	io.WriteString(out, head) // buffered keeps an error up to Flush
	out.Write(system[:])
	encoder := bls12381.NewEncoder(out, bls12381.RawEncoding())
	for p := range points {
		if err := encoder.Encode(p); err != nil {
			return counted.n, err
		}
	}
	buffered.Write(digest.Sum(nil))
	err := buffered.Flush()
	return counted.n, err
}

func readKey(r io.Reader, head string, system [32]byte, points iter.Seq[any], options ...func(*bls12381.Decoder)) error {
	buffered := bufio.NewReaderSize(r, 1<<16)
	digest := sha256.New()
	in := io.TeeReader(buffered, digest)
	fault := func(part string, err error) error {
		if err == io.EOF { // none is expected
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("%s: %w", part, err)
	}

	begin := make([]byte, len(head)+len(system))
	if _, err := io.ReadFull(in, begin); err != nil {
		return fault("its head", err)
	}
	if string(begin[:len(head)]) != head {
		return fmt.Errorf("it does not begin with %q", head)
	}
	if !bytes.Equal(begin[len(head):], system[:]) {
		return fmt.Errorf("it is of the constraint system %x, not %x", begin[len(head):], system)
	}
	decoder := bls12381.NewDecoder(in, options...)
	n := 0
	for p := range points {
		if first, _ := buffered.Peek(1); len(first) == 1 && first[0]&compressed != 0 {
			return fmt.Errorf("point %d is compressed", n)
		}
		if err := decoder.Decode(p); err != nil {
			return fault(fmt.Sprintf("point %d", n), err)
		}
		if !p.(interface{ IsOnCurve() bool }).IsOnCurve() {
			return fmt.Errorf("point %d is not on its curve", n)
		}
		n++
	}
	want := digest.Sum(nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(buffered, got); err != nil {
		return fault("its checksum", err)
	}
	if !bytes.Equal(got, want) {
		return errors.New("its checksum is not that of its content")
	}
	if _, err := buffered.ReadByte(); err != io.EOF {
		if err != nil {
			return fault("its end", err)
		}
		return errors.New("there is more after its end")
	}
	return nil
}

// countingWriter counts what goes through it.
type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

package r1cs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sort"
	"sync"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// A System is a compiled circuit. It does not change, and any number of
// goroutines may use it.
type System struct {
	public   int // with the constant
	private  int
	computed int
	matrices [3]Matrix
	program  []instruction
	sections []section
}

// An instruction computes the next count variables of a witness from a
// constraint's rows.
type instruction struct {
	constraint uint32
	op, count  uint16
}

const (
	opProduct uint16 = iota // (A·w)(B·w)
	opSquare                // (A·w)²
	opLinear                // A·w
	opBits                  // the count lowest bits of A·w
)

// NumPublic returns the number of public variables, the constant 1 among them.
func (s *System) NumPublic() int { return s.public }

// NumVariables returns the length of a witness.
func (s *System) NumVariables() int { return s.public + s.private + s.computed }

// NumConstraints returns the number of constraints.
func (s *System) NumConstraints() int { return len(s.matrices[0].RowStart) - 1 }

// Matrices returns A, B and C.
func (s *System) Matrices() (a, b, c *Matrix) {
	return &s.matrices[0], &s.matrices[1], &s.matrices[2]
}

// Hash identifies the matrices and the split into public and private: what a
// proving key depends on.
func (s *System) Hash() [32]byte {
	h := sha256.New()
	buf := make([]byte, 0, 4096)
	write := func(v uint32) {
		if buf = binary.LittleEndian.AppendUint32(buf, v); len(buf) == cap(buf) {
			h.Write(buf)
			buf = buf[:0]
		}
	}
	write(uint32(s.public))
	write(uint32(s.private))
	write(uint32(s.computed))
	write(uint32(s.NumConstraints()))
	for i := range s.matrices {
		for _, part := range [][]uint32{s.matrices[i].RowStart, s.matrices[i].Column, s.matrices[i].Value} {
			for _, v := range part {
				write(v)
			}
		}
	}
	h.Write(buf)
	for i := range s.matrices[0].Coefficients {
		c := s.matrices[0].Coefficients[i].Bytes()
		h.Write(c[:])
	}
	return [32]byte(h.Sum(nil))
}

// Constraints between looks at the context: less than a millisecond of work.
const contextInterval = 4096

// Witness computes all variables of an instance: 1, the public inputs, the
// private inputs and what follows from them. It does not see whether they
// satisfy the constraints: Check does.
func (s *System) Witness(ctx context.Context, public, private []fr.Element) ([]fr.Element, error) {
	if len(public) != s.public-1 {
		return nil, fmt.Errorf("r1cs: the circuit has %d public inputs, not %d: give one value for each", s.public-1, len(public))
	}
	if len(private) != s.private {
		return nil, fmt.Errorf("r1cs: the circuit has %d private inputs, not %d: give one value for each", s.private, len(private))
	}
	w := make([]fr.Element, s.NumVariables())
	w[0].SetOne()
	copy(w[1:], public)
	copy(w[s.public:], private)
	next := s.public + s.private
	a, b, _ := s.Matrices()
	for i, in := range s.program {
		if i%contextInterval == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		v := &w[next]
		a.dot(v, in.constraint, w)
		switch in.op {
		case opProduct:
			var right fr.Element
			b.dot(&right, in.constraint, w)
			v.Mul(v, &right)
		case opSquare:
			v.Square(v)
		case opBits:
			limbs := v.Bits()
			for bit := range int(in.count) {
				w[next+bit].SetUint64(limbs[bit/64] >> (bit % 64) & 1)
			}
		}
		next += int(in.count)
	}
	return w, nil
}

// Evaluate returns A·w, B·w and C·w, which tasks goroutines compute.
func (s *System) Evaluate(ctx context.Context, w []fr.Element, tasks int) (a, b, c []fr.Element, err error) {
	if err := s.checkShape(w); err != nil {
		return nil, nil, nil, err
	}
	if tasks < 1 {
		return nil, nil, nil, fmt.Errorf("r1cs: %d tasks cannot evaluate constraints: give at least 1", tasks)
	}
	var out [3][]fr.Element
	for i := range out {
		out[i] = make([]fr.Element, s.NumConstraints())
	}
	tasks = min(tasks, s.NumConstraints())
	var wg sync.WaitGroup
	for task := range tasks {
		wg.Go(func() { s.evaluate(ctx, &out, w, s.split(task, tasks), s.split(task+1, tasks)) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, nil, nil, context.Cause(ctx)
	}
	return out[0], out[1], out[2], nil
}

// split returns where the given part of all constraints begins, so that parts
// have about the same number of entries.
func (s *System) split(part, parts int) int {
	entries := func(row int) (n uint64) {
		for i := range s.matrices {
			n += uint64(s.matrices[i].RowStart[row])
		}
		return n
	}
	all := s.NumConstraints()
	target := entries(all) * uint64(part) / uint64(parts)
	return sort.Search(all, func(row int) bool { return entries(row) >= target })
}

func (s *System) evaluate(ctx context.Context, out *[3][]fr.Element, w []fr.Element, from, to int) {
	for i := range s.matrices {
		for row := from; row < to; row++ {
			if row%contextInterval == 0 && ctx.Err() != nil {
				return
			}
			s.matrices[i].dot(&out[i][row], uint32(row), w)
		}
	}
}

// Check returns an error that names the first constraint that w does not
// satisfy.
func (s *System) Check(w []fr.Element) error {
	if err := s.checkShape(w); err != nil {
		return err
	}
	for row := range s.NumConstraints() {
		var v [3]fr.Element
		for i := range s.matrices {
			s.matrices[i].dot(&v[i], uint32(row), w)
		}
		if v[0].Mul(&v[0], &v[1]); !v[0].Equal(&v[2]) {
			return fmt.Errorf("r1cs: the witness does not satisfy constraint %d of %d%s: look at the inputs", row, s.NumConstraints(), s.section(row))
		}
	}
	return nil
}

func (s *System) section(row int) string {
	i := sort.Search(len(s.sections), func(i int) bool { return int(s.sections[i].first) > row })
	if i == 0 {
		return ""
	}
	return " (" + s.sections[i-1].name + ")"
}

func (s *System) checkShape(w []fr.Element) error {
	if len(w) != s.NumVariables() {
		return fmt.Errorf("r1cs: a witness of the circuit has %d values, not %d: take one that Witness made", s.NumVariables(), len(w))
	}
	if !w[0].IsOne() {
		return fmt.Errorf("r1cs: a witness begins with 1, not %s: take one that Witness made", w[0].String())
	}
	return nil
}

package r1cs

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

var (
	one      = fr.One()
	minusOne = *new(fr.Element).Neg(&one)
)

// A Builder takes a circuit's variables and constraints. Misuse does not
// panic: the first of it is Compile's error.
type Builder struct {
	count        [4]uint32 // of the variables of each kind
	a, b, c      rows
	coefficients []fr.Element
	interned     map[fr.Element]uint32
	program      []instruction
	sections     []section
	err          error
}

// rows are a Matrix under construction.
type rows struct {
	start, value []uint32
	column       []variable
}

// A section is a named part of the circuit, from a constraint on.
type section struct {
	first uint32
	name  string
}

// NewBuilder returns the builder of an empty circuit.
func NewBuilder() *Builder {
	b := &Builder{interned: make(map[fr.Element]uint32)}
	b.count[0] = 1
	for _, m := range b.matrices() {
		m.start = []uint32{0}
	}
	b.intern(one)
	b.intern(minusOne)
	return b
}

func (b *Builder) matrices() [3]*rows { return [3]*rows{&b.a, &b.b, &b.c} }

// Section names the constraints that follow, for what Check says.
func (b *Builder) Section(name string) {
	b.sections = append(b.sections, section{b.constraints(), name})
}

// Public declares the next public input.
func (b *Builder) Public() Linear { return b.declare(publicKind) }

// Private declares the next private input.
func (b *Builder) Private() Linear { return b.declare(privateKind) }

func (b *Builder) declare(kind variable) Linear {
	n := &b.count[kind>>kindShift]
	if *n == perKind-1 {
		b.fail(fmt.Errorf("r1cs: more than %d variables of one kind: split the circuit", perKind-1))
		return Linear{}
	}
	v := kind | variable(*n)
	*n++
	return Linear{owner: b, terms: []term{{v, one}}}
}

// Mul returns l·m. It is a new variable with a constraint, unless one of the
// factors is a constant.
func (b *Builder) Mul(l, m Linear) Linear {
	if c, ok := l.value(); ok {
		return m.Scale(c)
	}
	if c, ok := m.value(); ok {
		return l.Scale(c)
	}
	op := opProduct
	if slices.Equal(l.terms, m.terms) {
		op = opSquare
	}
	return b.compute(op, l, m)
}

// Variable returns a new variable that equals l. It costs a constraint, and
// makes short what would otherwise be long in many.
func (b *Builder) Variable(l Linear) Linear {
	return b.compute(opLinear, l, Constant(one))
}

func (b *Builder) compute(op uint16, l, m Linear) Linear {
	b.program = append(b.program, instruction{b.constraints(), op, 1})
	v := b.declare(computedKind)
	b.Constrain(l, m, v)
	return v
}

// Bits returns the n lowest bits of l, the lowest first, and constrains l to
// have no others.
func (b *Builder) Bits(l Linear, n int) []Linear {
	if n < 1 || n >= fr.Bits {
		b.fail(fmt.Errorf("r1cs: %d bits of an element are asked for: 1 to %d determine one", n, fr.Bits-1))
		return make([]Linear, min(max(n, 0), fr.Bits))
	}
	b.program = append(b.program, instruction{b.constraints(), opBits, uint16(n)})
	bits := make([]Linear, n)
	sum, weight := Linear{owner: b, terms: make([]term, n)}, one
	for i := range bits {
		bits[i] = b.declare(computedKind)
		sum.terms[i] = term{variable: computedKind | variable(b.count[3]-1), coefficient: weight}
		weight.Double(&weight)
	}
	b.Constrain(l, Constant(one), sum)
	for _, bit := range bits {
		b.AssertBoolean(bit)
	}
	return bits
}

// Select returns l where bit is 1 and m where it is 0. It does not constrain
// bit to be one of them.
func (b *Builder) Select(bit, l, m Linear) Linear {
	return b.Mul(bit, l.Sub(m)).Add(m)
}

// AssertBoolean constrains l to 0 or 1.
func (b *Builder) AssertBoolean(l Linear) {
	b.Constrain(l, l.Sub(Constant(one)), Linear{})
}

// AssertEqual constrains l = m.
func (b *Builder) AssertEqual(l, m Linear) { b.Constrain(l, Constant(one), m) }

// Constrain adds the constraint l·m = n.
func (b *Builder) Constrain(l, m, n Linear) {
	if l.owner == nil && m.owner == nil && n.owner == nil {
		b.fail(fmt.Errorf("r1cs: constraint %d is between constants: leave it out", b.constraints()))
		return
	}
	linears := [3]Linear{l, m, n}
	for _, linear := range linears {
		if linear.owner != nil && linear.owner != b {
			b.fail(fmt.Errorf("r1cs: constraint %d has a variable of another circuit: take it from this builder", b.constraints()))
			return
		}
	}
	for i, matrix := range b.matrices() {
		matrix.append(b, linears[i])
	}
}

func (b *Builder) constraints() uint32 { return uint32(len(b.a.start) - 1) }

func (r *rows) append(b *Builder, l Linear) {
	if uint64(len(r.column))+uint64(len(l.terms)) > math.MaxUint32 || uint64(len(r.start)) == math.MaxUint32 {
		b.fail(errors.New("r1cs: a matrix has more entries than 32 bits count: split the circuit"))
		return
	}
	for _, t := range l.terms {
		r.column = append(r.column, t.variable)
		r.value = append(r.value, b.intern(t.coefficient))
	}
	r.start = append(r.start, uint32(len(r.column)))
}

func (b *Builder) intern(c fr.Element) uint32 {
	i, ok := b.interned[c]
	if !ok {
		i = uint32(len(b.coefficients))
		b.interned[c] = i
		b.coefficients = append(b.coefficients, c)
	}
	return i
}

func (b *Builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Compile returns the system of what was built so far.
func (b *Builder) Compile() (*System, error) {
	if b.err != nil {
		return nil, b.err
	}
	if b.constraints() == 0 {
		return nil, errors.New("r1cs: the circuit has no constraints: add some before compiling it")
	}
	s := &System{
		public:   int(b.count[0] + b.count[1]),
		private:  int(b.count[2]),
		computed: int(b.count[3]),
		program:  slices.Clone(b.program),
		sections: slices.Clone(b.sections),
	}
	first := [4]uint32{0, 1, uint32(s.public), uint32(s.public + s.private)}
	used := make([]bool, s.NumVariables())
	coefficients := slices.Clone(b.coefficients)
	for i, from := range b.matrices() {
		to := &s.matrices[i]
		*to = Matrix{
			RowStart:     slices.Clone(from.start),
			Column:       make([]uint32, len(from.column)),
			Value:        slices.Clone(from.value),
			Coefficients: coefficients,
		}
		for j, v := range from.column {
			to.Column[j] = first[v.kind()>>kindShift] + v.index()
			used[to.Column[j]] = true
		}
	}
	for v := 1; v < s.public+s.private; v++ {
		if used[v] {
			continue
		}
		kind, number := "public", v-1
		if v >= s.public {
			kind, number = "private", v-s.public
		}
		return nil, fmt.Errorf("r1cs: %s input %d is in no constraint: constrain it or leave it out", kind, number)
	}
	return s, nil
}

package r1cs

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A circuit is one that was drawn, with its inputs, and the value that each of
// its expressions must have.
type circuit struct {
	system          *System
	public, private []fr.Element
	linears         []Linear
	values          []fr.Element
}

// drawElement prefers the values that are handled on their own.
func drawElement(t *rapid.T, label string) fr.Element {
	switch rapid.IntRange(0, 5).Draw(t, label) {
	case 0:
		return fr.Element{}
	case 1:
		return one
	case 2:
		return minusOne
	case 3:
		return fr.NewElement(rapid.Uint64().Draw(t, label))
	}
	bytes := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, label)
	return *new(fr.Element).SetBytes(bytes)
}

// drawCircuit draws a circuit that its inputs satisfy.
func drawCircuit(t *rapid.T) circuit {
	var c circuit
	b := NewBuilder()
	add := func(l Linear, v fr.Element) {
		c.linears, c.values = append(c.linears, l), append(c.values, v)
	}
	input := func(private bool) {
		v := drawElement(t, "input")
		if private {
			c.private = append(c.private, v)
			add(b.Private(), v)
		} else {
			c.public = append(c.public, v)
			add(b.Public(), v)
		}
		l := c.linears[len(c.linears)-1]
		add(b.Mul(l, l), *new(fr.Element).Square(&v)) // so that it is used
	}
	pick := func() (Linear, fr.Element) {
		i := rapid.IntRange(0, len(c.linears)-1).Draw(t, "operand")
		return c.linears[i], c.values[i]
	}
	input(false)
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		l, x := pick()
		m, y := pick()
		var v fr.Element
		switch rapid.IntRange(0, 9).Draw(t, "operation") {
		case 0:
			input(false)
		case 1:
			input(true)
		case 2:
			add(l.Add(m), *v.Add(&x, &y))
		case 3:
			add(l.Sub(m), *v.Sub(&x, &y))
		case 4:
			k := drawElement(t, "factor")
			add(l.Scale(k), *v.Mul(&x, &k))
		case 5:
			k := drawElement(t, "constant")
			add(l.Add(Constant(k)), *v.Add(&x, &k))
		case 6:
			add(b.Mul(l, m), *v.Mul(&x, &y))
		case 7:
			add(b.Variable(l), x)
		case 8:
			bits := rapid.IntRange(1, fr.Bits-1).Draw(t, "bits")
			var n big.Int
			x.BigInt(&n)
			low := new(big.Int).Mod(&n, new(big.Int).Lsh(big.NewInt(1), uint(bits)))
			v.SetBigInt(n.Sub(&n, low))
			for i, bit := range b.Bits(l.Sub(Constant(v)), bits) {
				add(bit, fr.NewElement(uint64(low.Bit(i))))
			}
		case 9:
			bit, v := b.Public(), fr.NewElement(uint64(rapid.IntRange(0, 1).Draw(t, "bit")))
			c.public = append(c.public, v)
			b.AssertBoolean(bit)
			chosen := y
			if v.IsOne() {
				chosen = x
			}
			add(b.Select(bit, l, m), chosen)
		}
	}
	var err error
	c.system, err = b.Compile()
	require.NoError(t, err)
	return c
}

// dense returns M·w, the plain way.
func dense(m *Matrix, w []fr.Element) []fr.Element {
	out := make([]fr.Element, len(m.RowStart)-1)
	for i := range out {
		row := make([]big.Int, len(w))
		for j := m.RowStart[i]; j < m.RowStart[i+1]; j++ {
			m.Coefficients[m.Value[j]].BigInt(&row[m.Column[j]])
		}
		var sum, x big.Int
		for j := range w {
			sum.Add(&sum, x.Mul(w[j].BigInt(&x), &row[j]))
		}
		out[i].SetBigInt(&sum)
	}
	return out
}

func TestRandomCircuits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCircuit(t)
		s := c.system
		w, err := s.Witness(t.Context(), c.public, c.private)
		require.NoError(t, err)
		require.NoError(t, s.Check(w))

		first := [...]int{0, 1, s.public, s.public + s.private}
		for i, l := range c.linears {
			var sum, x fr.Element
			for _, term := range l.terms {
				x.Mul(&term.coefficient, &w[first[term.variable.kind()>>kindShift]+int(term.variable.index())])
				sum.Add(&sum, &x)
			}
			require.Equal(t, c.values[i], sum)
		}

		tasks := rapid.IntRange(1, 2*s.NumConstraints()).Draw(t, "tasks")
		var out [3][]fr.Element
		out[0], out[1], out[2], err = s.Evaluate(t.Context(), w, tasks)
		require.NoError(t, err)
		for i, matrix := range s.matrices {
			require.Equal(t, dense(&matrix, w), out[i])
		}

		// Each computed variable follows from the inputs, so no other value will do.
		for i := s.public + s.private; i < len(w); i++ {
			right := w[i]
			w[i].Add(&w[i], &one)
			require.Error(t, s.Check(w), "variable %d", i)
			w[i] = right
		}
	})
}

// power is the circuit of y = x^4 + 3 for a private x.
func power(t testing.TB) *System {
	b := NewBuilder()
	y, x := b.Public(), b.Private()
	b.Section("the power")
	square := b.Mul(x, x)
	fourth := b.Mul(square, square)
	b.Section("the sum")
	b.AssertEqual(fourth.Add(Constant(fr.NewElement(3))), y)
	s, err := b.Compile()
	require.NoError(t, err)
	return s
}

func elements(values ...uint64) []fr.Element {
	out := make([]fr.Element, len(values))
	for i, v := range values {
		out[i].SetUint64(v)
	}
	return out
}

func TestCheckNamesTheConstraint(t *testing.T) {
	s := power(t)
	w, err := s.Witness(t.Context(), elements(19), elements(2))
	require.NoError(t, err)
	require.Equal(t, elements(1, 19, 2, 4, 16), w)
	require.NoError(t, s.Check(w))
	for _, test := range []struct {
		name    string
		witness []fr.Element
		err     string
	}{
		{"public", elements(1, 20, 2, 4, 16), "r1cs: the witness does not satisfy constraint 2 of 3 (the sum): look at the inputs"},
		{"private", elements(1, 19, 3, 4, 16), "constraint 0 of 3 (the power)"},
		{"computed", elements(1, 19, 2, 4, 17), "constraint 1 of 3 (the power)"},
		{"constant", elements(2, 19, 2, 4, 16), "r1cs: a witness begins with 1, not 2"},
		{"short", elements(1, 19, 2, 4), "r1cs: a witness of the circuit has 5 values, not 4"},
		{"none", nil, "r1cs: a witness of the circuit has 5 values, not 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.ErrorContains(t, s.Check(test.witness), test.err)
		})
	}
}

func TestBadInput(t *testing.T) {
	s := power(t)
	w, err := s.Witness(t.Context(), elements(19), elements(2))
	require.NoError(t, err)
	gone, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped")
	cancel(stop)
	witness := func(ctx context.Context, public, private []fr.Element) error {
		_, err := s.Witness(ctx, public, private)
		return err
	}
	evaluate := func(ctx context.Context, w []fr.Element, tasks int) error {
		_, _, _, err := s.Evaluate(ctx, w, tasks)
		return err
	}
	require.ErrorContains(t, witness(t.Context(), nil, elements(2)), "the circuit has 1 public inputs, not 0")
	require.ErrorContains(t, witness(t.Context(), elements(19), elements(1, 2)), "the circuit has 1 private inputs, not 2")
	require.ErrorIs(t, witness(gone, elements(19), elements(2)), stop)
	require.ErrorContains(t, evaluate(t.Context(), w[1:], 1), "has 5 values, not 4")
	require.ErrorContains(t, evaluate(t.Context(), w, 0), "0 tasks cannot evaluate constraints")
	require.ErrorIs(t, evaluate(gone, w, 2), stop)
}

func TestMisuse(t *testing.T) {
	for _, test := range []struct {
		name  string
		build func(b *Builder)
		err   string
	}{
		{"empty", func(b *Builder) {}, "the circuit has no constraints"},
		{"unused public", func(b *Builder) { b.Public(); b.Mul(b.Public(), b.Public()) }, "public input 0 is in no constraint"},
		{"unused private", func(b *Builder) { b.Mul(b.Public(), b.Private()); b.Private() }, "private input 1 is in no constraint"},
		{"foreign variable", func(b *Builder) { b.AssertEqual(b.Public(), NewBuilder().Public()) }, "constraint 0 has a variable of another circuit"},
		{"foreign factor", func(b *Builder) { b.Mul(NewBuilder().Public(), b.Public()) }, "constraint 0 has a variable of another circuit"},
		{"mixed sum", func(b *Builder) { b.Variable(b.Public().Add(NewBuilder().Public())) }, "constraint 0 has a variable of another circuit"},
		{"constants", func(b *Builder) { b.AssertEqual(Constant(one), Linear{}) }, "constraint 0 is between constants"},
		{"no bits", func(b *Builder) { b.Bits(b.Public(), 0) }, "0 bits of an element are asked for"},
		{"negative bits", func(b *Builder) { b.Bits(b.Public(), -1) }, "-1 bits of an element are asked for"},
		{"too many bits", func(b *Builder) { b.Bits(b.Public(), fr.Bits) }, "255 bits of an element are asked for: 1 to 254 determine one"},
		{"first error", func(b *Builder) { b.Bits(b.Public(), 0); b.Bits(b.Public(), -1) }, "0 bits"},
		{"too many variables", func(b *Builder) { b.count[1] = perKind - 1; b.Public() }, "more than 1073741823 variables of one kind"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := NewBuilder()
			test.build(b)
			s, err := b.Compile()
			require.ErrorContains(t, err, test.err)
			require.Nil(t, s)
		})
	}
}

func TestConstantsCostNothing(t *testing.T) {
	b := NewBuilder()
	x := b.Public()
	three := Constant(fr.NewElement(3))
	l := b.Mul(three, x)
	l = b.Mul(l, three).Sub(b.Mul(three, three))
	require.Zero(t, b.constraints())
	b.AssertEqual(l, x) // 9x − 9 = x
	s, err := b.Compile()
	require.NoError(t, err)
	var x98 fr.Element
	nine, eight := fr.NewElement(9), fr.NewElement(8)
	w, err := s.Witness(t.Context(), []fr.Element{*x98.Div(&nine, &eight)}, nil)
	require.NoError(t, err)
	require.NoError(t, s.Check(w))
}

func TestCompileTwice(t *testing.T) {
	b := NewBuilder()
	x := b.Public()
	square := b.Mul(x, x)
	first, err := b.Compile()
	require.NoError(t, err)
	hash := first.Hash()
	b.Mul(square, x)
	second, err := b.Compile()
	require.NoError(t, err)
	assert.Equal(t, 1, first.NumConstraints())
	assert.Equal(t, hash, first.Hash())
	assert.Equal(t, 2, second.NumConstraints())
}

func TestHash(t *testing.T) {
	build := func(f func(b *Builder)) [32]byte {
		b := NewBuilder()
		f(b)
		s, err := b.Compile()
		require.NoError(t, err)
		return s.Hash()
	}
	seen := make(map[[32]byte]string)
	for _, test := range []struct {
		name  string
		build func(b *Builder)
	}{
		{"product", func(b *Builder) { b.Mul(b.Public(), b.Private()) }},
		{"both public", func(b *Builder) { b.Mul(b.Public(), b.Public()) }},
		{"other coefficient", func(b *Builder) { b.Mul(b.Public(), b.Private().Scale(minusOne)) }},
		{"new coefficient", func(b *Builder) { b.Mul(b.Public(), b.Private().Scale(fr.NewElement(2))) }},
		{"other new coefficient", func(b *Builder) { b.Mul(b.Public(), b.Private().Scale(fr.NewElement(3))) }},
		{"other side", func(b *Builder) { p := b.Public(); b.Mul(b.Private(), p) }},
	} {
		hash := build(test.build)
		assert.Empty(t, seen[hash], test.name)
		assert.Equal(t, hash, build(test.build), test.name)
		seen[hash] = test.name
	}
}

func Example() {
	b := NewBuilder()
	y := b.Public()
	x := b.Private()
	b.AssertEqual(b.Mul(b.Mul(x, x), x), y) // x³ = y
	system, err := b.Compile()
	if err != nil {
		panic(err)
	}
	w, err := system.Witness(context.Background(), []fr.Element{fr.NewElement(27)}, []fr.Element{fr.NewElement(3)})
	if err != nil {
		panic(err)
	}
	fmt.Println(system.NumConstraints(), "constraints,", len(w), "variables,", system.Check(w))
	// Output: 3 constraints, 5 variables, <nil>
}

package r1cs

import "github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

// A variable of a circuit under construction: its kind, and its number among
// those of the kind. The order is that of the final numbering, so a row sorted
// here stays sorted there.
type variable uint32

const (
	constantKind variable = iota << kindShift
	publicKind
	privateKind
	computedKind

	kindShift = 30
	perKind   = 1 << kindShift
)

func (v variable) kind() variable { return v &^ (perKind - 1) }
func (v variable) index() uint32  { return uint32(v) & (perKind - 1) }

// A Linear is a linear combination of a circuit's variables. It is a value:
// operations return new ones. The zero Linear is 0.
type Linear struct {
	owner *Builder // nil for a constant
	terms []term   // by variable, no coefficient is 0
}

type term struct {
	variable    variable
	coefficient fr.Element
}

// mixed owns what is made of the variables of two circuits, and no circuit
// takes it.
var mixed = new(Builder)

// Constant returns c.
func Constant(c fr.Element) Linear {
	if c.IsZero() {
		return Linear{}
	}
	return Linear{terms: []term{{constantKind, c}}}
}

// Add returns l + m.
func (l Linear) Add(m Linear) Linear {
	sum := Linear{owner: l.owner, terms: make([]term, 0, len(l.terms)+len(m.terms))}
	switch {
	case l.owner == nil:
		sum.owner = m.owner
	case m.owner != nil && m.owner != l.owner:
		sum.owner = mixed
	}
	a, b := l.terms, m.terms
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].variable < b[0].variable:
			sum.terms, a = append(sum.terms, a[0]), a[1:]
		case a[0].variable > b[0].variable:
			sum.terms, b = append(sum.terms, b[0]), b[1:]
		default:
			t := a[0]
			if t.coefficient.Add(&t.coefficient, &b[0].coefficient); !t.coefficient.IsZero() {
				sum.terms = append(sum.terms, t)
			}
			a, b = a[1:], b[1:]
		}
	}
	sum.terms = append(append(sum.terms, a...), b...)
	return sum
}

// Sub returns l − m.
func (l Linear) Sub(m Linear) Linear { return l.Add(m.Scale(minusOne)) }

// Scale returns c·l.
func (l Linear) Scale(c fr.Element) Linear {
	if c.IsZero() {
		return Linear{}
	}
	scaled := Linear{owner: l.owner, terms: make([]term, len(l.terms))}
	for i, t := range l.terms {
		t.coefficient.Mul(&t.coefficient, &c)
		scaled.terms[i] = t
	}
	return scaled
}

// value returns the value of a linear combination that is a constant.
func (l Linear) value() (fr.Element, bool) {
	switch {
	case len(l.terms) == 0:
		return fr.Element{}, true
	case len(l.terms) == 1 && l.terms[0].variable == constantKind:
		return l.terms[0].coefficient, true
	}
	return fr.Element{}, false
}

package r1cs

import "github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

// A Matrix holds a row for each constraint and a column for each variable, as
// compressed sparse rows: those of row i are the entries from RowStart[i] to
// RowStart[i+1], by column. It must not be changed.
type Matrix struct {
	RowStart     []uint32     // one more than there are constraints
	Column       []uint32     // of an entry
	Value        []uint32     // of an entry, its place in Coefficients
	Coefficients []fr.Element // the distinct values of all matrices, first 1 and −1
}

// Places in Coefficients.
const (
	valueOne = iota
	valueMinusOne
)

// dot sets z to the product of a row and w.
func (m *Matrix) dot(z *fr.Element, row uint32, w []fr.Element) {
	z.SetZero()
	start, end := m.RowStart[row], m.RowStart[row+1]
	column, value := m.Column[start:end], m.Value[start:end]
	for i, col := range column {
		switch v := value[i]; v {
		case valueOne:
			z.Add(z, &w[col])
		case valueMinusOne:
			z.Sub(z, &w[col])
		default:
			var t fr.Element
			t.Mul(&m.Coefficients[v], &w[col])
			z.Add(z, &t)
		}
	}
}

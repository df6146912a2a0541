package groth16

import (
	"context"
	"iter"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"golang.org/x/sync/errgroup"
)

// A group has the points of G1 or G2: J in Jacobian coordinates, A in affine
// ones.
type (
	jacobian[J, A any] interface {
		*J
		Set(*J) *J
		FromAffine(*A) *J
		AddAssign(*J) *J
		AddMixed(*A) *J
	}
	affine[J, A any] interface {
		*A
		FromJacobian(*J) *A
	}
)

// A multiplier has the multiples of a point from which a sum of one for each
// byte of a scalar makes any other: this takes a tenth of the time that
// doubling and adding does, and Setup multiplies the generators some hundred
// thousand times.
type multiplier[J, A any, PJ jacobian[J, A], PA affine[J, A]] struct {
	multiples [fr.Bytes][255]A // d·256ⁱ of the point, at i and d − 1
}

func newMultiplier[J, A any, PJ jacobian[J, A], PA affine[J, A]](point *A) *multiplier[J, A, PJ, PA] {
	m := new(multiplier[J, A, PJ, PA])
	var unit J // 256ⁱ of the point
	PJ(&unit).FromAffine(point)
	for i := range m.multiples {
		multiple := unit
		for d := range m.multiples[i] {
			PA(&m.multiples[i][d]).FromJacobian(&multiple)
			PJ(&multiple).AddAssign(&unit)
		}
		unit = multiple
	}
	return m
}

// multiply returns the multiples of the point by the scalars.
func (m *multiplier[J, A, PJ, PA]) multiply(ctx context.Context, scalars []fr.Element, tasks int) ([]A, error) {
	const perTask = 512 // some milliseconds
	points := make([]A, len(scalars))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(tasks)
	for from, to := range ranges(len(scalars), max(1, len(scalars)/perTask)) {
		g.Go(func() error {
			for i := from; i < to && ctx.Err() == nil; i++ {
				var sum J
				PJ(&sum).FromAffine(new(A))             // infinity
				for at, d := range scalars[i].Bytes() { // the highest first
					if d != 0 {
						PJ(&sum).AddMixed(&m.multiples[fr.Bytes-1-at][d-1])
					}
				}
				PA(&points[i]).FromJacobian(&sum)
			}
			return context.Cause(ctx)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return points, nil
}

// ranges divides the numbers from 0 to n among tasks, as evenly as can be.
func ranges(n, tasks int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for i := range tasks {
			if from, to := n*i/tasks, n*(i+1)/tasks; from < to && !yield(from, to) {
				return
			}
		}
	}
}

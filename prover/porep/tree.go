package porep

import (
	"context"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/provetrace/provetrace/prover/r1cs"
)

// A tree is a binary Merkle tree: the root is at 1, the children of i are at
// 2·i and 2·i + 1.
type tree []fr.Element

// hashesBetween looks at a context: a few milliseconds.
const hashesBetween = 512

// newTree takes a power of two of leaves.
func newTree(ctx context.Context, leaves []fr.Element) (tree, error) {
	t := make(tree, 2*len(leaves))
	copy(t[len(leaves):], leaves)
	for i := len(leaves) - 1; i > 0; i-- {
		if i%hashesBetween == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		t[i] = compress(&t[2*i], &t[2*i+1])
	}
	return t, nil
}

func (t tree) root() fr.Element { return t[1] }

func (t tree) leaf(i uint32) fr.Element { return t[len(t)/2+int(i)] }

// appendPath appends the siblings on the way from a leaf to the root.
func (t tree) appendPath(dst []fr.Element, leaf uint32) []fr.Element {
	for i := len(t)/2 + int(leaf); i > 1; i /= 2 {
		dst = append(dst, t[i^1])
	}
	return dst
}

// rootGadget returns the root over a leaf, whose siblings are private inputs.
// index are the bits of the leaf's place, lowest first.
func rootGadget(b *r1cs.Builder, leaf r1cs.Linear, index []r1cs.Linear) r1cs.Linear {
	node := leaf
	for _, isRight := range index {
		sibling := b.Private()
		left := b.Select(isRight, sibling, node)
		right := node.Add(sibling).Sub(left)
		node = compressGadget(b, left, right)
	}
	return node
}

package porep

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// A graph gives the parents of the nodes of a sector.
type graph struct {
	nodes uint32 // a power of two
}

// base returns the parents of node v in its own layer. The second is as far
// back as bucket sampling draws it: a power of two first, each as likely, then
// a distance between its half and it.
func (g graph) base(v uint32) [baseParents]uint32 {
	if v < 2 {
		return [baseParents]uint32{}
	}
	random := digest("base parent", uint64(g.nodes), uint64(v))
	bucket := 1 + binary.BigEndian.Uint64(random[:])%uint64(bits.Len32(v))
	furthest := min(uint64(v), 1<<bucket)
	nearest := max(furthest/2, 2)
	distance := nearest + binary.BigEndian.Uint64(random[8:])%(furthest-nearest+1)
	return [baseParents]uint32{v - 1, v - uint32(distance)}
}

// expander returns the parents of node v in the layer before.
func (g graph) expander(v uint32) (parents [expanderParents]uint32) {
	for i := range parents {
		parents[i] = g.permute(v*expanderParents+uint32(i)) / expanderParents
	}
	return parents
}

// permute is a permutation of the edges between two layers: a Feistel network
// of three rounds (Luby and Rackoff, "How to Construct Pseudorandom Permutations
// from Pseudorandom Functions", 1988), walked until it is among the edges.
func (g graph) permute(edge uint32) uint32 {
	edges := g.nodes * expanderParents
	half := (bits.Len32(edges-1) + 1) / 2
	mask := uint32(1)<<half - 1
	for {
		left, right := edge>>half, edge&mask
		for round := range uint64(3) {
			key := digest("expander round", uint64(g.nodes), round, uint64(right))
			left, right = right, left^binary.BigEndian.Uint32(key[:])&mask
		}
		if edge = left<<half | right; edge < edges {
			return edge
		}
	}
}

// digest is SHA-256 of numbers, for a use of its own.
func digest(use string, numbers ...uint64) [32]byte {
	buf := append(make([]byte, 0, 64), "provetrace porep "+use+"\x00"...)
	for _, n := range numbers {
		buf = binary.BigEndian.AppendUint64(buf, n)
	}
	return sha256.Sum256(buf)
}

package porep

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// A SectorID names a sector.
type SectorID struct {
	Miner, Number uint64
}

// A Statement is what a verifier knows of a sector.
type Statement struct {
	Sector SectorID
	Ticket [32]byte // what the replica id draws on besides
	Seed   [32]byte // of the challenges
	CommD  fr.Element
	CommR  fr.Element
}

// replicaID is what all labels of the sector begin with.
func (st *Statement) replicaID() fr.Element {
	buf := []byte("provetrace porep replica id\x00")
	buf = binary.BigEndian.AppendUint64(buf, st.Sector.Miner)
	buf = binary.BigEndian.AppendUint64(buf, st.Sector.Number)
	buf = append(buf, st.Ticket[:]...)
	commD := st.CommD.Bytes()
	return element(sha256.Sum256(append(buf, commD[:]...)))
}

// challenges returns the nodes that a partition is asked for.
func (st *Statement) challenges(p Parameters, partition int) []uint32 {
	id, commR := st.replicaID(), st.CommR.Bytes()
	idBytes := id.Bytes()
	prefix := []byte("provetrace porep challenge\x00")
	prefix = append(append(append(prefix, idBytes[:]...), commR[:]...), st.Seed[:]...)
	nodes := make([]uint32, p.Challenges)
	for i := range nodes {
		random := sha256.Sum256(binary.BigEndian.AppendUint64(prefix, uint64(partition*p.Challenges+i)))
		nodes[i] = uint32(binary.BigEndian.Uint64(random[:])%uint64(p.Nodes-1)) + 1
	}
	return nodes
}

// element cuts a digest to 254 bits, which every element has.
func element(digest [32]byte) (e fr.Element) {
	digest[0] &= 0x3f
	return *e.SetBytes(digest[:])
}

// PublicInputs derives the public inputs of a partition, as a verifier does.
func PublicInputs(p Parameters, st Statement, partition int) ([]fr.Element, error) {
	p, err := p.complete()
	if err != nil {
		return nil, err
	}
	if partition < 0 || partition >= p.Partitions {
		return nil, fmt.Errorf("porep: a sector has no partition %d: give 0 to %d", partition, p.Partitions-1)
	}
	inputs := []fr.Element{st.replicaID(), st.CommD, st.CommR}
	g, shift := graph{uint32(p.Nodes)}, fr.NewElement(uint64(p.Nodes))
	for _, v := range st.challenges(p, partition) {
		base, expander := g.base(v), g.expander(v)
		nodes := append(append([]uint32{v}, base[:]...), expander[:]...)
		var packed fr.Element
		for i := len(nodes) - 1; i >= 0; i-- {
			node := fr.NewElement(uint64(nodes[i]))
			packed.Mul(&packed, &shift).Add(&packed, &node)
		}
		inputs = append(inputs, packed)
	}
	return inputs, nil
}

// A Replica is a sealed sector, with all that its proof needs.
type Replica struct {
	parameters Parameters
	statement  Statement
	labels     [][]fr.Element // by layer and node
	data       tree
	column     tree
	replica    tree
}

// Seal makes a sector with pseudo-random data and encodes it. The same
// identity and seed give the same replica.
func (p Parameters) Seal(ctx context.Context, id SectorID, seed [32]byte) (*Replica, error) {
	p, err := p.complete()
	if err != nil {
		return nil, err
	}
	r := &Replica{parameters: p}
	r.statement.Sector = id
	if err := r.seal(ctx, seed); err != nil {
		return nil, fmt.Errorf("porep: seal sector %d of miner %d: %w", id.Number, id.Miner, err)
	}
	return r, nil
}

func (r *Replica) seal(ctx context.Context, seed [32]byte) (err error) {
	st := &r.statement
	derive := func(use string, i int) [32]byte {
		buf := append([]byte("provetrace porep "+use+"\x00"), seed[:]...)
		for _, n := range []uint64{st.Sector.Miner, st.Sector.Number, uint64(i)} {
			buf = binary.BigEndian.AppendUint64(buf, n)
		}
		return sha256.Sum256(buf)
	}
	st.Ticket, st.Seed = derive("ticket", 0), derive("seed", 0)
	data := make([]fr.Element, r.parameters.Nodes)
	for v := range data {
		data[v] = element(derive("data", v))
	}
	if r.data, err = newTree(ctx, data); err != nil {
		return err
	}
	st.CommD = r.data.root()
	if err := r.label(ctx); err != nil {
		return err
	}
	return r.commit(ctx)
}

// label computes the labels of all layers, one node after the other, as each
// depends on the one before.
func (r *Replica) label(ctx context.Context) error {
	g := graph{uint32(r.parameters.Nodes)}
	id := r.statement.replicaID()
	var values []fr.Element
	for layer := range r.parameters.Layers {
		labels := make([]fr.Element, r.parameters.Nodes)
		for v := range uint32(len(labels)) {
			if v%hashesBetween == 0 && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			values = append(values[:0], id, place(layer, v))
			if v > 0 {
				for _, parent := range g.base(v) {
					values = append(values, labels[parent])
				}
			}
			if v > 0 && layer > 0 {
				for _, parent := range g.expander(v) {
					values = append(values, r.labels[layer-1][parent])
				}
			}
			labels[v] = chain(labelChain, values)
		}
		r.labels = append(r.labels, labels)
	}
	return nil
}

// commit builds the trees over the labels and over the replica.
func (r *Replica) commit(ctx context.Context) (err error) {
	leaves := make([]fr.Element, r.parameters.Nodes)
	labels := make([]fr.Element, r.parameters.Layers)
	for v := range leaves {
		if v%hashesBetween == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for layer := range labels {
			labels[layer] = r.labels[layer][v]
		}
		leaves[v] = chain(columnChain, labels)
	}
	if r.column, err = newTree(ctx, leaves); err != nil {
		return err
	}
	for v := range leaves {
		data := r.data.leaf(uint32(v))
		leaves[v].Add(&data, &r.labels[r.parameters.Layers-1][v])
	}
	if r.replica, err = newTree(ctx, leaves); err != nil {
		return err
	}
	commC, commRLast := r.column.root(), r.replica.root()
	r.statement.CommR = compress(&commC, &commRLast)
	return nil
}

// Statement returns what a verifier is told.
func (r *Replica) Statement() Statement { return r.statement }

// PublicInputs returns the public inputs of a partition, nil if the sector does
// not have it.
func (r *Replica) PublicInputs(partition int) []fr.Element {
	inputs, err := PublicInputs(r.parameters, r.statement, partition)
	if err != nil {
		return nil
	}
	return inputs
}

// PrivateInputs returns the private inputs of a partition, nil if the sector
// does not have it.
func (r *Replica) PrivateInputs(partition int) []fr.Element {
	if partition < 0 || partition >= r.parameters.Partitions {
		return nil
	}
	g := graph{uint32(r.parameters.Nodes)}
	inputs := []fr.Element{r.column.root(), r.replica.root()}
	for _, v := range r.statement.challenges(r.parameters, partition) {
		inputs = r.data.appendPath(append(inputs, r.data.leaf(v)), v)
		base, expander := g.base(v), g.expander(v)
		for _, parent := range append(base[:], expander[:]...) {
			for _, labels := range r.labels {
				inputs = append(inputs, labels[parent])
			}
			inputs = r.column.appendPath(inputs, parent)
		}
		inputs = r.column.appendPath(inputs, v)
		inputs = r.replica.appendPath(inputs, v)
	}
	return inputs
}

package porep

import (
	"fmt"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/provetrace/provetrace/prover/r1cs"
)

// A Circuit is the circuit of a partition.
type Circuit struct {
	parameters Parameters
	system     *r1cs.System
}

// NewCircuit compiles the circuit of the partitions of given sizes.
func NewCircuit(p Parameters) (*Circuit, error) {
	p, err := p.complete()
	if err != nil {
		return nil, err
	}
	system, err := compile(p)
	if err != nil {
		return nil, fmt.Errorf("porep: compile the circuit of a partition: %w", err)
	}
	return &Circuit{p, system}, nil
}

// Parameters returns the sizes, with the defaults filled in.
func (c *Circuit) Parameters() Parameters { return c.parameters }

// System returns the circuit itself.
func (c *Circuit) System() *r1cs.System { return c.system }

// compile writes down the statement. The order of the inputs is that of
// PublicInputs and Replica.PrivateInputs.
func compile(p Parameters) (*r1cs.System, error) {
	b := r1cs.NewBuilder()
	id, commD, commR := b.Public(), b.Public(), b.Public()
	commC, commRLast := b.Private(), b.Private()
	b.Section("comm_R")
	b.AssertEqual(compressGadget(b, commC, commRLast), commR)

	for challenge := range p.Challenges {
		section := func(name string) { b.Section(fmt.Sprintf("challenge %d: %s", challenge, name)) }
		column := func(labels, index []r1cs.Linear) {
			b.AssertEqual(rootGadget(b, chainGadget(b, columnChain, labels), index), commC)
		}

		section("nodes")
		indices := b.Bits(b.Public(), (1+baseParents+expanderParents)*p.depth())
		next := func() []r1cs.Linear {
			index := indices[:p.depth()]
			indices = indices[p.depth():]
			return index
		}
		index := next()

		section("data")
		data := b.Private()
		b.AssertEqual(rootGadget(b, data, index), commD)

		var parents [baseParents + expanderParents][]r1cs.Linear // of a parent, its labels
		for i := range parents {
			section(fmt.Sprintf("column of parent %d", i))
			for range p.Layers {
				parents[i] = append(parents[i], b.Private())
			}
			column(parents[i], next())
		}

		section("labels")
		var labels []r1cs.Linear
		node, weight := r1cs.Linear{}, fr.One()
		for _, bit := range index {
			node = node.Add(bit.Scale(weight))
			weight.Double(&weight)
		}
		for layer := range p.Layers {
			values := []r1cs.Linear{id, node.Add(r1cs.Constant(place(layer, 0)))}
			for _, parent := range parents[:baseParents] {
				values = append(values, parent[layer])
			}
			if layer > 0 {
				for _, parent := range parents[baseParents:] {
					values = append(values, parent[layer-1])
				}
			}
			labels = append(labels, chainGadget(b, labelChain, values))
		}

		section("column")
		column(labels, index)

		section("replica")
		b.AssertEqual(rootGadget(b, data.Add(labels[p.Layers-1]), index), commRLast)
	}
	return b.Compile()
}

// place tells labels apart: l·2³² + v. Layers are counted from 0 here.
func place(layer int, node uint32) fr.Element {
	return fr.NewElement(uint64(layer+1)<<32 | uint64(node))
}

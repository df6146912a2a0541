package porep

import (
	"fmt"
	"math/bits"
)

// Parameters are the sizes of sectors and proofs. A zero field has its default.
type Parameters struct {
	Nodes      int // of a sector: a power of two
	Layers     int
	Challenges int // of a partition
	Partitions int
}

const (
	baseParents     = 2
	expanderParents = 2

	minNodes, maxNodes           = 4, 1 << 20
	minLayers, maxLayers         = 2, 16
	minChallenges, maxChallenges = 1, 128
	minPartitions, maxPartitions = 1, 256
)

// DefaultParameters are those of a partition with just under 2^15 constraints,
// which two cores prove in less than a second.
func DefaultParameters() Parameters {
	return Parameters{Nodes: 512, Layers: 2, Challenges: 2, Partitions: 10}
}

// Validate returns an error for a size that there cannot be.
func (p Parameters) Validate() error {
	_, err := p.complete()
	return err
}

// complete returns p with its defaults.
func (p Parameters) complete() (Parameters, error) {
	defaults := DefaultParameters()
	for _, size := range []struct {
		value              *int
		name               string
		initial, low, high int
	}{
		{&p.Nodes, "nodes", defaults.Nodes, minNodes, maxNodes},
		{&p.Layers, "layers", defaults.Layers, minLayers, maxLayers},
		{&p.Challenges, "challenges a partition", defaults.Challenges, minChallenges, maxChallenges},
		{&p.Partitions, "partitions", defaults.Partitions, minPartitions, maxPartitions},
	} {
		if *size.value == 0 {
			*size.value = size.initial
		}
		if *size.value < size.low || *size.value > size.high {
			return p, fmt.Errorf("porep: a sector cannot have %d %s: give %d to %d", *size.value, size.name, size.low, size.high)
		}
	}
	if bits.OnesCount(uint(p.Nodes)) != 1 {
		return p, fmt.Errorf("porep: a sector cannot have %d nodes: give a power of two, such as %d", p.Nodes, 1<<bits.Len(uint(p.Nodes)))
	}
	return p, nil
}

// depth is the number of levels below the root of a tree over all nodes.
func (p Parameters) depth() int { return bits.TrailingZeros(uint(p.Nodes)) }

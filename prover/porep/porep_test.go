package porep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr/poseidon2"
	gnarkhash "github.com/consensys/gnark-crypto/hash"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/provetrace/provetrace/prover/r1cs"
)

func drawElements(t *rapid.T, atMost int) []fr.Element {
	out := make([]fr.Element, rapid.IntRange(1, atMost).Draw(t, "values"))
	for i := range out {
		out[i].SetBytes(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "value"))
	}
	return out
}

// The chain is gnark-crypto's Merkle–Damgård hash with another initial value.
func TestChainIsPoseidon2(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := drawElements(t, 20)
		start := initial(labelChain, len(values))
		h := gnarkhash.NewMerkleDamgardHasher(poseidon2.NewDefaultPermutation(), start.Marshal())
		for _, v := range values {
			_, err := h.Write(v.Marshal())
			require.NoError(t, err)
		}
		hash := chain(labelChain, values)
		require.Equal(t, h.Sum(nil), hash.Marshal())
	})
}

func TestChainGadget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := drawElements(t, 4)
		b := r1cs.NewBuilder()
		out := b.Public()
		inputs := make([]r1cs.Linear, len(values))
		for i := range inputs {
			inputs[i] = b.Private()
		}
		b.AssertEqual(chainGadget(b, columnChain, inputs), out)
		s, err := b.Compile()
		require.NoError(t, err)

		hash := chain(columnChain, values)
		w, err := s.Witness(t.Context(), []fr.Element{hash}, values)
		require.NoError(t, err)
		require.NoError(t, s.Check(w))
		hash.Double(&hash)
		w, err = s.Witness(t.Context(), []fr.Element{hash}, values)
		require.NoError(t, err)
		require.Error(t, s.Check(w))
	})
}

func TestGraph(t *testing.T) {
	for nodes := uint32(minNodes); nodes <= 1<<12; nodes *= 2 {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			g := graph{nodes}
			children := make([]int, nodes)
			for v := range nodes {
				base := g.base(v)
				if v > 0 {
					assert.Equal(t, v-1, base[0])
					assert.Less(t, base[1], v)
				}
				if v > 1 {
					assert.LessOrEqual(t, base[1], v-2)
				}
				for _, parent := range g.expander(v) {
					children[parent]++
				}
			}
			for v, n := range children {
				assert.Equal(t, expanderParents, n, "children of %d", v)
			}
		})
	}
}

func TestSectorsSatisfyTheCircuit(t *testing.T) {
	for _, p := range []Parameters{
		{Nodes: 4, Layers: 2, Challenges: 1, Partitions: 1},
		{Nodes: 8, Layers: 2, Challenges: 2, Partitions: 3},
		{Nodes: 32, Layers: 5, Challenges: 1, Partitions: 2},
		{Nodes: 128, Layers: 3, Challenges: 4, Partitions: 2},
		{Nodes: 2048, Layers: 3, Challenges: 3, Partitions: 2},
		{},
	} {
		t.Run(fmt.Sprintf("%+v", p), func(t *testing.T) {
			c, err := NewCircuit(p)
			require.NoError(t, err)
			s := c.System()
			for number := range uint64(2) {
				r := seal(t, p, number)
				for partition := range c.Parameters().Partitions {
					public, err := PublicInputs(p, r.Statement(), partition)
					require.NoError(t, err)
					require.Equal(t, public, r.PublicInputs(partition))
					w, err := s.Witness(t.Context(), public, r.PrivateInputs(partition))
					require.NoError(t, err)
					require.NoError(t, s.Check(w))
				}
			}
		})
	}
}

func seal(t testing.TB, p Parameters, number uint64) *Replica {
	r, err := p.Seal(t.Context(), SectorID{Miner: 1000, Number: number}, [32]byte{1})
	require.NoError(t, err)
	return r
}

// check returns what the circuit says of these inputs.
func check(t testing.TB, c *Circuit, public, private []fr.Element) error {
	w, err := c.System().Witness(t.Context(), public, private)
	require.NoError(t, err)
	return c.System().Check(w)
}

var small = Parameters{Nodes: 16, Layers: 2, Challenges: 2, Partitions: 4}

func TestTamperedInputs(t *testing.T) {
	c, err := NewCircuit(small)
	require.NoError(t, err)
	r := seal(t, small, 1)
	public, private := r.PublicInputs(0), r.PrivateInputs(0)
	require.NoError(t, check(t, c, public, private))
	one := fr.One()
	for _, inputs := range [][]fr.Element{public, private} {
		for i := range inputs {
			right := inputs[i]
			inputs[i].Add(&inputs[i], &one)
			assert.Error(t, check(t, c, public, private), "input %d of %d", i, len(inputs))
			inputs[i] = right
		}
	}
	minusOne := *new(fr.Element).Neg(&one)
	for name, inputs := range map[string][2][]fr.Element{
		"another partition": {r.PublicInputs(1), private},
		"another sector":    {seal(t, small, 2).PublicInputs(0), private},
		"a large challenge": {append(slices.Clone(public[:4]), minusOne), private},
	} {
		assert.Error(t, check(t, c, inputs[0], inputs[1]), name)
	}
}

// A sealer that keeps wrong labels or data commits to them consistently, so
// only the recomputation can tell.
func TestDishonestSealer(t *testing.T) {
	c, err := NewCircuit(small)
	require.NoError(t, err)
	one := fr.One()
	for _, test := range []struct {
		name   string
		change func(r *Replica)
		err    string
	}{
		{"first layer", func(r *Replica) {
			for v := range r.labels[0] {
				r.labels[0][v].Add(&r.labels[0][v], &one)
			}
		}, "(challenge 0: column)"},
		{"last layer", func(r *Replica) {
			for v := range r.labels[1] {
				r.labels[1][v].Add(&r.labels[1][v], &one)
			}
		}, "(challenge 0: column)"},
		{"data", func(r *Replica) {
			for i := range r.data {
				r.data[i].Add(&r.data[i], &one)
			}
		}, "(challenge 0: data)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := seal(t, small, 1)
			test.change(r)
			require.NoError(t, r.commit(t.Context()))
			require.ErrorContains(t, check(t, c, r.PublicInputs(0), r.PrivateInputs(0)), test.err)
		})
	}
}

// What a verifier is told wrongly gives other inputs, which the proof is not for.
func TestStatementIsBound(t *testing.T) {
	c, err := NewCircuit(small)
	require.NoError(t, err)
	r := seal(t, small, 1)
	one := fr.One()
	for name, change := range map[string]func(st *Statement){
		"miner":  func(st *Statement) { st.Sector.Miner++ },
		"number": func(st *Statement) { st.Sector.Number++ },
		"ticket": func(st *Statement) { st.Ticket[0]++ },
		"seed":   func(st *Statement) { st.Seed[0]++ },
		"comm_D": func(st *Statement) { st.CommD.Add(&st.CommD, &one) },
		"comm_R": func(st *Statement) { st.CommR.Add(&st.CommR, &one) },
	} {
		t.Run(name, func(t *testing.T) {
			st := r.Statement()
			change(&st)
			public, err := PublicInputs(small, st, 0)
			require.NoError(t, err)
			require.Error(t, check(t, c, public, r.PrivateInputs(0)))
		})
	}
}

func TestChallenges(t *testing.T) {
	p, err := Parameters{Nodes: 4, Challenges: 100, Partitions: 2}.complete()
	require.NoError(t, err)
	r := seal(t, p, 1)
	seen := make(map[uint32]int)
	for partition := range p.Partitions {
		for _, v := range r.statement.challenges(p, partition) {
			seen[v]++
		}
	}
	assert.Len(t, seen, 3)
	assert.Zero(t, seen[0])
	assert.NotEqual(t, r.statement.challenges(p, 0), r.statement.challenges(p, 1))
}

func TestSealIsDeterministic(t *testing.T) {
	first := seal(t, small, 1)
	require.Equal(t, first, seal(t, small, 1))
	other, err := small.Seal(t.Context(), SectorID{1000, 1}, [32]byte{2})
	require.NoError(t, err)
	for _, r := range []*Replica{other, seal(t, small, 2)} {
		assert.NotEqual(t, first.statement.CommD, r.statement.CommD)
		assert.NotEqual(t, first.statement.CommR, r.statement.CommR)
		assert.NotEqual(t, first.statement.Ticket, r.statement.Ticket)
		assert.NotEqual(t, first.statement.Seed, r.statement.Seed)
	}
}

// The circuit is what proving keys are for: a change makes kept ones useless.
func TestCircuitIsDeterministic(t *testing.T) {
	hash := func(p Parameters) [32]byte {
		c, err := NewCircuit(p)
		require.NoError(t, err)
		return c.System().Hash()
	}
	first := hash(small)
	assert.Equal(t, first, hash(small))
	p := small
	p.Partitions++ // all partitions share it
	assert.Equal(t, first, hash(p))
	p.Challenges++
	assert.NotEqual(t, first, hash(p))
}

func TestParameters(t *testing.T) {
	for _, test := range []struct {
		p   Parameters
		err string
	}{
		{Parameters{}, ""},
		{DefaultParameters(), ""},
		{Parameters{Nodes: 4, Layers: 2, Challenges: 1, Partitions: 1}, ""},
		{Parameters{Nodes: 1000}, "porep: a sector cannot have 1000 nodes: give a power of two, such as 1024"},
		{Parameters{Nodes: 2}, "porep: a sector cannot have 2 nodes: give 4 to 1048576"},
		{Parameters{Nodes: -4}, "porep: a sector cannot have -4 nodes: give 4 to 1048576"},
		{Parameters{Nodes: 1 << 30}, "porep: a sector cannot have 1073741824 nodes: give 4 to 1048576"},
		{Parameters{Layers: 1}, "porep: a sector cannot have 1 layers: give 2 to 16"},
		{Parameters{Challenges: 129}, "porep: a sector cannot have 129 challenges a partition: give 1 to 128"},
		{Parameters{Partitions: -1}, "porep: a sector cannot have -1 partitions: give 1 to 256"},
	} {
		err := test.p.Validate()
		if test.err == "" {
			assert.NoError(t, err)
			continue
		}
		assert.EqualError(t, err, test.err)
		_, err = NewCircuit(test.p)
		assert.EqualError(t, err, test.err)
		_, err = test.p.Seal(t.Context(), SectorID{}, [32]byte{})
		assert.EqualError(t, err, test.err)
		_, err = PublicInputs(test.p, Statement{}, 0)
		assert.EqualError(t, err, test.err)
	}
}

// The defaults fill the domain that proving takes, with room for the rows that
// hold the public inputs, if there are any.
func TestDefaultsFillADomain(t *testing.T) {
	c, err := NewCircuit(Parameters{})
	require.NoError(t, err)
	rows := c.System().NumConstraints() + c.System().NumPublic()
	assert.LessOrEqual(t, rows, 1<<15)
	assert.Greater(t, rows, 1<<15*9/10)
}

func TestNoSuchPartition(t *testing.T) {
	r := seal(t, small, 1)
	for _, partition := range []int{-1, small.Partitions} {
		_, err := PublicInputs(small, r.Statement(), partition)
		assert.ErrorContains(t, err, fmt.Sprintf("porep: a sector has no partition %d: give 0 to 3", partition))
		assert.Nil(t, r.PublicInputs(partition))
		assert.Nil(t, r.PrivateInputs(partition))
	}
}

func TestSealStops(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped")
	cancel(stop)
	_, err := Parameters{Nodes: 1 << 20}.Seal(ctx, SectorID{Miner: 1000, Number: 7}, [32]byte{})
	require.ErrorIs(t, err, stop)
	require.ErrorContains(t, err, "porep: seal sector 7 of miner 1000: ")
}

func Example() {
	ctx := context.Background()
	p := Parameters{Nodes: 64, Challenges: 1}
	circuit, err := NewCircuit(p)
	if err != nil {
		panic(err)
	}
	replica, err := p.Seal(ctx, SectorID{Miner: 1000, Number: 42}, [32]byte{})
	if err != nil {
		panic(err)
	}
	public, err := PublicInputs(p, replica.Statement(), 0) // as the verifier does
	if err != nil {
		panic(err)
	}
	witness, err := circuit.System().Witness(ctx, public, replica.PrivateInputs(0))
	if err != nil {
		panic(err)
	}
	fmt.Println(len(public), "public inputs,", circuit.System().Check(witness))
	// Output: 4 public inputs, <nil>
}

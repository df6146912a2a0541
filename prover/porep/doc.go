// Package porep is a proof of replication in the shape of Filecoin's, at sizes
// that a CPU proves in a second. What goes in is a sector's identity and a
// seed; what comes out is its replica, and for each partition of its proof the
// inputs of one circuit, which all partitions of all sectors share.
//
// It follows the stacked depth-robust graphs of Fisch ("Tight Proofs of Space
// and Replication", EUROCRYPT 2019; "PoReps: Proofs of Space on Useful Data")
// as the Filecoin specification has them under "Stacked DRG: PoRep". The
// hashes, the degrees and the number of challenges are smaller, and the chain's
// randomness is derived from the seed: it is a load for a prover, and secures
// no storage.
//
// # The sector
//
// All values are elements of the scalar field of BLS12-381. A sector has
// Nodes = 2^d nodes and Layers layers; v is a node, l a layer from 1.
//
//	id        = SHA-256(miner, number, ticket, comm_D), cut to 254 bits
//	label_l,v = H_label(id, l·2³² + v, label_l,p for the base parents p of v,
//	            label_l-1,q for the expander parents q of v, where l > 1)
//	column_v  = H_column(label_1,v … label_Layers,v)
//	replica_v = data_v + label_Layers,v
//	comm_D, comm_C, comm_R_last = the roots of Merkle trees over data, column
//	            and replica
//	comm_R    = H(comm_C, comm_R_last)
//
// Node 0 has no parents. The base parents of another are the node before it and
// one drawn by bucket sampling (Alwen, Blocki and Harsha, "Practical Graphs for
// Optimal Side-Channel Resistant Memory-Hard Functions", CCS 2017). The two
// expander parents follow from a permutation of all edges (Chung, "On
// Concentrators, Superconcentrators, Generalizers, and Nonblocking Networks",
// 1979), a Feistel network as in Filecoin, so every node is one's parent as
// often as another. The graph is the same for all sectors of a size.
//
// H is Poseidon2 (Grassi, Khovratovich and Schofnegger, "Poseidon2: A Faster
// Version of the Poseidon Hash Function", AFRICACRYPT 2023) at width 2 with
// gnark-crypto's default parameters, fed forward as its Compress does:
// H(l, r) = P(l, r)₁ + r. The hashes of more values are Merkle–Damgård chains
// of it, from an initial value that holds the use and the number of values.
//
// # The challenges
//
// Challenge i of the k of a partition p is the node
//
//	SHA-256(id, comm_R, seed, p·k + i) mod (Nodes − 1) + 1
//
// so it is never node 0, as in Filecoin, and all challenges have the same
// number of parents.
//
// # The statement
//
// The public inputs of a partition are id, comm_D, comm_R, and for each
// challenge one element that packs the challenged node (the lowest d bits) and
// its parents, d bits each, base parents first. The verifier derives all of
// them from the commitments, see PublicInputs: the graph is therefore not in
// the circuit. A packed element keeps the public inputs few, since each costs
// the verifier a scalar multiplication, and its bits, which the circuit needs
// anyway, determine it as long as 5·d is below the field's 254 bits.
//
// The prover knows comm_C and comm_R_last with comm_R = H(comm_C,
// comm_R_last) and, for each challenge v, data_v and columns of the parents of
// v, such that
//   - data_v is leaf v of comm_D,
//   - the column of each parent p is leaf p of comm_C,
//   - the column of the labels of v, each computed from the parents' labels by
//     the formula above, is leaf v of comm_C,
//   - data_v plus the last of these labels is leaf v of comm_R_last.
package porep

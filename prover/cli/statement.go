package cli

import (
	"context"
	"sync"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"go.opentelemetry.io/otel/trace"

	"github.com/provetrace/provetrace/prover"
	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/prover/porep"
	"github.com/provetrace/provetrace/tracing"
)

// A statement is what is proved of a sealed sector.
type statement struct {
	circuit *porep.Circuit
	replica *porep.Replica
	key     *groth16.VerifyingKey
	tasks   int // of the synthesis of a partition
}

func (s *statement) Partitions() int { return s.circuit.Parameters().Partitions }

func (s *statement) Synthesize(ctx context.Context, partition int, part func(name string)) (*groth16.Assignment, error) {
	sys := s.circuit.System()
	part(tracing.SpanWitness)
	w, err := sys.Witness(ctx, s.replica.PublicInputs(partition), s.replica.PrivateInputs(partition))
	if err != nil {
		return nil, err
	}
	part(tracing.SpanConstraints)
	a, b, c, err := sys.Evaluate(ctx, w, s.tasks)
	if err != nil {
		return nil, err
	}
	return &groth16.Assignment{Witness: w, A: a, B: b, C: c}, nil
}

// Verify derives the public inputs from the commitments, as a verifier does who
// has nothing else.
func (s *statement) Verify(ctx context.Context, proofs []groth16.Proof) error {
	return verify(ctx, s.circuit.Parameters(), s.replica.Statement(), s.key, proofs)
}

func verify(ctx context.Context, p porep.Parameters, st porep.Statement, key *groth16.VerifyingKey, proofs []groth16.Proof) error {
	publics := make([][]fr.Element, len(proofs))
	for i := range publics {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		if publics[i], err = porep.PublicInputs(p, st, i); err != nil {
			return err
		}
	}
	return groth16.VerifyBatch(key, publics, proofs)
}

// partitionBytes is about what a partition holds from the start of its
// synthesis until the device is done with it: its assignment, and of that what
// the device takes.
func partitionBytes(c *porep.Circuit) int64 {
	sys := c.System()
	variables, rows := int64(sys.NumVariables()), int64(sys.NumConstraints())
	domain := int64(1)
	for domain < rows {
		domain *= 2
	}
	return fr.Bytes * (variables + 3*rows + 3*domain + 3*variables)
}

// A begun tells when the synthesis of a statement begins, and in which trace.
type begun struct {
	prover.Statement
	once  sync.Once
	start chan struct{} // closed when it begins
	trace trace.TraceID // set before start is closed
}

func newBegun(s prover.Statement) *begun { return &begun{Statement: s, start: make(chan struct{})} }

func (b *begun) Synthesize(ctx context.Context, partition int, part func(name string)) (*groth16.Assignment, error) {
	b.once.Do(func() {
		b.trace = trace.SpanContextFromContext(ctx).TraceID()
		close(b.start)
	})
	return b.Statement.Synthesize(ctx, partition, part)
}

// traceID returns the trace of a statement whose synthesis has begun.
func (b *begun) traceID() (id trace.TraceID, known bool) {
	select {
	case <-b.start:
		return b.trace, b.trace.IsValid()
	default:
		return id, false
	}
}

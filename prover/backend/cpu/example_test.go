package cpu_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/provetrace/provetrace/prover/backend"
	"github.com/provetrace/provetrace/prover/backend/cpu"
	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/prover/r1cs"
)

// A proof that a root of x³ + x + 5 = 35 is known, from the circuit on.
func Example() {
	b := r1cs.NewBuilder()
	y, x := b.Public(), b.Private()
	b.AssertEqual(b.Mul(b.Mul(x, x), x).Add(x).Add(r1cs.Constant(fr.NewElement(5))), y)
	system, err := b.Compile()
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	pk, vk, err := groth16.Setup(ctx, system, nil, 2)
	if err != nil {
		log.Fatal(err)
	}

	// Synthesis.
	public := []fr.Element{fr.NewElement(35)}
	witness, err := system.Witness(ctx, public, []fr.Element{fr.NewElement(3)})
	if err != nil {
		log.Fatal(err)
	}
	assignment := &groth16.Assignment{Witness: witness}
	assignment.A, assignment.B, assignment.C, err = system.Evaluate(ctx, witness, 2)
	if err != nil {
		log.Fatal(err)
	}

	// The device.
	phase := func(name string, start, end time.Time) { fmt.Println(name) }
	device := cpu.New(pk, cpu.Options{}).Devices()[0]
	proving, err := device.Prepare(ctx, backend.Task{Assignment: assignment})
	if err != nil {
		log.Fatal(err)
	}
	defer proving.Release()
	if err := proving.Run(ctx, phase); err != nil {
		log.Fatal(err)
	}
	proof, err := proving.Finish(ctx, phase)
	if err != nil {
		log.Fatal(err)
	}

	if err := groth16.Verify(vk, public, proof); err != nil {
		log.Fatal(err)
	}
	fmt.Println("proved")
	// Output:
	// ntt h
	// msm h
	// msm l
	// msm a
	// msm b_g1
	// msm b_g2
	// proved
}

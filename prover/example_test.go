package prover_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/provetrace/provetrace/prover"
	"github.com/provetrace/provetrace/prover/backend/sim"
	"github.com/provetrace/provetrace/tracing"
)

// A simulated sector goes through the pipeline: 65 s of the engine's time in
// 65 ms.
func Example() {
	ctx := context.Background()
	traces, err := tracing.Setup(ctx, tracing.Options{File: "-", Writer: io.Discard}) // else by OTEL_*
	if err != nil {
		log.Fatal(err)
	}
	profile, err := sim.ProfileNamed("partition")
	if err != nil {
		log.Fatal(err)
	}
	devices, err := sim.New(sim.Options{Durations: profile.Durations(1), Scale: 1. / 1000})
	if err != nil {
		log.Fatal(err)
	}
	recorder := tracing.NewRecorder(traces.Stages(), tracing.RecorderOptions{
		Backend: devices.Name(),
		Devices: []tracing.Device{devices.Devices()[0].Info()},
	})
	pipeline, err := prover.New(prover.Options{Backend: devices, Recorder: recorder, SynthesisWorkers: profile.SynthesisWorkers})
	if err != nil {
		log.Fatal(err)
	}

	job := "porep-1000-7"
	proofs, err := pipeline.Prove(ctx, prover.Job{ID: job, ProofKind: "porep-c2", Statement: devices.Statement(job, profile.Partitions)})
	fmt.Println(len(proofs), "proofs,", err)

	if err := pipeline.Close(); err != nil {
		log.Fatal(err)
	}
	recorder.Close(time.Time{})
	if _, err := traces.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: 10 proofs, <nil>
}

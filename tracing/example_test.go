package tracing_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/provetrace/provetrace/tracing"
)

// A pipeline tells the recorder what happens in it, here to a sector of two
// partitions. A zero time is the present one.
func ExampleRecorder() {
	ctx := context.Background()
	var out bytes.Buffer
	pipeline, err := tracing.Setup(ctx, tracing.Options{File: "-", Writer: &out}) // or, without a file, as the environment has it
	if err != nil {
		log.Fatal(err)
	}
	recorder := tracing.NewRecorder(pipeline.Stages(), tracing.RecorderOptions{
		Backend: "cuda",
		Devices: []tracing.Device{{Ordinal: 0, UUID: "GPU-7f5a2d41", Model: "NVIDIA H200", Vendor: "NVIDIA"}},
	})

	var now time.Time
	sector := recorder.StartSector(ctx, tracing.SectorInfo{Job: "porep-1000-77", ProofKind: "porep-c2", Partitions: 2}, now)
	for i := range 2 {
		partition := sector.StartPartition(i, now)

		synthesis := partition.Synthesis(0, now)
		synthesis.Start(tracing.SpanWitness, now).End(now)
		synthesis.Start(tracing.SpanConstraints, now).End(now)
		synthesis.End(now)

		wait := partition.Queue(now)
		wait.PickUp(1, 0, now) // by GPU worker 1, of device 0

		prove := partition.Prove(1, 0, now)
		prove.Start(tracing.SpanDeviceWait, now).End(now)
		prove.Start("ntt h", now).End(now)
		prove.Start("msm h", now).End(now)
		prove.Set(tracing.GPUUtilization.Float64(0.97))
		prove.End(now)

		partition.End(now, nil) // or the error that it failed with
	}
	sector.Verify(now).End(now)
	sector.End(now, nil)

	recorder.Close(now)
	if _, err := pipeline.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	printSectors(out.Bytes())

	// Output:
	// prove sector (prover)
	//   partition 0 (prover)
	//     synthesis (prover-synthesis)
	//       witness (prover-synthesis)
	//       constraint evaluation (prover-synthesis)
	//     queue wait (prover-queue)
	//     gpu prove (prover-gpu)
	//       device wait (prover-queue)
	//       ntt h (prover-gpu)
	//       msm h (prover-gpu)
	//   partition 1 (prover)
	//     synthesis (prover-synthesis)
	//       witness (prover-synthesis)
	//       constraint evaluation (prover-synthesis)
	//     queue wait (prover-queue)
	//     gpu prove (prover-gpu)
	//       device wait (prover-queue)
	//       ntt h (prover-gpu)
	//       msm h (prover-gpu)
	//   verify (prover)
}

// printSectors prints the traces of sectors that are in lines of OTLP JSON, in
// the order of their starts.
func printSectors(lines []byte) {
	type span struct {
		name, service string
		start         pcommon.Timestamp
	}
	children := make(map[pcommon.SpanID][]pcommon.SpanID)
	spans := make(map[pcommon.SpanID]span)
	var sectors []pcommon.SpanID
	for line := range bytes.Lines(lines) {
		traces, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
		if err != nil {
			log.Fatal(err)
		}
		for _, rs := range traces.ResourceSpans().All() {
			service, _ := rs.Resource().Attributes().Get("service.name")
			for _, s := range rs.ScopeSpans().At(0).Spans().All() {
				spans[s.SpanID()] = span{s.Name(), service.Str(), s.StartTimestamp()}
				children[s.ParentSpanID()] = append(children[s.ParentSpanID()], s.SpanID())
				if s.Name() == tracing.SpanSector {
					sectors = append(sectors, s.SpanID())
				}
			}
		}
	}
	var show func(id pcommon.SpanID, depth int)
	show = func(id pcommon.SpanID, depth int) {
		fmt.Printf("%s%s (%s)\n", strings.Repeat("  ", depth), spans[id].name, spans[id].service)
		slices.SortStableFunc(children[id], func(a, b pcommon.SpanID) int { return cmp.Compare(spans[a].start, spans[b].start) })
		for _, child := range children[id] {
			show(child, depth+1)
		}
	}
	for _, id := range sectors {
		show(id, 0)
	}
}

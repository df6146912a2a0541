package cli

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/provetrace/provetrace/deploy/jaegertest"
	"github.com/provetrace/provetrace/tracing"
)

// devicePhases hold the device.
var devicePhases = []string{tracing.SpanNTTH, tracing.SpanMSMH, tracing.SpanMSML, tracing.SpanMSMA, tracing.SpanMSMBG1}

// TestJaeger proves into a real Jaeger and holds the traces that it has to the
// contract.
func TestJaeger(t *testing.T) {
	jaeger := jaegertest.Start(t)
	for _, mode := range []string{"partition", "sector"} {
		t.Run(mode, func(t *testing.T) {
			r := prove(t, t.TempDir(), small, []string{"--endpoint", "http://" + jaeger.GRPC, "--jaeger", jaeger.UI, "--mode", mode, "--format", "json"})
			require.Zero(t, r.code, r.stderr)
			s := summaryOf(t, r.stdout)
			require.Empty(t, s.Warnings)
			ids := []string{s.Overview[0].TraceID}
			for _, x := range s.Sectors {
				ids = append(ids, x.TraceID)
			}
			traces := make([]*jaegertest.Trace, len(ids))
			for spans := 0; spans < int(*s.Spans.Sent); {
				spans = 0
				for i, id := range ids {
					traces[i] = traceOf(t, jaeger, id)
					spans += len(traces[i].Spans)
				}
			}
			var busy []jaegertest.Span
			for _, tr := range traces {
				checkTimes(t, tr)
				for _, phase := range devicePhases {
					busy = append(busy, tr.Named(phase)...)
				}
			}
			require.Len(t, busy, 2*3*len(devicePhases))
			slices.SortFunc(busy, func(a, b jaegertest.Span) int { return a.Start.Compare(b.Start) })
			for i := 1; i < len(busy); i++ {
				require.False(t, busy[i].Start.Before(busy[i-1].End), "%s starts while %s holds the device", busy[i].Name, busy[i-1].Name)
			}
			checkOverview(t, traces[0])
			for i, tr := range traces[1:] {
				checkSector(t, tr, s.Sectors[i].Job, mode)
			}
		})
	}
}

// traceOf returns a trace once Jaeger has some of it.
func traceOf(t *testing.T, jaeger *jaegertest.Server, hex string) *jaegertest.Trace {
	t.Helper()
	id, err := trace.TraceIDFromHex(hex)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tr, err := jaeger.WaitTrace(ctx, id, 1)
	require.NoError(t, err)
	return tr
}

// checkTimes requires that children are inside their parents and that Jaeger
// has no remark.
func checkTimes(t *testing.T, tr *jaegertest.Trace) {
	t.Helper()
	require.Len(t, tr.Children(trace.SpanID{}), 1)
	for _, parent := range tr.Spans {
		require.Empty(t, parent.Warnings)
		require.NotEqual(t, codes.Error, parent.StatusCode, parent.Name)
		require.Equal(t, "cpu", orDefault(parent.Attributes[string(tracing.Backend)], "cpu"))
		for _, child := range tr.Children(parent.SpanID) {
			require.False(t, child.Start.Before(parent.Start), "%s begins before %s", child.Name, parent.Name)
			require.False(t, child.End.After(parent.End), "%s ends after %s", child.Name, parent.Name)
		}
	}
}

func orDefault(v, standard any) any {
	if v == nil {
		return standard
	}
	return v
}

// only returns the one child of a name, which is of a service.
func only(t *testing.T, tr *jaegertest.Trace, parent trace.SpanID, name, service string) jaegertest.Span {
	t.Helper()
	var found []jaegertest.Span
	for _, s := range tr.Children(parent) {
		if s.Name == name {
			found = append(found, s)
		}
	}
	require.Len(t, found, 1, name)
	require.Equal(t, service, found[0].Service, name)
	return found[0]
}

func checkOverview(t *testing.T, tr *jaegertest.Trace) {
	t.Helper()
	root := only(t, tr, trace.SpanID{}, tracing.SpanRun, "prover")
	only(t, tr, root.SpanID, tracing.DeviceSpanName(0), "prover-gpu")
	for _, number := range []int{1, 2} {
		sector := only(t, tr, root.SpanID, fmt.Sprintf("sector %d", number), "prover")
		require.Len(t, sector.Links, 1)
		only(t, tr, sector.SpanID, tracing.SpanSynthesis, "prover-synthesis")
		only(t, tr, sector.SpanID, tracing.SpanProve, "prover-gpu")
	}
}

func checkSector(t *testing.T, tr *jaegertest.Trace, job, mode string) {
	t.Helper()
	root := only(t, tr, trace.SpanID{}, tracing.SpanSector, "prover")
	require.Equal(t, job, root.Attributes[string(tracing.JobID)])
	require.Equal(t, "porep-c2", root.Attributes[string(tracing.ProofKind)])
	require.Equal(t, int64(miner), root.Attributes[string(tracing.MinerID)])
	require.Equal(t, "cpu", root.Attributes[string(tracing.Backend)])
	only(t, tr, root.SpanID, tracing.SpanAdmissionWait, "prover-queue")
	only(t, tr, root.SpanID, tracing.SpanVerify, "prover")
	times, parents := 3, []jaegertest.Span{root}
	if mode == "partition" {
		times, parents = 1, nil
		for i := range 3 {
			p := only(t, tr, root.SpanID, tracing.PartitionSpanName(i), "prover")
			require.Equal(t, int64(i), p.Attributes[string(tracing.PartitionIndex)])
			parents = append(parents, p)
		}
	}
	for _, p := range parents {
		synthesis := only(t, tr, p.SpanID, tracing.SpanSynthesis, "prover-synthesis")
		wait := only(t, tr, p.SpanID, tracing.SpanQueueWait, "prover-queue")
		proof := only(t, tr, p.SpanID, tracing.SpanProve, "prover-gpu")
		require.False(t, wait.Start.Before(synthesis.End), "the wait begins before the synthesis ends")
		require.False(t, proof.Start.Before(wait.End), "the proof begins before the wait ends")
		require.Equal(t, int64(0), proof.Attributes[string(tracing.DeviceOrdinal)])
		count := make(map[string]int)
		for _, inside := range append(tr.Children(synthesis.SpanID), tr.Children(proof.SpanID)...) {
			count[inside.Name]++
		}
		want := map[string]int{
			tracing.SpanWitness: times, tracing.SpanConstraints: times,
			tracing.SpanPrepare: 1, tracing.SpanDeviceWait: 1, tracing.SpanMSMBG2: times,
		}
		for _, phase := range devicePhases {
			want[phase] = times
		}
		require.Equal(t, want, count)
	}
}

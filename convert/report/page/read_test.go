package page

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
)

// fixture reads a log of the converter's fixtures.
func fixture(t testing.TB, name string) Run {
	t.Helper()
	log, err := os.ReadFile(filepath.Join("..", "..", "testdata", name))
	require.NoError(t, err)
	return read(t, name, log)
}

// read reads the one run of a log.
func read(t testing.TB, name string, log []byte) Run {
	t.Helper()
	source := run.Source{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(log)), nil }}
	var runs []Run
	for r, err := range run.Read(t.Context(), name, run.Options{Epoch: time.Date(2026, 2, 18, 14, 59, 7, 0, time.UTC)}, source) {
		require.NoError(t, err)
		runs = append(runs, Run{Model: r, Figures: figures.Of(r)})
	}
	require.Equal(t, 1, len(runs), "runs")
	return runs[0]
}

// manySectors writes a log of a pipeline with 10 partitions a sector, each of
// three spans.
func manySectors(sectors int) []byte {
	type event struct {
		at   int
		text string
	}
	var events []event
	for s := range sectors {
		for p := range 10 {
			synthesized := 36_000*(s+1) + 900*p
			proving := 36_000*(s+1) + 3_600*p
			add := func(at int, kind, format string, args ...any) {
				events = append(events, event{at, fmt.Sprintf("TIMELINE,%d,%s,porep-1000-%d,", at, kind, s) + fmt.Sprintf(format, args...) + "\n"})
			}
			add(36_000*s+10*p, "SYNTH_START", "partition=%d", p)
			add(synthesized, "SYNTH_END", "partition=%d,synth_ms=36000", p)
			add(synthesized, "GPU_QUEUE", "partition=%d", p)
			add(proving, "GPU_PICKUP", "worker=%d,partition=%d", p%2, p)
			add(proving, "GPU_START", "worker=%d,partition=%d", p%2, p)
			add(proving+3_500, "GPU_END", "worker=%d,partition=%d,gpu_ms=3500", p%2, p)
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	var b bytes.Buffer
	for _, e := range events {
		b.WriteString(e.text)
	}
	return b.Bytes()
}

// hostile are job ids that would do harm where they were taken as anything
// else than text. An id of a log has no comma.
var hostile = []string{
	`<script>window.harmed=1</script>`,
	`</script><script>window.harmed=2</script>`,
	`"><img src=x onerror="window.harmed=3">`,
	`';window.harmed=4;//`,
	"\u2028window.harmed=5//",
	"\u202egpj.exe",
	`{{.Policy}}`,
	`javascript:window.harmed=6`,
	`<!--<script>`,
	"__proto__",
}

func hostileLog() []byte {
	var b bytes.Buffer
	for i, id := range hostile {
		fmt.Fprintf(&b, "TIMELINE,%d,SYNTH_START,%s,kind=%s\n", 1000*i, id, strings.ReplaceAll(id, " ", ""))
		fmt.Fprintf(&b, "TIMELINE,%d,SYNTH_END,%s,synth_ms=900\n", 1000*i+900, id)
		fmt.Fprintf(&b, "TIMELINE,%d,CHAN_SEND,%s,\n", 1000*i+900, id)
		fmt.Fprintf(&b, "TIMELINE,%d,GPU_PICKUP,%s,worker=0\n", 1000*i+900, id)
		fmt.Fprintf(&b, "TIMELINE,%d,GPU_START,%s,worker=0\n", 1000*i+900, id)
		fmt.Fprintf(&b, "TIMELINE,%d,GPU_END,%s,worker=0,gpu_ms=900\n", 1000*i+1800, id)
	}
	return b.Bytes()
}

// live reads the spans of a live pipeline with two devices, whose sensors are
// read, and with workers that are known.
func live(t testing.TB) Run {
	t.Helper()
	began := time.Date(2026, 2, 18, 14, 59, 7, 0, time.UTC)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	var out bytes.Buffer
	p, err := tracing.Setup(t.Context(), tracing.Options{File: "-", Writer: &out})
	require.NoError(t, err)
	r := tracing.NewRecorder(p.Stages(), tracing.RecorderOptions{Backend: "sim", Devices: []tracing.Device{
		{Ordinal: 0, Name: "left", Model: "H200"}, {Ordinal: 1, Name: "<b>right</b>", Model: "H200"},
	}})
	for n := range 4 {
		from := 4000 * n
		s := r.StartSector(t.Context(), tracing.SectorInfo{Job: fmt.Sprintf("porep-1000-%d", 42+n), ProofKind: "porep-c2", Partitions: 4, Admitted: at(from - 500)}, at(from))
		last := 0
		for i := range 4 {
			part := s.StartPartition(i, at(from+20*i))
			synthesis := part.Synthesis(i, at(from+20*i))
			synthesis.Start(tracing.SpanWitness, at(from+20*i)).End(at(from + 1000))
			synthesis.Start(tracing.SpanConstraints, at(from+1000)).End(at(from + 3500 + 40*i))
			synthesis.End(at(from + 3500 + 40*i))
			wait := part.Queue(at(from + 3500 + 40*i))
			begin := from + 3700 + 1900*(i/2)
			wait.PickUp(i, i%2, at(begin))
			proof := part.Prove(2*(i%2)+i/2, i%2, at(begin))
			proof.Start(tracing.SpanPrepare, at(begin)).End(at(begin + 100))
			for k, name := range []string{"ntt h", "msm h", "msm l", "msm a", "msm b_g1"} {
				proof.Start(name, at(begin+100+350*k)).End(at(begin + 450 + 350*k))
			}
			proof.Start("msm b_g2", at(begin+1850)).End(at(begin + 2200))
			proof.Set(tracing.GPUUtilization.Float64(0.7+0.06*float64(i)), tracing.GPUPower.Float64(420+40*float64(n)), tracing.GPUMemoryUsed.Int64(int64(20+n)<<30),
				tracing.GPUTemperature.Int(60+n+i), tracing.GPUPCIeRx.Float64(9e9-1e9*float64(i)), tracing.GPUSamples.Int(20))
			last = begin + 2250
			proof.End(at(last))
			part.End(at(last), nil)
		}
		s.Verify(at(last)).End(at(last + 300))
		s.End(at(last+300), nil)
	}
	r.Close(at(30_000))
	_, err = p.Shutdown(t.Context())
	require.NoError(t, err)
	source := run.Source{Name: "live.json", Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil }}
	for m, err := range run.ReadSpans(t.Context(), "live.json", run.Options{}, source) {
		require.NoError(t, err)
		return Run{Model: m, Figures: figures.Of(m)}
	}
	require.Fail(t, "no run")
	return Run{}
}

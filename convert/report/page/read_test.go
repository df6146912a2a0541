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

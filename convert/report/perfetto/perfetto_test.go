package perfetto

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
)

var update = flag.Bool("update", false, "write the golden files")

func fixture(t testing.TB, name string) *run.Run {
	t.Helper()
	log, err := os.ReadFile(filepath.Join("..", "..", "testdata", name))
	require.NoError(t, err)
	return read(t, name, log)
}

func read(t testing.TB, name string, log []byte) *run.Run {
	t.Helper()
	source := run.Source{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(log)), nil }}
	for r, err := range run.Read(t.Context(), name, run.Options{Epoch: time.Date(2026, 2, 18, 14, 59, 7, 0, time.UTC)}, source) {
		require.NoError(t, err)
		return r
	}
	require.Fail(t, "no run")
	return nil
}

func written(t testing.TB, r *run.Run) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, r, figures.Of(r), figures.Scope{}))
	return b.Bytes()
}

// An event has the fields that "Trace Event Format" names for the kinds of
// events that a trace of ours has.
type event struct {
	Ph   string
	Pid  *int
	Tid  *int
	Ts   *float64
	Dur  *float64
	Name string
	Cat  string
	Args map[string]any
	ID   *int
	Bp   string
	S    string

	CName string
}

func (e *event) end() float64 { return *e.Ts + *e.Dur }

type place struct{ pid, tid int }

// check holds a trace against the format: which fields an event of a kind has
// to have, that the slices of a track lie inside each other or apart, that
// flows are paired and bound to slices, and that counters go on in time.
func check(t *testing.T, text []byte) []event {
	t.Helper()
	var file struct {
		DisplayTimeUnit string
		OtherData       map[string]string
		TraceEvents     []event
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&file))
	require.Equal(t, "ms", file.DisplayTimeUnit)

	slicesOf := make(map[place][]event)
	named := make(map[place]string)
	processes := make(map[int]string)
	flows := make(map[int][]event)
	counters := make(map[string]float64) // when each was last told
	for _, e := range file.TraceEvents {
		require.NotNil(t, e.Pid)
		require.NotNil(t, e.Tid)
		require.NotNil(t, e.Ts)
		require.GreaterOrEqual(t, *e.Ts, 0.)
		require.NotEmpty(t, e.Name)
		on := place{*e.Pid, *e.Tid}
		switch e.Ph {
		case "M":
			switch e.Name {
			case "process_name":
				require.NotContains(t, processes, *e.Pid)
				processes[*e.Pid] = e.Args["name"].(string)
			case "thread_name":
				require.NotContains(t, named, on, e.Args["name"])
				named[on] = e.Args["name"].(string)
			case "process_sort_index", "thread_sort_index":
				require.IsType(t, 0., e.Args["sort_index"])
			default:
				require.Fail(t, "unknown metadata", e.Name)
			}
		case "X":
			require.NotNil(t, e.Dur)
			require.GreaterOrEqual(t, *e.Dur, 0.)
			slicesOf[on] = append(slicesOf[on], e)
		case "i":
			require.Contains(t, []string{"g", "p", "t"}, e.S)
		case "s", "f":
			require.NotNil(t, e.ID)
			flows[*e.ID] = append(flows[*e.ID], e)
		case "C":
			require.NotEmpty(t, e.Args)
			for _, v := range e.Args {
				require.IsType(t, 0., v)
			}
			counter := fmt.Sprint(*e.Pid, e.Name)
			require.GreaterOrEqual(t, *e.Ts, counters[counter])
			counters[counter] = *e.Ts
		default:
			require.Fail(t, "unknown kind of event", e.Ph)
		}
	}
	for on, all := range slicesOf {
		require.Contains(t, named, on, "a track with slices has a name")
		require.Contains(t, processes, on.pid)
		slices.SortStableFunc(all, func(a, b event) int { return cmp.Or(cmp.Compare(*a.Ts, *b.Ts), -cmp.Compare(*a.Dur, *b.Dur)) })
		var open []event
		for _, e := range all {
			for len(open) > 0 && open[len(open)-1].end() <= *e.Ts {
				open = open[:len(open)-1]
			}
			if n := len(open); n > 0 {
				require.LessOrEqual(t, e.end(), open[n-1].end(), "%s at %v on %s is neither in %s nor apart from it", e.Name, *e.Ts, named[on], open[n-1].Name)
			}
			open = append(open, e)
		}
	}
	encloses := func(e event, name string) bool {
		return slices.ContainsFunc(slicesOf[place{*e.Pid, *e.Tid}], func(s event) bool {
			return s.Name == name && *s.Ts <= *e.Ts && *e.Ts <= s.end()
		})
	}
	for _, pair := range flows {
		require.Len(t, pair, 2)
		from, to := pair[0], pair[1]
		require.Equal(t, "sf", from.Ph+to.Ph)
		require.Equal(t, from.Name+from.Cat, to.Name+to.Cat)
		require.Equal(t, "e", to.Bp)
		require.LessOrEqual(t, *from.Ts, *to.Ts)
		require.True(t, encloses(from, "synthesis"))
		require.True(t, encloses(to, "gpu prove"))
	}
	return file.TraceEvents
}

func count(events []event, is func(event) bool) int {
	n := 0
	for _, e := range events {
		if is(e) {
			n++
		}
	}
	return n
}

func TestFormat(t *testing.T) {
	for _, name := range []string{
		"standard.log", "dual_worker.log", "dual_worker_noisy.log", "single_worker.log", "split.log", "curio.log", "two_gpus.log",
		"failure.log", "snap.log", "dirty_truncated.log", "dirty_dropped.log", "dirty_torn.log",
	} {
		t.Run(name, func(t *testing.T) {
			r := fixture(t, name)
			f := figures.Of(r)
			events := check(t, written(t, r))
			proofs, gaps := 0, 0
			for _, g := range f.GPUs {
				proofs += g.Proofs
				gaps += len(g.Idle)
			}
			slice := func(name string) int {
				return count(events, func(e event) bool { return e.Ph == "X" && e.Name == name })
			}
			require.Equal(t, len(r.Sectors), slice("prove sector"))
			require.Equal(t, 2*proofs, slice("gpu prove"), "on the sector's tracks, and on the worker's")
			require.Equal(t, gaps, slice("idle"))
			if name == "dual_worker_noisy.log" {
				require.Equal(t, 3*proofs, slice("ntt msm h"), "on the device's track, too")
			}
		})
	}
}

// TestLive writes what a live pipeline's spans have and logs do not: workers of
// the synthesis, sensors, the proof's verification, and phases that overlap.
func TestLive(t *testing.T) {
	at := func(ms int) time.Time {
		return time.Date(2026, 2, 18, 14, 59, 7, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
	}
	var out bytes.Buffer
	p, err := tracing.Setup(t.Context(), tracing.Options{File: "-", Writer: &out})
	require.NoError(t, err)
	rec := tracing.NewRecorder(p.Stages(), tracing.RecorderOptions{Backend: "sim", Devices: []tracing.Device{{Ordinal: 0, Name: "left"}}})
	sector := rec.StartSector(t.Context(), tracing.SectorInfo{Job: "porep-1000-42", Partitions: 2}, at(0))
	for i := range 2 {
		part := sector.StartPartition(i, at(0))
		synthesis := part.Synthesis(i, at(0))
		synthesis.Start(tracing.SpanWitness, at(0)).End(at(40))
		synthesis.End(at(100))
		part.Queue(at(100)).PickUp(0, 0, at(100+50*i))
		proof := part.Prove(0, 0, at(100+50*i)) // both by one worker, who went on before the first was finished
		proof.Start("ntt h", at(100+50*i)).End(at(150 + 50*i))
		proof.Start("msm h", at(140+50*i)).End(at(190 + 50*i))
		proof.Set(tracing.GPUPower.Float64(400), tracing.GPUUtilization.Float64(0.5))
		proof.End(at(200 + 50*i))
		part.End(at(200+50*i), nil)
	}
	sector.Verify(at(250)).End(at(260))
	sector.End(at(260), nil)
	rec.Close(at(260))
	_, err = p.Shutdown(t.Context())
	require.NoError(t, err)
	source := run.Source{Name: "live", Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil }}
	for r, err := range run.ReadSpans(t.Context(), "live", run.Options{}, source) {
		require.NoError(t, err)
		events := check(t, written(t, r))
		has := func(ph, name string, of any) bool {
			return slices.ContainsFunc(events, func(e event) bool {
				return e.Ph == ph && e.Name == name && (of == nil || e.Args["name"] == of || e.Args["value"] == of)
			})
		}
		require.True(t, has("M", "process_name", "GPU 0, left"))
		for _, track := range []string{"worker 0", "worker 0 (2)", "worker 0, beside", "worker 1"} {
			require.True(t, has("M", "thread_name", track), track)
		}
		require.True(t, has("X", "verify", nil))
		require.True(t, has("X", "witness", nil))
		require.True(t, has("C", "power, W", 400.))
		require.True(t, has("C", "utilization, %", 50.))
		require.False(t, has("C", "temperature, °C", nil), "it is not known")
	}
}

// TestLoad compares the counters with the figures.
func TestLoad(t *testing.T) {
	r := fixture(t, "dual_worker.log")
	most, last := 0., 1.
	for _, e := range check(t, written(t, r)) {
		if e.Ph == "C" && e.Name == "running syntheses" {
			last = e.Args["value"].(float64)
			most = max(most, last)
		}
	}
	require.Equal(t, float64(figures.Of(r).Synthesis.Max), most)
	require.Zero(t, last)
}

func TestGolden(t *testing.T) {
	log := "TIMELINE,1500,SYNTH_START,porep-1000-7,partition=0\n" +
		"TIMELINE,1510,SYNTH_START,porep-1000-7,partition=1\n" +
		"TIMELINE,30000,SYNTH_END,porep-1000-7,partition=0,synth_ms=28500\n" +
		"TIMELINE,30000,GPU_QUEUE,porep-1000-7,partition=0\n" +
		"TIMELINE,30020,GPU_PICKUP,porep-1000-7,worker=0,partition=0\n" +
		"TIMELINE,30021,GPU_START,porep-1000-7,worker=0,partition=0\n" +
		"TIMELINE,33000,GPU_END,porep-1000-7,worker=0,partition=0,gpu_ms=2979\n" +
		"TIMELINE,34000,SYNTH_END,porep-1000-7,partition=1,synth_ms=32490\n"
	got := written(t, read(t, "golden.log", []byte(log)))
	check(t, got)
	path := filepath.Join("testdata", "golden.json")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// TestScope compares what is written of a part of a run with its figures.
func TestScope(t *testing.T) {
	r := fixture(t, "failure.log")
	chosen := r.Sectors[2]
	first, last := chosen.Extent()
	for name, scope := range map[string]figures.Scope{
		"a sector":              {From: first, To: last, Only: func(s *run.Sector) bool { return s == chosen }},
		"a sector, at any time": {Only: func(s *run.Sector) bool { return s == chosen }},
		"a window":              {From: 60_000, To: 80_000},
		"to the end":            {From: 60_000},
	} {
		t.Run(name, func(t *testing.T) {
			f := figures.Within(r, scope)
			var b bytes.Buffer
			require.NoError(t, Write(&b, r, f, scope))
			events := check(t, b.Bytes())
			onDevices, onSectors, cut := 0, 0, 0
			var busy float64
			for _, e := range events {
				require.True(t, e.Ph == "M" || *e.Ts >= 1000*float64(scope.From), e.Name)
				if e.Ph != "X" {
					continue
				}
				require.LessOrEqual(t, e.end(), 1000*float64(scope.Until()), e.Name)
				require.Equal(t, e.CName == "grey", *e.Pid < pidSectors && scope.Only != nil && e.Args["prover.job.id"] != nil && e.Args["prover.job.id"] != chosen.Job, e.Name)
				switch {
				case e.Name == "gpu prove" && *e.Pid < pidSectors:
					onDevices++
				case e.Name == "prove sector":
					onSectors++
				case e.Name == "busy":
					busy += *e.Dur
				}
				if e.Args["goes on before"] != nil || e.Args["goes on after"] != nil {
					cut++
				}
			}
			require.Equal(t, f.GPUs[0].Proofs, onDevices)
			require.Equal(t, 1000*float64(f.GPUs[0].BusyMS), busy)
			require.Equal(t, f.Sectors, onSectors)
			require.Equal(t, name != "a sector, at any time", cut > 0)
		})
	}
}

func TestHostileText(t *testing.T) {
	id := "\"}]</script>\u202e\u2028\x00\xff\\"
	log := "TIMELINE,5,SYNTH_START," + id + ",kind=" + id + "\nTIMELINE,50,SYNTH_END," + id + ",synth_ms=45\n"
	text := written(t, read(t, id, []byte(log)))
	check(t, text)
	for _, bad := range []string{"</script", "\u202e", "\u2028"} {
		require.NotContains(t, string(text), bad)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteError(t *testing.T) {
	r := fixture(t, "standard.log")
	require.EqualError(t, Write(fullDisk{}, r, figures.Of(r), figures.Scope{}), "write the trace of standard.log: no space left")
}

func BenchmarkWrite(b *testing.B) {
	r := fixture(b, "dual_worker_noisy.log")
	f := figures.Of(r)
	b.SetBytes(int64(len(written(b, r))))
	b.ReportAllocs()
	for b.Loop() {
		if err := Write(io.Discard, r, f, figures.Scope{}); err != nil {
			b.Fatal(err)
		}
	}
}

package run

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/provetrace/provetrace/tracing"
	"github.com/provetrace/provetrace/tracing/timeline"
)

var began = time.Date(2026, 11, 30, 12, 0, 0, 250_300_000, time.UTC)

// after is a time so many ms after began, which is when the live runs of the
// tests begin, in the middle of a ms.
func after(ms float64) time.Time { return began.Add(time.Duration(ms * float64(time.Millisecond))) }

// live returns the spans, as OTLP JSON, of what is told to a live recorder.
func live(t testing.TB, instance string, tell func(r *tracing.Recorder)) []byte {
	t.Helper()
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id="+instance)
	var out bytes.Buffer
	p, err := tracing.Setup(t.Context(), tracing.Options{File: "-", Writer: &out, Lossless: true})
	if err != nil {
		t.Fatal(err)
	}
	r := tracing.NewRecorder(p.Stages(), tracing.RecorderOptions{
		Backend: "cuda",
		Devices: []tracing.Device{
			{Ordinal: 0, UUID: "GPU-0", Name: "left", Model: "H200", Vendor: "NVIDIA", DriverVersion: "580.1", PCIBusID: "0000:17:00.0"},
			{Ordinal: 1},
		},
	})
	tell(r)
	if _, err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// prove tells of a sector of two partitions, of which the second one fails if it
// is to.
func prove(r *tracing.Recorder, job string, from float64, fails bool) {
	s := r.StartSector(context.Background(), tracing.SectorInfo{Job: job, ProofKind: "porep-c2", Partitions: 2, Admitted: after(from)}, after(from+1.5))
	for i := range 2 {
		p := s.StartPartition(i, after(from+1.5))
		synthesis := p.Synthesis(3+i, after(from+1.5))
		synthesis.Start(tracing.SpanWitness, after(from+2)).End(after(from + 10.9))
		synthesis.Start(tracing.SpanConstraints, after(from+10.9)).End(after(from + 40))
		synthesis.End(after(from + 40.2))
		wait := p.Queue(after(from + 40.4))
		wait.PickUp(1, 0, after(from+50))
		proof := p.Prove(1, 0, after(from+50.5))
		proof.Start(tracing.SpanDeviceWait, after(from+51)).End(after(from + 60))
		proof.Start("ntt h", after(from+60)).End(after(from + 70))
		proof.Start("msm b_g2", after(from+70)).End(after(from + 90))
		proof.Set(tracing.GPUUtilization.Float64(0.75), tracing.GPUMemoryUsed.Int64(1<<30), tracing.GPUSamples.Int(9))
		if fails && i == 1 {
			proof.Fail(after(from+91), errors.New("out of memory"))
			p.End(after(from+91), errors.New("out of memory"))
			continue
		}
		proof.End(after(from + 91))
		p.End(after(from+91), nil)
	}
	if fails {
		s.End(after(from+91), errors.New("partition 1: out of memory"))
		return
	}
	s.Verify(after(from + 92)).End(after(from + 95))
	s.End(after(from+96), nil)
}

// readSpans reads the runs of a file of spans that has no error.
func readSpans(t testing.TB, file []byte) []*Run {
	t.Helper()
	var runs []*Run
	for r, err := range ReadSpans(t.Context(), "test", Options{}, textSource(string(file))) {
		if err != nil {
			t.Fatal(err)
		}
		checkSpans(t, r)
		runs = append(runs, r)
	}
	return runs
}

// checkSpans holds what is true of every run that was read from spans.
func checkSpans(t testing.TB, r *Run) {
	t.Helper()
	in := r.Input
	r.Input.Duplicates, r.Input.Problems, r.Input.Malformed = 0, nil, 0
	check(t, r)
	r.Input = in
}

func TestLiveSpans(t *testing.T) {
	runs := readSpans(t, live(t, "a", func(r *tracing.Recorder) {
		prove(r, "porep-1000-7", 0, false)
		prove(r, "porep-1000-8", 30, true)
		r.Close(after(130))
	}))
	if len(runs) != 1 {
		t.Fatalf("%d runs, want 1", len(runs))
	}
	r := runs[0]
	if r.Epoch.Source != EpochSpans || !r.Epoch.Time.Equal(began.Truncate(time.Millisecond)) || r.ID != "" || r.Backend != "cuda" || r.Name != "test" {
		t.Errorf("the run is %q of %q by %q, from %+v", r.Name, r.ID, r.Backend, r.Epoch)
	}
	want := lines(`
		porep-1000-7#1/0 finished w1 1 40 40 50 50 91
		porep-1000-7#1/1 finished w1 1 40 40 50 50 91
		porep-1000-8#1/0 finished w1 31 70 70 80 80 121
		porep-1000-8#1/1 failed (out of memory) w1 31 70 70 80 80 121
	`)
	if diff := cmp.Diff(want, show(r)); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
	devices := []Device{
		{Ordinal: 0, Workers: []int{1}, UUID: "GPU-0", Name: "left", Model: "H200", Vendor: "NVIDIA", DriverVersion: "580.1", PCIBusID: "0000:17:00.0"},
		{Ordinal: 1},
	}
	if diff := cmp.Diff(devices, r.Devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	s := r.Sectors[0]
	if s.State() != Finished || s.Admitted != 300 || s.Count != 2 || s.ProofKind != "porep-c2" {
		t.Errorf("the sector is %+v", s)
	}
	if diff := cmp.Diff([]Phase{{"verify", 92, 95}}, s.Checks()); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	p := partitionAt(s, 1)
	if p.SynthesisWorker != 4 || p.Device != 0 || p.QueueDepth != 0 {
		t.Errorf("the partition is %+v", p)
	}
	if diff := cmp.Diff([]Phase{{"witness", 2, 11}, {"constraint evaluation", 11, 40}}, slices.Collect(p.SynthesisPhases())); diff != "" {
		t.Errorf("phases of the synthesis (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Phase{{"device wait", 51, 60}, {"ntt h", 60, 70}, {"msm b_g2", 70, 90}}, slices.Collect(p.Phases())); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	telemetry := &Telemetry{Utilization: 0.75, MemoryUsed: 1 << 30, Power: Unknown, Temperature: Unknown, PCIeRx: Unknown, PCIeTx: Unknown, Samples: 9}
	if diff := cmp.Diff(telemetry, p.Telemetry); diff != "" {
		t.Errorf("telemetry (-want +got):\n%s", diff)
	}
	if reason, failed := r.Sectors[1].Failed(); !failed || reason != "partition 1: out of memory" {
		t.Errorf("the second sector failed: %v, %q", failed, reason)
	}
}

// TestWholeSectorSpans reads a sector that is proved in one piece.
func TestWholeSectorSpans(t *testing.T) {
	runs := readSpans(t, live(t, "a", func(r *tracing.Recorder) {
		s := r.StartSector(context.Background(), tracing.SectorInfo{Job: "j"}, after(0))
		whole := s.WholeSector()
		whole.Synthesis(tracing.Unknown, after(0)).End(after(10))
		whole.Queue(after(10)).PickUp(tracing.Unknown, tracing.Unknown, after(20))
		whole.Prove(tracing.Unknown, tracing.Unknown, after(20)).End(after(30))
		s.End(after(30), nil)
		s = r.StartSector(context.Background(), tracing.SectorInfo{Job: "k"}, after(5))
		whole = s.WholeSector()
		whole.Synthesis(tracing.Unknown, after(5)).Fail(after(15), errors.New("no"))
		s.End(after(15), errors.New("no"))
		r.Close(after(30))
	}))
	want := lines(`
		j#1/- finished 0 10 10 20 20 30
		k#1/- failed (no) 5 15 - - - -
	`)
	if diff := cmp.Diff(want, show(runs[0])); diff != "" || runs[0].Sectors[0].Count != 0 || partitionAt(runs[0].Sectors[0], 0).Index != timeline.WholeSector {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
}

// TestUnfinishedSpans reads what is left of a pipeline that was killed: only
// spans that had ended.
func TestUnfinishedSpans(t *testing.T) {
	file := live(t, "a", func(r *tracing.Recorder) {
		s := r.StartSector(context.Background(), tracing.SectorInfo{Job: "j", Partitions: 3}, after(0))
		p0, p1 := s.StartPartition(0, after(0)), s.StartPartition(1, after(1))
		p0.Synthesis(0, after(0)).End(after(10))
		p1.Synthesis(1, after(1)).End(after(11))
		p0.Queue(after(10)).PickUp(0, 0, after(10))
		p0.Prove(0, 0, after(10)).End(after(20))
		p0.End(after(20), nil)
		p1.Queue(after(11)).PickUp(0, 0, after(20))
		p1.Prove(0, 0, after(20))
	})
	runs := readSpans(t, file)
	want := lines(`
		j#1/0 finished w0 0 10 10 10 10 20
		j#1/1 incomplete w0 1 11 11 20 - -
	`)
	s := runs[0].Sectors[0]
	if diff := cmp.Diff(want, show(runs[0])); diff != "" || s.State() != Incomplete || s.Count != 3 {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
}

// TestInterruptedSpans reads the spans of a pipeline that was interrupted. It
// has ended what was under way, for this reason and not for one of its own.
func TestInterruptedSpans(t *testing.T) {
	for _, why := range []error{errors.New(tracing.StatusInterrupted), context.Canceled, errors.New("interrupt signal received")} {
		given := fmt.Errorf("partition: %w", context.Canceled)
		file := live(t, "a", func(r *tracing.Recorder) {
			s := r.StartSector(context.Background(), tracing.SectorInfo{Job: "j", Partitions: 5}, after(0))
			for i := range 4 {
				p := s.StartPartition(i, after(0))
				synthesis := p.Synthesis(i, after(0))
				if i == 3 {
					synthesis.Start(tracing.SpanWitness, after(0)).Fail(after(40), given)
					synthesis.Fail(after(40), given)
					p.Skip(after(40))
					continue
				}
				synthesis.End(after(10))
				wait := p.Queue(after(10))
				if i == 2 {
					wait.End(after(40))
					p.Skip(after(40))
					continue
				}
				wait.PickUp(i, i, after(10))
				proof := p.Prove(i, i, after(10))
				if i == 1 {
					proof.Fail(after(40), given)
					p.Skip(after(40))
					continue
				}
				proof.End(after(20))
				p.End(after(20), nil)
			}
			whole := r.StartSector(context.Background(), tracing.SectorInfo{Job: "k"}, after(5))
			p := whole.WholeSector()
			p.Synthesis(9, after(5)).Fail(after(40), given)
			p.End(after(40), why)
			failed := r.StartSector(context.Background(), tracing.SectorInfo{Job: "l", Partitions: 1}, after(6))
			p = failed.StartPartition(0, after(6))
			p.Synthesis(9, after(6)).Fail(after(8), errors.New("no"))
			p.End(after(8), errors.New("no"))
			failed.End(after(8), errors.New("no"))
			waits := r.StartSector(context.Background(), tracing.SectorInfo{Job: "m", Partitions: 5, Admitted: after(7)}, after(7))
			for _, s := range []*tracing.Sector{s, whole, waits} {
				s.End(after(40), why)
			}
			r.StartSector(context.Background(), tracing.SectorInfo{Job: "n", Admitted: after(8)}, after(8))
			r.Close(after(41))
		})
		r := readSpans(t, file)[0]
		want := lines(`
			j#1/0 finished w0 0 10 10 10 10 20
			j#1/1 incomplete w1 0 10 10 10 10 -
			j#1/2 incomplete 0 10 10 - - -
			j#1/3 incomplete 0 - - - - -
			k#1/- incomplete 5 - - - - -
			l#1/0 failed (no) 6 8 - - - -
		`)
		if diff := cmp.Diff(want, show(r)); diff != "" {
			t.Errorf("%v: partitions (-want +got):\n%s", why, diff)
		}
		var states, only []string
		for _, s := range r.Sectors {
			states = append(states, s.Job+" "+stateNames[s.State()])
			if s.Len() == 0 {
				only = append(only, fmt.Sprintf("%s %d %d %d", s.Job, s.Admitted, s.First(), s.Count))
			}
		}
		if diff := cmp.Diff([]string{"j incomplete", "k incomplete", "l failed", "m incomplete", "n incomplete"}, states); diff != "" {
			t.Errorf("%v: sectors (-want +got):\n%s", why, diff)
		}
		if diff := cmp.Diff([]string{"m 7300 40 5", "n 8300 41 0"}, only); diff != "" || r.Input.Malformed != 0 {
			t.Errorf("%v: %+v, sectors that only waited (-want +got):\n%s", why, r.Input, diff)
		}
		if n := r.Tally(); n != (Tally{Partitions: 6, Failed: 1, Unfinished: 4, Endless: 1}) {
			t.Errorf("%v: %+v", why, n)
		}
	}
}

// TestRunsOfSpans reads the spans of two pipelines out of one file, with all
// messages cut up, in any order, and some of them twice.
func TestRunsOfSpans(t *testing.T) {
	two := func(r *tracing.Recorder) {
		prove(r, "j", 0, false)
		prove(r, "j", 200, false) // again, and not counted by the pipeline
		r.Close(after(400))
	}
	a, b := live(t, "a", two), live(t, "b", func(r *tracing.Recorder) {
		prove(r, "k", 1000, true)
		r.Close(after(1200))
	})
	all := decode(t, a, b)
	var single [][]byte
	for _, rs := range all.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				one := ptrace.NewTraces()
				x := one.ResourceSpans().AppendEmpty()
				rs.Resource().CopyTo(x.Resource())
				y := x.ScopeSpans().AppendEmpty()
				ss.Scope().CopyTo(y.Scope())
				s.CopyTo(y.Spans().AppendEmpty())
				single = append(single, encode(t, one))
			}
		}
	}
	want := lines(`
		j#1/0 finished w1 1 40 40 50 50 91
		j#1/1 finished w1 1 40 40 50 50 91
		j#2/0 finished w1 201 240 240 250 250 291
		j#2/1 finished w1 201 240 240 250 250 291
	`)
	random := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		random.Shuffle(len(single), func(i, j int) { single[i], single[j] = single[j], single[i] })
		twice := append(slices.Clone(single), single[:10]...)
		runs := readSpans(t, bytes.Join(twice, []byte("\n")))
		if len(runs) != 2 || runs[0].Name != "test" || runs[1].Name != "test#2" || runs[1].Sectors[0].Job != "k" {
			t.Fatalf("%d runs", len(runs))
		}
		if diff := cmp.Diff(want, show(runs[0])); diff != "" {
			t.Fatalf("partitions (-want +got):\n%s", diff)
		}
		if n := runs[0].Input.Duplicates + runs[1].Input.Duplicates; n != 10 || runs[0].Input.Events+runs[1].Input.Events != int64(len(twice)) {
			t.Errorf("%d duplicates of 10, %+v", n, runs[0].Input)
		}
	}
}

func decode(t testing.TB, files ...[]byte) ptrace.Traces {
	t.Helper()
	all := ptrace.NewTraces()
	for _, file := range files {
		for line := range bytes.Lines(file) {
			var d ptrace.JSONUnmarshaler
			traces, err := d.UnmarshalTraces(line)
			if err != nil {
				t.Fatal(err)
			}
			traces.ResourceSpans().MoveAndAppendTo(all.ResourceSpans())
		}
	}
	return all
}

func encode(t testing.TB, traces ptrace.Traces) []byte {
	t.Helper()
	var m ptrace.JSONMarshaler
	b, err := m.MarshalTraces(traces)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func encodeProto(t testing.TB, traces ptrace.Traces) []byte {
	t.Helper()
	var m ptrace.ProtoMarshaler
	b, err := m.MarshalTraces(traces)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// framed puts the lengths in front of messages.
func framed(messages ...[]byte) (file []byte) {
	for _, m := range messages {
		file = append(binary.BigEndian.AppendUint32(file, uint32(len(m))), m...)
	}
	return file
}

// indented lays a JSON text out on many lines.
func indented(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestFormatsOfSpans reads the same spans in each format.
func TestFormatsOfSpans(t *testing.T) {
	file := live(t, "a", func(r *tracing.Recorder) {
		prove(r, "porep-1000-7", 0, false)
		prove(r, "porep-1000-8", 30, true)
		r.Close(after(130))
	})
	want := readSpans(t, file)[0]
	all := decode(t, file)
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []struct {
		name     string
		file     []byte
		messages int64
	}{
		{"document", indented(t, encode(t, all)), 1},
		{"documents", slices.Concat(indented(t, encode(t, all)), []byte("\n\n"), encode(t, ptrace.NewTraces()), []byte("\n{}\n")), 3},
		{"lines with CR", bytes.ReplaceAll(file, []byte("\n"), []byte("\r\n")), int64(bytes.Count(file, []byte("\n")))},
		{"protobuf", encodeProto(t, all), int64(all.ResourceSpans().Len())},
		{"protobuf framed", framed(encodeProto(t, all), encodeProto(t, ptrace.NewTraces())), 2},
		{"protobuf compressed and framed", framed(z.EncodeAll(encodeProto(t, all), nil)), 1},
		{"JSON compressed and framed", framed(z.EncodeAll(encode(t, all), nil)), 1},
		{"answer of Jaeger", fmt.Appendf(nil, `{"result":%s}`, encode(t, all)), 1},
	} {
		t.Run(format.name, func(t *testing.T) {
			if !IsSpans(format.file[:SpansHead]) {
				t.Error("the head does not tell that it is spans")
			}
			runs := readSpans(t, format.file)
			if len(runs) != 1 {
				t.Fatalf("%d runs", len(runs))
			}
			got := runs[0]
			if diff := cmp.Diff(show(want), show(got)); diff != "" {
				t.Errorf("partitions (-want +got):\n%s", diff)
			}
			in := want.Input
			in.Bytes, in.Messages = int64(len(format.file)), format.messages
			if diff := cmp.Diff(in, got.Input); diff != "" {
				t.Errorf("input (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLogsAreNoSpans holds that no log is taken for spans.
func TestLogsAreNoSpans(t *testing.T) {
	for _, f := range fixtures {
		if IsSpans([]byte(readFixture(t, f.name))[:SpansHead]) {
			t.Errorf("%s is taken for spans", f.name)
		}
	}
	for _, head := range []string{
		"", "\n", "\n \n\nTIMELINE,1,SYNTH_START,a,", "\n\n\n\n\n\n\n\n\n\n\n\n\n", "\x00\x00\x00\x00\x00\x00\x00\nTIMELINE",
		`{"log":"TIMELINE,1,SYNTH_START,a,partition=0\n","stream":"stderr"}`, "{}", "{}\n{}", "\n\tTIMELINE,1", `{"data":[1]}`, `{"data":{}}`,
		"\x00\x00\x00\x10{}", "0x0a",
	} {
		if IsSpans([]byte(head)) {
			t.Errorf("%q is taken for spans", head)
		}
	}
}

// TestDamagedSpans reads files that are not whole: what can be read is, and the
// rest is told.
func TestDamagedSpans(t *testing.T) {
	tell := func(job string) []byte {
		return live(t, "a", func(r *tracing.Recorder) {
			prove(r, job, 0, false)
			r.Close(after(130))
		})
	}
	one, two := tell("one"), tell("two")
	proto1, proto2 := encodeProto(t, decode(t, one)), encodeProto(t, decode(t, two))
	deep := `{"resourceSpans":[{"resource":{"attributes":[{"key":"a","value":` +
		strings.Repeat(`{"arrayValue":{"values":[`, 1000) + strings.Repeat(`]}}`, 1000) + `}]}}]}` + "\n"
	for _, test := range []struct {
		name     string
		file     []byte
		jobs     string
		problems []Problem
	}{
		{"the last line is cut", slices.Concat(one, two[:len(two)/2]), "one", []Problem{{Line: 2, What: "is cut short"}}},
		{"a line is cut", slices.Concat(one[:len(one)-100], []byte("\n"), two), "two", []Problem{{Line: 1, What: "is cut short"}}},
		{"a line goes on in the next", slices.Concat(one[:len(one)-100], two), "", []Problem{{Line: 1, What: "cannot be read as spans"}}},
		{"a line of text", slices.Concat(one, []byte("hello {\n"), two), "one two", []Problem{{Line: 2, What: "is no JSON object"}}},
		{"a line of other JSON", slices.Concat(one, []byte("{\"a\":[]}\n"), two), "one two", nil},
		{"a span without an id", slices.Concat(one, []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"12"}]}]}]}`+"\n"), two), "one two", []Problem{{Line: 2, What: "cannot be read as spans"}}},
		{"too deep", slices.Concat(one, []byte(deep), two), "one two", []Problem{{Line: 2, What: "has more than 100 objects and lists inside each other"}}},
		{"empty values", slices.Concat(one, []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{}`+strings.Repeat(`,{}`, maxValues/2)+"]}]}]}\n"), two), "one two", []Problem{{Line: 2, What: "holds more than 4 Mi values"}}},
		{"empty values in protobuf", framed(proto1, emptySpans(maxValues+1), proto2), "one two", []Problem{{Line: 2, What: "holds more than 4 Mi values", Message: true}}},
		{"too large", slices.Concat(one, []byte(`{"resourceSpans":"`), bytes.Repeat([]byte("a"), maxMessage), []byte("\"}\n"), two), "one two", []Problem{{Line: 2, What: "is larger than 64 MiB"}}},
		{"a document is cut", slices.Concat(indented(t, one)[:3000], []byte("\n"), two), "two", []Problem{{Line: 1, What: "is cut short"}}},
		{"a frame is cut", framed(proto1, proto2)[:len(proto1)+len(proto2)], "one", []Problem{{Line: 2, What: "is cut short", Message: true}}},
		{"a length is cut", slices.Concat(framed(proto1), []byte{0, 0}), "one", []Problem{{Line: 2, What: "is cut short", Message: true}}},
		{"a frame is damaged", framed(proto1, proto2[:len(proto2)-20], proto2), "one two", []Problem{{Line: 2, What: "cannot be read as spans", Message: true}}},
		{"a frame is huge", slices.Concat(framed(proto1), []byte{255, 255, 255, 255, 1}), "one", []Problem{{Line: 2, What: "is larger than 64 MiB; what follows is not read", Message: true}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var jobs []string
			var problems []Problem
			var failed error
			for r, err := range ReadSpans(t.Context(), "test", Options{}, textSource(string(test.file))) {
				if err != nil {
					failed = err
					continue
				}
				checkSpans(t, r)
				for _, s := range r.Sectors {
					jobs = append(jobs, s.Job)
				}
				problems = append(problems, r.Input.Problems...)
			}
			slices.Sort(jobs)
			if got := strings.Join(jobs, " "); got != test.jobs {
				t.Errorf("the sectors are %q, want %q", got, test.jobs)
			}
			if test.jobs == "" {
				if failed == nil {
					t.Error("there is no error")
				}
				return
			}
			equalText := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".What" }, cmp.Comparer(func(a, b string) bool {
				return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
			}))
			if diff := cmp.Diff(test.problems, problems, equalText, cmpopts.IgnoreFields(Problem{}, "File")); diff != "" || failed != nil {
				t.Errorf("error %v, problems (-want +got):\n%s", failed, diff)
			}
		})
	}
}

// emptySpans returns a request in protobuf with so many spans that are empty.
func emptySpans(n int) []byte {
	of := func(field byte, message []byte) []byte {
		return append(binary.AppendUvarint([]byte{field<<3 | 2}, uint64(len(message))), message...)
	}
	return of(1, of(2, bytes.Repeat([]byte{2<<3 | 2, 0}, n)))
}

// TestForeignSpans reads spans of other programs: alone, and among ours.
func TestForeignSpans(t *testing.T) {
	const foreign = `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"scopeSpans":[{"spans":[` +
		`{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060708","name":"verify","startTimeUnixNano":"1000000000","endTimeUnixNano":"2000000000"},` +
		`{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060709","parentSpanId":"0102030405060708","name":"synthesis","startTimeUnixNano":"1000000000","endTimeUnixNano":"2000000000"},` +
		`{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"010203040506070a","parentSpanId":"0102030405060709","name":"GET /","startTimeUnixNano":"1000000000","endTimeUnixNano":"2000000000"}]}]}]}` + "\n"
	beyond := strings.Replace(foreign, `"name":"verify"`, `"name":"partition 40000","attributes":[{"key":"prover.partition.index","value":{"intValue":"40000"}}]`, 1)
	for _, test := range []struct{ name, file, want string }{
		{"beyond", beyond, `no span of the contract in test: line 1 has a span "partition 40000" of trace 0102030405060708090a0b0c0d0e0f10 whose prover.partition.index cannot be`},
		{"alone", foreign, "no span of the contract in test: none of its 3 spans is of a sector's proof"},
		{"metrics", `{"resourceMetrics":[]}`, "no span of the contract in test, and no other"},
		{"no spans", "hello", "cannot read test.log: it holds no spans: OTLP as JSON or protobuf, and Jaeger's JSON, can be read"},
		{"cut", foreign[:500], "no span of the contract in test: line 1 is cut short"},
		{"empty", "", "no span of the contract in test, and no other"},
	} {
		n := 0
		for r, err := range ReadSpans(t.Context(), "test", Options{}, textSource(test.file)) {
			if n++; r != nil || err == nil || err.Error() != test.want {
				t.Errorf("%s: run %v, error %v, want %q", test.name, r, err, test.want)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d results", test.name, n)
		}
	}
	ours := decode(t, live(t, "a", func(r *tracing.Recorder) {
		prove(r, "j", 0, false)
		r.Close(after(130))
	}))
	// A program's own span inside a synthesis is of another scope.
	for _, rs := range ours.ResourceSpans().All() {
		for _, s := range rs.ScopeSpans().At(0).Spans().All() {
			if s.Name() == tracing.SpanSynthesis && s.Attributes().Len() > 0 {
				own := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
				s.CopyTo(own)
				own.SetName("page cache")
				own.SetParentSpanID(s.SpanID())
				own.SetSpanID([8]byte{byte(own.Attributes().Len()), 1})
				break
			}
		}
	}
	runs := readSpans(t, slices.Concat([]byte(foreign), encode(t, ours), []byte("\n"+foreign)))
	if len(runs) != 1 || runs[0].Input.Foreign != 4 || runs[0].Input.Duplicates != 0 || runs[0].Input.Messages != 3 {
		t.Errorf("%d runs, %+v", len(runs), runs[0].Input)
	}
	for i := range 2 {
		p := partitionAt(runs[0].Sectors[0], i)
		if n := len(slices.Collect(p.SynthesisPhases())); n != 2 {
			t.Errorf("partition %d has %d phases in its synthesis", i, n)
		}
	}
}

// TestCircularSpans reads spans whose parents go in a circle, and such as have
// these as parents. Others keep their places.
func TestCircularSpans(t *testing.T) {
	traces := decode(t, live(t, "a", func(r *tracing.Recorder) {
		prove(r, "j", 0, false)
		r.Close(after(130))
	}))
	parents := make(map[pcommon.SpanID]ptrace.Span)
	var synthesis ptrace.Span
	for _, rs := range traces.ResourceSpans().All() {
		for _, s := range rs.ScopeSpans().At(0).Spans().All() {
			parents[s.SpanID()] = s
			index, _ := s.Attributes().Get(string(tracing.PartitionIndex))
			if s.Name() == tracing.SpanSynthesis && index.Int() == 1 {
				synthesis = s
			}
		}
	}
	foreign := func(id, parent byte) string {
		return fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"01020304050607%02x",`+
			`"parentSpanId":"01020304050607%02x","name":"GET /","startTimeUnixNano":"1000000000","endTimeUnixNano":"2000000000"}]}]}]}`+"\n", id, parent)
	}
	file := []byte(foreign(1, 2) + foreign(2, 1) + foreign(3, 3))
	for _, test := range []struct {
		name   string
		of, to ptrace.Span
		want   int64 // spans
		has    string
	}{
		{"of two", parents[synthesis.ParentSpanID()], synthesis, 9, `has a span "`},
		{"of one", synthesis, synthesis, 3, `has a span "synthesis" of trace `},
	} {
		before := test.of.ParentSpanID()
		test.of.SetParentSpanID(test.to.SpanID())
		r := readSpans(t, append(slices.Clone(file), encode(t, traces)...))[0]
		test.of.SetParentSpanID(before)
		told := slices.ContainsFunc(r.Input.Problems, func(p Problem) bool {
			return strings.HasPrefix(p.What, test.has) && strings.HasSuffix(p.What, " whose parents go in a circle")
		})
		if in := r.Input; in.Malformed != test.want || in.Foreign != 3 || in.Events != int64(len(parents))-test.want || !told {
			t.Errorf("%s: %+v", test.name, in)
		}
		if p := partitionAt(r.Sectors[0], 0); p.State != Finished || !p.Known(SynthStart) {
			t.Errorf("%s: %s", test.name, show(r))
		}
	}
}

// TestManySpans reads more spans than are held: traces that are complete become
// sectors on the way, and what comes long after them is told.
func TestManySpans(t *testing.T) {
	tell := func(from, to int) []byte {
		return live(t, "a", func(r *tracing.Recorder) {
			for i := from; i < to; i++ {
				prove(r, fmt.Sprintf("porep-1-%d", i), float64(30*i), i%3 == 0)
			}
		})
	}
	// A request a sector.
	var file []byte
	for i := range 40 {
		file = append(file, tell(i, i+1)...)
	}
	read := func(g *gatherer, file []byte) *Run {
		if err := g.read(t.Context(), textSource(string(file))); err != nil {
			t.Fatal(err)
		}
		runs := g.finish("test")
		if len(runs) != 1 {
			t.Fatalf("%d runs", len(runs))
		}
		checkSpans(t, runs[0])
		return runs[0]
	}
	want := read(newGatherer(1<<20, 0), file)
	g := newGatherer(100, 50)
	got := read(g, file)
	if diff := cmp.Diff(show(want), show(got)); diff != "" {
		t.Errorf("partitions (-all +some held):\n%s", diff)
	}
	if diff := cmp.Diff(want.Input, got.Input); diff != "" {
		t.Errorf("input (-all +some held):\n%s", diff)
	}
	if len(got.Sectors) != 40 || got.Sectors[39].First() != want.Sectors[39].First() || g.most != 100 {
		t.Errorf("%d sectors", len(got.Sectors))
	}
	first, _, _ := bytes.Cut(file, []byte("\n"))
	late := read(newGatherer(100, 50), slices.Concat(file, first))
	if diff := cmp.Diff(show(want), show(late)); diff != "" || late.Input.Malformed == 0 || !strings.Contains(late.Input.Problems[0].What, "long after the others of that") {
		t.Errorf("%+v, partitions (-want +got):\n%s", late.Input, diff)
	}
}

// TestMovedSpans moves a run in time.
func TestMovedSpans(t *testing.T) {
	file := live(t, "a", func(r *tracing.Recorder) {
		prove(r, "j", 0, false)
		r.Close(after(130))
	})
	epoch := time.Date(2001, 2, 3, 4, 5, 6, 7, time.UTC)
	for r, err := range ReadSpans(t.Context(), "test", Options{Epoch: epoch}, textSource(string(file))) {
		if err != nil || r.Epoch != (Epoch{Time: epoch, Source: EpochGiven}) || partitionAt(r.Sectors[0], 0).Times[GPUEnd] != 91 {
			t.Errorf("error %v, run from %+v", err, r.Epoch)
		}
	}
	before := time.Now()
	for r, err := range ReadSpans(t.Context(), "test", Options{EndNow: true}, textSource(string(file))) {
		if err != nil || r.Epoch.Source != EpochNow || r.Time(r.Last).Before(before.Add(-time.Millisecond)) || r.Time(r.Last).After(time.Now()) {
			t.Errorf("error %v, run from %+v", err, r.Epoch)
		}
	}
}

// FuzzReadSpans reads any bytes.
func FuzzReadSpans(f *testing.F) {
	file := live(f, "a", func(r *tracing.Recorder) { // short, to be mutated fast
		s := r.StartSector(context.Background(), tracing.SectorInfo{Job: "j"}, after(0))
		s.StartPartition(0, after(0)).Prove(0, 0, after(1)).Start("ntt h", after(2)).End(after(3))
		s.End(after(4), errors.New("no"))
	})
	all := decode(f, file)
	f.Add(file)
	f.Add(indented(f, file))
	f.Add(encodeProto(f, all))
	f.Add(framed(encodeProto(f, all)))
	f.Add([]byte(jaegerFile))
	f.Add([]byte(`{"result":` + string(file) + `}`))
	f.Add([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"01","spanId":"02","name":"prove sector","startTimeUnixNano":"1","endTimeUnixNano":"9223372036854775807","attributes":[{"key":"prover.job.id","value":{"stringValue":"a"}}]}]}]}]}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		for r, err := range ReadSpans(t.Context(), "test", Options{}, textSource(string(file))) {
			if err == nil {
				checkSpans(t, r)
			}
		}
	})
}

// jaegerFile is a trace as Jaeger's UI downloads it.
const jaegerFile = `{"data":[{"traceID":"00000000000000000000000000000abc","spans":[
{"traceID":"abc","spanID":"1","operationName":"prove sector","references":[],"startTime":1771426747123456,"duration":2000000,"tags":[{"key":"prover.job.id","type":"string","value":"porep-1-2"},{"key":"prover.partition.count","type":"int64","value":1}],"logs":[],"processID":"p1","warnings":null},
{"traceID":"abc","spanID":"2","operationName":"partition 0","references":[{"refType":"CHILD_OF","traceID":"abc","spanID":"1"}],"startTime":1771426747123456,"duration":2000000,"tags":[{"key":"prover.partition.index","type":"int64","value":0},{"key":"otel.status_code","type":"string","value":"ERROR"},{"key":"otel.status_description","type":"string","value":"no"},{"key":"error","type":"bool","value":true}],"processID":"p1"},
{"traceID":"abc","spanID":"3","operationName":"synthesis","references":[{"refType":"FOLLOWS_FROM","traceID":"def","spanID":"1"},{"refType":"CHILD_OF","traceID":"abc","spanID":"2"}],"startTime":1771426747123456,"duration":1000000,"tags":[{"key":"prover.inferred","type":"string","value":"[\"end\"]"}],"processID":"p2"}
],"processes":{"p1":{"serviceName":"prover","tags":[{"key":"provetrace.run","type":"string","value":"r"},{"key":"provetrace.epoch.time","type":"string","value":"2026-02-18T14:59:06.123456789Z"},{"key":"provetrace.epoch.source","type":"string","value":"given"},{"key":"provetrace.epoch.uncertainty_ms","type":"float64","value":0}]},
"p2":{"serviceName":"prover-synthesis","tags":[{"key":"provetrace.run","type":"string","value":"r"}]}}}],"total":0,"limit":0,"offset":0,"errors":null}`

func TestJaegerFile(t *testing.T) {
	runs := readSpans(t, []byte(jaegerFile))
	want := "porep-1-2#1/0 failed (no) 1000 ~2000 - - - -\n"
	epoch := Epoch{time.Date(2026, 2, 18, 14, 59, 6, 123456789, time.UTC), EpochGiven, 0}
	if len(runs) != 1 || show(runs[0]) != want || runs[0].Epoch != epoch || runs[0].ID != "r" {
		t.Errorf("%d runs, %s from %+v, want %s", len(runs), show(runs[0]), runs[0].Epoch, want)
	}
}

func BenchmarkReadSpans(b *testing.B) {
	file := live(b, "a", func(r *tracing.Recorder) {
		for i := range 200 {
			prove(r, fmt.Sprintf("porep-1-%d", i), float64(100*i), false)
		}
		r.Close(after(20_000))
	})
	all := decode(b, file)
	for _, format := range []struct {
		name string
		file []byte
	}{{"JSON", file}, {"protobuf", framed(encodeProto(b, all))}} {
		b.Run(format.name, func(b *testing.B) {
			source := textSource(string(format.file))
			b.SetBytes(int64(len(format.file)))
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range ReadSpans(b.Context(), "test", Options{}, source) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

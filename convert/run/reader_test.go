package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/provetrace/provetrace/tracing/timeline"
)

func TestNothingToRead(t *testing.T) {
	for name, sources := range map[string][]Source{
		"no source":       nil,
		"nothing":         {textSource("")},
		"no event at all": {textSource("hello\n2026-02-18T15:00:00.000000Z  INFO cuzk_daemon: cuzk-daemon starting\nCUZK_TIMING: pre_lock_cpu_ms=1 mutex_wait_ms=1\n")},
	} {
		if runs := readAll(t, Options{}, sources...); len(runs) != 0 {
			t.Errorf("%s: %d runs, want none", name, len(runs))
		}
	}
	r := readText(t, Options{}, "TIMELINE,x\nTIMELINE,1,NO_SUCH,A,\n")
	if len(r.Sectors) != 0 || r.Input.Malformed != 2 || r.Input.Events != 0 || r.First != Unknown || r.Last != Unknown {
		t.Errorf("of malformed lines: %+v", r)
	}
	if diff := cmp.Diff([]int64{1, 2}, []int64{r.Input.Problems[0].Line, r.Input.Problems[1].Line}); diff != "" {
		t.Errorf("lines of problems (-want +got):\n%s", diff)
	}
}

// TestErrors holds that what could be read is yielded before an error.
func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	text := readFixture(t, "standard")
	half := len(text) / 2
	unreadable := Source{Name: "unreadable", Open: func() (io.ReadCloser, error) { return nil, broken }}
	breaks := Source{Name: "breaks", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader(text[:half]), errorReader{broken})), nil
	}}
	closing := Source{Name: "closing", Open: func() (io.ReadCloser, error) {
		return closer{strings.NewReader(text), broken}, nil
	}}
	for _, test := range []struct {
		name    string
		sources []Source
		events  []int64 // of the runs
	}{
		{"open", []Source{unreadable}, nil},
		{"open the second", []Source{textSource(text), unreadable, textSource(text)}, []int64{30}},
		{"read", []Source{breaks}, []int64{15}},
		{"read, after a run", []Source{textSource(text), breaks}, []int64{30, 15}},
		{"close", []Source{closing}, []int64{30}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var events []int64
			var last error
			for r, err := range Read(t.Context(), "test.log", Options{}, test.sources...) {
				if last != nil {
					t.Error("something behind the error")
				}
				if last = err; err != nil {
					if r != nil {
						t.Error("a run with an error")
					}
					continue
				}
				check(t, r)
				events = append(events, r.Input.Events)
			}
			if !errors.Is(last, broken) {
				t.Errorf("error is %v", last)
			}
			if diff := cmp.Diff(test.events, events); diff != "" {
				t.Errorf("events of runs (-want +got):\n%s", diff)
			}
		})
	}
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

type closer struct {
	io.Reader
	err error
}

func (c closer) Close() error { return c.err }

// endless is a log of runs without an end.
func endless() Source {
	text := []byte(readAllText())
	return Source{Name: "endless", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(&repeating{text: text}), nil
	}}
}

func readAllText() string { return whole("A", 1500) + whole("B", 70000) + whole("C", 140000) }

type repeating struct {
	text []byte
	at   int
}

func (r *repeating) Read(b []byte) (int, error) {
	n := copy(b, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

func TestCancel(t *testing.T) {
	defer goleak.VerifyNone(t)
	because := errors.New("because")
	for i := range 50 {
		ctx, cancel := context.WithCancelCause(t.Context())
		runs := 0
		var last error
		for r, err := range Read(ctx, "endless", Options{Epoch: zero}, endless()) {
			if last = err; r != nil {
				if runs++; runs == 1+10*i {
					cancel(because)
				}
			}
		}
		if !errors.Is(last, because) {
			t.Fatalf("the error is %v", last)
		}
		cancel(nil)
	}
}

func TestStopEarly(t *testing.T) {
	defer goleak.VerifyNone(t)
	for i := range 50 {
		runs := 0
		for _, err := range Read(t.Context(), "endless", Options{Epoch: zero}, endless()) {
			if err != nil {
				t.Fatal(err)
			}
			if runs++; runs > 20*i {
				break
			}
		}
	}
	for range Read(t.Context(), "test.log", Options{}, textSource(readFixture(t, "split"))) {
		break
	}
}

func TestCanceledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for r, err := range Read(ctx, "endless", Options{}, endless()) {
		if r != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, %v", r, err)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, test := range []struct {
		name, log, want string
		malformed       int64
	}{
		{
			name: "the largest partition and worker",
			log: `
				@1000 GPU_START A/32767 w32767
				@2000 GPU_END A/32767 w32767 1000`,
			want: "A#1/32767 finished w32767 - - - ~1000 1000 2000",
		},
		{
			name: "a partition beyond", malformed: 1,
			log: `
				@1000 SYNTH_START A/0
				@1000 SYNTH_START A/32768`,
			want: "A#1/0 incomplete 1000 - - - - -",
		},
		{
			name: "a worker beyond", malformed: 1,
			log: `
				@1000 SYNTH_START A/0
				@1000 GPU_START A/0 w32768`,
			want: "A#1/0 incomplete 1000 - - - - -",
		},
		{
			name: "offsets beyond", malformed: 2,
			log: `
				@1000 SYNTH_START A/0
				@999999999999999999 SYNTH_END A/0 1
				@1099511627776 GPU_QUEUE A/0`,
			want: "A#1/0 incomplete 1000 - - - - -",
		},
		{
			name: "the largest offset",
			log:  `@1099511627775 SYNTH_START A/0`,
			want: "A#1/0 incomplete 1099511627775 - - - - -",
		},
		{
			name: "durations beyond",
			log: `
				@1000 SYNTH_END A/0 999999999999999999
				@1000 GPU_END A/0 999999999999999999
				@2000 SYNTH_END A/1 1073741823
				@2000 GPU_END A/1 1073741823`,
			want: `
				A#1/0 finished w0 - 1000 - - - 1000
				A#1/1 finished w0 ~0 2000 ~2000 ~2000 ~2000 2000`,
		},
		{
			name: "a duration that would end after the log",
			log: `
				@1000 SYNTH_START A/0
				2026-02-18T15:00:00.000000Z  INFO cuzk_core::engine: partition synthesis complete, pushing to GPU queue job_id=A partition=0 synth_ms=1073741823
				@2000 GPU_PICKUP A/0`,
			want: "A#1/0 incomplete w0 1000 ~2000 ~2000 2000 - -",
		},
		{
			name: "an event alone",
			log:  "@0 GPU_QUEUE A/0",
			want: "A#1/0 incomplete - ~0 0 - - -",
		},
		{
			name: "partitions and a whole sector",
			log: `
				@1000 SYNTH_START A/0
				@2000 GPU_QUEUE A`,
			want: `
				A#1/- incomplete - ~2000 2000 - - -
				A#1/0 incomplete 1000 - - - - -`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := readText(t, Options{}, log(test.log))
			if diff := cmp.Diff(lines(test.want), show(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if r.Input.Malformed != test.malformed {
				t.Errorf("%d malformed lines, want %d", r.Input.Malformed, test.malformed)
			}
			for _, p := range r.Input.Problems {
				if !strings.HasPrefix(p.Text, "TIMELINE,") || strings.HasSuffix(p.Text, "\n") || p.What == "" {
					t.Errorf("problem %+v", p)
				}
			}
			if end := r.Time(r.Last); end.Before(time.Unix(0, 0)) {
				t.Errorf("the run ends at %v", end)
			}
		})
	}
}

// TestManyPartitions reads a job of as many partitions as a run can hold,
// three times.
func TestManyPartitions(t *testing.T) {
	const n = 32768
	var b bytes.Buffer
	for attempt := range int64(3) {
		for i := range int32(n) {
			b.Write(timeline.Event{Offset: attempt*100000 + 1000, Kind: timeline.SynthStart, Job: []byte("A"), Partition: i, Worker: Unknown, Duration: Unknown}.AppendTo(nil))
		}
		for i := range int32(n) {
			b.Write(timeline.Event{Offset: attempt*100000 + 2000, Kind: timeline.GPUEnd, Job: []byte("A"), Partition: n - 1 - i, Worker: i % 7, Duration: 5}.AppendTo(nil))
		}
	}
	r := readText(t, Options{}, b.String())
	if len(r.Sectors) != 3 {
		t.Fatalf("%d attempts, want 3", len(r.Sectors))
	}
	for _, s := range r.Sectors {
		if s.Len() != n || s.State() != Finished {
			t.Errorf("%d partitions, %s", s.Len(), stateNames[s.State()])
		}
	}
}

// TestMemory holds that a run takes memory in proportion to its partitions,
// whatever the partitions of a sector.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads a million jobs")
	}
	const jobs = 1_000_000
	r, w := io.Pipe()
	go func() {
		e := timeline.Event{Kind: timeline.SynthStart, Worker: Unknown, Duration: Unknown}
		var b []byte
		for i := range int32(64) { // as many as sectors are given room for
			e.Partition, e.Job = i, []byte("first")
			b = e.AppendTo(b)
		}
		for i := range jobs {
			e.Offset, e.Partition = int64(i), int32(i%10)
			e.Job = fmt.Appendf(e.Job[:0], "job-%d", i)
			b = e.AppendTo(b)
			if len(b) > 1<<16 {
				w.Write(b)
				b = b[:0]
			}
		}
		w.Write(b)
		w.Close()
	}()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	runs := readAll(t, Options{}, Source{Name: "jobs", Open: func() (io.ReadCloser, error) { return r, nil }})
	runtime.GC()
	runtime.ReadMemStats(&after)
	if len(runs) != 1 || len(runs[0].Sectors) != jobs+1 {
		t.Fatalf("%d runs", len(runs))
	}
	// A sector of its own costs its name and some 150 bytes, a partition 50,
	// and what is read in advance some MB.
	if perJob := float64(after.HeapAlloc-before.HeapAlloc) / jobs; perJob > 500 {
		t.Errorf("%.0f bytes for each job", perJob)
	}
	runtime.KeepAlive(runs)
}

// TestHostile reads random events of a small set, which hits more of the odd
// cases than random bytes do.
func TestHostile(t *testing.T) {
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		text := hostile(rnd)
		runs := readAll(t, Options{WorkersPerDevice: rnd.IntN(3)}, textSource(text))
		for _, r := range runs {
			noOverlap(t, r)
		}
		compareCounts(t, text, runs)
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, text)
		}
	}
}

func hostile(rnd *rand.Rand) string {
	var b []byte
	now := int64(0)
	for range rnd.IntN(200) {
		job := string('A' + rune(rnd.IntN(3)))
		switch rnd.IntN(12) {
		case 0:
			b = fmt.Appendf(b, "%s  INFO cuzk_server::service: Prove request_id=%s\n", at(now), job)
		case 1:
			b = fmt.Appendf(b, "%s ERROR cuzk_core::engine: failed error=x job_id=%s partition=%d\n", at(now), job, rnd.IntN(3))
		case 2:
			b = fmt.Appendf(b, "%s  INFO cuzk_core::engine: partition synthesis complete job_id=%s partition=%d synth_ms=%d\n", at(now), job, rnd.IntN(3), rnd.IntN(1<<rnd.IntN(31)))
		case 3:
			b = fmt.Appendf(b, "%s  INFO cuzk_core::engine: skipping GPU prove for failed partitioned job job_id=%s partition=%d\n", at(now), job, rnd.IntN(3))
		case 4:
			p, w, k := rnd.IntN(10), rnd.IntN(10), rnd.IntN(10)
			b = fmt.Appendf(b, "CUZK_TIMING: pre_lock_cpu_ms=%d mutex_wait_ms=%d\nCUZK_TIMING: gpu_tid=0 ntt_msm_h_ms=%d\nCUZK_TIMING: gpu_tid=0 batch_add_ms=%d\nCUZK_TIMING: gpu_tid=0 tail_msm_ms=%d gpu_total_ms=%d\nCUZK_TIMING: mutex_held_ms=%d total_start_fn_ms=%d\nCUZK_TIMING: b_g2_msm_ms=%d\n", p, w, k, k, k, 3*k, 3*k, p+w+3*k, rnd.IntN(10))
		default:
			e := timeline.Event{
				Offset: now, Kind: timeline.Kind(1 + rnd.IntN(7)), Job: []byte(job), Partition: int32(rnd.IntN(4)) - 1,
				Worker: int32(rnd.IntN(3)), Duration: rnd.Int64N(1 << rnd.IntN(59)),
			}
			b = e.AppendTo(b)
		}
		switch rnd.IntN(20) {
		case 0:
			now = rnd.Int64N(1 << rnd.IntN(59))
		case 1:
			now = 0
		default:
			now += int64(rnd.IntN(20)) - 2
		}
		now = max(now, 0)
	}
	return string(b)
}

// at renders the time of an offset as the engine does.
func at(ms int64) string {
	return zero.Add(time.Duration(ms%1e10) * time.Millisecond).Format("2006-01-02T15:04:05.000000Z")
}

// compareCounts holds the runs' counts against those of the lines' reader.
func compareCounts(t testing.TB, text string, runs []*Run) {
	t.Helper()
	lines := timeline.NewReader(strings.NewReader(text), "")
	for lines.Scan() {
	}
	want := lines.Stats()
	var events, malformed, stitched, bytes, n int64
	for _, r := range runs {
		events += r.Input.Events
		malformed += r.Input.Malformed
		stitched += r.Input.Stitched
		bytes += r.Input.Bytes
		n += r.Input.Lines
	}
	if len(runs) == 0 {
		if want.Events+want.Malformed > 0 {
			t.Errorf("no run, and %+v", want)
		}
		return
	}
	if events+malformed != want.Events+want.Malformed || malformed < want.Malformed || stitched > want.Stitched {
		t.Errorf("%d events, %d of them stitched, and %d malformed lines, and the log has %+v", events, stitched, malformed, want)
	}
	if bytes != want.Bytes || n != want.Lines {
		t.Errorf("%d bytes in %d lines, and the log has %+v", bytes, n, want)
	}
}

func FuzzRead(f *testing.F) {
	for _, fixture := range fixtures {
		text := readFixture(f, fixture.name)
		f.Add([]byte(text[:min(len(text), 6000)]), int8(0))
	}
	for seed := range uint64(20) {
		f.Add([]byte(hostile(rand.New(rand.NewPCG(seed, 8)))), int8(seed%3))
	}
	f.Add([]byte(whole("A", 1500)+whole("A", 1500)), int8(1))
	f.Fuzz(func(t *testing.T, log []byte, workers int8) {
		o := Options{WorkersPerDevice: int(workers)}
		runs := readAll(t, o, textSource(string(log)))
		for _, r := range runs {
			noOverlap(t, r)
		}
		compareCounts(t, string(log), runs)
		setBlockSize(t, 1+len(log)/7)
		if diff := cmp.Diff(showAll(runs), showAll(readAll(t, o, textSource(string(log))))); diff != "" {
			t.Errorf("in small blocks (-want +got):\n%s", diff)
		}
	})
}

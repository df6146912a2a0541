package timeline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestAppendTo(t *testing.T) {
	for _, tt := range []struct {
		event Event
		want  string
	}{
		{Event{Offset: 1500, Kind: SynthStart, Partition: 3, Worker: Unknown, Duration: Unknown}, "TIMELINE,1500,SYNTH_START,job,partition=3\n"},
		{Event{Offset: 1500, Kind: SynthStart, Partition: WholeSector, ProofKind: []byte("window-post")}, "TIMELINE,1500,SYNTH_START,job,kind=window-post\n"},
		{Event{Offset: 1500, Kind: SynthStart, Partition: WholeSector}, "TIMELINE,1500,SYNTH_START,job,kind=unknown\n"},
		{Event{Kind: SynthEnd, Partition: 3, Duration: 7}, "TIMELINE,0,SYNTH_END,job,partition=3,synth_ms=7\n"},
		{Event{Kind: SynthEnd, Partition: WholeSector, Duration: 7}, "TIMELINE,0,SYNTH_END,job,synth_ms=7\n"},
		{Event{Kind: ChanSend, Partition: 0}, "TIMELINE,0,CHAN_SEND,job,partition=0\n"},
		{Event{Kind: ChanSend, Partition: WholeSector}, "TIMELINE,0,CHAN_SEND,job,\n"},
		{Event{Kind: GPUQueue, Partition: 15}, "TIMELINE,0,GPU_QUEUE,job,partition=15\n"},
		{Event{Kind: GPUQueue, Partition: WholeSector}, "TIMELINE,0,GPU_QUEUE,job,monolithic\n"},
		{Event{Kind: GPUPickup, Worker: 1, Partition: 2}, "TIMELINE,0,GPU_PICKUP,job,worker=1,partition=2\n"},
		{Event{Kind: GPUStart, Worker: 1, Partition: WholeSector}, "TIMELINE,0,GPU_START,job,worker=1\n"},
		{Event{Kind: GPUEnd, Worker: 1, Partition: 2, Duration: 9}, "TIMELINE,0,GPU_END,job,worker=1,partition=2,gpu_ms=9\n"},
		{Event{Kind: GPUEnd, Worker: 0, Partition: WholeSector, Duration: 9}, "TIMELINE,0,GPU_END,job,worker=0,gpu_ms=9\n"},
	} {
		tt.event.Job = []byte("job")
		if got := string(tt.event.AppendTo([]byte("x"))); got != "x"+tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestAppendToJob(t *testing.T) {
	for job, want := range map[string]string{
		"porep-1000-4200":  "porep-1000-4200",
		"a,b\n\r\x00\x7fé": "a_b____é",
		"TIMELINE":         "TIMELIN_",
		"TIMELINE,":        "TIMELINE_",
		"":                 "_",
	} {
		got := string(Event{Kind: ChanSend, Partition: 0, Job: []byte(job)}.AppendTo(nil))
		if got != "TIMELINE,0,CHAN_SEND,"+want+",partition=0\n" {
			t.Errorf("%q gives %q", job, got)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	job := []byte("job")
	for _, e := range []Event{
		{},
		{Kind: 8, Job: job},
		{Kind: ChanSend},
		{Kind: ChanSend, Job: job, Offset: -1},
		{Kind: ChanSend, Job: job, Offset: 1e18},
		{Kind: ChanSend, Job: job, Partition: 1e9},
		{Kind: ChanSend, Job: make([]byte, 40_000)},
		{Kind: SynthEnd, Job: job, Duration: Unknown},
		{Kind: GPUStart, Job: job, Worker: Unknown},
		{Kind: GPUEnd, Job: job, Duration: Unknown},
	} {
		if err := w.Write(e); err == nil {
			t.Errorf("%+v: no error", e)
		}
	}
	if b.Len() > 0 {
		t.Errorf("wrote %q", b.Bytes())
	}
}

// limited fails once it has taken its number of bytes.
type limited struct {
	bytes.Buffer
	left int
}

var errFull = errors.New("no space left on device")

func (w *limited) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.left -= n
	w.Buffer.Write(p[:n])
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

// A line written in part spoils neither the ones before nor those after it.
func TestWriterTorn(t *testing.T) {
	e := Event{Offset: 1500, Kind: SynthStart, Partition: 1, Job: []byte("job")}
	size := len(e.AppendTo(nil))
	w := &limited{left: size + 20}
	tw := NewWriter(w)
	if err := tw.Write(e); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := tw.Write(e); !errors.Is(err, errFull) {
			t.Errorf("error %v", err)
		}
	}
	w.left = 1000
	for range 2 {
		if err := tw.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := scan(t, &w.Buffer, false)
	want := []string{"1 " + start1, `2 ! cut short: "TIMELINE,1500,SYNTH_"`, "3 " + start1, "4 " + start1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// single fails the test if a Write is not one whole line.
type single struct {
	mu sync.Mutex
	t  *testing.T
	b  bytes.Buffer
}

func (w *single) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Count(p, newline) != 1 || p[len(p)-1] != '\n' {
		w.t.Errorf("a write of %q", p)
	}
	return w.b.Write(p)
}

func TestWriterConcurrently(t *testing.T) {
	out := &single{t: t}
	w := NewWriter(out)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			job := fmt.Appendf(nil, "job-%d", g)
			for i := range 100 {
				if err := w.Write(Event{Offset: int64(i), Kind: GPUQueue, Partition: int32(i), Job: job}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if _, s := scan(t, &out.b, false); s.Events != 800 || s.Malformed != 0 {
		t.Errorf("%+v", s)
	}
}

func TestWriterAllocs(t *testing.T) {
	w := NewWriter(io.Discard)
	e := Event{Offset: 1500, Kind: GPUEnd, Partition: 1, Duration: 6449, Job: []byte("db5b5fab-8f4d-4e27-9da1-494c73cf256d")}
	if n := testing.AllocsPerRun(100, func() {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzRoundTrip(f *testing.F) {
	f.Add(int64(1500), uint8(1), int32(3), int32(-1), int64(-1), []byte("job"), []byte(nil))
	f.Add(int64(1500), uint8(1), int32(-1), int32(-1), int64(-1), []byte("job"), []byte("porep-c2"))
	f.Add(int64(0), uint8(7), int32(0), int32(1), int64(6449), []byte("TIMELINE"), []byte("x"))
	f.Add(int64(1e18-1), uint8(4), int32(-1), int32(0), int64(0), []byte("2026-02-18T14:59:07Z INFO a, b\r\n"), []byte{})
	f.Add(int64(9), uint8(2), int32(1e9-1), int32(0), int64(7), []byte("CUZK_TIMING: x=1\x1b[0m"), []byte{})
	f.Fuzz(func(t *testing.T, offset int64, kind uint8, partition, worker int32, duration int64, job, proofKind []byte) {
		e := Event{
			Offset: offset, Kind: Kind(kind), Partition: max(partition, WholeSector), Worker: worker,
			Duration: duration, Job: job, ProofKind: proofKind,
		}
		var b bytes.Buffer
		if err := NewWriter(&b).Write(e); err != nil {
			if b.Len() > 0 {
				t.Errorf("%v, but wrote %q", err, b.Bytes())
			}
			return
		}
		line := b.String()
		r := NewReader(strings.NewReader("host x: "+line+line), "")
		for i := range 2 {
			if !r.Scan() || r.Record().Type != EventRecord || r.Record().Line != int64(i+1) {
				t.Fatalf("%q gives %+v", line, r.Record())
			}
			got := r.Record().Event
			if again := string(got.AppendTo(nil)); again != line {
				t.Errorf("%q becomes %q", line, again)
			}
			want := e
			want.Job = appendWord(nil, job)
			if e.Kind != GPUPickup && e.Kind != GPUStart && e.Kind != GPUEnd {
				want.Worker = Unknown
			}
			if e.Kind != SynthEnd && e.Kind != GPUEnd {
				want.Duration = Unknown
			}
			want.ProofKind = nil
			if e.Kind == SynthStart && e.Partition < 0 {
				want.ProofKind = []byte("unknown")
				if len(proofKind) > 0 {
					want.ProofKind = appendWord(nil, proofKind)
				}
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%q (-want +got):\n%s", line, diff)
			}
		}
		if r.Scan() {
			t.Errorf("%q gives more: %+v", line, r.Record())
		}
	})
}

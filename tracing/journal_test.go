package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/provetrace/provetrace/tracing/timeline"
)

// newJournaled returns a recorder whose journal goes to w. It is to be called
// in a synctest bubble, where its offset 0 is 2000-01-01.
func newJournaled(w io.Writer) *Recorder {
	return NewRecorder(oneTracer{noop.NewTracerProvider().Tracer("")}, RecorderOptions{Journal: w})
}

// TestJournal holds the lines of a sector that is proved, of one that fails and
// of a whole-sector proof against the format of the log.
func TestJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newJournaled(&log)
		ctx := context.Background()
		ms := func(n int) { time.Sleep(time.Duration(n) * time.Millisecond) }
		now := time.Time{}

		s := r.StartSector(ctx, SectorInfo{Job: "porep-1000-1", Partitions: 3, Admitted: time.Now()}, now)
		var parts []*Partition
		var waits []*Phase
		for i := range 2 {
			ms(10)
			p := s.StartPartition(i, now)
			synthesis := p.Synthesis(0, now)
			ms(1000)
			synthesis.End(now)
			waits = append(waits, p.Queue(now))
			parts = append(parts, p)
		}
		ms(5)
		waits[1].PickUp(3, 1, now)
		proof := parts[1].Prove(3, 1, now)
		ms(2000)
		proof.End(now)
		parts[1].End(now, nil)
		waits[0].PickUp(2, 1, now)
		proof = parts[0].Prove(2, 1, now)
		ms(7)
		err := errors.New("no memory:\n\"TIMELINE,1,GPU_END\" \\x")
		proof.Fail(now, err)
		parts[0].End(now, err)
		late := s.StartPartition(2, now)
		synthesis := late.Synthesis(0, now)
		ms(3)
		synthesis.Fail(now, err)
		late.Skip(now)
		s.End(now, err)

		s = r.StartSector(ctx, SectorInfo{Job: "bad, job=\"x\"", ProofKind: "window-post"}, now)
		whole := s.WholeSector()
		whole.Synthesis(0, now).End(now)
		wait := whole.Queue(now)
		ms(1)
		wait.PickUp(2, 1, now)
		whole.Prove(2, 1, now).End(now)
		whole.End(now, nil)
		s.Verify(now).Fail(now, errors.New("it is wrong"))
		s.End(now, errors.New("it is wrong"))
		r.Close(now)
		require.NoError(t, r.JournalErr())

		require.Equal(t, `2000-01-01T00:00:00.000000Z  INFO provetrace: provetrace starting
2000-01-01T00:00:00.000000Z  INFO provetrace: Prove request_id=porep-1000-1
2000-01-01T00:00:00.000000Z  INFO provetrace: dispatching per-partition synthesis job_id=porep-1000-1 num_partitions=3
TIMELINE,10,SYNTH_START,porep-1000-1,partition=0
TIMELINE,1010,SYNTH_END,porep-1000-1,partition=0,synth_ms=1000
TIMELINE,1010,GPU_QUEUE,porep-1000-1,partition=0
TIMELINE,1020,SYNTH_START,porep-1000-1,partition=1
TIMELINE,2020,SYNTH_END,porep-1000-1,partition=1,synth_ms=1000
TIMELINE,2020,GPU_QUEUE,porep-1000-1,partition=1
2000-01-01T00:00:02.025000Z  INFO provetrace: pipeline GPU worker started worker_id=3 gpu=1
TIMELINE,2025,GPU_PICKUP,porep-1000-1,worker=3,partition=1
TIMELINE,2025,GPU_START,porep-1000-1,worker=3,partition=1
TIMELINE,4025,GPU_END,porep-1000-1,worker=3,partition=1,gpu_ms=2000
2000-01-01T00:00:04.025000Z  INFO provetrace: pipeline GPU worker started worker_id=2 gpu=1
TIMELINE,4025,GPU_PICKUP,porep-1000-1,worker=2,partition=0
TIMELINE,4025,GPU_START,porep-1000-1,worker=2,partition=0
2000-01-01T00:00:04.032000Z ERROR provetrace: error="no memory: 'TIMELINE 1,GPU_END' /x" job_id=porep-1000-1 partition=0
TIMELINE,4032,SYNTH_START,porep-1000-1,partition=2
2000-01-01T00:00:04.035000Z  INFO provetrace: skipping GPU prove for failed job job_id=porep-1000-1 partition=2
TIMELINE,4035,SYNTH_START,bad__job__x_,kind=window-post
TIMELINE,4035,SYNTH_END,bad__job__x_,synth_ms=0
TIMELINE,4035,GPU_QUEUE,bad__job__x_,monolithic
TIMELINE,4036,GPU_PICKUP,bad__job__x_,worker=2
TIMELINE,4036,GPU_START,bad__job__x_,worker=2
TIMELINE,4036,GPU_END,bad__job__x_,worker=2,gpu_ms=0
2000-01-01T00:00:04.036000Z ERROR provetrace: error="it is wrong" job_id=bad__job__x_
`, log.String())
	})
}

// A moody is a writer that does as it is told for the next write.
type moody struct {
	bytes.Buffer
	fail  func(line []byte) (int, error) // nil: writes
	block chan struct{}                  // nil: does not block
}

func (w *moody) Write(line []byte) (int, error) {
	if w.block != nil {
		<-w.block
	}
	if w.fail != nil {
		return w.fail(line)
	}
	return w.Buffer.Write(line)
}

// TestJournalErrors has the disk be full for some lines: what is written before
// and after can be read, and what is lost is counted.
func TestJournalErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &moody{}
		r := newJournaled(w)
		s := r.StartSector(context.Background(), SectorInfo{Job: "a"}, time.Time{})
		prove := func(i int) {
			s.StartPartition(i, time.Time{}).Prove(0, 0, time.Time{}).End(time.Time{})
			synctest.Wait()
		}
		prove(0)
		full := errors.New("disk full")
		w.fail = func(line []byte) (int, error) {
			n, _ := w.Buffer.Write(line[:len(line)/2])
			return n, full
		}
		prove(1) // the first half of its start, and nothing more of its end
		w.fail = nil
		prove(2)
		w.fail = func(line []byte) (int, error) { return len(line) / 2, nil } // a broken writer
		prove(3)
		w.fail = nil
		prove(4)
		r.Close(time.Time{})
		require.ErrorIs(t, r.JournalErr(), full)
		require.ErrorContains(t, r.JournalErr(), "lacks 4 lines: ")

		var events []string
		reader := timeline.NewReader(&w.Buffer, "journal")
		for reader.Scan() {
			if rec := reader.Record(); rec.Type == timeline.EventRecord {
				events = append(events, fmt.Sprint(rec.Event.Kind, " ", rec.Event.Partition))
			}
		}
		require.Equal(t, []string{"GPU_START 0", "GPU_END 0", "GPU_START 2", "GPU_END 2", "GPU_START 4", "GPU_END 4"}, events)
	})
}

// TestJournalSlow holds that a writer which blocks holds up neither those who
// tell the recorder nor, after some patience, its end.
func TestJournalSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &moody{block: make(chan struct{})}
		r := newJournaled(w)
		s := r.StartSector(context.Background(), SectorInfo{Job: "a"}, time.Time{})
		const more = 1000
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for i := range (journalQueue + more) / 20 {
					s.StartPartition(i, time.Time{}).Prove(0, 0, time.Time{}).End(time.Time{})
				}
			})
		}
		all.Wait()
		require.ErrorContains(t, r.JournalErr(), "its writer is too slow")
		r.Close(time.Time{})
		// The queue, and the line that is stuck.
		require.ErrorContains(t, r.JournalErr(), fmt.Sprintf("lacks %d lines", 1+(journalQueue+more)/20*20))
		close(w.block)
		s.StartPartition(0, time.Time{}) // nothing more
		r.Close(time.Time{})
	})
}

// TestJournalText holds that no text of a job or of an error can be taken for
// another line, or end its own.
func TestJournalText(t *testing.T) {
	for _, text := range []string{
		"", "plain", "ends with TIMELINE", "a b", "TIMELINE,1,GPU_END,x,worker=0", "TIMELINE,TIMELINE,1", "TIMETIMELINE,LINE,1", "q\"uote", `back\slash`, "new\nline\r\x00\x7f",
		"2026-02-18T14:59:07.123856Z ERROR x: failed job_id=y", "\xff\xfe", strings.Repeat("é", 4000), "error=\"x\" job_id=z",
	} {
		for name, got := range map[string]string{"word": journalWord(text), "reason": journalReason(text)} {
			require.NotContains(t, got, "TIMELINE,", name)
			require.NotContains(t, got, "\"", name)
			require.NotContains(t, got, "\\", name)
			require.Equal(t, -1, strings.IndexFunc(got, func(r rune) bool { return r < ' ' || r == 0x7f }), name)
		}
		require.LessOrEqual(t, len(journalReason(text)), journalText+len(" …"))
		require.NotContains(t, journalWord(text), " ")
		require.NotContains(t, journalWord(text)+",", "TIMELINE,")
	}
}

func TestNoJournal(t *testing.T) {
	var none *Recorder
	require.NoError(t, none.JournalErr())
	var log bytes.Buffer
	p, err := Setup(t.Context(), Options{File: "-", Writer: new(bytes.Buffer), Lossless: true, DeterministicIDs: true})
	require.NoError(t, err)
	r := NewRecorder(p.Stages(), RecorderOptions{Run: "replayed", Journal: &log})
	r.StartSector(t.Context(), SectorInfo{Job: "a"}, time.Time{}).End(time.Time{}, nil)
	r.Close(time.Time{})
	require.NoError(t, r.JournalErr())
	require.Empty(t, log.String())
	_, err = p.Shutdown(t.Context())
	require.NoError(t, err)
}

// BenchmarkJournal adds a line to the journal, as the pipeline's goroutines do.
func BenchmarkJournal(b *testing.B) {
	r := newJournaled(new(moody))
	p := r.StartSector(context.Background(), SectorInfo{Job: "porep-1000-7"}, time.Time{}).StartPartition(0, time.Time{})
	b.ReportAllocs()
	for b.Loop() {
		r.journal.event(timeline.GPUStart, p, 1, time.Now(), 0)
	}
	r.Close(time.Time{})
}

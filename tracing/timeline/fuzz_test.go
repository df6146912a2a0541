package timeline

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzReader holds the reader to what it promises of any input: each marker
// gives one record, in the order of lines, and neither the chunks in which the
// bytes come nor the wish for other lines changes a record.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		start1 + "\n" + start2 + "\r\n" + gpuEnd,
		"TIMELINE,1500," + start2 + "\nSYNTH_START,job,partition=1\n",
		"TIMELINE," + start2 + "\n" + engine + "\n1500,SYNTH_START,job,partition=1\n",
		"TIMELIN" + start2 + "\nE,1500,SYNTH_START,job,partition=1\n",
		"TIMELINE,1,TIMELINE,1," + gpuEnd + "\nCHAN_SEND,a,\nCHAN_SEND,b,\n",
		"TIMELINE,1500," + cuda + "\nSYNTH_START,job,partition=1\n",
		"TIMELINE,15" + ansi + "\n00,SYNTH_START,job,partition=1\n",
		"cuzk-1  | TIMELINE,1500," + start2 + "\ncuzk-1  | SYNTH_START,job,partition=1\n",
		"TIMELINE,2,GPU_QUEUE,b,monolithic\x00\xff\n" + start1 + start2 + "\n0\n",
	} {
		f.Add([]byte(s), uint64(1))
	}
	f.Fuzz(func(t *testing.T, log []byte, seed uint64) {
		want, stats := scan(t, bytes.NewReader(log), true)
		var fromMarkers, line int64
		r := NewReader(bytes.NewReader(log), "")
		for r.Scan() {
			rec := r.Record()
			if rec.Line < line || rec.Line > stats.Lines || rec.Byte > int64(len(log)) {
				t.Errorf("line %d, byte %d after line %d", rec.Line, rec.Byte, line)
			}
			line = rec.Line
			switch rec.Type {
			case EventRecord:
				fromMarkers++
				if _, ok := firstMarker(log, rec); !ok {
					fromMarkers-- // from a part of a marker
				}
				if e := &rec.Event; e.Kind == 0 || e.Offset < 0 || e.Partition < WholeSector || e.Worker < Unknown || len(e.Job) == 0 {
					t.Errorf("event %+v", e)
				}
			case MalformedRecord:
				if rec.Problem == "" {
					t.Errorf("no problem with %q", rec.Text)
				}
				if hasMarker(rec.Text) {
					fromMarkers++
				}
			default:
				t.Errorf("type %d", rec.Type)
			}
		}
		if r.Stats() != stats || stats.Bytes != int64(len(log)) {
			t.Errorf("%+v without text, %+v with", r.Stats(), stats)
		}
		if n := int64(bytes.Count(log, []byte(marker))); n != fromMarkers {
			t.Errorf("%d records of %d markers", fromMarkers, n)
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		got, chunked := scan(t, &chunks{text: log, rng: rng, max: 1 + rng.IntN(100)}, true)
		if diff := cmp.Diff(want, got); diff != "" || chunked != stats {
			t.Errorf("in chunks: %+v, want %+v\n%s", chunked, stats, diff)
		}
	})
}

// firstMarker finds the marker in the line of a stitched record whose head
// begins in front of one; of other records there always is one.
func firstMarker(log []byte, rec *Record) (int, bool) {
	if !rec.Stitched {
		return 0, true
	}
	line, _, _ := bytes.Cut(log[rec.Byte:], newline)
	i := bytes.Index(line, []byte(marker))
	// A head that is a part of a marker ends in front of the first one, and
	// its prefix in front of that.
	return i, i >= 0 && (i == len(rec.Prefix) || len(rec.Prefix) == maxPrefix && i >= maxPrefix)
}

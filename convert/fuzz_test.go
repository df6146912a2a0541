package convert_test

import (
	"bytes"
	"context"
	"io"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/provetrace/provetrace/convert"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
)

// FuzzConvert converts any bytes: all spans that end are delivered, with ids of
// their own, and none goes beyond its parent.
func FuzzConvert(f *testing.F) {
	logs, err := filepath.Glob(filepath.Join("testdata", "*.log"))
	if err != nil || len(logs) == 0 {
		f.Fatalf("%d fixtures, error %v", len(logs), err)
	}
	for _, name := range logs {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:min(len(b), 6<<10)], 0) // short ones, which are mutated faster
		f.Add(b[max(0, len(b)-3<<10):], 2)
	}
	f.Add([]byte("TIMELINE,5,SYNTH_START,j,partition=0\nTIMELINE,3,GPU_END,j,worker=0,partition=0,gpu_ms=9\n"), 1)
	f.Add([]byte("TIMELINE,0,GPU_PICKUP,j,worker=7\nTIMELINE,9223372036854775807,GPU_END,j,worker=7,gpu_ms=1\n"), 1)
	f.Add([]byte("0000-01-01T00:00:00.000000Z  INFO cuzk_core::engine: Prove request_id=porep-1-2\n"+ // admitted before there are times
		"2000-01-01T00:00:00.000000Z  INFO cuzk_core::engine: started\nTIMELINE,0,SYNTH_START,porep-1-2,partition=0\n"), 0)
	f.Fuzz(func(t *testing.T, log []byte, workers int) {
		convertAny(t, run.Read(t.Context(), "fuzz", run.Options{WorkersPerDevice: workers % 8}, textSource(log)))
	})
}

// FuzzConvertSpans converts any bytes that can be read as spans.
func FuzzConvertSpans(f *testing.F) {
	for _, name := range []string{"failure", "dirty_dropped", "standard"} {
		var out bytes.Buffer
		log, err := os.ReadFile(fixture(name))
		if err != nil {
			f.Fatal(err)
		}
		log = log[:min(len(log), 2<<10)] // short, which is mutated faster
		p, err := tracing.Setup(f.Context(), tracing.Options{File: "-", Writer: &out, Lossless: true, DeterministicIDs: true})
		if err != nil {
			f.Fatal(err)
		}
		for u, err := range run.Read(f.Context(), name, run.Options{}, textSource(log)) {
			if err != nil {
				f.Fatal(err)
			}
			if err := convert.Run(f.Context(), p, u, name, nil); err != nil {
				f.Fatal(err)
			}
		}
		if _, err := p.Shutdown(context.Background()); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes())
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		convertAny(t, func(yield func(*run.Run, error) bool) {
			for u, err := range run.ReadSpans(t.Context(), "fuzz", run.Options{}, textSource(file)) {
				if err == nil && !yield(u, nil) {
					return
				}
			}
		})
	})
}

func textSource(text []byte) run.Source {
	return run.Source{Name: "fuzz", Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }}
}

// convertAny converts runs and holds what is true of the spans of any.
func convertAny(t *testing.T, runs iter.Seq2[*run.Run, error]) {
	var out bytes.Buffer
	p, err := tracing.Setup(t.Context(), tracing.Options{File: "-", Writer: &out, Lossless: true, DeterministicIDs: true})
	if err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]bool)
	for u, err := range runs {
		if err != nil {
			t.Fatal(err)
		}
		id := convert.RunID(u, "")
		if ids[id] {
			continue // it is up to the caller to have different ones
		}
		ids[id] = true
		if err := convert.Run(t.Context(), p, u, id, nil); err != nil {
			t.Fatal(err)
		}
	}
	d, err := p.Shutdown(context.Background())
	if err != nil || d.Delivered != d.Ended {
		t.Fatalf("%d of %d spans delivered, error %v", d.Delivered, d.Ended, err)
	}
	all := readSpans(t, out.Bytes())
	if int64(all.count()) != d.Delivered {
		t.Errorf("%d different spans of %d", all.count(), d.Delivered)
	}
	for _, tr := range all {
		for _, s := range tr {
			parent := tr[s.Parent]
			switch {
			case s.End.Before(s.Start):
				t.Errorf("%s [%v, %v] ends before it starts", s.Name, s.Start, s.End)
			case s.Parent == "":
			case parent == nil:
				t.Errorf("the parent of %s is not there", s.Name)
			case s.Start.Before(parent.Start) || s.End.After(parent.End):
				t.Errorf("%s [%v, %v] is not inside %s [%v, %v]", s.Name, s.Start, s.End, parent.Name, parent.Start, parent.End)
			}
		}
	}
}

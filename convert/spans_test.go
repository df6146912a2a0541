package convert_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/provetrace/provetrace/convert"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
)

// A span is what the tests look at of an exported span.
type span struct {
	Trace, ID, Parent string
	Name, Service     string
	Start, End        time.Time
	Attributes        map[string]any
	Resource          map[string]any
	Status            ptrace.StatusCode
	Message           string
	Links             []link
	Events            []event
}

type link struct{ Trace, Span string }

type event struct {
	Name       string
	Time       time.Time
	Attributes map[string]any
}

// spans are those of a conversion, by trace and id.
type spans map[string]map[string]*span

// convertTo converts a log into a pipeline and returns its runs' ids.
func convertTo(t testing.TB, o tracing.Options, ro run.Options, names ...string) []string {
	t.Helper()
	o.Lossless, o.DeterministicIDs = true, true
	p, err := tracing.Setup(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	logs, err := convert.Logs(t.Context(), names, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, l := range logs {
		for u, err := range run.Read(t.Context(), l.Name, ro, l.Sources...) {
			if err != nil {
				t.Fatal(err)
			}
			id := convert.RunID(u, "")
			if err := convert.Run(t.Context(), p, u, id, nil); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
	}
	d, err := p.Shutdown(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if d.Delivered != d.Ended || d.Ended == 0 {
		t.Fatalf("%d of %d spans delivered", d.Delivered, d.Ended)
	}
	return ids
}

// fixture returns the name of a fixture's log.
func fixture(name string) string { return filepath.Join("testdata", name+".log") }

// convertFixture returns the spans of a fixture.
func convertFixture(t testing.TB, name string) spans {
	t.Helper()
	return convertToFile(t, run.Options{}, fixture(name))
}

// convertToFile returns the spans that a conversion to a file has.
func convertToFile(t testing.TB, ro run.Options, names ...string) spans {
	t.Helper()
	var out bytes.Buffer
	convertTo(t, tracing.Options{File: "-", Writer: &out}, ro, names...)
	return readSpans(t, out.Bytes())
}

// readSpans returns the spans of a file of OTLP JSON.
func readSpans(t testing.TB, file []byte) spans {
	t.Helper()
	all := make(spans)
	var decoder ptrace.JSONUnmarshaler
	for line := range bytes.Lines(file) {
		traces, err := decoder.UnmarshalTraces(line)
		if err != nil {
			t.Fatalf("not OTLP JSON: %v", err)
		}
		all.add(t, traces)
	}
	return all
}

// add adds the spans of a request.
func (all spans) add(t testing.TB, traces ptrace.Traces) {
	t.Helper()
	for _, rs := range traces.ResourceSpans().All() {
		resource := rs.Resource().Attributes().AsRaw()
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				all.addSpan(t, resource, s)
			}
		}
	}
}

// count returns the number of spans.
func (all spans) count() (n int) {
	for _, tr := range all {
		n += len(tr)
	}
	return n
}

func (all spans) addSpan(t testing.TB, resource map[string]any, s ptrace.Span) {
	t.Helper()
	service, _ := resource["service.name"].(string)
	x := &span{
		Trace: s.TraceID().String(), ID: s.SpanID().String(), Parent: s.ParentSpanID().String(),
		Name: s.Name(), Service: service, Start: s.StartTimestamp().AsTime(), End: s.EndTimestamp().AsTime(),
		Attributes: s.Attributes().AsRaw(), Resource: resource, Status: s.Status().Code(), Message: s.Status().Message(),
	}
	for _, l := range s.Links().All() {
		x.Links = append(x.Links, link{l.TraceID().String(), l.SpanID().String()})
	}
	for _, e := range s.Events().All() {
		x.Events = append(x.Events, event{e.Name(), e.Timestamp().AsTime(), e.Attributes().AsRaw()})
	}
	if all[x.Trace] == nil {
		all[x.Trace] = make(map[string]*span)
	}
	if all[x.Trace][x.ID] != nil {
		t.Errorf("two spans have the id %s/%s", x.Trace, x.ID)
	}
	all[x.Trace][x.ID] = x
}

// children returns a span's children of a name.
func (all spans) children(of *span, name string) []*span {
	var found []*span
	for _, s := range all[of.Trace] {
		if s.Parent == of.ID && s.Name == name {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *span) int { return a.Start.Compare(b.Start) })
	return found
}

// named returns all spans of a name.
func (all spans) named(name string) []*span {
	var found []*span
	for _, tr := range all {
		for _, s := range tr {
			if s.Name == name {
				found = append(found, s)
			}
		}
	}
	slices.SortFunc(found, func(a, b *span) int { return a.Start.Compare(b.Start) })
	return found
}

// truth is what made a fixture.
type truth struct {
	Epoch int64 `json:"epoch_unix_us"`
	Jobs  []struct {
		Job             string
		Admitted        float64
		FailedPartition *int `json:"failed_partition"`
		Partitions      []truePartition
	}
}

type truePartition struct {
	Partition   *int
	SynthStart  *float64 `json:"synth_start"`
	SynthEnd    *float64 `json:"synth_end"`
	Queued      *float64
	Pickup      *float64
	GPUStart    *float64 `json:"gpu_start"`
	GPUEnd      *float64 `json:"gpu_end"`
	Worker      int
	GPU         int
	Skipped     bool
	SynthFailed bool `json:"synth_failed"`
}

func readTruth(t testing.TB, name string) truth {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var tr truth
	if err := json.Unmarshal(b, &tr); err != nil {
		t.Fatal(err)
	}
	return tr
}

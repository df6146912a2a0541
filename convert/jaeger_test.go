package convert_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/deploy/jaegertest"
	"github.com/provetrace/provetrace/tracing"
)

// clearEnvironment removes what would configure a pipeline.
func clearEnvironment(t *testing.T) {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, value) // restored after the test
			os.Unsetenv(name)
		}
	}
}

// TestJaeger converts logs into a real Jaeger, twice, and holds what it stored
// against the file that the same conversion writes.
func TestJaeger(t *testing.T) {
	jaeger := jaegertest.Start(t)
	clearEnvironment(t)
	fixtures := []struct {
		name string
		run  run.Options
	}{
		{name: "dual_worker_noisy"},
		{name: "failure"},
		{name: "two_gpus"},
		{name: "standard", run: run.Options{Epoch: time.Date(2026, 2, 18, 14, 59, 7, 123_456_000, time.UTC)}},
		{name: "split"},
		{name: "dirty_truncated", run: run.Options{Epoch: time.Date(2019, 12, 31, 23, 59, 59, 999_999_000, time.UTC)}}, // across years
	}
	// Until the restart, so that no span is under way when it is counted.
	sent := make([]spans, len(fixtures))
	for i, f := range fixtures {
		sent[i] = convertToFile(t, f.run, fixture(f.name))
		convertTo(t, tracing.Options{Endpoint: jaeger.GRPC, Protocol: "grpc"}, f.run, fixture(f.name))
		sent[i].wait(t, jaeger)
		convertTo(t, tracing.Options{Endpoint: jaeger.HTTP, Protocol: "http/protobuf"}, f.run, fixture(f.name))
	}
	jaeger.Restart(t)
	for i, f := range fixtures {
		t.Run(f.name, func(t *testing.T) {
			stored := sent[i].stored(t, jaeger)
			if diff := cmp.Diff(sent[i].asStored(), stored); diff != "" {
				t.Errorf("Jaeger's spans differ (-file +Jaeger):\n%s", diff)
			}
			sent[i].checkSearch(t, jaeger)
		})
	}
	services, err := jaeger.Services(t.Context())
	if want := []string{"prover", "prover-gpu", "prover-queue", "prover-synthesis"}; err != nil || !slices.Equal(services, want) {
		t.Errorf("Jaeger has the services %v (%v), want %v", services, err, want)
	}
}

// TestJaegerHasARunThatEndsNow converts as with --epoch now.
func TestJaegerHasARunThatEndsNow(t *testing.T) {
	jaeger := jaegertest.Start(t)
	clearEnvironment(t)
	before := time.Now()
	convertTo(t, tracing.Options{Endpoint: jaeger.GRPC}, run.Options{EndNow: true}, fixture("two_gpus"))
	after := time.Now()
	ctx, cancel := untilDeadline(t)
	defer cancel()
	var found []*jaegertest.Trace
	for roots := 0; roots < 2; { // the run's trace and a sector's, whichever are there
		var err error
		if found, err = jaeger.Find(ctx, "prover", before.Add(-time.Hour), after, 100); err != nil {
			t.Fatal(err)
		}
		roots = 0
		for _, tr := range found {
			roots += len(tr.Children(trace.SpanID{}))
		}
	}
	for _, tr := range found {
		for _, s := range tr.Spans {
			if s.End.After(after) {
				t.Errorf("%s ends at %v, after %v", s.Name, s.End, after)
			}
			if s.Resource["provetrace.epoch.source"] != "now" {
				t.Errorf("%s has the resource %v", s.Name, s.Resource)
			}
		}
	}
}

// untilDeadline returns a context that ends before the test is ended.
func untilDeadline(t *testing.T) (context.Context, context.CancelFunc) {
	if deadline, ok := t.Deadline(); ok {
		return context.WithDeadline(t.Context(), deadline.Add(-10*time.Second))
	}
	return context.WithCancel(t.Context())
}

// wait waits until Jaeger has all of the spans.
func (all spans) wait(t *testing.T, jaeger *jaegertest.Server) {
	t.Helper()
	ctx, cancel := untilDeadline(t)
	defer cancel()
	for id, tr := range all {
		if _, err := jaeger.WaitTrace(ctx, traceID(t, id), len(tr)); err != nil {
			t.Fatal(err)
		}
	}
}

func traceID(t *testing.T, hex string) trace.TraceID {
	t.Helper()
	id, err := trace.TraceIDFromHex(hex)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// stored returns what Jaeger has of the traces. A span that it has twice is an
// error.
func (all spans) stored(t *testing.T, jaeger *jaegertest.Server) spans {
	t.Helper()
	got := make(spans)
	for id := range all {
		tr, err := jaeger.Trace(t.Context(), traceID(t, id))
		if err != nil {
			t.Fatal(err)
		}
		got[id] = make(map[string]*span)
		for _, s := range tr.Spans {
			if got[id][s.SpanID.String()] != nil {
				t.Errorf("Jaeger has %s twice", s.Name)
			}
			x := fromJaeger(&s)
			got[id][x.ID] = x
			if len(s.Warnings) > 0 {
				t.Errorf("Jaeger warns of %s: %s", s.Name, s.Warnings)
			}
		}
	}
	return got
}

func fromJaeger(s *jaegertest.Span) *span {
	x := &span{
		Trace: s.TraceID.String(), ID: s.SpanID.String(),
		Name: s.Name, Service: s.Service, Start: s.Start, End: s.End,
		Attributes: s.Attributes, Resource: s.Resource, Message: s.StatusMessage,
	}
	if s.ParentID.IsValid() {
		x.Parent = s.ParentID.String()
	}
	switch s.StatusCode {
	case codes.Ok:
		x.Status = ptrace.StatusCodeOk
	case codes.Error:
		x.Status = ptrace.StatusCodeError
	}
	for _, l := range s.Links {
		x.Links = append(x.Links, link{l.TraceID.String(), l.SpanID.String()})
	}
	for _, e := range s.Events {
		x.Events = append(x.Events, event{e.Name, e.Time, e.Attributes})
	}
	return x
}

// asStored returns the spans as Jaeger keeps them: a list becomes a string with
// its JSON, and a span takes at least a nanosecond.
func (all spans) asStored() spans {
	kept := make(spans)
	for id, tr := range all {
		kept[id] = make(map[string]*span)
		for spanID, s := range tr {
			x := *s
			if x.End.Equal(x.Start) {
				x.End = x.Start.Add(time.Nanosecond)
			}
			x.Attributes = make(map[string]any)
			for k, v := range s.Attributes {
				if list, ok := v.([]any); ok {
					b, err := json.Marshal(list)
					if err != nil {
						panic(err) // a list of strings
					}
					v = string(b)
				}
				x.Attributes[k] = v
			}
			kept[id][spanID] = &x
		}
	}
	return kept
}

// checkSearch finds the run's traces by its time range, as the link to the
// search does.
func (all spans) checkSearch(t *testing.T, jaeger *jaegertest.Server) {
	t.Helper()
	var start, end time.Time
	for _, tr := range all {
		for _, s := range tr {
			if s.Parent == "" && (start.IsZero() || s.Start.Before(start)) {
				start = s.Start
			}
			if s.End.After(end) {
				end = s.End
			}
		}
	}
	found, err := jaeger.Find(t.Context(), "prover", start.Add(-time.Second), end.Add(time.Second), 200)
	if err != nil {
		t.Fatal(err)
	}
	for id := range all {
		if !slices.ContainsFunc(found, func(tr *jaegertest.Trace) bool { return tr.ID.String() == id }) {
			t.Errorf("the search does not find the trace %s", id)
		}
	}
}

// TestRunsFromJaeger sends runs to a real Jaeger, downloads their traces as its
// UI does, and reads the runs from that.
func TestRunsFromJaeger(t *testing.T) {
	jaeger := jaegertest.Start(t)
	clearEnvironment(t)
	for _, f := range []struct {
		name string
		run  run.Options
	}{
		{name: "dual_worker_noisy"},
		{name: "failure"},
		{name: "dirty_dropped", run: run.Options{Epoch: time.Date(2026, 2, 18, 14, 59, 7, 123_456_789, time.UTC)}},
	} {
		t.Run(f.name, func(t *testing.T) {
			all := convertToFile(t, f.run, fixture(f.name))
			convertTo(t, tracing.Options{Endpoint: jaeger.GRPC, Protocol: "grpc"}, f.run, fixture(f.name))
			all.wait(t, jaeger)
			name := filepath.Join(t.TempDir(), "download.json")
			file, err := os.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			for id := range all {
				answer, err := http.Get(jaeger.UI + "/api/traces/" + id)
				if err != nil {
					t.Fatal(err)
				}
				_, err = io.Copy(file, answer.Body)
				answer.Body.Close()
				if err != nil || answer.StatusCode != http.StatusOK {
					t.Fatalf("status %s, error %v", answer.Status, err)
				}
			}
			got := readRuns(t, name)
			want := runsOf(t, f.run, fixture(f.name))
			if len(got) != 1 || len(want) != 1 {
				t.Fatalf("%d runs, want %d", len(got), len(want))
			}
			got[0].Name = want[0].Name
			if diff := cmp.Diff(showRun(want[0]), showRun(got[0])); diff != "" {
				t.Errorf("the run differs (-log +Jaeger):\n%s", diff)
			}
		})
	}
}

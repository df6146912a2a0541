package jaegertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// ErrNotFound is what [Server.Trace] returns for a trace that Jaeger does not
// have, or does not have yet: spans are stored shortly after they are received.
var ErrNotFound = errors.New("trace not found")

// Trace is a trace as Jaeger returns it.
type Trace struct {
	ID    trace.TraceID
	Spans []Span // by start, then by span ID
}

// Span is a span as Jaeger returns it. Storage in Badger changes some of what
// was sent: an attribute that holds a list comes back as a string with the
// list's JSON, and the attributes of links are lost.
type Span struct {
	TraceID  trace.TraceID
	SpanID   trace.SpanID
	ParentID trace.SpanID // zero for a root
	Name     string
	Kind     trace.SpanKind
	Service  string // service.name of the resource
	Scope    string // name of the instrumentation scope
	Start    time.Time
	End      time.Time

	// Values are string, bool, int64, float64 or []byte. Attributes of the
	// resource are in Resource.
	Attributes map[string]any
	Resource   map[string]any

	Links         []Link
	Events        []Event
	StatusCode    codes.Code
	StatusMessage string

	// Warnings are Jaeger's own remarks on the span, which its UI shows.
	Warnings []string
}

// Link is a reference from a span to one that is not its parent.
type Link struct {
	TraceID trace.TraceID
	SpanID  trace.SpanID
}

// Event is something that happened at a moment within a span.
type Event struct {
	Name       string
	Time       time.Time
	Attributes map[string]any
}

// Named gives the trace's spans of that name.
func (t *Trace) Named(name string) []Span {
	return t.filter(func(s Span) bool { return s.Name == name })
}

// Children gives the spans whose parent is id; the zero ID gives the roots.
func (t *Trace) Children(id trace.SpanID) []Span {
	return t.filter(func(s Span) bool { return s.ParentID == id })
}

func (t *Trace) filter(keep func(Span) bool) []Span {
	var kept []Span
	for _, span := range t.Spans {
		if keep(span) {
			kept = append(kept, span)
		}
	}
	return kept
}

// Trace returns the trace with that ID, or an error that is [ErrNotFound].
func (s *Server) Trace(ctx context.Context, id trace.TraceID) (*Trace, error) {
	traces, err := s.traces(ctx, "/api/v3/traces/"+id.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", id, err)
	}
	if len(traces) != 1 || traces[0].ID != id {
		return nil, fmt.Errorf("trace %s: Jaeger answered with %d traces, which are not this one", id, len(traces))
	}
	return traces[0], nil
}

// WaitTrace returns the trace once Jaeger has at least that many of its spans,
// or what there is and an error when ctx ends first.
func (s *Server) WaitTrace(ctx context.Context, id trace.TraceID, spans int) (*Trace, error) {
	for {
		found, err := s.Trace(ctx, id)
		switch {
		case err == nil && len(found.Spans) >= spans:
			return found, nil
		case err != nil && ctx.Err() == nil && !errors.Is(err, ErrNotFound):
			return nil, err
		}
		select {
		case <-ctx.Done():
			have := 0
			if found != nil {
				have = len(found.Spans)
			}
			return found, fmt.Errorf("trace %s: Jaeger has %d of %d spans: %w", id, have, spans, ctx.Err())
		case <-time.After(healthInterval):
		}
	}
}

// Services returns the names of the services that Jaeger has spans of, sorted.
func (s *Server) Services(ctx context.Context) ([]string, error) {
	body, err := s.get(ctx, "/api/v3/services", nil)
	if err != nil {
		return nil, fmt.Errorf("services: %w", err)
	}
	var answer struct {
		Services []string `json:"services"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("services: read Jaeger's answer: %w", err)
	}
	slices.Sort(answer.Services)
	return answer.Services, nil
}

// Find returns the traces in which the service has a span that starts from start
// to end, with all of their spans: the limit latest, sorted by their start. None
// is not an error.
func (s *Server) Find(ctx context.Context, service string, start, end time.Time, limit int) ([]*Trace, error) {
	traces, err := s.traces(ctx, "/api/v3/traces", url.Values{
		"query.service_name":   {service},
		"query.start_time_min": {start.UTC().Format(time.RFC3339Nano)},
		"query.start_time_max": {end.UTC().Format(time.RFC3339Nano)},
		"query.num_traces":     {strconv.Itoa(limit)},
	})
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("traces of service %q: %w", service, err)
	}
	return traces, nil
}

// traces gets a path of the query API that answers with spans.
func (s *Server) traces(ctx context.Context, path string, query url.Values) ([]*Trace, error) {
	body, err := s.get(ctx, path, query)
	if err != nil {
		return nil, err
	}
	traces, err := decode(body)
	if err != nil {
		return nil, fmt.Errorf("read Jaeger's answer: %w", err)
	}
	return traces, nil
}

// get reads a path of the query API, version 3: unlike the one that the UI reads,
// it is documented, and keeps nanoseconds, types and statuses as they were sent.
func (s *Server) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	target := s.UI + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode == http.StatusNotFound:
		return nil, ErrNotFound
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("GET %s: %s: %s", target, response.Status, body)
	}
	return body, nil
}

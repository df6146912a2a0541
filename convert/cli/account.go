package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/provetrace/provetrace/convert/report"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
)

// A printer gives the account of a conversion on the way.
type printer interface {
	// run tells of a run that was converted under an id.
	run(r *run.Run, id string, pages jaeger) error
	// delivered ends the account; to says where the spans went.
	delivered(d tracing.Delivery, to string) error
}

// A jaeger is where the pages of a Jaeger are, if anywhere.
type jaeger struct {
	url     string // or empty
	service string // base of the spans' services
}

// An account says what a run holds and where its traces are.
type account struct {
	Name           string       `json:"name"`
	Run            string       `json:"run"` // provetrace.run
	Epoch          epochAccount `json:"epoch"`
	Start          time.Time    `json:"start"`
	End            time.Time    `json:"end"`
	Sectors        int          `json:"sectors"`
	Partitions     int          `json:"partitions"`
	Failed         int          `json:"failed"`     // sectors
	Unfinished     int          `json:"unfinished"` // sectors
	Skipped        int          `json:"skipped"`    // partitions
	GPUs           []gpuAccount `json:"gpus"`
	WorkersAssumed bool         `json:"workers_assumed"`
	Input          run.Input    `json:"input"`
	Overview       []link       `json:"overview"`
	Search         string       `json:"search_url,omitempty"`
}

type epochAccount struct {
	Time        time.Time       `json:"time"`
	Source      run.EpochSource `json:"source"`
	Uncertainty *float64        `json:"uncertainty_ms"` // null where it cannot be told
}

type gpuAccount struct {
	Ordinal int   `json:"ordinal"`
	Workers []int `json:"workers"`
}

// A link leads to a trace.
type link struct {
	TraceID string `json:"trace_id"`
	URL     string `json:"url,omitempty"`
}

// A sectorLink leads to a sector's trace.
type sectorLink struct {
	Job     string `json:"job"`
	Attempt int    `json:"attempt"`
	State   string `json:"state"` // finished, failed, unfinished
	link
}

func newAccount(r *run.Run, id string, pages jaeger) account {
	a := account{
		Name: r.Name, Run: id, Epoch: epochAccount{Time: r.Epoch.Time, Source: r.Epoch.Source},
		Start: r.Time(max(r.First, 0)), End: r.Time(max(r.Last, 0)),
		Sectors: len(r.Sectors), WorkersAssumed: r.WorkersAssumed, Input: r.Input,
	}
	if u := r.Epoch.Uncertainty; u >= 0 {
		ms := float64(u) / float64(time.Millisecond)
		a.Epoch.Uncertainty = &ms
	}
	for _, d := range r.Devices {
		a.GPUs = append(a.GPUs, gpuAccount{d.Ordinal, d.Workers})
	}
	for _, s := range r.Sectors {
		switch s.State() {
		case run.Failed:
			a.Failed++
		case run.Incomplete:
			a.Unfinished++
		}
		a.Partitions += s.Len()
		for p := range s.Partitions() {
			if p.State == run.Skipped {
				a.Skipped++
			}
		}
	}
	for part := range tracing.RunTraces(len(r.Sectors)) {
		a.Overview = append(a.Overview, newLink(id, "", part+1, pages))
	}
	if pages.url != "" {
		a.Search = pages.search(a.Start, a.End)
	}
	return a
}

func newLink(id, job string, attempt int, pages jaeger) link {
	l := link{TraceID: tracing.TraceIDFor(id, job, attempt).String()}
	if pages.url != "" {
		l.URL = strings.TrimRight(pages.url, "/") + "/trace/" + l.TraceID
	}
	return l
}

func newSectorLink(id string, s *run.Sector, pages jaeger) sectorLink {
	state := "finished"
	switch s.State() {
	case run.Failed:
		state = "failed"
	case run.Incomplete:
		state = "unfinished"
	}
	return sectorLink{s.Job, s.Attempt, state, newLink(id, s.Job, s.Attempt, pages)}
}

// search returns the address of the search for the run's sectors, over the run's
// own time: a log of last month is not in the last hour.
func (j jaeger) search(start, end time.Time) string {
	q := url.Values{
		"service":   {tracing.StagePipeline.ServiceName(j.service)},
		"operation": {tracing.SpanSector},
		"lookback":  {"custom"},
		"start":     {strconv.FormatInt(start.Add(-time.Second).UnixMicro(), 10)},
		"end":       {strconv.FormatInt(end.Add(time.Second).UnixMicro(), 10)},
		"limit":     {"200"},
	}
	return strings.TrimRight(j.url, "/") + "/search?" + q.Encode()
}

// A jsonPrinter gives the account as one JSON object, written as it comes, so
// that it can be of any length.
type jsonPrinter struct {
	w    io.Writer
	runs int
}

func (p *jsonPrinter) run(r *run.Run, id string, pages jaeger) error {
	w := bufio.NewWriter(p.w)
	if p.runs == 0 {
		w.WriteString(`{"runs":[`)
	} else {
		w.WriteByte(',')
	}
	p.runs++
	head, err := json.Marshal(newAccount(r, id, pages))
	if err != nil {
		return err
	}
	w.WriteByte('\n')
	w.Write(head[:len(head)-1])
	w.WriteString(`,"traces":[`)
	for i, s := range r.Sectors {
		if i > 0 {
			w.WriteByte(',')
		}
		b, err := json.Marshal(newSectorLink(id, s, pages))
		if err != nil {
			return err
		}
		w.WriteByte('\n')
		w.Write(b)
	}
	w.WriteString("]}")
	return cannotWrite(w.Flush())
}

func (p *jsonPrinter) delivered(d tracing.Delivery, to string) error {
	head := "\n],"
	if p.runs == 0 {
		head = `{"runs":[],`
	}
	_, err := fmt.Fprintf(p.w, "%s\"spans\":{\"ended\":%d,\"delivered\":%d,\"failed\":%d,\"dropped\":%d}}\n", head, d.Ended, d.Delivered, d.Failed, d.Dropped)
	return cannotWrite(err)
}

func cannotWrite(err error) error {
	if err != nil {
		return fmt.Errorf("cannot write the account: %w", err)
	}
	return nil
}

// A textPrinter gives the account for people.
type textPrinter struct {
	w     io.Writer
	width int
	color bool
	runs  int
}

// maxSectorLinks bounds the sectors whose traces the text names.
const maxSectorLinks = 24

func (p *textPrinter) run(r *run.Run, id string, pages jaeger) error {
	w := bufio.NewWriter(p.w)
	if p.runs++; p.runs > 1 {
		fmt.Fprintln(w)
	}
	a := newAccount(r, id, pages)
	p.facts(w, &a)
	if len(r.Sectors) == 0 {
		return cannotWrite(w.Flush())
	}
	fmt.Fprintln(w)
	if err := report.Waterfall(w, r, report.WaterfallOptions{Width: p.width, Color: p.color, ASCII: !report.UTF8Locale()}); err != nil {
		return cannotWrite(err)
	}
	p.traces(w, r, id, pages, &a)
	return cannotWrite(w.Flush())
}

// facts tells what the run holds, what was read and how far to trust it.
func (p *textPrinter) facts(w io.Writer, a *account) {
	in := &a.Input
	fmt.Fprintf(w, "%s: %s, %s", report.Sanitize(a.Name), count(int64(a.Sectors), "sector"), count(int64(a.Partitions), "partition"))
	for _, n := range []struct {
		n    int
		what string
	}{{a.Failed, "failed"}, {a.Unfinished, "unfinished"}} {
		if n.n > 0 {
			fmt.Fprintf(w, ", %d %s", n.n, n.what)
		}
	}
	if a.Skipped > 0 {
		fmt.Fprintf(w, ", %s skipped", count(int64(a.Skipped), "partition"))
	}
	fmt.Fprintf(w, " in %s\n", a.End.Sub(a.Start).Round(time.Millisecond))
	p.fact(w, "read", strings.Join(nonEmpty(
		count(in.Events, "event")+" in "+count(in.Lines, "line"),
		some(in.Malformed, "malformed"), some(in.Stitched, "stitched"), some(in.Duplicates, "repeated"),
		some(in.Inferred, "times inferred"), timingsText(in)), ", "))
	for _, m := range in.Problems {
		p.fact(w, "", fmt.Sprintf("line %d: %s: %s", m.Line, m.What, report.Sanitize(m.Text)))
	}
	if more := in.Malformed - int64(len(in.Problems)); more > 0 && len(in.Problems) > 0 {
		p.fact(w, "", fmt.Sprintf("and %d more", more))
	}
	p.fact(w, "began", a.Start.UTC().Format("2006-01-02 15:04:05.000 UTC")+", "+epochText(a.Epoch))
	if a.WorkersAssumed && len(a.GPUs) > 0 {
		p.fact(w, "devices", fmt.Sprintf("%d, assumed: the log does not say which GPU worker drives which device (--gpu-workers-per-device)", len(a.GPUs)))
	}
	p.fact(w, "run", report.Sanitize(a.Run))
}

// fact writes one fact, its name in front.
func (p *textPrinter) fact(w io.Writer, name, text string) {
	fmt.Fprintf(w, "  %-8s %s\n", name, text)
}

func timingsText(in *run.Input) string {
	if in.Timings == 0 && in.Orphans == 0 {
		return ""
	}
	text := "CUDA timings of " + count(in.Timings, "partition")
	if in.Orphans > 0 {
		text += fmt.Sprintf(" (%d fit no single partition)", in.Orphans)
	}
	return text
}

// epochText says where a run's wall clock comes from.
func epochText(e epochAccount) string {
	within := ""
	if e.Uncertainty != nil {
		within = fmt.Sprintf(" within %.3g ms", *e.Uncertainty)
	}
	switch e.Source {
	case run.EpochEngineLog:
		return "by the engine's own lines" + within
	case run.EpochPrefix:
		return "by the times before the lines" + within
	case run.EpochFileTime:
		return "if the file was last written when the run ended: the log has no wall clock (--epoch)"
	case run.EpochReadTime:
		return "if the run ends now: the log has no wall clock (--epoch)"
	case run.EpochNextRun:
		return "if the log's next run began when this one ended: there is no wall clock (--epoch)"
	case run.EpochNow:
		return "moved so that the run ends now"
	default:
		return "as given"
	}
}

// traces tells where the run's traces are.
func (p *textPrinter) traces(w io.Writer, r *run.Run, id string, pages jaeger, a *account) {
	where := func(l link) string {
		if l.URL != "" {
			return l.URL
		}
		return l.TraceID
	}
	fmt.Fprintln(w)
	for i, l := range a.Overview {
		name := "whole run"
		if len(a.Overview) > 1 {
			name = fmt.Sprintf("run, part %d", i+1)
			if i == maxOverviewLinks {
				fmt.Fprintf(w, "  … %d more parts\n", len(a.Overview)-i)
				break
			}
		}
		fmt.Fprintf(w, "  %-12s %s\n", name, where(l))
	}
	for i, s := range r.Sectors {
		if i == maxSectorLinks {
			fmt.Fprintf(w, "  … %s more; --format json names all\n", count(int64(len(r.Sectors)-i), "sector"))
			break
		}
		name := report.Fit(report.Sanitize(s.Label()), 12)
		l := newSectorLink(id, s, pages)
		fmt.Fprintf(w, "  %-12s %s", name, where(l.link))
		if s.Attempt > 1 {
			fmt.Fprintf(w, " attempt %d", s.Attempt)
		}
		if reason, failed := s.Failed(); failed {
			fmt.Fprintf(w, " failed: %s", report.Sanitize(reason))
		} else if l.State != "finished" {
			fmt.Fprintf(w, " %s", l.State)
		}
		fmt.Fprintln(w)
	}
	if a.Search != "" {
		fmt.Fprintf(w, "  %-12s %s\n", "search", a.Search)
	}
}

// maxOverviewLinks bounds the parts of the run's trace that the text names.
const maxOverviewLinks = 4

func (p *textPrinter) delivered(d tracing.Delivery, to string) error {
	if p.runs == 0 {
		return nil
	}
	_, err := fmt.Fprintf(p.w, "\n%d of %s delivered to %s\n", d.Delivered, count(d.Ended, "span"), to)
	return cannotWrite(err)
}

// count returns a number with the thing that it counts.
func count(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.FormatInt(n, 10) + " " + thing
}

// some returns a number with what it is of, or nothing where it is 0.
func some(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10) + " " + what
}

func nonEmpty(parts ...string) []string {
	kept := parts[:0]
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return kept
}

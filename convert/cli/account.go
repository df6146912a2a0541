package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/provetrace/provetrace/convert/report"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
	"github.com/provetrace/provetrace/tracing/jaeger"
)

// A printer gives the account of a conversion on the way.
type printer interface {
	// run tells of a run that was converted under an id.
	run(r *run.Run, id string, pages jaegerPages) error
	// end ends the account; to says where the spans went, failures what failed.
	end(d tracing.Delivery, to string, failures []error) error
}

// jaegerPages are those of the Jaeger that the spans are looked at in, if any.
type jaegerPages struct {
	jaeger.UI
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
	Failed         int          `json:"failed"`                  // sectors
	Unfinished     int          `json:"unfinished"`              // sectors
	Skipped        int          `json:"skipped"`                 // partitions
	Startless      int          `json:"without_synthesis_start"` // partitions
	Endless        int          `json:"without_proof_end"`       // partitions that a GPU worker began to prove
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
	State   string `json:"state"`            // finished, failed, unfinished
	Reason  string `json:"reason,omitempty"` // why it failed
	link
}

func newAccount(r *run.Run, id string, pages jaegerPages) account {
	n := r.Tally()
	a := account{
		Name: r.Name, Run: id, Epoch: epochAccount{Time: r.Epoch.Time, Source: r.Epoch.Source},
		Start: r.Time(max(r.First, 0)), End: r.Time(max(r.Last, 0)),
		Sectors: len(r.Sectors), Partitions: n.Partitions, Failed: n.Failed, Unfinished: n.Unfinished,
		Skipped: n.Skipped, Startless: n.Startless, Endless: n.Endless,
		GPUs: []gpuAccount{}, WorkersAssumed: r.WorkersAssumed, Input: r.Input,
		Overview: []link{},
	}
	if u := r.Epoch.Uncertainty; u >= 0 {
		ms := float64(u) / float64(time.Millisecond)
		a.Epoch.Uncertainty = &ms
	}
	for _, d := range r.Devices {
		a.GPUs = append(a.GPUs, gpuAccount{d.Ordinal, d.Workers})
	}
	if a.Sectors == 0 {
		return a
	}
	for part := range tracing.RunTraces(len(r.Sectors)) {
		a.Overview = append(a.Overview, newLink(id, "", part+1, pages))
	}
	// Over the run's own time: a log of last month is not in the last hour.
	a.Search = pages.Search(tracing.StagePipeline.ServiceName(pages.service), tracing.SpanSector, a.Start, a.End)
	return a
}

func newLink(id, job string, attempt int, pages jaegerPages) link {
	trace := tracing.TraceIDFor(id, job, attempt).String()
	return link{trace, pages.Trace(trace)}
}

func newSectorLink(id string, s *run.Sector, pages jaegerPages) sectorLink {
	state := "finished"
	switch s.State() {
	case run.Failed:
		state = "failed"
	case run.Incomplete:
		state = "unfinished"
	}
	reason, _ := s.Failed()
	return sectorLink{s.Job, s.Attempt, state, reason, newLink(id, s.Job, s.Attempt, pages)}
}

// A jsonPrinter gives the account as one JSON object, written as it comes, so
// that it can be of any length.
type jsonPrinter struct {
	w    io.Writer
	runs int
}

func (p *jsonPrinter) run(r *run.Run, id string, pages jaegerPages) error {
	w := bufio.NewWriter(p.w)
	if p.runs == 0 {
		w.WriteString(`{"runs":[`)
	} else {
		w.WriteByte(',')
	}
	p.runs++
	head, err := encode(newAccount(r, id, pages))
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
		b, err := encode(newSectorLink(id, s, pages))
		if err != nil {
			return err
		}
		w.WriteByte('\n')
		w.Write(b)
	}
	w.WriteString("]}")
	return cannotWrite(w.Flush())
}

func (p *jsonPrinter) end(d tracing.Delivery, _ string, failures []error) error {
	head := "\n],"
	if p.runs == 0 {
		head = `{"runs":[],`
	}
	texts := make([]string, len(failures))
	for i, err := range failures {
		texts[i] = err.Error()
	}
	errs, err := encode(texts)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.w, "%s\"spans\":{\"ended\":%d,\"delivered\":%d,\"failed\":%d,\"dropped\":%d},\"errors\":%s}\n",
		head, d.Ended, d.Delivered, d.Failed, d.Dropped, errs)
	return cannotWrite(err)
}

// encode returns v as JSON that a terminal can show: what it might obey is
// written as \u, as JSON writes the control characters of ASCII.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	b := bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})
	var safe []byte
	done := 0 // of b
	for i := 0; i < len(b); {
		if b[i] < 0x7f {
			i++
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		if !unicode.IsPrint(r) {
			safe = append(safe, b[done:i]...)
			for _, u := range utf16.AppendRune(nil, r) {
				safe = fmt.Appendf(safe, `\u%04x`, u)
			}
			done = i + n
		}
		i += n
	}
	if done == 0 {
		return b, nil
	}
	return append(safe, b[done:]...), nil
}

func cannotWrite(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE):
		return errors.New("cannot write the account: what read it has stopped reading")
	default:
		return fmt.Errorf("cannot write the account: %w", err)
	}
}

// A textPrinter gives the account for people.
type textPrinter struct {
	w         io.Writer
	width     int
	color     bool
	perDevice int // GPU workers, as given; 0 where they are not

	runs      int
	converted bool // one with sectors
}

// maxSectorLinks bounds the sectors whose traces the text names.
const maxSectorLinks = 24

func (p *textPrinter) run(r *run.Run, id string, pages jaegerPages) error {
	w := bufio.NewWriter(p.w)
	if p.runs++; p.runs > 1 {
		fmt.Fprintln(w)
	}
	a := newAccount(r, id, pages)
	p.facts(w, &a)
	if len(r.Sectors) == 0 {
		return cannotWrite(w.Flush())
	}
	p.converted = true
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
	if a.Sectors == 0 {
		p.head(w, a.Name, "no event that can be read")
	} else {
		p.head(w, a.Name, fmt.Sprintf("%s%s, %s%s in %s",
			count(int64(a.Sectors), "sector"), within(some(int64(a.Failed), "failed"), some(int64(a.Unfinished), "unfinished")),
			count(int64(a.Partitions), "partition"), within(some(int64(a.Skipped), "skipped")),
			a.End.Sub(a.Start).Round(time.Millisecond)))
	}
	inferred := ""
	if in.Inferred > 0 {
		inferred = count(in.Inferred, "time") + " inferred"
	}
	read := count(in.Events, "event") + " in " + count(in.Lines, "line")
	if in.Messages > 0 {
		read = count(in.Events, "span") + " in " + count(in.Messages, "message")
	}
	p.fact(w, "read", strings.Join(nonEmpty(
		read, some(in.Foreign, "of other programs"),
		some(in.Malformed, "malformed"), some(in.Stitched, "stitched"), some(in.Duplicates, "repeated"),
		inferred, timingsText(in)), ", "))
	for _, m := range in.Problems {
		text := m.Place() + ": " + report.Sanitize(m.What)
		quoted := report.Fit(m.Text, p.factWidth())
		if room := p.factWidth() - uniseg.StringWidth(text+": "); room >= narrowestQuote {
			quoted = report.Fit(m.Text, room)
		}
		if m.Text != "" {
			text += ": " + quoted
		}
		p.fact(w, "", text)
	}
	if more := in.Malformed - int64(len(in.Problems)); more > 0 && len(in.Problems) > 0 {
		p.fact(w, "", fmt.Sprintf("and %d more", more))
	}
	if a.Sectors == 0 {
		return
	}
	if lacks := nonEmpty(some(int64(a.Startless), "synthesis starts"), some(int64(a.Endless), "proof ends, so that the GPU's figures are a lower bound")); len(lacks) > 0 {
		p.fact(w, "lacks", strings.Join(lacks, ", "))
	}
	p.fact(w, "began", a.Start.UTC().Format("2006-01-02 15:04:05.000 UTC")+", "+epochText(a.Epoch))
	ofSpans := in.Messages > 0 // what was assumed, their conversion did
	switch {
	case !a.WorkersAssumed:
	case len(a.GPUs) == 0:
		p.fact(w, "devices", "none: no GPU worker took anything")
	case ofSpans:
		p.fact(w, "devices", fmt.Sprintf("%d, assumed: the log of these spans does not say which GPU worker drives which device (convert has --gpu-workers-per-device)", len(a.GPUs)))
	case p.perDevice > 0:
		p.fact(w, "devices", fmt.Sprintf("%d, with %s each, as given", len(a.GPUs), count(int64(p.perDevice), "GPU worker")))
	default:
		p.fact(w, "devices", fmt.Sprintf("%d, assumed: the log does not say which GPU worker drives which device (--gpu-workers-per-device)", len(a.GPUs)))
	}
	if a.Run != "" {
		p.fact(w, "run", report.Sanitize(a.Run))
	}
}

// narrowestQuote is how many columns a quoted line takes at least where it stands
// behind what is said of it.
const narrowestQuote = 16

// narrowestName is how many columns the name of a run takes at least, if it is as
// long, where it stands before what is said of the run.
const narrowestName = 24

// head writes a run's name, and what is said of it.
func (p *textPrinter) head(w io.Writer, name, text string) {
	whole := report.Sanitize(name)
	if room := p.width - len(text) - len(": "); room >= min(uniseg.StringWidth(whole), narrowestName) {
		fmt.Fprintf(w, "%s: %s\n", report.Middle(whole, room), text)
		return
	}
	fmt.Fprintf(w, "%s:\n", report.Middle(whole, p.width-len(":")))
	for line := range report.Wrapped(text, p.width-len("  ")) {
		fmt.Fprintf(w, "  %s\n", line)
	}
}

func (p *textPrinter) factWidth() int { return p.width - len("  nnnnnnnn ") }

// fact writes one fact, its name in front, over as many lines as it needs.
func (p *textPrinter) fact(w io.Writer, name, text string) {
	for line := range report.Wrapped(text, p.factWidth()) {
		fmt.Fprintf(w, "  %-8s %s\n", name, line)
		name = ""
	}
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
	bound := ""
	if e.Uncertainty != nil {
		bound = fmt.Sprintf(", within %.3g ms", *e.Uncertainty)
	}
	const noClock = " (the log has no wall clock; --epoch gives one)"
	switch e.Source {
	case run.EpochEngineLog:
		return "from the engine's own lines" + bound
	case run.EpochPrefix:
		return "from the times in front of the lines" + bound
	case run.EpochFileTime:
		return "if the run ended when the file was last written" + noClock
	case run.EpochReadTime:
		return "if the run ends now" + noClock
	case run.EpochNextRun:
		return "if it ended when the log's next run began" + noClock
	case run.EpochNow:
		return "moved so that the run ends now"
	case run.EpochSpans:
		return "by the spans' own times"
	default:
		return "as given"
	}
}

// traces tells where the run's traces are.
func (p *textPrinter) traces(w io.Writer, r *run.Run, id string, pages jaegerPages, a *account) {
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
				fmt.Fprintf(w, "  and %d more parts\n", len(a.Overview)-i)
				break
			}
		}
		fmt.Fprintf(w, "  %-12s %s\n", name, where(l))
	}
	for i, s := range r.Sectors {
		if i == maxSectorLinks {
			fmt.Fprintf(w, "  and %s more; --format json names all\n", count(int64(len(r.Sectors)-i), "sector"))
			break
		}
		name := report.Column(s.Label(), 12)
		l := newSectorLink(id, s, pages)
		fmt.Fprintf(w, "  %s %s", name, where(l.link))
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

func (p *textPrinter) end(d tracing.Delivery, to string, _ []error) error {
	if !p.converted {
		return nil
	}
	n := count(d.Ended, "span")
	if d.Delivered != d.Ended {
		n = strconv.FormatInt(d.Delivered, 10) + " of " + n
	}
	text := n + " delivered to " + to
	if why, ok := strings.CutPrefix(to, "nowhere, "); ok {
		text = "no spans delivered, " + why
	}
	_, err := fmt.Fprintf(p.w, "\n%s\n", report.Sanitize(text))
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

// within returns, in parentheses, what part of a number differs.
func within(parts ...string) string {
	if parts = nonEmpty(parts...); len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
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

package cli

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/report"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/prover"
	"github.com/provetrace/provetrace/prover/porep"
	"github.com/provetrace/provetrace/tracing"
)

// A summary tells of a run: what --format json prints, and what run.json holds.
type summary struct {
	Backend   string      `json:"backend"`
	Mode      prover.Mode `json:"mode"`
	Profile   string      `json:"profile,omitempty"`    // of a simulation
	TimeScale float64     `json:"time_scale,omitempty"` // of a simulation
	Seed      uint64      `json:"seed"`

	Partitions int    `json:"partitions"` // of a sector
	Sizes      *sizes `json:"sizes,omitempty"`
	System     string `json:"constraint_system,omitempty"` // its hash

	Sectors  []sectorSummary `json:"sectors"`
	Overview []link          `json:"overview"`
	Search   string          `json:"search_url,omitempty"`
	Figures  any             `json:"report"` // as report --format json has them, null where there are none

	Directory string `json:"directory,omitempty"`
	Journal   string `json:"journal,omitempty"`
	Spans     struct {
		Written int64  `json:"written"`
		Sent    *int64 `json:"sent,omitempty"`
		To      string `json:"to,omitempty"`
	} `json:"spans"`
	Warnings []string `json:"warnings"`
	Errors   []string `json:"errors"`

	figures *figures.Figures
}

// sizes are those of a circuit.
type sizes struct {
	Nodes      int `json:"nodes"`
	Layers     int `json:"layers"`
	Challenges int `json:"challenges"`

	Constraints int `json:"constraints"`
	Variables   int `json:"variables"`
}

// A link leads to a trace.
type link struct {
	TraceID string `json:"trace_id,omitempty"` // empty where it did not begin
	URL     string `json:"url,omitempty"`
}

// How the proving of a sector ended.
const (
	stateProved    = "proved"
	stateSimulated = "simulated"
	stateFailed    = "failed"
	stateAbandoned = "abandoned"
)

type sectorSummary struct {
	Job       string           `json:"job"`
	State     string           `json:"state"`            // proved, simulated, failed, abandoned
	Reason    string           `json:"reason,omitempty"` // why it is not proved
	Statement *publicStatement `json:"statement,omitempty"`
	Proof     string           `json:"proof,omitempty"` // its file in the directory
	link
}

// A publicStatement is what a verifier is told. Elements of the field are
// numbers of 32 bytes, the most significant first.
type publicStatement struct {
	Miner  uint64   `json:"miner"`
	Sector uint64   `json:"sector"`
	Ticket hexBytes `json:"ticket"`
	Seed   hexBytes `json:"seed"`
	CommD  hexBytes `json:"comm_d"`
	CommR  hexBytes `json:"comm_r"`
}

type hexBytes [32]byte

func (h hexBytes) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

func newPublicStatement(st porep.Statement) *publicStatement {
	element := func(e fr.Element) hexBytes { return e.Bytes() }
	return &publicStatement{st.Sector.Miner, st.Sector.Number, st.Ticket, st.Seed, element(st.CommD), element(st.CommR)}
}

// newSummary begins the summary of a run that has ended.
func newSummary(p *proving) *summary {
	s := &summary{
		Backend: p.backend, Mode: p.mode, Seed: p.seed, Partitions: p.sizes.Partitions,
		Overview: []link{}, Warnings: []string{}, Errors: []string{},
	}
	if p.backend == backendSim {
		s.Profile, s.TimeScale = p.profile, p.timeScale
	} else {
		sys := p.circuit.System()
		hash := sys.Hash()
		s.System = hex.EncodeToString(hash[:])
		s.Sizes = &sizes{p.sizes.Nodes, p.sizes.Layers, p.sizes.Challenges, sys.NumConstraints(), sys.NumVariables()}
	}
	for _, x := range p.sectors {
		s.Sectors = append(s.Sectors, newSectorSummary(p, x))
	}
	for _, id := range p.overviews {
		s.Overview = append(s.Overview, p.link(id))
	}
	if p.dir.kept {
		s.Directory = p.dir.path
	}
	if p.dir.kept || p.options.journal != "" {
		s.Journal = p.journal.Name()
	}
	return s
}

func newSectorSummary(p *proving, x *sector) sectorSummary {
	s := sectorSummary{Job: x.job.ID, State: stateProved}
	switch {
	case x.err == nil && x.replica == nil:
		s.State = stateSimulated
	case x.err == nil:
		if p.dir.kept && x.stored == nil {
			s.Proof = proofsOf(x.job.ID)
		}
	case errors.Is(x.err, errInterrupted):
		s.State = stateAbandoned
	default:
		s.State, s.Reason = stateFailed, sentence(x.err).Error()
	}
	if x.replica != nil {
		s.Statement = newPublicStatement(x.replica.Statement())
	}
	if id, known := x.begun.traceID(); known {
		s.link = p.link(id.String())
	}
	return s
}

func (p *proving) link(id string) link { return link{id, p.pages.Trace(id)} }

// end completes the summary with what was recorded.
func (s *summary) end(p *proving, r *run.Run) {
	if r != nil {
		r.Name = "the run"
		s.figures = figures.Of(r)
		s.Figures = report.JSON(r, s.figures, figures.Scope{})
		s.Search = p.pages.Search(tracing.StagePipeline.ServiceName(p.file.ServiceName()), tracing.SpanSector, r.Time(r.First), r.Time(r.Last))
	}
	s.Warnings = append(s.Warnings, p.warnings...)
	for _, err := range p.failures {
		s.Errors = append(s.Errors, err.Error())
	}
}

// print writes the summary.
func (s *summary) print(to *os.File, format string, r *run.Run) error {
	w := bufio.NewWriter(to)
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		if err := e.Encode(s); err != nil {
			return err
		}
		return w.Flush()
	}
	width, color := report.Terminal(to)
	s.head(w, width)
	if r != nil && len(r.Sectors) > 0 {
		fmt.Fprintln(w)
		if err := report.Text(w, r, s.figures, report.TextOptions{Width: width, Color: color, ASCII: !report.UTF8Locale()}); err != nil {
			return err
		}
	}
	s.foot(w, width)
	return w.Flush()
}

// head says what was done.
func (s *summary) head(w io.Writer, width int) {
	proved := 0
	for _, x := range s.Sectors {
		if x.State == stateProved || x.State == stateSimulated {
			proved++
		}
	}
	text := fmt.Sprintf("%d of %d sectors proved on %s, in %d partitions each, and verified", proved, len(s.Sectors), s.Backend, s.Partitions)
	if s.Backend == backendSim {
		text = fmt.Sprintf("%d of %d sectors simulated, in %d partitions each, with the times of the profile %s multiplied by %v: a second here stands for %.4g s there",
			proved, len(s.Sectors), s.Partitions, s.Profile, s.TimeScale, 1/s.TimeScale)
	}
	for line := range report.Wrapped(text, width) {
		fmt.Fprintln(w, line)
	}
}

// maxSectorLinks bounds the sectors whose traces the text names.
const maxSectorLinks = 24

// foot says where things are.
func (s *summary) foot(w io.Writer, width int) {
	fmt.Fprintln(w)
	fact := func(name, text string) {
		for line := range report.Wrapped(text, max(width-len("  nnnnnnnnnnnn "), 20)) {
			fmt.Fprintf(w, "  %-12s %s\n", name, line)
			name = ""
		}
	}
	if s.Directory != "" {
		fact("kept in", report.Sanitize(s.Directory))
	} else {
		fact("kept", "nothing: --out DIR keeps spans, journal and proofs")
	}
	if s.Spans.Sent != nil {
		fact("sent", fmt.Sprintf("%d spans to %s", *s.Spans.Sent, report.Sanitize(s.Spans.To)))
	}
	isSent := s.Spans.Sent != nil && *s.Spans.Sent > 0
	if isKept := s.Directory != "" && s.Spans.Written > 0; !isKept && !isSent {
		return // no trace can be looked at
	}
	where := func(l link) string {
		if l.URL != "" {
			return l.URL
		}
		return l.TraceID
	}
	for _, l := range s.Overview {
		fmt.Fprintf(w, "  %-12s %s\n", "whole run", where(l))
	}
	for i, x := range s.Sectors {
		if i == maxSectorLinks {
			fmt.Fprintf(w, "  and %d more sectors; --format json names all\n", len(s.Sectors)-i)
			break
		}
		if x.TraceID != "" {
			fmt.Fprintf(w, "  %s %s\n", report.Column(tracing.SectorLabel(x.Job), 12), where(x.link))
		}
	}
	if s.Search != "" {
		fmt.Fprintf(w, "  %-12s %s\n", "search", s.Search)
	}
}

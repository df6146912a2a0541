package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/provetrace/provetrace/convert/compare"
	"github.com/provetrace/provetrace/convert/figures"
)

// ComparisonText writes a comparison: what the sets are, a verdict on each
// against the first, and their figures side by side.
func ComparisonText(w io.Writer, c *compare.Comparison, o TextOptions) error {
	p := pen{width: WaterfallOptions{Width: o.Width}.withDefaults().Width, color: o.Color}
	for i := range c.Sets {
		p.sentence(styleNone, letter(i)+" is "+setLine(&c.Sets[i], p.width, o.ASCII))
	}
	for i := 1; i < len(c.Sets); i++ {
		p.endLine()
		p.sentence(styleBold, ComparisonVerdict(c, i))
		for _, note := range ComparisonNotes(c, i) {
			p.sentence(styleNone, note)
		}
	}
	var tables []*table
	for i := 1; i < len(c.Sets); i++ {
		tables = append(tables, comparisonTable(c, i))
	}
	p.tables(o.ASCII, tables...)
	for _, note := range doubts(c) {
		p.note(note)
	}
	_, err := w.Write(p.out.Bytes())
	return err
}

// letter names a set.
func letter(set int) string {
	if set < 26 {
		return string(rune('A' + set))
	}
	return "#" + strconv.Itoa(set+1)
}

// setLine says what a set is, in words no longer than a line.
func setLine(s *compare.Set, width int, ascii bool) string {
	proofs := 0
	for _, f := range s.Runs {
		proofs += f.Proofs
	}
	parts := []string{countOf(len(s.Runs), "run"), countOf(proofs, "whole proof")}
	w := s.Work()
	parts = append(parts, w.ProofKinds...)
	parts = append(parts, setBounds(w.Bounds))
	return middle(s.Name, width-len("A is :"), ascii) + ": " + Sanitize(strings.Join(parts, ", "))
}

func setBounds(bounds []figures.Bound) string {
	var words []string
	for _, b := range bounds {
		if b != figures.BoundUnknown {
			words = append(words, limits[b])
		}
	}
	switch by := strings.Join(words, " or "); {
	case by == "":
		return "its limit is not known"
	case len(words) < len(bounds):
		return "limited by " + by + " where it is known"
	default:
		return "limited by " + by
	}
}

// limits are the words for what limits a run, where it is known.
var limits = map[figures.Bound]string{
	figures.BoundSynthesis: "synthesis",
	figures.BoundHandoff:   "the hand-over",
	figures.BoundNoWork:    "the supply of work",
	figures.BoundGPU:       "the GPU",
	figures.BoundWorker:    "the GPU workers",
}

// ComparisonVerdict says in a sentence whether a set is faster than the first.
func ComparisonVerdict(c *compare.Comparison, set int) string {
	a, b := letter(0), letter(set)
	name, where := compare.Steady, " in the steady state"
	f := c.Named(name)
	if f == nil || f.Of[0].Center == nil || f.Of[set].Center == nil {
		f, where = c.Named(compare.Overall), " overall"
	}
	if f == nil || f.Of[0].Center == nil || f.Of[set].Center == nil {
		return fmt.Sprintf("%s and %s cannot be compared: both need whole proofs.", a, b)
	}
	v := &f.Of[set]
	before, now := *f.Of[0].Center, *v.Center
	how := "faster"
	if now > before {
		how = "slower"
	}
	if slices.Contains(c.Unlike(set), compare.ProofKinds) {
		return fmt.Sprintf("%s takes %s a proof and %s %s%s (%s), but for different work.", b, perProof(now), a, perProof(before), where, signedPercent(v.Change))
	}
	took := fmt.Sprintf("%s a proof instead of %s%s (%s)", perProof(now), perProof(before), where, signedPercent(v.Change))
	switch v.Effect {
	case compare.Unchanged:
		return fmt.Sprintf("%s is exactly as fast as %s: %s a proof%s.", b, a, perProof(now), where)
	case compare.Noise:
		return fmt.Sprintf("%s is no faster and no slower than %s, as far as can be told: %s is no more than noise (%s).", b, a, took, probability(v))
	case compare.CannotTell:
		return fmt.Sprintf("%s may be %s than %s: %s. %s", b, how, a, took, tooFew(c, v, set))
	default:
		return fmt.Sprintf("%s is %s than %s: %s, more than noise (%s).", b, how, a, took, probability(v))
	}
}

// tooFew says why a change cannot be told from noise.
func tooFew(c *compare.Comparison, v *compare.Value, set int) string {
	of := "runs"
	if len(c.Sets[0].Runs) == 1 && len(c.Sets[set].Runs) == 1 {
		of = "times between proofs"
	}
	return fmt.Sprintf("%d and %d %s cannot tell that from noise: repeat each run at least four times.", v.N1, v.N2, of)
}

func probability(v *compare.Value) string {
	if *v.P < 0.001 {
		return "p<0.001"
	}
	return fmt.Sprintf("p=%.3f", *v.P)
}

func signedPercent(change *float64) string {
	if change == nil {
		return "-"
	}
	return fmt.Sprintf("%+.1f%%", 100**change)
}

// ComparisonNotes says what else is to be known of a set beside the first: that
// something else limits it, and in what its work differs.
func ComparisonNotes(c *compare.Comparison, set int) []string {
	var notes []string
	a, b := c.Sets[0].Work(), c.Sets[set].Work()
	if len(a.Bounds) == 1 && len(b.Bounds) == 1 && a.Bounds[0] != b.Bounds[0] {
		switch before, now := limits[a.Bounds[0]], limits[b.Bounds[0]]; {
		case before == "":
			notes = append(notes, fmt.Sprintf("The limit of %s is %s, that of %s is not known.", letter(set), now, letter(0)))
		case now == "":
			notes = append(notes, fmt.Sprintf("The limit of %s is not known, that of %s is %s.", letter(set), letter(0), before))
		default:
			notes = append(notes, fmt.Sprintf("The limit is no longer %s, but %s.", before, now))
		}
	}
	for _, trait := range c.Unlike(set) {
		var of [2]string
		consequence := "so that a proof is not the same work"
		for i, w := range []compare.Work{a, b} {
			switch trait {
			case compare.ProofKinds:
				of[i] = strings.Join(w.ProofKinds, " and ")
			case compare.Modes:
				of[i] = join(w.Modes)
				consequence = "so that their phases are of different things"
			case compare.Divisions:
				of[i] = join(w.Partitions)
			case compare.GPUs:
				of[i] = join(w.GPUs)
				consequence = "which share the work"
			}
		}
		notes = append(notes, fmt.Sprintf("They differ in their %s, %s in %s and %s in %s, %s.",
			trait, Sanitize(of[0]), letter(0), Sanitize(of[1]), letter(set), consequence))
	}
	return notes
}

// join writes values as words.
func join[T any](values []T) string {
	var words []string
	for _, v := range values {
		words = append(words, fmt.Sprint(v))
	}
	return strings.Join(words, " and ")
}

// doubts says how far the column about noise is to be trusted.
func doubts(c *compare.Comparison) []string {
	single, cannot := false, false
	for i := 1; i < len(c.Sets); i++ {
		single = single || len(c.Sets[0].Runs) == 1 && len(c.Sets[i].Runs) == 1
		for _, f := range c.Figures {
			cannot = cannot || f.Of[i].Effect == compare.CannotTell
		}
	}
	var notes []string
	if single {
		notes = append(notes, "Noise, of single runs, is that of partitions and of the times between proofs inside a run. Runs differ among themselves too, which only repetitions can tell.")
	}
	if cannot {
		notes = append(notes, "Where it cannot be told, there are too few values: four runs of each suffice, given as NAME=PATTERN.")
	}
	return notes
}

func comparisonTable(c *compare.Comparison, set int) *table {
	tb := &table{
		title: letter(set) + " against " + letter(0),
		head:  []string{letter(0), letter(set), "change", "more than noise"},
	}
	for i := range c.Figures {
		f := &c.Figures[i]
		v := &f.Of[set]
		if f.Of[0].Center == nil && v.Center == nil {
			continue
		}
		tb.add(f.Name, valueText(f.Unit, f.Of[0].Center), valueText(f.Unit, v.Center), signedPercent(v.Change), effectText(v))
		r := &tb.rows[len(tb.rows)-1]
		switch v.Effect {
		case compare.Improvement:
			r.style = styleProving
		case compare.Regression:
			r.style = styleFailed
		}
	}
	return tb
}

func valueText(u compare.Unit, v *float64) string {
	switch {
	case v == nil:
		return "-"
	case u == compare.Share:
		return percent(v)
	case u == compare.Seconds:
		return perProof(*v)
	default:
		whole := int64(*v + 0.5)
		return ms(&whole)
	}
}

func effectText(v *compare.Value) string {
	switch v.Effect {
	case compare.Unchanged:
		return "no"
	case compare.Noise:
		return "no (" + probability(v) + ")"
	case compare.CannotTell:
		return "cannot tell"
	case compare.NotKnown:
		return "-"
	default:
		return "yes (" + probability(v) + ")"
	}
}

// ComparisonJSON returns what a comparison is as JSON.
func ComparisonJSON(c *compare.Comparison) any {
	type set struct {
		Label      string          `json:"label"` // in words
		Name       string          `json:"name"`
		Runs       []string        `json:"runs"`
		ProofKinds []string        `json:"proof_kinds"`
		Modes      []figures.Mode  `json:"modes"`
		Bounds     []figures.Bound `json:"bounds"`
		Verdict    *string         `json:"verdict"` // null for the first
		Notes      []string        `json:"notes"`
	}
	type value struct {
		Value         *float64        `json:"value"`
		Runs          int             `json:"runs"`
		ChangePercent *float64        `json:"change_percent"`
		P             *float64        `json:"p"`
		Effect        *compare.Effect `json:"effect"` // null for the first
	}
	type figure struct {
		Figure string         `json:"figure"`
		Unit   compare.Unit   `json:"unit"`
		Better compare.Better `json:"better"`
		Sets   []value        `json:"sets"`
	}
	all := struct {
		Sets    []set    `json:"sets"`
		Figures []figure `json:"figures"`
	}{Sets: []set{}, Figures: []figure{}}
	for i := range c.Sets {
		s := &c.Sets[i]
		w := s.Work()
		of := set{
			Label: letter(i), Name: s.Name, ProofKinds: append([]string{}, w.ProofKinds...), Modes: append([]figures.Mode{}, w.Modes...),
			Bounds: w.Bounds, Notes: []string{},
		}
		for _, f := range s.Runs {
			of.Runs = append(of.Runs, f.Name)
		}
		if i > 0 {
			verdict := ComparisonVerdict(c, i)
			of.Verdict = &verdict
			of.Notes = append(of.Notes, ComparisonNotes(c, i)...)
		}
		all.Sets = append(all.Sets, of)
	}
	for i := range c.Figures {
		f := &c.Figures[i]
		of := figure{Figure: f.Name, Unit: f.Unit, Better: f.Better}
		for j := range f.Of {
			v := &f.Of[j]
			o := value{Value: v.Center, Runs: v.N, ChangePercent: changePercent(v), P: v.P}
			if j > 0 {
				o.Effect = &v.Effect
			}
			of.Sets = append(of.Sets, o)
		}
		all.Figures = append(all.Figures, of)
	}
	return all
}

func changePercent(v *compare.Value) *float64 {
	if v.Change == nil {
		return nil
	}
	percent := 100 * *v.Change
	return &percent
}

// ComparisonCSV writes a comparison as a table for programs, a line for each
// figure of each set.
func ComparisonCSV(w io.Writer, c *compare.Comparison) error {
	out := csv.NewWriter(w)
	records := [][]string{{"figure", "unit", "set", "runs", "value", "change_percent", "p", "effect"}}
	for i := range c.Figures {
		f := &c.Figures[i]
		for j := range f.Of {
			v := &f.Of[j]
			records = append(records, []string{
				f.Name, string(f.Unit), cell(c.Sets[j].Name), strconv.Itoa(v.N), exact(v.Center), exact(changePercent(v)), exact(v.P), string(v.Effect),
			})
		}
	}
	return out.WriteAll(records)
}

// cell writes a text such that a spreadsheet takes it for no formula
// (https://owasp.org/www-community/attacks/CSV_Injection).
func cell(text string) string {
	text = Sanitize(text)
	if text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + text
	}
	return text
}

// exact writes a number in full, and nothing where it is not known.
func exact(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

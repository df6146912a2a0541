package compare

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Limit is a condition on a figure that is not to hold: of the value itself,
// or of its change against the first set.
type Limit struct {
	Text   string // as it was given
	Figure string
	below  bool    // the value is not to be below the bound, else not above
	equal  bool    // nor equal to it
	change bool    // the bound is of the change
	bound  float64 // in the figure's unit, or relative
}

// limit matches FIGURE, an operator, and a number with a percent sign or not. A
// percent without a sign could be meant as a share or as a change.
var limit = regexp.MustCompile(`^\s*([a-z][a-z0-9_. -]*?)\s*([<>]=?)\s*([-+]?[0-9]*\.?[0-9]+)\s*(%?)\s*$`)

// ParseLimit reads a condition such as seconds_per_proof.steady>+3%, of the
// change, or utilization_active<0.9, of the value.
func ParseLimit(s string) (Limit, error) {
	m := limit.FindStringSubmatch(s)
	if m == nil {
		return Limit{}, fmt.Errorf("%q is not a condition: give a figure, < or >, and a value or a change, such as %s>+3%%", s, Steady)
	}
	l := Limit{Text: strings.TrimSpace(s), Figure: m[1], below: m[2][0] == '<', equal: len(m[2]) == 2, change: m[4] != ""}
	var err error
	if l.bound, err = strconv.ParseFloat(m[3], 64); err != nil || math.IsInf(l.bound, 0) {
		return Limit{}, fmt.Errorf("%q has the number %s, which is too large", s, m[3])
	}
	isPhase := strings.HasPrefix(l.Figure, Phase) && (strings.HasSuffix(l.Figure, P50) || strings.HasSuffix(l.Figure, P95))
	if !isPhase && !slices.Contains(Names(), l.Figure) {
		return Limit{}, fmt.Errorf("%q is of a figure that there is not: give one of %s", s, strings.Join(Names(), ", "))
	}
	isShare := slices.ContainsFunc(metrics(nil), func(m metric) bool { return m.name == l.Figure && m.unit == Share })
	switch {
	case l.change && m[3][0] != '+' && m[3][0] != '-' && isShare:
		return Limit{}, fmt.Errorf("%q has a percent without a sign: give a share such as %s%s%.3g, or a change such as %s%s-5%%", s, l.Figure, m[2], l.bound/100, l.Figure, m[2])
	case l.change && m[3][0] != '+' && m[3][0] != '-':
		return Limit{}, fmt.Errorf("%q has a percent without a sign: a change has one, such as %s%s+%s%%", s, l.Figure, m[2], m[3])
	case l.change:
		l.bound /= 100
	case isShare && (l.bound < 0 || l.bound > 1):
		return Limit{}, fmt.Errorf("%q is of a share, which is from 0 to 1: give a value such as %s%s0.9", s, l.Figure, m[2])
	}
	return l, nil
}

// A Breach is a limit that holds for a set.
type Breach struct {
	Limit
	Set   string
	Value float64
	// Change is against the first set; nil where that is not known.
	Change *float64
}

// Check returns for which sets, beside the first, a limit holds. A figure that
// is not known is an error.
func (c *Comparison) Check(l Limit) ([]Breach, error) {
	f := c.Named(l.Figure)
	var breaches []Breach
	for i := 1; i < len(c.Sets); i++ {
		name := c.Sets[i].Name
		if f == nil || f.Of[i].Center == nil {
			return nil, fmt.Errorf("%s of %s is not known, so that %q cannot be checked", l.Figure, name, l.Text)
		}
		v := &f.Of[i]
		got := *v.Center
		if l.change {
			if v.Change == nil {
				return nil, fmt.Errorf("the change of %s from %s to %s is not known, so that %q cannot be checked", l.Figure, c.Sets[0].Name, name, l.Text)
			}
			got = *v.Change
		}
		if l.equal && got == l.bound || l.below && got < l.bound || !l.below && got > l.bound {
			breaches = append(breaches, Breach{l, name, *v.Center, v.Change})
		}
	}
	return breaches, nil
}

package compare_test

import (
	"math"
	"strings"
	"testing"

	"github.com/aclements/go-moremath/stats"
	"pgregory.net/rapid"

	"github.com/provetrace/provetrace/convert/compare"
	"github.com/provetrace/provetrace/convert/figures"
)

// aRun returns the figures of a run that took so many seconds per proof.
func aRun(steady float64, ends ...int64) *figures.Figures {
	return &figures.Figures{
		SecondsPerProof: figures.SecondsPerProof{Overall: &steady, Steady: &steady}, ProofEnds: ends, Proofs: len(ends),
	}
}

func set(name string, runs ...*figures.Figures) compare.Set {
	return compare.Set{Name: name, Runs: runs}
}

func TestEffect(t *testing.T) {
	four := func(by float64) compare.Set {
		return set("four", aRun(40+by), aRun(40.1+by), aRun(40.2+by), aRun(40.3+by))
	}
	for _, test := range []struct {
		name   string
		a, b   compare.Set
		effect compare.Effect
		change float64
	}{
		{"repetitions apart", four(0), four(-10), compare.Improvement, -10 / 40.15},
		{"repetitions apart the other way", four(0), four(10), compare.Regression, 10 / 40.15},
		{"repetitions among each other", four(0), four(0.05), compare.Noise, 0.05 / 40.15},
		{"the same repetitions", four(0), four(0), compare.Unchanged, 0},
		{"too few repetitions", set("a", aRun(40), aRun(41)), set("b", aRun(30), aRun(31)), compare.CannotTell, -10 / 40.5},
		{"one against many", set("a", aRun(40)), four(-10), compare.CannotTell, -9.85 / 40},
		{"intervals of single runs apart", set("a", aRun(40, 0, 40, 81, 120, 160)), set("b", aRun(30, 0, 30, 60, 91, 120)), compare.Improvement, -0.25},
		{"too few intervals", set("a", aRun(40, 0, 40, 81)), set("b", aRun(30, 0, 30, 60)), compare.CannotTell, -0.25},
		{"unknown", set("a", aRun(40)), set("b", &figures.Figures{}), compare.NotKnown, math.NaN()},
		{"unknown of one repetition", four(0), set("b", aRun(30), &figures.Figures{}), compare.NotKnown, math.NaN()},
		{"from nothing", set("a", aRun(0)), set("b", aRun(1)), compare.CannotTell, math.NaN()},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := compare.Of(test.a, test.b).Named(compare.Steady).Of[1]
			change := math.NaN()
			if v.Change != nil {
				change = *v.Change
			}
			if v.Effect != test.effect || math.Abs(change-test.change) > 1e-9 || math.IsNaN(change) != math.IsNaN(test.change) {
				t.Errorf("%s by %v, want %s by %v", v.Effect, change, test.effect, test.change)
			}
		})
	}
}

// No sample of some size can be told apart better than the most extreme.
func TestExtremesDecide(t *testing.T) {
	for n1 := 1; n1 <= 8; n1++ {
		for n2 := 1; n2 <= 8; n2++ {
			var a, b compare.Set
			var xs, ys []float64
			for i := range n1 {
				a.Runs = append(a.Runs, aRun(float64(1+i)))
				xs = append(xs, float64(1+i))
			}
			for i := range n2 {
				b.Runs = append(b.Runs, aRun(float64(100+i)))
				ys = append(ys, float64(100+i))
			}
			test, err := stats.MannWhitneyUTest(xs, ys, stats.LocationDiffers)
			if err != nil {
				t.Fatal(err)
			}
			want := compare.CannotTell
			if test.P <= 0.05 {
				want = compare.Regression
			}
			if got := compare.Of(a, b).Named(compare.Steady).Of[1].Effect; got != want {
				t.Errorf("%d and %d runs: %s, want %s (p=%v)", n1, n2, got, want, test.P)
			}
		}
	}
}

func TestLimit(t *testing.T) {
	c := compare.Of(set("a", aRun(40)), set("b", aRun(42)))
	for _, test := range []struct {
		limit string
		holds bool
	}{
		{"seconds_per_proof.steady>+3%", true},
		{"seconds_per_proof.steady > +3 %", true},
		{"seconds_per_proof.steady>+5.1%", false},
		{"seconds_per_proof.steady>-10%", true},
		{"seconds_per_proof.steady<-1%", false},
		{"seconds_per_proof.steady>42", false},
		{"seconds_per_proof.steady>=42", true},
		{"seconds_per_proof.overall<=42.0", true},
		{"seconds_per_proof.steady<.5", false},
	} {
		l, err := compare.ParseLimit(test.limit)
		if err != nil {
			t.Error(err)
			continue
		}
		breaches, err := c.Check(l)
		if err != nil || (len(breaches) == 1) != test.holds {
			t.Errorf("%s: %v %v", test.limit, breaches, err)
		}
	}
	for _, unknown := range []string{"cold_start_ms>3", "cold_start_ms>+3%", "phases.verify.p95_ms<1"} {
		l, err := compare.ParseLimit(unknown)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Check(l); err == nil || !strings.Contains(err.Error(), "not known") {
			t.Errorf("%s is checked: %v", unknown, err)
		}
	}
}

func TestParseLimitRejects(t *testing.T) {
	for _, bad := range []string{"", ">", "seconds>3", "seconds_per_proof.steady", "seconds_per_proof.steady=3", "seconds_per_proof.steady>x", "seconds_per_proof.steady>4.",
		"seconds_per_proof.steady>3%%", "phases.synthesis>3", "seconds_per_proof.steady>3%", "seconds_per_proof.steady>0%",
		"utilization_active<90%", "utilization_active<90", "utilization_active<-0.1", "idle.synthesis>1.5", "seconds_per_proof.steady>" + strings.Repeat("9", 400)} {
		if _, err := compare.ParseLimit(bad); err == nil {
			t.Errorf("%q is a condition", bad)
		}
	}
	rapid.Check(t, func(t *rapid.T) { _, _ = compare.ParseLimit(rapid.String().Draw(t, "limit")) })
}

func TestUnlike(t *testing.T) {
	a := set("a", &figures.Figures{ProofKinds: []string{"porep-c2"}, Mode: figures.WholeSectors, GPUs: []figures.GPU{{Proofs: 1}}})
	for _, test := range []struct {
		b    *figures.Figures
		want string
	}{
		{&figures.Figures{ProofKinds: []string{"porep-c2"}, Mode: figures.WholeSectors}, ""},
		{&figures.Figures{Mode: figures.WholeSectors}, ""},
		{&figures.Figures{ProofKinds: []string{"snap-update"}, Mode: figures.Partitions}, "proof kinds, mode"},
		{&figures.Figures{GPUs: []figures.GPU{{Proofs: 1}, {Proofs: 2}}}, "GPUs"},
		{&figures.Figures{GPUs: []figures.GPU{{}}}, ""},
	} {
		var got []string
		for _, trait := range compare.Of(a, set("b", test.b)).Unlike(1) {
			got = append(got, string(trait))
		}
		if all := strings.Join(got, ", "); all != test.want {
			t.Errorf("unlike in %q, want %q", all, test.want)
		}
	}
}

package run

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// whole is the log of a whole-sector proof, from its start in ms on.
func whole(job string, start int64) string {
	return log(fmt.Sprintf(`
		@%d SYNTH_START %s
		@%d SYNTH_END %s 38000
		@%d CHAN_SEND %s
		@%d GPU_PICKUP %s
		@%d GPU_START %s
		@%d GPU_END %s 27000`,
		start, job, start+38000, job, start+38000, job, start+38001, job, start+38001, job, start+65001, job))
}

func TestAttempts(t *testing.T) {
	const engine = "2026-02-18T15:00:00.000000Z  INFO "
	for _, test := range []struct{ name, log, want string }{
		{
			name: "proved again",
			log: `
				@1000 SYNTH_START porep-1-2/0
				@2000 SYNTH_END porep-1-2/0 1000
				@2000 GPU_QUEUE porep-1-2/0
				@2000 GPU_PICKUP porep-1-2/0
				@2001 GPU_START porep-1-2/0
				@3000 GPU_END porep-1-2/0 999
				@5000 SYNTH_START porep-1-2/0
				@6000 SYNTH_END porep-1-2/0 1000
				@6000 GPU_QUEUE porep-1-2/0
				@6001 GPU_PICKUP porep-1-2/0
				@6001 GPU_START porep-1-2/0
				@7000 GPU_END porep-1-2/0 999`,
			want: `
				porep-1-2#1/0 finished w0 1000 2000 2000 2000 2001 3000
				porep-1-2#2/0 finished w0 5000 6000 6000 6001 6001 7000`,
		},
		{
			name: "whole sectors",
			log:  whole("A", 1500) + whole("A", 80000),
			want: `
				A#1/- finished w0 1500 39500 39500 39501 39501 66501
				A#2/- finished w0 80000 118000 118000 118001 118001 145001`,
		},
		{
			name: "the end of the one and the start of the next out of order",
			log: `
				@1000 SYNTH_START A/0
				@1000 SYNTH_START A/1
				@2000 SYNTH_END A/0 1000
				@2000 SYNTH_END A/1 1000
				@2000 GPU_QUEUE A/0
				@2000 GPU_QUEUE A/1
				@2000 GPU_PICKUP A/0
				@2000 GPU_START A/0
				@2500 GPU_END A/0 500
				@2500 GPU_PICKUP A/1
				@2500 GPU_START A/1
				@3001 SYNTH_START A/0
				@3001 SYNTH_START A/1
				@3000 GPU_END A/1 500
				@4000 SYNTH_END A/0 999`,
			want: `
				A#1/0 finished w0 1000 2000 2000 2000 2000 2500
				A#1/1 finished w0 1000 2000 2000 2500 2500 3000
				A#2/0 incomplete 3001 4000 - - - -
				A#2/1 incomplete 3001 - - - - -`,
		},
		{
			name: "the start of the next is lost",
			log: `
				@1000 SYNTH_START A/0
				@2000 SYNTH_END A/0 1000
				@2000 GPU_QUEUE A/0
				@2000 GPU_PICKUP A/0
				@2000 GPU_START A/0
				@3000 GPU_END A/0 1000
				@6000 SYNTH_END A/0 1000
				@6000 GPU_QUEUE A/0
				@6000 GPU_PICKUP A/0
				@6000 GPU_START A/0
				@7000 GPU_END A/0 1000`,
			want: `
				A#1/0 finished w0 1000 2000 2000 2000 2000 3000
				A#2/0 finished w0 ~5000 6000 6000 6000 6000 7000`,
		},
		{
			name: "begun again before the end",
			log: `
				@1000 SYNTH_START A/0
				@2000 SYNTH_END A/0 1000
				@5000 SYNTH_START A/0
				@6000 SYNTH_END A/0 1000`,
			want: `
				A#1/0 incomplete 1000 2000 - - - -
				A#2/0 incomplete 5000 6000 - - - -`,
		},
		{
			name: "admitted again after a failure",
			log: engine + "cuzk_server::service: Prove request_id=A proof_kind=1\n" + `
				@1000 SYNTH_START A/0
				@1000 SYNTH_START A/1
				2026-02-18T15:00:02.000000Z ERROR cuzk_core::engine: partition synthesis failed error=broken job_id=A partition=1
				2026-02-18T15:00:03.000000Z  INFO cuzk_server::service: Prove request_id=A proof_kind=1
				@4000 SYNTH_START A/2
				@4000 SYNTH_START A/0
				@5000 SYNTH_END A/0 1000`,
			want: `
				A#1/0 incomplete 1000 - - - - -
				A#1/1 failed (partition synthesis failed: broken) 1000 ~2000 - - - -
				A#2/0 incomplete 4000 5000 - - - -
				A#2/2 incomplete 4000 - - - - -`,
		},
		{
			name: "told twice that it was admitted",
			log: engine + "cuzk_server::service: Prove request_id=A proof_kind=1\n" +
				engine + "cuzk_server::service: Prove request_id=A proof_kind=1\n" + `
				@1000 SYNTH_START A/0
				` + engine + `cuzk_server::service: Prove request_id=A proof_kind=1
				@2000 SYNTH_START A/1`,
			want: `
				A#1/0 incomplete 1000 - - - - -
				A#1/1 incomplete 2000 - - - - -`,
		},
		{
			name: "two jobs at once",
			log: `
				@1000 SYNTH_START A/0
				@1000 SYNTH_START B/0
				@2000 SYNTH_END B/0 1000
				@2001 SYNTH_END A/0 1001`,
			want: `
				A#1/0 incomplete 1000 2001 - - - -
				B#1/0 incomplete 1000 2000 - - - -`,
		},
		{
			name: "the same job after weeks",
			log: `
				@1000 SYNTH_START A/0
				@2000 SYNTH_END A/0 1000
				@3000000000 GPU_QUEUE A/0`,
			want: `
				A#1/0 incomplete 1000 2000 - - - -
				A#2/0 incomplete - ~3000000000 3000000000 - - -`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(lines(test.want), show(readText(t, Options{}, log(test.log)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRestarts(t *testing.T) {
	const started = "2026-02-18T15:00:00.000000Z  INFO cuzk_daemon: cuzk-daemon starting\n"
	split, dual := readFixture(t, "split"), readFixture(t, "dual_worker")
	for _, test := range []struct {
		name, log string
		sectors   []int // of each run
	}{
		{"none", dual, []int{5}},
		{"the engine's line", started + whole("A", 1500) + started + whole("B", 70000), []int{1, 1}},
		{"the engine's line before anything", started + whole("A", 1500), []int{1}},
		{"short runs", whole("A", 1500) + whole("B", 1500), []int{1, 1}},
		{"short runs, the later one begins later", whole("A", 1500) + whole("B", 9000), []int{1, 1}},
		{"a short run, then long ones", whole("A", 1500) + dual + whole("B", 2000) + split, []int{1, 5, 1, 8}},
		{"the same job in two short runs", whole("A", 1500) + whole("A", 1400), []int{1, 1}},
		{"whole sectors", whole("A", 1500) + whole("B", 70000) + whole("C", 140000) + whole("D", 1500) + whole("E", 70000), []int{3, 2}},
		{"two whole sectors, then two", whole("A", 1500) + whole("B", 40000) + whole("C", 1500) + whole("D", 40000), []int{2, 2}},
		{"a run of one event after a long one", dual + log("@1500 SYNTH_START X/0"), []int{5, 1}},
		{"a run that never ended a synthesis", log(starts("A", 1500, 10)) + log(starts("B", 400, 10)), []int{1, 1}},
		{"the same log three times", dual + dual + dual, []int{5, 5, 5}},
		{"the first line last", log(`
			@39500 SYNTH_END A 38000
			@39500 CHAN_SEND A
			@39501 GPU_PICKUP A
			@39501 GPU_START A
			@66501 GPU_END A 27000
			@1500 SYNTH_START A`), []int{1}},
		{"two threads at once", log(starts("A", 1500, 12) + starts("B", 1499, 12)), []int{2}},
		{"the last line of eight late", log(starts("A", 1500, 8) + `
			@40000 SYNTH_END A/0 38500
			@1500 SYNTH_START B/0`), []int{2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []int
			for _, r := range readAll(t, Options{}, textSource(test.log)) {
				got = append(got, len(r.Sectors))
			}
			if !slices.Equal(got, test.sectors) {
				t.Errorf("runs have %d sectors, want %d", got, test.sectors)
			}
		})
	}
}

func starts(job string, at, n int64) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "@%d SYNTH_START %s/%d\n", at, job, i)
	}
	return b.String()
}

// TestRestartAnywhere cuts a log after each of its lines and appends another.
func TestRestartAnywhere(t *testing.T) {
	for _, name := range []string{"dual_worker", "standard", "two_gpus"} {
		all := slices.Collect(strings.Lines(readFixture(t, name)))
		second := readFixture(t, "dual_worker")
		missed := 0
		for n := 13; n < len(all); n += 3 {
			if strings.HasPrefix(all[n-1], "TIMELINE,1500,") || !strings.HasPrefix(all[n-1], "TIMELINE,") {
				continue // nothing tells that the clock starts again
			}
			runs := 0
			for r, err := range Read(t.Context(), name, Options{}, textSource(strings.Join(all[:n], "")+second)) {
				if err != nil {
					t.Fatal(err)
				}
				runs++
				if runs == 2 && r.Input.Events != 300 {
					t.Errorf("%s: cut at line %d: the second run has %d events", name, n, r.Input.Events)
				}
			}
			if runs != 2 {
				t.Logf("%s: cut behind %s: %d runs", name, all[n-1], runs)
				missed++
			}
		}
		if missed > 0 {
			t.Errorf("%s: %d restarts missed", name, missed)
		}
	}
}

// shuffle moves lines by up to some places, those that engines order excepted.
func shuffle(rnd *rand.Rand, all []string, places int) string {
	type placed struct {
		at   float64
		line string
	}
	moved := make([]placed, len(all))
	for i, line := range all {
		moved[i] = placed{float64(i), line}
		if strings.Contains(line, "TIMELINE,") {
			moved[i].at += rnd.Float64() * float64(places)
		}
	}
	slices.SortStableFunc(moved, func(a, b placed) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	var b strings.Builder
	for _, m := range moved {
		b.WriteString(m.line)
	}
	return b.String()
}

// derived matches the time at which a failure was told, which is from the
// engine's lines around.
var derived = regexp.MustCompile(`~[0-9]+`)

// sortedLines brings sectors that begin in the same ms into one order.
func sortedLines(text string) string {
	all := slices.Sorted(strings.Lines(derived.ReplaceAllString(text, "~")))
	return strings.Join(all, "")
}

// TestOrderDoesNotMatter moves lines by up to eight places.
func TestOrderDoesNotMatter(t *testing.T) {
	for _, name := range []string{"standard", "dual_worker", "split", "curio", "two_gpus", "failure", "snap"} {
		t.Run(name, func(t *testing.T) {
			text := readFixture(t, name)
			all := slices.Collect(strings.Lines(text))
			want := sortedLines(show(readText(t, Options{}, text)))
			for seed := range uint64(200) {
				got := sortedLines(show(readText(t, Options{}, shuffle(rand.New(rand.NewPCG(seed, 1)), all, 8))))
				if got != want {
					t.Fatalf("seed %d (-want +got):\n%s", seed, cmp.Diff(want, got))
				}
			}
		})
	}
}

// TestOrderOfAttempts moves the lines of jobs that are proved again and again.
func TestOrderOfAttempts(t *testing.T) {
	text := readFixture(t, "curio")
	again := text + shift(text, 250_000) + shift(text, 500_000)
	all := slices.Collect(strings.Lines(again))
	want := sortedLines(show(readText(t, Options{}, again)))
	for seed := range uint64(50) {
		got := sortedLines(show(readText(t, Options{}, shuffle(rand.New(rand.NewPCG(seed, 2)), all, 8))))
		if got != want {
			t.Fatalf("seed %d (-want +got):\n%s", seed, cmp.Diff(want, got))
		}
	}
}

// shift returns the TIMELINE lines of a log, later.
func shift(text string, ms int64) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "TIMELINE,")
		if !ok {
			continue
		}
		offset, rest, _ := strings.Cut(rest, ",")
		fmt.Fprintf(&b, "TIMELINE,%d,%s", number(offset)+ms, rest)
	}
	return b.String()
}

func TestDuplicates(t *testing.T) {
	for _, name := range []string{"standard", "dual_worker", "curio", "failure"} {
		t.Run(name, func(t *testing.T) {
			text := readFixture(t, name)
			var doubled strings.Builder
			for line := range strings.Lines(text) {
				doubled.WriteString(line)
				if strings.HasPrefix(line, "TIMELINE,") {
					doubled.WriteString(line)
				}
			}
			once, twice := readText(t, Options{}, text), readText(t, Options{}, doubled.String())
			if diff := cmp.Diff(show(once), show(twice)); diff != "" {
				t.Errorf("(-once +twice):\n%s", diff)
			}
			if twice.Input.Duplicates != once.Input.Events || twice.Input.Events != 2*once.Input.Events {
				t.Errorf("counts are %+v, and %+v of the log itself", twice.Input, once.Input)
			}
		})
	}
	t.Run("contradictions", func(t *testing.T) {
		r := readText(t, Options{}, log(`
			@1000 SYNTH_START A/0
			@2000 SYNTH_END A/0 1000
			@2005 SYNTH_END A/0 1005
			@2005 GPU_QUEUE A/0
			@2005 GPU_PICKUP A/0
			@2005 GPU_START A/0
			@3000 GPU_END A/0 1000
			@3100 GPU_END A/0 1100`))
		if diff := cmp.Diff(lines("A#1/0 finished w0 1000 2000 2005 2005 2005 3000"), show(r)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if r.Input.Duplicates != 2 {
			t.Errorf("%d duplicates, want 2", r.Input.Duplicates)
		}
	})
}

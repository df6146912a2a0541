package run

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// others are partitions that show that a worker takes the next one once its
// proof is finished.
const others = `
	@1000 SYNTH_START X/0
	@1000 SYNTH_START X/1
	@2000 SYNTH_END X/0 1000
	@2000 CHAN_SEND X/0
	@2000 SYNTH_END X/1 1000
	@2000 CHAN_SEND X/1
	@2000 GPU_PICKUP X/0
	@2000 GPU_START X/0
	@3000 GPU_END X/0 1000
	@3000 GPU_PICKUP X/1
	@3000 GPU_START X/1
	@4000 GPU_END X/1 1000
`

// laterSplit is a worker that takes the next partition before its proof is
// finished.
const laterSplit = `
	@1000 SYNTH_START X/0
	@1000 SYNTH_START X/1
	@2000 SYNTH_END X/0 1000
	@2000 GPU_QUEUE X/0
	@2000 SYNTH_END X/1 1000
	@2000 GPU_QUEUE X/1
	@2000 GPU_PICKUP X/0
	@2000 GPU_START X/0
	@3000 GPU_PICKUP X/1
	@3000 GPU_START X/1
	@3500 GPU_END X/0 1500
	@4000 GPU_END X/1 1000
`

// inOrder sorts events by their time.
func inOrder(text string) string {
	all := slices.Collect(strings.Lines(lines(text)))
	slices.SortStableFunc(all, func(a, b string) int {
		at := func(line string) int64 { return number(strings.Fields(line[1:])[0]) }
		return int(at(a) - at(b))
	})
	return strings.Join(all, "")
}

func TestInference(t *testing.T) {
	for _, test := range []struct{ name, log, want string }{
		{
			name: "nothing is lost",
			log: `
				@1000 SYNTH_START A/0
				@2000 SYNTH_END A/0 999
				@2001 CHAN_SEND A/0
				@2002 GPU_PICKUP A/0 w3
				@2003 GPU_START A/0 w3
				@3000 GPU_END A/0 w3 997`,
			want: "A#1/0 finished w3 1000 2000 2001 2002 2003 3000",
		},
		{
			name: "SYNTH_START",
			log: `
				@2000 SYNTH_END A/0 999
				@2001 CHAN_SEND A/0`,
			want: "A#1/0 incomplete ~1001 2000 2001 - - -",
		},
		{
			name: "SYNTH_START before the engine's",
			log:  `@2000 SYNTH_END A/0 2001`,
			want: "A#1/0 incomplete ~0 2000 - - - -",
		},
		{
			name: "SYNTH_END",
			log: `
				@1000 SYNTH_START A/0
				@2001 GPU_QUEUE A/0`,
			want: "A#1/0 incomplete 1000 ~2001 2001 - - -",
		},
		{
			name: "SYNTH_END and its queue, told by the engine",
			log: `
				@1000 SYNTH_START A/0
				2026-02-18T15:00:00.000000Z  INFO cuzk_core::engine: partition synthesis complete, pushing to GPU queue job_id=A partition=0 synth_ms=999
				@2002 GPU_PICKUP A/0
				@2002 GPU_START A/0`,
			want: "A#1/0 incomplete w0 1000 ~1999 ~1999 2002 2002 -",
		},
		{
			name: "SYNTH_END told by the engine, later than what follows",
			log: `
				@1000 SYNTH_START A/0
				2026-02-18T15:00:00.000000Z  INFO cuzk_core::engine: partition synthesis complete, pushing to GPU queue job_id=A partition=0 synth_ms=1004
				@2002 GPU_PICKUP A/0
				@2002 GPU_START A/0
				@2500 GPU_END A/0 498`,
			want: "A#1/0 finished w0 1000 ~2002 ~2002 2002 2002 2500",
		},
		{
			name: "SYNTH_END and its queue, not told",
			log: `
				@1000 SYNTH_START A/0
				@2002 GPU_PICKUP A/0
				@2002 GPU_START A/0`,
			want: "A#1/0 incomplete w0 1000 - - 2002 2002 -",
		},
		{
			name: "SYNTH_END with the log",
			log: `
				@1000 SYNTH_START A/0
				@9000 SYNTH_START B/0`,
			want: `
				A#1/0 incomplete 1000 - - - - -
				B#1/0 incomplete 9000 - - - - -`,
		},
		{
			name: "CHAN_SEND",
			log: `
				@1000 SYNTH_START A/0
				@2000 SYNTH_END A/0 999
				@2002 GPU_PICKUP A/0`,
			want: "A#1/0 incomplete w0 1000 2000 ~2000 2002 - -",
		},
		{
			name: "CHAN_SEND, not picked up",
			log: `
				@1000 SYNTH_START A/0
				@2000 SYNTH_END A/0 999
				@9000 SYNTH_START B/0`,
			want: `
				A#1/0 incomplete 1000 2000 - - - -
				B#1/0 incomplete 9000 - - - - -`,
		},
		{
			name: "GPU_PICKUP",
			log: `
				@1000 SYNTH_START A/0
				@2000 SYNTH_END A/0 999
				@2001 GPU_QUEUE A/0
				@2003 GPU_START A/0
				@3000 GPU_END A/0 996`,
			want: "A#1/0 finished w0 1000 2000 2001 ~2003 2003 3000",
		},
		{
			name: "GPU_START",
			log: `
				@1000 SYNTH_START A/0
				@2000 SYNTH_END A/0 999
				@2001 GPU_QUEUE A/0
				@2003 GPU_PICKUP A/0
				@3000 GPU_END A/0 996`,
			want: "A#1/0 finished w0 1000 2000 2001 2003 ~2003 3000",
		},
		{
			name: "GPU_START and GPU_PICKUP",
			log: `
				@1000 SYNTH_START A/0
				@2000 SYNTH_END A/0 999
				@2005 GPU_QUEUE A/0
				@3000 GPU_END A/0 996`,
			want: "A#1/0 finished w0 1000 2000 2005 ~2005 ~2005 3000",
		},
		{
			name: "GPU_START, not proved",
			log: `
				@1000 SYNTH_START A/0
				@2000 SYNTH_END A/0 999
				@2001 GPU_QUEUE A/0
				@2003 GPU_PICKUP A/0
				@9000 SYNTH_START B/0`,
			want: `
				A#1/0 incomplete w0 1000 2000 2001 2003 - -
				B#1/0 incomplete 9000 - - - - -`,
		},
		{
			name: "GPU_END, and its worker took what had waited",
			log: inOrder(others + `
				@1500 SYNTH_START A/0
				@1500 SYNTH_START A/1
				@3500 SYNTH_END A/0 1000
				@3500 CHAN_SEND A/0
				@3500 SYNTH_END A/1 1000
				@3500 CHAN_SEND A/1
				@4000 GPU_PICKUP A/0
				@4000 GPU_START A/0
				@5005 GPU_PICKUP A/1
				@5005 GPU_START A/1
				@6005 GPU_END A/1 1000`),
			want: `
				X#1/0 finished w0 1000 2000 2000 2000 2000 3000
				X#1/1 finished w0 1000 2000 2000 3000 3000 4000
				A#1/0 finished w0 1500 3500 3500 4000 4000 ~5005
				A#1/1 finished w0 1500 3500 3500 5005 5005 6005`,
		},
		{
			name: "GPU_END, and what the worker took is known from its end",
			log: inOrder(others + `
				@1500 SYNTH_START A/0
				@1500 SYNTH_START A/1
				@1500 SYNTH_START A/2
				@3500 SYNTH_END A/0 1000
				@3500 CHAN_SEND A/0
				@3500 SYNTH_END A/1 1000
				@3500 CHAN_SEND A/1
				@3500 SYNTH_END A/2 1000
				@3500 CHAN_SEND A/2
				@4000 GPU_PICKUP A/0
				@4000 GPU_START A/0
				@6005 GPU_END A/1 1000
				@6005 GPU_PICKUP A/2
				@6005 GPU_START A/2
				@7000 GPU_END A/2 995`),
			want: `
				X#1/0 finished w0 1000 2000 2000 2000 2000 3000
				X#1/1 finished w0 1000 2000 2000 3000 3000 4000
				A#1/0 finished w0 1500 3500 3500 4000 4000 ~5005
				A#1/1 finished w0 1500 3500 3500 ~5005 ~5005 6005
				A#1/2 finished w0 1500 3500 3500 6005 6005 7000`,
		},
		{
			name: "GPU_END, and its worker waited for what it took",
			log: inOrder(others + `
				@1500 SYNTH_START A/0
				@1500 SYNTH_START A/1
				@3500 SYNTH_END A/0 1000
				@3500 CHAN_SEND A/0
				@4000 GPU_PICKUP A/0
				@4000 GPU_START A/0
				@7000 SYNTH_END A/1 5500
				@7000 CHAN_SEND A/1
				@7000 GPU_PICKUP A/1`),
			want: `
				X#1/0 finished w0 1000 2000 2000 2000 2000 3000
				X#1/1 finished w0 1000 2000 2000 3000 3000 4000
				A#1/0 incomplete w0 1500 3500 3500 4000 4000 -
				A#1/1 incomplete w0 1500 7000 7000 7000 - -`,
		},
		{
			name: "GPU_END, and another worker took what had waited",
			log: inOrder(others + `
				@1500 SYNTH_START A/0
				@1500 SYNTH_START A/1
				@3500 SYNTH_END A/0 1000
				@3500 CHAN_SEND A/0
				@3500 SYNTH_END A/1 2000
				@3500 CHAN_SEND A/1
				@4000 GPU_PICKUP A/0
				@4000 GPU_START A/0
				@4500 GPU_PICKUP A/1 w1
				@4500 GPU_START A/1 w1`),
			want: `
				X#1/0 finished w0 1000 2000 2000 2000 2000 3000
				X#1/1 finished w0 1000 2000 2000 3000 3000 4000
				A#1/0 incomplete w0 1500 3500 3500 4000 4000 -
				A#1/1 incomplete w1 1500 3500 3500 4500 4500 -`,
		},
		{
			name: "GPU_END, of an engine with a finisher",
			log: inOrder(laterSplit + `
				@1500 SYNTH_START A/0
				@1500 SYNTH_START A/1
				@3500 SYNTH_END A/0 1000
				@3500 GPU_QUEUE A/0
				@3500 SYNTH_END A/1 1000
				@3500 GPU_QUEUE A/1
				@4000 GPU_PICKUP A/0
				@4000 GPU_START A/0
				@5005 GPU_PICKUP A/1
				@5005 GPU_START A/1
				@6005 GPU_END A/1 1000`),
			want: `
				X#1/0 finished w0 1000 2000 2000 2000 2000 3500
				X#1/1 finished w0 1000 2000 2000 3000 3000 4000
				A#1/0 incomplete w0 1500 3500 3500 4000 4000 -
				A#1/1 finished w0 1500 3500 3500 5005 5005 6005`,
		},
		{
			name: "GPU_END, of an engine of which it is not known whether it has a finisher",
			log: `
				@1500 SYNTH_START A/0
				@1500 SYNTH_START A/1
				@3500 SYNTH_END A/0 1000
				@3500 GPU_QUEUE A/0
				@3500 SYNTH_END A/1 1000
				@3500 GPU_QUEUE A/1
				@4000 GPU_PICKUP A/0
				@4000 GPU_START A/0
				@5005 GPU_PICKUP A/1`,
			want: `
				A#1/0 incomplete w0 1500 3500 3500 4000 4000 -
				A#1/1 incomplete w0 1500 3500 3500 5005 - -`,
		},
		{
			name: "only GPU_END is left",
			log:  `@3000 GPU_END A/0 996`,
			want: "A#1/0 finished w0 - - - ~2004 ~2004 3000",
		},
		{
			name: "clocks of threads that differ by 1 ms",
			log: `
				@1000 SYNTH_START A/0
				@2001 SYNTH_END A/0 1000
				@2000 GPU_QUEUE A/0
				@2001 GPU_PICKUP A/0`,
			want: "A#1/0 incomplete w0 1000 2001 ~2001 2001 - -",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := readText(t, Options{}, log(test.log))
			if diff := cmp.Diff(lines(test.want), show(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := strings.Count(test.want, "~"); r.Input.Inferred != int64(n) {
				t.Errorf("%d inferred times counted, want %d", r.Input.Inferred, n)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	const first = `
		2026-02-18T15:00:01.000500Z  INFO cuzk_daemon: hello
		@1000 SYNTH_START A/0
		@1000 SYNTH_START A/1
		2026-02-18T15:00:01.000900Z  INFO cuzk_daemon: hello
	`
	const skipped = `
		@31000 SYNTH_END A/0 30000
		@31000 GPU_QUEUE A/0
		@31000 GPU_PICKUP A/0
		2026-02-18T15:00:31.000900Z  INFO cuzk_core::engine: skipping GPU prove for failed partitioned job job_id=A partition=Some(0)
	`
	for _, test := range []struct{ name, log, want, reason string }{
		{
			name: "a synthesis",
			log:  first + "2026-02-18T15:00:21.500900Z ERROR cuzk_core::engine: partition synthesis failed error=unsatisfied job_id=A partition=1\n" + skipped,
			want: `
				A#1/0 skipped w0 1000 31000 31000 31000 - -
				A#1/1 failed (partition synthesis failed: unsatisfied) 1000 ~21500 - - - -`,
			reason: "partition synthesis failed: unsatisfied",
		},
		{
			name: "a proof",
			log: first + `
				@31000 SYNTH_END A/0 30000
				@31000 GPU_QUEUE A/0
				@31000 GPU_PICKUP A/0
				@31000 GPU_START A/0
				2026-02-18T15:00:33.000900Z ERROR cuzk_core::engine: GPU prove failed error="out of memory" job_id=A partition=Some(0)
				@41000 SYNTH_END A/1 40000`,
			want: `
				A#1/0 failed (GPU prove failed: out of memory) w0 1000 31000 31000 31000 31000 ~33000
				A#1/1 skipped 1000 41000 - - - -`,
			reason: "GPU prove failed: out of memory",
		},
		{
			name: "a proof, and the end of its synthesis and its start are lost",
			log: first + `
				@31000 GPU_QUEUE A/0
				@31000 GPU_PICKUP A/0
				2026-02-18T15:00:33.000900Z ERROR cuzk_core::engine: GPU prove failed error=oom job_id=A partition=0
				@41000 SYNTH_END A/1 40000`,
			want: `
				A#1/0 failed (GPU prove failed: oom) w0 1000 - 31000 31000 - -
				A#1/1 skipped 1000 41000 - - - -`,
			reason: "GPU prove failed: oom",
		},
		{
			name: "a job",
			log:  first + "2026-02-18T15:00:21.500900Z ERROR cuzk_core::engine: proof failed request_id=A err=verification\n" + skipped,
			want: `
				A#1/0 skipped w0 1000 31000 31000 31000 - -
				A#1/1 incomplete 1000 - - - - -`,
			reason: "proof failed: verification",
		},
		{
			name: "without a reason",
			log:  first + "2026-02-18T15:00:21.500900Z ERROR cuzk_core::engine: job_id=A\n",
			want: `
				A#1/0 incomplete 1000 - - - - -
				A#1/1 incomplete 1000 - - - - -`,
			reason: "failed",
		},
		{
			name: "the first of two reasons",
			log: first + `
				2026-02-18T15:00:21.500900Z ERROR cuzk_core::engine: partition synthesis failed error=first job_id=A partition=1
				2026-02-18T15:00:21.600900Z ERROR cuzk_core::engine: partition synthesis failed error=second job_id=A partition=0
				2026-02-18T15:00:21.700000Z ERROR cuzk_core::engine: job failed error=third job_id=A
				@31000 SYNTH_START B/0`,
			want: `
				A#1/0 failed (partition synthesis failed: second) 1000 ~21600 - - - -
				A#1/1 failed (partition synthesis failed: first) 1000 ~21500 - - - -
				B#1/0 incomplete 31000 - - - - -`,
			reason: "partition synthesis failed: first",
		},
		{
			name: "of a job that is not known",
			log:  first + "2026-02-18T15:00:21.500900Z ERROR cuzk_core::engine: refused job_id=B\n",
			want: `
				A#1/0 incomplete 1000 - - - - -
				A#1/1 incomplete 1000 - - - - -`,
		},
		{
			name: "of a further attempt, before anything began",
			log: `
				@1000 SYNTH_START A/0
				@31000 GPU_START A/0
				@32000 GPU_END A/0 1000
				2026-02-18T15:00:33.000000Z  INFO cuzk_server::service: Prove request_id=A proof_kind=1
				2026-02-18T15:00:33.500000Z ERROR cuzk_core::engine: refused job_id=A`,
			want: `A#1/0 finished w0 1000 - - ~31000 31000 32000`,
		},
		{
			name: "told by skipped partitions alone",
			log: `
				@1000 SYNTH_START A/0
				@1000 SYNTH_START A/1
				@1000 SYNTH_START A/2
				@31000 SYNTH_END A/0 30000
				@31000 GPU_QUEUE A/0
				@31001 GPU_PICKUP A/0
				@32000 SYNTH_END A/1 31000
				@32000 GPU_QUEUE A/1
				@32000 GPU_PICKUP A/1
				@99000 SYNTH_START B/0`,
			want: `
				A#1/0 skipped w0 1000 31000 31000 31001 - -
				A#1/1 skipped w0 1000 32000 32000 32000 - -
				A#1/2 failed (its synthesis did not end, and the sector's other partitions were skipped) 1000 ~31001 - - - -
				B#1/0 incomplete 99000 - - - - -`,
			reason: "its synthesis did not end, and the sector's other partitions were skipped",
		},
		{
			name: "no failure: the log ends at a pickup",
			log: `
				@1000 SYNTH_START A/0
				@1000 SYNTH_START A/1
				@31000 SYNTH_END A/0 30000
				@31000 GPU_QUEUE A/0
				@31001 GPU_PICKUP A/0`,
			want: `
				A#1/0 incomplete w0 1000 31000 31000 31001 - -
				A#1/1 incomplete 1000 - - - - -`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := readText(t, Options{}, log(test.log))
			if diff := cmp.Diff(lines(test.want), show(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, s := range r.Sectors {
				want := ""
				if s.Job == "A" {
					want = test.reason
				}
				reason, failed := s.Failed()
				if reason != want || failed != (want != "") || failed != (s.State() == Failed) {
					t.Errorf("%s failed: %v, %q, want %q", s.Job, failed, reason, want)
				}
			}
		})
	}
}

// TestFailureWithoutTheEngine reads the failure's TIMELINE lines alone.
func TestFailureWithoutTheEngine(t *testing.T) {
	r := readText(t, Options{}, timelineOnly(readFixture(t, "failure")))
	for i, j := range readTruth(t, "failure").Jobs {
		for k, want := range j.Partitions {
			p := partitionAt(r.Sectors[i], k)
			state := Finished
			switch {
			case want.Skipped:
				state = Skipped
			case want.SynthFailed:
				state = Failed
			}
			if p.State != state {
				t.Errorf("%s/%d is %s, want %s", j.Job, k, stateNames[p.State], stateNames[state])
			}
		}
	}
}

func timelineOnly(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "TIMELINE,") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestEndOf(t *testing.T) {
	r := readText(t, Options{}, log(`
		@1000 SYNTH_START A/0
		@1000 SYNTH_START A/1
		@2000 SYNTH_END A/0 1000
		@2000 GPU_QUEUE A/0
		@2000 GPU_PICKUP A/0
		@2000 GPU_START A/0
		@3000 GPU_END A/0 1000
		@9000 SYNTH_START B/0
		@10000 SYNTH_END B/0 1000
		@10000 GPU_QUEUE B/0
		@11000 SYNTH_START B/1`))
	for _, test := range []struct {
		sector, part int
		want         int64
	}{
		{0, 0, 3000},
		{0, 1, 3000},  // its end was lost long ago
		{1, 0, 11000}, // it waits
		{1, 1, 11000}, // it has just begun
	} {
		s := r.Sectors[test.sector]
		p := partitionAt(s, test.part)
		if got := s.EndOf(&p); got != test.want {
			t.Errorf("EndOf(%s/%d) = %d, want %d", s.Job, test.part, got, test.want)
		}
	}
}

func TestCount(t *testing.T) {
	const engine = "2026-02-18T15:00:01.000000Z  INFO cuzk_core::engine: "
	for _, test := range []struct {
		name, log string
		count     int
		state     State
	}{
		{"those seen", whole2("A", 2), 2, Finished},
		{"announced", engine + "dispatching per-partition synthesis (budget-gated) job_id=A num_partitions=10 budget_available_gib=512\n" + whole2("A", 2), 10, Incomplete},
		{"announced late", whole2("A", 2) + engine + "dispatching per-partition synthesis job_id=A num_partitions=3\n", 3, Incomplete},
		{"announced and all there", engine + "dispatching per-partition synthesis job_id=A num_partitions=2\n" + whole2("A", 2), 2, Finished},
		{"more than announced", engine + "dispatching per-partition synthesis job_id=A num_partitions=1\n" + whole2("A", 2), 2, Finished},
		{"of another job", engine + "dispatching per-partition synthesis job_id=B num_partitions=10\n" + whole2("A", 2), 2, Finished},
		{"impossible", engine + "dispatching per-partition synthesis job_id=A num_partitions=99999999999\n" + whole2("A", 2), 2, Finished},
		{"without a number", engine + "dispatching per-partition synthesis job_id=A\n" + whole2("A", 2), 2, Finished},
		{"whole sector", whole("A", 1500), 0, Finished},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := readText(t, Options{}, test.log).Sectors[0]
			if s.Count != test.count || s.State() != test.state {
				t.Errorf("%d partitions, %s, want %d, %s", s.Count, stateNames[s.State()], test.count, stateNames[test.state])
			}
		})
	}
}

// whole2 is the log of a proof of some partitions.
func whole2(job string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(log(`
			@1000 SYNTH_START JOB/9
			@2000 SYNTH_END JOB/9 1000
			@2000 GPU_QUEUE JOB/9
			@2000 GPU_PICKUP JOB/9
			@2000 GPU_START JOB/9
			@3000 GPU_END JOB/9 1000`), "JOB", job), "partition=9", "partition="+string(rune('0'+i))))
	}
	return b.String()
}

func TestAdmission(t *testing.T) {
	const before = "2026-02-18T15:00:01.000200Z  INFO cuzk_server::service: "
	const after = `

		@2000 SYNTH_START B/0
		2026-02-18T15:00:02.000500Z  INFO cuzk_daemon: hello
		@2000 SYNTH_START B/1
	`
	for _, test := range []struct {
		name, log string
		want      time.Duration // behind 15:00:00
	}{
		{"Prove", before + "Prove request_id=A proof_kind=1\n@1500 SYNTH_START A/0" + after, 1000200 * time.Microsecond},
		{"SubmitProof", before + "SubmitProof request_id=A\n@1500 SYNTH_START A/0" + after, 1000200 * time.Microsecond},
		{"in the same ms, and later in it", "2026-02-18T15:00:01.500900Z  INFO cuzk_server::service: Prove request_id=A\n@1500 SYNTH_START A/0" + after, 1500 * time.Millisecond},
		{"the line came late", "@1500 SYNTH_START A/0\n2026-02-18T15:00:01.499900Z  INFO cuzk_server::service: Prove request_id=A\n" + after, 1499900 * time.Microsecond},
		{"of another job", before + "Prove request_id=C\n@1500 SYNTH_START A/0" + after, Unknown},
		{"later than its start", "@1500 SYNTH_START A/0\n2026-02-18T15:00:01.700000Z  INFO cuzk_server::service: Prove request_id=A\n" + after, Unknown},
		{"without a clock", before + "Prove request_id=A\n@1500 SYNTH_START A/0", Unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, o := range map[string]Options{
				"own":   {},
				"given": {Epoch: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)},
				"now":   {EndNow: true},
			} {
				r := readText(t, o, log(test.log))
				want := int64(Unknown)
				if test.want != Unknown {
					want = test.want.Microseconds()
				}
				if got := r.Sectors[0].Admitted; got != want && abs(got-want) > 500 {
					t.Errorf("%s: admitted at %d, want %d", name, got, want)
				}
			}
		})
	}
}

// TestLostLines removes one line in twenty, again and again.
func TestLostLines(t *testing.T) {
	for _, name := range []string{"standard", "dual_worker", "dual_worker_noisy", "single_worker", "split", "two_gpus", "failure", "snap"} {
		t.Run(name, func(t *testing.T) {
			all := slices.Collect(strings.Lines(readFixture(t, name)))
			byJob := make(map[string]truthJob)
			for _, j := range readTruth(t, name).Jobs {
				byJob[j.Job] = j
			}
			for seed := range uint64(200) {
				rnd := rand.New(rand.NewPCG(seed, 3))
				var b strings.Builder
				for _, line := range all {
					if !strings.HasPrefix(line, "TIMELINE,") || rnd.IntN(20) > 0 {
						b.WriteString(line)
					}
				}
				r := readText(t, Options{}, b.String())
				noOverlap(t, r)
				for _, s := range r.Sectors {
					if s.Attempt != 1 {
						t.Fatalf("seed %d: %s has attempt %d", seed, s.Job, s.Attempt)
					}
					for p := range s.Partitions() {
						compareAfterLoss(t, seed, s.Job, &p, byJob[s.Job].Partitions[max(p.Index, 0)])
					}
				}
			}
		})
	}
}

// compareAfterLoss holds what is known of a partition against what was.
func compareAfterLoss(t *testing.T, seed uint64, job string, p *Partition, of truthPartition) {
	want := of.times()
	for b := range numBoundaries {
		switch {
		case !p.Known(b):
		case !p.Inferred(b) && p.Times[b] != want[b]:
			t.Errorf("seed %d: %s/%d: boundary %d at %d, want %d", seed, job, p.Index, b, p.Times[b], want[b])
		case p.Inferred(b) && p.State != Failed && abs(p.Times[b]-want[b]) > 3:
			t.Errorf("seed %d: %s/%d: boundary %d inferred at %d, want %d", seed, job, p.Index, b, p.Times[b], want[b])
		}
	}
	if p.State == Failed && !of.SynthFailed || p.State == Finished && want[GPUEnd] == Unknown {
		t.Errorf("seed %d: %s/%d is %s", seed, job, p.Index, stateNames[p.State])
	}
}

package enginelog

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const clock = "2026-02-18T14:59:07.123856Z"

var clockMicros = time.Date(2026, 2, 18, 14, 59, 7, 123856000, time.UTC).UnixMicro()

// fact is a Fact with texts, for comparisons.
type fact struct {
	Kind                                     Kind
	Time                                     int64
	Job, Reason                              string
	Partition, Count, Worker, Device, Millis int64
	Timings                                  Durations
}

// told returns a fact of which nothing but its kind and time is known.
func told(k Kind) fact {
	return fact{Kind: k, Time: clockMicros, Partition: Unknown, Count: Unknown, Worker: Unknown, Device: Unknown, Millis: Unknown}
}

func timings(d Durations) fact { return fact{Kind: Timings, Timings: d} }

func read(p *Parser, line string) (f fact, ok bool) {
	var got Fact
	if !p.Parse([]byte(line), &got) {
		return fact{}, false
	}
	if got.Kind == Other {
		_, ok = p.Time(got.Stamp)
	} else {
		ok = true
	}
	return tells(p, &got), ok
}

// tells returns what of a fact has a meaning.
func tells(p *Parser, f *Fact) fact {
	switch f.Kind {
	case Timings:
		return fact{Kind: Timings, Timings: f.Timings}
	case Other:
		us, _ := p.Time(f.Stamp)
		return fact{Kind: Other, Time: us, Partition: Unknown, Count: Unknown, Worker: Unknown, Device: Unknown, Millis: Unknown}
	}
	return fact{
		Kind: f.Kind, Time: f.Time, Job: string(f.Job), Reason: string(f.Reason),
		Partition: f.Partition, Count: f.Count, Worker: f.Worker, Device: f.Device, Millis: f.Millis,
	}
}

var unknown = Durations{Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown}

// messages are what stands behind the engine's time, and what it tells.
var messages = []struct {
	text string
	want func(*fact)
}{
	{" INFO cuzk_daemon: cuzk-daemon starting", func(f *fact) { f.Kind = Started }},
	{" INFO provetrace: provetrace starting", func(f *fact) { f.Kind = Started }},
	{" INFO cuzk_daemon: configuration loaded listen=0.0.0.0:9820", func(f *fact) {}},
	{"DEBUG cuzk_core::engine: anything: job_id=A", func(f *fact) {}},
	{" WARN cuzk_core::engine: slow job_id=A", func(f *fact) {}},
	{"TRACE cuzk_core::engine: x", func(f *fact) {}},
	{" INFO no target", func(f *fact) {}},
	{" INFO cuzk_server::service: Prove request_id=porep-1000-4200 proof_kind=1 input_size=51738921", func(f *fact) { f.Kind, f.Job = Admitted, "porep-1000-4200" }},
	{" INFO cuzk_server::service: SubmitProof request_id=A", func(f *fact) { f.Kind, f.Job = Admitted, "A" }},
	{` INFO cuzk_server::service: Prove request_id="a b" proof_kind=1`, func(f *fact) { f.Kind, f.Job = Admitted, "a b" }},
	{" INFO cuzk_server::service: Prove request_id= proof_kind=1", func(f *fact) {}},
	{" INFO cuzk_server::service: Prove job_id=A", func(f *fact) {}},
	{" INFO cuzk_core::engine: dispatching per-partition synthesis (budget-gated) job_id=A num_partitions=10 budget_available_gib=512", func(f *fact) { f.Kind, f.Job, f.Count = Dispatched, "A", 10 }},
	{" INFO cuzk_core::engine: dispatching per-partition synthesis num_partitions=10", func(f *fact) { f.Count = 10 }},
	{" INFO cuzk_core::engine: dispatching per-partition synthesis job_id=A num_partitions=many", func(f *fact) { f.Kind, f.Job = Dispatched, "A" }},
	{" INFO cuzk_core::engine: pipeline GPU worker started worker_id=3 gpu=1 sub_id=1", func(f *fact) { f.Kind, f.Worker, f.Device = WorkerStarted, 3, 1 }},
	{" INFO cuzk_core::engine: pipeline GPU worker started worker_id=3", func(f *fact) { f.Worker = 3 }},
	{" INFO cuzk_core::engine: pipeline GPU worker started gpu=1 sub_id=1", func(f *fact) { f.Device = 1 }},
	{" INFO cuzk_core::engine: partition synthesis complete, pushing to GPU queue job_id=A partition=7 synth_ms=32696", func(f *fact) { f.Kind, f.Job, f.Partition, f.Millis = Synthesized, "A", 7, 32696 }},
	{" INFO cuzk_core::engine: partition synthesis complete, pushing to GPU queue partition=7 job_id=A", func(f *fact) { f.Kind, f.Job, f.Partition = Synthesized, "A", 7 }},
	{" INFO cuzk_core::engine: partition synthesis complete, pushing to GPU queue partition=7", func(f *fact) { f.Partition = 7 }},
	{" INFO cuzk_core::engine: skipping GPU prove for failed partitioned job job_id=A partition=Some(7)", func(f *fact) { f.Kind, f.Job, f.Partition = Skipped, "A", 7 }},
	{" INFO cuzk_core::engine: skipping GPU prove for failed partitioned job job_id=A partition=None", func(f *fact) { f.Kind, f.Job = Skipped, "A" }},
	{"ERROR cuzk_core::engine: partition synthesis failed error=unsatisfied-constraint job_id=A partition=4", func(f *fact) {
		f.Kind, f.Job, f.Partition, f.Reason = Failed, "A", 4, "partition synthesis failed: unsatisfied-constraint"
	}},
	{`ERROR cuzk_core::engine: GPU prove failed error="out of memory: \"cudaMalloc\"" request_id=A partition=Some(12)`, func(f *fact) {
		f.Kind, f.Job, f.Partition, f.Reason = Failed, "A", 12, `GPU prove failed: out of memory: \"cudaMalloc\"`
	}},
	{"ERROR cuzk_core::engine: failed error=a reason of some words job_id=A", func(f *fact) {
		f.Kind, f.Job, f.Reason = Failed, "A", "failed: a reason of some words"
	}},
	{"ERROR cuzk_core::engine: failed job_id=A partition=3 err=a reason of some words", func(f *fact) {
		f.Kind, f.Job, f.Partition, f.Reason = Failed, "A", 3, "failed: a reason of some words"
	}},
	{"ERROR cuzk_core::engine: failed job_id=A", func(f *fact) { f.Kind, f.Job, f.Reason = Failed, "A", "failed" }},
	{"ERROR cuzk_core::engine: job_id=A", func(f *fact) { f.Kind, f.Job = Failed, "A" }},
	{"ERROR cuzk_core::engine: error=x job_id=A", func(f *fact) { f.Kind, f.Job, f.Reason = Failed, "A", "x" }},
	{"ERROR cuzk_core::engine: failed myerror=x job_id=A", func(f *fact) { f.Kind, f.Job, f.Reason = Failed, "A", "failed" }},
	{`ERROR cuzk_core::engine: failed error="no end job_id=A`, func(f *fact) { f.Kind, f.Job, f.Reason = Failed, "A", `failed: "no end` }},
	{"ERROR cuzk_core::engine: the disk is full", func(f *fact) {}},
	{"ERROR cuzk_core::engine: failed job_id= partition=1", func(f *fact) {}},
	{"ERROR cuzk_core::engine: failed xjob_id=A", func(f *fact) {}},
}

// captures are what a capture puts before a line.
var captures = []string{
	"",
	"2026-02-18T12:00:01.500311000Z stderr F ",
	"Feb 18 12:00:01 prover01 cuzk-daemon[4242]: ",
	"2026-02-18T12:00:01+0000 prover01 cuzk-daemon[4242]: ",
	"2026-02-18T12:00:01.500311+0000 prover01 cuzk-daemon[4242]: ",
	"<34>1 2026-02-18T12:00:01.003Z prover01 cuzk 1 - - ",
	"cuzk-1  | ",
	"cuzk-1  | 2026-02-18T12:00:01.500311000Z ",
	"[pod/cuzk-0/cuzk] 2026-02-18T12:00:01Z ",
	"ZZ Z  INFO Z ",
}

// colored returns a line as the engine writes it to a terminal.
func colored(clock, text string) string {
	const dim, reset = "\x1b[2m", "\x1b[0m"
	level, rest := text[:5], text[6:]
	target, message, ok := strings.Cut(rest, ": ")
	if !ok {
		return dim + clock + reset + " \x1b[32m" + level + reset + " " + rest
	}
	var b strings.Builder
	b.WriteString(dim + clock + reset + " \x1b[32m" + level + reset + " " + dim + target + reset + dim + ":" + reset + " ")
	for i, word := range strings.Split(message, " ") {
		if i > 0 {
			b.WriteByte(' ')
		}
		if key, value, ok := strings.Cut(word, "="); ok {
			word = "\x1b[3m" + key + reset + dim + "=" + reset + value
		}
		b.WriteString(word)
	}
	return b.String()
}

func TestLinesOfTheEngine(t *testing.T) {
	for _, m := range messages {
		want := told(Other)
		m.want(&want)
		if want.Kind == Other {
			want = told(Other)
		}
		for _, before := range captures {
			for _, line := range []string{clock + " " + m.text, colored(clock, m.text)} {
				line = before + line
				var p Parser
				got, ok := read(&p, line)
				if !ok {
					t.Errorf("%q is not a line of the engine", line)
					continue
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%q (-want +got):\n%s", line, diff)
				}
			}
		}
	}
}

func TestTimings(t *testing.T) {
	for _, test := range []struct {
		text string
		want func(*Durations)
	}{
		{"CUZK_TIMING: pre_lock_cpu_ms=949 mutex_wait_ms=0", func(d *Durations) { d.PreLock, d.Wait = 949, 0 }},
		{"CUZK_TIMING: gpu_tid=0 ntt_msm_h_ms=650", func(d *Durations) { d.Thread, d.NTTMSMH = 0, 650 }},
		{"CUZK_TIMING: gpu_tid=1 barrier_wait_ms=0", func(d *Durations) { d.Thread, d.Barrier = 1, 0 }},
		{"CUZK_TIMING: gpu_tid=0 batch_add_ms=667", func(d *Durations) { d.Thread, d.Batch = 0, 667 }},
		{"CUZK_TIMING: gpu_tid=0 tail_msm_ms=75 gpu_total_ms=1393", func(d *Durations) { d.Thread, d.Tail, d.Total = 0, 75, 1393 }},
		{"CUZK_TIMING: mutex_held_ms=1393 total_start_fn_ms=2342", func(d *Durations) { d.Held, d.StartFn = 1393, 2342 }},
		{"CUZK_TIMING: b_g2_msm_ms=372 num_circuits=1", func(d *Durations) { d.BG2 = 372 }},
		{"CUZK_TIMING:  b_g2_msm_ms=372   other=x  y =3 =", func(d *Durations) { d.BG2 = 372 }},
		{"CUZK_TIMING: b_g2_msm_ms=372 b_g2_msm_ms=-1 mutex_held_ms=9999999999999999999", func(d *Durations) { d.BG2 = 372 }},
	} {
		want := unknown
		test.want(&want)
		for _, before := range captures {
			for _, line := range []string{test.text, "\x1b[33m" + test.text + "\x1b[0m"} {
				line = before + line
				var p Parser
				got, ok := read(&p, line)
				if !ok {
					t.Errorf("%q holds no timings", line)
					continue
				}
				if diff := cmp.Diff(timings(want), got); diff != "" {
					t.Errorf("%q (-want +got):\n%s", line, diff)
				}
			}
		}
	}
}

func TestOtherLines(t *testing.T) {
	for _, line := range []string{
		"",
		"hello",
		"Z",
		"Z  INFO x",
		"TIMELINE,1,SYNTH_START,A,partition=0",
		"CUZK_TIMING:",
		"CUZK_TIMING: num_circuits=1",
		"CUZK_TIMING: gpu_tid=x",
		"\x1b",
		"\x1b[2m",
		"2026-02-18T14:59:07.123856Z",
		"2026-02-18T14:59:07.123856Z INFO",
		"2026-02-18T14:59:07.123856Z FATAL x: y",
		"2026-02-18T14:59:07.123856ZINFO x: y",
		"2026-02-18T14:59:07.123Z  INFO x: y",
		"2026-02-18 14:59:07.123856Z  INFO x: y",
		"2026-02-30T14:59:07.123856Z  INFO x: y",
		"2026-02-18T24:59:07.123856Z  INFO x: y",
		"2026-02-18T14:60:07.123856Z  INFO x: y",
		"2026-02-18T14:59:61.123856Z  INFO x: y",
		"2026-02-18T14:59:0x.123856Z  INFO x: y",
	} {
		var p Parser
		if got, ok := read(&p, line); ok {
			t.Errorf("%q is %+v", line, got)
		}
	}
}

// TestLinesInTurn holds that nothing of a line is left to the next.
func TestLinesInTurn(t *testing.T) {
	var p Parser
	var f Fact
	for range 2 {
		for _, m := range messages {
			for _, line := range []string{clock + " " + m.text, colored(clock, m.text), "CUZK_TIMING: b_g2_msm_ms=1"} {
				if !p.Parse([]byte(line), &f) {
					t.Fatalf("%q is not a line of the engine", line)
				}
				if strings.HasPrefix(line, "CUZK") {
					continue
				}
				want := told(Other)
				m.want(&want)
				if want.Kind == Other {
					want = told(Other)
				}
				if diff := cmp.Diff(want, tells(&p, &f)); diff != "" {
					t.Errorf("%q (-want +got):\n%s", line, diff)
				}
			}
		}
	}
}

func TestTimes(t *testing.T) {
	var p Parser
	for _, at := range []time.Time{
		time.Date(2026, 2, 18, 14, 59, 7, 123856000, time.UTC),
		time.Date(2026, 2, 18, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 2, 18, 23, 59, 59, 999999000, time.UTC),
		time.Date(2026, 2, 19, 0, 0, 0, 1000, time.UTC),
		time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC),
		time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		line := at.Format("2006-01-02T15:04:05.000000Z") + "  INFO x: y"
		if f, ok := read(&p, line); !ok || f.Time != at.UnixMicro() {
			t.Errorf("%q is at %d, want %d", line, f.Time, at.UnixMicro())
		}
	}
	leap := "2026-06-30T23:59:60.500000Z  INFO x: y"
	if f, ok := read(&p, leap); !ok || f.Time != time.Date(2026, 7, 1, 0, 0, 0, 5e8, time.UTC).UnixMicro() {
		t.Errorf("%q is at %d, %v", leap, f.Time, ok)
	}
}

// fixtureLines returns the lines that are no events of the fixtures.
func fixtureLines(t testing.TB) [][]byte {
	t.Helper()
	var all [][]byte
	for _, name := range []string{"split", "failure", "dual_worker_noisy"} {
		b, err := os.ReadFile(filepath.Join("..", "testdata", name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, "TIMELINE,") {
				all = append(all, []byte(line))
			}
		}
	}
	return all
}

// TestFixtures holds that each line of the fixtures is understood.
func TestFixtures(t *testing.T) {
	var p Parser
	var f Fact
	kinds := make(map[Kind]int)
	for _, line := range fixtureLines(t) {
		if !p.Parse(line, &f) {
			t.Errorf("%q is not a line of the engine", line)
		}
		kinds[f.Kind]++
	}
	for k := Other; k <= Timings; k++ {
		if kinds[k] == 0 {
			t.Errorf("no line of kind %d", k)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	all := fixtureLines(t)
	for _, m := range messages {
		all = append(all, []byte(colored(clock, m.text)))
	}
	var p Parser
	var f Fact
	read := func() {
		for _, line := range all {
			p.Parse(line, &f)
		}
	}
	read()
	if n := testing.AllocsPerRun(10, read); n > 0 {
		t.Errorf("%v allocations for %d lines", n, len(all))
	}
}

func FuzzParse(f *testing.F) {
	for _, m := range messages {
		f.Add([]byte(clock + " " + m.text))
		f.Add([]byte(colored(clock, m.text)))
	}
	for _, before := range captures {
		f.Add([]byte(before + clock + " " + messages[0].text))
		f.Add([]byte(before + "CUZK_TIMING: pre_lock_cpu_ms=949 mutex_wait_ms=0"))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var p Parser
		var got Fact
		before := slices.Clone(line)
		ok := p.Parse(line, &got)
		if !slices.Equal(before, line) {
			t.Errorf("%q was changed to %q", before, line)
		}
		if !ok {
			return
		}
		for _, n := range []int64{got.Partition, got.Count, got.Worker, got.Device, got.Millis} {
			if got.Kind != Timings && got.Kind != Other && n < Unknown {
				t.Errorf("%q has the number %d", line, n)
			}
		}
		switch got.Kind {
		case Admitted, Dispatched, Synthesized, Skipped, Failed:
			if len(got.Job) == 0 {
				t.Errorf("%q has no job, and is of kind %d", line, got.Kind)
			}
		case WorkerStarted:
			if got.Worker < 0 || got.Device < 0 {
				t.Errorf("%q starts worker %d on device %d", line, got.Worker, got.Device)
			}
		}
		var again Fact
		if !p.Parse(line, &again) || again.Kind != got.Kind || again.Time != got.Time {
			t.Errorf("%q read twice is %+v and %+v", line, got, again)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for _, bench := range []struct{ name, line string }{
		{"synthesized", clock + "  INFO cuzk_core::engine: partition synthesis complete, pushing to GPU queue job_id=db5b5fab-8f4d-4e27-9da1-494c73cf256d partition=7 synth_ms=34678"},
		{"other", clock + "  INFO cuzk_core::engine: memory budget released bytes=123456789"},
		{"colored", colored(clock, " INFO cuzk_core::engine: partition synthesis complete, pushing to GPU queue job_id=db5b5fab-8f4d-4e27-9da1-494c73cf256d partition=7 synth_ms=34678")},
		{"failed", clock + " ERROR cuzk_core::engine: partition synthesis failed error=unsatisfied-constraint job_id=porep-1000-4202 partition=4"},
		{"timings", "CUZK_TIMING: gpu_tid=0 tail_msm_ms=75 gpu_total_ms=1393"},
		{"not the engine's", "Feb 18 12:00:01 prover01 kernel: something of another program, with a line of about this length"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			line := []byte(bench.line)
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			var p Parser
			var f Fact
			for b.Loop() {
				p.Parse(line, &f)
			}
		})
	}
}

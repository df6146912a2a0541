package tracing

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// A script tells a recorder of partitions by name, in short words.
type script struct {
	t          *testing.T
	r          *Recorder
	sector     *Sector
	partitions map[string]*Partition
	phases     map[string]*Phase
}

// play tells facts, each "MS WORD PARTITION [DEVICE]", and ends the sector and
// the recorder at a time.
func play(t *testing.T, o RecorderOptions, end int, facts ...string) *testStages {
	t.Helper()
	stages := newTestStages()
	s := &script{t: t, r: NewRecorder(stages, o), partitions: make(map[string]*Partition), phases: make(map[string]*Phase)}
	s.sector = s.r.StartSector(context.Background(), SectorInfo{Job: "j"}, at(0))
	for _, f := range facts {
		s.tell(f)
	}
	s.sector.End(at(end), nil)
	s.r.Close(at(end))
	return stages
}

func (s *script) tell(fact string) {
	var ms, device int
	var word, name string
	_, _ = fmt.Sscan(fact, &ms, &word, &name, &device)
	p := s.partitions[name]
	if p == nil {
		p = s.sector.StartPartition(len(s.partitions), at(ms))
		s.partitions[name] = p
	}
	switch word {
	case "synth":
		s.phases["synth"+name] = p.Synthesis(0, at(ms))
	case "built":
		s.phases["synth"+name].End(at(ms))
	case "broken":
		s.phases["synth"+name].Fail(at(ms), Failure("no"))
	case "offer":
		s.phases["wait"+name] = p.Queue(at(ms))
	case "take":
		s.phases["wait"+name].PickUp(Unknown, device, at(ms))
	case "prove":
		s.phases["prove"+name] = p.Prove(0, device, at(ms))
	case "proved":
		s.phases["prove"+name].End(at(ms))
	case "end":
		p.End(at(ms), nil)
	case "skip":
		p.Skip(at(ms))
	default:
		s.t.Fatalf("cannot tell %q", fact)
	}
}

// idle returns the idle spans, each "DEVICE FROM..TO CAUSE".
func (s *testStages) idle(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, line := range s.named(t, SpanIdle) {
		words := strings.Fields(line)
		require.Equal(t, "@queue", words[1])
		found = append(found, strings.TrimPrefix(words[3], "cuda.device.ordinal=")+" "+words[2]+" "+strings.TrimPrefix(words[4], "prover.idle.cause="))
	}
	return found
}

func TestIdle(t *testing.T) {
	one := []Device{{Ordinal: 0}}
	for _, c := range []struct {
		name    string
		devices []Device
		end     int
		facts   []string
		want    []string
	}{
		{name: "a cold start, of which synthesis is the cause", end: 50, devices: one,
			facts: []string{"10 synth a", "30 built a", "30 offer a", "30 take a", "30 prove a", "50 proved a"},
			want:  []string{"0 10..30 synthesis"}},
		{name: "what the device waits for after its last proof is no gap", end: 90, devices: one,
			facts: []string{"0 prove a", "20 proved a", "30 synth b"}},
		{name: "a synthesized partition was waiting", end: 50, devices: one,
			facts: []string{"0 synth b", "0 prove a", "15 built b", "15 offer b", "20 proved a", "25 take b", "26 prove b", "50 proved b"},
			want:  []string{"0 20..26 handoff"}},
		{name: "it waited to be offered", end: 50, devices: one,
			facts: []string{"0 synth b", "0 prove a", "15 built b", "20 proved a", "22 offer b", "26 prove b", "50 proved b"},
			want:  []string{"0 20..26 handoff"}},
		{name: "it was never offered", end: 50, devices: one,
			facts: []string{"0 synth b", "0 prove a", "15 built b", "20 proved a", "26 prove b", "50 proved b"},
			want:  []string{"0 20..26 handoff"}},
		{name: "its synthesis is not known", end: 50, devices: one,
			facts: []string{"0 prove a", "15 offer b", "20 proved a", "26 prove b", "50 proved b"},
			want:  []string{"0 20..26 handoff"}},
		{name: "it was picked up and did not start", end: 50, devices: one,
			facts: []string{"0 prove a", "15 offer b", "17 take b", "20 proved a", "26 prove b", "50 proved b"},
			want:  []string{"0 20..26 handoff"}},
		{name: "another is being synthesized as well", end: 50, devices: one,
			facts: []string{"0 synth c", "0 prove a", "15 offer b", "20 proved a", "26 prove b", "50 proved b"},
			want:  []string{"0 20..26 handoff"}},
		{name: "one was being synthesized", end: 50, devices: one,
			facts: []string{"0 prove a", "5 synth b", "20 proved a", "24 built b", "24 offer b", "26 prove b", "50 proved b"},
			want:  []string{"0 20..26 synthesis"}},
		{name: "a synthesis that fails makes nothing ready", end: 50, devices: one,
			facts: []string{"0 prove a", "5 synth b", "6 broken b", "20 proved a", "24 synth c", "26 prove b", "50 proved b"},
			want:  []string{"0 20..26 no-work"}},
		{name: "a skipped partition does not wait", end: 50, devices: one,
			facts: []string{"0 prove a", "5 offer b", "6 skip b", "20 proved a", "26 prove c", "50 proved c"},
			want:  []string{"0 20..26 no-work"}},
		{name: "nothing was under way", end: 50, devices: one,
			facts: []string{"0 prove a", "20 proved a", "21 synth b", "25 built b", "26 prove b", "50 proved b"},
			want:  []string{"0 20..26 no-work"}},
		{name: "no time passed", end: 50, devices: one,
			facts: []string{"0 prove a", "20 proved a", "20 prove b", "50 proved b"}},
		{name: "no time passed, told the other way", end: 50, devices: one,
			facts: []string{"0 prove a", "20 prove b", "20 proved a", "50 proved b"}},
		{name: "overlapping workers: the union", end: 90, devices: one,
			facts: []string{"0 prove a", "10 prove b", "20 proved a", "30 proved b", "40 prove c", "45 prove d", "50 proved d", "60 proved c", "60 synth e", "70 prove e"},
			want:  []string{"0 30..40 no-work", "0 60..70 synthesis"}},
		{name: "ends told late: the union", end: 90, devices: one,
			facts: []string{"0 prove a", "10 prove b", "30 proved b", "20 proved a", "40 prove c"},
			want:  []string{"0 30..40 no-work"}},
		{name: "two devices", end: 90, devices: []Device{{Ordinal: 1}, {Ordinal: 0}},
			facts: []string{"0 synth a", "10 built a", "10 prove a 1", "15 synth b", "20 proved a 1", "30 prove c 1", "35 built b", "40 proved c", "45 prove b 0", "50 prove d 1"},
			want:  []string{"0 0..45 synthesis", "1 0..10 synthesis", "1 20..30 synthesis", "1 40..50 handoff"}},
		{name: "a device that never worked", end: 90, devices: []Device{{Ordinal: 0}, {Ordinal: 7}},
			facts: []string{"5 synth a", "10 prove a 0", "90 proved a"},
			want:  []string{"0 5..10 synthesis", "7 5..90 synthesis"}},
		{name: "a device that appears", end: 90, devices: one,
			facts: []string{"0 synth a", "10 prove a 0", "50 prove b 3", "60 proved b", "70 prove c 3"},
			want:  []string{"0 0..10 synthesis", "3 0..50 synthesis", "3 60..70 synthesis"}},
		{name: "a device that appears with the first proof", end: 90,
			facts: []string{"10 prove a 0", "20 proved a"}},
		{name: "work on an unknown device", end: 90,
			facts: []string{"0 synth a", "10 prove a -1", "20 proved a", "30 prove b -1"}},
		{name: "a run without work", end: 90, devices: one},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, play(t, RecorderOptions{Devices: c.devices}, c.end, c.facts...).idle(t))
		})
	}
}

// What happens at one instant can be told in any order that a pipeline could
// tell it in.
func TestIdleIsTheSameInAnyOrderAtOneInstant(t *testing.T) {
	before := []string{"0 synth b", "0 synth c", "0 prove a"}
	instant := []string{"20 built b", "20 proved a", "20 built c", "20 synth d", "20 skip c"}
	after := []string{"30 offer b", "31 prove b", "40 proved b", "41 prove d"}
	tried := 0
	permute(instant, func(facts []string) {
		if slices.Index(facts, "20 skip c") < slices.Index(facts, "20 built c") {
			return
		}
		tried++
		stages := play(t, RecorderOptions{}, 50, slices.Concat(before, facts, after)...)
		require.Equal(t, []string{"0 20..31 handoff", "0 40..41 synthesis"}, stages.idle(t), "%q", facts)
	})
	require.Equal(t, 60, tried)
}

func permute(of []string, yield func([]string)) {
	var walk func(n int)
	walk = func(n int) {
		if n == len(of) {
			yield(of)
			return
		}
		for i := n; i < len(of); i++ {
			of[n], of[i] = of[i], of[n]
			walk(n + 1)
			of[n], of[i] = of[i], of[n]
		}
	}
	walk(0)
}

// The devices' spans start first, so that viewers list them on top, and last as
// long as the run.
func TestLanesComeFirst(t *testing.T) {
	stages := play(t, RecorderOptions{Devices: []Device{{Ordinal: 2}, {Ordinal: 1}}}, 90, "10 prove a 1", "20 proved a", "20 prove b 0")
	var names []string
	for _, s := range stages.spans.Started() {
		if s.SpanContext().TraceID() == stages.spans.Started()[0].SpanContext().TraceID() {
			names = append(names, s.Name())
		}
	}
	require.Equal(t, []string{SpanRun, "gpu 1", "gpu 2", "gpu 0"}, names[:4])
	for _, name := range []string{"gpu 0", "gpu 1", "gpu 2"} {
		require.Contains(t, stages.named(t, name)[0], " @gpu 0..90 ")
	}
}

// The times before the first work are nobody's idle time.
func TestAdmissionIsNoIdleTime(t *testing.T) {
	stages := newTestStages()
	r := NewRecorder(stages, RecorderOptions{Devices: []Device{{Ordinal: 0}}})
	s := r.StartSector(context.Background(), SectorInfo{Job: "j", Admitted: at(0)}, at(0))
	late := r.StartSector(context.Background(), SectorInfo{Job: "k", Admitted: at(-50)}, at(10))
	p := s.StartPartition(0, at(10))
	p.Synthesis(0, at(10)).End(at(20))
	p.Prove(0, 0, at(25)).End(at(30))
	late.End(at(30), nil)
	s.End(at(30), nil)
	r.Close(at(30))
	require.Equal(t, []string{"0 10..25 synthesis"}, stages.idle(t))
	require.Equal(t, []string{"admission wait @queue 0..10"}, stages.named(t, SpanAdmissionWait))
	// A sector admitted before the run began begins with it.
	require.Contains(t, stages.named(t, "sector k")[0], "@prover 0..30")
}

// After 500 sectors, the run's trace goes on in another one.
func TestParts(t *testing.T) {
	const sectors = 2*sectorsPerTrace + 1
	for _, run := range []string{"", "run"} {
		stages := newTestStages()
		r := NewRecorder(stages, RecorderOptions{Run: run, Devices: []Device{{Ordinal: 0}, {Ordinal: 1}}})
		var contexts []trace.SpanContext
		// Each sector works for 10 of 20 ms and ends 30 ms after its start, so
		// that the next part begins before it.
		open := make([]*Sector, sectors)
		proofs := make([]*Phase, sectors)
		for i := range sectors {
			if i > 0 {
				proofs[i-1].End(at(20*i - 10))
			}
			open[i] = r.StartSector(context.Background(), SectorInfo{Job: fmt.Sprintf("porep-1-%d", i), Admitted: at(20*i - 1000)}, at(20*i))
			if len(contexts) == 0 || !contexts[len(contexts)-1].Equal(r.RunContext()) {
				contexts = append(contexts, r.RunContext())
			}
			p := open[i].StartPartition(0, at(20*i))
			p.Synthesis(0, at(20*i)).End(at(20 * i))
			proofs[i] = p.Prove(0, 0, at(20*i))
			if i > 1 {
				open[i-2].End(at(20*(i-2)+45), nil)
			}
		}
		proofs[sectors-1].End(at(20*sectors - 10))
		open[sectors-2].End(at(20*(sectors-2)+45), nil)
		open[sectors-1].End(at(20*(sectors-1)+45), nil)
		r.Close(at(1_000_000))

		require.Len(t, contexts, RunTraces(sectors))
		runs := stages.named(t, SpanRun)
		last := 20*(sectors-1) + 45
		require.Equal(t, []string{
			"proving run @prover -1000..10025",
			"proving run @prover 10000..20025",
			fmt.Sprintf("proving run @prover 20000..%d", last),
		}, runs)

		byID := make(map[trace.SpanID]sdktrace.ReadOnlySpan)
		for _, s := range stages.spans.Ended() {
			byID[s.SpanContext().SpanID()] = s
		}
		counts := make(map[trace.TraceID]int)
		for _, s := range byID {
			id := s.SpanContext().TraceID()
			part := slices.IndexFunc(contexts, func(c trace.SpanContext) bool { return c.TraceID() == id })
			if part < 0 {
				continue
			}
			if run != "" {
				require.Equal(t, TraceIDFor(run, "", part+1), id)
			}
			if strings.HasPrefix(s.Name(), "sector ") {
				counts[id]++
				require.Len(t, s.Links(), 1)
				require.Equal(t, SpanSector, byID[s.Links()[0].SpanContext.SpanID()].Name())
			}
			if parent := byID[s.Parent().SpanID()]; parent != nil {
				require.False(t, s.StartTime().Before(parent.StartTime()), describe(s, byID))
				require.False(t, s.EndTime().After(parent.EndTime()), describe(s, byID))
			} else {
				require.Equal(t, SpanRun, s.Name())
			}
		}
		require.ElementsMatch(t, []int{sectorsPerTrace, sectorsPerTrace, 1}, slices.Collect(maps.Values(counts)))

		// The gaps of a device are the same as without parts, but divided.
		var busy, never time.Duration
		for _, s := range byID {
			if s.Name() == SpanIdle {
				switch strings.Fields(describe(s, byID))[3] {
				case "cuda.device.ordinal=0":
					busy += s.EndTime().Sub(s.StartTime())
				default:
					never += s.EndTime().Sub(s.StartTime())
				}
			}
		}
		require.Equal(t, 10*time.Millisecond*(sectors-1), busy)
		require.Equal(t, time.Duration(last)*time.Millisecond, never)
	}
}

func TestRunTraces(t *testing.T) {
	for sectors, want := range map[int]int{0: 0, 1: 1, 499: 1, 500: 1, 501: 2, 1000: 2, 1001: 3} {
		require.Equal(t, want, RunTraces(sectors), "%d sectors", sectors)
	}
}

// The run ends with its last sector, whenever it is closed.
func TestCloseEndsTheRunWithItsLastSector(t *testing.T) {
	for _, ms := range []int{5, 20, 1000} {
		stages := newTestStages()
		r := NewRecorder(stages, RecorderOptions{Devices: []Device{{Ordinal: 0}}})
		r.StartSector(context.Background(), SectorInfo{Job: "j"}, at(0)).End(at(20), nil)
		r.Close(at(ms))
		r.Close(at(2000))
		require.Equal(t, []string{"proving run @prover 0..20"}, stages.named(t, SpanRun))
		require.Contains(t, stages.named(t, "gpu 0")[0], "0..20")
	}
	// Ends can be told in another order.
	stages := newTestStages()
	r := NewRecorder(stages, RecorderOptions{})
	long, short := r.StartSector(context.Background(), SectorInfo{Job: "j"}, at(0)), r.StartSector(context.Background(), SectorInfo{Job: "k"}, at(1))
	long.End(at(30), nil)
	short.End(at(20), nil)
	r.Close(at(40))
	require.Equal(t, []string{"proving run @prover 0..30"}, stages.named(t, SpanRun))

	// A recorder that saw nothing makes no trace.
	stages = newTestStages()
	r = NewRecorder(stages, RecorderOptions{Devices: []Device{{Ordinal: 0}}})
	require.False(t, r.RunContext().IsValid())
	r.Close(at(0))
	require.Empty(t, stages.spans.Started())
}

// Sectors of the same name in a part have ids of their own, and those that
// Close ends get the same ones each time.
func TestSectorsOfTheSameName(t *testing.T) {
	var first map[trace.SpanID]string
	for range 5 {
		stages := newTestStages()
		r := NewRecorder(stages, RecorderOptions{Run: "run"})
		for i := range 20 {
			r.StartSector(context.Background(), SectorInfo{Job: fmt.Sprintf("cd613e30-%d", i)}, at(i))
		}
		r.Close(at(30))
		names := make(map[trace.SpanID]string)
		for _, s := range stages.spans.Ended() {
			names[s.SpanContext().SpanID()] = fmt.Sprint(s.Name(), s.StartTime())
		}
		require.Len(t, names, 41)
		if first == nil {
			first = names
		}
		require.Equal(t, first, names)
	}
}

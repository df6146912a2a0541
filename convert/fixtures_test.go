package convert_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
)

// TestFixtures holds the spans of every fixture against what the fixture was
// made from.
func TestFixtures(t *testing.T) {
	for _, f := range []struct {
		log, truth string
		anchored   bool // the log tells the wall clock
		missing    int  // phases that lost lines leave inferred or without an end
	}{
		{log: "standard", truth: "standard"},
		{log: "dual_worker", truth: "dual_worker"},
		{log: "dual_worker_noisy", truth: "dual_worker_noisy", anchored: true},
		{log: "single_worker", truth: "single_worker", anchored: true},
		{log: "few_workers", truth: "few_workers", anchored: true},
		{log: "split", truth: "split", anchored: true},
		{log: "curio", truth: "curio", anchored: true},
		{log: "two_gpus", truth: "two_gpus", anchored: true},
		{log: "failure", truth: "failure", anchored: true},
		{log: "snap", truth: "snap", anchored: true},
		{log: "dirty_journald", truth: "dual_worker"},
		{log: "dirty_cri", truth: "dual_worker"},
		{log: "dirty_compose", truth: "dual_worker"},
		{log: "dirty_crlf", truth: "dual_worker"},
		{log: "dirty_shuffled", truth: "dual_worker"},
		{log: "dirty_torn", truth: "dual_worker"},
		{log: "dirty_binary", truth: "dual_worker", missing: 6}, // the binary runs stand in place of six lines
		{log: "dirty_dropped", truth: "dual_worker", missing: 19},
		{log: "dirty_truncated", truth: "dual_worker", missing: 42},
	} {
		t.Run(f.log, func(t *testing.T) {
			all := convertFixture(t, f.log)
			all.checkShape(t)
			missing := all.checkTruth(t, readTruth(t, f.truth), f.anchored)
			if missing != f.missing {
				t.Errorf("%d phases are missing or inferred, want %d", missing, f.missing)
			}
		})
	}
}

// checkShape holds what is true of the spans of any log.
func (all spans) checkShape(t *testing.T) {
	t.Helper()
	services := make(map[string]bool)
	for _, tr := range all {
		roots := 0
		for _, s := range tr {
			services[s.Service] = true
			if !s.End.After(s.Start) { // a backend takes that for a fault
				t.Errorf("%s does not end after it starts", s.Name)
			}
			if s.Resource["service.namespace"] != "prover" || s.Resource["provetrace.source"] != "timeline" || s.Resource["provetrace.run"] == "" {
				t.Errorf("%s has the resource %v", s.Name, s.Resource)
			}
			if s.Parent == "" {
				roots++
				if s.Name != tracing.SpanSector && s.Name != tracing.SpanRun {
					t.Errorf("%s is a root", s.Name)
				}
				continue
			}
			parent := tr[s.Parent]
			if parent == nil {
				t.Errorf("the parent of %s is not there", s.Name)
				continue
			}
			if s.Start.Before(parent.Start) || s.End.After(parent.End) {
				t.Errorf("%s [%v, %v] is not inside %s [%v, %v]", s.Name, s.Start, s.End, parent.Name, parent.Start, parent.End)
			}
			if s.Service == "prover-gpu" && s.Attributes["hw.type"] != "gpu" {
				t.Errorf("%s has no hw.type: %v", s.Name, s.Attributes)
			}
		}
		if roots != 1 {
			t.Errorf("a trace has %d roots", roots)
		}
	}
	for _, name := range []string{"prover", "prover-synthesis", "prover-queue", "prover-gpu"} {
		if !services[name] {
			t.Errorf("there is no service %s", name)
		}
	}
	all.checkOverview(t)
}

// checkOverview holds the run's own trace against the sectors' traces.
func (all spans) checkOverview(t *testing.T) {
	t.Helper()
	sectors := all.named(tracing.SpanSector)
	for _, root := range all.named(tracing.SpanRun) {
		var lanes int
		for _, s := range all[root.Trace] {
			switch {
			case strings.HasPrefix(s.Name, "gpu ") && s.Name != tracing.SpanProve:
				lanes++
				if !s.Start.Equal(root.Start) {
					t.Errorf("%s does not begin with the run", s.Name)
				}
				idle := all.children(s, tracing.SpanIdle)
				for i := 1; i < len(idle); i++ {
					if !idle[i].Start.After(idle[i-1].End) {
						t.Errorf("%s is idle twice at %v", s.Name, idle[i].Start)
					}
				}
				for _, gap := range idle {
					if cause := gap.Attributes["prover.idle.cause"]; cause != "handoff" && cause != "synthesis" && cause != "no-work" {
						t.Errorf("%s is idle because of %v", s.Name, cause)
					}
				}
			case strings.HasPrefix(s.Name, "sector "):
				of := slices.IndexFunc(sectors, func(x *span) bool { return len(s.Links) == 1 && x.ID == s.Links[0].Span })
				if of < 0 {
					t.Errorf("%s is not linked to its sector's trace", s.Name)
				} else if x := sectors[of]; !x.Start.Equal(s.Start) || !x.End.Equal(s.End) || x.Status != s.Status {
					t.Errorf("%s is not as long as its sector's trace", s.Name)
				}
			}
		}
		if lanes == 0 {
			t.Errorf("the run's trace has no device")
		}
	}
}

// checkTruth holds the spans against the truth and returns how many phases are
// missing, or marked as inferred.
func (all spans) checkTruth(t *testing.T, tr truth, anchored bool) (missing int) {
	t.Helper()
	roots := make(map[string]*span)
	for _, s := range all.named(tracing.SpanSector) {
		roots[s.Attributes["prover.job.id"].(string)] = s
	}
	var epoch time.Time
	if anchored {
		epoch = time.UnixMicro(tr.Epoch)
	}
	for _, j := range tr.Jobs {
		root := roots[j.Job]
		if root == nil {
			t.Fatalf("there is no trace of %s", j.Job)
		}
		if failed := root.Status == ptrace.StatusCodeError && root.Attributes["prover.unfinished"] == nil; failed != (j.FailedPartition != nil) {
			t.Errorf("%s has the status %v", j.Job, root.Status)
		}
		if anchored {
			if d := root.Start.Sub(epoch.Add(time.Duration(j.Admitted * float64(time.Millisecond)))).Abs(); d > 2*time.Millisecond {
				t.Errorf("%s was admitted %v off", j.Job, d)
			}
		}
		for _, p := range j.Partitions {
			node := root
			if p.Partition != nil {
				found := all.children(root, tracing.PartitionSpanName(*p.Partition))
				if len(found) != 1 {
					missing++
					continue
				}
				node = found[0]
				all.checkStatus(t, node, &p, j.FailedPartition)
			}
			for _, ph := range []struct {
				name     string
				from, to *float64
			}{{tracing.SpanSynthesis, p.SynthStart, p.SynthEnd}, {tracing.SpanQueueWait, p.Queued, p.Pickup}, {tracing.SpanProve, p.GPUStart, p.GPUEnd}} {
				if ph.from == nil || ph.to == nil || p.SynthFailed && ph.name == tracing.SpanSynthesis {
					continue
				}
				found := all.children(node, ph.name)
				if len(found) != 1 || found[0].Attributes["prover.inferred"] != nil {
					missing++
					continue
				}
				s := found[0]
				if epoch.IsZero() {
					epoch = s.Start.Add(-time.Duration(*ph.from) * time.Millisecond)
				}
				for _, b := range []struct {
					at   time.Time
					want float64
				}{{s.Start, *ph.from}, {s.End, *ph.to}} {
					want := epoch.Add(time.Duration(b.want) * time.Millisecond) // whole ms, as the log has it
					if d := b.at.Sub(want).Abs(); d > 2*time.Millisecond {
						t.Errorf("%s of partition %v of %s is %v off", ph.name, p.Partition, j.Job, d)
					}
				}
				if ph.name == tracing.SpanProve && (s.Attributes["prover.gpu.worker"] != int64(p.Worker) || anchored && s.Attributes["cuda.device.ordinal"] != int64(p.GPU)) {
					t.Errorf("gpu prove has the attributes %v, want worker %d and device %d", s.Attributes, p.Worker, p.GPU)
				}
			}
		}
	}
	return missing
}

// checkStatus holds how a partition ended against the truth.
func (all spans) checkStatus(t *testing.T, s *span, p *truePartition, failed *int) {
	t.Helper()
	if p.Skipped != (s.Attributes["prover.partition.skipped"] == true) {
		t.Errorf("%s has skipped: %v", s.Name, s.Attributes)
	}
	if failed == nil || *failed != *p.Partition {
		return
	}
	if s.Status != ptrace.StatusCodeError || !slices.ContainsFunc(s.Events, func(e event) bool { return e.Name == "exception" }) || !strings.Contains(s.Message, "unsatisfied-constraint") {
		t.Errorf("%s failed and has the status %v %q and the events %v", s.Name, s.Status, s.Message, s.Events)
	}
}

// TestQueueWaitIsLinkedToTheProofsBefore looks at why a partition waited.
func TestQueueWaitIsLinkedToTheProofsBefore(t *testing.T) {
	all := convertFixture(t, "dual_worker_noisy")
	linked := 0
	for _, wait := range all.named(tracing.SpanQueueWait) {
		if len(wait.Links) > 4 {
			t.Errorf("a wait has %d links", len(wait.Links))
		}
		for _, l := range wait.Links {
			linked++
			to := all[l.Trace][l.Span]
			if to == nil || to.Name != tracing.SpanProve || !to.Start.Before(wait.End) || !to.End.After(wait.Start) {
				t.Errorf("a wait [%v, %v] is linked to %+v", wait.Start, wait.End, to)
			}
		}
		if wait.End.Sub(wait.Start) > 5*time.Second && len(wait.Links) == 0 {
			t.Errorf("a wait of %v has no link", wait.End.Sub(wait.Start))
		}
	}
	if linked == 0 {
		t.Error("no wait has a link")
	}
}

// TestIdleSpansOfStandard holds the gaps of a log whose limit is synthesis.
func TestIdleSpansOfStandard(t *testing.T) {
	all := convertFixture(t, "standard")
	var got []time.Duration
	for _, s := range all.named(tracing.SpanIdle) {
		got = append(got, s.End.Sub(s.Start))
		if s.Attributes["prover.idle.cause"] != tracing.CauseSynthesis {
			t.Errorf("idle because of %v", s.Attributes)
		}
	}
	ms := time.Millisecond
	want := []time.Duration{38784 * ms, 12584 * ms, 12986 * ms, 11880 * ms, 12725 * ms} // the cold start, then the truth's gaps
	if !slices.Equal(got, want) {
		t.Errorf("idle for %v, want %v", got, want)
	}
}

// TestConvertingTwiceGivesTheSameSpans holds the ids and all else.
func TestConvertingTwiceGivesTheSameSpans(t *testing.T) {
	a, b := convertFixture(t, "split"), convertFixture(t, "split")
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("the second conversion differs (-first +second):\n%s", diff)
	}
}

// TestIdleSpansOfAPartialLog holds that nothing is made up of why a device was
// idle where the log lacks the syntheses.
func TestIdleSpansOfAPartialLog(t *testing.T) {
	log, err := os.ReadFile("testdata/dual_worker.log")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "gpu.log")
	var gpu []byte
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte(",GPU_")) {
			gpu = append(gpu, line...)
		}
	}
	if err := os.WriteFile(name, gpu, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	convertTo(t, tracing.Options{File: "-", Writer: &out}, run.Options{}, name)
	idle := readSpans(t, out.Bytes()).named(tracing.SpanIdle)
	if len(idle) != 4 {
		t.Errorf("there are %d idle spans, want 4", len(idle))
	}
	for _, s := range idle {
		if cause, ok := s.Attributes["prover.idle.cause"]; ok {
			t.Errorf("idle because of %v", cause)
		}
	}
}

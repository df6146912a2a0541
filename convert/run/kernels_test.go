package run

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/provetrace/provetrace/tracing"
)

// kernelNames are the truth's names of phases.
var kernelNames = map[string]string{
	tracing.SpanDeviceWait: "lock_wait",
	tracing.SpanNTTMSMH:    "ntt_msm_h",
	tracing.SpanBatchAdd:   "batch_add",
	tracing.SpanTailMSM:    "tail_msm",
	tracing.SpanBG2MSM:     "b_g2_msm",
}

// TestPhasesAreWhereTheKernelsWere holds the phases made of CUDA timings against
// the kernels that the fixtures were made from.
func TestPhasesAreWhereTheKernelsWere(t *testing.T) {
	for _, test := range []struct {
		name string
		bg2  bool
	}{
		{"dual_worker_noisy", false}, {"split", true}, {"snap", true}, {"single_worker", false}, {"few_workers", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			jobs := readTruth(t, test.name).Jobs
			for _, j := range jobs {
				for _, p := range j.Partitions {
					if test.bg2 {
						p.Kernel["b_g2_msm"] = [2]float64{p.Kernel["tail_msm"][1], *p.GPUEnd}
					}
				}
			}
			r := readText(t, Options{}, readFixture(t, test.name))
			comparePhases(t, r, jobs).atLeast(t, 100)
			if r.Input.Orphans != 0 {
				t.Errorf("%d groups of timings are of no partition", r.Input.Orphans)
			}
		})
	}
}

// A score counts phases.
type score struct{ total, known, right int }

// comparePhases counts those of the phases that are known, and that are within
// 5 ms of the kernels.
func comparePhases(t *testing.T, r *Run, jobs []truthJob) (n score) {
	t.Helper()
	want := make(map[string]map[int]map[string][2]float64)
	for _, j := range jobs {
		want[j.Job] = make(map[int]map[string][2]float64)
		for _, p := range j.Partitions {
			want[j.Job][p.index()] = p.Kernel
			n.total += len(p.Kernel)
		}
	}
	for _, s := range r.Sectors {
		for p := range s.Partitions() {
			for ph := range p.Phases() {
				kernel, ok := want[s.Job][p.Index][kernelNames[ph.Name]]
				if !ok {
					continue
				}
				n.known++
				if abs(ph.Start-int64(kernel[0])) <= 5 && abs(ph.End-int64(kernel[1])) <= 5 {
					n.right++
				}
			}
		}
	}
	noOverlap(t, r)
	return n
}

// atLeast holds that so many phases in a hundred are known and right, and 99 of
// those that are known.
func (n score) atLeast(t *testing.T, percent int) {
	t.Helper()
	if n.right*100 < n.total*percent {
		t.Errorf("%d of %d phases are known and within 5 ms, less than %d%%; %d are known", n.right, n.total, percent, n.known)
	}
	if n.right*100 < n.known*99 {
		t.Errorf("%d of %d known phases are within 5 ms, less than 99%%", n.right, n.known)
	}
}

// noOverlap holds that a device does one thing at a time.
func noOverlap(t *testing.T, r *Run) {
	t.Helper()
	busy := make(map[int][]Phase)
	for _, s := range r.Sectors {
		for p := range s.Partitions() {
			for ph := range p.Phases() {
				switch ph.Name {
				case tracing.SpanNTTMSMH, tracing.SpanBatchAdd, tracing.SpanTailMSM:
					busy[p.Device] = append(busy[p.Device], ph)
				}
			}
		}
	}
	for device, phases := range busy {
		slices.SortFunc(phases, func(a, b Phase) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
		for i := 1; i < len(phases); i++ {
			if phases[i].Start < phases[i-1].End {
				t.Errorf("device %d: %v and %v overlap", device, phases[i-1], phases[i])
			}
		}
	}
}

// A simulation is an engine whose partitions' kernels are known.
type simulation struct {
	devices, workers int // workers of each device
	partitions       int
	every            float64 // ms from one partition's synthesis to the next one's
	split            bool    // the worker is free with the lock's release
	threads          int     // GPU threads in the lock; the last is the slowest
}

// A moment is something that happens in a simulation.
type moment struct {
	at   float64
	what func(at float64)
}

type moments []moment

func (m moments) Len() int           { return len(m) }
func (m moments) Less(i, j int) bool { return m[i].at < m[j].at }
func (m moments) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *moments) Push(x any)        { *m = append(*m, x.(moment)) }
func (m *moments) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

// run returns the simulation's log and what it is made from.
func (s simulation) run(seed uint64) (string, []truthJob) {
	rnd := rand.New(rand.NewPCG(seed, 4))
	uniform := func(from, to float64) float64 { return from + rnd.Float64()*(to-from) }
	type line struct {
		at   float64
		text string
	}
	var out []line
	say := func(at float64, format string, args ...any) {
		out = append(out, line{at, fmt.Sprintf(format, args...)})
	}
	event := func(at float64, format string, args ...any) {
		say(at, "TIMELINE,%d,"+format, append([]any{int64(at)}, args...)...)
	}
	var jobs []truthJob
	var next moments
	later := func(at float64, what func(float64)) { heap.Push(&next, moment{at, what}) }

	var queue []func(worker int, at float64)
	var idle []int
	locked := make([]bool, s.devices)
	waiting := make([][]func(float64), s.devices)
	free := func(worker int, at float64) {
		if len(queue) == 0 {
			idle = append(idle, worker)
			return
		}
		take := queue[0]
		queue = queue[1:]
		take(worker, at)
	}
	for w := range s.devices * s.workers {
		say(float64(w)/10, "2026-02-18T15:00:00.000%03dZ  INFO cuzk_core::engine: pipeline GPU worker started worker_id=%d gpu=%d sub_id=%d", 100*w/1000, w, w/s.workers, w%s.workers)
		idle = append(idle, w)
	}
	for i := range s.partitions {
		index := i % 10
		if index == 0 {
			jobs = append(jobs, truthJob{Job: fmt.Sprintf("porep-1-%d", i/10)})
		}
		j := i / 10
		id := fmt.Sprintf("porep-1-%d", j)
		kernel := make(map[string][2]float64)
		jobs[j].Partitions = append(jobs[j].Partitions, truthPartition{Partition: &index, Kernel: kernel})
		prove := func(worker int, start float64) {
			event(start-uniform(0.05, 0.3), "GPU_PICKUP,%s,worker=%d,partition=%d", id, worker, index)
			event(start, "GPU_START,%s,worker=%d,partition=%d", id, worker, index)
			device := worker / s.workers
			prepare := uniform(900, 1400)
			acquired := func(at float64) {
				wait := at - start - prepare
				say(at, "CUZK_TIMING: pre_lock_cpu_ms=%d mutex_wait_ms=%d", int64(prepare), int64(wait))
				kernel["lock_wait"] = [2]float64{start + prepare, at}
				over := at
				for thread := range s.threads {
					ntt, barrier, batch, tail := uniform(600, 800), uniform(0, 3), uniform(550, 700), uniform(60, 110)
					if thread < s.threads-1 {
						ntt -= 100
					}
					end := at + ntt + barrier + batch + tail + uniform(0.01, 0.3)
					say(at+ntt, "CUZK_TIMING: gpu_tid=%d ntt_msm_h_ms=%d", thread, int64(ntt))
					say(at+ntt+barrier, "CUZK_TIMING: gpu_tid=%d barrier_wait_ms=%d", thread, int64(barrier))
					say(at+ntt+barrier+batch, "CUZK_TIMING: gpu_tid=%d batch_add_ms=%d", thread, int64(batch))
					say(end, "CUZK_TIMING: gpu_tid=%d tail_msm_ms=%d gpu_total_ms=%d", thread, int64(tail), int64(end-at))
					if end > over {
						over = end
						kernel["ntt_msm_h"] = [2]float64{at, at + ntt}
						kernel["batch_add"] = [2]float64{at + ntt + barrier, at + ntt + barrier + batch}
						kernel["tail_msm"] = [2]float64{at + ntt + barrier + batch, end}
					}
				}
				later(over, func(at float64) {
					say(at, "CUZK_TIMING: mutex_held_ms=%d total_start_fn_ms=%d", int64(at-start-prepare-wait), int64(at-start))
					if w := waiting[device]; len(w) > 0 {
						waiting[device] = w[1:]
						w[0](at + uniform(0.001, 0.02))
					} else {
						locked[device] = false
					}
					bg2 := uniform(380, 460)
					if s.split {
						bg2 = uniform(1500, 1900)
						free(worker, at+uniform(0.3, 0.5))
					}
					end := at + bg2
					kernel["b_g2_msm"] = [2]float64{at, end}
					say(end-uniform(0.01, 0.05), "CUZK_TIMING: b_g2_msm_ms=%d num_circuits=1", int64(bg2))
					event(end, "GPU_END,%s,worker=%d,partition=%d,gpu_ms=%d", id, worker, index, int64(end-start))
					if !s.split {
						later(end, func(at float64) { free(worker, at+uniform(0.3, 0.5)) })
					}
				})
			}
			later(start+prepare, func(at float64) {
				if locked[device] {
					waiting[device] = append(waiting[device], acquired)
					return
				}
				locked[device] = true
				acquired(at)
			})
		}
		begun := 1000 + float64(i)*s.every
		event(begun, "SYNTH_START,%s,partition=%d", id, index)
		synthesis := uniform(30000, 40000)
		event(begun+synthesis, "SYNTH_END,%s,partition=%d,synth_ms=%d", id, index, int64(synthesis))
		event(begun+synthesis+0.01, "GPU_QUEUE,%s,partition=%d", id, index)
		later(begun+synthesis+0.02, func(at float64) {
			if len(idle) == 0 {
				queue = append(queue, prove)
				return
			}
			w := idle[0]
			idle = idle[1:]
			prove(w, at+uniform(0.3, 0.5))
		})
	}
	for len(next) > 0 {
		m := heap.Pop(&next).(moment)
		m.what(m.at)
	}
	slices.SortStableFunc(out, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	var b strings.Builder
	for _, l := range out {
		b.WriteString(l.text + "\n")
	}
	return b.String(), jobs
}

// TestPhasesOfSimulations holds phases against kernels where more than one
// device, worker or thread writes timings at once.
func TestPhasesOfSimulations(t *testing.T) {
	for _, test := range []struct {
		name    string
		percent int
		simulation
	}{
		{"one worker", 100, simulation{devices: 1, workers: 1, partitions: 100, every: 2500, threads: 1}},
		{"two workers", 100, simulation{devices: 1, workers: 2, partitions: 200, every: 1500, threads: 1}},
		{"two workers, two threads", 99, simulation{devices: 1, workers: 2, partitions: 200, every: 1500, threads: 2}},
		{"two workers, split", 100, simulation{devices: 1, workers: 2, partitions: 200, every: 1400, split: true, threads: 1}},
		{"four workers", 99, simulation{devices: 1, workers: 4, partitions: 200, every: 1450, threads: 1}},
		{"two devices", 99, simulation{devices: 2, workers: 2, partitions: 400, every: 750, threads: 1}},
		{"two devices, split", 99, simulation{devices: 2, workers: 2, partitions: 400, every: 700, split: true, threads: 1}},
		{"two devices, idle", 99, simulation{devices: 2, workers: 2, partitions: 400, every: 1700, threads: 1}},
		{"four devices", 99, simulation{devices: 4, workers: 2, partitions: 800, every: 380, threads: 1}},
		{"eight devices, split", 99, simulation{devices: 8, workers: 2, partitions: 1600, every: 180, split: true, threads: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var all score
			for seed := range uint64(3) {
				text, jobs := test.run(seed)
				n := comparePhases(t, readText(t, Options{}, text), jobs)
				all = score{all.total + n.total, all.known + n.known, all.right + n.right}
			}
			all.atLeast(t, test.percent)
		})
	}
}

// TestLostTimings removes one timing line in twenty.
func TestLostTimings(t *testing.T) {
	for _, s := range []simulation{
		{devices: 1, workers: 2, partitions: 400, every: 1500, threads: 1},
		{devices: 2, workers: 2, partitions: 400, every: 700, split: true, threads: 1},
	} {
		var all score
		for seed := range uint64(5) {
			text, jobs := s.run(seed)
			rnd := rand.New(rand.NewPCG(seed, 5))
			var b strings.Builder
			for line := range strings.Lines(text) {
				if !strings.HasPrefix(line, "CUZK_TIMING") || rnd.IntN(20) > 0 {
					b.WriteString(line)
				}
			}
			n := comparePhases(t, readText(t, Options{}, b.String()), jobs)
			all = score{all.total + n.total, all.known + n.known, all.right + n.right}
		}
		// A partition's phases need four or five lines.
		all.atLeast(t, 70)
	}
}

// TestGarbageTimings adds timing lines that are of nothing.
func TestGarbageTimings(t *testing.T) {
	keys := []string{"pre_lock_cpu_ms", "mutex_wait_ms", "gpu_tid", "ntt_msm_h_ms", "barrier_wait_ms", "batch_add_ms", "tail_msm_ms", "gpu_total_ms", "mutex_held_ms", "total_start_fn_ms", "b_g2_msm_ms", "other_ms"}
	for seed := range uint64(5) {
		rnd := rand.New(rand.NewPCG(seed, 6))
		text, jobs := simulation{devices: 2, workers: 2, partitions: 200, every: 700, threads: 1}.run(seed)
		var b strings.Builder
		for line := range strings.Lines(text) {
			b.WriteString(line)
			for range rnd.IntN(3) {
				b.WriteString("CUZK_TIMING:")
				for range rnd.IntN(4) {
					value := rnd.Uint64() >> rnd.IntN(64)
					if rnd.IntN(4) > 0 {
						value %= 3000
					}
					fmt.Fprintf(&b, " %s=%d", keys[rnd.IntN(len(keys))], value)
				}
				b.WriteByte('\n')
			}
		}
		n := comparePhases(t, readText(t, Options{}, b.String()), jobs)
		if n.right*100 < n.known*90 {
			t.Errorf("%d of %d known phases are within 5 ms, less than 90%%", n.right, n.known)
		}
	}
}

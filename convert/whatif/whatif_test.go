package whatif

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/prover"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func read(t testing.TB, open func() (io.ReadCloser, error)) *run.Run {
	t.Helper()
	for r, err := range run.Read(t.Context(), "test", run.Options{}, run.Source{Name: "test", Open: open}) {
		require.NoError(t, err)
		return r
	}
	t.Fatal("there is no run")
	return nil
}

func fixture(t testing.TB, name string) *run.Run {
	t.Helper()
	return read(t, func() (io.ReadCloser, error) { return os.Open("../testdata/" + name + ".log") })
}

func workload(t testing.TB, name string) *Workload {
	t.Helper()
	w, err := Measure(fixture(t, name))
	require.NoError(t, err)
	return w
}

func predict(t testing.TB, w *Workload, s Settings) Outcome {
	t.Helper()
	o, err := w.Predict(t.Context(), s)
	require.NoError(t, err)
	return o
}

var fixtures = []string{
	"dual_worker", "dual_worker_noisy", "single_worker", "few_workers", "split", "snap", "curio", "two_gpus", "failure", "standard",
}

// TestMeasured holds what is computed of the runs as they were against package
// figures.
func TestMeasured(t *testing.T) {
	for _, name := range fixtures {
		t.Run(name, func(t *testing.T) {
			of := figures.Of(fixture(t, name))
			o := workload(t, name).Measured()
			require.Equal(t, of.Proofs, o.Proofs)
			require.Equal(t, *of.MakespanMS, o.MakespanMS)
			require.InEpsilon(t, *of.SecondsPerProof.Steady, *o.SecondsPerProof.Steady, 1e-9)
			require.InEpsilon(t, *of.SecondsPerProof.Overall, *o.SecondsPerProof.Overall, 1e-9)
			var busy, kernels float64
			for _, g := range of.GPUs {
				busy += *g.UtilizationActive / float64(len(of.GPUs))
				if g.KernelUtilizationActive != nil {
					kernels += *g.KernelUtilizationActive / float64(len(of.GPUs))
				}
			}
			require.InEpsilon(t, busy, *o.Utilization, 1e-9)
			if o.KernelUtilization == nil {
				require.Zero(t, kernels)
			} else {
				require.InEpsilon(t, kernels, *o.KernelUtilization, 1e-9)
			}
		})
	}
}

// TestOwnSettings holds the settings that are read from each run, and how far
// the prediction for them is off what it did. Time is simulated, so that the
// predictions are the same on a machine that is busy.
func TestOwnSettings(t *testing.T) {
	for _, test := range []struct {
		name string
		want Settings
		off  float64 // share of the seconds per proof, and of the utilization
	}{
		{"dual_worker", Settings{10, 2, 1, prover.Partition, true, nil}, 0.005}, // with estimates of the device's time
		{"dual_worker_noisy", Settings{10, 2, 1, prover.Partition, true, nil}, 0.001},
		{"single_worker", Settings{10, 1, 1, prover.Partition, true, nil}, 0.001},
		{"few_workers", Settings{5, 2, 1, prover.Partition, true, nil}, 0.001},
		{"split", Settings{12, 2, 1, prover.Partition, false, nil}, 0.001},
		{"snap", Settings{12, 2, 1, prover.Partition, false, nil}, 0.001},
		{"curio", Settings{12, 2, 1, prover.Partition, false, nil}, 0.02},    // estimates
		{"two_gpus", Settings{20, 2, 2, prover.Partition, false, nil}, 0.01}, // estimates
		{"failure", Settings{10, 2, 1, prover.Partition, false, nil}, 0.01},  // estimates
		{"standard", Settings{1, 1, 1, prover.Sector, true, nil}, 0.001},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := workload(t, test.name)
			require.Equal(t, test.want, w.Settings())
			measured, o := w.Measured(), predict(t, w, w.Settings())
			require.Equal(t, measured.Proofs, o.Proofs)
			require.InEpsilon(t, *measured.SecondsPerProof.Steady, *o.SecondsPerProof.Steady, test.off)
			require.InEpsilon(t, *measured.SecondsPerProof.Overall, *o.SecondsPerProof.Overall, test.off)
			require.InEpsilon(t, *measured.Utilization, *o.Utilization, test.off)
			require.InEpsilon(t, *measured.SynthesisUtilization, *o.SynthesisUtilization, test.off)
			if measured.KernelUtilization != nil {
				require.InEpsilon(t, *measured.KernelUtilization, *o.KernelUtilization, test.off)
			}
		})
	}
}

// TestOtherRuns holds predictions made from a run against other runs of the same
// engine and load, which had the settings that are asked for.
func TestOtherRuns(t *testing.T) {
	for _, test := range []struct {
		from, to string
		off      float64
	}{
		{"dual_worker_noisy", "single_worker", 0.01},
		{"dual_worker_noisy", "few_workers", 0.01},
		{"dual_worker", "single_worker", 0.01}, // with estimates of the device's time
		{"dual_worker", "few_workers", 0.01},
		{"single_worker", "dual_worker_noisy", 0.03},
		{"few_workers", "dual_worker_noisy", 0.03},
		{"few_workers", "single_worker", 0.02},
	} {
		t.Run(test.from+" "+test.to, func(t *testing.T) {
			to := workload(t, test.to)
			o := predict(t, workload(t, test.from), to.Settings())
			require.InEpsilon(t, *to.Measured().SecondsPerProof.Steady, *o.SecondsPerProof.Steady, test.off)
			require.InEpsilon(t, *to.Measured().Utilization, *o.Utilization, 0.08)
		})
	}
}

// TestEstimate holds what is estimated of a log without device phases against
// the same run with them.
func TestEstimate(t *testing.T) {
	without, with := workload(t, "dual_worker"), workload(t, "dual_worker_noisy")
	require.Equal(t, estimated, without.detail)
	require.Equal(t, divided, with.detail)
	for _, s := range with.Alternatives() {
		if without.Check(s) != nil {
			continue
		}
		require.InEpsilon(t, *predict(t, with, s).SecondsPerProof.Steady, *predict(t, without, s).SecondsPerProof.Steady, 0.01, "%+v", s)
	}
}

// TestRepeatable predicts the same again and again, many at once.
func TestRepeatable(t *testing.T) {
	for _, name := range []string{"two_gpus", "split"} {
		w := workload(t, name)
		s := w.Settings()
		s.Devices, s.WorkersPerDevice = 3, 2
		want := predict(t, w, s)
		t.Run(name, func(t *testing.T) {
			for i := range 8 {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					t.Parallel()
					for range 10 {
						require.Equal(t, want, predict(t, w, s))
					}
				})
			}
		})
	}
}

// A logged is a log in the making.
type logged struct{ strings.Builder }

func (l *logged) event(at int, event, job, detail string) {
	fmt.Fprintf(l, "TIMELINE,%d,%s,%s,%s\n", at, event, job, detail)
}

// partition logs a partition of which all times but the last are given.
func (l *logged) partition(job string, p, start, built, picked, worker, end int) {
	of := fmt.Sprintf("partition=%d", p)
	l.event(start, "SYNTH_START", job, of)
	l.event(built, "SYNTH_END", job, fmt.Sprintf("%s,synth_ms=%d", of, built-start))
	l.event(built, "GPU_QUEUE", job, of)
	l.event(picked, "GPU_PICKUP", job, fmt.Sprintf("worker=%d,%s", worker, of))
	l.event(picked, "GPU_START", job, fmt.Sprintf("worker=%d,%s", worker, of))
	l.event(end, "GPU_END", job, fmt.Sprintf("worker=%d,%s,gpu_ms=%d", worker, of, end-picked))
}

func (l *logged) run(t testing.TB) *run.Run {
	t.Helper()
	return read(t, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(l.String())), nil })
}

// TestArrivals holds how the jobs are taken to have come.
func TestArrivals(t *testing.T) {
	for _, test := range []struct {
		name string
		log  func(*logged)
		want []arrival
		note string
	}{
		{"waiting", func(l *logged) {
			l.partition("a", 0, 0, 10_000, 10_000, 0, 14_000)
			l.partition("b", 0, 10_000, 20_000, 20_000, 0, 24_000)
		}, []arrival{{}, {}}, "1 job began as a synthesis worker became free"},
		{"at their own times", func(l *logged) {
			l.partition("a", 0, 0, 10_000, 10_000, 0, 14_000)
			l.partition("b", 0, 30_000, 40_000, 40_000, 0, 44_000)
		}, []arrival{{}, {at: 30e9}}, "1 job came while synthesis workers were free"},
		{"as others end", func(l *logged) {
			l.partition("a", 0, 0, 10_000, 10_000, 0, 14_000)
			l.partition("b", 0, 14_020, 24_000, 24_000, 0, 28_000)
		}, []arrival{{}, {after: 1}}, "1 job came as another's proof ended"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var l logged
			test.log(&l)
			w, err := Measure(l.run(t))
			require.NoError(t, err)
			var got []arrival
			for _, j := range w.jobs {
				got = append(got, j.arrival)
			}
			require.Equal(t, test.want, got)
			require.Contains(t, strings.Join(w.Notes(), " "), test.note)
			require.InDelta(t, w.Measured().MakespanMS, predict(t, w, w.Settings()).MakespanMS, 50)
		})
	}
}

// TestFaster holds by how much a faster phase shortens a run in which all follows
// from it.
func TestFaster(t *testing.T) {
	var l logged
	l.partition("a", 0, 0, 10_000, 10_000, 0, 14_000)
	w, err := Measure(l.run(t))
	require.NoError(t, err)
	for factors, want := range map[string]int64{
		"synthesis=2":             9_000,
		"gpu=4x":                  11_000,
		"synthesis=2x, gpu = 4x ": 6_000,
		"gpu=0.5":                 18_000,
	} {
		s := w.Settings()
		s.Faster, err = ParseFactors(factors)
		require.NoError(t, err)
		require.Equal(t, want, predict(t, w, s).MakespanMS, factors)
	}
	noisy := workload(t, "dual_worker_noisy")
	require.Equal(t, []string{"synthesis", "gpu", "device", "prepare", "finish", "ntt msm h", "batch add", "tail msm"}, noisy.Phases())
	s := noisy.Settings()
	s.WorkersPerDevice = 1
	slow := predict(t, noisy, s)
	s.Faster = []Factor{{"ntt msm h", 2}}
	fast := predict(t, noisy, s)
	require.InDelta(t, 10*1.2, *slow.SecondsPerProof.Steady-*fast.SecondsPerProof.Steady, 0.5) // 10 partitions, 2.4 s of it in each
}

func TestParseFactors(t *testing.T) {
	for _, bad := range []string{"", "device", "device=", "=2", "device=0", "device=-1", "device=NaN", "device=1e9", "device=2,device=3", "device=2,"} {
		_, err := ParseFactors(bad)
		require.Error(t, err, bad)
	}
	got, err := ParseFactors("ntt msm h=1.5x,synthesis=2")
	require.NoError(t, err)
	require.Equal(t, []Factor{{"ntt msm h", 1.5}, {"synthesis", 2}}, got)
	require.Equal(t, "ntt msm h=1.5x", got[0].String())
}

// TestCannotTell holds what is refused, each with a sentence.
func TestCannotTell(t *testing.T) {
	for _, test := range []struct {
		name string
		vary func(*Settings)
		want string
	}{
		{"standard", func(s *Settings) { s.Mode = prover.Partition }, "whole sectors"},
		{"standard", func(s *Settings) { s.WorkersPerDevice = 2 }, "second worker"},
		{"standard", func(s *Settings) { s.InlineFinish = false }, "split finish"},
		{"dual_worker", func(s *Settings) { s.InlineFinish = false }, "split finish"},
		{"dual_worker", func(s *Settings) { s.Faster = []Factor{{"finish", 2}} }, `"finish" takes: it tells of synthesis, gpu, device`},
		{"split", func(s *Settings) { s.Faster = []Factor{{"msm", 2}} }, `"msm" takes`},
		{"split", func(s *Settings) { s.Devices = 0 }, "0 devices"},
		{"split", func(s *Settings) { s.SynthesisWorkers = math.MaxInt }, "synthesis workers: give 1 to"},
		{"split", func(s *Settings) { s.WorkersPerDevice = -1 }, "-1 workers per device"},
	} {
		w := workload(t, test.name)
		s := w.Settings()
		test.vary(&s)
		_, err := w.Predict(t.Context(), s)
		require.ErrorContains(t, err, test.want)
	}
	for want, log := range map[string]func(*logged){
		"nothing to replay": func(l *logged) { l.event(0, "SYNTH_START", "a", "partition=0") },
		"too few proofs": func(l *logged) {
			l.partition("a", 0, 0, 10_000, 10_000, 0, 14_000)
			l.partition("a", 1, 0, 11_000, 11_000, 1, 17_000)
		},
		"whole sectors and partitions": func(l *logged) {
			l.partition("a", 0, 0, 10_000, 10_000, 0, 14_000)
			l.event(0, "SYNTH_START", "b", "kind=porep-c2")
			l.event(9000, "SYNTH_END", "b", "synth_ms=9000")
		},
	} {
		var l logged
		log(&l)
		_, err := Measure(l.run(t))
		require.ErrorContains(t, err, want)
	}
}

// TestDirty predicts from logs that lack lines.
func TestDirty(t *testing.T) {
	for _, name := range []string{"dirty_dropped", "dirty_truncated", "dirty_shuffled"} {
		t.Run(name, func(t *testing.T) {
			w := workload(t, name)
			o := predict(t, w, w.Settings())
			require.Equal(t, w.Measured().Proofs, o.Proofs)
			if o.Proofs > 1 {
				require.InEpsilon(t, *w.Measured().SecondsPerProof.Steady, *o.SecondsPerProof.Steady, 0.1)
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	w := workload(t, "split")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.Predict(ctx, w.Settings())
	require.ErrorIs(t, err, context.Canceled)

	ctx, cancel = context.WithCancel(t.Context())
	var all []Settings
	for n := range 200 {
		s := w.Settings()
		s.SynthesisWorkers = 20 + n
		all = append(all, s)
	}
	_, err = w.Forecast(ctx, "split", all, func(float64) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
}

// TestAbsurdTimes refuses what would not fit a duration.
func TestAbsurdTimes(t *testing.T) {
	w := workload(t, "standard")
	w.jobs[0].parts[0].steps.Synthesis[0].Duration = 365 * 24 * time.Hour
	s := w.Settings()
	predict(t, w, s)
	s.Faster = []Factor{{Synthesis, 0.01}}
	_, err := w.Predict(t.Context(), s)
	require.ErrorContains(t, err, "more than 32 years")
}

// TestLongRun replays the first sectors of a long run.
func TestLongRun(t *testing.T) {
	var l logged
	const sectors, partitions = 120, 200
	at := 0
	for s := range sectors {
		for p := range partitions {
			l.partition(fmt.Sprintf("porep-1-%d", s), p, at, at+100, at+100, 0, at+190)
			at += 100
		}
	}
	w, err := Measure(l.run(t))
	require.NoError(t, err)
	require.Contains(t, strings.Join(w.Notes(), " "), "Of 120 sectors the first 100 are replayed.")
	o := predict(t, w, w.Settings())
	require.Equal(t, 100, o.Proofs)
	require.InEpsilon(t, *w.Measured().SecondsPerProof.Steady, *o.SecondsPerProof.Steady, 0.001)
}

// TestBounds holds predictions for any settings between what the durations allow
// at best and what they would take one after the other.
func TestBounds(t *testing.T) {
	w := workload(t, "split")
	rapid.Check(t, func(t *rapid.T) {
		s := Settings{
			SynthesisWorkers: rapid.IntRange(1, 30).Draw(t, "synthesis workers"),
			WorkersPerDevice: rapid.IntRange(1, 4).Draw(t, "workers per device"),
			Devices:          rapid.IntRange(1, 3).Draw(t, "devices"),
			Mode:             rapid.SampledFrom([]prover.Mode{prover.Partition, prover.Sector}).Draw(t, "mode"),
			InlineFinish:     rapid.Bool().Draw(t, "inline finish"),
		}
		o, err := w.Predict(context.Background(), s)
		require.NoError(t, err)
		require.Equal(t, 8, o.Proofs)
		var synthesis, device, all float64
		r := replay{w: w, s: s}
		for n, j := range w.jobs {
			for i := range j.parts {
				d := r.durations(fmt.Sprint(n), i)
				synthesis += total(d.Synthesis).Seconds()
				device += total(d.Device).Seconds()
				all += (total(d.Synthesis) + d.Prepare + total(d.Device) + total(d.Finish)).Seconds()
			}
		}
		makespan := float64(o.MakespanMS) / 1000
		require.LessOrEqual(t, synthesis/float64(s.SynthesisWorkers), makespan+0.001)
		require.LessOrEqual(t, device/float64(s.Devices), makespan+0.001)
		require.LessOrEqual(t, makespan, all+0.001)
		require.LessOrEqual(t, *o.KernelUtilization, *o.Utilization+1e-9)
		require.LessOrEqual(t, *o.Utilization, 1+1e-9)
		require.LessOrEqual(t, *o.SynthesisUtilization, 1+1e-9)
	})
}

func TestForecast(t *testing.T) {
	w := workload(t, "dual_worker_noisy")
	own := w.Settings()
	five, twenty := own, own
	five.SynthesisWorkers, twenty.SynthesisWorkers = 5, 20
	told := make(chan float64, 10)
	f, err := w.Forecast(t.Context(), "name", []Settings{own, five, twenty, five}, func(share float64) { told <- share })
	require.NoError(t, err)
	require.Equal(t, own, f.Own.Settings)
	require.Len(t, f.Others, 2, "without its own, and each once")
	require.Equal(t, five, f.Others[0].Settings)
	require.Less(t, math.Abs(*f.Off()), 0.03)
	require.InDelta(t, 1, *f.Change(&f.Others[0]), 0.05)
	require.True(t, slices.ContainsFunc(f.Notes, func(s string) bool { return strings.Contains(s, "never had more than 10 syntheses") }))
	close(told)
	var most float64
	for share := range told {
		most = max(most, share)
	}
	require.Equal(t, 1.0, most)
	five.Devices = 0
	_, err = w.Forecast(t.Context(), "name", []Settings{five}, nil)
	require.ErrorContains(t, err, "0 devices")
}

// FuzzPredict holds that no log makes a prediction panic or hang.
func FuzzPredict(f *testing.F) {
	for _, name := range fixtures {
		b, err := os.ReadFile("../testdata/" + name + ".log")
		require.NoError(f, err)
		f.Add(b[:len(b)/4], uint8(3))
	}
	f.Fuzz(func(t *testing.T, log []byte, vary uint8) {
		for r, err := range run.Read(t.Context(), "log", run.Options{}, run.Source{Name: "log", Open: func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(log)), nil
		}}) {
			if err != nil {
				return
			}
			w, err := Measure(r)
			if err != nil {
				continue
			}
			s := w.Settings()
			s.SynthesisWorkers = max(s.SynthesisWorkers*int(vary&7)/4, 1)
			s.Devices += int(vary >> 3 & 3)
			s.InlineFinish = s.InlineFinish != (vary>>5&1 == 1)
			if vary>>6&1 == 1 {
				s.Mode = prover.Sector
			}
			if w.Check(s) == nil {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				_, err = w.Predict(ctx, s)
				cancel()
				require.NotErrorIs(t, err, context.DeadlineExceeded)
			}
		}
	})
}

// BenchmarkPredict reports what replaying a partition takes.
func BenchmarkPredict(b *testing.B) {
	w := workload(b, "split")
	for b.Loop() {
		predict(b, w, w.Settings())
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*80), "µs/partition")
}

package run

import "testing"

// TestPhasesAreWhereTheKernelsWere holds the phases made of CUDA timings against
// the kernels that the fixtures were made from.
func TestPhasesAreWhereTheKernelsWere(t *testing.T) {
	names := map[string]string{"device wait": "lock_wait", "ntt msm h": "ntt_msm_h", "batch add": "batch_add", "tail msm": "tail_msm"}
	for _, name := range []string{"dual_worker_noisy", "split", "snap", "single_worker", "few_workers"} {
		t.Run(name, func(t *testing.T) {
			want := make(map[string]map[int]map[string][2]float64)
			total := 0
			for _, j := range readTruth(t, name).Jobs {
				want[j.Job] = make(map[int]map[string][2]float64)
				for _, p := range j.Partitions {
					want[j.Job][p.index()] = p.Kernel
					total += len(names)
				}
			}
			right := 0
			for _, s := range readText(t, Options{}, readFixture(t, name)).Sectors {
				for p := range s.Partitions() {
					for ph := range p.Phases() {
						kernel, ok := want[s.Job][p.Index][names[ph.Name]]
						if !ok {
							continue
						}
						if abs(ph.Start-int64(kernel[0])) <= 5 && abs(ph.End-int64(kernel[1])) <= 5 {
							right++
						} else {
							t.Logf("%s p%d %s: %d..%d, truth %.1f", s.Job, p.Index, ph.Name, ph.Start, ph.End, kernel)
						}
					}
				}
			}
			t.Logf("%d of %d phases are within 5 ms", right, total)
			if right*100 < total*99 {
				t.Errorf("%d of %d phases are within 5 ms, less than 99%%", right, total)
			}
		})
	}
}

package cpu_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/consensys/gnark-crypto/ecc"
	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr/fft"
	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/prover/backend"
	"github.com/provetrace/provetrace/prover/backend/cpu"
	"github.com/provetrace/provetrace/prover/groth16"
)

// BenchmarkDevice measures the phases that hold the device beside the same calls
// of gnark-crypto made directly, in turns, so that both find the machine alike.
// device-ms and direct-ms are the medians, ratio that of the one to the other;
// finish-ms is the median of what is done outside of the device's lock.
func BenchmarkDevice(b *testing.B) {
	for _, constraints := range []int{1 << 12, 1 << 15} {
		for _, tasks := range []int{1, 2} {
			b.Run(fmt.Sprintf("constraints=%d/tasks=%d", constraints, tasks), func(b *testing.B) {
				sys, public, private := chain(b, constraints)
				pk, _, err := groth16.Setup(b.Context(), sys, nil, 2)
				require.NoError(b, err)
				a := assign(b, sys, public, private)
				device := cpu.New(pk, cpu.Options{Tasks: tasks}).Devices()[0]
				var inDevice, directly, finishing []time.Duration
				phase := func(string, time.Time, time.Time) {}
				for b.Loop() {
					p, err := device.Prepare(b.Context(), backend.Task{Assignment: a})
					require.NoError(b, err)
					start := time.Now()
					require.NoError(b, p.Run(b.Context(), phase))
					inDevice = append(inDevice, time.Since(start))
					start = time.Now()
					_, err = p.Finish(b.Context(), phase)
					require.NoError(b, err)
					finishing = append(finishing, time.Since(start))
					p.Release()

					s, err := pk.Scalars(a)
					require.NoError(b, err)
					start = time.Now()
					direct(pk, s, tasks)
					directly = append(directly, time.Since(start))
				}
				b.ReportMetric(0, "ns/op")
				ms := func(d []time.Duration) float64 {
					slices.Sort(d)
					return float64(d[len(d)/2].Microseconds()) / 1e3
				}
				b.ReportMetric(ms(inDevice), "device-ms")
				b.ReportMetric(ms(directly), "direct-ms")
				b.ReportMetric(ms(finishing), "finish-ms")
				b.ReportMetric(ms(inDevice)/ms(directly), "ratio")
			})
		}
	}
}

// direct does what a proof needs of the device, and nothing around it.
func direct(pk *groth16.ProvingKey, s *groth16.Scalars, tasks int) {
	inTasks := fft.WithNbTasks(tasks)
	a, b, c := s.EvaluationsA, s.EvaluationsB, s.EvaluationsC
	for _, e := range [][]fr.Element{a, b, c} {
		pk.Domain.FFTInverse(e, fft.DIF, inTasks)
		pk.Domain.FFT(e, fft.DIT, inTasks, fft.OnCoset())
	}
	h := fr.Vector(a)
	h.Mul(h, b)
	h.Sub(h, c)
	pk.Domain.FFTInverse(h, fft.DIF, inTasks, fft.OnCoset())

	config := ecc.MultiExpConfig{NbTasks: tasks}
	var sum bls12381.G1Jac
	sum.MultiExp(pk.H, h[:len(pk.H)], config)
	sum.MultiExp(pk.L, s.L, config)
	sum.MultiExp(pk.A, s.A, config)
	sum.MultiExp(pk.B1, s.B, config)
}

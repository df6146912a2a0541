// Package cpu is the backend that proves on CPUs, with gnark-crypto's NTTs and
// MSMs. It makes of the machine one device, so that its proofs go one after the
// other through the phases that on a GPU hold the device, each of which uses all
// of the tasks that it may.
package cpu

import (
	"bufio"
	"context"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/consensys/gnark-crypto/ecc"
	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/provetrace/provetrace/prover/backend"
	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/tracing"
)

// Options say how the backend proves.
type Options struct {
	// Tasks is about the number of goroutines that a phase runs in. Zero means as
	// many as there are CPUs for them, and more than 512 mean 512.
	Tasks int
}

// Backend is the CPUs as one device.
type Backend struct {
	device device
}

// New returns a backend that proves with the key.
func New(pk *groth16.ProvingKey, o Options) *Backend {
	if o.Tasks <= 0 {
		o.Tasks = runtime.GOMAXPROCS(0)
	}
	const maxTasks = 512 // of gnark-crypto's FFT
	return &Backend{device{
		key:   pk,
		tasks: min(o.Tasks, maxTasks),
		info:  tracing.Device{Name: "cpu", Model: model()},
	}}
}

// Name returns cpu.
func (b *Backend) Name() string { return "cpu" }

// Devices returns the one device.
func (b *Backend) Devices() []backend.Device { return []backend.Device{&b.device} }

// Close does nothing, since the backend holds nothing.
func (b *Backend) Close() error { return nil }

// device is all CPUs.
type device struct {
	key   *groth16.ProvingKey
	tasks int
	info  tracing.Device
}

func (d *device) Info() tracing.Device { return d.info }

// Prepare chooses the scalars of the MSMs. The assignment is not needed after it.
func (d *device) Prepare(ctx context.Context, t backend.Task) (backend.Proving, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	scalars, err := d.key.Scalars(t.Assignment)
	if err != nil {
		return nil, err
	}
	return &proving{device: d, scalars: scalars}, nil
}

// proving is a proof on its way.
type proving struct {
	*device
	scalars *groth16.Scalars
	h       []fr.Element
	sums    groth16.Sums
}

// step is what a phase does.
type step struct {
	phase string
	do    func() error
}

func (p *proving) Run(ctx context.Context, phase backend.PhaseFunc) error {
	return run(ctx, phase, []step{
		{tracing.SpanNTTH, func() error { p.h = p.scalars.NTTH(p.key.Domain, p.tasks); return nil }},
		{tracing.SpanMSMH, func() error { return p.msm(&p.sums.H, p.key.H, p.h) }},
		{tracing.SpanMSML, func() error { return p.msm(&p.sums.L, p.key.L, p.scalars.L) }},
		{tracing.SpanMSMA, func() error { return p.msm(&p.sums.A, p.key.A, p.scalars.A) }},
		{tracing.SpanMSMBG1, func() error { return p.msm(&p.sums.B1, p.key.B1, p.scalars.B) }},
	})
}

func (p *proving) Finish(ctx context.Context, phase backend.PhaseFunc) (groth16.Proof, error) {
	err := run(ctx, phase, []step{{tracing.SpanMSMBG2, func() error {
		_, err := p.sums.B2.MultiExp(p.key.B2, p.scalars.B, ecc.MultiExpConfig{NbTasks: p.tasks})
		return err
	}}})
	if err != nil {
		return groth16.Proof{}, err
	}
	return p.key.Assemble(&p.sums, nil)
}

func (p *proving) Release() { *p = proving{} }

func (p *proving) msm(sum *bls12381.G1Jac, points []bls12381.G1Affine, scalars []fr.Element) error {
	_, err := sum.MultiExp(points, scalars, ecc.MultiExpConfig{NbTasks: p.tasks})
	return err
}

// run does the steps one after the other, unless the context is done.
func run(ctx context.Context, phase backend.PhaseFunc, steps []step) error {
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		start := time.Now()
		if err := s.do(); err != nil {
			return err
		}
		phase(s.phase, start, time.Now())
	}
	return nil
}

// model returns the name of the CPU where the system tells it, as Linux does on
// most architectures.
func model() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

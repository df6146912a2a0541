package cli

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/provetrace/provetrace/prover/backend"
)

// A meter is a backend that knows how busy its devices are.
type meter struct {
	backend.Backend
	devices []backend.Device
	start   time.Time
	busy    atomic.Int64 // ns, of all devices, of what is over
}

func newMeter(b backend.Backend) *meter {
	m := &meter{Backend: b, start: time.Now()}
	for _, d := range b.Devices() {
		m.devices = append(m.devices, &meteredDevice{Device: d, m: m})
	}
	return m
}

func (m *meter) Devices() []backend.Device { return m.devices }

// A usage is what devices did until a moment.
type usage struct {
	at   time.Time
	busy time.Duration // of all devices
}

func (m *meter) usage() usage {
	now := time.Now()
	u := usage{at: now, busy: time.Duration(m.busy.Load())}
	for _, d := range m.devices {
		if since := d.(*meteredDevice).since.Load(); since > 0 {
			u.busy += now.Sub(m.start) - time.Duration(since)
		}
	}
	return u
}

// share is the share of the time from u to v that a device worked on average, 0
// to 1.
func (m *meter) share(u, v usage) float64 {
	had := v.at.Sub(u.at) * time.Duration(len(m.devices))
	if had <= 0 {
		return 0
	}
	return min(max(float64(v.busy-u.busy)/float64(had), 0), 1)
}

// A meteredDevice is a device whose work is measured. One task at a time is in
// its Run.
type meteredDevice struct {
	backend.Device
	m     *meter
	since atomic.Int64 // ns since the meter's start; 0 while the device is free
}

func (d *meteredDevice) Prepare(ctx context.Context, t backend.Task) (backend.Proving, error) {
	p, err := d.Device.Prepare(ctx, t)
	if err != nil {
		return nil, err
	}
	return &meteredProving{p, d}, nil
}

type meteredProving struct {
	backend.Proving
	d *meteredDevice
}

func (p *meteredProving) Run(ctx context.Context, phase backend.PhaseFunc) error {
	d := p.d
	begin := time.Since(d.m.start)
	d.since.Store(int64(begin))
	defer func() {
		d.since.Store(0)
		d.m.busy.Add(int64(time.Since(d.m.start) - begin))
	}()
	return p.Proving.Run(ctx, phase)
}

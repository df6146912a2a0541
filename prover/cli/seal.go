package cli

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/provetrace/provetrace/convert/cli/flags"
	"github.com/provetrace/provetrace/prover"
	"github.com/provetrace/provetrace/prover/backend"
	"github.com/provetrace/provetrace/prover/backend/cpu"
	"github.com/provetrace/provetrace/prover/backend/sim"
	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/prover/porep"
	"github.com/provetrace/provetrace/tracing/outfile"
)

// Of the jobs. Their ids are like Curio's, so that sectors have their numbers.
const (
	miner     = 1000
	proofKind = "porep-c2"
)

// A sector is one that is to be proved.
type sector struct {
	job     prover.Job
	begun   *begun
	replica *porep.Replica // nil where proving is simulated

	done   chan struct{} // closed when it is proved, or not
	proofs []groth16.Proof
	err    error // why it is not proved; set before done is closed
	stored error // why its proofs are not written
}

func newSector(number uint64, s prover.Statement) *sector {
	b := newBegun(s)
	return &sector{job: prover.Job{ID: jobID(number), ProofKind: proofKind, Statement: b}, begun: b, done: make(chan struct{})}
}

func jobID(sector uint64) string { return fmt.Sprintf("porep-%d-%d", miner, sector) }

// prepare makes the sectors, and the backend that is to prove them.
func (p *proving) prepare(ctx context.Context) (backend.Backend, prover.Options, error) {
	po := prover.Options{
		Mode: p.mode, SynthesisWorkers: p.synthesisWorkers, WorkersPerDevice: p.workersPerDevice,
		Queue: p.queue, Memory: int64(p.memory),
	}
	if p.backend == backendSim {
		return p.simulate(po)
	}
	return p.seal(ctx, po)
}

// simulate makes sectors for a backend that spends times.
func (p *proving) simulate(po prover.Options) (backend.Backend, prover.Options, error) {
	profile, err := sim.ProfileNamed(p.profile)
	if err != nil {
		return nil, po, err
	}
	po.InlineFinish = profile.InlineFinish
	b, err := sim.New(sim.Options{Durations: profile.Durations(p.seed), Devices: p.devices, Scale: p.timeScale})
	if err != nil {
		return nil, po, err
	}
	for n := range p.options.sectors {
		number := uint64(n + 1)
		p.sectors = append(p.sectors, newSector(number, b.Statement(jobID(number), p.sizes.Partitions)))
	}
	return b, po, nil
}

// seal makes the circuit, its keys, and sealed sectors.
func (p *proving) seal(ctx context.Context, po prover.Options) (backend.Backend, prover.Options, error) {
	cores := runtime.GOMAXPROCS(0)
	var err error
	p.screen.stage(stage{doing: "writing down the circuit of a partition"})
	if p.circuit, err = porep.NewCircuit(p.sizes); err != nil {
		return nil, po, err
	}
	po.PartitionBytes = partitionBytes(p.circuit)
	if err := p.checkMemory(po); err != nil {
		return nil, po, err
	}
	keys, err := p.keyPair(ctx, cores)
	if err != nil {
		return nil, po, err
	}
	p.key = keys.verifying
	if p.dir.kept { // at once, so that what a killed run has proved can be verified
		if err := writeKey(p.dir.file(verifyingKeyFile), p.key); err != nil {
			return nil, po, fmt.Errorf("cannot write the verifying key to %s: %w", p.dir.path, outfile.Cause(err))
		}
	}

	workers := po.SynthesisWorkers
	if workers == 0 && po.Mode == prover.Partition {
		workers = cores
	}
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[24:], p.seed)
	var sealed atomic.Int64
	p.screen.stage(stage{doing: "sealing", total: int64(p.options.sectors), unit: "sectors", done: sealed.Load})
	p.sectors = make([]*sector, p.options.sectors)
	seals, ctx := errgroup.WithContext(ctx)
	seals.SetLimit(cores)
	for n := range p.sectors {
		seals.Go(func() error {
			number := uint64(n + 1)
			replica, err := p.sizes.Seal(ctx, porep.SectorID{Miner: miner, Number: number}, seed)
			if err != nil {
				return err
			}
			s := newSector(number, &statement{circuit: p.circuit, replica: replica, key: p.key, tasks: max(1, cores/max(1, workers))})
			s.replica = replica
			p.sectors[n] = s
			sealed.Add(1)
			return nil
		})
	}
	if err := seals.Wait(); err != nil {
		return nil, po, err
	}
	return cpu.New(keys.proving, cpu.Options{}), po, nil
}

// checkMemory sees whether the budget has room for what goes through the
// pipeline in one piece.
func (p *proving) checkMemory(po prover.Options) error {
	need, what := po.PartitionBytes, "one partition takes"
	if po.Mode == prover.Sector {
		need *= int64(p.sizes.Partitions)
		what = "a whole sector takes"
	}
	if po.Memory > 0 && po.Memory < need {
		return flags.Usage(fmt.Errorf("--memory of %v is less than the %v that %s: raise it", p.memory, byteSize(need), what))
	}
	return nil
}

// keyPair returns the circuit's keys: those that are kept, else new ones.
func (p *proving) keyPair(ctx context.Context, tasks int) (keys keyPair, err error) {
	cache := keyCache{p.keys}
	var noCache error
	if p.keys == "" {
		cache, noCache = userKeys()
	}
	sys := p.circuit.System()
	if noCache == nil {
		p.screen.stage(stage{doing: "reading the development keys"})
		keys, err = cache.load(sys)
		if err == nil {
			return keys, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			p.warn("%s: %v", cache.of(sys), err)
		}
	}
	p.screen.stage(stage{doing: fmt.Sprintf("making development keys of %d constraints, once", sys.NumConstraints()), announce: true})
	if keys.proving, keys.verifying, err = groth16.Setup(ctx, sys, nil, tasks); err != nil {
		return keys, err
	}
	if noCache == nil {
		noCache = cache.store(sys, keys)
	}
	if noCache != nil {
		p.warn("%v", noCache)
	}
	return keys, nil
}

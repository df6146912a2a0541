// Package cli is the command line of prover.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"

	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/prover"
	"github.com/provetrace/provetrace/prover/backend"
	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/prover/porep"
	"github.com/provetrace/provetrace/tracing"
	"github.com/provetrace/provetrace/tracing/outfile"
)

// Command returns the prove command.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "prove",
		Short: "Prove sectors, and show what the pipeline did",
		Long: `prove seals small sectors, proves them partition by partition with Groth16 over
BLS12-381, verifies the proofs, and shows as report does where the time went.
Each partition is synthesized on the CPUs, waits for a device and is proved
there. The cpu backend makes of the CPUs one device, so that no GPU is needed;
sim spends the times of experiments with a real engine instead of computing, to
study its scheduling.

The keys are development keys: they show how long proving takes, and prove
nothing to others. They are made once for each size, and kept.

With --out, DIR gets run.json (the summary, with the statements), spans.json
(OTLP JSON), timeline.log (the TIMELINE journal, written as things happen, which
convert reads also after a crash), proofs/JOB.proof (192 bytes for each
partition, in their order) and verifying.key.

The spans are also sent where --endpoint or OTEL_EXPORTER_OTLP_ENDPOINT says;
--jaeger sends them to http://localhost:4317 where neither does. Proving never
waits for that, and an endpoint that fails costs a warning.

An interrupt abandons what is under way and tells of what was done; a second one
ends at once.

Exit code: 0 when all sectors were proved and what was asked for is written, 1
when not, 2 when called wrongly.`,
		Example: `  # three sectors of ten partitions, in about half a minute on two cores
  provetrace prove

  # keep spans, journal and proofs, and look at the run again
  provetrace prove --out run1
  provetrace report run1/spans.json

  # into Jaeger, with links
  provetrace prove --jaeger http://localhost:16686

  # what would two GPUs do? 20 sectors, ten times as fast as real ones
  provetrace prove --backend sim --sectors 20 --devices 2 --synthesis-workers 20`,
		Args:    cobra.NoArgs,
		PreRunE: func(c *cobra.Command, _ []string) error { return o.check(c.Flags()) },
		RunE: func(c *cobra.Command, _ []string) error {
			return o.prove(c.Context(), os.Stdout, os.Stderr)
		},
	}
	o.flags(c)
	return c
}

// A proving is one call of the command.
type proving struct {
	*options
	dir       *directory
	file      *tracing.Pipeline // into the directory
	export    *tracing.Pipeline // elsewhere; nil where spans are not sent
	journal   *os.File
	screen    *progress
	circuit   *porep.Circuit // nil where proving is simulated
	key       *groth16.VerifyingKey
	sectors   []*sector
	overviews []string // trace ids of the run's own traces
	warnings  []string
	failures  []error
}

// errInterrupted is why what was under way is abandoned.
var errInterrupted = errors.New(tracing.StatusInterrupted)

// prove does the command's work.
func (o *options) prove(signalled context.Context, stdout, stderr *os.File) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(signalled))
	defer cancel(nil)
	defer context.AfterFunc(signalled, func() { cancel(errInterrupted) })()
	p := &proving{options: o}
	// The spans and the journal take some 10 KiB a partition.
	const perPartition, most = 16 << 10, 64 << 20
	var err error
	if p.dir, err = openDirectory(o.out, min(int64(o.sectors*o.sizes.Partitions)*perPartition, most)); err != nil {
		return err
	}
	defer p.dir.close()
	if err := p.trace(ctx, stderr); err != nil {
		return err
	}
	p.screen = newProgress(stderr)
	defer p.screen.close()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { p.screen.say(sentence(err).Error()) }))

	b, po, err := p.prepare(ctx)
	if err != nil {
		p.drop()
		if ctx.Err() != nil {
			return errInterrupted
		}
		return sentence(err)
	}
	if err := p.run(ctx, b, po); err != nil {
		p.drop()
		return sentence(err)
	}
	return p.conclude(ctx, stdout)
}

// warn tells of what does not keep the sectors from being proved.
func (p *proving) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.warnings = append(p.warnings, text)
	p.screen.say(text)
}

// run proves the sectors, and records that.
func (p *proving) run(ctx context.Context, b backend.Backend, po prover.Options) error {
	var devices []tracing.Device
	for _, d := range b.Devices() {
		devices = append(devices, d.Info())
	}
	rec := tracing.NewRecorder(p.file.Stages(), tracing.RecorderOptions{Backend: b.Name(), Devices: devices, Journal: p.journal})
	po.Backend, po.Recorder = b, rec
	pipeline, err := prover.New(po)
	if err != nil {
		rec.Close(time.Time{})
		return errors.Join(err, b.Close())
	}
	p.watch(b, pipeline)
	p.feed(ctx, pipeline, rec)
	if err := pipeline.Close(); err != nil {
		p.failures = append(p.failures, sentence(err))
	}
	rec.Close(time.Time{})
	name := p.journal.Name()
	err = rec.JournalErr()
	if e := p.journal.Close(); err == nil {
		err = e
	}
	if err != nil {
		p.failures = append(p.failures, fmt.Errorf("the journal %s is not whole: %w", name, outfile.Cause(err)))
	}
	return nil
}

// feed has the pipeline prove the sectors in their order: each is admitted once
// the one before it has begun.
func (p *proving) feed(ctx context.Context, pipeline *prover.Pipeline, rec *tracing.Recorder) {
	for _, s := range p.sectors {
		if ctx.Err() != nil {
			s.err = context.Cause(ctx)
			close(s.done)
			continue
		}
		go p.proveSector(ctx, pipeline, s)
		select {
		case <-s.begun.start:
		case <-s.done:
		}
		if id := rec.RunContext().TraceID(); id.IsValid() && !slices.Contains(p.overviews, id.String()) {
			p.overviews = append(p.overviews, id.String())
		}
	}
	for _, s := range p.sectors {
		<-s.done
	}
}

func (p *proving) proveSector(ctx context.Context, pipeline *prover.Pipeline, s *sector) {
	defer close(s.done)
	s.proofs, s.err = pipeline.Prove(ctx, s.job)
	if s.err == nil && p.dir.kept && s.replica != nil {
		s.stored = p.dir.writeProofs(s.job.ID, s.proofs)
	}
}

// proved reports whether a sector is proved by now.
func (s *sector) proved() bool {
	select {
	case <-s.done:
		return s.err == nil
	default:
		return false
	}
}

func (p *proving) countProved() (n int) {
	for _, s := range p.sectors {
		if s.proved() {
			n++
		}
	}
	return n
}

// conclude delivers what was recorded and tells of it.
func (p *proving) conclude(ctx context.Context, stdout *os.File) error {
	p.screen.stage(stage{doing: "writing the spans"})
	lasting := context.WithoutCancel(ctx) // since an interrupted run is told of too
	p.judge(ctx)
	s := newSummary(p)
	write, cancel := context.WithTimeout(lasting, writeWithin)
	defer cancel()
	delivery, err := p.file.Shutdown(write)
	var r *run.Run
	if err == nil {
		r, err = p.recorded(lasting)
	}
	if err != nil {
		p.failures = append(p.failures, sentence(err))
	}
	s.Spans.Written = delivery.Delivered
	p.send(ctx, s)
	s.end(p, r)
	if p.dir.kept {
		if err := p.dir.writeSummary(s); err != nil {
			p.fail(s, err)
		}
	}
	p.screen.close()
	if err := s.print(stdout, p.format, r); err != nil {
		p.failures = append(p.failures, fmt.Errorf("cannot write the summary: %w", outfile.Cause(err)))
	}
	return errors.Join(p.failures...)
}

// fail keeps a failure that the summary does not have yet.
func (p *proving) fail(s *summary, err error) {
	p.failures = append(p.failures, err)
	s.Errors = append(s.Errors, err.Error())
}

// judge collects why sectors are not proved, or their proofs not written.
func (p *proving) judge(ctx context.Context) {
	if ctx.Err() != nil {
		p.failures = append(p.failures, fmt.Errorf("%w: %d of %d sectors are proved", errInterrupted, p.countProved(), len(p.sectors)))
	}
	const most = 8 // to name
	failed := 0
	for _, s := range p.sectors {
		if s.err == nil || errors.Is(s.err, errInterrupted) {
			continue
		}
		if failed++; failed <= most {
			p.failures = append(p.failures, sentence(s.err))
		}
	}
	if failed > most {
		p.failures = append(p.failures, fmt.Errorf("%d more sectors have failed", failed-most))
	}
	for _, s := range p.sectors {
		if s.stored != nil {
			p.failures = append(p.failures, s.stored)
			break // of which the others are likely to be repetitions
		}
	}
}

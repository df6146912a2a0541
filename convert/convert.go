// Package convert turns the TIMELINE logs of a proving engine into the spans
// that a live pipeline would have recorded.
//
// In go files, directories, patterns or standard input ([Logs]); [Read] makes
// the model of each run of them, be they logs or files of spans; [Run] replays
// that through tracing.Recorder with its own times. Replaying a run twice gives
// the same ids, so that a backend that got both holds each span once.
package convert

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
)

// RunID returns the id of a run, from which all ids of its spans follow: the
// given name, else the one of the spans that it was read from, else its epoch
// and the first job.
func RunID(r *run.Run, name string) string {
	if name != "" {
		return name
	}
	if r.ID != "" {
		return r.ID
	}
	id := r.Epoch.Time.UTC().Format(time.RFC3339Nano)
	if len(r.Sectors) > 0 {
		id += " " + r.Sectors[0].Job
	}
	return id
}

// Run records a run under an id. The pipeline should be lossless and have
// deterministic ids; it stays open, for further runs. The recording ends early,
// with the pipeline's error, when it can no longer deliver. tick, where not
// nil, is called from time to time with the share of the run that is told,
// 0..1.
func Run(ctx context.Context, p *tracing.Pipeline, r *run.Run, id string, tick func(float64)) error {
	devices := make([]tracing.Device, len(r.Devices))
	for i, d := range r.Devices {
		devices[i] = tracing.Device{
			Ordinal: d.Ordinal, UUID: d.UUID, Name: d.Name, Model: d.Model, Vendor: d.Vendor,
			DriverVersion: d.DriverVersion, PCIBusID: d.PCIBusID,
		}
	}
	rec := tracing.NewRecorder(p.Stages(resource(r, id)...), tracing.RecorderOptions{
		Run: id, Backend: r.Backend, Devices: devices, MaxOpenSectors: maxUnderWay,
		Partial: slices.ContainsFunc(r.Sectors, func(s *run.Sector) bool { return !s.KnowsStarts() }),
	})
	err := replay(ctx, r, rec, func(told float64) error {
		if tick != nil {
			tick(told)
		}
		return p.Err()
	})
	if n := rec.Dropped(); err == nil && n > 0 {
		err = fmt.Errorf("%d of %d sectors are not converted: more than %d were under way at once; split the log", n, len(r.Sectors), maxUnderWay)
	}
	return err
}

// resource returns what the resources of a run's spans tell of it: where it
// comes from, and how far to trust it.
func resource(r *run.Run, id string) []attribute.KeyValue {
	source := tracing.SourceTimeline
	if r.Epoch.Source == run.EpochSpans {
		source = tracing.SourceSpans
	}
	attrs := []attribute.KeyValue{
		tracing.RunSource.String(source),
		tracing.RunID.String(id),
		tracing.EpochTime.String(r.Epoch.Time.UTC().Format(time.RFC3339Nano)),
		tracing.EpochSource.String(string(r.Epoch.Source)),
	}
	if u := r.Epoch.Uncertainty; u >= 0 {
		attrs = append(attrs, tracing.EpochError.Float64(float64(u)/float64(time.Millisecond)))
	}
	for _, n := range []struct {
		key   attribute.Key
		count int64
	}{
		{tracing.InputMalformed, r.Input.Malformed},
		{tracing.InputStitched, r.Input.Stitched},
		{tracing.InputDuplicates, r.Input.Duplicates},
		{tracing.InputOrphans, r.Input.Orphans},
	} {
		if n.count > 0 {
			attrs = append(attrs, n.key.Int64(n.count))
		}
	}
	if r.WorkersAssumed {
		attrs = append(attrs, tracing.WorkersAssumed.Bool(true))
	}
	return attrs
}

// maxUnderWay bounds the sectors that are recorded at once, each of which takes
// some kilobytes.
const maxUnderWay = 20_000

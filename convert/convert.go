// Package convert turns the TIMELINE logs of a proving engine into the spans
// that a live pipeline would have recorded.
//
// In go files, directories, patterns or standard input ([Logs]); run.Reader
// makes the model of each run of them; [Run] replays that through
// tracing.Recorder with the log's own times. Replaying a run twice gives the
// same ids, so that a backend that got both holds each span once.
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
// given name, else its epoch and the first job.
func RunID(r *run.Run, name string) string {
	if name != "" {
		return name
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
	resource := []attribute.KeyValue{
		tracing.RunSource.String(tracing.SourceTimeline),
		tracing.RunID.String(id),
		tracing.EpochSource.String(string(r.Epoch.Source)),
	}
	if u := r.Epoch.Uncertainty; u >= 0 {
		resource = append(resource, tracing.EpochError.Float64(float64(u)/float64(time.Millisecond)))
	}
	devices := make([]tracing.Device, len(r.Devices))
	for i, d := range r.Devices {
		devices[i] = tracing.Device{Ordinal: d.Ordinal}
	}
	rec := tracing.NewRecorder(p.Stages(resource...), tracing.RecorderOptions{
		Run: id, Devices: devices, MaxOpenSectors: maxUnderWay,
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

// maxUnderWay bounds the sectors that are recorded at once, each of which takes
// some kilobytes.
const maxUnderWay = 20_000

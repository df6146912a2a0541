package whatif

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/provetrace/provetrace/prover"
)

// A Forecast is what a run did, and the predictions beside it.
type Forecast struct {
	Name     string
	Measured Outcome
	Own      Prediction   // for the settings that the run had
	Others   []Prediction // in the order in which they were asked for
	Notes    []string     // sentences on what they rest on
}

// A Prediction is the outcome of a replay.
type Prediction struct {
	Settings Settings
	Outcome  Outcome
}

// Off returns by which share the prediction for the run's own settings is off
// the seconds per proof that were measured, nil where these are not known.
func (f *Forecast) Off() *float64 { return change(&f.Measured, &f.Own.Outcome) }

// Change returns by which share the seconds per proof of a prediction differ
// from those predicted for the run's own settings, so that what the model is off
// does not show as a change. It is nil where they are not known.
func (f *Forecast) Change(p *Prediction) *float64 { return change(&f.Own.Outcome, &p.Outcome) }

func change(from, to *Outcome) *float64 {
	a, b := from.Rate(), to.Rate()
	if a == 0 || b == 0 {
		return nil
	}
	share := b/a - 1
	return &share
}

// Forecast predicts what the run would have done under each of the settings,
// and under its own. Those are left out of the others. Tell, if not nil, is told
// from time to time which share is done.
func (w *Workload) Forecast(ctx context.Context, name string, all []Settings, tell func(share float64)) (*Forecast, error) {
	f := &Forecast{Name: name, Measured: w.measured, Own: Prediction{Settings: w.settings}}
	var others []Settings
	for _, s := range all {
		if err := w.Check(s); err != nil {
			return nil, err
		}
		if !s.equal(w.settings) && !slices.ContainsFunc(others, s.equal) {
			others = append(others, s)
		}
	}
	f.Others = make([]Prediction, len(others))
	f.Notes = slices.Concat(w.notes, w.caveats(others))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	var done atomic.Int64
	predict := func(p *Prediction) {
		work.Go(func() (err error) {
			p.Outcome, err = w.Predict(ctx, p.Settings)
			if n := done.Add(1); tell != nil {
				tell(float64(n) / float64(len(others)+1))
			}
			return err
		})
	}
	predict(&f.Own)
	for i := range others {
		f.Others[i].Settings = others[i]
		predict(&f.Others[i])
	}
	return f, work.Wait()
}

func (s Settings) equal(t Settings) bool {
	return s.SynthesisWorkers == t.SynthesisWorkers && s.WorkersPerDevice == t.WorkersPerDevice && s.Devices == t.Devices &&
		s.Mode == t.Mode && s.InlineFinish == t.InlineFinish && slices.Equal(s.Faster, t.Faster)
}

// Alternatives returns settings worth a look, each with one change to the run's
// own, as far as the run tells what they would have given.
func (w *Workload) Alternatives() []Settings {
	var all []Settings
	try := func(vary func(*Settings)) {
		s := w.settings
		if vary(&s); w.Check(s) == nil {
			all = append(all, s)
		}
	}
	n := w.settings.SynthesisWorkers
	try(func(s *Settings) { s.SynthesisWorkers = n / 2 })
	try(func(s *Settings) { s.SynthesisWorkers = n + max(n/4, 1) })
	try(func(s *Settings) { s.SynthesisWorkers = n * 2 })
	try(func(s *Settings) { s.WorkersPerDevice-- })
	try(func(s *Settings) { s.WorkersPerDevice++ })
	try(func(s *Settings) { s.Devices-- })
	try(func(s *Settings) { s.Devices++ })
	try(func(s *Settings) { s.InlineFinish = !s.InlineFinish })
	try(func(s *Settings) { s.Mode = prover.Sector; s.SynthesisWorkers = 1 })
	for _, phase := range []string{Synthesis, Prepare, Device, Finish} {
		try(func(s *Settings) { s.Faster = []Factor{{phase, 2}} })
	}
	return all
}

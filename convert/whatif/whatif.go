// Package whatif predicts what a run would have done under other settings.
//
// In goes the model of a run, and settings: workers, devices, mode, a faster
// phase. Out come the seconds per proof and the utilization that they would have
// given. The durations that the run measured of each partition go through the
// pipeline's own scheduler (package prover) with simulated devices (package
// sim), in a time that takes none.
//
// What the model holds: which partition waits for which, for a synthesis worker,
// a GPU worker, a device; how the jobs came; the durations of each partition.
// What it does not hold: whatever makes a duration another one under other
// settings, such as cores and memory bandwidth that syntheses and GPU workers
// take from each other; the memory budget and the bound of the queue, so that
// syntheses run ahead as far as they can; the time from one partition to a
// worker's next; and the order in which an engine with a channel in place of a
// priority queue took partitions. How much that is shows the prediction for the
// settings that the run had, beside what it did.
package whatif

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/provetrace/provetrace/prover"
	"github.com/provetrace/provetrace/tracing"
)

// Settings are a pipeline's settings, and how much faster phases are than they
// were.
type Settings struct {
	SynthesisWorkers int
	WorkersPerDevice int
	Devices          int
	Mode             prover.Mode
	InlineFinish     bool // a GPU worker finishes a partition before it takes the next
	Faster           []Factor
}

// A Factor says by how much a phase is faster: 2 is half the time. The phase is
// one of the Steps, or one inside them by its name in the span contract.
type Factor struct {
	Phase string
	By    float64
}

// Steps of a partition that a Factor can name. GPU is all of a partition's GPU
// interval but the wait for the device.
const (
	Synthesis = tracing.SpanSynthesis
	GPU       = "gpu"
	Prepare   = tracing.SpanPrepare
	Device    = "device"
	Finish    = "finish"
)

// ParseFactors reads factors such as "device=1.5x,synthesis=2".
func ParseFactors(s string) ([]Factor, error) {
	var all []Factor
	for part := range strings.SplitSeq(s, ",") {
		name, by, ok := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		v, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(by), "x"), 64)
		if !ok || name == "" || err != nil || !(v >= 0.001 && v <= 1000) {
			return nil, fmt.Errorf("%q does not say which phase is how much faster: give one such as device=1.5x, by 0.001 to 1000", part)
		}
		if slices.ContainsFunc(all, func(f Factor) bool { return f.Phase == name }) {
			return nil, fmt.Errorf("%q gives the phase %s twice", s, name)
		}
		all = append(all, Factor{name, v})
	}
	return all, nil
}

// String returns the factor as ParseFactors reads it.
func (f Factor) String() string {
	return f.Phase + "=" + strconv.FormatFloat(f.By, 'g', -1, 64) + "x"
}

// Most of each setting, so that a slip of the finger does not take all memory.
const (
	maxWorkers = 10_000
	maxDevices = 1000
)

// check returns an error if no pipeline can have the settings.
func (s Settings) check() error {
	for _, n := range []struct {
		value, most int
		name        string
	}{
		{s.SynthesisWorkers, maxWorkers, "synthesis workers"},
		{s.WorkersPerDevice, maxDevices, "workers per device"},
		{s.Devices, maxDevices, "devices"},
	} {
		if n.value < 1 || n.value > n.most {
			return fmt.Errorf("there cannot be %d %s: give 1 to %d", n.value, n.name, n.most)
		}
	}
	return nil
}

// Check returns an error if the run does not tell what the settings would have
// given, or if no pipeline can have them.
func (w *Workload) Check(s Settings) error {
	if err := s.check(); err != nil {
		return err
	}
	if w.settings.Mode == prover.Sector && s.Mode == prover.Partition {
		return errors.New("the run proved whole sectors, which does not tell how long their partitions take: leave the mode as it is")
	}
	for _, f := range s.Faster {
		if !w.has(f.Phase) {
			return fmt.Errorf("the run does not tell how long %q takes: it tells of %s", f.Phase, strings.Join(w.Phases(), ", "))
		}
	}
	switch {
	case w.detail == undivided && s.WorkersPerDevice > 1:
		return errors.New("the log has no device phases, so that what a second worker of a device would give cannot be told: " + needed)
	case w.detail != divided && w.settings.InlineFinish && !s.InlineFinish:
		return errors.New("the log has no device phases, so that what a split finish would give cannot be told: " + needed)
	}
	return nil
}

// needed says which logs tell the steps of a GPU interval.
const needed = "give one with CUZK_TIMING lines, or spans of the device's phases"

// has reports whether durations of a phase are known.
func (w *Workload) has(phase string) bool { return slices.Contains(w.Phases(), phase) }

// Phases returns the phases that a Factor can name.
func (w *Workload) Phases() []string {
	steps := []string{Synthesis, GPU, Device, Prepare, Finish}
	switch {
	case w.detail == undivided:
		steps = steps[:2]
	case w.detail == estimated && w.settings.InlineFinish:
		steps = steps[:3]
	}
	return slices.Concat(steps, w.names)
}

// share returns how much time what goes by any of the names takes, as a share of
// what it took.
func (s Settings) share(names ...string) float64 {
	share := 1.0
	for _, f := range s.Faster {
		if slices.Contains(names, f.Phase) {
			share /= f.By
		}
	}
	return share
}

func scaled(d time.Duration, share float64) time.Duration {
	return time.Duration(float64(d) * share)
}

// caveats say, in sentences, what the predictions for some settings rest on
// beyond those of the run's own.
func (w *Workload) caveats(all []Settings) []string {
	var caveats []string
	is := func(f func(Settings) bool) bool { return slices.ContainsFunc(all, f) }
	if is(func(s Settings) bool {
		return s.Mode == w.settings.Mode && s.SynthesisWorkers > w.settings.SynthesisWorkers
	}) {
		caveats = append(caveats, fmt.Sprintf("The run never had more than %s at once: that each takes as long with more of them is not measured, and cores and memory bandwidth may not allow it.", countOf(w.settings.SynthesisWorkers, "synthesis", "syntheses")))
	}
	if is(func(s Settings) bool { return s.Mode == prover.Sector && w.settings.Mode == prover.Partition }) {
		caveats = append(caveats, fmt.Sprintf("Whole sectors are a guess: the synthesis workers share the cores on which %s ran at once, and a device takes as long for a sector as for its partitions one by one.", countOf(w.settings.SynthesisWorkers, "synthesis", "syntheses")))
	}
	return caveats
}

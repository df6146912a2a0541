package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/provetrace/provetrace/tracing"
)

// A Profile is an experiment with the engine: 32 GiB sectors of 10 partitions,
// the pipeline's settings, and what the steps of a partition took.
type Profile struct {
	Name string

	WholeSectors     bool // proved in one piece
	Partitions       int  // of a sector
	SynthesisWorkers int
	WorkersPerDevice int
	InlineFinish     bool // the device's worker finished a proof before it took the next

	Synthesis, Prepare, Device, Finish time.Duration // on average
	Jitter                             float64       // by which share a step can take less or more
}

// Profiles returns the profiles that there are. Their synthesis times and those
// on the device are the published figures of the engine's runs; how the latter
// divide into phases, and the time of the preparation, are those of its CUDA
// library's timings.
func Profiles() []Profile {
	return []Profile{
		{
			// 37–41 s of synthesis and 26–28 s on the GPU for a sector.
			Name: "whole-sector", WholeSectors: true, Partitions: 10, SynthesisWorkers: 1, WorkersPerDevice: 1, InlineFinish: true,
			Synthesis: 3900 * time.Millisecond, Prepare: 100 * time.Millisecond, Device: 2430 * time.Millisecond, Finish: 170 * time.Millisecond,
			Jitter: 0.05,
		},
		{
			// 36.5 s of synthesis, 3.75 s of kernels, and 6–7 s on the GPU as
			// logged, where the wait for the device is not long.
			Name: "partition", Partitions: 10, SynthesisWorkers: 10, WorkersPerDevice: 2, InlineFinish: true,
			Synthesis: 36500 * time.Millisecond, Prepare: 950 * time.Millisecond, Device: 3750 * time.Millisecond, Finish: 1700 * time.Millisecond,
			Jitter: 0.05,
		},
		{
			// 1.8 s of kernels and a tail of 1.7 s outside the lock. The memory
			// bandwidth that bounded it is in the synthesis: 12 workers at
			// 37.7 s a sector. They all start together, and only jitter has
			// them fall out of step; the engine's more so, since its device was
			// in use for 85–91% of the time, with proofs as short.
			Name: "split", Partitions: 10, SynthesisWorkers: 12, WorkersPerDevice: 2,
			Synthesis: 45200 * time.Millisecond, Prepare: 950 * time.Millisecond, Device: 1800 * time.Millisecond, Finish: 1700 * time.Millisecond,
			Jitter: 0.2,
		},
	}
}

// ProfileNamed returns the profile of a name.
func ProfileNamed(name string) (Profile, error) {
	var names []string
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("sim: the profile %q is not known: choose one of %s", name, strings.Join(names, ", "))
}

// Durations returns durations of the profile, with jitter that follows from the
// seed, the job and the partition.
func (p Profile) Durations(seed uint64) DurationsFunc {
	return func(job string, partition int) Durations {
		r := random(seed, "durations", job, partition)
		vary := func(d time.Duration) time.Duration {
			return time.Duration(float64(d) * (1 + p.Jitter*(2*r.Float64()-1)))
		}
		synthesis, device := vary(p.Synthesis), vary(p.Device)
		witness, ntt, add := synthesis*6/10, device*47/100, device*48/100
		return Durations{
			Synthesis: []Phase{{tracing.SpanWitness, witness}, {tracing.SpanConstraints, synthesis - witness}},
			Prepare:   vary(p.Prepare),
			Device: []Phase{
				{tracing.SpanNTTMSMH, ntt},
				{tracing.SpanBatchAdd, add},
				{tracing.SpanTailMSM, device - ntt - add},
			},
			Finish: []Phase{{tracing.SpanBG2MSM, vary(p.Finish)}},
		}
	}
}

// random returns the source of chance for a step of a partition.
func random(seed uint64, step, job string, partition int) *rand.Rand {
	h := fnv.New64a()
	for _, word := range []string{step, job, strconv.Itoa(partition)} {
		h.Write([]byte(word))
		h.Write([]byte{0})
	}
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/provetrace/provetrace/convert/cli/flags"
	"github.com/provetrace/provetrace/prover"
	"github.com/provetrace/provetrace/prover/backend/sim"
	"github.com/provetrace/provetrace/prover/porep"
	"github.com/provetrace/provetrace/tracing"
	"github.com/provetrace/provetrace/tracing/jaeger"
)

// The values of --backend.
const (
	backendAuto = "auto"
	backendCPU  = "cpu"
	backendCUDA = "cuda"
	backendSim  = "sim"
)

var (
	backends = []string{backendAuto, backendCPU, backendCUDA, backendSim}
	formats  = []string{"text", "json"}
)

// options are the flags.
type options struct {
	sectors int
	sizes   porep.Parameters
	seed    uint64

	backend   string
	profile   string
	devices   int
	timeScale float64

	mode                                      prover.Mode
	synthesisWorkers, workersPerDevice, queue int
	memory                                    byteSize

	out, journal, keys         string
	endpoint, protocol, jaeger string
	format                     string

	pages jaeger.UI // what jaeger says
}

func (o *options) flags(c *cobra.Command) {
	sizes := porep.DefaultParameters()
	f := c.Flags()
	f.SortFlags = false
	f.IntVar(&o.sectors, "sectors", 3, "prove `N` sectors")
	f.IntVar(&o.sizes.Partitions, "partitions", sizes.Partitions, "prove each in `N` partitions")
	f.IntVar(&o.sizes.Challenges, "challenges", sizes.Challenges, "with `N` challenges a partition, to which its size is in proportion")
	f.IntVar(&o.sizes.Nodes, "nodes", sizes.Nodes, "sectors have `N` nodes, a power of two")
	f.IntVar(&o.sizes.Layers, "layers", sizes.Layers, "sectors have `N` layers of labels")
	f.Uint64Var(&o.seed, "seed", 1, "make other sectors, or other simulated times, with another `N`")

	f.StringVar(&o.backend, "backend", backendAuto, "prove on `BACKEND` auto, cpu, cuda or sim; auto is the best there is")
	f.StringVar(&o.profile, "profile", "partition", "sim: spend the times of `PROFILE` "+flags.OneOf(profileNames()))
	f.IntVar(&o.devices, "devices", 1, "sim: on `N` devices")
	f.Float64Var(&o.timeScale, "time-scale", 0.1, "sim: times `FACTOR` as long")

	f.TextVar(&o.mode, "mode", prover.Partition, "prove by `MODE` partition or sector: whole sectors go through the pipeline in one piece")
	f.IntVar(&o.synthesisWorkers, "synthesis-workers", 0, "`N` syntheses at once (default: as many as CPUs, 1 by sector; sim: the profile's)")
	f.IntVar(&o.workersPerDevice, "workers-per-device", 0, "`N` workers share a device (default: 2; sim: the profile's)")
	f.IntVar(&o.queue, "queue", 0, "`N` synthesized partitions may wait for a device (default: two a worker)")
	f.TextVar(&o.memory, "memory", byteSize(0), "hold partitions of at most `BYTES`, such as 512MiB (default: no bound)")

	f.StringVar(&o.out, "out", "", "keep spans, journal and proofs in the new directory `DIR`")
	f.StringVar(&o.journal, "journal", "", "append the TIMELINE journal to `FILE` instead of keeping it in DIR")
	f.StringVar(&o.keys, "keys", "", "keep the keys in `DIR` (default: in the user's cache directory)")
	f.StringVar(&o.endpoint, "endpoint", "", "send the spans to the OTLP endpoint `URL` too")
	f.StringVar(&o.protocol, "protocol", "", "send by `PROTOCOL` grpc or http/protobuf (default: grpc, but http/protobuf to port 4318)")
	f.StringVar(&o.jaeger, "jaeger", "", "send the spans and print links into the Jaeger whose pages are at `URL`")
	f.StringVar(&o.format, "format", "text", "print the summary as `FORMAT` text or json")

	for flag, values := range map[string][]string{
		"backend": backends, "profile": profileNames(), "format": formats,
		"mode": {prover.Partition.String(), prover.Sector.String()}, "protocol": {"grpc", "http/protobuf"},
	} {
		flags.Complete(c, flag, values...)
	}
	for _, flag := range []string{"out", "keys"} {
		if err := c.MarkFlagDirname(flag); err != nil {
			panic(err)
		}
	}
	flags.Explain(c)
}

func profileNames() (names []string) {
	for _, p := range sim.Profiles() {
		names = append(names, p.Name)
	}
	return names
}

// What a run may have at most.
const (
	maxSectors    = tracing.DefaultMaxOpenSectors
	maxPartitions = 256
	maxWorkers    = 1024
	maxDevices    = 64
	maxQueue      = 1 << 20
	maxScale      = 1000
	maxReplicas   = 8 << 30 // bytes of all sealed sectors
)

// check says what is impossible, and takes the profile of a simulation.
func (o *options) check(given *pflag.FlagSet) error {
	if err := flags.NoneEmpty(given); err != nil {
		return err
	}
	for _, choice := range []struct {
		flag, value string
		of          []string
	}{
		{"backend", o.backend, backends}, {"profile", o.profile, profileNames()}, {"format", o.format, formats},
		{"protocol", o.protocol, []string{"", "grpc", "http/protobuf"}},
	} {
		if !slices.Contains(choice.of, choice.value) {
			return fmt.Errorf("--%s %q is not one of %s", choice.flag, choice.value, flags.OneOf(slices.DeleteFunc(choice.of, func(s string) bool { return s == "" })))
		}
	}
	switch o.backend {
	case backendAuto:
		o.backend = backendCPU
	case backendCUDA:
		return errors.New("--backend cuda is not part of this build: prove on cpu, or study its scheduling with sim")
	}
	if err := o.checkCombination(given); err != nil {
		return err
	}
	if o.out != "" && o.journal != "" && within(o.out, o.journal) {
		return fmt.Errorf("--journal %s is inside --out %s, where the journal is timeline.log anyway: leave --journal out, or name a file elsewhere", o.journal, o.out)
	}
	if o.journal == "-" {
		return errors.New("--journal - is no file: name one")
	}
	for _, n := range []struct {
		flag      string
		value     int
		low, high int
	}{
		{"sectors", o.sectors, 1, maxSectors}, {"partitions", o.sizes.Partitions, 1, maxPartitions}, {"devices", o.devices, 1, maxDevices},
		{"synthesis-workers", o.synthesisWorkers, 1, maxWorkers}, {"workers-per-device", o.workersPerDevice, 1, maxWorkers},
		{"queue", o.queue, 1, maxQueue},
	} {
		if given.Changed(n.flag) && (n.value < n.low || n.value > n.high) {
			return fmt.Errorf("--%s %d is impossible: give %d to %d", n.flag, n.value, n.low, n.high)
		}
	}
	for flag, size := range map[string]int{"challenges": o.sizes.Challenges, "nodes": o.sizes.Nodes, "layers": o.sizes.Layers} {
		if size == 0 { // would be the default
			return fmt.Errorf("--%s 0 is impossible: give more, or leave it out", flag)
		}
	}
	if !(o.timeScale > 0 && o.timeScale <= maxScale) {
		return fmt.Errorf("--time-scale %v is impossible: give a factor above 0, at most %d", o.timeScale, maxScale)
	}
	if given.Changed("memory") && o.memory == 0 {
		return errors.New("--memory 0 has no room for a partition: raise it, or leave it out")
	}
	if o.jaeger != "" {
		var err error
		if o.pages, err = jaeger.Parse(o.jaeger); err != nil {
			return fmt.Errorf("--jaeger %w", err)
		}
	}
	if o.backend == backendSim {
		return o.takeProfile(given)
	}
	if err := o.sizes.Validate(); err != nil {
		return sentence(err)
	}
	replica := int64(o.sizes.Nodes) * int64(o.sizes.Layers+6) * 32 // labels, and three trees
	if most := maxReplicas / replica; int64(o.sectors) > most {
		return fmt.Errorf("%d sectors of %d nodes take %v sealed: give at most %d at a time", o.sectors, o.sizes.Nodes, byteSize(int64(o.sectors)*replica), most)
	}
	return nil
}

// within reports whether a file is in a directory, or is it.
func within(dir, file string) bool {
	d, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	f, err := filepath.Abs(file)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(d, f)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// checkCombination finds flags that mean nothing for the backend.
func (o *options) checkCombination(given *pflag.FlagSet) error {
	for _, flag := range []string{"profile", "devices", "time-scale"} {
		if given.Changed(flag) && o.backend != backendSim {
			return fmt.Errorf("--%s is for simulations: add --backend sim, or leave it out", flag)
		}
	}
	for _, flag := range []string{"challenges", "nodes", "layers", "memory", "keys"} {
		if given.Changed(flag) && o.backend == backendSim {
			return fmt.Errorf("--%s does not go with --backend sim, which spends times and computes nothing: leave it out", flag)
		}
	}
	return nil
}

// takeProfile has what is not given be as in the experiment.
func (o *options) takeProfile(given *pflag.FlagSet) error {
	p, err := sim.ProfileNamed(o.profile)
	if err != nil {
		return sentence(err)
	}
	if !given.Changed("partitions") {
		o.sizes.Partitions = p.Partitions
	}
	if !given.Changed("mode") && p.WholeSectors {
		o.mode = prover.Sector
	}
	if !given.Changed("synthesis-workers") {
		o.synthesisWorkers = p.SynthesisWorkers
	}
	if !given.Changed("workers-per-device") {
		o.workersPerDevice = p.WorkersPerDevice
	}
	return nil
}

// sentence returns an error without the name of the package that it is of.
func sentence(err error) error {
	for _, name := range []string{"porep: ", "prover: ", "sim: ", "tracing: "} {
		if text, ok := strings.CutPrefix(err.Error(), name); ok {
			return &plain{text, err}
		}
	}
	return err
}

// A plain is an error with a text of its own.
type plain struct {
	text string
	err  error
}

func (p *plain) Error() string { return p.text }
func (p *plain) Unwrap() error { return p.err }

// A byteSize is a number of bytes that is written with a unit.
type byteSize int64

var byteUnits = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

func (b byteSize) String() string {
	for _, u := range byteUnits {
		if int64(b) >= u.bytes {
			return strconv.FormatFloat(float64(b)/float64(u.bytes), 'f', 1, 64) + " " + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + " bytes"
}

// MarshalText writes a number of bytes.
func (b byteSize) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(b), 10), nil }

// UnmarshalText reads a number of bytes, or of a unit such as MiB.
func (b *byteSize) UnmarshalText(text []byte) error {
	number, unit := string(text), int64(1)
	for _, u := range byteUnits {
		if n, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(n), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if bytes := n * float64(unit); err == nil && bytes >= 0 && bytes < 1<<62 {
		*b = byteSize(bytes)
		return nil
	}
	return fmt.Errorf("%q is not a size: give a number of bytes, or one with KiB, MiB, GiB or TiB", text)
}

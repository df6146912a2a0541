package cli

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"

	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/provetrace/provetrace/convert"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/prover/porep"
	"github.com/provetrace/provetrace/tracing/otlptest"
)

var update = flag.Bool("update", false, "write the golden files")

// The command as it is built, since exit codes and signals are its own.
var (
	program    string
	buildFlags []string
	keys       string // a directory that all tests share
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(withBinary(m.Run))
}

func withBinary(run func() int) int {
	dir, err := os.MkdirTemp("", "provetrace-prove-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	keys = filepath.Join(dir, "keys")
	program = filepath.Join(dir, "provetrace")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	build := exec.Command("go", append(append([]string{"build", "-o", program}, buildFlags...), "../..")...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return run()
}

// small are sizes that are proved in a moment.
var small = []string{"--sectors", "2", "--partitions", "3", "--nodes", "4", "--challenges", "1"}

// simulated are sectors that take no CPU.
var simulated = []string{"--backend", "sim", "--time-scale", "0.001"}

// A call is one call of the command.
type call struct {
	dir  string // where it runs; by default one of its own
	env  []string
	args []string
}

type result struct {
	code           int
	stdout, stderr string
}

// prove calls prove with the keys that all tests share.
func prove(t *testing.T, dir string, args ...[]string) result {
	t.Helper()
	return (&call{dir: dir, args: append([]string{"prove"}, slices.Concat(args...)...)}).run(t)
}

// command returns the command, in an environment that configures nothing but
// the cache.
func (c *call) command(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, c.args...)
	cmd.Dir = c.dir
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case strings.HasPrefix(name, "OTEL_"), strings.HasPrefix(name, "LC_"), slices.Contains([]string{
			"LANG", "COLUMNS", "NO_COLOR", "CLICOLOR_FORCE", "FORCE_COLOR",
		}, name):
		default:
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0", "XDG_CACHE_HOME="+keys)
	cmd.Env = append(cmd.Env, c.env...)
	return cmd
}

func (c *call) run(t *testing.T) result {
	t.Helper()
	cmd := c.command(t.Context())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// warnings are the lines of standard error that do not tell of progress.
func (r *result) warnings() []string {
	var told []string
	for line := range strings.Lines(r.stderr) {
		text := strings.TrimSuffix(strings.TrimPrefix(line, "provetrace: "), "\n")
		if !strings.HasPrefix(text, "proving ") && !strings.HasPrefix(text, "making development keys ") {
			told = append(told, text)
		}
	}
	return told
}

// summaryOf parses what --format json prints, or run.json.
func summaryOf(t *testing.T, text string) *summary {
	t.Helper()
	s := new(summary)
	require.NoError(t, json.Unmarshal([]byte(text), s))
	return s
}

func (h *hexBytes) UnmarshalText(text []byte) error {
	_, err := hex.Decode(h[:], text)
	return err
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	require.NoError(t, err)
	return string(b)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// recorded returns the run that a log or a file of spans holds.
func recorded(t *testing.T, elem ...string) *run.Run {
	t.Helper()
	logs, err := convert.Logs(t.Context(), []string{filepath.Join(elem...)}, false, nil)
	require.NoError(t, err)
	var runs []*run.Run
	for r, err := range convert.Read(t.Context(), logs[0], run.Options{}) {
		require.NoError(t, err)
		runs = append(runs, r)
	}
	require.Len(t, runs, 1)
	return runs[0]
}

// TestKept proves, and holds what is left in the directory against the summary.
func TestKept(t *testing.T) {
	for _, mode := range []string{"partition", "sector"} {
		dir := t.TempDir()
		r := prove(t, dir, small, []string{"--out", "run", "--mode", mode})
		require.Zero(t, r.code, r.stderr)
		require.Empty(t, r.warnings())
		require.Contains(t, r.stdout, "2 of 2 sectors proved on cpu, in 3 partitions each, and verified\n")
		require.Equal(t, []string{"proofs", "run.json", "spans.json", "timeline.log", "verifying.key"}, names(t, filepath.Join(dir, "run")))

		report := (&call{dir: dir, args: []string{"report", "run/spans.json"}}).run(t)
		_, figures, _ := strings.Cut(report.stdout, "\n\n")
		require.NotEmpty(t, figures)
		require.Contains(t, r.stdout, figures, "report tells of the spans otherwise")

		s := summaryOf(t, read(t, dir, "run", "run.json"))
		require.Equal(t, mode, s.Mode.String())
		require.Len(t, s.Sectors, 2)
		checkProofs(t, filepath.Join(dir, "run"), s)
		checkJournal(t, filepath.Join(dir, "run"))
		spans := read(t, dir, "run", "spans.json")
		for _, l := range append(s.Overview, s.Sectors[0].link, s.Sectors[1].link) {
			require.Contains(t, spans, `"`+l.TraceID+`"`)
			require.Contains(t, r.stdout, l.TraceID)
		}
		require.EqualValues(t, s.Spans.Written, strings.Count(spans, `"name":"`)-strings.Count(spans, `"scope":{"name":"`))
	}
}

// checkProofs verifies the proofs by what the directory has.
func checkProofs(t *testing.T, dir string, s *summary) {
	t.Helper()
	p := porep.Parameters{Nodes: s.Sizes.Nodes, Layers: s.Sizes.Layers, Challenges: s.Sizes.Challenges, Partitions: s.Partitions}
	circuit, err := porep.NewCircuit(p)
	require.NoError(t, err)
	key, err := groth16.ReadVerifyingKey(strings.NewReader(read(t, dir, "verifying.key")), circuit.System())
	require.NoError(t, err)
	for _, x := range s.Sectors {
		all := []byte(read(t, dir, x.Proof))
		require.Len(t, all, groth16.ProofSize*s.Partitions)
		var proofs []groth16.Proof
		for b := range slices.Chunk(all, groth16.ProofSize) {
			var proof groth16.Proof
			require.NoError(t, proof.UnmarshalBinary(b))
			proofs = append(proofs, proof)
		}
		element := func(h hexBytes) (e fr.Element) {
			require.NoError(t, e.SetBytesCanonical(h[:]))
			return e
		}
		st := porep.Statement{
			Sector: porep.SectorID{Miner: x.Statement.Miner, Number: x.Statement.Sector},
			Ticket: x.Statement.Ticket, Seed: x.Statement.Seed, CommD: element(x.Statement.CommD), CommR: element(x.Statement.CommR),
		}
		require.NoError(t, verify(t.Context(), p, st, key, proofs))
		st.CommR.SetOne()
		require.Error(t, verify(t.Context(), p, st, key, proofs))
	}
}

// checkJournal holds the journal to the spans: the same tree, whose times differ
// by no more than the ms to which both are cut, and on the wall clock by what
// the journal's own lines leave open of it besides.
func checkJournal(t *testing.T, dir string) {
	t.Helper()
	spans, journal := recorded(t, dir, "spans.json"), recorded(t, dir, "timeline.log")
	require.Zero(t, spans.Input.Malformed)
	require.Zero(t, journal.Input.Inferred)
	tell := func(r *run.Run) (tree []string, times []int64) {
		for _, s := range r.Sectors {
			tree = append(tree, fmt.Sprintf("%s attempt %d, %s, %d partitions", s.Job, s.Attempt, s.ProofKind, s.Count))
			for p := range s.Partitions() {
				tree = append(tree, fmt.Sprintf("partition %d on worker %d of device %d, state %d", p.Index, p.Worker, p.Device, p.State))
				times = append(times, p.Times[:]...)
			}
		}
		return tree, times
	}
	wantTree, want := tell(spans)
	tree, got := tell(journal)
	require.Empty(t, cmp.Diff(wantTree, tree))
	require.Equal(t, len(want), len(got))
	first, last := got[0]-want[0], got[0]-want[0]
	for i := range want {
		first, last = min(first, got[i]-want[i]), max(last, got[i]-want[i])
	}
	require.LessOrEqual(t, last-first, int64(1), "ms")
	wall := journal.Time(first).Sub(spans.Time(0))
	require.InDelta(t, 0, wall.Seconds(), (time.Millisecond + journal.Epoch.Uncertainty).Seconds())
}

// TestNothingIsKept leaves neither files nor a directory.
func TestNothingIsKept(t *testing.T) {
	temp := t.TempDir()
	c := call{dir: t.TempDir(), env: []string{"TMPDIR=" + temp}, args: append([]string{"prove"}, simulated...)}
	r := c.run(t)
	require.Zero(t, r.code, r.stderr)
	head, _, _ := strings.Cut(r.stdout, "\n\n")
	require.Equal(t, "3 of 3 sectors simulated, in 10 partitions each, with the times of the profile partition multiplied by 0.001: a second here stands for 1000 s there",
		strings.ReplaceAll(head, "\n", " "))
	require.Contains(t, r.stdout, "--out DIR")
	require.Empty(t, names(t, temp))
	require.Empty(t, names(t, c.dir))
}

func TestSimulations(t *testing.T) {
	for _, c := range []struct {
		profile, mode string
		workers       int
		args          []string
	}{
		{"partition", "partition", 2, nil},
		{"split", "partition", 2, nil},
		{"whole-sector", "sector", 1, nil},
		{"whole-sector", "partition", 6, []string{"--mode", "partition", "--workers-per-device", "3", "--devices", "2", "--partitions", "4"}},
	} {
		dir := t.TempDir()
		r := prove(t, dir, simulated, []string{"--profile", c.profile, "--sectors", "5", "--format", "json", "--out", "run"}, c.args)
		require.Zero(t, r.code, r.stderr)
		s := summaryOf(t, r.stdout)
		require.Equal(t, c.mode, s.Mode.String())
		spans := recorded(t, dir, "run", "spans.json")
		require.Equal(t, "sim", spans.Backend)
		require.Len(t, spans.Sectors, 5)
		workers := 0
		for _, d := range spans.Devices {
			require.Equal(t, "simulated GPU", d.Name)
			workers += len(d.Workers)
		}
		require.Equal(t, c.workers, workers)
		checkJournal(t, filepath.Join(dir, "run"))
		for i, x := range s.Sectors {
			require.Equal(t, "simulated", x.State)
			require.Equal(t, spans.Sectors[i].Job, x.Job, "sectors begin in their order")
		}
		require.NotContains(t, names(t, filepath.Join(dir, "run")), "proofs")
	}
}

// TestUsage has each mistake named in one sentence, before anything is begun.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ args, want string }{
		{"--backend cuda", "--backend cuda is not part of this build: prove on cpu, or study its scheduling with sim"},
		{"--backend tpu", `--backend "tpu" is not one of auto, cpu, cuda or sim`},
		{"--sectors 0", "--sectors 0 is impossible: give 1 to 10000"},
		{"--sectors -3", "--sectors -3 is impossible: give 1 to 10000"},
		{"--sectors many", `--sectors cannot be "many": give a number`},
		{"--sectors 99999999999999999999", `--sectors cannot be "99999999999999999999": give a number`},
		{"--partitions 0", "--partitions 0 is impossible: give 1 to 256"},
		{"--nodes 0", "--nodes 0 is impossible: give more, or leave it out"},
		{"--nodes 100", "a sector cannot have 100 nodes: give a power of two, such as 128"},
		{"--nodes 1073741824", "a sector cannot have 1073741824 nodes: give 4 to 1048576"},
		{"--nodes 1048576 --sectors 40", "40 sectors of 1048576 nodes take 10.0 GiB sealed: give at most 32 at a time"},
		{"--layers 1", "a sector cannot have 1 layers: give 2 to 16"},
		{"--challenges 1000", "a sector cannot have 1000 challenges a partition: give 1 to 128"},
		{"--synthesis-workers 0", "--synthesis-workers 0 is impossible: give 1 to 1024"},
		{"--workers-per-device 0", "--workers-per-device 0 is impossible: give 1 to 1024"},
		{"--queue 0", "--queue 0 is impossible: give 1 to 1048576"},
		{"--memory 0", "--memory 0 has no room for a partition: raise it, or leave it out"},
		{"--memory lots", `--memory: "lots" is not a size: give a number of bytes, or one with KiB, MiB, GiB or TiB`},
		{"--memory -1GiB", `--memory: "-1GiB" is not a size: give a number of bytes, or one with KiB, MiB, GiB or TiB`},
		{"--memory 1MiB", "--memory of 1.0 MiB is less than the 9.9 MiB that one partition takes: raise it"},
		{"--memory 64MiB --mode sector", "--memory of 64.0 MiB is less than the 99.2 MiB that a whole sector takes: raise it"},
		{"--mode half", `--mode: the mode "half" is not known: it is partition or sector`},
		{"--profile split", "--profile is for simulations: add --backend sim, or leave it out"},
		{"--backend sim --profile best", `--profile "best" is not one of whole-sector, partition or split`},
		{"--backend sim --devices 0", "--devices 0 is impossible: give 1 to 64"},
		{"--backend sim --time-scale 0", "--time-scale 0 is impossible: give a factor above 0, at most 1000"},
		{"--backend sim --time-scale NaN", "--time-scale NaN is impossible: give a factor above 0, at most 1000"},
		{"--backend sim --memory 1GiB", "--memory does not go with --backend sim, which spends times and computes nothing: leave it out"},
		{"--out=", "--out is empty: give a value, or leave it out"},
		{"--format xml", `--format "xml" is not one of text or json`},
		{"--protocol udp", `--protocol "udp" is not one of grpc or http/protobuf`},
		{"--jaeger localhost", `--jaeger "localhost" is not the URL of a page, such as http://localhost:16686`},
		{"--endpoint ftp://x", `the endpoint has the scheme "ftp", which is not supported: write it as http://host:4317, or https:// for TLS`},
		{"bench.log", `unknown command "bench.log" for "provetrace prove"`},
		{"--speed 3", "unknown flag: --speed"},
	} {
		r := prove(t, dir, []string{"--out", "run"}, strings.Fields(c.args))
		if c.args == "--out=" {
			r = prove(t, dir, strings.Fields(c.args))
		}
		want := "provetrace: " + c.want + "\nRun 'provetrace prove --help' for how to use it.\n"
		if r.code != 2 || r.stdout != "" || r.stderr != want {
			t.Errorf("%s: exit %d, %q, %q", c.args, r.code, r.stdout, r.stderr)
		}
	}
	require.Empty(t, names(t, dir))
}

// TestBadDirectory names what cannot be written to before anything is begun.
func TestBadDirectory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("kept"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "full"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "full", "file"), nil, 0o600))
	for _, c := range []struct{ args, want string }{
		{"--out file", "cannot write to file: not a directory"},
		{"--out file/run", "cannot write to file/run: not a directory"},
		{"--out full", "the directory full is not empty: name a new one, so that what is there stays"},
		{"--journal none/journal", "cannot write the journal to none/journal: its directory does not exist: create it, or write elsewhere"},
		{"--journal full", "cannot write the journal to full: is a directory"},
		{"--journal full --out run", "cannot write the journal to full: is a directory"},
	} {
		r := prove(t, dir, simulated, strings.Fields(c.args))
		if r.code != 1 || r.stdout != "" || r.stderr != "provetrace: "+c.want+"\n" {
			t.Errorf("%s: exit %d, %q, %q", c.args, r.code, r.stdout, r.stderr)
		}
	}
	require.Equal(t, []string{"file", "full"}, names(t, dir))
	require.Equal(t, "kept", read(t, dir, "file"))
}

// TestJournal appends to a file of the user's.
func TestJournal(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		r := prove(t, dir, simulated, []string{"--journal", "journal.log"})
		require.Zero(t, r.code, r.stderr)
	}
	report := (&call{dir: dir, args: []string{"convert", "journal.log", "-o", "spans.json"}}).run(t)
	require.Zero(t, report.code, report.stderr)
	require.Contains(t, report.stdout, "journal.log#2: 3 sectors, 30 partitions in ")

	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	r := prove(t, dir, simulated, []string{"--journal", "/dev/full"})
	require.Equal(t, 1, r.code)
	require.Equal(t, []string{
		"the journal has begun to lose lines, the spans have not: write /dev/full: no space left on device",
		"the journal /dev/full is not whole: no space is left: free some, or write elsewhere",
	}, r.warnings())
	require.Contains(t, r.stdout, "3 of 3 sectors simulated")
}

// TestOutputIsFull has the disk of the standard output full.
func TestOutputIsFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full")
	}
	defer full.Close()
	c := call{dir: t.TempDir(), args: append([]string{"prove"}, simulated...)}
	cmd := c.command(t.Context())
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = full, &stderr
	require.Error(t, cmd.Run())
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	require.Contains(t, stderr.String(), "provetrace: cannot write the summary: no space is left: free some, or write elsewhere\n")
}

// TestKeys makes keys once, replaces those that cannot be used, and does without
// a place to keep them.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	one := []string{"--sectors", "1", "--partitions", "1", "--nodes", "4", "--challenges", "1", "--keys"}
	const made = "provetrace: making development keys of "
	r := prove(t, dir, one, []string{"keys"})
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stderr, made)
	systems := names(t, filepath.Join(dir, "keys"))
	require.Len(t, systems, 1)
	require.Equal(t, []string{"proving.key", "verifying.key"}, names(t, filepath.Join(dir, "keys", systems[0])))

	require.NoError(t, os.Truncate(filepath.Join(dir, "keys", systems[0], "proving.key"), 1000))
	r = prove(t, dir, one, []string{"keys"})
	require.Zero(t, r.code, r.stderr)
	require.Len(t, r.warnings(), 1)
	require.Contains(t, r.warnings()[0], "keys/"+systems[0]+": cannot use the proving key, so make the keys again: point ")
	require.Contains(t, r.stderr, made)

	r = prove(t, dir, one, []string{"keys"})
	require.Zero(t, r.code, r.stderr)
	require.NotContains(t, r.stderr, "keys")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	r = prove(t, dir, one, []string{"file/keys"})
	require.Zero(t, r.code, r.stderr)
	require.Equal(t, "cannot keep the keys in file/keys, so that the next run makes them again: not a directory", r.warnings()[len(r.warnings())-1])
}

// TestEndpoint sends the spans too, to endpoints of all kinds.
func TestEndpoint(t *testing.T) {
	refuse := func(otlptest.Request) otlptest.Reply {
		return otlptest.Reply{Code: codes.PermissionDenied, Status: http.StatusForbidden, Message: "no"}
	}
	good, goodHTTP := otlptest.Start(t, otlptest.Options{}), otlptest.Start(t, otlptest.Options{HTTP: true})
	bad := otlptest.Start(t, otlptest.Options{Reply: refuse})
	hangs := otlptest.Start(t, otlptest.Options{Reply: func(otlptest.Request) otlptest.Reply { return otlptest.Reply{Hang: true} }})
	closed := otlptest.Start(t, otlptest.Options{}).Endpoint()
	closed = closed[:strings.LastIndex(closed, ":")] + ":1"
	for name, c := range map[string]struct {
		env, args []string
		server    *otlptest.Server
		want      string
	}{
		"by a variable":           {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + good.Endpoint()}, server: good},
		"by the traces' variable": {env: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + goodHTTP.Endpoint() + "/v1/traces", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"}, server: goodHTTP},
		"by an option":            {args: []string{"--endpoint", goodHTTP.Endpoint(), "--protocol", "http/protobuf", "--jaeger", "http://jaeger:16686/"}, server: goodHTTP},
		"it refuses":              {args: []string{"--endpoint", bad.Endpoint()}, want: "refuses the credentials (no): set OTEL_EXPORTER_OTLP_HEADERS"},
		"it hangs":                {args: []string{"--endpoint", hangs.Endpoint()}, env: []string{"OTEL_EXPORTER_OTLP_TIMEOUT=300"}, want: "did not answer within 300ms"},
		"nothing is there":        {args: []string{"--endpoint", closed}, env: []string{"OTEL_EXPORTER_OTLP_TIMEOUT=300"}, want: "nothing listens at " + closed},
	} {
		t.Run(name, func(t *testing.T) {
			dir, before := t.TempDir(), 0
			if c.server != nil {
				before = c.server.Spans()
			}
			args := append(slices.Concat([]string{"prove"}, simulated, []string{"--out", "run", "--format", "json"}), c.args...)
			r := (&call{dir: dir, env: c.env, args: args}).run(t)
			require.Zero(t, r.code, r.stderr)
			s := summaryOf(t, r.stdout)
			require.Empty(t, s.Errors)
			require.Len(t, recorded(t, dir, "run", "spans.json").Sectors, 3)
			require.Greater(t, s.Spans.Written, int64(350))
			if c.want == "" {
				require.Empty(t, r.warnings())
				require.Equal(t, s.Spans.Written, *s.Spans.Sent)
				require.EqualValues(t, s.Spans.Written, c.server.Spans()-before)
			} else {
				require.Len(t, r.warnings(), 1)
				require.Contains(t, r.warnings()[0], c.want)
				require.Equal(t, s.Warnings, r.warnings())
				require.Zero(t, *s.Spans.Sent)
			}
			if name == "by an option" {
				require.Equal(t, "http://jaeger:16686/trace/"+s.Overview[0].TraceID, s.Overview[0].URL)
				require.Contains(t, s.Search, "http://jaeger:16686/search?")
			}
		})
	}
}

// TestHelp holds the help text.
func TestHelp(t *testing.T) {
	r := (&call{dir: t.TempDir(), args: []string{"prove", "--help"}}).run(t)
	require.Zero(t, r.code)
	golden := filepath.Join("testdata", "help.txt")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(r.stdout), 0o644))
	}
	require.Equal(t, read(t, golden), r.stdout)
	for line := range strings.Lines(r.stdout) {
		require.LessOrEqual(t, len(line), 160, line)
	}
}

func TestCompletion(t *testing.T) {
	for flag, want := range map[string]string{
		"--backend": "auto\ncpu\ncuda\nsim\n", "--profile": "whole-sector\npartition\nsplit\n",
		"--mode": "partition\nsector\n", "--format": "text\njson\n", "--protocol": "grpc\nhttp/protobuf\n",
	} {
		r := (&call{dir: t.TempDir(), args: []string{"__complete", "prove", flag, ""}}).run(t)
		require.Equal(t, want+":4\n", r.stdout)
	}
}

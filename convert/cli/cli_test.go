package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc/codes"

	"github.com/provetrace/provetrace/deploy/jaegertest"
	"github.com/provetrace/provetrace/tracing/otlptest"
)

var update = flag.Bool("update", false, "write the golden files")

// The command as it is built, since exit codes and signals are its own.
var (
	binary     string
	buildFlags []string
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(withBinary(m.Run))
}

func withBinary(run func() int) int {
	dir, err := os.MkdirTemp("", "provetrace-cli-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "provetrace")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	build := exec.Command("go", append(append([]string{"build", "-o", binary}, buildFlags...), "../..")...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return run()
}

// A call is one call of the command.
type call struct {
	dir   string // where it runs
	env   []string
	stdin io.Reader
	args  []string
}

type result struct {
	code           int
	stdout, stderr string
}

// command returns the command, in an environment that configures nothing.
func (c *call) command(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, c.args...)
	cmd.Dir = c.dir
	cmd.Stdin = c.stdin
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
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0") // else a second a call, where races are looked for
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
	r := result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	r.check(t)
	return r
}

// check holds what is true of any output: it is text that a terminal only
// shows, and an error is a line of its own.
func (r *result) check(t *testing.T) {
	t.Helper()
	for name, text := range map[string]string{"standard output": r.stdout, "standard error": r.stderr} {
		if !utf8.ValidString(text) {
			t.Errorf("%s is not UTF-8: %q", name, text)
		}
		for _, c := range text {
			if c != '\n' && !unicode.IsPrint(c) {
				t.Errorf("%s has %q: %q", name, c, text)
				break
			}
		}
	}
	for line := range strings.Lines(r.stderr) {
		if !strings.HasPrefix(line, "provetrace: ") && r.code != 2 && !strings.Contains(r.stderr, " delivered to the output") {
			t.Errorf("standard error has the line %q", line)
		}
	}
	if (r.code != 0) != strings.Contains(r.stderr, "provetrace: ") && !strings.Contains(r.stderr, "--join") && !strings.Contains(r.stderr, "read once") {
		t.Errorf("exit code %d with the error %q", r.code, r.stderr)
	}
}

// provetrace calls the command in a directory.
func provetrace(t *testing.T, dir string, args ...string) result {
	t.Helper()
	return (&call{dir: dir, args: args}).run(t)
}

// written is the time of the fixtures' copies, since some runs have no other.
var written = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// workspace returns a directory with copies of fixtures.
func workspace(t *testing.T, fixtures ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range fixtures {
		name += ".log"
		b, err := os.ReadFile(filepath.Join("..", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		put(t, dir, name, b)
	}
	return dir
}

func put(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.WriteFile(name, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, written, written); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// names returns the names in a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// An accountJSON is what --format json prints.
type accountJSON struct {
	Runs []struct {
		Name, Run                   string
		Sectors, Partitions, Failed int
		Epoch                       struct {
			Time   time.Time
			Source string
		}
		GPUs       []struct{ Workers []int }
		Start, End time.Time
		Overview   []linkJSON
		Search     string `json:"search_url"`
		Traces     []struct {
			Job, State, Reason string
			Attempt            int
			linkJSON
		}
		Input struct {
			Events   int64
			Problems []struct{ Text string }
		}
	}
	Spans  struct{ Ended, Delivered, Failed, Dropped int }
	Errors []string
}

type linkJSON struct {
	TraceID string `json:"trace_id"`
	URL     string
}

func parseAccount(t *testing.T, text string) *accountJSON {
	t.Helper()
	a := new(accountJSON)
	if err := json.Unmarshal([]byte(text), a); err != nil {
		t.Fatalf("the account is not JSON: %v\n%s", err, text)
	}
	if a.Runs == nil || a.Errors == nil || a.Spans.Ended != a.Spans.Delivered+a.Spans.Failed+a.Spans.Dropped {
		t.Errorf("the account is %s", text)
	}
	for _, r := range a.Runs {
		if len(r.Traces) != r.Sectors {
			t.Errorf("%d of %d sectors of %s are in the account", len(r.Traces), r.Sectors, r.Name)
		}
	}
	return a
}

// TestGolden holds what the command prints.
func TestGolden(t *testing.T) {
	damaged := []byte("TIMELINE,0,SYNTH_START,j-1,partition=0\nTIMELINE,xx,SYNTH_END,j-1,\x1b[2J\xe2\x80\xae\xff\n" +
		"TIMELINE,900,SYNTH_END,j-1,partition=0,synth_ms=900\nTIMELINE,950,GPU_PICKUP,j-1,worker=0,partition=0\n" +
		"TIMELINE,951,GPU_START,j-1,worker=0,partition=0\nTIMELINE,1999,GPU_END,j-1,worker=0,partition=0,gpu_ms=1048\n")
	for _, test := range []struct {
		name     string
		fixtures []string
		files    map[string]string
		calls    [][]string
	}{
		{name: "failure", fixtures: []string{"failure"}, calls: [][]string{{"convert", "failure.log", "-o", "spans.json"}}},
		{name: "failure-json", fixtures: []string{"failure"}, calls: [][]string{{"convert", "failure.log", "-o", "spans.json", "--format", "json"}}},
		{name: "standard-jaeger", fixtures: []string{"standard"}, calls: [][]string{{"convert", "standard.log", "-o", "spans.json", "--jaeger", "https://traces.example.org/jaeger/"}}},
		{name: "standard-jaeger-json", fixtures: []string{"standard"}, calls: [][]string{
			{"convert", "standard.log", "-o", "spans.json", "--jaeger", "http://localhost:16686", "--format", "json"},
		}},
		{name: "two-runs", fixtures: []string{"dirty_restart"}, calls: [][]string{{"convert", "dirty_restart.log", "-o", "spans.json"}}},
		{name: "two-logs", fixtures: []string{"curio", "two_gpus"}, calls: [][]string{{"convert", "curio.log", "two_gpus.log", "-o", "spans.json.zst"}}},
		{name: "damaged", fixtures: []string{"dirty_dropped"}, files: map[string]string{"damaged.log": string(damaged)}, calls: [][]string{
			{"convert", "dirty_dropped.log", "damaged.log", "-o", "spans.json"},
		}},
		{name: "options", fixtures: []string{"standard"}, calls: [][]string{
			{"convert", "standard.log", "-o", "spans.json", "--run", "baseline", "--epoch", "2026-02-18 14:59:07", "--gpu-workers-per-device", "1"},
		}},
		{name: "report", fixtures: []string{"standard", "single_worker"}, calls: [][]string{{"report", "standard.log", "single_worker.log"}}},
		{name: "report-json", fixtures: []string{"two_gpus"}, calls: [][]string{{"report", "two_gpus.log", "--format", "json"}}},
		{name: "report-sector", fixtures: []string{"curio"}, calls: [][]string{
			{"report", "curio.log", "--sector", "4202"},
			{"report", "curio.log", "--sector", "porep-1000-4202", "--since", "1:30", "--until", "2026-02-18T15:01:00Z"},
		}},
		{name: "report-failures", fixtures: []string{"failure", "standard"}, files: map[string]string{
			"empty.log": "", "words.log": "no events here\n", "malformed.log": "TIMELINE,xx,SYNTH_END,j-1,\n",
		}, calls: [][]string{
			{"report", "missing.log"},
			{"report", "empty.log", "words.log", "--format", "json"},
			{"report", "malformed.log"},
			{"report", "words.log", "-o", "report.txt"},
			{"report", "failure.log", "--sector", "17"},
			{"report", "failure.log", "--sector", "4200", "--since", "1h"},
			{"report", "failure.log", "--since", "1h", "-o", "report.txt"},
			{"report", "failure.log", "-o", "missing/report.txt"},
			{"report", "failure.log", "standard.log", "--format", "perfetto", "-o", "trace.json"},
		}},
		{name: "report-usage", fixtures: []string{"failure"}, calls: [][]string{
			{"report"},
			{"report", "failure.log", "--format", "xml"},
			{"report", "failure.log", "--since", "yesterday"},
			{"report", "failure.log", "--since", "90"},
			{"report", "failure.log", "--until", "1:61"},
			{"report", "failure.log", "--until", "now"},
			{"report", "failure.log", "--since", ""},
			{"report", "failure.log", "--since", "3m", "--until", "2m"},
			{"report", "failure.log", "--since", "2m", "--until", "2:00"},
			{"report", "failure.log", "--since", "2026-02-18T15:01:00Z", "--until", "2026-02-18T15:00:00Z"},
			{"report", "failure.log", "-o", "failure.log"},
			{"report", "failure.log", "--gpu-workers-per-device", "0"},
		}},
		{name: "report-inputs", fixtures: []string{"failure"}, files: map[string]string{
			"spans/traces.json": `{"resourceSpans":[]}`, "spans.json": `{"resourceSpans":[]}`,
			"null.json": "null\n", "list.json": `[{"a":1}, {"b":` + strings.Repeat(" ", 600) + `2}]`, "brackets.log": "[2026-02-18 14:59:07] started\n",
			"answer.json":   `{"data":null,"total":0,"limit":0,"offset":0,"errors":[{"code":404,"msg":"trace not found"}]}`,
			"malformed.log": strings.Repeat("TIMELINE,xx,SYNTH_END,j-1,\n", 300),
		}, calls: [][]string{
			{"report", "--join", "failure.log", "spans.json"},
			{"report", "spans"},
			{"report", "null.json", "list.json", "brackets.log", "answer.json"},
			{"compare", "failure.log", "malformed.log"},
			{"compare", "failure.log", "answer.json"},
			{"report", "failure.log", "./failure.log", "fail*.log", "--format", "json", "-o", "spans.json.gz"},
		}},
		{name: "compare-unfinished", fixtures: []string{"single_worker"}, files: map[string]string{
			"=unfinished.log": "TIMELINE,0,SYNTH_START,j-1,partition=0\nTIMELINE,900,SYNTH_END,j-1,partition=0,synth_ms=900\n" +
				"TIMELINE,950,GPU_PICKUP,j-1,worker=0,partition=0\nTIMELINE,951,GPU_START,j-1,worker=0,partition=0\n",
		}, calls: [][]string{
			{"compare", "=unfinished.log", "single_worker.log"},
			{"compare", "single_worker.log", "=unfinished.log"},
			{"compare", "=unfinished.log", "single_worker.log", "--format", "csv"},
		}},
		{name: "compare", fixtures: []string{"single_worker", "dual_worker_noisy", "split"}, calls: [][]string{
			{"compare", "single_worker.log", "dual_worker_noisy.log", "split.log"},
			{"compare", "single_worker.log", "split.log", "--format", "csv"},
		}},
		{name: "compare-json", fixtures: []string{"standard", "snap"}, calls: [][]string{{"compare", "whole=standard.log", "snap=snap*.log", "--format", "json"}}},
		{name: "compare-fail-on", fixtures: []string{"single_worker", "dual_worker_noisy", "failure"}, calls: [][]string{
			{"compare", "dual_worker_noisy.log", "single_worker.log", "--format", "csv",
				"--fail-on", "seconds_per_proof.steady>+3%", "--fail-on", "seconds_per_proof.steady > 50", "--fail-on", "kernel_utilization_active<0.8"},
			{"compare", "single_worker.log", "dual_worker_noisy.log", "--format", "csv", "--fail-on", "seconds_per_proof.steady>+3%"},
			{"compare", "dual_worker_noisy.log", "failure.log", "--format", "csv",
				"--fail-on", "kernel_utilization_active<-5%", "--fail-on", "phases.b_g2 msm.p95_ms>3"},
		}},
		{name: "compare-usage", fixtures: []string{"failure"}, files: map[string]string{"words.log": "no events here\n"}, calls: [][]string{
			{"compare", "failure.log"},
			{"compare", "failure.log", "failure.log", "--format", "xml"},
			{"compare", "failure.log", "failure.log", "--fail-on", "slower"},
			{"compare", "failure.log", "failure.log", "--fail-on", "seconds>3"},
			{"compare", "failure.log", "failure.log", "--fail-on", "utilization_active<90%"},
			{"compare", "failure.log", "failure.log", "--fail-on", "utilization_active<90"},
			{"compare", "failure.log", "failure.log", "--fail-on", "seconds_per_proof.steady>3%"},
			{"compare", "failure.log", "failure.log", "-o", "failure.log"},
			{"compare", "-", "-"},
			{"compare", "failure.log", "missing.log"},
			{"compare", "failure.log", "b=missing*.log"},
			{"compare", "failure.log", "words.log", "-o", "out.txt"},
		}},
		{name: "help", calls: [][]string{{}, {"convert", "--help"}, {"report", "--help"}, {"compare", "--help"}}},
		{name: "usage", fixtures: []string{"failure"}, calls: [][]string{
			{"convert"},
			{"conver"},
			{"prove-everything"},
			{"--loud"},
			{"convert", "failure.log", "--loud"},
			{"convert", "failure.log", "--format", "xml"},
			{"convert", "failure.log", "-o"},
			{"convert", "failure.log", "-o", ""},
			{"convert", "failure.log", "-o", "failure.log"},
			{"convert", "failure.log", "-o", "./failure.log", "--format", "json"},
			{"convert", "failure.log", "-o", "spans.json", "--endpoint", "localhost:4317"},
			{"convert", "failure.log", "-o", "spans.json", "--protocol", "grpc"},
			{"convert", "failure.log", "--protocol", "http"},
			{"convert", "failure.log", "--endpoint", "ftp://localhost"},
			{"convert", "failure.log", "--endpoint", ""},
			{"convert", "failure.log", "--jaeger", "localhost:16686"},
			{"convert", "failure.log", "--epoch", "yesterday"},
			{"convert", "failure.log", "--epoch", "1771426747000"},
			{"convert", "failure.log", "--gpu-workers-per-device", "0"},
			{"convert", "failure.log", "--gpu-workers-per-device", "two"},
			{"convert", "failure.log", "--join=perhaps"},
			{"convert", "failure.log", "--run", ""},
		}},
		{name: "failures", fixtures: []string{"failure"}, files: map[string]string{
			"empty.log": "", "words.log": "no events here\n", "dir/notes.md": "", "bad\x1b[31m\n\u202e.log": "", "old.log.xz": "\xfd7zXZ\x00",
		}, calls: [][]string{
			{"convert", "missing.log", "-o", "spans.json"},
			{"convert", "*.gz", "-o", "spans.json"},
			{"convert", "dir", "-o", "spans.json"},
			{"convert", "empty.log", "-o", "spans.json"},
			{"convert", "words.log", "-o", "spans.json"},
			{"convert", "empty.log", "words.log", "old.log.xz", "bad\x1b[31m\n\u202e.log", "-o", "spans.json"},
			{"convert", "missing\x1b[31m\n\u202e.log", "-o", "spans.json"},
			{"convert", "failure.log", "-o", "missing\x1b[31m/spans.json"},
			{"convert", "failure.log", "-o", "dir"},
			{"convert", "missing.log", "-o", "spans.json", "--format", "json"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := workspace(t, test.fixtures...)
			for name, content := range test.files {
				if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
					t.Fatal(err)
				}
				put(t, dir, name, []byte(content))
			}
			before := names(t, dir)
			var got strings.Builder
			for _, args := range test.calls {
				r := provetrace(t, dir, args...)
				var shown []string
				for _, a := range args {
					if a == "" || strings.ContainsFunc(a, func(c rune) bool { return c == ' ' || !unicode.IsPrint(c) }) {
						a = fmt.Sprintf("%+q", a)
					}
					shown = append(shown, a)
				}
				fmt.Fprintf(&got, "$ %s\n%s", strings.Join(append([]string{"provetrace"}, shown...), " "), r.stdout)
				if r.stderr != "" {
					fmt.Fprintf(&got, "--- standard error\n%s", r.stderr)
				}
				fmt.Fprintf(&got, "--- exit code %d\n", r.code)
				for _, name := range names(t, dir) {
					if !slices.Contains(before, name) && !strings.HasPrefix(name, "spans.json") || strings.HasSuffix(name, ".tmp") {
						t.Errorf("%v left %s behind", args, name)
					}
				}
			}
			golden(t, test.name, got.String())
		})
	}
}

// TestLayout holds that nothing is wider than the terminal but facts that are one
// long word, and traces; and that all is ASCII where the locale is.
func TestLayout(t *testing.T) {
	dir := workspace(t, "dirty_torn")
	deep := filepath.Join(strings.Repeat("deeper/", 12), "runs of é")
	if err := os.MkdirAll(filepath.Join(dir, deep), 0o755); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(deep, "bench.log")
	put(t, dir, long, append(get(t, dir, "dirty_torn.log"), "TIMELINE,1x,SYNTH_END,a-job-of-a-long-name,"+strings.Repeat("partition=0,", 30)+"\n"...))
	for _, locale := range []string{"C", "C.UTF-8"} {
		for _, args := range [][]string{{"report", long}, {"convert", long, "-o", "spans.json"}, {"compare", long, "dirty_torn.log"}} {
			for _, width := range []int{40, 80} {
				c := call{dir: dir, args: args, env: []string{fmt.Sprintf("COLUMNS=%d", width), "LC_ALL=" + locale}}
				r := c.run(t)
				if r.code != 0 || !strings.Contains(r.stdout, "bench.log") {
					t.Errorf("%+v", r)
				}
				for line := range strings.Lines(r.stdout) {
					line = strings.TrimSuffix(line, "\n")
					if n := utf8.RuneCountInString(line); n > width && !strings.HasPrefix(line, "  ") {
						t.Errorf("%v has a line of %d columns in %d: %s", args, n, width, line)
					}
				}
				head, _, _ := strings.Cut(r.stdout, "\n\n")
				for line := range strings.Lines(head) {
					if n := utf8.RuneCountInString(line) - 1; n > width && width >= 80 { // else an id is
						t.Errorf("%v begins with a line of %d columns in %d: %s", args, n, width, line)
					}
				}
			}
		}
	}
	put(t, dir, "many.log", manySectors(30))
	c := call{dir: dir, args: []string{"convert", "many.log", "-o", "spans.json"}, env: []string{"LC_ALL=C"}}
	if r := c.run(t); strings.ContainsFunc(r.stdout, func(c rune) bool { return c > unicode.MaxASCII }) || !strings.Contains(r.stdout, "  and 6 sectors more; ") {
		t.Errorf("not ASCII: %s", r.stdout)
	}
}

// manySectors returns a log of sectors whose ids are long.
func manySectors(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "TIMELINE,%d,SYNTH_START,sector-of-a-long-name-%d,partition=0\n", i, i)
	}
	return b.Bytes()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("other output than in %s, which -update writes anew:\n%s", file, got)
	}
}

func TestVersionAndCompletionScripts(t *testing.T) {
	if r := provetrace(t, ".", "--version"); r.code != 0 || !regexp.MustCompile(`^provetrace \S.*\n$`).MatchString(r.stdout) {
		t.Errorf("%+v", r)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"convert", "--format", ""}, "text\njson\n:4\n"},
		{[]string{"convert", "--protocol", ""}, "grpc\nhttp/protobuf\n:4\n"},
		{[]string{"convert", "--epoch", ""}, "now\n:4\n"},
		{[]string{"convert", "be"}, ":0\n"}, // the shell's own file names
		{[]string{"con"}, "convert\tTurn TIMELINE logs into traces\n:4\n"},
	} {
		cmd := (&call{dir: ".", args: append([]string{"__complete"}, test.args...)}).command(t.Context())
		if out, err := cmd.Output(); err != nil || string(out) != test.want {
			t.Errorf("completion of %q: %v, %q, want %q", test.args, err, out, test.want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		cmd := (&call{dir: ".", args: []string{"completion", shell}}).command(t.Context())
		if out, err := cmd.Output(); err != nil || !bytes.Contains(out, []byte("provetrace")) {
			t.Errorf("completion %s: %v, %d bytes", shell, err, len(out))
		}
	}
}

// TestOutputs holds that the spans are the same in whatever is written.
func TestOutputs(t *testing.T) {
	dir := workspace(t, "failure")
	if r := provetrace(t, dir, "convert", "failure.log", "-o", "spans.json"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	want := get(t, dir, "spans.json")
	for _, file := range []string{"spans.json.gz", "spans.json.zst"} {
		if r := provetrace(t, dir, "convert", "failure.log", "-o", file); r.code != 0 || !strings.Contains(r.stdout, "spans delivered to "+file) {
			t.Errorf("%+v", r)
		}
		var text []byte
		var err error
		if stored := bytes.NewReader(get(t, dir, file)); strings.HasSuffix(file, ".gz") {
			var z *gzip.Reader
			if z, err = gzip.NewReader(stored); err == nil {
				text, err = io.ReadAll(z)
			}
		} else {
			var z *zstd.Decoder
			if z, err = zstd.NewReader(stored); err == nil {
				text, err = io.ReadAll(z)
				z.Close()
			}
		}
		if err != nil || !bytes.Equal(text, want) {
			t.Errorf("%s has other spans (error %v)", file, err)
		}
	}
	// On standard output the spans push the account aside.
	for _, format := range []string{"text", "json"} {
		cmd := (&call{dir: dir, args: []string{"convert", "failure.log", "-o", "-", "--format", format}}).command(t.Context())
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil || !bytes.Equal(out, want) {
			t.Errorf("the output has other spans (error %v)", err)
		}
		if format == "json" {
			if a := parseAccount(t, stderr.String()); a.Spans.Delivered != 223 {
				t.Errorf("%d spans delivered", a.Spans.Delivered)
			}
		} else if !strings.Contains(stderr.String(), "223 spans delivered to the output") {
			t.Errorf("the account is %s", &stderr)
		}
	}
	c := call{dir: dir, args: []string{"convert", "-", "-o", "piped.json"}, stdin: bytes.NewReader(get(t, dir, "failure.log"))}
	if r := c.run(t); r.code != 0 || !strings.HasPrefix(r.stdout, "standard input: 5 sectors") || !bytes.Equal(get(t, dir, "piped.json"), want) {
		t.Errorf("from standard input: %+v", r)
	}
}

// TestExporters holds what OTEL_TRACES_EXPORTER and OTEL_SDK_DISABLED do.
func TestExporters(t *testing.T) {
	dir := workspace(t, "standard")
	c := call{dir: dir, args: []string{"convert", "standard.log"}, env: []string{"OTEL_TRACES_EXPORTER=none"}}
	if r := c.run(t); r.code != 0 || !strings.HasSuffix(r.stdout, "\nno spans delivered, since OTEL_TRACES_EXPORTER is none\n") {
		t.Errorf("%+v", r)
	}
	c.env = []string{"OTEL_SDK_DISABLED=true"}
	if r := c.run(t); r.code != 0 || !strings.HasSuffix(r.stdout, "\nno spans delivered, since OTEL_SDK_DISABLED is true\n") {
		t.Errorf("%+v", r)
	}
	c.env = []string{"OTEL_TRACES_EXPORTER=zipkin"}
	if r := c.run(t); r.code != 2 || r.stdout != "" || !strings.Contains(r.stderr, "use otlp") {
		t.Errorf("%+v", r)
	}
	c.env = []string{"OTEL_TRACES_EXPORTER=console"}
	cmd := c.command(t.Context())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || !strings.HasSuffix(stderr.String(), "spans delivered to the output\n") {
		t.Errorf("error %v, account %s", err, &stderr)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var s struct{ Name string }
		if err := d.Decode(&s); err != nil || s.Name == "" {
			t.Fatalf("a span on the output: %v, %v", s, err)
		}
	}
}

// TestEpochAndRun holds what --epoch and --run do to the spans' times and ids.
func TestEpochAndRun(t *testing.T) {
	dir := workspace(t, "standard", "curio")
	account := func(args ...string) *accountJSON {
		t.Helper()
		r := provetrace(t, dir, append([]string{"convert", "-o", "spans.json", "--format", "json"}, args...)...)
		if r.code != 0 {
			t.Fatalf("%+v", r)
		}
		return parseAccount(t, r.stdout)
	}
	before := time.Now()
	now := account("standard.log", "--epoch", "now").Runs[0]
	if now.End.Before(before.Truncate(time.Millisecond)) || now.End.After(time.Now()) || now.Epoch.Source != "now" {
		t.Errorf("with --epoch now the run ends at %v", now.End)
	}
	given := account("standard.log", "--epoch", "2024-02-29T12:00:00+02:00").Runs[0]
	if want := time.Date(2024, 2, 29, 10, 0, 0, 0, time.UTC); !given.Epoch.Time.Equal(want) || given.Epoch.Source != "given" {
		t.Errorf("the epoch is %+v, want %v", given.Epoch, want)
	}
	// Under a name, the ids do not depend on the time.
	a, b := account("standard.log", "--run", "x"), account("standard.log", "--run", "x", "--epoch", "now")
	if !slices.Equal(a.Runs[0].Traces, b.Runs[0].Traces) || !slices.Equal(a.Runs[0].Overview, b.Runs[0].Overview) {
		t.Errorf("one name, two ids: %v, %v", a.Runs[0], b.Runs[0])
	}
	// Two runs never share an id, even where their names and jobs are the same.
	put(t, dir, "copy.log", get(t, dir, "standard.log"))
	for _, named := range []string{"", "x"} {
		args := []string{"standard.log", "copy.log", "curio.log"}
		if named != "" {
			args = append(args, "--run", named)
		}
		all := account(args...)
		seen := make(map[string]bool)
		for i, r := range all.Runs {
			if want := fmt.Sprintf("x#%d", i+1); named != "" && i > 0 && r.Run != want {
				t.Errorf("run %d is called %q, want %q", i, r.Run, want)
			}
			for _, l := range r.Overview {
				if seen[l.TraceID] {
					t.Errorf("two runs have the trace %s", l.TraceID)
				}
				seen[l.TraceID] = true
			}
			for _, l := range r.Traces {
				if seen[l.TraceID] {
					t.Errorf("two sectors have the trace %s", l.TraceID)
				}
				seen[l.TraceID] = true
			}
		}
		if len(all.Runs) != 3 || len(seen) == 0 {
			t.Errorf("%d runs", len(all.Runs))
		}
	}
	if gpus := account("curio.log", "--gpu-workers-per-device", "1").Runs[0].GPUs; len(gpus) == 0 {
		t.Errorf("the devices are %v", gpus)
	}
}

// TestRotatedPieces holds the hint at --join, and what it does.
func TestRotatedPieces(t *testing.T) {
	dir := workspace(t)
	text, err := os.ReadFile(filepath.Join("..", "testdata", "failure.log"))
	if err != nil {
		t.Fatal(err)
	}
	half := bytes.LastIndexByte(text[:len(text)/2], '\n') + 1
	put(t, dir, "cuzk.log.1", text[:half])
	put(t, dir, "cuzk.log", text[half:])
	r := provetrace(t, dir, "convert", "cuzk.log", "cuzk.log.1", "-o", "spans.json")
	if want := "provetrace: cuzk.log.1 and cuzk.log look like pieces of one rotated log: with --join they are read as one\n"; r.code != 0 || r.stderr != want {
		t.Errorf("%+v", r)
	}
	r = provetrace(t, dir, "convert", "--join", "cuzk.log", "cuzk.log.1", "-o", "spans.json")
	if r.code != 0 || r.stderr != "" || !strings.HasPrefix(r.stdout, "cuzk.log.1: 5 sectors (1 failed), 50 partitions (7 skipped)") {
		t.Errorf("%+v", r)
	}
}

// TestOneBadLogAmongGood converts the good ones.
func TestOneBadLogAmongGood(t *testing.T) {
	dir := workspace(t, "failure", "two_gpus")
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(get(t, dir, "two_gpus.log")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "cut.log.gz", z.Bytes()[:z.Len()/2])
	put(t, dir, "empty.log", nil)
	r := provetrace(t, dir, "convert", "failure.log", "cut.log.gz", "empty.log", "two_gpus.log", "-o", "spans.json", "--format", "json")
	a := parseAccount(t, r.stdout)
	if r.code != 1 || len(a.Runs) != 3 || len(a.Errors) != 2 || a.Spans.Failed != 0 {
		t.Errorf("exit code %d, %d runs, errors %q", r.code, len(a.Runs), a.Errors)
	}
	want := regexp.MustCompile(`^provetrace: reading cut\.log\.gz, line \d+: it ends in the middle of its gzip data; what stands before it is converted
provetrace: empty\.log is empty
$`)
	if !want.MatchString(r.stderr) {
		t.Errorf("the errors are %s", r.stderr)
	}
	if len(get(t, dir, "spans.json")) == 0 {
		t.Error("the spans of the good logs are not there")
	}
}

// TestFileIsReplacedOnlyOnSuccess holds what happens to a file that is there.
func TestFileIsReplacedOnlyOnSuccess(t *testing.T) {
	dir := workspace(t, "failure")
	put(t, dir, "words.log", []byte("nothing to convert\n"))
	put(t, dir, "spans.json", []byte("earlier"))
	if r := provetrace(t, dir, "convert", "words.log", "-o", "spans.json"); r.code != 1 {
		t.Errorf("%+v", r)
	}
	if got := get(t, dir, "spans.json"); string(got) != "earlier" {
		t.Errorf("the file was replaced by %d bytes", len(got))
	}
	if r := provetrace(t, dir, "convert", "failure.log", "-o", "spans.json"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	if got := get(t, dir, "spans.json"); !bytes.HasPrefix(got, []byte(`{"resourceSpans"`)) {
		t.Errorf("the file was not replaced: %.40q", got)
	}
	if got := names(t, dir); len(got) != 3 {
		t.Errorf("the directory has %q", got)
	}
}

// TestEndpoint converts to an endpoint, by flags.
func TestEndpoint(t *testing.T) {
	dir := workspace(t, "failure")
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		server := otlptest.Start(t, otlptest.Options{HTTP: protocol != "grpc"})
		r := provetrace(t, dir, "convert", "failure.log", "--endpoint", server.Endpoint(), "--protocol", protocol)
		if r.code != 0 || server.Spans() != 223 || !strings.Contains(r.stdout, "\n223 spans delivered to "+server.Endpoint()) {
			t.Errorf("%s: %d spans, %+v", protocol, server.Spans(), r)
		}
	}
}

// TestEndpointRefuses converts to where nothing listens.
func TestEndpointRefuses(t *testing.T) {
	dir := workspace(t, "failure")
	server := otlptest.Start(t, otlptest.Options{HTTP: true})
	for _, test := range []struct {
		name, endpoint string
		want           string
	}{
		{"refused", "http://127.0.0.1:1", "nothing listens at http://127.0.0.1:1: start Jaeger"},
		{"no such path", server.Endpoint() + "/nowhere", "takes no traces at this path"},
		{"another protocol", server.Endpoint(), "does not speak gRPC"},
	} {
		c := call{dir: dir, args: []string{"convert", "failure.log", "--endpoint", test.endpoint}, env: []string{"OTEL_EXPORTER_OTLP_TIMEOUT=300"}}
		if strings.Contains(test.endpoint, "/nowhere") {
			c.args = append(c.args, "--protocol", "http/protobuf")
		}
		r := c.run(t)
		if r.code != 1 || !strings.Contains(r.stderr, test.want) || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stdout, "\n0 of 223 spans delivered to ") {
			t.Errorf("%s: %+v", test.name, r)
		}
		c.args = append(c.args, "--format", "json")
		r = c.run(t)
		if a := parseAccount(t, r.stdout); r.code != 1 || a.Spans.Failed != 223 || len(a.Errors) != 1 {
			t.Errorf("%s: %+v", test.name, r)
		}
	}
}

// TestEndpointFailsInTheMiddle loses the endpoint after the first request.
func TestEndpointFailsInTheMiddle(t *testing.T) {
	dir := workspace(t, "failure", "two_gpus", "split")
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		server := otlptest.Start(t, otlptest.Options{HTTP: protocol != "grpc", Reply: func(r otlptest.Request) otlptest.Reply {
			if r.Number == 1 {
				return otlptest.Reply{}
			}
			return otlptest.Reply{Code: codes.InvalidArgument, Status: http.StatusBadRequest, Message: "the disk is full\x1b[31m\nreally"}
		}})
		c := call{
			dir:  dir,
			args: []string{"convert", "failure.log", "two_gpus.log", "split.log", "--endpoint", server.Endpoint(), "--protocol", protocol, "--format", "json"},
			env:  []string{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE=300"},
		}
		r := c.run(t)
		a := parseAccount(t, r.stdout)
		if r.code != 1 || a.Spans.Delivered != 300 || a.Spans.Failed == 0 || len(a.Errors) != 1 || !strings.Contains(r.stderr, "the disk is full") {
			t.Errorf("%s: %+v", protocol, r)
		}
		if len(a.Runs) == 0 || a.Runs[0].Sectors != 5 {
			t.Errorf("%s: the account has %d runs", protocol, len(a.Runs))
		}
	}
}

// TestFullDisk writes where there is no space.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	dir := workspace(t, "failure")
	r := provetrace(t, dir, "convert", "failure.log", "-o", "/dev/full", "--format", "json")
	a := parseAccount(t, r.stdout)
	if r.code != 1 || a.Spans.Delivered != 0 || r.stderr != "provetrace: cannot write spans to /dev/full: no space is left: free some, or write elsewhere\n" {
		t.Errorf("%+v", r)
	}

	// The account has no space, and the spans have.
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, format := range []string{"text", "json"} {
		cmd := (&call{dir: dir, args: []string{"convert", "failure.log", "-o", format + ".json", "--format", format}}).command(t.Context())
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &stderr
		err = cmd.Run()
		if err == nil || stderr.String() != "provetrace: cannot write the account: no space left on device\n" {
			t.Errorf("error %v, %s", err, &stderr)
		}
		if len(get(t, dir, format+".json")) == 0 {
			t.Error("the spans are not there")
		}
	}
	cmd := (&call{dir: dir, args: []string{"convert", "failure.log", "-o", "-"}}).command(t.Context())
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = full, &stderr
	if err := cmd.Run(); err == nil || !strings.HasSuffix(stderr.String(), "provetrace: cannot write spans to the output: no space is left: free some, or write elsewhere\n") {
		t.Errorf("error %v, %s", err, &stderr)
	}
}

// TestReaderThatStops closes the other end of the output.
func TestReaderThatStops(t *testing.T) {
	dir := workspace(t, "failure")
	for _, test := range []struct{ output, want string }{
		{"spans.json", "provetrace: cannot write the account: what read it has stopped reading\n"},
		{"-", "provetrace: cannot write spans to the output: what read it has stopped reading\n"},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		cmd := (&call{dir: dir, args: []string{"convert", "failure.log", "-o", test.output}}).command(t.Context())
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = w, &stderr
		err = cmd.Run()
		w.Close()
		if cmd.ProcessState.ExitCode() != 1 || !strings.HasSuffix(stderr.String(), test.want) {
			t.Errorf("%s: error %v, %s", test.output, err, &stderr)
		}
	}
	if got := names(t, dir); !slices.Equal(got, []string{"failure.log", "spans.json"}) {
		t.Errorf("the directory has %q", got)
	}
}

// TestHostileJobs converts a log whose jobs and reasons are made to be obeyed
// by a terminal.
func TestHostileJobs(t *testing.T) {
	dir := workspace(t)
	var log strings.Builder
	fmt.Fprintln(&log, "2026-02-18T14:59:07.000000Z  INFO cuzk_core::engine: started")
	jobs := []string{
		"\x1b[2J\x1b[31mred", "\x1b]0;title\x07", "\u202egnp.exe", "a\u2028b\u2029c", "c1\u009b31m", "bell\a\b\b\b\x7f",
		"\xff\xfe\xc3", "\u200d\u200b\ufeff", "a\rprovetrace: all is well", "tab\there", "e\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308", "wide 世界 😀", "\U000e0041\U000e0042",
	}
	for i, job := range jobs {
		at := 1000 * i
		fmt.Fprintf(&log, "TIMELINE,%d,SYNTH_START,%s,partition=0\nTIMELINE,%d,SYNTH_END,%s,partition=0,synth_ms=500\n", at, job, at+500, job)
		fmt.Fprintf(&log, "TIMELINE,%d,GPU_START,%s,worker=0,partition=0\nTIMELINE,%d,GPU_END,%s,worker=0,partition=0,gpu_ms=300\n", at+600, job, at+900, job)
	}
	fmt.Fprintln(&log, "TIMELINE,99000,SYNTH_START,porep-1-2,partition=0")
	fmt.Fprintln(&log, "2026-02-18T15:00:46.000000Z ERROR cuzk_core::engine: partition synthesis failed error=\x1b[31m\u202eboom job_id=porep-1-2 partition=0")
	fmt.Fprintln(&log, "TIMELINE,x\x1b[31m\u202e,SYNTH_START,porep-1-3,partition=0")
	put(t, dir, "a\x1b[31m\u202e.log", []byte(log.String()))
	for _, extra := range [][]string{nil, {"--jaeger", "http://localhost:16686"}, {"--run", "\x1b[31m\u202e"}, {"-o", "spans\x1b[31m\u202e.json"}} {
		args := append([]string{"convert", "a\x1b[31m\u202e.log", "-o", "spans.json"}, extra...)
		if r := provetrace(t, dir, args...); r.code != 0 { // provetrace looks at the output
			t.Errorf("%+v", r)
		}
		r := provetrace(t, dir, append(args, "--format", "json")...)
		a := parseAccount(t, r.stdout)
		if r.code != 0 || len(a.Runs) != 1 {
			t.Fatalf("%+v", r)
		}
		for _, job := range jobs {
			if !utf8.ValidString(job) || strings.ContainsAny(job, "\r\x1b") {
				continue // what stands in the JSON is what can
			}
			if !slices.ContainsFunc(a.Runs[0].Traces, func(l struct {
				Job, State, Reason string
				Attempt            int
				linkJSON
			}) bool {
				return l.Job == job
			}) {
				t.Errorf("the JSON has no job %q", job)
			}
		}
	}
}

// TestJaegerLinks follows the links that --jaeger prints, and the search.
func TestJaegerLinks(t *testing.T) {
	jaeger := jaegertest.Start(t)
	dir := workspace(t, "failure")
	r := provetrace(t, dir, "convert", "failure.log", "--endpoint", "http://"+jaeger.GRPC, "--jaeger", jaeger.UI, "--format", "json")
	if r.code != 0 {
		t.Fatalf("%+v", r)
	}
	run := parseAccount(t, r.stdout).Runs[0]
	jaeger.Restart(t) // so that all is stored

	// The page of a trace gets it from the API under the same id.
	api := func(path string) (ids []string) {
		t.Helper()
		response, err := http.Get(jaeger.UI + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var answer struct{ Data []struct{ TraceID string } }
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, tr := range answer.Data {
			ids = append(ids, tr.TraceID)
		}
		slices.Sort(ids)
		return ids
	}
	links := slices.Clone(run.Overview)
	var sectors []string
	for _, l := range run.Traces {
		links = append(links, l.linkJSON)
		sectors = append(sectors, l.TraceID)
	}
	for _, l := range links {
		id, ok := strings.CutPrefix(l.URL, jaeger.UI+"/trace/")
		if got := api("/api/traces/" + id); !ok || id != l.TraceID || !slices.Equal(got, []string{id}) {
			t.Errorf("the link %s leads to %q", l.URL, got)
		}
	}
	search, err := url.Parse(run.Search)
	if err != nil || search.Path != "/search" {
		t.Fatalf("the search is %s", run.Search)
	}
	slices.Sort(sectors)
	if got := api("/api/traces?" + search.RawQuery); !slices.Equal(got, sectors) {
		t.Errorf("the search finds %q, want %q", got, sectors)
	}
	if status, err := http.Get(run.Search); err != nil || status.StatusCode != http.StatusOK {
		t.Errorf("the search's page: %v, %v", status, err)
	} else {
		status.Body.Close()
	}
}

// TestParts converts a log with more sectors than one trace of a run takes.
func TestParts(t *testing.T) {
	dir := workspace(t)
	var log strings.Builder
	const sectors = 2600
	for i := range sectors {
		fmt.Fprintf(&log, "TIMELINE,%d,SYNTH_START,snap-1000-%d,kind=snap-update\nTIMELINE,%d,SYNTH_END,snap-1000-%d,synth_ms=2\n", 10*i, i, 10*i+2, i)
		fmt.Fprintf(&log, "TIMELINE,%d,GPU_START,snap-1000-%d,worker=0\nTIMELINE,%d,GPU_END,snap-1000-%d,worker=0,gpu_ms=5\n", 10*i+3, i, 10*i+8, i)
	}
	put(t, dir, "many.log", []byte(log.String()))
	r := provetrace(t, dir, "convert", "many.log", "-o", "spans.json.zst")
	if r.code != 0 {
		t.Fatalf("%+v", r)
	}
	tail := r.stdout[strings.Index(r.stdout, "\n  run, part 1"):]
	golden(t, "parts", tail)
	a := parseAccount(t, provetrace(t, dir, "convert", "many.log", "-o", "spans.json.zst", "--format", "json").stdout)
	if len(a.Runs[0].Traces) != sectors || len(a.Runs[0].Overview) != 6 {
		t.Errorf("%d sectors, %d parts", len(a.Runs[0].Traces), len(a.Runs[0].Overview))
	}
}

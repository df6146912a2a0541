//go:build unix

package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/provetrace/provetrace/tracing/otlptest"
)

// interrupt starts the command, interrupts it once ready says so, and returns
// its output.
func (c *call) interrupt(t *testing.T, s syscall.Signal, ready func() bool) result {
	t.Helper()
	cmd := c.command(t.Context())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for !ready() {
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	r := result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	r.check(t)
	return r
}

// endless returns an input that never ends, after some text.
func endless(t *testing.T, text []byte) io.Reader {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	go w.Write(text) // ends with the test at the latest
	return r
}

// TestInterruptWhileReading interrupts a conversion that waits for its input:
// no file is left, and none is replaced.
func TestInterruptWhileReading(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		for _, format := range []string{"text", "json"} {
			dir := workspace(t, "failure", "split")
			put(t, dir, "spans.json", []byte("earlier"))
			c := call{
				dir: dir, stdin: endless(t, get(t, dir, "split.log")),
				args: []string{"convert", "failure.log", "-", "-o", "spans.json", "--format", format},
			}
			r := c.interrupt(t, s, func() bool {
				found, err := filepath.Glob(filepath.Join(dir, ".spans.json.*"))
				return err == nil && len(found) == 1
			})
			if r.code != 1 || r.stderr != "provetrace: interrupted\n" {
				t.Errorf("%v: %+v", s, r)
			}
			if format == "json" {
				if a := parseAccount(t, r.stdout); a.Spans.Delivered != 0 || !slices.Equal(a.Errors, []string{"interrupted"}) {
					t.Errorf("%v: %+v", s, a)
				}
			}
			if got := get(t, dir, "spans.json"); string(got) != "earlier" {
				t.Errorf("%v: the file was replaced by %d bytes", s, len(got))
			}
			if got := names(t, dir); len(got) != 3 {
				t.Errorf("%v: the directory has %q", s, got)
			}
		}
	}
}

// TestInterruptWhileSending interrupts a conversion whose endpoint does not
// answer, while there is more to convert and when there is not.
func TestInterruptWhileSending(t *testing.T) {
	dir := workspace(t, "failure", "split")
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		for _, batch := range []int{50, 100_000} {
			answered := 0 // requests
			if batch == 50 {
				answered = 1
			}
			server := otlptest.Start(t, otlptest.Options{HTTP: protocol != "grpc", Reply: func(r otlptest.Request) otlptest.Reply {
				return otlptest.Reply{Hang: r.Number > answered}
			}})
			c := call{
				dir:  dir,
				args: []string{"convert", "failure.log", "split.log", "--endpoint", server.Endpoint(), "--protocol", protocol, "--format", "json"},
				env: []string{
					fmt.Sprintf("OTEL_BSP_MAX_EXPORT_BATCH_SIZE=%d", batch), fmt.Sprintf("OTEL_BSP_MAX_QUEUE_SIZE=%d", batch),
					"OTEL_BSP_SCHEDULE_DELAY=600000", "OTEL_EXPORTER_OTLP_TIMEOUT=600000",
				},
			}
			r := c.interrupt(t, syscall.SIGINT, func() bool { return len(server.Requests()) > answered })
			a := parseAccount(t, r.stdout)
			if r.code != 1 || r.stderr != "provetrace: interrupted\n" || a.Spans.Delivered != answered*batch || a.Spans.Failed == 0 {
				t.Errorf("%s, batches of %d: %+v", protocol, batch, r)
			}
		}
	}
}

// TestInterruptWhileAPipeIsOpened interrupts what waits for the other end of a
// named pipe.
func TestInterruptWhileAPipeIsOpened(t *testing.T) {
	dir := workspace(t)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Skip("no named pipes: ", err)
	}
	c := call{dir: dir, args: []string{"convert", "pipe", "-o", "spans.json"}}
	r := c.interrupt(t, syscall.SIGINT, func() bool { return len(names(t, dir)) == 2 })
	if got := names(t, dir); r.code != 1 || r.stderr != "provetrace: interrupted\n" || !slices.Equal(got, []string{"pipe"}) {
		t.Errorf("%+v, the directory has %q", r, got)
	}
}

// TestFileLimit writes more than a file may have.
func TestFileLimit(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh")
	}
	dir := workspace(t, "failure")
	put(t, dir, "spans.json", []byte("earlier"))
	cmd := (&call{dir: dir}).command(t.Context())
	cmd.Path, cmd.Args = sh, []string{"sh", "-c", `ulimit -f 8 && exec "$0" convert failure.log -o spans.json`, binary}
	out, err := cmd.CombinedOutput()
	want := "\nprovetrace: cannot write spans to spans.json: file too large; no file is left behind\n"
	if cmd.ProcessState.ExitCode() != 1 || !strings.HasSuffix(string(out), want) {
		t.Errorf("error %v, %s", err, out)
	}
	if got := names(t, dir); string(get(t, dir, "spans.json")) != "earlier" || len(got) != 2 {
		t.Errorf("the directory has %q", got)
	}
}

// TestPipeWithoutReader writes to a named pipe that nothing reads.
func TestPipeWithoutReader(t *testing.T) {
	dir := workspace(t, "failure")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Skip("no named pipes: ", err)
	}
	r := provetrace(t, dir, "convert", "failure.log", "-o", "pipe")
	if want := "provetrace: cannot write spans to pipe: nothing reads the pipe, start its reader first\n"; r.code != 1 || r.stderr != want {
		t.Errorf("exit %d, %q, want %q", r.code, r.stderr, want)
	}
}

// TestNamedPipe converts what a named pipe gives.
func TestNamedPipe(t *testing.T) {
	dir := workspace(t, "failure")
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("no named pipes: ", err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, get(t, dir, "failure.log"), 0) }()
	r := provetrace(t, dir, "convert", "pipe", "-o", "spans.json")
	if r.code != 0 || !strings.Contains(r.stdout, "\n223 spans delivered") {
		t.Errorf("%+v", r)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

package jaegertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	// A start is polled this often and this many times: a minute, of which an
	// idle machine needs less than a second.
	healthInterval = 100 * time.Millisecond
	healthTries    = 600

	// startTries is how often other ports are tried, since another process may
	// take a free one before Jaeger listens on it.
	startTries = 5

	stopTimeout = 30 * time.Second

	// logShown is how much of the end of the log a failed test shows.
	logShown = 32 << 10
)

// errPortTaken says that a port was no longer free when Jaeger listened on it.
var errPortTaken = errors.New("a port is taken")

// Server is a running Jaeger.
type Server struct {
	GRPC string // host:port that takes OTLP over gRPC, without TLS
	HTTP string // host:port that takes OTLP over HTTP, without TLS
	UI   string // base URL of the UI and of the query API

	binary    string
	moduleDir string
	dataDir   string
	logPath   string
	health    string // URL of the health check
	ports     ports
	process   *process
	client    *http.Client
}

// ports are the loopback ports of one Jaeger.
type ports struct{ otlpGRPC, otlpHTTP, ui, queryGRPC, health string }

// process is a child process and the goroutine that waits for it.
type process struct {
	cmd    *exec.Cmd
	cancel context.CancelFunc
	done   chan struct{} // closed when the process has ended
	err    error         // how it ended, set before done is closed
}

// Start builds Jaeger if need be, starts it with deploy/jaeger/config.yaml and
// waits until it is healthy. It ends with the test, which shows the end of its
// log if it failed. A Jaeger that cannot be built or started fails the test;
// PROVETRACE_NO_JAEGER, set to anything, skips it.
func Start(t testing.TB) *Server {
	t.Helper()
	if os.Getenv(skipVariable) != "" {
		t.Skipf("%s is set: this test needs a Jaeger and was not run", skipVariable)
	}
	root, err := repository()
	if err != nil {
		t.Fatalf("jaegertest: find the checkout: %v", err)
	}
	moduleDir := filepath.Join(root, "deploy", "jaeger")
	dir := t.TempDir()
	s := &Server{
		binary:    binary(t, moduleDir),
		moduleDir: moduleDir,
		dataDir:   filepath.Join(dir, "data"),
		logPath:   filepath.Join(dir, "jaeger.log"),
		// A connection which is kept alive is a goroutine that a test's leak
		// check would find.
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("jaegertest: the end of Jaeger's log:\n%s", s.logTail())
		}
	})
	for try := 1; ; try++ {
		if s.ports, err = freePorts(); err != nil {
			t.Fatalf("jaegertest: find free ports: %v", err)
		}
		err = s.start(t)
		if err == nil {
			return s
		}
		s.kill()
		if try == startTries || !errors.Is(err, errPortTaken) {
			t.Fatalf("jaegertest: start Jaeger: %v", err)
		}
	}
}

// Restart stops Jaeger in good order and starts it again with the same data and
// the same addresses.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.stop(); err != nil {
		t.Fatalf("jaegertest: stop Jaeger: %v", err)
	}
	if err := s.start(t); err != nil {
		t.Fatalf("jaegertest: start Jaeger again: %v", err)
	}
}

// start runs Jaeger on s.ports and waits until it is healthy.
func (s *Server) start(t testing.TB) error {
	address := func(port string) string { return net.JoinHostPort("127.0.0.1", port) }
	s.GRPC = address(s.ports.otlpGRPC)
	s.HTTP = address(s.ports.otlpHTTP)
	s.UI = "http://" + address(s.ports.ui)
	s.health = "http://" + address(s.ports.health) + "/status"

	log, err := os.OpenFile(s.logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own descriptor
	logStart, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}

	ctx, cancel := untilDeadline(t)
	cmd := exec.CommandContext(ctx, s.binary, "--config", "config.yaml")
	cmd.Dir = s.moduleDir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(foreignEnvironment(),
		"JAEGER_LISTEN_HOST=127.0.0.1",
		"JAEGER_OTLP_GRPC_PORT="+s.ports.otlpGRPC,
		"JAEGER_OTLP_HTTP_PORT="+s.ports.otlpHTTP,
		"JAEGER_UI_PORT="+s.ports.ui,
		"JAEGER_QUERY_GRPC_PORT="+s.ports.queryGRPC,
		"JAEGER_HEALTH_PORT="+s.ports.health,
		"JAEGER_DATA="+s.dataDir,
	)
	if err := cmd.Start(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel()
		return err
	}
	p := &process{cmd: cmd, cancel: cancel, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	s.process = p

	for range healthTries {
		if s.healthy() {
			return nil
		}
		select {
		case <-p.done:
			if s.logHas(logStart, "address already in use") {
				return errPortTaken
			}
			return fmt.Errorf("it ended before it was healthy: %v", p.err)
		case <-time.After(healthInterval):
		}
	}
	return fmt.Errorf("not healthy after %v", healthTries*healthInterval)
}

// foreignEnvironment is the environment less what would configure Jaeger.
func foreignEnvironment() []string {
	var env []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "JAEGER_") && !strings.HasPrefix(variable, "OTEL_") {
			env = append(env, variable)
		}
	}
	return env
}

// healthy tells whether the whole pipeline is up. The process is checked first,
// so that an answer comes from it and not from another one on its port.
func (s *Server) healthy() bool {
	select {
	case <-s.process.done:
		return false
	default:
	}
	response, err := s.client.Get(s.health)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// stop asks Jaeger to end and waits until it has.
func (s *Server) stop() error {
	p := s.process
	defer p.cancel()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("interrupt it: %w", err)
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(stopTimeout):
		return fmt.Errorf("still running %v after the interrupt", stopTimeout)
	}
}

// kill ends Jaeger, if it runs, without regard for its data.
func (s *Server) kill() {
	if s.process == nil {
		return
	}
	s.process.cancel() // kills a process that still runs
	<-s.process.done
	s.process = nil
}

// logHas tells whether the log has text at or after offset.
func (s *Server) logHas(offset int64, text string) bool {
	log, err := os.ReadFile(s.logPath)
	return err == nil && offset <= int64(len(log)) && bytes.Contains(log[offset:], []byte(text))
}

// logTail is the end of the log.
func (s *Server) logTail() string {
	log, err := os.ReadFile(s.logPath)
	if err != nil {
		return err.Error()
	}
	if len(log) > logShown {
		log = log[len(log)-logShown:]
	}
	return string(log)
}

// freePorts finds ports that nothing listens on. All are held until the last is
// found, so that they differ.
func freePorts() (ports, error) {
	var found ports
	for _, port := range []*string{&found.otlpGRPC, &found.otlpHTTP, &found.ui, &found.queryGRPC, &found.health} {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return ports{}, err
		}
		defer listener.Close()
		if _, *port, err = net.SplitHostPort(listener.Addr().String()); err != nil {
			return ports{}, err
		}
	}
	return found, nil
}

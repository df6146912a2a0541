package jaegertest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

const (
	// skipVariable skips the tests that need Jaeger when it is not empty.
	skipVariable = "PROVETRACE_NO_JAEGER"

	jaegerPackage = "github.com/jaegertracing/jaeger/cmd/jaeger"

	// deadlineMargin is kept free at the end of a test for its cleanup.
	deadlineMargin = 5 * time.Second
)

// built remembers the binary for the tests of one process.
var built struct {
	sync.Mutex
	path string
}

// binary gives the path of a Jaeger that was built from moduleDir, building it
// if no earlier run did.
func binary(t testing.TB, moduleDir string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.path != "" {
		return built.path
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("jaegertest: find a place to keep Jaeger's binary: %v", err)
	}
	key, err := buildKey(moduleDir)
	if err != nil {
		t.Fatalf("jaegertest: %v", err)
	}
	path := filepath.Join(cache, "provetrace-test", "jaeger-"+key)
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	ctx, cancel := untilDeadline(t)
	defer cancel()
	if err := build(ctx, t, moduleDir, path); err != nil {
		t.Fatalf("jaegertest: build Jaeger (set %s=1 to skip the tests that need it): %v", skipVariable, err)
	}
	built.path = path
	return path
}

// buildKey names what a binary was built from: the modules and the toolchain.
func buildKey(moduleDir string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(moduleDir, name))
		if err != nil {
			return "", fmt.Errorf("identify the build: %w", err)
		}
		fmt.Fprintln(hash, name, len(content))
		hash.Write(content)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// build makes path, unless it is there. The lock lets one of several test
// processes build while the others wait for its result; the rename makes the
// result appear whole, also where there is no lock.
func build(ctx context.Context, t testing.TB, moduleDir, path string) error {
	if exists(path) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	unlock, err := lock(ctx, path+".lock")
	if err != nil {
		return fmt.Errorf("wait for the build of another test: %w", err)
	}
	defer unlock()
	if exists(path) {
		return nil
	}

	t.Logf("jaegertest: building Jaeger; minutes with an empty build cache")
	partial := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(partial)
	cmd := exec.CommandContext(ctx, "go", "build", "-C", moduleDir, "-mod=readonly", "-o", partial, jaegerPackage)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.WaitDelay = deadlineMargin
	if output, err := cmd.CombinedOutput(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: give the test more time (-timeout), or build it before the tests", cause)
		}
		return fmt.Errorf("%s: %w\n%s", cmd, err, output)
	}
	return os.Rename(partial, path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// untilDeadline is a context that ends shortly before the test's deadline, when
// it has one: past that, the test's process dies without its cleanup.
func untilDeadline(t testing.TB) (context.Context, context.CancelFunc) {
	if t, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := t.Deadline(); ok {
			return context.WithDeadlineCause(context.Background(), deadline.Add(-deadlineMargin),
				errors.New("the test's time is over"))
		}
	}
	return context.WithCancel(context.Background())
}

// repository finds the root of the checkout which the test runs in.
func repository() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; {
		if exists(filepath.Join(dir, "deploy", "jaeger", "go.mod")) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no deploy/jaeger in %s or above it", start)
		}
		dir = parent
	}
}

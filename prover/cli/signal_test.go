//go:build unix

package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// interrupt starts the command, interrupts it once ready says so, and returns
// its output.
func (c *call) interrupt(t *testing.T, s syscall.Signal, ready func() bool) result {
	t.Helper()
	cmd := c.command(t.Context())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	for !ready() {
		time.Sleep(10 * time.Millisecond)
	}
	require.NoError(t, cmd.Process.Signal(s))
	_ = cmd.Wait()
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// journalHas returns what reports whether a journal tells of a text by now.
func journalHas(name, text string) func() bool {
	return func() bool {
		b, _ := os.ReadFile(name)
		return bytes.Contains(b, []byte(text))
	}
}

// TestInterrupt tells of what was done, and leaves spans and journal of it.
func TestInterrupt(t *testing.T) {
	for name, c := range map[string]struct {
		signal syscall.Signal
		args   []string
		when   string // the journal has it
		proved string
		state  []string
	}{
		"simulated":       {syscall.SIGINT, []string{"--backend", "sim", "--time-scale", "0.01", "--sectors", "50"}, "porep-1000-3", "", nil},
		"not yet proving": {syscall.SIGTERM, []string{"--backend", "sim", "--time-scale", "1000"}, "SYNTH_START", "0 of 3", []string{"abandoned", "abandoned", "abandoned"}},
		"real":            {syscall.SIGHUP, []string{"--partitions", "20", "--sectors", "3", "--nodes", "4", "--challenges", "1"}, "GPU_END", "0 of 3", []string{"abandoned", "abandoned", "abandoned"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			run := filepath.Join(dir, "run")
			interrupted := &call{dir: dir, args: append([]string{"prove", "--out", "run", "--format", "json"}, c.args...)}
			r := interrupted.interrupt(t, c.signal, journalHas(filepath.Join(run, "timeline.log"), c.when))
			require.Equal(t, 1, r.code, r.stderr)
			s := summaryOf(t, r.stdout)
			require.Equal(t, r.warnings(), s.Errors)
			require.Len(t, s.Errors, 1)
			require.True(t, strings.HasPrefix(s.Errors[0], "interrupted: "+c.proved), s.Errors[0])
			require.True(t, strings.HasSuffix(s.Errors[0], " sectors are proved"), s.Errors[0])
			for i, state := range c.state {
				require.Equal(t, state, s.Sectors[i].State)
			}
			require.Equal(t, s.Sectors, summaryOf(t, read(t, run, "run.json")).Sectors)
			require.NotEmpty(t, recorded(t, run, "spans.json").Sectors)
			require.NotEmpty(t, recorded(t, run, "timeline.log").Sectors)
		})
	}
}

// TestKilled reads the journal of a run that was killed.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	journal := filepath.Join(dir, "run", "timeline.log")
	c := &call{dir: dir, args: []string{"prove", "--out", "run", "--backend", "sim", "--time-scale", "0.01", "--sectors", "50"}}
	r := c.interrupt(t, syscall.SIGKILL, journalHas(journal, "GPU_END"))
	require.Equal(t, -1, r.code)
	require.NotEmpty(t, recorded(t, journal).Sectors)
	converted := (&call{dir: dir, args: []string{"convert", "run", "-o", "spans.json"}}).run(t)
	require.Zero(t, converted.code, converted.stderr)
	require.Contains(t, converted.stdout, "unfinished")
}

// TestNoRoom needs more room than there is, and says so before anything is
// begun.
func TestNoRoom(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh")
	}
	dir := t.TempDir()
	cmd := (&call{dir: dir}).command(t.Context())
	cmd.Path, cmd.Args = sh, []string{"sh", "-c", `ulimit -f 8 && exec "$0" prove --backend sim --out run`, program}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	require.Equal(t, "provetrace: cannot write to run: file too large\n", string(out))
	require.Empty(t, names(t, dir))
}

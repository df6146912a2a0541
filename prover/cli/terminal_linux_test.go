package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/convert/report/terminaltest"
)

// onTerminal calls prove on a terminal, interrupts it where that is asked for
// once a text is to be seen, and returns what was written.
func onTerminal(t *testing.T, seen string, interrupt bool, args ...string) string {
	t.Helper()
	term := terminaltest.New(t)
	cmd := (&call{dir: t.TempDir(), env: []string{"TERM=xterm", "NO_COLOR=1"}, args: append([]string{"prove"}, args...)}).command(t.Context())
	cmd.Stdout, cmd.Stderr = term.File, term.File
	require.NoError(t, cmd.Start())
	for !strings.Contains(term.Written(), seen) {
		time.Sleep(10 * time.Millisecond)
	}
	if interrupt {
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
	}
	_ = cmd.Wait()
	return term.All()
}

// TestProgress shows how far things are, and leaves nothing of it.
func TestProgress(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	out := onTerminal(t, "", false, "--sectors", "1", "--partitions", "4", "--nodes", "4", "--challenges", "1", "--keys", keys)
	for _, seen := range []string{" making development keys of ", "proving 0/1 sectors, device ", "% busy", "/4)"} {
		require.Contains(t, out, seen)
	}
	for frame := range strings.SplitSeq(out, "\r") {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.Trim(frame, " \n")), 80, "%q", frame)
	}
	lines := terminaltest.Shown(out)
	require.Equal(t, "1 of 1 sectors proved on cpu, in 4 partitions each, and verified", lines[0])
	for _, line := range lines {
		require.NotContains(t, line, "proving ")
		require.NotContains(t, line, "keys of ")
	}
}

// TestInterruptOnATerminal leaves no bar either.
func TestInterruptOnATerminal(t *testing.T) {
	out := onTerminal(t, "% busy", true, "--backend", "sim", "--time-scale", "100")
	lines := terminaltest.Shown(out)
	require.True(t, strings.HasPrefix(lines[0], "0 of 3 sectors simulated"), "%q", lines[0])
	require.Equal(t, "provetrace: interrupted: 0 of 3 sectors are proved", lines[len(lines)-2])
	require.NotContains(t, strings.Join(lines, "\n"), "% busy")
}

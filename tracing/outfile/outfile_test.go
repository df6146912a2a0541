package outfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReplace holds that a file appears under its name only when it is whole,
// readable by no more people than the one that it replaces.
func TestReplace(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, os.WriteFile(name, []byte("old"), 0o600))
	f, err := Create("the report", name)
	require.NoError(t, err)
	_, err = f.Write([]byte("new"))
	require.NoError(t, err)
	require.Equal(t, "old", read(t, name))
	require.NoError(t, f.Close())
	require.Equal(t, "new", read(t, name))
	if runtime.GOOS != "windows" {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	}
	requireAlone(t, name)
}

// TestLong holds that a file of which the system writes parts early is whole.
func TestLong(t *testing.T) {
	name := filepath.Join(t.TempDir(), "spans.json")
	f, err := Create("spans", name)
	require.NoError(t, err)
	line := bytes.Repeat([]byte("0123456789abcde\n"), 1<<12+1)
	lines := 2*stretch/len(line) + 2
	for range lines {
		_, err := f.Write(line)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	require.True(t, read(t, name) == strings.Repeat(string(line), lines))
	requireAlone(t, name)
}

func TestAbort(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, os.WriteFile(name, []byte("old"), 0o600))
	f, err := Create("the report", name)
	require.NoError(t, err)
	_, err = f.Write([]byte("new"))
	require.NoError(t, err)
	because := errors.New("because")
	require.ErrorIs(t, f.Abort(because), because)
	require.Equal(t, "old", read(t, name))
	requireAlone(t, name)
}

func read(t *testing.T, name string) string {
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(b)
}

func requireAlone(t *testing.T, name string) {
	entries, err := os.ReadDir(filepath.Dir(name))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

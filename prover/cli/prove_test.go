package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/provetrace/provetrace/prover"
)

// TestNothingGoesOn proves in this process, and is interrupted: nothing goes on
// after that.
func TestNothingGoesOn(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer null.Close()
	for _, interrupted := range []bool{false, true} {
		var o options
		c := new(cobra.Command)
		o.flags(c)
		require.NoError(t, c.ParseFlags(append(simulated, "--out", filepath.Join(t.TempDir(), "run"))))
		require.NoError(t, o.check(c.Flags()))
		ctx, cancel := context.WithCancel(t.Context())
		if interrupted {
			cancel()
		}
		err := o.prove(ctx, null, null)
		cancel()
		if interrupted {
			require.ErrorIs(t, err, errInterrupted)
		} else {
			require.NoError(t, err)
		}
		goleak.VerifyNone(t, leaks)
	}
}

// TestJudge tells why sectors failed, but not of each of many.
func TestJudge(t *testing.T) {
	full := errors.New("cannot write proofs to run: no space is left")
	p := &proving{}
	for n := range 30 {
		s := newSector(uint64(n+1), nil)
		switch {
		case n%2 == 0:
			s.err = fmt.Errorf("prover: job %q: out of memory", s.job.ID)
		case n%3 == 0:
			s.err = fmt.Errorf("prover: job %q: %w", s.job.ID, errInterrupted)
		default:
			s.stored = full
		}
		close(s.done)
		p.sectors = append(p.sectors, s)
	}
	p.judge(t.Context())
	var texts []string
	for _, err := range p.failures {
		texts = append(texts, err.Error())
	}
	var want []string
	for n := 1; n <= 15; n += 2 {
		want = append(want, fmt.Sprintf(`job "porep-1000-%d": out of memory`, n))
	}
	require.Equal(t, append(want, "7 more sectors have failed", full.Error()), texts)
	require.Equal(t, 10, p.countProved())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.failures = nil
	p.judge(ctx)
	require.EqualError(t, p.failures[0], "interrupted: 10 of 30 sectors are proved")
}

func TestByteSize(t *testing.T) {
	for text, want := range map[string]struct {
		bytes int64
		shown string
	}{
		"0": {0, "0 bytes"}, "1023": {1023, "1023 bytes"}, "1KiB": {1024, "1.0 KiB"}, "1.5 GiB": {3 << 29, "1.5 GiB"},
		"512MiB": {512 << 20, "512.0 MiB"}, "3TiB": {3 << 40, "3.0 TiB"},
	} {
		var b byteSize
		require.NoError(t, b.UnmarshalText([]byte(text)))
		require.EqualValues(t, want.bytes, b, text)
		require.Equal(t, want.shown, b.String())
		again, err := b.MarshalText()
		require.NoError(t, err)
		require.NoError(t, b.UnmarshalText(again))
		require.EqualValues(t, want.bytes, b, text)
	}
	for _, text := range []string{"", "MiB", "-1", "1MB", "1 gib", "NaN", "Inf", "1e30TiB", "9223372036854775807KiB"} {
		require.Error(t, new(byteSize).UnmarshalText([]byte(text)), text)
	}
}

// TestSentence leaves out the name of a package, and nothing else.
func TestSentence(t *testing.T) {
	inner := fmt.Errorf("prover: job %q: %w", "porep-1000-1", prover.ErrClosed)
	err := sentence(inner)
	require.EqualError(t, err, `job "porep-1000-1": the pipeline is closed`)
	require.ErrorIs(t, err, prover.ErrClosed)
	plainly := errors.New("no package: here")
	require.Equal(t, plainly, sentence(plainly))
}

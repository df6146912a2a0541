package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/provetrace/provetrace/convert/report/terminaltest"
)

// TestProgress shows a bar on a terminal while a slow input is read, and nothing
// of it is left in the end.
func TestProgress(t *testing.T) {
	for name, text := range map[string]string{
		"pipe": "reading pipe", strings.Repeat("a-long-name-", 18): "reading a-long-name-",
		"\x1b[31m\n\u202e.log": `reading \x1b[31m\n\u202e.log`,
	} {
		dir := workspace(t, "failure")
		pipe := filepath.Join(dir, name)
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		term := terminaltest.New(t)
		cmd := (&call{dir: dir, args: []string{"convert", name, "-o", "spans.json"}}).command(t.Context())
		cmd.Env = append(cmd.Env, "TERM=xterm", "NO_COLOR=1")
		cmd.Stdout, cmd.Stderr = term.File, term.File
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		log := get(t, dir, "failure.log")
		if _, err := w.Write(log[:len(log)/2]); err != nil {
			t.Fatal(err)
		}
		for !strings.Contains(term.Written(), text) {
			time.Sleep(10 * time.Millisecond)
		}
		if _, err := w.Write(log[len(log)/2:]); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		out := term.All()
		for frame := range strings.SplitSeq(out, "\r") {
			if strings.Contains(frame, "reading ") && utf8.RuneCountInString(frame) > 80 {
				t.Errorf("a bar of %d columns: %q", utf8.RuneCountInString(frame), frame)
			}
		}
		if strings.ContainsAny(out, "\x1b\u202e") {
			t.Errorf("%q reaches the terminal: %q", name, out)
		}
		lines := terminaltest.Shown(out)
		if !strings.Contains(lines[0]+lines[1], ":  5 sectors") && !strings.Contains(lines[0], ": 5 sectors") {
			t.Errorf("the account does not begin the screen:\n%s", strings.Join(lines, "\n"))
		}
		for _, line := range lines {
			if strings.Contains(line, "reading ") {
				t.Errorf("the bar is left on the screen: %q", line)
			}
		}
	}
}

// TestNoProgressWhereThereIsNoTerminal reads as slowly.
func TestNoProgressWhereThereIsNoTerminal(t *testing.T) {
	dir := workspace(t, "failure")
	r, w := io.Pipe()
	log := get(t, dir, "failure.log")
	go func() {
		w.Write(log[:len(log)/2])
		time.Sleep(moment + 5*redraw) // longer than on a terminal
		w.Write(log[len(log)/2:])
		w.Close()
	}()
	c := call{dir: dir, stdin: r, args: []string{"convert", "-", "-o", "spans.json"}}
	if r := c.run(t); r.code != 0 || r.stderr != "" {
		t.Errorf("%+v", r)
	}
}

// TestInterruptOnATerminal leaves no bar in front of the error.
func TestInterruptOnATerminal(t *testing.T) {
	dir := workspace(t)
	term := terminaltest.New(t)
	cmd := (&call{dir: dir, stdin: endless(t, nil), args: []string{"convert", "-", "-o", "spans.json"}}).command(t.Context())
	cmd.Stderr = term.File
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(term.Written(), "reading standard input") {
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	lines := terminaltest.Shown(term.All())
	if len(lines) != 2 || lines[0] != "provetrace: interrupted" {
		t.Errorf("the screen shows %q", lines)
	}
	if _, err := os.Stat(filepath.Join(dir, "spans.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a file: %v", err)
	}
}

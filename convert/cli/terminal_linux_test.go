package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// A terminal is a pseudo terminal of 80 columns. What is written to it is kept.
type terminal struct {
	*os.File // the end that the command has

	mu   sync.Mutex
	text bytes.Buffer
	done chan struct{}
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo terminals: ", err)
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo terminals: ", err)
	}
	term := &terminal{File: slave, done: make(chan struct{})}
	go func() {
		defer close(term.done)
		defer master.Close()
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			term.mu.Lock()
			term.text.Write(buf[:n])
			term.mu.Unlock()
			if err != nil { // EIO once no process has the other end
				return
			}
		}
	}()
	return term
}

func (term *terminal) written() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.text.String()
}

// all returns what was written, once all processes are done with it.
func (term *terminal) all() string {
	term.Close()
	<-term.done
	return term.written()
}

// shown returns the lines that a terminal shows at the end: a carriage return
// goes back to the beginning of the line.
func shown(text string) []string {
	lines := []string{}
	for line := range strings.SplitSeq(text, "\n") {
		var cells []rune
		at := 0
		for _, c := range line {
			if c == '\r' {
				at = 0
				continue
			}
			if at == len(cells) {
				cells = append(cells, c)
			} else {
				cells[at] = c
			}
			at++
		}
		lines = append(lines, strings.TrimRight(string(cells), " "))
	}
	return lines
}

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
		term := newTerminal(t)
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
		for !strings.Contains(term.written(), text) {
			time.Sleep(10 * time.Millisecond)
		}
		if _, err := w.Write(log[len(log)/2:]); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		out := term.all()
		for frame := range strings.SplitSeq(out, "\r") {
			if strings.Contains(frame, "reading ") && utf8.RuneCountInString(frame) > 80 {
				t.Errorf("a bar of %d columns: %q", utf8.RuneCountInString(frame), frame)
			}
		}
		if strings.ContainsAny(out, "\x1b\u202e") {
			t.Errorf("%q reaches the terminal: %q", name, out)
		}
		lines := shown(out)
		if !strings.Contains(lines[0], ": 5 sectors") {
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
	term := newTerminal(t)
	cmd := (&call{dir: dir, stdin: endless(t, nil), args: []string{"convert", "-", "-o", "spans.json"}}).command(t.Context())
	cmd.Stderr = term.File
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(term.written(), "reading standard input") {
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	lines := shown(term.all())
	if len(lines) != 2 || lines[0] != "provetrace: interrupted" {
		t.Errorf("the screen shows %q", lines)
	}
	if _, err := os.Stat(filepath.Join(dir, "spans.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a file: %v", err)
	}
}

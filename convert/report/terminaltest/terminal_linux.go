// Package terminaltest has a pseudo terminal for tests of what is shown on one.
package terminaltest

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A Terminal is a pseudo terminal of 80 columns. What is written to it is kept.
type Terminal struct {
	*os.File // the end that the command has

	mu   sync.Mutex
	text bytes.Buffer
	done chan struct{}
}

// New returns a terminal, or skips the test where there can be none.
func New(t testing.TB) *Terminal {
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
	term := &Terminal{File: slave, done: make(chan struct{})}
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

// Written returns what was written so far.
func (term *Terminal) Written() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.text.String()
}

// All returns what was written, once all processes are done with it.
func (term *Terminal) All() string {
	term.Close()
	<-term.done
	return term.Written()
}

// Shown returns the lines that a terminal shows in the end of a text: a carriage
// return goes back to the beginning of the line.
func Shown(text string) []string {
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

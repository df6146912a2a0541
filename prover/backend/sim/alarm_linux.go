package sim

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A timerFD is an alarm by a timer of the kernel that the runtime polls as a
// file: timerfd_create(2). It is late by some 50 µs.
type timerFD struct {
	file *os.File
	fd   int
}

func newAlarm() alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newTimer() // late, but right
	}
	return &timerFD{os.NewFile(uintptr(fd), "timerfd"), fd}
}

func (t *timerFD) set(d time.Duration) {
	// It fails for no time above zero that there can be; zero would disarm it.
	_ = unix.TimerfdSettime(t.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}, nil)
}

func (t *timerFD) ring() bool {
	var expirations [8]byte
	_, err := t.file.Read(expirations[:])
	return err == nil
}

func (t *timerFD) close() { _ = t.file.Close() }

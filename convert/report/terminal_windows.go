package report

import (
	"os"

	"golang.org/x/sys/windows"
)

// escapesUnderstood makes the console f obey escape sequences, which consoles
// before Windows Terminal do only when asked.
func escapesUnderstood(f *os.File) bool {
	console := windows.Handle(f.Fd())
	var mode uint32
	if windows.GetConsoleMode(console, &mode) != nil {
		return false
	}
	const vt = windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING
	return mode&vt != 0 || windows.SetConsoleMode(console, mode|vt) == nil
}

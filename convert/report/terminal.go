package report

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// DefaultWidth is the number of columns that text is laid out for where
// nothing tells the terminal's.
const DefaultWidth = 100

// Terminal returns the width, in columns, that text written to f should be
// laid out for, and whether it should be coloured.
//
// The width is the terminal's, else that of COLUMNS, else [DefaultWidth].
// Colours are for terminals that understand them, so not for TERM=dumb;
// CLICOLOR_FORCE and FORCE_COLOR ask for them elsewhere too, and NO_COLOR
// overrules everything (https://no-color.org, https://bixense.com/clicolors).
func Terminal(f *os.File) (width int, color bool) {
	fd := int(f.Fd())
	tty := term.IsTerminal(fd)
	if tty {
		if w, _, err := term.GetSize(fd); err == nil {
			width = w
		}
	}
	if width <= 0 {
		width = columns(os.Getenv)
	}
	return width, wantsColor(os.Getenv, tty) && (!tty || escapesUnderstood(f))
}

// FileWidth returns the width, in columns, that text in a file should be laid out
// for: that of COLUMNS, else [DefaultWidth].
func FileWidth() int { return columns(os.Getenv) }

// UTF8Locale reports whether the environment's locale can show more than
// ASCII. One that says nothing is taken to: shells in containers and under
// service managers have none, and the terminals in front of them can.
func UTF8Locale() bool {
	return runtime.GOOS == "windows" || utf8Locale(os.Getenv)
}

func columns(getenv func(string) string) int {
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return DefaultWidth
}

func wantsColor(getenv func(string) string, tty bool) bool {
	if getenv("NO_COLOR") != "" {
		return false
	}
	for _, name := range []string{"CLICOLOR_FORCE", "FORCE_COLOR"} {
		switch getenv(name) {
		case "", "0", "false":
		default:
			return true
		}
	}
	return tty && getenv("TERM") != "dumb"
}

func utf8Locale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(name); v != "" {
			v = strings.ToUpper(v)
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return true
}

// Sanitize returns s such that a terminal shows it and does nothing else.
// Bytes that are not UTF-8, control characters and everything else without an
// image of its own (escape sequences, bidirectional overrides, joiners, tags)
// become visible escapes such as \x1b and \u202e. Sanitizing twice changes
// nothing more.
func Sanitize(s string) string {
	if plain(s) {
		return s
	}
	return string(AppendSanitized(nil, s))
}

// AppendSanitized appends what [Sanitize] returns for s to dst.
func AppendSanitized(dst []byte, s string) []byte {
	if plain(s) {
		return append(dst, s...)
	}
	state := -1
	for s != "" {
		var cluster string
		cluster, s, _, state = uniseg.FirstGraphemeClusterInString(s, state)
		dst = appendCluster(dst, cluster)
	}
	return dst
}

// maxCluster is the number of code points that may share a character's cells.
// Scripts need a few; more are piled up to write over neighbouring lines.
const maxCluster = 5

func appendCluster(dst []byte, cluster string) []byte {
	shown := 0
	for cluster != "" {
		r, n := utf8.DecodeRuneInString(cluster)
		// A mark without its base would change what stands before the string.
		bare := shown == 0 && unicode.Is(unicode.M, r)
		switch {
		case r == utf8.RuneError && n == 1:
			dst = fmt.Appendf(dst, `\x%02x`, cluster[0])
		case !bare && shown < maxCluster && visible(r):
			dst = append(dst, cluster[:n]...)
			shown++
		default:
			dst = appendEscaped(dst, r)
		}
		cluster = cluster[n:]
	}
	return dst
}

func appendEscaped(dst []byte, r rune) []byte {
	switch {
	case r == '\n':
		return append(dst, `\n`...)
	case r == '\r':
		return append(dst, `\r`...)
	case r == '\t':
		return append(dst, `\t`...)
	case r < utf8.RuneSelf:
		return fmt.Appendf(dst, `\x%02x`, r)
	case r <= 0xffff:
		return fmt.Appendf(dst, `\u%04x`, r)
	default:
		return fmt.Appendf(dst, `\U%08x`, r)
	}
}

// visible reports whether r is printed, and by all terminals in the same
// number of cells: a variation selector is not, though a mark.
func visible(r rune) bool {
	return unicode.IsPrint(r) &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) &&
		r != '\u2800' // a Braille cell without dots
}

// plain reports whether s is printable ASCII, as nearly every job id is.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Fit returns s sanitized and, where it takes more columns of a terminal, cut
// to width with an ellipsis, of which both are ASCII where the locale is.
func Fit(s string, width int) string { return fit(s, width, !UTF8Locale()) }

// Column returns s, sanitized, cut and filled up with blanks to a width.
func Column(s string, width int) string {
	s = Fit(s, width)
	return s + strings.Repeat(" ", max(0, width-textWidth(s)))
}

// Middle returns what [Fit] does, but keeps the end too, which of a file's path
// tells most.
func Middle(s string, width int) string { return middle(s, width, !UTF8Locale()) }

func middle(s string, width int, ascii bool) string {
	const narrowest = 12
	width = max(width, narrowest)
	s = Sanitize(s)
	if ascii {
		s = escapeNonASCII(s)
	}
	total := textWidth(s)
	if total <= width {
		return s
	}
	front := fit(s, width/3, ascii)
	room := width - textWidth(front)
	for state := -1; total > room; {
		var w int
		_, s, w, state = uniseg.FirstGraphemeClusterInString(s, state)
		total -= w
	}
	return front + s
}

// fit is [Fit], for terminals that show ASCII only or more.
func fit(s string, width int, ascii bool) string {
	if width <= 0 {
		return ""
	}
	// No more of a long string is looked at than can be shown: a column holds
	// at most maxCluster code points of 4 bytes.
	most := (width + 1) * maxCluster * utf8.UTFMax
	cut := len(s) > most
	if cut {
		s = s[:most]
	}
	s = Sanitize(s)
	ellipsis := "…"
	if ascii {
		s, ellipsis = escapeNonASCII(s), "~"
	}
	if !cut && textWidth(s) <= width {
		return s
	}
	room := width - 1
	var b strings.Builder
	for state := -1; s != ""; {
		var cluster string
		var w int
		cluster, s, w, state = uniseg.FirstGraphemeClusterInString(s, state)
		if room -= w; room < 0 {
			break
		}
		b.WriteString(cluster)
	}
	return b.String() + ellipsis
}

func escapeNonASCII(s string) string {
	if plain(s) {
		return s
	}
	var b []byte
	for _, r := range s {
		if r < utf8.RuneSelf {
			b = append(b, byte(r))
		} else {
			b = appendEscaped(b, r)
		}
	}
	return string(b)
}

// textWidth returns the columns that s takes in a terminal.
func textWidth(s string) int {
	if plain(s) {
		return len(s)
	}
	return uniseg.StringWidth(s)
}

package report

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
)

// A style is the SGR parameters of a stage: colours of the terminal's own
// palette, which its user has chosen to be readable.
type style string

const (
	styleNone      style = ""
	styleBold      style = "1"
	styleSynthesis style = "36" // cyan
	styleBoth      style = "32"
	styleProving   style = "32" // green
	styleDim       style = "2"
	styleFailed    style = "1;31" // bold red
)

// A pen collects lines of text in styles.
type pen struct {
	width   int // columns
	color   bool
	out     bytes.Buffer
	current style
	blanks  int // before what comes next on the line
}

// put writes text in a style.
func (p *pen) put(s style, text string) {
	if text == "" {
		return
	}
	p.setStyle(s)
	p.out.WriteString(text)
}

func (p *pen) putRune(s style, r rune) {
	p.setStyle(s)
	p.out.WriteRune(r)
}

func (p *pen) setStyle(s style) {
	if p.blanks > 0 {
		n := p.blanks
		p.blanks = 0
		p.put(styleNone, strings.Repeat(" ", n))
	}
	if !p.color || s == p.current {
		return
	}
	if p.current != styleNone {
		p.out.WriteString("\x1b[0m")
	}
	if s != styleNone {
		fmt.Fprintf(&p.out, "\x1b[%sm", string(s))
	}
	p.current = s
}

// pad leaves columns blank, if something follows on the line.
func (p *pen) pad(n int) { p.blanks += max(n, 0) }

func (p *pen) endLine() {
	p.blanks = 0
	p.setStyle(styleNone)
	p.out.WriteByte('\n')
}

// note writes a sentence that is not so important.
func (p *pen) note(text string) { p.sentence(styleDim, text) }

// maxLine is how many columns a line of words takes at most, to be read easily.
const maxLine = 110

// sentence writes a sentence over as many lines as it needs.
func (p *pen) sentence(s style, text string) {
	for line := range Wrapped(text, min(p.width, maxLine)) {
		p.put(s, line)
		p.endLine()
	}
}

// Wrapped yields the words of a text in lines of at most some columns, as far
// as no word is longer.
func Wrapped(text string, width int) iter.Seq[string] {
	return func(yield func(string) bool) {
		line, at := "", 0
		for word := range strings.FieldsSeq(text) {
			n := textWidth(word)
			switch {
			case at == 0:
				line, at = word, n
			case at+1+n <= width:
				line, at = line+" "+word, at+1+n
			default:
				if !yield(line) {
					return
				}
				line, at = word, n
			}
		}
		yield(line)
	}
}

// An item is a piece of text that stays on one line, after a glyph if it has
// one.
type item struct {
	style style
	glyph rune
	text  string
}

// wrap writes the items, their texts in a style, as many a line as fit.
func (p *pen) wrap(sep string, s style, items ...item) {
	at := 0
	for _, it := range items {
		n := textWidth(it.text)
		if it.glyph != 0 {
			n += 2
		}
		switch {
		case at == 0:
		case at+len(sep)+n > p.width:
			p.endLine()
			at = 0
		default:
			p.put(styleNone, sep)
			at += len(sep)
		}
		if it.glyph != 0 {
			p.putRune(it.style, it.glyph)
			p.put(styleNone, " ")
		}
		p.put(s, it.text)
		at += n
	}
	p.endLine()
}

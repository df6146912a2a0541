package timeline

import "bytes"

const esc = 0x1b

// StripANSI appends src without its ANSI escape sequences (ECMA-48: CSI, OSC
// and the other control strings, two-byte escapes) to dst and returns the
// extended slice. A sequence that src ends inside is dropped as far as it
// goes; of a control string without an end only the introducer is. dst may be
// src[:0].
func StripANSI(dst, src []byte) []byte {
	for {
		i := bytes.IndexByte(src, esc)
		if i < 0 {
			return append(dst, src...)
		}
		dst = append(dst, src[:i]...)
		src = src[i+escapeLen(src[i:]):]
	}
}

// escapeLen returns how many bytes the escape sequence at the start of b
// takes; b[0] is ESC.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	switch c := b[1]; {
	case c == '[':
		i := 2
		for i < len(b) && b[i] >= 0x20 && b[i] <= 0x3f {
			i++
		}
		if i < len(b) && b[i] >= 0x40 && b[i] <= 0x7e {
			i++
		}
		return i
	case c == ']', c == 'P', c == 'X', c == '^', c == '_':
		for i := 2; i < len(b); i++ {
			if b[i] == '\a' {
				return i + 1
			}
			if b[i] == esc {
				if i+1 < len(b) && b[i+1] == '\\' {
					return i + 2
				}
				break
			}
		}
		return 2
	case c >= 0x20 && c <= 0x2f:
		i := 2
		for i < len(b) && b[i] >= 0x20 && b[i] <= 0x2f {
			i++
		}
		if i < len(b) && b[i] >= 0x30 && b[i] <= 0x7e {
			i++
		}
		return i
	case c >= 0x30 && c <= 0x7e:
		return 2
	}
	return 1
}

package timeline

import "testing"

func TestStripANSI(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"plain", "plain"},
		{"\x1b[2m2026\x1b[0m \x1b[38;5;12m INFO\x1b[0m", "2026  INFO"},
		{"a\x1b[?25lb\x1b[2Kc", "abc"},
		{"a\x1b]8;;http://x\x1b\\link\x1b]8;;\ab", "alinkb"},
		{"a\x1bPq#0\x1b\\b", "ab"},
		{"a\x1b(Bb\x1b7c\x1bMd", "abcd"},
		{"a\x1b", "a"},
		{"a\x1b[", "a"},
		{"a\x1b[1;3", "a"},
		{"a\x1b[1\nb", "a\nb"},
		{"a\x1b(", "a"},
		{"a\x1b]no end", "ano end"},
		{"a\x1b]no end\x1b[1mb", "ano endb"},
		{"a\x1b\nb", "a\nb"},
		{"a\x1b\x1b[1mb", "ab"},
		{"é\x1b[1mü", "éü"},
	} {
		if got := string(StripANSI([]byte(">"), []byte(tt.in))); got != ">"+tt.want {
			t.Errorf("%q gives %q, want %q", tt.in, got, ">"+tt.want)
		}
		b := []byte(tt.in)
		if got := string(StripANSI(b[:0], b)); got != tt.want {
			t.Errorf("%q in place gives %q, want %q", tt.in, got, tt.want)
		}
	}
}

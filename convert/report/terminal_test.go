package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestSanitize(t *testing.T) {
	for in, want := range map[string]string{
		"":                                "",
		"porep-1000-4200":                 "porep-1000-4200",
		"\x1b[31mred\x1b[0m":              `\x1b[31mred\x1b[0m`,
		"\x1b]8;;http://x\x07":            `\x1b]8;;http://x\x07`,
		"a\r\n\tb\x00\x7f":                `a\r\n\tb\x00\x7f`,
		"\u009b31m":                       `\u009b31m`,
		"\x9b31m":                         `\x9b31m`,
		"ab\u202ecd\u202c":                `ab\u202ecd\u202c`,
		"\u2066x\u2069\u200f":             `\u2066x\u2069\u200f`,
		"a\u200bb\ufeff\u00ad":            `a\u200bb\ufeff\u00ad`,
		"\u2028\u2029\u00a0":              `\u2028\u2029\u00a0`,
		"\U000e0041":                      `\U000e0041`,
		"\ue000\u3164\u2800":              `\ue000\u3164\u2800`,
		"\xc3\x28\xed\xa0\x80":            `\xc3(\xed\xa0\x80`,
		"\ufffd":                          "\ufffd",
		"証明 é e\u0301 ☃":                  "証明 é e\u0301 ☃",
		"\u0301a":                         `\u0301a`,
		"a\ufe0f":                         `a\ufe0f`,
		"z" + strings.Repeat("\u0301", 6): "z" + strings.Repeat("\u0301", 4) + `\u0301\u0301`,
		`back\slash`:                      `back\slash`,
	} {
		got := Sanitize(in)
		if got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
		if again := Sanitize(got); again != got {
			t.Errorf("%q: sanitizing twice gives %q, then %q", in, got, again)
		}
		if got := string(AppendSanitized([]byte("x="), in)); got != "x="+want {
			t.Errorf("%q: appended %q", in, got)
		}
	}
}

func TestFit(t *testing.T) {
	for _, test := range []struct {
		in    string
		width int
		want  string
	}{
		{"sector", 6, "sector"},
		{"sectors", 6, "secto…"},
		{"sector", 1, "…"},
		{"sector", 0, ""},
		{"sector", -1, ""},
		{"証明証明", 8, "証明証明"},
		{"証明証明", 7, "証明証…"},
		{"証明証明", 6, "証明…"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
		{"\x1b\x1b", 8, `\x1b\x1b`},
		{"\x1b\x1b", 6, `\x1b\…`},
		{"z" + strings.Repeat("\u0301", 1<<20), 8, "z\u0301\u0301\u0301\u0301" + `\u0301…`},
		{strings.Repeat("x", 1<<20), 4, "xxx…"},
	} {
		if got := Fit(test.in, test.width); got != test.want {
			t.Errorf("%.20q in %d columns: got %q, want %q", test.in, test.width, got, test.want)
		}
	}
	for _, test := range []struct {
		in    string
		width int
		want  string
	}{
		{"runs/bench.log", 14, "runs/bench.log"},
		{"/var/log/runs/bench.log", 16, "/var…s/bench.log"},
		{"/var/log/証明/証明証明.log", 15, "/var…明証明.log"},
		{"/var/log/bench.log", 0, "/va…ench.log"},
	} {
		if got := Middle(test.in, test.width); got != test.want {
			t.Errorf("%q in %d columns: got %q, want %q", test.in, test.width, got, test.want)
		}
	}
	if got := fit("né-ok", 20, true); got != `n\u00e9-ok` {
		t.Errorf("ASCII: got %q", got)
	}
	if got := fit("né-too-long", 8, true); got != `n\u00e9~` {
		t.Errorf("ASCII: got %q", got)
	}
}

func FuzzSanitize(f *testing.F) {
	for _, s := range []string{
		"porep-1000-4200", "\x1b[2J", "\u202eabc", "\xff\xfe", "e\u0301\u0301", "👨\u200d👩\u200d👧", "🇨🇭🇨", "\u1100\u1161\u11a8",
		"\r\n", "a\ufe0f", "\u0e33", "\u0915\u094d\u0937",
	} {
		f.Add(s, 8)
	}
	f.Fuzz(func(t *testing.T, s string, width int) {
		got := Sanitize(s)
		if !utf8.ValidString(got) {
			t.Fatalf("not UTF-8: %q", got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) || unicode.In(r, unicode.Bidi_Control, unicode.Cc, unicode.Cf) {
				t.Fatalf("%U is left in %q", r, got)
			}
		}
		if again := Sanitize(got); again != got {
			t.Fatalf("sanitizing twice gives %q, then %q", got, again)
		}
		width %= 1000
		for _, ascii := range []bool{false, true} {
			cut := fit(s, width, ascii)
			if n := textWidth(cut); n > max(width, 0) {
				t.Fatalf("%q takes %d columns of %d", cut, n, width)
			}
			if ascii && !plain(cut) {
				t.Fatalf("%q is not ASCII", cut)
			}
		}
	})
}

func TestTerminalOfFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, name := range []string{"NO_COLOR", "CLICOLOR_FORCE", "FORCE_COLOR"} {
		t.Setenv(name, "")
	}
	t.Setenv("COLUMNS", "132")
	if width, color := Terminal(f); width != 132 || color {
		t.Errorf("got %d columns, colour %t; want COLUMNS' 132 without", width, color)
	}
	t.Setenv("COLUMNS", "")
	t.Setenv("FORCE_COLOR", "1")
	if width, color := Terminal(f); width != DefaultWidth || !color {
		t.Errorf("got %d columns, colour %t; want %d with", width, color, DefaultWidth)
	}
}

func TestEnvironment(t *testing.T) {
	for _, test := range []struct {
		env   string
		color bool // on a terminal
		file  bool // colours elsewhere
		utf8  bool
		width int
	}{
		{"", true, false, true, DefaultWidth},
		{"TERM=xterm-256color LANG=en_US.UTF-8 COLUMNS=72", true, false, true, 72},
		{"TERM=dumb LANG=C COLUMNS=0", false, false, false, DefaultWidth},
		{"NO_COLOR=1 FORCE_COLOR=1 LANG=de_CH.utf8 COLUMNS=wide", false, false, true, DefaultWidth},
		{"CLICOLOR_FORCE=1 LC_ALL=POSIX LANG=en_US.UTF-8", true, true, false, DefaultWidth},
		{"FORCE_COLOR=0 LC_CTYPE=ja_JP.eucJP COLUMNS=-4", true, false, false, DefaultWidth},
	} {
		env := map[string]string{}
		for kv := range strings.FieldsSeq(test.env) {
			k, v, _ := strings.Cut(kv, "=")
			env[k] = v
		}
		getenv := func(name string) string { return env[name] }
		if got := wantsColor(getenv, true); got != test.color {
			t.Errorf("%q: colour on a terminal: %t", test.env, got)
		}
		if got := wantsColor(getenv, false); got != test.file {
			t.Errorf("%q: colour elsewhere: %t", test.env, got)
		}
		if got := utf8Locale(getenv); got != test.utf8 {
			t.Errorf("%q: UTF-8: %t", test.env, got)
		}
		if got := columns(getenv); got != test.width {
			t.Errorf("%q: %d columns", test.env, got)
		}
	}
}

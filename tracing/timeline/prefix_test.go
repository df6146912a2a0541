package timeline

import (
	"testing"
	"time"
)

var prefixTests = []struct {
	name       string
	prefix     string
	want       string // RFC 3339; empty: no time
	resolution time.Duration
}{
	{"short", "Feb 18 12:00:01 prover01 cuzk[4242]: ", "2026-02-18T12:00:01Z", time.Second},
	{"short padded day", "Feb  8 12:00:01 prover01 cuzk[4242]: ", "2026-02-08T12:00:01Z", time.Second},
	{"short-precise", "Feb 18 12:00:01.500311 prover01 cuzk[4242]: ", "2026-02-18T12:00:01.500311Z", time.Microsecond},
	{"short last year", "Dec 31 23:59:59 prover01 cuzk[4242]: ", "2025-12-31T23:59:59Z", time.Second},
	{"short leap day", "Feb 29 01:02:03 prover01 cuzk[4242]: ", "2024-02-29T01:02:03Z", time.Second},
	{"short-iso", "2026-02-18T12:00:01+0000 prover01 cuzk[4242]: ", "2026-02-18T12:00:01Z", time.Second},
	{"short-iso east", "2026-02-18T12:00:01+0530 prover01 cuzk[4242]: ", "2026-02-18T06:30:01Z", time.Second},
	{"short-iso-precise", "2026-02-18T12:00:01.500311+0000 prover01 cuzk[4242]: ", "2026-02-18T12:00:01.500311Z", time.Microsecond},
	{"short-iso-precise colon", "2026-02-18T12:00:01.500311-08:00 prover01 cuzk[4242]: ", "2026-02-18T20:00:01.500311Z", time.Microsecond},
	{"short-full", "Wed 2026-02-18 12:00:01 UTC prover01 cuzk[4242]: ", "2026-02-18T12:00:01Z", time.Second},
	{"short-full elsewhere", "Wed 2026-02-18 12:00:01 CET prover01 cuzk[4242]: ", "", 0},
	{"short-unix", "1771426747.123456 prover01 cuzk[4242]: ", "2026-02-18T14:59:07.123456Z", time.Microsecond},
	{"rfc3164", "<34>Feb 18 12:00:01 prover01 cuzk: ", "2026-02-18T12:00:01Z", time.Second},
	{"rfc5424", "<34>1 2026-02-18T12:00:01.003Z prover01 cuzk 4242 - - ", "2026-02-18T12:00:01.003Z", time.Millisecond},
	{"cri", "2026-02-18T12:00:01.500311000Z stderr F ", "2026-02-18T12:00:01.500311Z", time.Nanosecond},
	{"cri offset", "2026-02-18T12:00:01.500311007+01:00 stderr F ", "2026-02-18T11:00:01.500311007Z", time.Nanosecond},
	{"kubectl prefix", "[pod/cuzk-0/cuzk] 2026-02-18T12:00:01.5Z ", "2026-02-18T12:00:01.5Z", 100 * time.Millisecond},
	{"compose", "cuzk-1  | ", "", 0},
	{"compose times", "cuzk-1  | 2026-02-18T12:00:01.500311000Z ", "2026-02-18T12:00:01.500311Z", time.Nanosecond},
	{"compose colours", "\x1b[36mcuzk-1  | \x1b[0m2026-02-18T12:00:01.500311000Z ", "2026-02-18T12:00:01.500311Z", time.Nanosecond},
	{"compose month name", "may-worker-1  | 2026-02-18T12:00:01Z ", "2026-02-18T12:00:01Z", time.Second},
	{"NULs", "\x00\x00\x002026-02-18T12:00:01+0000 prover01 cuzk[4242]: ", "2026-02-18T12:00:01Z", time.Second},
	{"no zone", "2026-02-18 12:00:01,250 ", "2026-02-18T12:00:01.25Z", time.Millisecond},
	{"leap second", "2016-12-31T23:59:60Z ", "2016-12-31T23:59:59Z", time.Second},
	{"more digits than ns", "2026-02-18T12:00:01.1234567899Z ", "2026-02-18T12:00:01.123456789Z", time.Nanosecond},

	{"empty", "", "", 0},
	{"text", "thread 'main' panicked at ", "", 0},
	{"bar in text", "a longer text | and another ", "", 0},
	{"no such day", "2026-02-29T12:00:01Z ", "", 0},
	{"no such month", "2026-13-01T12:00:01Z ", "", 0},
	{"no such hour", "2026-02-18T24:00:01Z ", "", 0},
	{"no such offset", "2026-02-18T12:00:01+2460 ", "", 0},
	{"half an offset", "2026-02-18T12:00:01+1", "", 0},
	{"runs on", "2026-02-18T12:00:01abc", "", 0},
	{"short no such day", "Feb 30 12:00:01 prover01 cuzk: ", "", 0},
	{"short bad clock", "Feb 18 12:0x:01 prover01 cuzk: ", "", 0},
	{"number", "1771426747 prover01 cuzk[4242]: ", "", 0},
	{"priority alone", "<34 Feb 18 12:00:01 prover01", "", 0},
	{"monotonic", "[ 1234.567890] prover01 cuzk: ", "", 0},
}

func TestPrefixTime(t *testing.T) {
	ref := time.Date(2026, 2, 18, 15, 0, 0, 0, time.UTC)
	for _, tt := range prefixTests {
		t.Run(tt.name, func(t *testing.T) {
			r := Record{Prefix: []byte(tt.prefix)}
			got, resolution, ok := r.PrefixTime(ref)
			if ok != (tt.want != "") {
				t.Fatalf("ok = %v, time %v", ok, got)
			}
			if !ok {
				if !got.IsZero() || resolution != 0 {
					t.Errorf("no time, but %v to %v", got, resolution)
				}
				return
			}
			want, err := time.Parse(time.RFC3339Nano, tt.want)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Equal(want) || got.Location() != time.UTC || resolution != tt.resolution {
				t.Errorf("got %v to %v, want %v to %v", got, resolution, want, tt.resolution)
			}
		})
	}
}

// The year of a time without one is the latest that does not put it more than
// a day after ref.
func TestPrefixTimeYear(t *testing.T) {
	date := func(s string) time.Time {
		d, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, tt := range []struct{ prefix, ref, want string }{
		{"Jan  1 00:00:10 host x: ", "2025-12-31T23:59:00Z", "2026-01-01T00:00:10Z"},
		{"Dec 31 23:59:59 host x: ", "2026-01-01T00:10:00Z", "2025-12-31T23:59:59Z"},
		{"Feb 19 12:00:00 host x: ", "2026-02-18T12:00:00Z", "2026-02-19T12:00:00Z"},
		{"Feb 19 12:00:01 host x: ", "2026-02-18T12:00:00Z", "2025-02-19T12:00:01Z"},
		{"Feb 29 12:00:00 host x: ", "2103-06-01T00:00:00Z", "2096-02-29T12:00:00Z"},
	} {
		r := Record{Prefix: []byte(tt.prefix)}
		got, _, ok := r.PrefixTime(date(tt.ref))
		if want := date(tt.want); !ok || !got.Equal(want) {
			t.Errorf("%q by %s: got %v, %v, want %v", tt.prefix, tt.ref, got, ok, want)
		}
	}
	r := Record{Prefix: []byte("Feb 18 12:00:00 host x: ")}
	if got, _, ok := r.PrefixTime(time.Time{}); ok {
		t.Errorf("without a ref: got %v", got)
	}
}

func TestPrefixTimeOfText(t *testing.T) {
	r := Record{Type: TextRecord, Text: []byte("2026-02-18T14:59:07.123856Z  INFO cuzk_daemon: starting")}
	got, resolution, ok := r.PrefixTime(time.Time{})
	want := time.Date(2026, 2, 18, 14, 59, 7, 123856000, time.UTC)
	if !ok || !got.Equal(want) || resolution != time.Microsecond {
		t.Errorf("got %v to %v, %v", got, resolution, ok)
	}
}

func TestParseTime(t *testing.T) {
	for _, tt := range []struct {
		in string
		n  int
	}{
		{"2026-02-18T14:59:07.123856Z  INFO", 27},
		{"2026-02-18T14:59:07Z", 20},
		{"2026-02-18T14:59:07", 19},
		{"2026-02-18T14:59:07.", 19},
		{"2026-02-18T14:59:07+00:00]", 25},
		{"2026-02-18T14:59:07+00: x", 22},
	} {
		got, n, _, ok := ParseTime([]byte(tt.in))
		if !ok || n != tt.n {
			t.Errorf("%q: %v, %d bytes, %v; want %d", tt.in, got, n, ok, tt.n)
		}
	}
}

func TestParseTimeAgreesWithStd(t *testing.T) {
	for _, layout := range []string{time.RFC3339, time.RFC3339Nano} {
		for d := time.Date(1600, 1, 1, 0, 0, 0, 123456789, time.UTC); d.Year() < 2500; d = d.Add(1234567*time.Second + 1) {
			s := d.Format(layout)
			want, err := time.Parse(layout, s)
			if err != nil {
				t.Fatal(err)
			}
			got, n, _, ok := ParseTime([]byte(s))
			if !ok || n != len(s) || !got.Equal(want) {
				t.Fatalf("%s: got %v, %d, %v", s, got, n, ok)
			}
		}
	}
}

func TestPrefixTimeAllocs(t *testing.T) {
	ref := time.Date(2026, 2, 18, 15, 0, 0, 0, time.UTC)
	for _, tt := range prefixTests {
		r := Record{Prefix: []byte(tt.prefix)}
		if n := testing.AllocsPerRun(10, func() { r.PrefixTime(ref) }); n != 0 {
			t.Errorf("%s: %v allocations", tt.name, n)
		}
	}
}

func FuzzPrefixTime(f *testing.F) {
	for _, tt := range prefixTests {
		f.Add([]byte(tt.prefix))
	}
	ref := time.Date(2026, 2, 18, 15, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, b []byte) {
		got, resolution, ok := (&Record{Prefix: b}).PrefixTime(ref)
		if ok != (resolution > 0) || !ok && !got.IsZero() {
			t.Errorf("%q: %v to %v, %v", b, got, resolution, ok)
		}
		if got, n, _, ok := ParseTime(b); ok {
			if n < 19 || n > len(b) || got.Location() != time.UTC {
				t.Errorf("%q: %v in %d bytes", b, got, n)
			}
			// Where the standard library takes it too, the two agree.
			if want, err := time.Parse(time.RFC3339, string(b[:n])); err == nil && !got.Equal(want) {
				t.Errorf("%q: %v, the standard library says %v", b, got, want)
			}
		}
	})
}

package timeline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// show returns the record as a line of text: its number, and for an event the
// canonical line, with + before it if it was stitched and its prefix after it.
func show(r *Record) string {
	switch r.Type {
	case EventRecord:
		s := strings.TrimSuffix(string(r.Event.AppendTo(nil)), "\n")
		if r.Stitched {
			s = "+" + s
		}
		if len(r.Prefix) > 0 {
			s += fmt.Sprintf(" after %q", r.Prefix)
		}
		return fmt.Sprintf("%d %s", r.Line, s)
	case MalformedRecord:
		return fmt.Sprintf("%d ! %s: %q", r.Line, r.Problem, r.Text)
	default:
		return fmt.Sprintf("%d | %q", r.Line, r.Text)
	}
}

// scan returns what show says of each record.
func scan(t testing.TB, src io.Reader, keepText bool) ([]string, Stats) {
	t.Helper()
	var got []string
	r := NewReader(src, "test.log")
	r.KeepText(keepText)
	for r.Scan() {
		got = append(got, show(r.Record()))
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return got, r.Stats()
}

const (
	start1 = "TIMELINE,1500,SYNTH_START,job,partition=1"
	start2 = "TIMELINE,1501,SYNTH_START,job,partition=2"
	gpuEnd = "TIMELINE,47435,GPU_END,job,worker=0,partition=5,gpu_ms=6449"
	engine = "2026-02-18T14:59:07.123856Z  INFO cuzk_daemon: starting"
	ansi   = "\x1b[2m2026-02-18T14:59:07.123856Z\x1b[0m \x1b[32m INFO\x1b[0m \x1b[2mcuzk_daemon\x1b[0m\x1b[2m:\x1b[0m starting"
	cuda   = "CUZK_TIMING: gpu_tid=0 ntt_msm_h_ms=2405"
)

func TestReader(t *testing.T) {
	tests := []struct {
		name string
		log  string
		want []string
	}{
		{"empty", "", nil},
		{"newlines", "\n\n", []string{`1 | ""`, `2 | ""`}},
		{
			"every kind",
			"TIMELINE,0,SYNTH_START,a,partition=0\n" +
				"TIMELINE,0,SYNTH_START,b,kind=porep-c2\n" +
				"TIMELINE,1,SYNTH_END,a,partition=0,synth_ms=34609\n" +
				"TIMELINE,1,SYNTH_END,b,synth_ms=1\n" +
				"TIMELINE,2,CHAN_SEND,a,partition=0\n" +
				"TIMELINE,2,CHAN_SEND,b,\n" +
				"TIMELINE,2,GPU_QUEUE,a,partition=12\n" +
				"TIMELINE,2,GPU_QUEUE,b,monolithic\n" +
				"TIMELINE,3,GPU_PICKUP,a,worker=1,partition=0\n" +
				"TIMELINE,3,GPU_PICKUP,b,worker=1\n" +
				"TIMELINE,4,GPU_START,a,worker=1,partition=0\n" +
				"TIMELINE,4,GPU_START,b,worker=1\n" +
				"TIMELINE,5,GPU_END,a,worker=1,partition=0,gpu_ms=1\n" +
				"TIMELINE,999999999999999999,GPU_END,b,worker=1,gpu_ms=999999999999999999\n",
			[]string{
				"1 TIMELINE,0,SYNTH_START,a,partition=0",
				"2 TIMELINE,0,SYNTH_START,b,kind=porep-c2",
				"3 TIMELINE,1,SYNTH_END,a,partition=0,synth_ms=34609",
				"4 TIMELINE,1,SYNTH_END,b,synth_ms=1",
				"5 TIMELINE,2,CHAN_SEND,a,partition=0",
				"6 TIMELINE,2,CHAN_SEND,b,",
				"7 TIMELINE,2,GPU_QUEUE,a,partition=12",
				"8 TIMELINE,2,GPU_QUEUE,b,monolithic",
				"9 TIMELINE,3,GPU_PICKUP,a,worker=1,partition=0",
				"10 TIMELINE,3,GPU_PICKUP,b,worker=1",
				"11 TIMELINE,4,GPU_START,a,worker=1,partition=0",
				"12 TIMELINE,4,GPU_START,b,worker=1",
				"13 TIMELINE,5,GPU_END,a,worker=1,partition=0,gpu_ms=1",
				"14 TIMELINE,999999999999999999,GPU_END,b,worker=1,gpu_ms=999999999999999999",
			},
		},
		{
			"captures",
			"2026-02-18T12:00:01+0000 host cuzk[1]: " + start1 + "\n" +
				"2026-02-18T12:00:01.5Z stderr F " + start1 + "\n" +
				"\x1b[36mcuzk-1  | \x1b[0m" + start1 + "\n" +
				"\x00\x00" + start1 + "\n",
			[]string{
				"1 " + start1 + ` after "2026-02-18T12:00:01+0000 host cuzk[1]: "`,
				"2 " + start1 + ` after "2026-02-18T12:00:01.5Z stderr F "`,
				"3 " + start1 + ` after "\x1b[36mcuzk-1  | \x1b[0m"`,
				"4 " + start1 + ` after "\x00\x00"`,
			},
		},
		{
			"other lines",
			engine + "\n" + start1 + "\n\n" + cuda + "\r\n" + ansi + "\nTIMELINE\n" + start2 + "\ntail",
			[]string{
				`1 | "` + engine + `"`, "2 " + start1, `3 | ""`, `4 | "` + cuda + `"`,
				fmt.Sprintf("5 | %q", ansi), `6 | "TIMELINE"`, "7 " + start2, `8 | "tail"`,
			},
		},
		{"CRLF", start1 + "\r\n" + start2 + "\r\r\n" + gpuEnd + "\r", []string{"1 " + start1, "2 " + start2, "3 " + gpuEnd}},
		{
			"colours",
			"\x1b[33m" + start1 + "\x1b[0m\n" + "TIMELINE,\x1b[1m1501\x1b[0m,SYNTH_START,jo\x1b]0;title\ab,partition=2\n",
			[]string{"1 " + start1 + ` after "\x1b[33m"`, "2 " + start2},
		},
		{
			"binary run behind an event",
			start1 + "\x00\xff\xfe\n" + start2 + "\n",
			[]string{"1 " + start1, `1 | "\x00\xff\xfe"`, "2 " + start2},
		},
		{
			"keys in another order, unknown and repeated",
			"TIMELINE,47435,GPU_END,job,gpu_ms=6449,partition=5,device=3,worker=0,worker=0\n" +
				"TIMELINE,1500,SYNTH_START,job,x=,partition=1\n" +
				"TIMELINE,1500,SYNTH_START,job,partition=1,monolithic\n" +
				"TIMELINE,1500,SYNTH_START,job,partition=1,partition=2\n",
			[]string{
				"1 " + gpuEnd, "2 " + start1, "3 " + start1,
				`4 ! two values for partition: "TIMELINE,1500,SYNTH_START,job,partition=1,partition=2"`,
			},
		},
		{
			"malformed",
			"TIMELINE,\n" +
				"TIMELINE,,SYNTH_START,job,partition=1\n" +
				"TIMELINE,-1,SYNTH_START,job,partition=1\n" +
				"TIMELINE,1.5,SYNTH_START,job,partition=1\n" +
				"TIMELINE,1000000000000000000,SYNTH_START,job,partition=1\n" +
				"TIMELINE,1,FOO\"\x07,job,partition=1\n" +
				"TIMELINE,1,SYNTH_START,,partition=1\n" +
				"TIMELINE,1,SYNTH_START,job,partition=\n" +
				"TIMELINE,1,SYNTH_START,job,partition=x\n" +
				"TIMELINE,1,SYNTH_START,job,partition=1000000000\n" +
				"TIMELINE,1,SYNTH_START,job,\n" +
				"TIMELINE,1,SYNTH_END,job,partition=1\n" +
				"TIMELINE,1,GPU_START,job,partition=1\n" +
				"TIMELINE,1,GPU_END,job,worker=0,partition=1\n" +
				"TIMELINE,1,GPU_QUEUE,job,\n" +
				"TIMELINE,1,CHAN_SEND,job,part\n" +
				"TIMELINE,1,CHAN_SEND,job,stray\n" +
				"    eprintln!(\"TIMELINE,{},{},{},{}\", ms, event, job, detail);\n",
			[]string{
				`1 ! cut short: "TIMELINE,"`,
				`2 ! no offset: "TIMELINE,,SYNTH_START,job,partition=1"`,
				`3 ! the offset is not a whole number: "TIMELINE,-1,SYNTH_START,job,partition=1"`,
				`4 ! the offset is not a whole number: "TIMELINE,1.5,SYNTH_START,job,partition=1"`,
				`5 ! the offset is out of range: "TIMELINE,1000000000000000000,SYNTH_START,job,partition=1"`,
				`6 ! unknown event "FOO\"\a": "TIMELINE,1,FOO\"\a,job,partition=1"`,
				`7 ! no job id: "TIMELINE,1,SYNTH_START,,partition=1"`,
				`8 ! cut short: "TIMELINE,1,SYNTH_START,job,partition="`,
				`9 ! partition is not a whole number: "TIMELINE,1,SYNTH_START,job,partition=x"`,
				`10 ! partition is out of range: "TIMELINE,1,SYNTH_START,job,partition=1000000000"`,
				`11 ! no partition and no kind: "TIMELINE,1,SYNTH_START,job,"`,
				`12 ! no synth_ms: "TIMELINE,1,SYNTH_END,job,partition=1"`,
				`13 ! no worker: "TIMELINE,1,GPU_START,job,partition=1"`,
				`14 ! no gpu_ms: "TIMELINE,1,GPU_END,job,worker=0,partition=1"`,
				`15 ! no partition: "TIMELINE,1,GPU_QUEUE,job,"`,
				`16 ! cut short: "TIMELINE,1,CHAN_SEND,job,part"`,
				`17 ! no value for "stray": "TIMELINE,1,CHAN_SEND,job,stray"`,
				`18 ! the offset is not a whole number: "TIMELINE,{},{},{},{}\", ms, event, job, detail);"`,
			},
		},
		{"last line cut", start1 + "\nTIMELINE,14", []string{"1 " + start1, `2 ! the file ends inside this line: "TIMELINE,14"`}},
		{"last line that may be cut", start1, []string{`1 ! the file ends inside this line: "` + start1 + `"`}},
		{"last line that cannot be cut", "TIMELINE,2,GPU_QUEUE,b,monolithic", []string{"1 TIMELINE,2,GPU_QUEUE,b,monolithic"}},
		{"last line bad anyway", "TIMELINE,x,y", []string{`1 ! the offset is not a whole number: "TIMELINE,x,y"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { testScan(t, tt.log, tt.want) })
	}
}

// testScan holds the log's records against what is wanted, however it is read.
func testScan(t *testing.T, log string, want []string) {
	t.Helper()
	got, stats := scan(t, strings.NewReader(log), true)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	lines := int64(strings.Count(log, "\n"))
	if log != "" && !strings.HasSuffix(log, "\n") {
		lines++
	}
	if stats.Lines != lines || stats.Bytes != int64(len(log)) {
		t.Errorf("%d lines, %d bytes; want %d, %d", stats.Lines, stats.Bytes, lines, len(log))
	}
	var events []string
	for _, s := range want {
		if _, what, _ := strings.Cut(s, " "); what[0] != '|' {
			events = append(events, s)
		}
	}
	got, stats = scan(t, strings.NewReader(log), false)
	if diff := cmp.Diff(events, got); diff != "" {
		t.Errorf("without text (-want +got):\n%s", diff)
	}
	if stats.Lines != lines || stats.Bytes != int64(len(log)) || stats.Events+stats.Malformed != int64(len(events)) {
		t.Errorf("without text: %+v", stats)
	}
	got, _ = scan(t, iotest.OneByteReader(strings.NewReader(log)), true)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a byte at a time (-want +got):\n%s", diff)
	}
}

// A record says where its line begins.
func TestReaderByte(t *testing.T) {
	log := engine + "\n" + start1 + "\r\n" + cuda + "\ncuzk-1  | " + start1 + start2 + "\n" + strings.Repeat("x", 3*bufferSize) + gpuEnd + "\n" + gpuEnd + "\n"
	for _, keepText := range []bool{false, true} {
		r := NewReader(strings.NewReader(log), "")
		r.KeepText(keepText)
		n := 0
		for ; r.Scan(); n++ {
			rec := r.Record()
			if before := log[:rec.Byte]; before != "" && !strings.HasSuffix(before, "\n") || strings.Count(before, "\n") != int(rec.Line)-1 {
				t.Errorf("%s: byte %d", show(rec), rec.Byte)
			}
		}
		if want := map[bool]int{false: 5, true: 7}[keepText]; n != want {
			t.Errorf("%d records, want %d", n, want)
		}
	}
}

func TestReaderJobBytes(t *testing.T) {
	for job, want := range map[string]string{
		"porep-1000-4200":        "porep-1000-4200",
		"a job of several words": "a job of several words",
		"jób\x01\x7f":            "jób\x01\x7f",
		"j\x1b[31mob\x1b[0m":     "job",
		strings.Repeat("j", 600): strings.Repeat("j", 600),
	} {
		r := NewReader(strings.NewReader("TIMELINE,1,CHAN_SEND,"+job+",partition=3\n"), "")
		if !r.Scan() || r.Record().Type != EventRecord || string(r.Record().Event.Job) != want {
			t.Errorf("%q: %+v", job, r.Record())
		}
	}
}

// A line of any length gives the events in it and costs no memory.
func TestReaderLongLine(t *testing.T) {
	long := func(n int) string { return strings.Repeat("0123456789abcdef", n/16) }
	cut := fmt.Sprintf("%q", long(256))
	tests := []struct {
		name string
		log  string
		want []string
	}{
		{"at the end", long(1<<20) + start1 + "\n" + start2 + "\n", []string{"1 " + start1 + " after " + cut, "2 " + start2}},
		{"inside", long(1<<20) + start1 + "\x00" + long(1<<20) + start2 + "\n", []string{
			`1 ! longer than 64 KiB: "` + start1 + `\x00` + long(256)[:256-len(start1)-1] + `"`,
			"1 " + start2 + " after " + cut,
		}},
		{"an event behind another", long(1<<20) + start1 + start2 + "\n", []string{"1 " + start1 + " after " + cut, "1 " + start2 + " after " + cut}},
		{"around the buffer's size", long(bufferSize-16) + start1 + "\n", []string{"1 " + start1 + " after " + cut}},
		{"long job", "TIMELINE,1,CHAN_SEND," + long(1<<20) + ",\n" + start1 + "\n", []string{
			`1 ! longer than 64 KiB: "TIMELINE,1,CHAN_SEND,` + long(256)[:256-21] + `"`, "2 " + start1,
		}},
		{"no newline", long(1 << 20), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, stats := scan(t, strings.NewReader(tt.log), false)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			if stats.Bytes != int64(len(tt.log)) {
				t.Errorf("%d bytes, want %d", stats.Bytes, len(tt.log))
			}
			// The length of what comes before decides nothing.
			for n := bufferSize - 100; n < bufferSize+100; n += 16 {
				if got, _ := scan(t, strings.NewReader(long(n)+"\n"+tt.log), false); len(got) != len(tt.want) {
					t.Errorf("after %d bytes: %q", n, got)
				}
			}
		})
	}

	t.Run("text", func(t *testing.T) {
		log := long(1<<20) + "\n" + long(maxText+16) + "\r\n" + long(32) + "\n"
		got, _ := scan(t, strings.NewReader(log), true)
		want := []string{
			fmt.Sprintf("1 | %q", long(maxText)), fmt.Sprintf("2 | %q", long(maxText)), fmt.Sprintf("3 | %q", long(32)),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("records (-want +got):\n%.500s", diff)
		}
	})
}

// repeat is an endless reader of a text, cut to n bytes.
func repeat(text string, n int64) io.Reader { return io.LimitReader(&repeater{text: text}, n) }

type repeater struct {
	text string
	at   int
}

func (r *repeater) Read(p []byte) (n int, err error) {
	for n < len(p) {
		m := copy(p[n:], r.text[r.at:])
		n += m
		r.at = (r.at + m) % len(r.text)
	}
	return n, nil
}

func TestReaderEndlessLine(t *testing.T) {
	const size = 16 << 20
	for name, text := range map[string]string{
		"zeros":        strings.Repeat("\x00", 4096),
		"markers":      marker,
		"heads":        "TIMELINE,1500,",
		"events":       start1,
		"marker parts": "TIMELINE",
		"escapes":      "TIMELINE,\x1b[",
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(repeat(text, size), "")
			r.KeepText(true)
			for r.Scan() {
			}
			if err := r.Err(); err != nil {
				t.Fatal(err)
			}
			s := r.Stats()
			if got := int64(size / len(text) * strings.Count(text, marker)); s.Bytes != size || s.Events+s.Malformed < got {
				t.Errorf("%+v, want %d markers", s, got)
			}
			if n := cap(r.held.chunk) + cap(r.held.items)*256; n > 4<<20 {
				t.Errorf("%d bytes held", n)
			}
		})
	}
}

func TestReaderErr(t *testing.T) {
	broken := errors.New("broken pipe")
	src := io.MultiReader(strings.NewReader(start1+"\n"+engine+"\nTIMELINE,15"), iotest.ErrReader(broken))
	r := NewReader(src, "cuzk.log")
	var got []string
	for r.Scan() {
		got = append(got, show(r.Record()))
	}
	want := []string{"1 " + start1, `3 ! the file ends inside this line: "TIMELINE,15"`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if err := r.Err(); !errors.Is(err, broken) || err.Error() != "timeline: reading cuzk.log, line 3: broken pipe" {
		t.Errorf("error %v", err)
	}
	if r.Scan() {
		t.Error("it goes on after the error")
	}

	for name, src := range map[string]io.Reader{"": idle{}, "x": lying{}} {
		r := NewReader(src, name)
		if r.Scan() || r.Err() == nil {
			t.Errorf("%T: no error", src)
		}
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

type lying struct{}

func (lying) Read(p []byte) (int, error) { return len(p) + 1, nil }

// A record comes as soon as its line is complete.
func TestReaderLive(t *testing.T) {
	pr, pw := io.Pipe()
	defer pr.Close()
	r := NewReader(pr, "live")
	for _, line := range []string{start1, "host x: " + start2, gpuEnd} {
		wrote := make(chan error, 1)
		go func() {
			_, err := io.WriteString(pw, line+"\n")
			wrote <- err
		}()
		if !r.Scan() || !strings.Contains(show(r.Record()), line[max(0, strings.Index(line, marker)):]) {
			t.Errorf("%q gives %s", line, show(r.Record()))
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
	}
}

func TestReaderAllocs(t *testing.T) {
	for _, tt := range []struct {
		name     string
		log      []byte
		keepText bool
	}{
		{"pure", pureLog(5000), true},
		{"noisy", noisyLog(500), false},
		{"noisy with text", noisyLog(500), true},
		{"prefixed", prefixed(pureLog(5000), "2026-02-18T12:00:01+0000 prover01 cuzk[42]: "), false},
		{"coloured", prefixed(pureLog(5000), "TIMELINE,\x1b[0m\n"), false},
		{"torn", tornLog(2000), true},
	} {
		src := bytes.NewReader(nil)
		r := NewReader(src, "")
		r.KeepText(tt.keepText)
		n := testing.AllocsPerRun(5, func() {
			src.Reset(tt.log)
			r.Reset(nil, r.src, "")
			for r.Scan() {
			}
		})
		// Growing the queue to its size may take a few.
		if n > 8 {
			t.Errorf("%s: %v allocations", tt.name, n)
		}
	}
}

// chunks reads from a text in pieces of random lengths.
type chunks struct {
	text []byte
	rng  *rand.Rand
	max  int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+c.rng.IntN(c.max))], c.text)
	c.text = c.text[n:]
	return n, nil
}

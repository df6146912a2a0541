package timeline

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The fast path reads a line as the other one does, whatever stands behind it,
// and no part of a line.
func TestParseFast(t *testing.T) {
	after := bytes.Repeat([]byte("x"), 32)
	for line := range bytes.Lines(pureLog(50)) {
		text := bytes.TrimSuffix(line, newline)
		var want, got Event
		if v, problem := parse(text, &want, true); v != whole {
			t.Fatalf("%q: %s", line, problem)
		}
		for _, end := range []string{"\n", "\r\n"} {
			b := append(append([]byte{}, text...), end...)
			n := len(b)
			if i := parseFast(append(b, after...), &got); i != n {
				t.Fatalf("%q: %d bytes, want %d", b, i, n)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q (-want +got):\n%s", b, diff)
			}
		}
		for i := len(marker); i < len(line); i++ {
			if n := parseFast(line[:i:i], &got); n != 0 {
				t.Errorf("%q: %d bytes", line[:i], n)
			}
			if v, _ := parse(line[:i], &got, true); v == bad {
				t.Errorf("%q is bad, not cut", line[:i])
			}
		}
	}
	for _, line := range []string{
		"TIMELINE,1,CHAN_SEND,aTIMELINE,\n",
		"TIMELINE,1,CHAN_SEND,a b,partition=1\n",
		"TIMELINE,1,CHAN_SEND,a\x1b[0m,partition=1\n",
		"TIMELINE,1,CHAN_SEND,a,partition=1\r\r\n",
		"TIMELINE,1,CHAN_SEND,a,partition=1,\n",
		"TIMELINE,1,CHAN_SEND,a,partition=1,partition=1\n",
		"TIMELINE,1,CHAN_SEND,a,partition=1 \n",
		"TIMELINE,1,CHAN_SEND,a,partition=1TIMELINE,1,CHAN_SEND,b,\n",
		"TIMELINE,1,SYNTH_START,a,kind=x\x1b[0m\n",
		"TIMELINE,1,SYNTH_START,a,kind=\n",
		"TIMELINE,1,SYNTH_END,a,partition=1\n",
		"TIMELINE,1,GPU_START,a,partition=1\n",
		"TIMELINE,1,GPU_QUEUE,a,\n",
		"TIMELINE,1234567890123456789,CHAN_SEND,a,partition=1\n",
		"TIMELINE,1,CHAN_SEND,a,partition=1234567890\n",
	} {
		var e Event
		if n := parseFast(append([]byte(line), after...), &e); n != 0 {
			t.Errorf("%q: %d bytes", line, n)
		}
	}
}

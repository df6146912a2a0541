package convert_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/provetrace/provetrace/convert"
	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
)

func readFixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(fixture(name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func gzipped(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstded(t testing.TB, text []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(text, nil)
}

// zstdFrame returns a frame of uncompressed text that asks for a window of
// 2^(10+exponent) bytes (RFC 8878, section 3.1.1).
func zstdFrame(exponent byte, text string) []byte {
	block := uint32(len(text))<<3 | 1 // raw, the last
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3, byte(block), byte(block >> 8), byte(block >> 16)}
	return append(b, text...)
}

// writeFiles writes files into a new directory and returns its name.
func writeFiles(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// convertInput returns the spans of all logs that the arguments name, and what
// could not be read.
func convertInput(t testing.TB, join bool, stdin io.Reader, args ...string) (all spans, logs int, err error) {
	t.Helper()
	found, err := convert.Logs(t.Context(), args, join, stdin)
	if err != nil {
		return nil, 0, err
	}
	var out bytes.Buffer
	p, err := tracing.Setup(t.Context(), tracing.Options{File: "-", Writer: &out, Lossless: true, DeterministicIDs: true})
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	for _, l := range found {
		for u, err := range run.Read(t.Context(), l.Name, run.Options{}, l.Sources...) {
			if err != nil {
				failed = errors.Join(failed, err)
			} else if err := convert.Run(t.Context(), p, u, convert.RunID(u, ""), nil); err != nil {
				t.Fatal(err)
			}
		}
		if l.Read() < l.Size && failed == nil {
			t.Errorf("%d of %d bytes of %s were read", l.Read(), l.Size, l.Name)
		}
	}
	if _, err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	return readSpans(t, out.Bytes()), len(found), failed
}

// TestStorage holds that the spans are the same, however the log is stored and
// named.
func TestStorage(t *testing.T) {
	clearEnvironment(t)
	text := readFixture(t, "failure")
	want := convertFixture(t, "failure")
	lines := slices.Collect(bytes.Lines(text))
	joined := func(lines [][]byte) []byte { return bytes.Join(lines, nil) }
	third := len(lines) / 3
	pieces := [][]byte{joined(lines[:third]), joined(lines[third : 2*third]), joined(lines[2*third:])}
	skippable := append([]byte{0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0}, "any"...)
	for _, test := range []struct {
		name  string
		files map[string][]byte
		stdin []byte
		args  []string // in the directory of the files
		join  bool
	}{
		{name: "plain", files: map[string][]byte{"cuzk.log": text}, args: []string{"cuzk.log"}},
		{name: "gzip", files: map[string][]byte{"cuzk.log.gz": gzipped(t, text)}, args: []string{"cuzk.log.gz"}},
		{name: "zstd", files: map[string][]byte{"cuzk.log.zst": zstded(t, text)}, args: []string{"cuzk.log.zst"}},
		{name: "gzip without the name", files: map[string][]byte{"bench": gzipped(t, text)}, args: []string{"bench"}},
		{name: "zstd by another name", files: map[string][]byte{"bench.gz": zstded(t, text)}, args: []string{"bench.gz"}},
		{name: "plain by the name of gzip", files: map[string][]byte{"bench.gz": text}, args: []string{"bench.gz"}},
		{name: "gzip members", files: map[string][]byte{"a": slices.Concat(gzipped(t, pieces[0]), gzipped(t, pieces[1]), gzipped(t, pieces[2]))}, args: []string{"a"}},
		{name: "gzip members cut in a line", files: map[string][]byte{"a": append(gzipped(t, text[:7777]), gzipped(t, text[7777:])...)}, args: []string{"a"}},
		{name: "zstd frames", files: map[string][]byte{"a": slices.Concat(zstded(t, pieces[0]), skippable, zstded(t, pieces[1]), zstded(t, pieces[2]))}, args: []string{"a"}},
		{name: "zstd that begins with a frame to skip", files: map[string][]byte{"a": append(slices.Clone(skippable), zstded(t, text)...)}, args: []string{"a"}},
		{name: "zstd made with --long", files: map[string][]byte{"a": append(zstdFrame(17, string(text[:9999])), zstded(t, text[9999:])...)}, args: []string{"a"}},
		{name: "standard input", stdin: text, args: []string{"-"}},
		{name: "gzip from standard input", stdin: gzipped(t, text), args: []string{"-"}},
		{name: "zstd from standard input", stdin: zstded(t, text), args: []string{"-"}},
		{name: "directory", files: map[string][]byte{"cuzk.log": text, "spans.json": []byte("{}"), "README": text}, args: []string{"."}},
		{name: "pattern", files: map[string][]byte{"cuzk-1.log": text, "other.log": text}, args: []string{"cuzk-*.log"}},
		{name: "a name with the characters of a pattern", files: map[string][]byte{"cuzk[1]*.log": text, "cuzk1x.log": text}, args: []string{"cuzk[1]*.log"}},
		{name: "hostile name", files: map[string][]byte{"a\x1b[31m\n\u202e%s{{.}}\".log": text}, args: []string{"a\x1b[31m\n\u202e%s{{.}}\".log"}},
		{name: "one file named thrice", files: map[string][]byte{"cuzk.log": text}, args: []string{"cuzk.log", "./cuzk.log", "cuzk.*"}},
		{
			name: "pieces by number", join: true, args: []string{"cuzk.log*"},
			files: map[string][]byte{"cuzk.log.2.gz": gzipped(t, pieces[0]), "cuzk.log.1": pieces[1], "cuzk.log": pieces[2]},
		},
		{
			name: "pieces by number, of two digits", join: true, args: []string{"."},
			files: map[string][]byte{"cuzk.log.10.gz": gzipped(t, pieces[0]), "cuzk.log.9.zst": zstded(t, pieces[1]), "cuzk.log": pieces[2]},
		},
		{
			name: "pieces by date", join: true, args: []string{"."},
			files: map[string][]byte{"cuzk.log-20260217.gz": gzipped(t, pieces[0]), "cuzk.log-20260218": pieces[1], "cuzk.log": pieces[2]},
		},
		{
			name: "pieces by time", join: true, args: []string{"cuzk*"},
			files: map[string][]byte{"cuzk.log.2026-02-18T14": pieces[0], "cuzk.log.2026-02-18T15.zst": zstded(t, pieces[1]), "cuzk.log": pieces[2]},
		},
		{
			name: "pieces of different names, as given", join: true, args: []string{"z", "a", "m"},
			files: map[string][]byte{"z": pieces[0], "a": pieces[1], "m": pieces[2]},
		},
		{
			name: "pieces, the last from standard input", join: true, args: []string{"old", "-"},
			files: map[string][]byte{"old": append(slices.Clone(pieces[0]), pieces[1]...)}, stdin: pieces[2],
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && strings.ContainsAny(strings.Join(test.args, ""), "*\"\n") {
				t.Skip("Windows has no such names")
			}
			t.Chdir(writeFiles(t, test.files))
			got, logs, err := convertInput(t, test.join, bytes.NewReader(test.stdin), test.args...)
			if err != nil || logs != 1 {
				t.Fatalf("%d logs, error %v", logs, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("other spans than of the plain file (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPiecesCutAnywhere joins the pieces of a log that was cut between two
// bytes, as copying a log away while it is written does.
func TestPiecesCutAnywhere(t *testing.T) {
	clearEnvironment(t)
	text := readFixture(t, "failure")
	want := convertFixture(t, "failure")
	for cut := 1; cut < len(text); cut += 1 + len(text)/97 {
		dir := writeFiles(t, map[string][]byte{"cuzk.log.1": text[:cut], "cuzk.log": text[cut:]})
		got, _, err := convertInput(t, true, nil, filepath.Join(dir, "cuzk.log*"))
		if err != nil {
			t.Fatal(err)
		}
		if text[cut-1] == '\n' {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("cut between lines at %d (-want +got):\n%s", cut, diff)
			}
			continue
		}
		// The line is lost, or cut to less than it said: one event at most.
		for _, name := range []string{tracing.SpanSector, tracing.SpanSynthesis, tracing.SpanProve} {
			if n := len(want.named(name)) - len(got.named(name)); n < 0 || n > 1 {
				t.Errorf("cut at %d: %d spans %q are missing", cut, n, name)
			}
		}
		got.checkShape(t)
	}
}

// TestDirectory holds which files of a directory are read.
func TestDirectory(t *testing.T) {
	log := []byte("TIMELINE,1,SYNTH_START,job,partition=0\n")
	spans := []byte(`{"resourceSpans":[]}`)
	for _, test := range []struct {
		name  string
		files map[string][]byte
		want  []string
	}{
		{"logs and spans", map[string][]byte{
			"cuzk.log": log, "README": log, "a.json": spans, "b.JSONL.gz": gzipped(t, spans), "c-2026-02-18T14-59-07.json.zst": zstded(t, spans),
			"d.pb": {1<<3 | 2, 5, 1<<3 | 2, 3, 1<<3 | 2, 1, 0}, "e.json.1": spans, "f.txt": spans,
		}, []string{"a.json", "b.JSONL.gz", "c-2026-02-18T14-59-07.json.zst", "cuzk.log", "e.json.1", "f.txt"}},
		{"other JSON", map[string][]byte{"cuzk.log": log, "package.json": []byte(`{"name":"x"}`), "empty.json": nil, "report.json.gz": gzipped(t, []byte(`{"runs":[]}`))}, []string{"cuzk.log"}},
		{"damaged", map[string][]byte{"a.json.gz": []byte("\x1f\x8b\x09\x00any text")}, []string{"a.json.gz"}},
		{"of prove", map[string][]byte{"spans.json": spans, "timeline.log": log, "run.json": []byte("{}")}, []string{"spans.json"}},
		{"of prove, interrupted", map[string][]byte{"timeline.log": log}, []string{"timeline.log"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(writeFiles(t, test.files))
			if err := os.Mkdir("sub.json", 0o755); err != nil {
				t.Fatal(err)
			}
			logs, err := convert.Logs(t.Context(), []string{"."}, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range logs {
				got = append(got, l.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestJoin holds what cannot be the pieces of one log.
func TestJoin(t *testing.T) {
	log := []byte("TIMELINE,1,SYNTH_START,job,partition=0\n")
	spans := []byte(`{"resourceSpans":[]}`)
	t.Chdir(writeFiles(t, map[string][]byte{"a.log": log, "spans.json": spans, "spans.json.gz": gzipped(t, spans), "empty": nil}))
	for _, test := range []struct {
		args   []string
		stdin  []byte
		logs   bool // they are found
		joined bool
	}{
		{args: []string{"a.log", "spans.json"}},
		{args: []string{"spans.json.gz", "a.log"}},
		{args: []string{"a.log", "-"}, stdin: spans, logs: true},
		{args: []string{"a.log", "-"}, stdin: log, logs: true, joined: true},
		{args: []string{"spans.json", "spans.json.gz", "empty"}, logs: true, joined: true},
	} {
		logs, err := convert.Logs(t.Context(), test.args, true, bytes.NewReader(test.stdin))
		if (err == nil) != test.logs {
			t.Errorf("%v: %v", test.args, err)
		}
		for _, l := range logs {
			for _, e := range convert.Read(t.Context(), l, run.Options{}) {
				if e != nil {
					err = e
				}
			}
		}
		if errors.Is(err, convert.ErrJoin) == test.joined {
			t.Errorf("%v: %v", test.args, err)
		}
	}
}

// TestRepeated tells of files that are named more than once.
func TestRepeated(t *testing.T) {
	t.Chdir(writeFiles(t, map[string][]byte{"a.log": []byte("a"), "b.log": []byte("b")}))
	for _, join := range []bool{false, true} {
		logs, err := convert.Logs(t.Context(), []string{"b.log", "a.log", "./b.log", "b*"}, join, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range logs {
			got = append(got, l.Repeated...)
		}
		if diff := cmp.Diff([]string{"b.log"}, got); diff != "" {
			t.Error(diff)
		}
	}
}

// TestManyLogs converts several logs as several runs.
func TestManyLogs(t *testing.T) {
	clearEnvironment(t)
	names := []string{"failure", "two_gpus", "split"}
	want := make(spans)
	files := make(map[string][]byte)
	for _, name := range names {
		for id, tr := range convertFixture(t, name) {
			want[id] = tr
		}
		files[name+".log"] = readFixture(t, name)
	}
	got, logs, err := convertInput(t, false, nil, writeFiles(t, files))
	if err != nil || logs != len(names) {
		t.Fatalf("%d logs, error %v", logs, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("together the logs have other spans than alone (-alone +together):\n%s", diff)
	}
}

// TestDamagedStorage converts what can be read before the damage, and tells of
// it.
func TestDamagedStorage(t *testing.T) {
	clearEnvironment(t)
	text := readFixture(t, "split")
	whole := convertFixture(t, "split")
	flipped := func(b []byte) []byte {
		b = slices.Clone(b)
		b[len(b)-5] ^= 0xff // of the checksum
		return b
	}
	for _, test := range []struct {
		name    string
		content []byte
		want    string // of the error
		spans   bool   // there are some
	}{
		{name: "gzip cut short", content: gzipped(t, text)[:8000], want: "ends in the middle of its gzip data", spans: true},
		{name: "gzip cut in its trailer", content: cutBy(gzipped(t, text), 3), want: "ends in the middle of its gzip data", spans: true},
		{name: "gzip cut in its header", content: gzipped(t, text)[:7], want: "ends in the middle of its gzip data"},
		{name: "gzip with another checksum", content: flipped(gzipped(t, text)), want: "gzip data is damaged", spans: true},
		{name: "gzip of an unknown method", content: []byte("\x1f\x8b\x09\x00any text at all"), want: "gzip data is damaged"},
		{name: "gzip and then text", content: append(gzipped(t, text), "TIMELINE"...), want: "gzip data", spans: true},
		{name: "zstd cut short", content: cutBy(slices.Concat(zstded(t, text[:9000]), zstded(t, text[9000:])), 100), want: "ends in the middle of its zstd data", spans: true},
		{name: "zstd cut in its header", content: zstded(t, text)[:5], want: "ends in the middle of its zstd data"},
		{name: "zstd with a huge window", content: append(zstded(t, text[:9000]), zstdFrame(31, "TIMELINE")...), want: "zstd -d --long=31", spans: true},
		{name: "zstd with nothing but a huge window", content: zstdFrame(21, string(text)), want: "asks for more than 128 MiB of memory"},
		{name: "xz", content: []byte("\xfd7zXZ\x00data"), want: "compressed by xz: decompress it with xz -d"},
		{name: "bzip2", content: []byte("BZh91AY&SY"), want: "compressed by bzip2: decompress it with bunzip2"},
		{name: "lz4", content: []byte("\x04\x22\x4d\x18data"), want: "compressed by lz4: decompress it with lz4 -d"},
		{name: "zip", content: []byte("PK\x03\x04data"), want: "compressed by zip: decompress it with unzip"},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := filepath.Join(writeFiles(t, map[string][]byte{"cuzk.log": test.content}), "cuzk.log")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, _, err := convertInput(t, false, nil, name)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), name) {
				t.Errorf("the error is %v, want %q of %s", err, test.want, name)
			}
			if (got.count() > 0) != test.spans {
				t.Errorf("%d spans", got.count())
			}
			for _, s := range got.named(tracing.SpanSector) {
				if !slices.ContainsFunc(whole.named(tracing.SpanSector), func(w *span) bool {
					return w.Attributes["prover.job.id"] == s.Attributes["prover.job.id"] && w.Start.Sub(s.Start).Abs() < time.Millisecond
				}) {
					t.Errorf("%v is not a sector of the whole log", s)
				}
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 128<<20 {
				t.Errorf("%d MiB were allocated", n>>20)
			}
		})
	}
}

func cutBy(b []byte, n int) []byte { return b[:len(b)-n] }

// TestNoLogs holds what is said of arguments that name no log.
func TestNoLogs(t *testing.T) {
	dir := writeFiles(t, map[string][]byte{"spans.json": nil, "notes.md": nil})
	if err := os.Mkdir(filepath.Join(dir, "sub.log"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	long := strings.Repeat("x", 5000)
	for _, test := range []struct{ arg, want string }{
		{".", "no logs in the directory .: files named like *.log"},
		{"missing.log", "cannot read missing.log: no such file or directory"},
		{"notes.md/x.log", "cannot read notes.md/x.log: not a directory"},
		{"*.log", "no file matches *.log"},
		{"a[", "cannot read a[: no such file or directory"},
		{"", "cannot read : no such file or directory"},
		{long, "cannot read " + long + ": file name too long"},
		{"nul\x00.log", "invalid argument"},
	} {
		if runtime.GOOS == "windows" && !strings.HasPrefix(test.want, "no ") {
			continue // it has other words
		}
		_, err := convert.Logs(t.Context(), []string{test.arg}, false, nil)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: the error is %v, want %q", test.arg, err, test.want)
		}
	}
}

// TestLogsWithoutEvents reads what is no log.
func TestLogsWithoutEvents(t *testing.T) {
	binary := make([]byte, 1<<20)
	for i := range binary {
		binary[i] = byte(i * i >> 3)
	}
	for name, content := range map[string][]byte{
		"empty": nil, "binary": binary, "zeros": make([]byte, 1<<20),
		"text":  []byte("2026-02-18T14:59:07.123856Z  INFO cuzk_core::engine: started\n"),
		"words": []byte("the TIMELINE of events\n"), "short gzip": []byte("\x1f"),
	} {
		dir := writeFiles(t, map[string][]byte{"a.log": content})
		got, _, err := convertInput(t, false, nil, filepath.Join(dir, "a.log"))
		if err != nil || got.count() > 0 {
			t.Errorf("%s: %d spans, error %v", name, got.count(), err)
		}
	}
}

// TestFileThatFails reads a file that cannot be read though it is there.
func TestFileThatFails(t *testing.T) {
	const file = "/proc/self/mem" // whose beginning is mapped nowhere
	if _, err := os.Stat(file); err != nil {
		t.Skip("there is no ", file)
	}
	_, _, err := convertInput(t, false, nil, file)
	if err == nil || !strings.Contains(err.Error(), "cannot read "+file+": input/output error") {
		t.Errorf("the error is %v", err)
	}
}

// A failing reader fails after some text.
type failing struct{ text io.Reader }

var errGone = errors.New("the device is gone")

func (f failing) Read(b []byte) (int, error) {
	n, err := f.text.Read(b)
	if err == io.EOF {
		err = errGone
	}
	return n, err
}

// TestInputThatFails converts what was read before a failure.
func TestInputThatFails(t *testing.T) {
	clearEnvironment(t)
	for name, text := range map[string][]byte{"plain": readFixture(t, "failure"), "gzip": gzipped(t, readFixture(t, "failure"))} {
		got, _, err := convertInput(t, false, failing{bytes.NewReader(text)}, "-")
		if !errors.Is(err, errGone) || !strings.Contains(err.Error(), "standard input, line") {
			t.Errorf("%s: the error is %v", name, err)
		}
		if len(got.named(tracing.SpanSector)) != 5 {
			t.Errorf("%s: %d sectors", name, len(got.named(tracing.SpanSector)))
		}
	}
}

// TestWaitingEnds interrupts a read that would wait for ever.
func TestWaitingEnds(t *testing.T) {
	cause := errors.New("interrupted")
	for _, text := range []string{"", "TIMELINE,1,SYNTH_START,job,partition=0\n", "\x1f\x8b\x08"} {
		r, w := io.Pipe()
		defer w.Close()
		ctx, cancel := context.WithCancelCause(t.Context())
		logs, err := convert.Logs(ctx, []string{convert.Stdin}, false, r)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			fmt.Fprint(w, text)
			cancel(cause)
		}()
		for u, err := range run.Read(ctx, logs[0].Name, run.Options{}, logs[0].Sources...) {
			if u != nil || !errors.Is(err, cause) {
				t.Errorf("after %q: %v, %v", text, u, err)
			}
		}
	}
}

// TestRotated holds which logs are taken for the pieces of one.
func TestRotated(t *testing.T) {
	for _, test := range []struct {
		names        []string
		older, newer string
	}{
		{[]string{"cuzk.log", "cuzk.log.1"}, "cuzk.log.1", "cuzk.log"},
		{[]string{"cuzk.log.1.gz", "cuzk.log.2.gz"}, "cuzk.log.2.gz", "cuzk.log.1.gz"},
		{[]string{"bench.log", "cuzk.log-20260217", "cuzk.log-20260218.zst"}, "cuzk.log-20260217", "cuzk.log-20260218.zst"},
		{[]string{"a.log", "b.log.1", "c.1.log", "run-1.log", "run-2.log"}, "", ""},
		{nil, "", ""},
	} {
		files := make(map[string][]byte)
		for _, name := range test.names {
			files[name] = []byte(name)
		}
		t.Chdir(writeFiles(t, files))
		logs, err := convert.Logs(t.Context(), test.names, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		older, newer, ok := convert.Rotated(logs)
		if older != test.older || newer != test.newer || ok != (test.older != "") {
			t.Errorf("%v: %q, %q, %v", test.names, older, newer, ok)
		}
	}
}

func TestParseEpoch(t *testing.T) {
	at := time.Date(2026, 2, 18, 14, 59, 7, 0, time.UTC)
	for s, want := range map[string]time.Time{
		"2026-02-18T14:59:07Z":           at,
		"2026-02-18T16:59:07.25+02:00":   at.Add(250 * time.Millisecond),
		"2026-02-18T14:59:07":            at,
		"2026-02-18 14:59:07.000001":     at.Add(time.Microsecond),
		"2026-02-18":                     at.Truncate(24 * time.Hour),
		"1771426747":                     at,
		"1771426747.5":                   at.Add(time.Second / 2),
		"1970-01-01T00:00:00Z":           time.Unix(0, 0).UTC(),
		"2200-12-31T23:59:59.999999999Z": time.Date(2200, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
	} {
		if got, now, err := convert.ParseEpoch(s); err != nil || now || !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("%q: %v, %v, %v", s, got, now, err)
		}
	}
	if _, now, err := convert.ParseEpoch("now"); !now || err != nil {
		t.Errorf("now: %v, %v", now, err)
	}
	for s, want := range map[string]string{
		"": "is not a time", "yesterday": "is not a time", "14:59": "is not a time", "2026-02-30": "is not a time", "NaN": "is not a time", "Now": "is not a time",
		"-1": "between the years", "1e300": "between the years", "-Inf": "between the years", "1969-12-31": "between the years", "2201-01-01": "between the years", "1771426747000": "between the years",
	} {
		if got, now, err := convert.ParseEpoch(s); err == nil || now || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, %v, want %q", s, got, now, err, want)
		}
	}
}

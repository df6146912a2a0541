package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/provetrace/provetrace/convert/run"
)

var update = flag.Bool("update", false, "write the golden files anew")

// readRun returns the first run of a log in convert/testdata.
func readRun(t testing.TB, name string) *run.Run {
	t.Helper()
	path := filepath.Join("..", "testdata", name+".log")
	log := run.Source{Name: name + ".log", Open: func() (io.ReadCloser, error) { return os.Open(path) }}
	for r, err := range run.Read(t.Context(), name, run.Options{}, log) {
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	t.Fatalf("%s has no run", path)
	return nil
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (-update writes it)", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (-update accepts it)\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

func TestWaterfallGolden(t *testing.T) {
	type variant struct {
		name string
		o    WaterfallOptions
	}
	widths := []variant{
		{"60", WaterfallOptions{Width: 60}},
		{"80", WaterfallOptions{Width: 80}},
		{"120", WaterfallOptions{Width: 120}},
	}
	for log, variants := range map[string][]variant{
		"standard":    widths,
		"dual_worker": append(widths, variant{"80-color", WaterfallOptions{Width: 80, Color: true}}),
		"two_gpus":    append(widths, variant{"40", WaterfallOptions{Width: 40}}),
		"failure": append(widths,
			variant{"80-color", WaterfallOptions{Width: 80, Color: true}},
			variant{"80-ascii", WaterfallOptions{Width: 80, ASCII: true}}),
		"split":           {{"80-rows", WaterfallOptions{Width: 80, Rows: 3}}},
		"snap":            {{"80", WaterfallOptions{Width: 80}}},
		"dirty_truncated": {{"80", WaterfallOptions{Width: 80}}},
		"dirty_dropped":   {{"80", WaterfallOptions{Width: 80}}},
	} {
		r := readRun(t, log)
		for _, v := range variants {
			t.Run(log+"-"+v.name, func(t *testing.T) {
				var b bytes.Buffer
				if err := Waterfall(&b, r, v.o); err != nil {
					t.Fatal(err)
				}
				golden(t, filepath.Join("waterfall", log+"-"+v.name+".txt"), b.Bytes())
			})
		}
	}
}

// TestWaterfallFits holds every line of every log within every width.
func TestWaterfallFits(t *testing.T) {
	logs, err := filepath.Glob("../testdata/*.log")
	if err != nil || len(logs) == 0 {
		t.Fatalf("no logs: %v", err)
	}
	for _, path := range logs {
		r := readRun(t, strings.TrimSuffix(filepath.Base(path), ".log"))
		for width := minWaterfallWidth; width <= 200; width += 7 {
			for _, ascii := range []bool{false, true} {
				var b bytes.Buffer
				if err := Waterfall(&b, r, WaterfallOptions{Width: width, ASCII: ascii}); err != nil {
					t.Fatal(err)
				}
				checkLines(t, b.String(), width, ascii)
			}
		}
	}
}

func checkLines(t *testing.T, text string, width int, ascii bool) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("not UTF-8: %q", text)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := textWidth(line); n > width {
			t.Errorf("a line takes %d columns of %d: %s", n, width, line)
		}
		if strings.ContainsAny(line, "\x1b\r\u202e") {
			t.Errorf("a line controls the terminal: %q", line)
		}
		if ascii && !plain(line) {
			t.Errorf("a line is not ASCII: %s", line)
		}
		if line != strings.TrimRight(line, " ") {
			t.Errorf("a line ends with blanks: %q", line)
		}
	}
}

// TestWaterfallUtilization holds the percentages against those of the truth
// that the logs were made from.
func TestWaterfallUtilization(t *testing.T) {
	for _, name := range []string{"standard", "dual_worker", "two_gpus", "failure", "split", "curio", "snap"} {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("..", "testdata", name+".truth.json"))
			if err != nil {
				t.Fatal(err)
			}
			var truth struct {
				Figures struct {
					GPU map[string]struct {
						Active float64 `json:"utilization_active"`
					}
				}
			}
			if err := json.Unmarshal(b, &truth); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := Waterfall(&out, readRun(t, name), WaterfallOptions{ASCII: true}); err != nil {
				t.Fatal(err)
			}
			if len(truth.Figures.GPU) == 0 {
				t.Fatal("the truth has no GPUs")
			}
			for ordinal, g := range truth.Figures.GPU {
				want := fmt.Sprintf("%.1f%%", 100*g.Active)
				i := strings.Index(out.String(), "\nGPU "+ordinal)
				if i < 0 {
					t.Fatalf("no lane of GPU %s", ordinal)
				}
				line, _, _ := strings.Cut(out.String()[i+1:], "\n")
				if !strings.HasSuffix(line, " "+want) {
					t.Errorf("got %s, want %s", line, want)
				}
			}
		})
	}
}

// part returns a partition from its times in the order of the boundaries; 0
// for those not known.
func part(state run.State, times ...int64) run.Partition {
	p := run.Partition{State: state}
	for b := range p.Times {
		if p.Times[b] = run.Unknown; b < len(times) && times[b] != 0 {
			p.Times[b] = times[b]
		}
	}
	return p
}

func sector(label string, state run.State, parts ...run.Partition) waterfallSector {
	return waterfallSector{label: label, attempt: 1, state: state, admitted: run.Unknown, partitions: slices.Values(parts)}
}

func draw(o WaterfallOptions, sectors ...waterfallSector) string {
	return string(drawWaterfall(len(sectors), slices.Values(sectors), o.withDefaults()))
}

func TestWaterfallLanes(t *testing.T) {
	const s = int64(1000)
	again := sector("7", run.Finished, part(run.Finished, 20*s, 24*s, 24*s, 24*s, 24*s, 30*s))
	again.attempt = 2
	admitted := sector("9", run.Finished, part(run.Finished, 10*s, 20*s, 20*s, 25*s, 25*s, 30*s))
	admitted.admitted = 1 * s
	for _, test := range []struct {
		name    string
		sectors []waterfallSector
		want    []string // lines, without what surrounds the lane's text
	}{
		{
			"one partition",
			[]waterfallSector{sector("5", run.Finished, part(run.Finished, 1*s, 11*s, 11*s, 16*s, 16*s, 21*s))},
			[]string{"5         ....................----------##########    20.0 s"},
		},
		{
			"both at once",
			[]waterfallSector{sector("5", run.Finished,
				part(run.Finished, 1*s, 11*s, 11*s, 11*s, 11*s, 21*s),
				part(run.Finished, 1*s, 16*s, 16*s, 21*s, 21*s, 26*s))},
			[]string{"5        .................%%%%%%%%################    25.0 s"},
		},
		{
			"second attempt, admission",
			[]waterfallSector{admitted, again},
			[]string{
				"9        --------------...............-------######## 29.0 s",
				"7 #2                                  ......######### 10.0 s",
			},
		},
		{
			"skipped and failed",
			[]waterfallSector{sector("5", run.Failed,
				part(run.Finished, 1*s, 11*s, 11*s, 11*s, 11*s, 21*s),
				part(run.Failed, 1*s),
				part(run.Skipped, 1*s, 15*s, 15*s, 26*s))},
			[]string{"5       X  .................%%%%%%##########-------X  25.0 s", "X failed"},
		},
		{
			"unfinished",
			[]waterfallSector{
				sector("4", run.Finished, part(run.Finished, 1*s, 11*s, 11*s, 11*s, 11*s, 21*s)),
				sector("5", run.Incomplete, part(run.Incomplete, 11*s, 16*s, 16*s)),
			},
			[]string{"5       ?                       ..........?????????? >5.00 s", "? unfinished"},
		},
		{
			"lost lines",
			[]waterfallSector{
				sector("4", run.Incomplete, part(run.Incomplete, 1*s, 11*s, 11*s)),
				sector("5", run.Finished, part(run.Finished, 11*s, 16*s, 16*s, 16*s, 16*s, 21*s)),
			},
			[]string{"4       ?   ....................                     >10.0 s"},
		},
		{
			"a device that nothing tells",
			[]waterfallSector{sector("5", run.Finished, func() run.Partition {
				p := part(run.Finished, 1*s, 11*s, 11*s, 11*s, 11*s, 21*s)
				p.Device = run.Unknown
				return p
			}())},
			[]string{"GPU ?  ", "100.0%"},
		},
		{
			"shorter than a column",
			[]waterfallSector{
				sector("4", run.Finished, part(run.Finished, 1*s, 1*s, 1*s, 1*s, 1*s, 1*s)),
				sector("5", run.Finished, part(run.Finished, 1*s, 9001*s, 9001*s, 9001*s, 9001*s, 9001*s)),
			},
			[]string{"h:mm", "4       %        ", "0 s", "9000 s", "\nGPU 0  "},
		},
		{
			"no times",
			[]waterfallSector{sector("4", run.Incomplete, part(run.Incomplete))},
			[]string{"nothing to draw"},
		},
		{
			"no partitions beside others",
			[]waterfallSector{
				sector("4", run.Incomplete),
				sector("5", run.Finished, part(run.Finished, 1*s, 11*s, 11*s, 16*s, 16*s, 21*s)),
			},
			[]string{"4       ?  "},
		},
		{"nothing", nil, []string{"nothing to draw"}},
		{
			"hostile ids",
			[]waterfallSector{
				sector("\x1b]0;me\a\x1b[2J", run.Finished, part(run.Finished, 1*s, 2*s, 2*s, 2*s, 2*s, 21*s)),
				sector("\u202eabc\xff", run.Finished, part(run.Finished, 1*s, 2*s, 2*s, 2*s, 2*s, 21*s)),
				sector("証明\u0301\u0301\u0301", run.Finished, part(run.Finished, 1*s, 2*s, 2*s, 2*s, 2*s, 21*s)),
				sector("a\nb\r", run.Finished, part(run.Finished, 1*s, 2*s, 2*s, 2*s, 2*s, 21*s)),
			},
			[]string{`\x1b]0;me~`, `\u202eabc~`, `a\nb\r`},
		},
		{
			"far in the future",
			[]waterfallSector{sector("5", run.Finished,
				part(run.Finished, 1, math.MaxInt64/2, math.MaxInt64/2, math.MaxInt64/2, math.MaxInt64/2, math.MaxInt64))},
			[]string{"5 "},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := draw(WaterfallOptions{Width: 60, ASCII: true}, test.sectors...)
			checkLines(t, got, 60, true)
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("want %q in\n%s", want, got)
				}
			}
			for _, o := range []WaterfallOptions{{Width: 1}, {Width: 80}, {Width: 1 << 40}} {
				checkLines(t, draw(o, test.sectors...), o.withDefaults().Width, false)
			}
		})
	}
}

// manySectors yields n sectors of ten partitions, one after the other.
func manySectors(n int) iter.Seq[waterfallSector] {
	return func(yield func(waterfallSector) bool) {
		for i := range n {
			t := int64(1 + i*40_000)
			if !yield(waterfallSector{
				label: fmt.Sprint(i), attempt: 1, admitted: run.Unknown,
				partitions: func(yield func(run.Partition) bool) {
					for j := range int64(10) {
						g := t + 36_000 + j*3_900
						if !yield(part(run.Finished, t, t+36_000, t+36_000, g, g, g+3_800)) {
							return
						}
					}
				},
			}) {
				return
			}
		}
	}
}

func TestWaterfallManySectors(t *testing.T) {
	const n = 100_000
	got := string(drawWaterfall(n, manySectors(n), WaterfallOptions{Width: 80}.withDefaults()))
	checkLines(t, got, 80, false)
	for _, want := range []string{"\n23 ", "… 99,976 more sectors; axis and GPUs cover the time of the 24 shown\n", "15:00 "} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "\n24 ") {
		t.Errorf("more than 24 rows in\n%s", got)
	}
}

func TestWaterfallWriteError(t *testing.T) {
	if err := Waterfall(brokenWriter{}, readRun(t, "standard"), WaterfallOptions{}); err != io.ErrClosedPipe {
		t.Errorf("got %v, want the writer's error", err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAxis(t *testing.T) {
	for _, test := range []struct {
		extent  span
		columns int
		unit    string
		labels  string // of the first three steps
	}{
		{span{0, 0}, 60, "ms", "0 1 2"},
		{span{0, 40}, 60, "ms", "0 10 20"},
		{span{0, 900}, 60, "ms", "0 200 400"},
		{span{3000, 3900}, 60, "s", "3.0 3.2 3.4"},
		{span{3000, 3200}, 60, "s", "3.00 3.05 3.10"},
		{span{0, 8_000}, 60, "s", "0 2 4"},
		{span{0, 66_000}, 60, "s", "0 10 20"},
		{span{0, 211_000}, 60, "m:ss", "0:00 0:30 1:00"},
		{span{0, 5_400_000}, 60, "h:mm", "0:00 0:15 0:30"},
		{span{36_000_000, 36_060_000}, 60, "h:mm:ss", "10:00:00 10:00:15 10:00:30"},
		{span{0, 90 * hour}, 60, "h:mm", "0:00 12:00 24:00"},
		{span{0, 900 * day}, 60, "d", "0 128 256"},
	} {
		a := newAxis(test.extent, test.columns)
		t0 := floorTo(test.extent.start, a.step)
		got := strings.Join([]string{a.format(t0), a.format(t0 + a.step), a.format(t0 + 2*a.step)}, " ")
		if a.unit != test.unit || got != test.labels {
			t.Errorf("%v in %d columns: got %s (%s), want %s (%s)", test.extent, test.columns, got, a.unit, test.labels, test.unit)
		}
		if steps := float64(test.extent.end-test.extent.start) / float64(a.step); steps*float64(a.columns) > float64(test.columns) {
			t.Errorf("%v does not fit into %d columns at %d a step of %d ms", test.extent, test.columns, a.columns, a.step)
		}
	}
}

func TestUnion(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		const length = 20_000
		within := span{100, 19_000}
		var (
			u    union
			busy [length]bool
		)
		for range rng.IntN(5_000) {
			start := rng.Int64N(length - 50)
			s := span{start, start + rng.Int64N(50)}
			u.add(s, within)
			for i := max(s.start, within.start); i < min(s.end, within.end); i++ {
				busy[i] = true
			}
		}
		u.merge()
		var got int64
		last := int64(-1)
		for _, s := range u.spans {
			if s.start <= last || s.end < s.start {
				t.Fatalf("spans overlap or are out of order: %v", u.spans)
			}
			last = s.end
			got += s.end - s.start
		}
		var want int64
		for _, b := range busy {
			if b {
				want++
			}
		}
		if got != want {
			t.Fatalf("got %d ms, want %d", got, want)
		}
	}
}

// TestUnionForgets holds a union's memory to the number of its holes.
func TestUnionForgets(t *testing.T) {
	var u union
	for i := range int64(1_000_000) {
		u.add(span{i, i + 2}, span{0, 1 << 40})
	}
	if len(u.spans) > 2048 {
		t.Errorf("a set without holes is kept as %d spans", len(u.spans))
	}
}

func TestFormatSeconds(t *testing.T) {
	for ms, want := range map[int64]string{
		0: "0 s", 12: "0.012 s", 2_634: "2.63 s", 73_249: "73.2 s", 999_940: "999.9 s",
		3_725_000: "3725 s", 99_999_000: "99999 s", 123_456_789_000: "1e+08 s", math.MaxInt64: "9e+15 s",
	} {
		if got := formatSeconds(ms); got != want || len(got) > 7 {
			t.Errorf("%d ms: got %q, want %q", ms, got, want)
		}
	}
}

func BenchmarkWaterfall(b *testing.B) {
	for _, n := range []int{24, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			sectors := manySectors(n)
			for b.Loop() {
				drawWaterfall(n, sectors, WaterfallOptions{Width: 120}.withDefaults())
			}
		})
	}
}

package run

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func setBlockSize(t testing.TB, size int) {
	before := blockSize
	blockSize = size
	t.Cleanup(func() { blockSize = before })
}

func showAll(runs []*Run) string {
	var b strings.Builder
	for _, r := range runs {
		fmt.Fprintf(&b, "%s: %+v\n%s\n", r.Name, r.Input, show(r))
	}
	return b.String()
}

// TestBlocks holds that what a log says does not depend on where it is cut.
func TestBlocks(t *testing.T) {
	paths, err := filepath.Glob("../testdata/*.log")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no logs: %v", err)
	}
	logs := make(map[string]string)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		logs[filepath.Base(path)] = string(text)
	}
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		logs[fmt.Sprintf("hostile %d", seed)] = torn(rnd, hostile(rnd))
	}
	logs["long lines"] = strings.Repeat("x", 40000) + whole("A", 1500) + "y" + strings.Repeat("TIMELINE,", 5000) + "\n" + whole("B", 70000) + strings.Repeat("z", 30000)
	logs["no line end"] = strings.TrimRight(whole("A", 1500), "\n")
	for name, text := range logs {
		t.Run(name, func(t *testing.T) {
			want := showAll(readAll(t, Options{Epoch: zero}, textSource(text), textSource(text)))
			for _, size := range []int{61, 300, 5000, 20000, len(text) - 1, len(text), len(text) + 1} {
				setBlockSize(t, max(size, 1))
				if diff := cmp.Diff(want, showAll(readAll(t, Options{Epoch: zero}, textSource(text), textSource(text)))); diff != "" {
					t.Fatalf("in blocks of %d (-want +got):\n%s", size, diff)
				}
			}
		})
	}
}

// torn moves ends of lines behind the line that follows, as threads do that
// print at once.
func torn(rnd *rand.Rand, text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i+1 < len(lines); i++ {
		if n := len(lines[i]); n > 20 && rnd.IntN(4) == 0 {
			at := rnd.IntN(n)
			lines[i], lines[i+1] = lines[i][:at]+lines[i+1], lines[i][at:]
			i++
		}
	}
	return strings.Join(lines, "")
}

// TestBlocksAnyLength reads a log in which no line ends for longer than all of
// what is read ahead.
func TestBlocksAnyLength(t *testing.T) {
	setBlockSize(t, 1000)
	const long = 1_000_000
	text := io.MultiReader(strings.NewReader(whole("A", 1500)), io.LimitReader(zeros{}, long), strings.NewReader("\n"+whole("B", 70000)))
	runs := readAll(t, Options{}, Source{Name: "long", Open: func() (io.ReadCloser, error) { return io.NopCloser(text), nil }})
	if len(runs) != 1 || len(runs[0].Sectors) != 2 || runs[0].Input.Bytes <= long {
		t.Errorf("%s", showAll(runs))
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// TestErrorLine holds that an error tells the line that could not be read.
func TestErrorLine(t *testing.T) {
	for _, size := range []int{50, 1 << 20} {
		setBlockSize(t, size)
		for text, want := range map[string]int{"": 1, "a\nb\n": 3, "a\nb": 2, strings.Repeat("abc\n", 1000) + "TIMELINE,1": 1001} {
			breaks := Source{Name: "cuzk.log", Open: func() (io.ReadCloser, error) {
				return io.NopCloser(io.MultiReader(strings.NewReader(text), errorReader{io.ErrUnexpectedEOF})), nil
			}}
			var last error
			for _, err := range Read(t.Context(), "cuzk.log", Options{}, textSource("x\ny\nz\n"), breaks) {
				last = err
			}
			if want := fmt.Sprintf("reading cuzk.log, line %d: unexpected EOF", want); last == nil || last.Error() != want {
				t.Errorf("in blocks of %d: %v, want %s", size, last, want)
			}
		}
	}
}

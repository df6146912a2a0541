package run

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func setRegionSize(t testing.TB, pages int) {
	before := regionSize
	regionSize = int64(pages * os.Getpagesize())
	t.Cleanup(func() { regionSize = before })
}

func writeLog(t testing.TB, text string) string {
	path := filepath.Join(t.TempDir(), "cuzk.log")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRegions holds that a file says the same in place as read.
func TestRegions(t *testing.T) {
	paths, err := filepath.Glob("../testdata/*.log")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no logs: %v", err)
	}
	for _, long := range []int{3000, 100_000} { // in a region, and longer than one
		line := strings.Repeat("x", long)
		paths = append(paths, writeLog(t, whole("A", 1500)+line+"\n"+whole("B", 70000)+line+whole("C", 90000)))
	}
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		paths = append(paths, writeLog(t, strings.Repeat(torn(rnd, hostile(rnd)), 3)))
	}
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			read := textSource(string(text))
			read.Name = path
			want := showAll(readAll(t, Options{Epoch: zero}, read, read))
			for _, pages := range []int{1, 3} {
				setRegionSize(t, pages)
				for _, size := range []int{300, 5000, 20000} {
					setBlockSize(t, size)
					inPlace := fileSource(path)
					taken := 0
					inPlace.Open = func() (io.ReadCloser, error) {
						f, err := os.Open(path)
						return plainFile{f, func(n int) { taken += n }}, err
					}
					if diff := cmp.Diff(want, showAll(readAll(t, Options{Epoch: zero}, inPlace, inPlace))); diff != "" {
						t.Fatalf("in blocks of %d, regions of %d pages (-want +got):\n%s", size, pages, diff)
					}
					if canMap && pages == 1 && size == 300 && len(text) > 20*os.Getpagesize() && taken == 0 {
						t.Errorf("nothing of it was read in place")
					}
				}
			}
		})
	}
}

// TestCutShort holds that a file which is cut short while it is read in place is
// an error, with the line that could not be read, and nothing worse.
func TestCutShort(t *testing.T) {
	if !canMap {
		t.Skip("no file is mapped on this system, and one that is cut short ends there")
	}
	setRegionSize(t, 2)
	lines := strings.SplitAfter(strings.Repeat(whole("A", 1500), 2000), "\n")
	for _, size := range []int{200, 3000} {
		setBlockSize(t, size)
		path := writeLog(t, strings.Join(lines, ""))
		cut := false
		s := Source{Name: "cuzk.log", Open: func() (io.ReadCloser, error) {
			f, err := os.Open(path)
			return plainFile{f, func(int) {
				if !cut {
					cut = true
					if err := os.Truncate(path, 0); err != nil {
						t.Error(err)
					}
				}
			}}, err
		}}
		var last error
		for _, err := range Read(t.Context(), "cuzk.log", Options{}, s) {
			last = err
		}
		if !errors.Is(last, errCutShort) {
			t.Fatalf("in blocks of %d: %v", size, last)
		}
		if want := fmt.Sprintf("reading cuzk.log, line 1: %v", errCutShort); last.Error() != want {
			t.Errorf("in blocks of %d: %v, want %s", size, last, want)
		}
	}
}

// TestRegionsLeft holds that regions are freed when a log is not read to its
// end.
func TestRegionsLeft(t *testing.T) {
	setRegionSize(t, 1)
	setBlockSize(t, 500)
	path := writeLog(t, strings.Repeat(whole("A", 1500), 100)+whole("B", 10)+strings.Repeat(whole("C", 20), 1000))
	for range Read(t.Context(), "cuzk.log", Options{}, fileSource(path)) {
		break
	}
}

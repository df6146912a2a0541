package run

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func fileSource(path string) Source {
	return Source{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }}
}

func TestTry(t *testing.T) {
	files, _ := filepath.Glob("../testdata/*.log")
	for _, f := range files {
		for u, err := range Read(t.Context(), f, Options{}, fileSource(f)) {
			if err != nil {
				t.Fatal(err)
			}
			fmt.Printf("%s sectors=%d dev=%v epoch=%v %s ±%v in=%+v\n", filepath.Base(u.Name), len(u.Sectors), u.Devices, u.Epoch.Time, u.Epoch.Source, u.Epoch.Uncertainty, u.Input)
		}
	}
}

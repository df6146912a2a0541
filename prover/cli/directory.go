package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/provetrace/provetrace/prover/groth16"
	"github.com/provetrace/provetrace/tracing/outfile"
)

// A directory has what a run leaves:
//
//	run.json       the summary, with the statements that were proved
//	spans.json     OTLP JSON, a request a line
//	timeline.log   the TIMELINE journal
//	proofs/        a JOB.proof for each sector: those of its partitions, 192 bytes each, in their order
//	verifying.key  what the proofs are checked with
type directory struct {
	path string
	kept bool // else it goes with the process
	made bool
}

// openDirectory makes the directory of a name, or without one a temporary one.
func openDirectory(name string, need int64) (d *directory, err error) {
	d = &directory{path: name, kept: name != ""}
	failed := func(err error) error {
		return fmt.Errorf("cannot write to %s: %w", d.path, outfile.Cause(err))
	}
	if !d.kept {
		if d.path, err = os.MkdirTemp("", "provetrace-"); err != nil {
			d.path = os.TempDir()
			return nil, failed(err)
		}
	} else if d.made, err = newDirectory(name); err != nil {
		return nil, err
	}
	if err := d.reserve(need); err != nil {
		d.close()
		return nil, failed(err)
	}
	return d, nil
}

// newDirectory makes a directory, unless there is an empty one.
func newDirectory(name string) (made bool, err error) {
	switch entries, err := os.ReadDir(name); {
	case errors.Is(err, os.ErrNotExist):
		if err := os.MkdirAll(name, 0o777); err != nil {
			return false, fmt.Errorf("cannot make the directory %s: %w", name, outfile.Cause(err))
		}
		return true, nil
	case err != nil:
		return false, fmt.Errorf("cannot write to %s: %w", name, outfile.Cause(err))
	case len(entries) > 0:
		return false, fmt.Errorf("the directory %s is not empty: name a new one, so that what is there stays", name)
	}
	return false, nil
}

// reserve sees whether there is room for so many bytes.
func (d *directory) reserve(bytes int64) error {
	f, err := os.CreateTemp(d.path, ".room-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := io.CopyN(f, zeros{}, bytes); err != nil {
		return err
	}
	return f.Sync()
}

// zeros is as many zeros as are read.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func (d *directory) file(name string) string { return filepath.Join(d.path, name) }

func (d *directory) spans() string   { return d.file("spans.json") }
func (d *directory) journal() string { return d.file("timeline.log") }

// proofsOf names the file of a sector's proofs in the directory.
func proofsOf(job string) string { return path.Join("proofs", job+".proof") }

// close removes a directory that is not to be kept, or that nothing was left in.
func (d *directory) close() {
	switch {
	case !d.kept:
		os.RemoveAll(d.path)
	case d.made:
		os.Remove(d.path) // only if it is empty
	}
}

// writeProofs writes the proofs of a sector.
func (d *directory) writeProofs(job string, proofs []groth16.Proof) error {
	name := d.file(filepath.FromSlash(proofsOf(job)))
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return fmt.Errorf("cannot write proofs to %s: %w", d.path, outfile.Cause(err))
	}
	var all []byte
	for _, p := range proofs {
		b, err := p.MarshalBinary()
		if err != nil {
			return err
		}
		all = append(all, b...)
	}
	return writeFile("proofs", name, all)
}

// writeSummary writes the summary of a run.
func (d *directory) writeSummary(s *summary) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return writeFile("the summary", d.file("run.json"), append(b, '\n'))
}

// writeFile writes a file that holds something.
func writeFile(what, name string, content []byte) error {
	f, err := outfile.Create(what, name)
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return f.Abort(err)
	}
	return f.Close()
}

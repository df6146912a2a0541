// Package outfile writes a file that gets its name only when it is whole:
// until then, it is a hidden one in the same directory. What was there under
// the name stays until it is replaced.
package outfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// A File is a file that is being written. [File.Close] or [File.Abort] ends it.
type File struct {
	what, name string // for people
	target     string // what the file is to be called
	w          io.Writer

	file       *os.File
	temp       string         // what the file is called until it is whole; empty where it is written in place
	compressor io.WriteCloser // nil where there is none
}

// Create begins a file that is to hold something, as errors call it. A name
// that ends in .gz or .zst has it compressed. What exists and is no regular
// file, such as a pipe, is written in place.
func Create(what, name string) (*File, error) {
	f := &File{what: what, name: name, target: name}
	// A link stays one, and what it names is replaced.
	if target, err := filepath.EvalSymlinks(name); err == nil {
		f.target = target
	}
	info, err := os.Stat(f.target)
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("cannot write %s to %s, which is a directory: give the name of a file", what, name)
	case err == nil && info.Mode()&os.ModeNamedPipe != 0:
		// Without its other end, opening would wait, and see no interrupt.
		f.file, err = os.OpenFile(f.target, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if errors.Is(err, syscall.ENXIO) {
			return nil, fmt.Errorf("cannot write %s to %s: nothing reads the pipe, start its reader first", what, name)
		}
	case err == nil && !info.Mode().IsRegular():
		f.file, err = os.OpenFile(f.target, os.O_WRONLY, 0)
	default:
		// Not os.CreateTemp, whose files only their owner may read.
		f.temp = filepath.Join(filepath.Dir(f.target), "."+filepath.Base(f.target)+"."+strconv.FormatUint(rand.Uint64(), 36)+".tmp")
		replaces := err == nil
		f.file, err = os.OpenFile(f.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil && replaces {
			f.file.Chmod(info.Mode().Perm()) // who may not read what is replaced may not read this
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot write %s to %s: %w", what, name, Cause(err))
	}
	f.w = f.file
	if f.temp != "" {
		f.w = &disk{File: f.file}
	}
	switch {
	case strings.HasSuffix(name, ".gz"):
		f.compressor, err = gzip.NewWriterLevel(f.w, gzip.BestSpeed)
	case strings.HasSuffix(name, ".zst"):
		f.compressor, err = zstd.NewWriter(f.w)
	}
	if err != nil {
		f.discard()
		return nil, fmt.Errorf("starting to compress %s: %w", name, err)
	}
	if f.compressor != nil {
		f.w = f.compressor
	}
	return f, nil
}

// Write appends to the file.
func (f *File) Write(b []byte) (int, error) { return f.w.Write(b) }

// Close completes the file and gives it its name, or else removes it.
func (f *File) Close() error {
	if err := f.finish(); err != nil {
		return f.Abort(err)
	}
	return nil
}

func (f *File) finish() error {
	if f.compressor != nil {
		if err := f.compressor.Close(); err != nil {
			return err
		}
		f.compressor = nil
	}
	if f.temp == "" {
		err := f.file.Close()
		f.file = nil
		return err
	}
	if err := f.file.Sync(); err != nil {
		return err
	}
	err := f.file.Close()
	f.file = nil
	if err != nil {
		return err
	}
	if err := os.Rename(f.temp, f.target); err != nil {
		return err
	}
	f.temp = ""
	// Some file systems cannot sync a directory; the file is whole without.
	if dir, err := os.Open(filepath.Dir(f.target)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}

// Abort removes what there is of the file and says in one sentence that it was
// not written, and why.
func (f *File) Abort(why error) error {
	left := ""
	if f.temp != "" {
		left = "; no file is left behind"
	}
	f.discard()
	return fmt.Errorf("cannot write %s to %s: %w%s", f.what, f.target, Cause(why), left)
}

// discard closes the file and removes it.
func (f *File) discard() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
	if f.compressor != nil {
		// For its goroutines' sake: what it writes fails, the file is closed.
		_ = f.compressor.Close()
		f.compressor = nil
	}
	if f.temp != "" {
		_ = os.Remove(f.temp)
		f.temp = ""
	}
}

// Cause says what to do about an error of the file system. The path that the
// error has is left out: it can be the hidden one.
func Cause(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &hint{"no space is left: free some, or write elsewhere", err}
	case errors.Is(err, syscall.EPIPE):
		return &hint{"what read it has stopped reading", err}
	case errors.Is(err, fs.ErrNotExist):
		return &hint{"its directory does not exist: create it, or write elsewhere", err}
	case errors.Is(err, fs.ErrPermission):
		return &hint{"permission is denied: write elsewhere", err}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &hint{"it was stopped before everything was written", err}
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	var linkErr *os.LinkError
	if errors.As(err, &linkErr) {
		return linkErr.Err
	}
	return err
}

// A hint is an error with a sentence for people in the place of its own text.
type hint struct {
	text string
	err  error
}

func (h *hint) Error() string { return h.text }
func (h *hint) Unwrap() error { return h.err }

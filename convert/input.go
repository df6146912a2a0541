package convert

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/provetrace/provetrace/convert/run"
)

// Stdin is the argument that stands for standard input.
const Stdin = "-"

// A Log is what is read as one stream: one file, or the pieces of one log.
type Log struct {
	Name    string
	Size    int64 // bytes as stored, of all pieces; 0 where unknown
	Sources []run.Source

	read atomic.Int64
}

// Read returns how many bytes of the log were read so far, as stored. It may
// be called from any goroutine.
func (l *Log) Read() int64 { return l.read.Load() }

// Logs finds the logs that the arguments name: files, directories (their files
// that look like logs, without those of subdirectories), glob patterns and
// [Stdin]. Each file is a log of its own, or with join all are the pieces of
// one, in the order of a rotation: NAME.2, NAME.1, NAME.
func Logs(args []string, join bool, stdin io.Reader) ([]*Log, error) {
	var files []string
	for _, arg := range args {
		found, err := expand(arg)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if join {
		slices.SortStableFunc(files, compareRotation)
	}
	var logs []*Log
	for _, name := range files {
		if len(logs) == 0 || !join {
			logs = append(logs, &Log{Name: displayName(name)})
		}
		l := logs[len(logs)-1]
		if err := l.add(name, stdin); err != nil {
			return nil, err
		}
	}
	return logs, nil
}

func displayName(name string) string {
	if name == Stdin {
		return "standard input"
	}
	return name
}

// add adds a file to a log.
func (l *Log) add(name string, stdin io.Reader) error {
	s := run.Source{Name: displayName(name)}
	if name == Stdin {
		s.Open = func() (io.ReadCloser, error) { return l.decompress(s.Name, io.NopCloser(stdin)) }
	} else {
		info, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", name, reason(err))
		}
		if info.IsDir() {
			return fmt.Errorf("cannot read %s: it is a directory within a directory, name it itself", name)
		}
		if info.Mode().IsRegular() {
			l.Size += info.Size()
			s.ModTime = info.ModTime()
		}
		s.Open = func() (io.ReadCloser, error) {
			f, err := os.Open(name)
			if err != nil {
				return nil, fmt.Errorf("cannot read %s: %w", name, reason(err))
			}
			return l.decompress(name, f)
		}
	}
	l.Sources = append(l.Sources, s)
	return nil
}

// reason returns the system's reason for a failure, without the call and the
// path that a sentence already names.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// looksLikeLog matches the names of the files that are taken from a directory:
// cuzk.log, cuzk.log.1, cuzk.log-20260218.gz, bench.txt, run.out.zst.
var looksLikeLog = regexp.MustCompile(`(?i)\.(log|txt|out|err|timeline)([.-][0-9][0-9T:-]*)?(\.(gz|zst))?$`)

// expand returns the files that an argument names.
func expand(arg string) ([]string, error) {
	if arg == Stdin {
		return []string{Stdin}, nil
	}
	info, err := os.Stat(arg)
	switch {
	case err == nil && info.IsDir():
		entries, err := os.ReadDir(arg)
		if err != nil {
			return nil, fmt.Errorf("cannot read the directory %s: %w", arg, reason(err))
		}
		var files []string
		for _, e := range entries {
			if !e.IsDir() && looksLikeLog.MatchString(e.Name()) {
				files = append(files, filepath.Join(arg, e.Name()))
			}
		}
		if files == nil {
			return nil, fmt.Errorf("no logs in the directory %s: files named like *.log, *.txt, *.out or *.err, also rotated or as .gz and .zst, are taken from it; name others themselves", arg)
		}
		return files, nil
	case err == nil:
		return []string{arg}, nil
	case !errors.Is(err, fs.ErrNotExist) || !strings.ContainsAny(arg, "*?["):
		return nil, fmt.Errorf("cannot read %s: %w", arg, reason(err))
	}
	files, err := filepath.Glob(arg)
	if err != nil {
		return nil, fmt.Errorf("%q is not a pattern for file names: %w", arg, err)
	}
	files = slices.DeleteFunc(files, func(f string) bool {
		info, err := os.Stat(f)
		return err == nil && info.IsDir()
	})
	if len(files) == 0 {
		return nil, fmt.Errorf("no file matches %s", arg)
	}
	return files, nil
}

var rotation = regexp.MustCompile(`^(.*?)(?:\.([0-9]+))?(?:\.(?:gz|zst))?$`)

// compareRotation orders the pieces of a rotated log from the oldest to the
// newest: of one name, a higher number is older and none is the newest.
func compareRotation(a, b string) int {
	ma, mb := rotation.FindStringSubmatch(a), rotation.FindStringSubmatch(b)
	if ma[1] != mb[1] {
		return 0 // of different names: as given
	}
	number := func(s string) int {
		n, _ := strconv.Atoi(s)
		return n
	}
	return cmp.Compare(number(mb[2]), number(ma[2]))
}

// maxWindow bounds the memory that a compressed log can ask for.
const maxWindow = 64 << 20

// decompress returns the text of a stored log: it tells gzip and zstd by their
// first bytes, whatever the name.
func (l *Log) decompress(name string, f io.ReadCloser) (io.ReadCloser, error) {
	counted := bufio.NewReaderSize(&countingReader{f, &l.read}, 128<<10)
	head, err := counted.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		f.Close()
		return nil, fmt.Errorf("cannot read %s: %w", name, reason(err))
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(counted)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("cannot read %s as gzip: %w", name, err)
		}
		return &stored{z, z, f}, nil
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(counted, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("cannot read %s as zstd: %w", name, err)
		}
		return &stored{z, z.IOReadCloser(), f}, nil
	}
	return &stored{Reader: counted, file: f}, nil
}

// A stored is a log in its stored form.
type stored struct {
	io.Reader
	decoder io.Closer // nil for plain text
	file    io.Closer
}

func (s *stored) Close() error {
	if s.decoder != nil {
		s.decoder.Close()
	}
	return s.file.Close()
}

type countingReader struct {
	r io.Reader
	n *atomic.Int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// ParseEpoch reads the argument of --epoch: now, or a time as RFC 3339, or as
// seconds since 1970.
func ParseEpoch(s string) (at time.Time, now bool, err error) {
	if s == "now" {
		return time.Time{}, true, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, s); err == nil {
			return at.UTC(), false, nil
		}
	}
	if sec, err := strconv.ParseFloat(s, 64); err == nil && sec > 0 && sec < 1e11 {
		return time.UnixMicro(int64(sec * 1e6)).UTC(), false, nil
	}
	return time.Time{}, false, fmt.Errorf("%q is not a time: give one such as 2026-02-18T14:59:07Z, seconds since 1970, or now", s)
}

package convert

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
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

	// Repeated are those of its files that the arguments name more than once,
	// and that are read once.
	Repeated []string

	files []fs.FileInfo
	read  atomic.Int64
	head  []byte
}

// Read returns how many bytes of the log were read so far, as stored. It may
// be called from any goroutine.
func (l *Log) Read() int64 { return l.read.Load() }

// Head returns the first bytes of the log's text, at most run.SpansHead, once
// [Read] has begun to yield.
func (l *Log) Head() []byte { return l.head }

// ErrJoin is of a file of spans that was to be a piece of a log.
var ErrJoin = errors.New("cannot be joined")

// Logs finds the logs that the arguments name: files, directories (their files
// that look like logs or hold spans, without those of subdirectories), glob
// patterns and [Stdin]. Each file is a log of its own, or with join all are the
// pieces of one, in the order of a rotation: NAME.2, NAME.1, NAME. A file that is
// named twice is read once. Waiting for a pipe or a terminal ends with ctx.
func Logs(ctx context.Context, args []string, join bool, stdin io.Reader) ([]*Log, error) {
	var files []string
	for _, arg := range args {
		found, err := expand(arg)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if join {
		files = byRotation(files)
	}
	var logs []*Log
	for _, name := range files {
		l := &Log{Name: displayName(name)}
		if join && len(logs) > 0 {
			l = logs[0]
		}
		info, err := stat(name, stdin)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", displayName(name), reason(err))
		}
		if i := slices.IndexFunc(logs, func(l *Log) bool { return l.Reads(info) }); i >= 0 {
			logs[i].repeat(info)
			continue
		}
		if err := l.add(ctx, name, info, stdin); err != nil {
			return nil, err
		}
		if len(logs) == 0 || !join {
			logs = append(logs, l)
		}
	}
	for _, l := range logs {
		if err := l.checkPieces(); err != nil {
			return nil, err
		}
	}
	return logs, nil
}

// repeat notes that a file of the log was named again.
func (l *Log) repeat(info fs.FileInfo) {
	i := slices.IndexFunc(l.files, func(f fs.FileInfo) bool { return same(f, info) })
	if name := l.Sources[i].Name; !slices.Contains(l.Repeated, name) {
		l.Repeated = append(l.Repeated, name)
	}
}

// checkPieces returns an error if some pieces of a log hold spans and others do
// not, as far as looking at them takes nothing away.
func (l *Log) checkPieces() error {
	if len(l.Sources) < 2 {
		return nil
	}
	var spans, text string
	for i, s := range l.Sources {
		if !l.files[i].Mode().IsRegular() {
			continue
		}
		switch head, err := headOf(s.Name); {
		case err != nil || len(head) == 0: // which is told of when it is read
		case run.IsSpans(head):
			spans = s.Name
		default:
			text = s.Name
		}
	}
	if spans != "" && text != "" {
		return notJoined(spans, text)
	}
	return nil
}

func notJoined(spans, text string) error {
	return fmt.Errorf("%s holds spans, which %w with %s: read them apart", spans, ErrJoin, text)
}

// headOf returns the first bytes of a file's text.
func headOf(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := new(Log).decompress(name, f)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	head, _ := peek(text)
	return head, nil
}

// Read yields the runs of a log: of a TIMELINE log as run.Read does, of files
// of spans as run.ReadSpans does. The first bytes of the first of its files
// tell; spans are no piece of a log.
func Read(ctx context.Context, l *Log, o run.Options) iter.Seq2[*run.Run, error] {
	return func(yield func(*run.Run, error) bool) {
		sources := slices.Clone(l.Sources)
		first, err := sources[0].Open()
		if err != nil {
			yield(nil, err)
			return
		}
		taken := false // by what reads, which then closes it
		defer func() {
			if !taken {
				first.Close()
			}
		}()
		var text io.ReadCloser
		l.head, text = peek(first)
		sources[0].Open = func() (io.ReadCloser, error) {
			taken = true
			return text, nil
		}
		read := run.ReadSpans
		if !run.IsSpans(l.head) {
			read = run.Read
			for i, s := range sources[1:] {
				sources[i+1].Open = func() (io.ReadCloser, error) { return openPiece(s, l.Name) }
			}
		}
		for r, err := range read(ctx, l.Name, o, sources...) {
			if !yield(r, err) {
				return
			}
		}
	}
}

// openPiece opens a piece of a log, unless that holds spans.
func openPiece(s run.Source, log string) (io.ReadCloser, error) {
	f, err := s.Open()
	if err != nil {
		return nil, err
	}
	head, text := peek(f)
	if run.IsSpans(head) {
		text.Close()
		return nil, notJoined(s.Name, log)
	}
	return text, nil
}

// peek returns the first bytes of a text, as many as tell whether it is spans,
// and the whole text. What goes wrong goes wrong again when that is read.
func peek(f io.ReadCloser) ([]byte, io.ReadCloser) {
	if p, ok := f.(*plain); ok {
		head := make([]byte, run.SpansHead)
		n, _ := p.file.ReadAt(head, 0)
		return head[:n], p
	}
	text := bufio.NewReaderSize(f, run.SpansHead)
	head, _ := text.Peek(run.SpansHead)
	return slices.Clone(head), peeked{text, f}
}

// A peeked is a file whose first bytes were looked at.
type peeked struct {
	io.Reader
	io.Closer
}

func displayName(name string) string {
	if name == Stdin {
		return "standard input"
	}
	return name
}

// add adds a file to a log.
func (l *Log) add(ctx context.Context, name string, info fs.FileInfo, stdin io.Reader) error {
	s := run.Source{Name: displayName(name)}
	if info.IsDir() {
		return fmt.Errorf("cannot read %s, which is a directory: name the logs in it", s.Name)
	}
	open := func() (io.ReadCloser, error) { return os.Open(name) }
	if name == Stdin {
		open = func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil }
	}
	if info.Mode().IsRegular() {
		l.Size += info.Size()
		s.ModTime = info.ModTime()
	} else {
		open = waiting(ctx, open)
	}
	s.Open = func() (io.ReadCloser, error) {
		f, err := open()
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", s.Name, reason(err))
		}
		return l.decompress(s.Name, f)
	}
	l.Sources = append(l.Sources, s)
	l.files = append(l.files, info)
	return nil
}

// stat returns what a file is.
func stat(name string, stdin io.Reader) (fs.FileInfo, error) {
	if name != Stdin {
		return os.Stat(name)
	}
	if f, ok := stdin.(*os.File); ok {
		return f.Stat()
	}
	return unknownFile{}, nil
}

// An unknownFile stands for a reader that is no file.
type unknownFile struct{ fs.FileInfo }

func (unknownFile) Mode() fs.FileMode { return fs.ModeIrregular }
func (unknownFile) IsDir() bool       { return false }

func same(a, b fs.FileInfo) bool { return a == b || os.SameFile(a, b) }

// Reads reports whether a file is among those that the log is read from.
func (l *Log) Reads(file fs.FileInfo) bool {
	return slices.ContainsFunc(l.files, func(f fs.FileInfo) bool { return same(f, file) })
}

// waiting returns how to open what may keep its reader waiting for ever, such
// as a pipe or a terminal: the waiting ends with ctx.
func waiting(ctx context.Context, open func() (io.ReadCloser, error)) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		// A read that never returns cannot be waited for.
		go func() {
			defer context.AfterFunc(ctx, func() { w.CloseWithError(context.Cause(ctx)) })()
			f, err := open()
			if err == nil {
				defer f.Close()
				_, err = io.CopyBuffer(w, struct{ io.Reader }{f}, make([]byte, 256<<10))
			}
			w.CloseWithError(err)
		}()
		return r, nil
	}
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

// mayHoldSpans matches the names of the files of a directory that are taken from
// it if they hold spans: spans.json, traces-2026-02-18T14-59-07.jsonl.zst, run.pb.
var mayHoldSpans = regexp.MustCompile(`(?i)\.(jsonl?|pb)([.-][0-9][0-9T:-]*)?(\.(gz|zst))?$`)

// A pipeline of this program keeps a run twice: as spans and, where these are
// not whole, as its journal.
const (
	spansOfRun   = "spans.json"
	journalOfRun = "timeline.log"
)

// expandDirectory returns the files of a directory that are logs, or that hold
// spans.
func expandDirectory(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the directory %s: %w", dir, reason(err))
	}
	var files []string
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
		case looksLikeLog.MatchString(e.Name()):
			files = append(files, name)
		case mayHoldSpans.MatchString(e.Name()):
			info, err := os.Stat(name)
			if err != nil || !info.Mode().IsRegular() {
				continue
			}
			// One that cannot be looked at is told of when it is read.
			if head, err := headOf(name); err != nil || run.IsSpans(head) {
				files = append(files, name)
			}
		}
	}
	if slices.Contains(files, filepath.Join(dir, spansOfRun)) {
		files = slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == journalOfRun })
	}
	if files == nil {
		return nil, fmt.Errorf("no logs in the directory %s: files named like *.log, *.txt, *.out or *.err, and files of spans named like *.json, *.jsonl or *.pb, also rotated or as .gz and .zst, are taken from it; name others themselves", dir)
	}
	return files, nil
}

// expand returns the files that an argument names.
func expand(arg string) ([]string, error) {
	if arg == Stdin {
		return []string{Stdin}, nil
	}
	info, err := os.Stat(arg)
	switch {
	case err == nil && info.IsDir():
		return expandDirectory(arg)
	case err == nil:
		return []string{arg}, nil
	case !errors.Is(err, fs.ErrNotExist) || !strings.ContainsAny(arg, "*?["):
		return nil, fmt.Errorf("cannot read %s: %w", arg, reason(err))
	}
	files, globErr := filepath.Glob(arg)
	if globErr != nil { // it is no pattern, but a name
		return nil, fmt.Errorf("cannot read %s: %w", arg, reason(err))
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

// rotated matches the name of a piece of a rotated log: cuzk.log, cuzk.log.1,
// cuzk.log.2.gz, cuzk.log-20260218.zst, cuzk.log.2026-02-18T14.
var rotated = regexp.MustCompile(`^(.*?)(?:\.([0-9]{1,6})|[.-]([0-9]{4}-?[0-9]{2}-?[0-9]{2}[0-9T_.:-]*?))?(?:\.(?:gz|zst))?$`)

// byRotation puts the pieces of each rotated log in the order in which they
// were written: those with dates, the highest number, the lowest, and the one
// without either. Logs of different names stay in the order given.
func byRotation(files []string) []string {
	type piece struct {
		file, date string
		number     int
		log        int // by the first mention of its name
	}
	logs := make(map[string]int)
	pieces := make([]piece, len(files))
	for i, f := range files {
		m := rotated.FindStringSubmatch(f)
		if m == nil {
			m = []string{f, f, "", ""} // a name with a newline
		}
		if _, ok := logs[m[1]]; !ok {
			logs[m[1]] = len(logs)
		}
		number, _ := strconv.Atoi(m[2])
		pieces[i] = piece{f, m[3], number, logs[m[1]]}
	}
	slices.SortStableFunc(pieces, func(a, b piece) int {
		return cmp.Or(
			cmp.Compare(a.log, b.log),
			-cmp.Compare(min(len(a.date), 1), min(len(b.date), 1)),
			cmp.Compare(a.date, b.date),
			-cmp.Compare(a.number, b.number),
		)
	})
	sorted := make([]string, len(files))
	for i, p := range pieces {
		sorted[i] = p.file
	}
	return sorted
}

// Rotated returns two of the logs that look like pieces of one that was
// rotated, if there are such.
func Rotated(logs []*Log) (older, newer string, ok bool) {
	byName := make(map[string]string)
	for _, l := range logs {
		m := rotated.FindStringSubmatch(l.Name)
		if m == nil {
			continue
		}
		if other, ok := byName[m[1]]; ok {
			pair := byRotation([]string{other, l.Name})
			return pair[0], pair[1], true
		}
		byName[m[1]] = l.Name
	}
	return "", "", false
}

// maxWindow bounds the memory that a compressed log can ask for: by what the
// zstd command takes too, unless told otherwise, and makes with --long.
const maxWindow = 128 << 20

// A format is how a log is stored, as its first bytes tell.
type format struct {
	magic string // bytes; a ? stands for any
	name  string
	open  func(io.Reader) (io.Reader, func(), error) // nil if it cannot be read
	tool  string                                     // that decompresses it, if it cannot be read
}

var formats = []format{
	{magic: "\x1f\x8b", name: "gzip", open: openGzip},
	{magic: "\x28\xb5\x2f\xfd", name: "zstd", open: openZstd},
	{magic: "?\x2a\x4d\x18", name: "zstd", open: openZstd}, // a frame to skip, which pzstd begins with
	{magic: "\xfd7zXZ", name: "xz", tool: "xz -d"},
	{magic: "BZh", name: "bzip2", tool: "bunzip2"},
	{magic: "\x04\x22\x4d\x18", name: "lz4", tool: "lz4 -d"},
	{magic: "PK\x03\x04", name: "zip", tool: "unzip"},
}

func (f *format) is(head []byte) bool {
	for i := range len(f.magic) {
		if i >= len(head) || f.magic[i] != '?' && f.magic[i] != head[i] {
			return false
		}
	}
	return true
}

// formatOf returns the format that a log begins with, or nil if it is plain.
func formatOf(head []byte) *format {
	if i := slices.IndexFunc(formats, func(f format) bool { return f.is(head) }); i >= 0 {
		return &formats[i]
	}
	return nil
}

func openGzip(r io.Reader) (io.Reader, func(), error) {
	z, err := gzip.NewReader(r)
	return z, func() {}, err
}

func openZstd(r io.Reader) (io.Reader, func(), error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, nil, err
	}
	return z, z.Close, nil
}

// decompress returns the text of a stored log: it tells how it is stored by its
// first bytes, whatever the name.
func (l *Log) decompress(name string, f io.ReadCloser) (io.ReadCloser, error) {
	if file, ok := f.(*os.File); ok {
		var head [6]byte
		n, err := file.ReadAt(head[:], 0)
		if (err == nil || err == io.EOF) && formatOf(head[:n]) == nil {
			return &plain{file, &l.read}, nil
		}
	}
	counted := bufio.NewReaderSize(&countingReader{f, &l.read}, 128<<10)
	head, err := counted.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		f.Close()
		return nil, fmt.Errorf("cannot read %s: %w", name, reason(err))
	}
	as := formatOf(head)
	if as == nil {
		return &stored{Reader: counted, file: f}, nil
	}
	if as.open == nil {
		f.Close()
		return nil, fmt.Errorf("cannot read %s, which is compressed by %s: decompress it with %s", name, as.name, as.tool)
	}
	text, closeText, err := as.open(counted)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot read %s: %w", name, damage(as.name, err))
	}
	return &stored{Reader: text, format: as.name, closeText: closeText, file: f}, nil
}

// A plain is a log that is stored as what it says.
type plain struct {
	file *os.File
	read *atomic.Int64
}

var _ run.PlainFile = (*plain)(nil)

func (p *plain) Read(b []byte) (int, error) {
	n, err := p.file.Read(b)
	p.Took(n)
	if err != nil && err != io.EOF {
		err = reason(err)
	}
	return n, err
}

func (p *plain) Close() error    { return p.file.Close() }
func (p *plain) Plain() *os.File { return p.file }
func (p *plain) Took(n int)      { p.read.Add(int64(n)) }

// A stored is a log in its stored form.
type stored struct {
	io.Reader
	format    string // empty for plain text
	closeText func()
	file      io.Closer
}

func (s *stored) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	switch {
	case err == nil || err == io.EOF:
	case s.format != "":
		err = damage(s.format, err)
	default:
		err = reason(err)
	}
	return n, err
}

func (s *stored) Close() error {
	if s.closeText != nil {
		s.closeText()
	}
	return s.file.Close()
}

// damage says what is wrong with compressed data.
func damage(format string, err error) error {
	what := ""
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		what = "it ends in the middle of its %s data"
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		what = "its %s data asks for more than " + strconv.Itoa(maxWindow>>20) + " MiB of memory: decompress it first, with zstd -d --long=31"
	case isCorrupt(err):
		what = "its %s data is damaged"
	default:
		return reason(err)
	}
	return &hint{fmt.Sprintf(what, format), err}
}

// isCorrupt reports whether an error comes from a decoder and not from a file.
func isCorrupt(err error) bool {
	var path *fs.PathError
	var errno syscall.Errno
	return !errors.As(err, &path) && !errors.As(err, &errno) && !errors.Is(err, context.Canceled)
}

// A hint is an error with words for people in the place of its own.
type hint struct {
	text string
	err  error
}

func (h *hint) Error() string { return h.text }
func (h *hint) Unwrap() error { return h.err }

type countingReader struct {
	r io.Reader
	n *atomic.Int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// ParseEpoch reads the argument of --epoch: now, or a time as RFC 3339, also
// with a space and without a zone, which is then UTC, or as seconds since 1970.
func ParseEpoch(s string) (at time.Time, now bool, err error) {
	if s == "now" {
		return time.Time{}, true, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateTime, time.DateOnly} {
		if at, err = time.Parse(layout, s); err == nil {
			break
		}
	}
	if at.IsZero() {
		sec, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(sec) {
			return time.Time{}, false, fmt.Errorf("%q is not a time: give one such as 2026-02-18T14:59:07Z, seconds since 1970, or now", s)
		}
		at = time.UnixMicro(int64(min(max(sec, -1), 1e11) * 1e6))
	}
	// A span's times are nanoseconds since 1970 in 64 bits.
	if year := at.UTC().Year(); year < 1970 || year > 2200 {
		return time.Time{}, false, fmt.Errorf("%q is not between the years 1970 and 2200", s)
	}
	return at.UTC(), false, nil
}

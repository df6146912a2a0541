package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/provetrace/provetrace/convert/enginelog"
	"github.com/provetrace/provetrace/tracing/timeline"
)

// Options are the options of [NewReader].
type Options struct {
	// WorkersPerDevice maps GPU workers to devices where the log does not:
	// device = worker / WorkersPerDevice. 0 means that there is one device.
	WorkersPerDevice int

	// Epoch, where not zero, is the wall clock of offset 0, whatever the log
	// says.
	Epoch time.Time

	// EndNow moves the run so that its last event is at present, whatever the
	// log says.
	EndNow bool
}

// A Source is one piece of a log.
type Source struct {
	Name    string
	ModTime time.Time // of the last write, zero where unknown
	Open    func() (io.ReadCloser, error)
}

// A Reader assembles the runs of a log, in bufio.Scanner's manner:
//
//	for r.Next(ctx) {
//		use(r.Run())
//	}
//	err := r.Err()
//
// It holds one run at a time. Memory is in proportion to the partitions of a
// run, about 60 bytes each, and not to the length of the log.
type Reader struct {
	o       Options
	name    string
	sources []Source
	source  int // the one being read, from 1
	closer  io.Closer
	lines   *timeline.Reader
	parser  enginelog.Parser
	fact    enginelog.Fact
	started time.Time // of reading

	jobs   jobs
	queue  queue
	asm    *assembly // the run being assembled
	runs   int
	run    *Run
	err    error
	length Length // of what was read
}

// A Length says how much was read.
type Length struct {
	Bytes, Lines int64
}

// NewReader returns a reader of the runs in a log of one or more pieces, which
// are read one after the other as one stream. The name is that of the log.
func NewReader(name string, o Options, sources ...Source) *Reader {
	return &Reader{o: o, name: name, sources: sources, started: time.Now()}
}

// Run returns the run that Next has read.
func (r *Reader) Run() *Run { return r.run }

// Err returns the error that ended the reading, nil at the log's end.
func (r *Reader) Err() error { return r.err }

// Length returns how much was read so far.
func (r *Reader) Length() Length {
	l := r.length
	if r.lines != nil {
		s := r.lines.Stats()
		l.Bytes += s.Bytes
		l.Lines += s.Lines
	}
	return l
}

// Next reads the next run and reports whether there was one. What stands before
// a place that cannot be read is a run as well; Err then tells the place. A log
// without any event has a run without sectors if it has a line with the marker,
// for its account, and none otherwise.
func (r *Reader) Next(ctx context.Context) bool {
	r.run = nil
	if r.err != nil {
		return false
	}
	if r.asm == nil {
		r.asm = newAssembly(r)
	}
	for steps := 0; ; steps++ {
		if steps&0xfff == 0 && ctx.Err() != nil {
			r.err = context.Cause(ctx)
			r.close()
			return false
		}
		more := r.fill()
		it := r.queue.head()
		if it == nil {
			if more {
				continue
			}
			return r.finish()
		}
		if r.asm.restarts(it, &r.queue) {
			r.finish()
			return true
		}
		r.asm.take(it)
		r.queue.pop()
	}
}

// finish hands out the run that was assembled, if it has anything.
func (r *Reader) finish() bool {
	asm := r.asm
	r.asm = nil
	if asm.empty() {
		return false
	}
	r.runs++
	name := r.name
	if r.runs > 1 {
		name = fmt.Sprintf("%s#%d", r.name, r.runs)
	}
	r.run = asm.finish(name)
	return true
}

// fill reads until the queue holds enough to look ahead, and reports whether
// there is more to read.
func (r *Reader) fill() bool {
	for r.queue.events <= window {
		if r.err != nil || r.lines == nil && !r.open() {
			return false
		}
		if !r.lines.Scan() {
			r.err = r.lines.Err()
			r.close()
			continue
		}
		r.put(r.lines.Record())
		if r.queue.full() {
			return true
		}
	}
	return true
}

// open opens the next source, if there is one.
func (r *Reader) open() bool {
	if r.source == len(r.sources) {
		return false
	}
	s := &r.sources[r.source]
	r.source++
	f, err := s.Open()
	if err != nil {
		r.err = err
		return false
	}
	r.closer = f
	r.lines = timeline.NewReader(f, s.Name)
	r.lines.KeepText(true)
	return true
}

func (r *Reader) close() {
	if r.lines == nil {
		return
	}
	r.length = r.Length()
	r.lines = nil
	if err := r.closer.Close(); err != nil && r.err == nil && !errors.Is(err, io.EOF) {
		r.err = fmt.Errorf("reading %s: %w", r.sources[r.source-1].Name, err)
	}
}

// put turns what a line says into an item of the queue.
func (r *Reader) put(rec *timeline.Record) {
	switch rec.Type {
	case timeline.EventRecord:
		ev := &rec.Event
		if ev.Partition > maxPartition || ev.Worker > maxWorker {
			it := r.queue.add(itemMalformed)
			it.line, it.source = rec.Line, r.source
			it.text = fmt.Sprintf("worker or partition beyond %d\x00%s", maxWorker, ev.Job)
			return
		}
		it := r.queue.add(itemEvent)
		it.kind = ev.Kind
		it.offset = ev.Offset
		it.partition = ev.Partition
		it.worker = ev.Worker
		it.duration = ev.Duration
		it.job = r.jobs.of(ev.Job)
		it.stitched = rec.Stitched
		if len(ev.ProofKind) > 0 {
			it.text = string(ev.ProofKind)
		}
		if len(rec.Prefix) > 0 && r.asm.epoch.wantsPrefix() {
			ref := r.started
			if t := r.sources[r.source-1].ModTime; !t.IsZero() {
				ref = t
			}
			if t, resolution, ok := rec.PrefixTime(ref); ok {
				it.wall, it.resolution = t.UnixMicro(), resolution
			}
		}
	case timeline.MalformedRecord:
		it := r.queue.add(itemMalformed)
		it.line, it.source = rec.Line, r.source
		it.text = rec.Problem + "\x00" + string(rec.Text)
	case timeline.TextRecord:
		if r.parser.Parse(rec.Text, &r.fact) {
			r.putFact(&r.fact)
		}
	}
}

// putFact turns what a line of the engine says into an item of the queue.
func (r *Reader) putFact(f *enginelog.Fact) {
	if f.Kind == enginelog.Other {
		// Of many in a row, the first and the last bound the epoch.
		if last := r.queue.tail(); last != nil && last.what == itemFact {
			last.until = f.Time
			return
		}
	}
	it := r.queue.add(itemFact)
	it.fact = f.Kind
	it.wall, it.until = f.Time, f.Time
	switch f.Kind {
	case enginelog.Timings:
		it.what = itemTimings
		d := f.Timings
		it.timings = &d
	case enginelog.WorkerStarted:
		it.worker, it.device = int32(min(f.Worker, maxWorker+1)), int32(min(f.Device, maxWorker))
	case enginelog.Dispatched:
		it.job, it.duration = r.jobs.of(f.Job), f.Count
	case enginelog.Admitted:
		it.job = r.jobs.of(f.Job)
	case enginelog.Synthesized, enginelog.Skipped, enginelog.Failed:
		it.job, it.duration = r.jobs.of(f.Job), f.Millis
		it.partition = timeline.WholeSector
		if f.Partition >= 0 && f.Partition <= maxPartition {
			it.partition = int32(f.Partition)
		}
		if f.Kind == enginelog.Failed {
			it.text = string(f.Reason)
		}
	}
}

// A what says what an item of the queue is.
type what uint8

const (
	itemEvent what = iota
	itemMalformed
	itemFact
	itemTimings
)

// An item is what a line said. Items wait in the queue so that the reader can
// look ahead.
type item struct {
	what       what
	kind       timeline.Kind
	fact       enginelog.Kind
	stitched   bool
	job        int32
	partition  int32
	worker     int32
	device     int32
	offset     int64
	duration   int64
	wall       int64 // µs, or 0
	until      int64 // µs: the last time of the lines that the item stands for
	resolution time.Duration
	line       int64
	source     int // of the line, from 1
	text       string
	timings    *enginelog.Durations
}

// window is how many events the reader looks ahead and behind to tell a
// restart from lines out of order.
const window = 12

// A queue is a ring of items, most of the time of the next window events and
// what stands between them.
type queue struct {
	items  []item
	first  int
	n      int
	events int
}

// queueSize bounds the queue where few events stand among many other lines.
const queueSize = 512

func (q *queue) full() bool { return q.n == queueSize }

func (q *queue) head() *item {
	if q.n == 0 {
		return nil
	}
	return &q.items[q.first]
}

func (q *queue) at(i int) *item { return &q.items[(q.first+i)%queueSize] }

func (q *queue) tail() *item {
	if q.n == 0 {
		return nil
	}
	return q.at(q.n - 1)
}

func (q *queue) add(w what) *item {
	if q.items == nil {
		q.items = make([]item, queueSize)
	}
	it := q.at(q.n)
	*it = item{what: w}
	q.n++
	if w == itemEvent {
		q.events++
	}
	return it
}

func (q *queue) pop() {
	if q.items[q.first].what == itemEvent {
		q.events--
	}
	q.first = (q.first + 1) % queueSize
	q.n--
}

// jobs numbers the job ids of a log.
type jobs struct {
	byID   map[string]int32
	names  []string
	recent [4]int32 // the latest numbers, for neighbouring lines share a few jobs
	next   int
}

func (j *jobs) of(id []byte) int32 {
	for _, n := range j.recent {
		if int(n) < len(j.names) && len(j.names[n]) == len(id) && j.names[n] == string(id) {
			return n
		}
	}
	n, ok := j.byID[string(id)]
	if !ok {
		if j.byID == nil {
			j.byID = make(map[string]int32)
		}
		name := string(bytes.Clone(id))
		n = int32(len(j.names))
		j.names = append(j.names, name)
		j.byID[name] = n
	}
	j.recent[j.next] = n
	j.next = (j.next + 1) % len(j.recent)
	return n
}

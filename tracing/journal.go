package tracing

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/provetrace/provetrace/tracing/timeline"
)

const (
	// journalQueue bounds the lines that wait to be written: those of some
	// hundred sectors.
	journalQueue = 1 << 14

	// journalPatience is how long closing waits for a writer that is stuck.
	journalPatience = 5 * time.Second

	// journalText bounds what an error says in the journal, in bytes.
	journalText = 1 << 10
)

// A journal writes what a recorder is told as a log that the converter reads:
// TIMELINE lines, and those of the engine's own lines that have what these lack,
// the wall clock, the devices of the workers, failures. Each line is written at
// once, by the journal's own goroutine.
type journal struct {
	start time.Time // offset 0
	w     io.Writer
	torn  bool // the last write failed, perhaps halfway

	mu      sync.Mutex
	closed  bool
	lines   chan journalLine
	drives  map[int]int // devices, by worker
	lost    int64
	err     error // the first
	written chan struct{}
}

// A journalLine is an event or, where it has a message, a line of the engine's
// kind.
type journalLine struct {
	at        time.Time
	kind      timeline.Kind
	partition int32
	worker    int32
	duration  time.Duration
	job       string
	proofKind string

	message string // with "error=" in front, it is an error's
}

func newJournal(w io.Writer, start time.Time) *journal {
	j := &journal{
		start: start, w: w,
		lines: make(chan journalLine, journalQueue), drives: make(map[int]int), written: make(chan struct{}),
	}
	go j.write()
	j.add(journalLine{at: start, message: "provetrace starting"})
	return j
}

// event notes that a partition has passed a point of the pipeline.
func (j *journal) event(kind timeline.Kind, p *Partition, worker int, at time.Time, duration time.Duration) {
	if j == nil {
		return
	}
	j.add(journalLine{
		at: at, kind: kind, job: p.s.info.Job, proofKind: p.s.info.ProofKind,
		partition: int32(p.index), worker: int32(worker), duration: duration,
	})
}

// started notes what is known of a sector that starts.
func (j *journal) started(s *Sector) {
	if j == nil {
		return
	}
	job := journalWord(s.info.Job)
	if s.waiting {
		j.add(journalLine{at: s.start, message: "Prove request_id=" + job})
	}
	if s.info.Partitions > 0 {
		j.add(journalLine{at: s.start, message: "dispatching per-partition synthesis job_id=" + job + " num_partitions=" + strconv.Itoa(s.info.Partitions)})
	}
}

// drive notes which device a worker drives, once.
func (j *journal) drive(worker, device int, at time.Time) {
	if j == nil || worker < 0 || device < 0 {
		return
	}
	j.mu.Lock()
	known, ok := j.drives[worker]
	j.drives[worker] = device
	j.mu.Unlock()
	if !ok || known != device {
		j.add(journalLine{at: at, message: fmt.Sprintf("pipeline GPU worker started worker_id=%d gpu=%d", worker, device)})
	}
}

// failed notes why a sector, or one of its partitions, failed.
func (j *journal) failed(job string, partition int, at time.Time, err error) {
	if j == nil {
		return
	}
	j.add(journalLine{at: at, message: "error=\"" + journalReason(fmt.Sprint(err)) + "\" job_id=" + journalWord(job) + partitionField(partition)})
}

// skipped notes that a partition is not proved since its sector has failed.
func (j *journal) skipped(job string, partition int, at time.Time) {
	if j == nil {
		return
	}
	j.add(journalLine{at: at, message: "skipping GPU prove for failed job job_id=" + journalWord(job) + partitionField(partition)})
}

func partitionField(partition int) string {
	if partition < 0 {
		return ""
	}
	return " partition=" + strconv.Itoa(partition)
}

// add queues a line, or counts it as lost where there is no room.
func (j *journal) add(l journalLine) {
	j.mu.Lock()
	full := false
	if !j.closed {
		select {
		case j.lines <- l:
		default:
			full = true
		}
	}
	j.mu.Unlock()
	if full {
		j.lose(1, errors.New("its writer is too slow"))
	}
}

// lose counts lines that are lost. The first loss is told.
func (j *journal) lose(lines int64, err error) {
	j.mu.Lock()
	first := j.lost == 0
	if first {
		j.err = err
	}
	j.lost += lines
	j.mu.Unlock()
	if first {
		handle(fmt.Errorf("tracing: the journal has begun to lose lines, the spans have not: %w", err))
	}
}

// write is the journal's goroutine.
func (j *journal) write() {
	defer close(j.written)
	events := timeline.NewWriter(journalWriter{j})
	var text []byte
	for l := range j.lines {
		var err error
		if l.message == "" {
			err = events.Write(l.event(j.start))
		} else {
			text = l.append(text[:0], j.start)
			_, err = journalWriter{j}.Write(text)
		}
		if err != nil {
			j.lose(1, err)
		}
	}
}

// A journalWriter writes a line, after the end of one that was written in part.
type journalWriter struct{ j *journal }

func (w journalWriter) Write(line []byte) (int, error) {
	j := w.j
	if j.torn {
		if _, err := io.WriteString(j.w, "\n"); err != nil {
			return 0, err
		}
		j.torn = false
	}
	n, err := j.w.Write(line)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	j.torn = err != nil && n > 0
	return n, err
}

// event returns the line as an event. Its offset is on the monotonic clock, on
// which nothing is before the start.
func (l *journalLine) event(start time.Time) timeline.Event {
	return timeline.Event{
		Offset: max(l.at.Sub(start).Milliseconds(), 0), Kind: l.kind, Partition: l.partition, Worker: l.worker,
		Duration: l.duration.Milliseconds(), Job: []byte(journalWord(l.job)), ProofKind: []byte(l.proofKind),
	}
}

// append appends the line in the format of the engine's own log. Its wall clock
// is the start's, moved on by the monotonic one.
func (l *journalLine) append(b []byte, start time.Time) []byte {
	b = start.Add(l.at.Sub(start)).UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	level := "  INFO"
	if strings.HasPrefix(l.message, "error=") {
		level = " ERROR"
	}
	b = append(b, level...)
	b = append(b, " provetrace: "...)
	b = append(b, l.message...)
	return append(b, '\n')
}

// journalWord returns a job's id without what cannot stand in both kinds of
// lines, which have to agree.
func journalWord(job string) string {
	word := strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f || strings.ContainsRune(`,="\`, r) {
			return '_'
		}
		return r
	}, job)
	if stem, ok := strings.CutSuffix(word, "TIMELINE"); ok {
		word = stem + "TIMELIN_" // a comma follows in the log
	}
	return word
}

// journalReason returns the text of an error as it can stand between quotes,
// without what would read as another line.
func journalReason(text string) string {
	if len(text) > journalText {
		text = strings.ToValidUTF8(text[:journalText], "") + " …"
	}
	text = strings.ReplaceAll(text, "TIMELINE,", "TIMELINE ")
	return strings.Map(func(r rune) rune {
		switch {
		case r < ' ' || r == 0x7f:
			return ' '
		case r == '"':
			return '\''
		case r == '\\':
			return '/'
		}
		return r
	}, text)
}

// close writes what is queued. After some patience with a writer that is
// stuck, what it has not taken is lost.
func (j *journal) close() {
	if j == nil {
		return
	}
	j.mu.Lock()
	if !j.closed {
		j.closed = true
		close(j.lines)
	}
	j.mu.Unlock()
	select {
	case <-j.written:
	case <-time.After(journalPatience):
		j.lose(int64(len(j.lines))+1, errors.New("its writer is stuck"))
	}
}

// JournalErr says what the journal lacks, and why. It is nil where nothing is
// lost; until Close, lines can still be on their way.
func (r *Recorder) JournalErr() error {
	if r == nil || r.journal == nil {
		return nil
	}
	j := r.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lost == 0 {
		return nil
	}
	return fmt.Errorf("tracing: the journal lacks %d lines: %w", j.lost, j.err)
}

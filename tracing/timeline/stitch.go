package timeline

import (
	"bytes"
	"slices"
)

// Torn lines. The engine's threads write the pieces of a line one by one, so
// that another writer's bytes can land between them:
//
//	TIMELINE,1500,TIMELINE,1500,SYNTH_START,JOB,partition=1
//	SYNTH_START,JOB,partition=2
//
// The first line holds the head of one event and the whole of another; the
// second is the tail of the first. A head waits for as long as its tail may
// still come; a line that could be the tail of one or more waiting heads waits
// with them. Once all heads that share tails have waited long enough, they are
// joined if there is exactly one way to do so that leaves no piece over; which
// of several heads with the same text gets which tail makes no difference.
// Anything else would be a guess, and gives malformed records.

const (
	window = 8 // lines after a head's line on which its tail may stand

	// Limits beyond which heads are settled early: a log must not make the
	// queue grow without end.
	maxHeld      = 512
	maxHeldBytes = 2 << 20
	maxHeads     = 64
	maxSteps     = 4096 // of the search for a way to join
)

const (
	problemCut       = "cut short"
	problemEnds      = "the file ends inside this line"
	problemLong      = "longer than 64 KiB"
	problemAmbiguous = "torn, and its rest cannot be told from another's"
)

type state uint8

const (
	readyState state = iota // to be yielded
	headState               // waits for a tail
	tailState               // waits for a head
	goneState               // used up by another
)

// A role says what becomes of a head without a tail.
type role uint8

const (
	cutLine       role = iota // malformed
	wholeLine                 // an event as it stands
	startOfMarker             // nothing: it has been given as a prefix
)

// An item is a record in the queue, or what may become one.
type item struct {
	rec   Record
	state state
	role  role
	text  []byte // a head's or a tail's own text, without ANSI sequences
	words int    // of a head: how many words the capture puts before a line
	ended bool   // of a tail: its line has an end
	round int    // the last call of component that collected it

	firstEdge, endEdge int // of a tail: its edges
}

// An edge says that the two could be one line.
type edge struct{ head, tail int }

// A queue holds back the records behind a torn line.
type queue struct {
	items []item
	front int // the first item that has not been yielded
	heads int // how many items are in headState
	edges []edge

	// The memory of the records in the queue. A chunk that is full is left to
	// the slices that point into it.
	chunk []byte
	size  int

	scratch          []byte
	inHeads, inTails []int // what is being settled
	round            int
	way, joined      []int // the head of each of inTails: being tried, and found
}

// busy reports whether the queue holds anything.
func (q *queue) busy() bool { return q.front < len(q.items) }

// begin reuses the memory of what has been yielded.
func (q *queue) begin() {
	switch {
	case !q.busy():
		q.items, q.edges = q.items[:0], q.edges[:0]
		q.front, q.heads = 0, 0
		q.chunk, q.size = q.chunk[:0], 0
	case q.front >= maxHeld/2:
		// Torn line upon torn line: the queue is never empty.
		q.compact()
	}
}

// compact drops the items that have been yielded.
func (q *queue) compact() {
	dropped := q.front
	n := copy(q.items, q.items[dropped:])
	clear(q.items[n:])
	q.items, q.front, q.size = q.items[:n], 0, 0
	for i := range q.items {
		it := &q.items[i]
		it.firstEdge, it.endEdge = 0, 0
		q.size += len(it.text) + len(it.rec.Text) + len(it.rec.Prefix) + len(it.rec.Event.Job)
	}
	edges := q.edges[:0]
	for _, e := range q.edges {
		if e.head < dropped || e.tail < dropped {
			continue
		}
		e.head -= dropped
		e.tail -= dropped
		it := &q.items[e.tail]
		if it.endEdge == 0 {
			it.firstEdge = len(edges)
		}
		edges = append(edges, e)
		it.endEdge = len(edges)
	}
	q.edges = edges
}

// pop moves the record at the front to rec, unless that still waits.
func (q *queue) pop(rec *Record) bool {
	for ; q.busy(); q.front++ {
		switch it := &q.items[q.front]; it.state {
		case readyState:
			*rec = it.rec
			q.front++
			return true
		case headState, tailState:
			return false
		}
	}
	return false
}

// reserve returns an empty slice with room for n bytes that stays the caller's.
func (q *queue) reserve(n int) []byte {
	if cap(q.chunk)-len(q.chunk) < n {
		q.chunk = make([]byte, 0, max(min(2*cap(q.chunk), 1<<20), n, 4096))
	}
	q.size += n
	i := len(q.chunk)
	q.chunk = q.chunk[:i+n]
	return q.chunk[i:i:len(q.chunk)]
}

// hold returns a copy of b that lives as long as the queue's items.
func (q *queue) hold(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return append(q.reserve(len(b)), b...)
}

func (q *queue) add(t RecordType, src source) *item {
	q.items = append(q.items, item{
		rec: Record{Type: t, Line: src.line, Byte: src.byte, Prefix: src.prefix},
	})
	return &q.items[len(q.items)-1]
}

func (q *queue) addEvent(src source, e *Event) {
	q.setEvent(q.add(EventRecord, src), e)
}

// setEvent makes the item a record of the event.
func (q *queue) setEvent(it *item, e *Event) {
	it.state = readyState
	it.rec.Type, it.rec.Text, it.rec.Problem = EventRecord, nil, ""
	it.rec.Event = *e
	it.rec.Event.Job = q.hold(e.Job)
	it.rec.Event.ProofKind = q.hold(e.ProofKind)
}

func (q *queue) addMalformed(src source, raw []byte, problem string) {
	it := q.add(MalformedRecord, src)
	it.rec.Text, it.rec.Problem = q.hold(raw[:min(len(raw), maxShown)]), problem
}

// setMalformed makes the item, a head or a tail, a record of its text.
func (it *item) setMalformed(problem string) {
	it.state = readyState
	it.rec.Type, it.rec.Problem = MalformedRecord, problem
}

// addText queues a line without a marker, if those are wanted.
func (q *queue) addText(src source, text []byte, keep bool) {
	if keep {
		src.prefix = nil
		q.add(TextRecord, src).rec.Text = q.hold(text)
	}
}

// addHead queues the start of a torn line; raw and problem are for the
// malformed record that may become of it.
func (q *queue) addHead(role role, src source, text, raw []byte, problem string) {
	it := q.add(MalformedRecord, src)
	it.state, it.role, it.text, it.words = headState, role, q.hold(text), src.words
	it.rec.Text, it.rec.Problem = q.hold(raw[:min(len(raw), maxShown)]), problem
	q.heads++
}

// addTail queues the line as a tail if it could be that of a waiting head, and
// reports whether it could.
func (q *queue) addTail(src source, line []byte, ended bool) bool {
	if q.heads == 0 || len(line) > maxPending+maxPrefix {
		return false
	}
	text := line
	if bytes.IndexByte(line, esc) >= 0 {
		q.scratch = StripANSI(q.scratch[:0], line)
		text = q.hold(q.scratch)
	}
	text = bytes.TrimRight(text, "\r")
	tail, first := len(q.items), len(q.edges)
	for i := q.front; i < tail; i++ {
		h := &q.items[i]
		if h.state != headState {
			continue
		}
		var e Event
		if q.join(h, text, &e) {
			q.edges = append(q.edges, edge{i, tail})
		}
	}
	if len(q.edges) == first {
		return false
	}
	it := q.add(MalformedRecord, src)
	it.state, it.text, it.ended = tailState, q.hold(text), ended
	it.firstEdge, it.endEdge = first, len(q.edges)
	it.rec.Text = q.hold(line[:min(len(line), maxShown)])
	return true
}

// join reads the event that the head and the line with the tail make, which
// must be a line as the engine writes it, byte for byte, with a job that is a
// plain word. The event's slices are valid until the next join.
func (q *queue) join(head *item, line []byte, e *Event) bool {
	tail := line
	if i := bytes.LastIndexByte(line, ' '); i >= 0 {
		if head.words == 0 || words(line[:i]) != head.words {
			return false
		}
		tail = line[i+1:]
	}
	if len(tail) == 0 {
		return false
	}
	q.scratch = append(append(q.scratch[:0], head.text...), tail...)
	n := len(q.scratch)
	if !hasMarker(q.scratch) {
		return false
	}
	if v, _ := parse(q.scratch, e, true); v != whole || len(e.Job) > maxJob {
		return false
	}
	for _, c := range e.Job {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	q.scratch = e.AppendTo(q.scratch)
	return string(q.scratch[n:len(q.scratch)-1]) == string(q.scratch[:n])
}

// full reports whether the queue has reached a limit.
func (q *queue) full() bool {
	return len(q.items)-q.front > maxHeld || q.size > maxHeldBytes || q.heads > maxHeads
}

// endLine is told that the items of the line have all been queued.
func (q *queue) endLine(line int64) {
	if q.full() {
		q.settle()
	} else {
		q.settleUntil(line)
	}
}

// settle decides about all that waits, as if no more lines came.
func (q *queue) settle() { q.settleUntil(1<<63 - 1) }

// settleUntil decides about the heads at the front that have seen all the
// lines that could have been their tails, the last being the one given.
func (q *queue) settleUntil(line int64) {
	for i := q.front; i < len(q.items) && q.heads > 0; i++ {
		it := &q.items[i]
		if it.state != headState {
			continue
		}
		if it.rec.Line+window > line {
			return
		}
		if q.settleForced(i) {
			continue
		}
		if !q.component(i, line) {
			return
		}
		q.settleComponent()
	}
}

// settleForced decides about the head, the first that waits, if it has no tail
// or if there are tails that can only be its own, or only its own and those of
// heads with the same text: which of these has which tail makes no difference.
// It reports whether it decided.
func (q *queue) settleForced(head int) bool {
	q.inHeads, q.inTails = append(q.inHeads[:0], head), q.inTails[:0]
	tails := 0
	for _, e := range q.edges {
		if e.head != head || q.items[e.tail].state != tailState {
			continue
		}
		tails++
		if q.onlyLike(head, e.tail) {
			q.inTails = append(q.inTails, e.tail)
		}
	}
	if tails > 0 && len(q.inTails) == 0 {
		return false
	}
	for _, t := range q.inTails {
		for _, e := range q.candidates(t) {
			if q.items[e.head].state == headState && !slices.Contains(q.inHeads, e.head) {
				q.inHeads = append(q.inHeads, e.head)
			}
		}
	}
	if len(q.inTails) > len(q.inHeads) {
		q.settleAmbiguous()
		return true
	}
	q.inHeads, q.inTails = q.inHeads[:1], q.inTails[:min(len(q.inTails), 1)]
	q.settleJoined(q.inHeads)
	return true
}

// onlyLike reports whether the heads that could be the tail's all have the
// text of the one given.
func (q *queue) onlyLike(head, tail int) bool {
	for _, e := range q.candidates(tail) {
		if it := &q.items[e.head]; it.state == headState && !bytes.Equal(it.text, q.items[head].text) {
			return false
		}
	}
	return true
}

// candidates returns the edges of a tail, which lie together.
func (q *queue) candidates(tail int) []edge {
	it := &q.items[tail]
	return q.edges[it.firstEdge:it.endEdge]
}

// component collects the heads and tails that share edges with the head, and
// reports whether none of them still waits for lines to come.
func (q *queue) component(head int, line int64) bool {
	q.round++
	q.items[head].round = q.round
	q.inHeads, q.inTails = append(q.inHeads[:0], head), q.inTails[:0]
	for grown := true; grown; {
		grown = false
		for _, e := range q.edges {
			h, t := &q.items[e.head], &q.items[e.tail]
			if h.state != headState || t.state != tailState || (h.round == q.round) == (t.round == q.round) {
				continue
			}
			grown = true
			if t.round != q.round {
				t.round = q.round
				q.inTails = append(q.inTails, e.tail)
				continue
			}
			if h.rec.Line+window > line {
				return false
			}
			h.round = q.round
			q.inHeads = append(q.inHeads, e.head)
		}
	}
	// In the order of the file, so that of equal heads the first one, which
	// waits no longer than the others, gets the first tail.
	slices.Sort(q.inHeads)
	slices.Sort(q.inTails)
	return true
}

// settleComponent decides about the heads and tails that component collected.
func (q *queue) settleComponent() {
	s := search{q: q, way: append(q.way[:0], q.inTails...)}
	q.way = s.way
	s.place(0)
	if s.found == 1 && s.steps <= maxSteps {
		q.settleJoined(q.joined)
	} else {
		q.settleAmbiguous()
	}
}

// settleAmbiguous makes the heads and tails collected malformed.
func (q *queue) settleAmbiguous() {
	q.heads -= len(q.inHeads)
	for _, h := range q.inHeads {
		if it := &q.items[h]; it.role == startOfMarker {
			it.state = goneState
		} else {
			it.setMalformed(problemAmbiguous)
		}
	}
	for _, t := range q.inTails {
		q.items[t].setMalformed(problemAmbiguous)
	}
}

// settleJoined joins the tails collected to the heads given for each, and
// decides about the heads without one.
func (q *queue) settleJoined(heads []int) {
	q.heads -= len(q.inHeads)
	for i, t := range q.inTails {
		q.joinPair(&q.items[heads[i]], &q.items[t])
	}
	for _, h := range q.inHeads {
		if it := &q.items[h]; it.state == headState {
			q.settleAlone(it)
		}
	}
}

// joinPair makes a head and its tail one event.
func (q *queue) joinPair(head, tail *item) {
	tail.state = goneState
	if !tail.ended {
		if head.role == startOfMarker {
			head.state = goneState
			tail.setMalformed(problemEnds)
		} else {
			head.setMalformed(problemEnds)
		}
		return
	}
	var e Event
	q.join(head, tail.text, &e)
	q.setEvent(head, &e)
	head.rec.Stitched = true
}

// settleAlone decides about a head without a tail.
func (q *queue) settleAlone(it *item) {
	switch it.role {
	case wholeLine:
		var e Event
		parse(it.text, &e, false)
		q.setEvent(it, &e)
	case startOfMarker:
		it.state = goneState
	default:
		it.setMalformed(it.rec.Problem)
	}
}

// A search counts the ways to give each tail of a component a head of its own
// that leave no cut line without a tail, up to two. Ways that differ in which
// of several equal heads gets a tail count as one.
type search struct {
	q     *queue
	way   []int // the head of each tail so far
	found int
	steps int
}

func (s *search) place(i int) {
	q := s.q
	if i == len(q.inTails) {
		for _, h := range q.inHeads {
			if q.items[h].role == cutLine && !slices.Contains(s.way, h) {
				return
			}
		}
		s.found++
		q.joined = append(q.joined[:0], s.way...)
		return
	}
	candidates := q.candidates(q.inTails[i])
	for n, c := range candidates {
		if s.steps++; s.steps > maxSteps || s.found > 1 {
			return
		}
		if !s.free(i, c.head) {
			continue
		}
		tried := false
		for _, earlier := range candidates[:n] {
			tried = tried || s.free(i, earlier.head) &&
				bytes.Equal(q.items[earlier.head].text, q.items[c.head].text)
		}
		if !tried {
			s.way[i] = c.head
			s.place(i + 1)
		}
	}
}

// free reports whether the first i tails have left the head without one.
func (s *search) free(i, head int) bool {
	return s.q.items[head].state == headState && !slices.Contains(s.way[:i], head)
}

package run

import (
	"math"
	"slices"
	"time"
)

// An interval holds what a run's epoch can be, in µs since 1970.
type interval struct{ lo, hi int64 }

// maxIntervals bounds the intervals kept for an epoch. Of more, the widest go.
const maxIntervals = 4096

// epochs gathers what bounds a run's epoch: the wall clock of offset 0.
//
// A line with a wall clock w between events of offsets a and b was written
// between them, so the epoch is at most w - a and at least w - b. An offset is
// cut to whole ms, so its event was up to 1 ms later. The same holds for a time
// that a capture put before an event's own line.
type epochs struct {
	engineLog []interval
	prefix    []interval
	events    int64
	last      int64 // offset, ms
	first     int64 // wall, µs: of the lines since the last event; 0 if there is none
	until     int64
}

const msMicros = 1000

// engine adds the times of lines of the engine's own log.
func (e *epochs) engine(first, until int64) {
	if e.first == 0 {
		e.first = first
	}
	e.until = until
}

// event adds an event, which may have a capture's time before it.
func (e *epochs) event(it *item, x *extra) {
	if e.first != 0 || x != nil {
		e.bound(it, x)
	}
	e.events++
	e.last = it.offset
}

// bound bounds the epoch by what is before an event.
func (e *epochs) bound(it *item, x *extra) {
	if e.first != 0 {
		iv := interval{e.until - (it.offset+1)*msMicros, math.MaxInt64}
		if e.events > 0 {
			iv.hi = e.first - e.last*msMicros
		}
		e.engineLog = keep(e.engineLog, iv)
		e.first = 0
	}
	if x != nil && x.wall != 0 && (len(e.prefix) < maxIntervals/4 || e.events%16 == 0) {
		e.prefix = keep(e.prefix, interval{
			x.wall - (it.offset+1)*msMicros,
			x.wall + x.resolution.Microseconds() - it.offset*msMicros,
		})
	}
}

// keep adds an interval, dropping the widest half when there are too many.
func keep(ivs []interval, iv interval) []interval {
	if iv.lo > iv.hi {
		return ivs // from lines out of order
	}
	if len(ivs) == maxIntervals {
		slices.SortFunc(ivs, func(a, b interval) int { return compareWidth(a, b) })
		ivs = ivs[:maxIntervals/2]
	}
	return append(ivs, iv)
}

func compareWidth(a, b interval) int {
	switch wa, wb := uint64(a.hi)-uint64(a.lo), uint64(b.hi)-uint64(b.lo); {
	case wa < wb:
		return -1
	case wa > wb:
		return 1
	}
	return 0
}

// agree returns the interval on which most of the given ones agree (Marzullo's
// algorithm): their intersection, where no line is out of order.
func agree(ivs []interval) (interval, bool) {
	type edge struct {
		at    int64
		opens bool
	}
	edges := make([]edge, 0, 2*len(ivs))
	for _, iv := range ivs {
		edges = append(edges, edge{iv.lo, true}, edge{iv.hi, false})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		switch {
		case a.at != b.at:
			if a.at < b.at {
				return -1
			}
			return 1
		case a.opens == b.opens:
			return 0
		case a.opens:
			return -1
		}
		return 1
	})
	var best interval
	n, most := 0, 0
	for i, e := range edges {
		if !e.opens {
			n--
			continue
		}
		if n++; n > most && i+1 < len(edges) {
			most, best = n, interval{e.at, edges[i+1].at}
		}
	}
	return best, most > 0 && best.hi != math.MaxInt64
}

// ofEngineLog returns the epoch by the engine's own lines, which are also what
// turns their times into offsets.
func (e *epochs) ofEngineLog() (Epoch, bool) {
	ivs := e.engineLog
	if e.first != 0 && e.events > 0 { // lines behind the last event
		ivs = keep(slices.Clip(ivs), interval{math.MinInt64, e.first - e.last*msMicros})
	}
	return epochOf(ivs, EpochEngineLog)
}

func epochOf(ivs []interval, source EpochSource) (Epoch, bool) {
	iv, ok := agree(ivs)
	if !ok || iv.lo == math.MinInt64 {
		return Epoch{}, false
	}
	half := (iv.hi - iv.lo) / 2
	return Epoch{time.UnixMicro(iv.lo + half).UTC(), source, time.Duration(half) * time.Microsecond}, true
}

// settle returns the run's epoch: the user's, else by the best evidence there
// is. The last event's offset is in ms; the log was last written at a time that
// may be unknown.
func (e *epochs) settle(o Options, last int64, written, now time.Time) Epoch {
	ended := func(at time.Time, source EpochSource, uncertainty time.Duration) Epoch {
		return Epoch{at.Add(-time.Duration(last) * time.Millisecond).UTC().Truncate(time.Millisecond), source, uncertainty}
	}
	if o.EndNow {
		return ended(now, EpochNow, 0)
	}
	if !o.Epoch.IsZero() {
		return Epoch{o.Epoch, EpochGiven, 0}
	}
	if ep, ok := e.ofEngineLog(); ok {
		return ep
	}
	if ep, ok := epochOf(e.prefix, EpochPrefix); ok {
		return ep
	}
	if ep := ended(written, EpochFileTime, -1); plausible(ep.Time.UnixMicro()) {
		return ep
	}
	return ended(now, EpochReadTime, -1)
}

// own reports whether the epoch is of evidence for the run itself.
func (e Epoch) own() bool { return e.Source != EpochFileTime && e.Source != EpochReadTime }

// endBefore places a run without an epoch of its own before the next one.
func (r *Run) endBefore(next *Run) {
	if !r.Epoch.own() {
		began := next.Time(max(next.First, 0))
		r.Epoch = Epoch{began.Add(-time.Duration(max(r.Last, 0)) * time.Millisecond), EpochNextRun, -1}
	}
}

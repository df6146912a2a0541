package perfetto

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/provetrace/provetrace/convert/report"
	"github.com/provetrace/provetrace/convert/run"
)

// A writer writes trace events as they come. It keeps the first error.
type writer struct {
	w     *bufio.Writer
	b     []byte // the event under way
	first bool
	grey  bool // slices
	err   error
}

func newWriter(w io.Writer) *writer {
	return &writer{w: bufio.NewWriterSize(w, 1<<16), first: true}
}

// args are what a viewer shows of an event. Values are strings, integers and
// booleans.
type args []arg

type arg struct {
	key   attribute.Key
	value any
}

// known adds a number, unless it is unknown.
func (a args) known(key attribute.Key, v int64) args {
	if v == run.Unknown {
		return a
	}
	return append(a, arg{key, v})
}

// open begins the trace. Events come last, so that they can be streamed.
func (w *writer) open(m *run.Run, scope string) {
	w.b = append(w.b, `{"displayTimeUnit":"ms","otherData":{"run":`...)
	w.text(m.Name)
	w.b = append(w.b, `,"clock":"ts 0 is the start of the run's clock","epoch":`...)
	w.text(m.Epoch.Time.UTC().Format(time.RFC3339Nano))
	w.b = append(w.b, `,"epoch_source":`...)
	w.text(string(m.Epoch.Source))
	if scope != "" {
		w.b = append(w.b, `,"scope":`...)
		w.text(scope)
	}
	w.b = append(w.b, "},\"traceEvents\":[\n"...)
	w.flush()
}

func (w *writer) close() error {
	w.b = append(w.b, "\n]}\n"...)
	w.flush()
	if err := w.w.Flush(); w.err == nil {
		w.err = err
	}
	return w.err
}

func (w *writer) flush() {
	if w.err == nil {
		_, w.err = w.w.Write(w.b)
	}
	w.b = w.b[:0]
}

// text writes a string such that a viewer shows it and does nothing else.
func (w *writer) text(s string) {
	s = report.Sanitize(s)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(s)
			if err != nil {
				quoted = []byte(`""`) // a string can always be marshaled
			}
			w.b = append(w.b, quoted...)
			return
		}
	}
	w.b = append(append(append(w.b, '"'), s...), '"')
}

func (w *writer) int(key string, v int64) {
	w.b = strconv.AppendInt(append(w.b, key...), v, 10)
}

// begin begins an event of a kind. Times are in µs, as the format has them.
func (w *writer) begin(kind byte, pid, tid int, name string, us int64) {
	if !w.first {
		w.b = append(w.b, ",\n"...)
	}
	w.first = false
	w.b = append(append(w.b, `{"ph":"`...), kind, '"')
	w.int(`,"pid":`, int64(pid))
	w.int(`,"tid":`, int64(tid))
	w.int(`,"ts":`, us)
	w.b = append(w.b, `,"name":`...)
	w.text(name)
}

func (w *writer) category(cat string) {
	w.b = append(w.b, `,"cat":`...)
	w.text(cat)
}

// end ends an event, with its arguments.
func (w *writer) end(a args) {
	w.b = append(w.b, `,"args":{`...)
	for i, arg := range a {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.text(string(arg.key))
		w.b = append(w.b, ':')
		switch v := arg.value.(type) {
		case string:
			w.text(v)
		case bool:
			w.b = strconv.AppendBool(w.b, v)
		case int:
			w.b = strconv.AppendInt(w.b, int64(v), 10)
		case int64:
			w.b = strconv.AppendInt(w.b, v, 10)
		case float64:
			w.b = strconv.AppendFloat(w.b, v, 'g', 6, 64)
		}
	}
	w.b = append(w.b, "}}"...)
	w.flush()
}

// process and thread name a group of tracks and a track, and say where they
// stand.
func (w *writer) process(pid int, name string, order int) {
	w.begin('M', pid, 0, "process_name", 0)
	w.end(args{{"name", name}})
	w.begin('M', pid, 0, "process_sort_index", 0)
	w.end(args{{"sort_index", order}})
}

func (w *writer) thread(pid, tid int, name string, order int) {
	w.begin('M', pid, tid, "thread_name", 0)
	w.end(args{{"name", name}})
	w.begin('M', pid, tid, "thread_sort_index", 0)
	w.end(args{{"sort_index", order}})
}

func (w *writer) slice(pid, tid int, category, name string, s stretch, a args) {
	w.begin('X', pid, tid, name, 1000*s.start)
	w.int(`,"dur":`, 1000*(s.end-s.start))
	if w.grey {
		w.b = append(w.b, `,"cname":"grey"`...)
	}
	w.category(category)
	w.end(a)
}

func (w *writer) instant(on *track, name string, ms int64, a args) {
	w.begin('i', on.pid, on.tid, name, 1000*ms)
	w.b = append(w.b, `,"s":"t"`...)
	w.category(catPipeline)
	w.end(a)
}

// flow leads from a synthesis to its proof. Its ends are bound to the slices
// that enclose them, so that it leaves the synthesis just before that ends.
func (w *writer) flow(id int, from *track, synthesis stretch, to *track, proof stretch) {
	leaves := max(1000*synthesis.end-1, 1000*synthesis.start)
	for _, end := range [...]struct {
		kind byte
		on   *track
		us   int64
	}{{'s', from, leaves}, {'f', to, 1000 * proof.start}} {
		w.begin(end.kind, end.on.pid, end.on.tid, "ready", end.us)
		w.int(`,"id":`, int64(id))
		w.b = append(w.b, `,"bp":"e"`...)
		w.category(catPipeline)
		w.end(nil)
	}
}

func (w *writer) counter(pid int, name string, ms int64, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	w.begin('C', pid, 0, name, 1000*ms)
	w.end(args{{"value", v}})
}

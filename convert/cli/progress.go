package cli

import (
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/provetrace/provetrace/convert"
	"github.com/provetrace/provetrace/convert/report"
)

// A progress shows on a terminal how far the reading of a log is, or the
// writing of a large run of it. Nothing is shown of what takes less than a
// moment.
type progress struct {
	out   *os.File // nil where it is no terminal
	width int      // columns
	began time.Time
	told  atomic.Uint64 // parts of the run that is written

	mu      sync.Mutex
	reading *bar
	writing *bar // nil while none is
	shown   *bar

	stop chan struct{}
	end  sync.WaitGroup
}

// A bar is what a progress can show. It runs from its beginning, so that its
// rate is right when it is first seen.
type bar struct {
	*progressbar.ProgressBar
	screen screen
	size   int64 // -1 where unknown
	at     func() int64
	since  time.Time
}

// A screen is the terminal while a bar is to be seen, and nothing else.
type screen struct {
	out  io.Writer
	seen bool
}

func (s *screen) Write(b []byte) (int, error) {
	if !s.seen {
		return len(b), nil
	}
	return s.out.Write(b)
}

const (
	moment = time.Second // without a bar
	redraw = 100 * time.Millisecond
	parts  = 1000 // in which the share of a written run is told
	beside = 42   // columns that a bar's numbers take

	narrowest, widest = 4, 30 // columns of the bar itself
)

// newProgress returns a progress on out, which draws until it is closed.
func newProgress(out *os.File) *progress {
	p := &progress{began: time.Now(), stop: make(chan struct{})}
	if !term.IsTerminal(int(out.Fd())) {
		return p
	}
	p.out = out
	p.width, _ = report.Terminal(out)
	p.end.Go(func() {
		tick := time.NewTicker(redraw)
		defer tick.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-tick.C:
				p.draw()
			}
		}
	})
	return p
}

// close ends the drawing and leaves nothing of it.
func (p *progress) close() {
	close(p.stop)
	p.end.Wait()
	p.aside(func() {})
}

// read begins to show how much of a log is read.
func (p *progress) read(log *convert.Log) {
	size := log.Size
	if size == 0 {
		size = -1
	}
	p.set(&p.reading, "reading", log, size, log.Read, progressbar.OptionShowBytes(true))
}

// write begins to show how much of a run is told, by what tell says.
func (p *progress) write(log *convert.Log) {
	p.told.Store(0)
	p.set(&p.writing, "writing", log, parts, func() int64 { return int64(p.told.Load()) })
}

// wrote ends what write began.
func (p *progress) wrote() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writing = nil
}

// tell says which share of the run is told.
func (p *progress) tell(share float64) { p.told.Store(uint64(share * parts)) }

func (p *progress) set(which **bar, doing string, log *convert.Log, size int64, at func() int64, options ...progressbar.Option) {
	if p.out == nil {
		return
	}
	b := &bar{screen: screen{out: p.out}, size: size, at: at, since: time.Now()}
	name := report.Fit(filepath.Base(log.Name), max(p.width-beside-narrowest-len(doing)-1, 8))
	b.ProgressBar = progressbar.NewOptions64(size, append(options,
		progressbar.OptionSetDescription(doing+" "+name), progressbar.OptionSetWriter(&b.screen),
		progressbar.OptionSetWidth(max(narrowest, min(p.width-beside-len(doing)-len(name)-1, widest))),
		progressbar.OptionSetSpinnerChangeInterval(0), // the spinner's own goroutine would never end
	)...)
	p.mu.Lock()
	defer p.mu.Unlock()
	*which = b
}

// aside has f print to the terminal, without a bar in the way.
func (p *progress) aside(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hide()
	f()
}

func (p *progress) hide() {
	if p.shown != nil {
		p.shown.Clear()
		p.shown.screen.seen = false
		p.shown = nil
	}
}

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range []*bar{p.reading, p.writing} {
		if b == nil {
			continue
		}
		if n := b.at(); b.size < 0 || n < b.size { // a full bar would end itself
			b.Set64(n)
		}
	}
	b := p.reading
	if w := p.writing; w != nil && time.Since(w.since) > moment {
		b = w
	}
	if b == nil || time.Since(p.began) < moment {
		return
	}
	if b != p.shown {
		p.hide()
		p.shown = b
		b.screen.seen = true
	}
	b.RenderBlank() // also where nothing changed
}

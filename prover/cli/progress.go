package cli

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/provetrace/provetrace/convert/report"
	"github.com/provetrace/provetrace/prover"
)

// A progress shows what is being done: on a terminal as a bar that is gone in
// the end, elsewhere as a line now and then.
type progress struct {
	out      *os.File
	terminal bool
	width    int // columns

	mu  sync.Mutex
	now *stage
	bar *progressbar.ProgressBar // of the stage; nil where there is none

	stop func()
	end  sync.WaitGroup
}

// A stage is something that takes a while.
type stage struct {
	doing    string
	announce bool // also where it takes no longer than a moment
	total    int64
	done     func() int64  // of the total; nil where that is not known
	text     func() string // says more of it than doing; or nil
}

const (
	redraw = 100 * time.Millisecond
	remind = 10 * time.Second // where there is no terminal
	beside = 34               // columns that a bar's numbers take

	narrowest, widest = 6, 30 // columns of the bar itself
)

// newProgress returns a progress that goes on until it is closed.
func newProgress(out *os.File) *progress {
	p := &progress{out: out, terminal: term.IsTerminal(int(out.Fd()))}
	p.width, _ = report.Terminal(out)
	every := remind
	if p.terminal {
		every = redraw
	}
	stop := make(chan struct{})
	p.stop = sync.OnceFunc(func() { close(stop) })
	p.end.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-stop:
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
	p.stop()
	p.end.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hide()
	p.now = nil
}

// stage begins a stage.
func (p *progress) stage(s stage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hide()
	p.now = &s
	if !p.terminal {
		if s.announce {
			p.line(s.doing)
		}
		return
	}
	total := s.total
	if s.done == nil {
		total = -1
	}
	p.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(report.Fit(s.String(), p.width-1)),
		progressbar.OptionSetWidth(max(narrowest, min(p.width-beside-len(s.String()), widest))), progressbar.OptionShowCount(),
		progressbar.OptionSetSpinnerChangeInterval(0), // the spinner's own goroutine would never end
		progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(s.done != nil),
	)
}

func (s *stage) String() string {
	if s.text == nil {
		return s.doing
	}
	return s.text()
}

// say prints a line, without a bar in the way.
func (p *progress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.Clear()
	}
	p.line(text)
}

func (p *progress) line(text string) { fmt.Fprintf(p.out, "provetrace: %s\n", report.Sanitize(text)) }

func (p *progress) hide() {
	if p.bar != nil {
		p.bar.Clear()
		p.bar = nil
	}
}

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s := p.now; {
	case s == nil:
	case p.bar != nil:
		p.bar.Describe(report.Fit(s.String(), p.width-1))
		if s.done != nil {
			if n := s.done(); n < s.total { // a full bar would end itself
				p.bar.Set64(n)
			}
		}
		p.bar.RenderBlank() // also where nothing changed
	case s.done != nil:
		p.line(fmt.Sprintf("%v: %d of %d", s, s.done(), s.total))
	default:
		p.line(s.doing)
	}
}

// watch shows how far the pipeline is with the sectors.
func (p *proving) watch(m *meter, pipeline *prover.Pipeline) {
	partitions := int64(len(p.sectors) * p.sizes.Partitions)
	const window = 3 * time.Second
	history := []usage{m.usage()}
	p.screen.stage(stage{
		doing:    fmt.Sprintf("proving %d sectors of %d partitions on %s", len(p.sectors), p.sizes.Partitions, p.backend),
		announce: true, total: partitions, done: func() int64 { return int64(pipeline.Stats().Proved) },
		text: func() string {
			now := m.usage()
			for len(history) > 1 && now.at.Sub(history[1].at) >= window {
				history = history[1:]
			}
			busy := m.share(history[0], now)
			history = append(history, now)
			return fmt.Sprintf("proving %d/%d sectors, device %2.0f%% busy", p.countProved(), len(p.sectors), 100*busy)
		},
	})
}

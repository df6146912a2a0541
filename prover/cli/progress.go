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
	"github.com/provetrace/provetrace/prover/backend"
)

// A progress shows what is being done: on a terminal as a bar that is gone in
// the end, elsewhere as a line now and then.
type progress struct {
	out      *os.File
	terminal bool
	width    int // columns

	mu   sync.Mutex
	now  *stage
	told time.Time                // when a line was last printed, or the stage began
	bar  *progressbar.ProgressBar // of the stage; nil where there is none

	stop func()
	end  sync.WaitGroup
}

// A stage is something that takes a while.
type stage struct {
	doing    string
	announce bool          // also where it takes no longer than a moment
	total    int64         // 0 where it cannot be told how far it is
	unit     string        // of the total
	done     func() int64  // of the total
	text     func() string // says more of it than doing; or nil
	look     func()        // is called at each redraw; or nil
}

const (
	redraw = 100 * time.Millisecond
	remind = 10 * time.Second // where there is no terminal
	lately = 3 * time.Second  // in which devices were busy
	beside = 30               // columns that a bar's numbers take

	narrowest, widest = 6, 30 // columns of the bar itself
)

// newProgress returns a progress that goes on until it is closed.
func newProgress(out *os.File) *progress {
	p := &progress{out: out, terminal: term.IsTerminal(int(out.Fd()))}
	p.width, _ = report.Terminal(out)
	stop := make(chan struct{})
	p.stop = sync.OnceFunc(func() { close(stop) })
	p.end.Go(func() {
		tick := time.NewTicker(redraw)
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
	p.now, p.told = &s, time.Now()
	if !p.terminal {
		if s.announce {
			p.line(s.doing)
		}
		return
	}
	total := s.total
	if total == 0 {
		total = -1
	}
	options := []progressbar.Option{
		progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(report.Fit(s.String(), p.width-1)),
		progressbar.OptionSetWidth(max(narrowest, min(p.width-beside-len(s.String()), widest))),
		progressbar.OptionSetSpinnerChangeInterval(0), // the spinner's own goroutine would never end
		progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(total > 0),
	}
	if total > 0 {
		options = append(options, progressbar.OptionShowCount())
	}
	p.bar = progressbar.NewOptions64(total, options...)
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

func (p *progress) line(text string) {
	p.told = time.Now()
	fmt.Fprintf(p.out, "provetrace: %s\n", report.Sanitize(text))
}

func (p *progress) hide() {
	if p.bar != nil {
		p.bar.Clear()
		p.bar = nil
	}
}

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.now
	if s == nil {
		return
	}
	if s.look != nil {
		s.look()
	}
	switch {
	case p.bar != nil:
		p.bar.Describe(report.Fit(s.String(), p.width-1))
		if s.total > 0 {
			if n := s.done(); n < s.total { // a full bar would end itself
				p.bar.Set64(n)
			}
		}
		p.bar.RenderBlank() // also where nothing changed
	case time.Since(p.told) < remind:
	case s.total > 0:
		p.line(fmt.Sprintf("%v: %d of %d %s", s, s.done(), s.total, s.unit))
	default:
		p.line(s.doing)
	}
}

// watch shows how far the pipeline is with the sectors.
func (p *proving) watch(b backend.Backend, pipeline *prover.Pipeline) {
	devices := len(b.Devices())
	var running [lately / redraw]int // devices, when it was last looked
	looked := 0
	p.screen.stage(stage{
		doing:    fmt.Sprintf("proving sectors on %s: %d, of %d partitions each", p.backend, len(p.sectors), p.sizes.Partitions),
		announce: true,
		total:    int64(len(p.sectors) * p.sizes.Partitions), unit: "partitions",
		done: func() int64 { return int64(pipeline.Stats().Proved) },
		look: func() {
			running[looked%len(running)] = pipeline.Stats().Running
			looked++
		},
		text: func() string {
			sum := 0
			for _, n := range running {
				sum += n
			}
			busy := float64(sum) / float64(max(min(looked, len(running)), 1)*devices)
			return fmt.Sprintf("proving %d/%d sectors, device %3.0f%% busy", p.countProved(), len(p.sectors), 100*busy)
		},
	})
}

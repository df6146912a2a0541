package cli

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/provetrace/provetrace/convert"
)

// A progress shows on a terminal how far the reading and the writing of a long
// log are. Nothing is shown of what takes less than a moment.
type progress struct {
	out  *os.File // nil where it is no terminal
	told atomic.Uint64

	mu   sync.Mutex
	stop chan struct{}
	end  sync.WaitGroup
}

const (
	moment = time.Second // without a bar
	redraw = 100 * time.Millisecond
	parts  = 1000 // in which the share of a written run is told
)

func newProgress(out *os.File) *progress {
	p := &progress{}
	if term.IsTerminal(int(out.Fd())) {
		p.out = out
	}
	return p
}

// reading shows how much of a log is read.
func (p *progress) reading(log *convert.Log) {
	size := log.Size
	if size == 0 {
		size = -1
	}
	p.show(size, "reading "+log.Name, log.Read, progressbar.OptionShowBytes(true))
}

// writing shows how much of a run is told, by what tell says.
func (p *progress) writing(log *convert.Log) {
	p.told.Store(0)
	p.show(parts, "writing "+log.Name, func() int64 { return int64(p.told.Load()) })
}

// tell says which share of the run is told.
func (p *progress) tell(share float64) { p.told.Store(uint64(share * parts)) }

// show shows a bar in place of the present one.
func (p *progress) show(size int64, what string, at func() int64, options ...progressbar.Option) {
	p.clear()
	if p.out == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	stop := make(chan struct{})
	p.stop = stop
	p.end.Go(func() {
		select {
		case <-stop:
			return
		case <-time.After(moment):
		}
		bar := progressbar.NewOptions64(size, append(options,
			progressbar.OptionSetDescription(what), progressbar.OptionSetWriter(p.out), progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(redraw), progressbar.OptionSetRenderBlankState(true))...)
		defer bar.Clear()
		tick := time.NewTicker(redraw)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if n := at(); size < 0 || n < size { // a full bar would end itself
					bar.Set64(n)
				}
			}
		}
	})
}

// clear takes the bar away.
func (p *progress) clear() {
	p.mu.Lock()
	stop := p.stop
	p.stop = nil
	p.mu.Unlock()
	if stop != nil {
		close(stop)
		p.end.Wait()
	}
}

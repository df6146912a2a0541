package page

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/run"
)

// picturesVariable names the directory that TestPictures writes to.
const picturesVariable = "PROVETRACE_PICTURES"

// patience bounds what waits for the browser, on a machine that does much else.
const patience = 30 * time.Second

// startBrowser starts a Chromium for the test. Where there is none, the test is
// skipped; with CI set, it fails.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		if ci := os.Getenv("CI"); ci != "" && ci != "0" && ci != "false" {
			t.Fatal("CI is set, and there is no Chromium to test the page in: install one")
		}
		t.Skip("there is no Chromium: the page was not tested in a browser")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true), chromedp.UserDataDir(t.TempDir()))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx))
	return ctx
}

// A tab shows a page, and notes what must not happen there.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	requests []string // of anything else than the page itself
	errors   []string // on the console
}

// open writes the page of runs and opens it in a new tab.
func open(t *testing.T, browser context.Context, width, height int64, scheme string, runs ...Run) *tab {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, Write(f, runs...))
	require.NoError(t, f.Close())

	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	address := (&url.URL{Scheme: "file", Path: path}).String()
	require.NoError(t, chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if e.Request.URL != address && !strings.HasPrefix(e.Request.URL, "data:") {
				b.requests = append(b.requests, e.Request.URL)
			}
		case *log.EventEntryAdded:
			b.errors = append(b.errors, e.Entry.Text)
		case *runtime.EventConsoleAPICalled:
			b.errors = append(b.errors, fmt.Sprint("console.", e.Type))
		case *runtime.EventExceptionThrown:
			b.errors = append(b.errors, e.ExceptionDetails.Text)
		}
	}))
	b.do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		if _, err := cdp.Call(ctx, target, network.Enable, network.EnableParams{}); err != nil {
			return chromedp.Void{}, err
		}
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return chromedp.Void{}, err
	}, chromedp.EmulateViewport(width, height), chromedp.Navigate(address))
	b.until(`document.documentElement.dataset.ready !== undefined`)
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		require.Empty(t, b.requests, "the page asks for nothing")
		require.Empty(t, b.errors, "the page makes no errors")
	})
	return b
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(b.ctx)) // the tab lives longer than ctx
	require.NoError(b.t, chromedp.Do(ctx, actions...))
}

// eval returns the value of a script.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, script)
	return value
}

// until waits for a condition, and for the frame after it.
func (b *tab) until(condition string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); !eval[bool](b, condition); {
		require.True(b.t, time.Now().Before(deadline), "never: %s", condition)
		time.Sleep(20 * time.Millisecond)
	}
	b.frame()
}

// frame waits until what was asked for is drawn.
func (b *tab) frame() {
	b.t.Helper()
	eval[bool](b, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

// view returns from when to when the panes show, in ms.
func (b *tab) view() (from, to float64) {
	b.t.Helper()
	b.frame()
	v := eval[[]float64](b, `[+stage.dataset.from, +stage.dataset.to]`)
	return v[0], v[1]
}

func (b *tab) text(selector string) string {
	b.t.Helper()
	quoted, err := json.Marshal(selector)
	require.NoError(b.t, err)
	return eval[string](b, `document.querySelector(`+string(quoted)+`).textContent.trim()`)
}

// colors returns how many colours stand in the lanes right of their names.
func (b *tab) colors() int {
	b.t.Helper()
	return eval[int](b, `(() => {
		const c = document.querySelector(".lanes canvas"), copy = new OffscreenCanvas(c.width - 120, c.height);
		const ctx = copy.getContext("2d", { willReadFrequently: true });
		ctx.drawImage(c, -120, 0);
		const d = ctx.getImageData(0, 0, copy.width, copy.height).data;
		const seen = new Set();
		for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
		return seen.size;
	})()`)
}

// span returns where on the page the middle of the first span of a kind is, in
// the lanes of sectors.
func (b *tab) span(kind string) (x, y float64) {
	b.t.Helper()
	at := eval[[]float64](b, `(() => {
		const c = document.querySelector(".lanes canvas"), box = c.getBoundingClientRect();
		for (let y = 2; y < box.height; y += 2) for (let x = 105; x < box.width; x += 3) {
			c.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + x, clientY: box.top + y }));
			if (!tip.hidden && tip.querySelector("strong").textContent === `+"`"+kind+"`"+`) return [box.left + x, box.top + y];
		}
		return [];
	})()`)
	require.Len(b.t, at, 2, "no %s to be seen", kind)
	return at[0], at[1]
}

// wheel turns the wheel. The protocol takes no 0, which its types leave out.
func wheel(x, y, dx, dy float64) chromedp.Action[chromedp.Void] {
	const nothing = 1e-3
	dx, dy = cmp.Or(dx, nothing), cmp.Or(dy, nothing)
	return chromedp.MouseEvent(input.DispatchMouseEventTypeMouseWheel, x, y, func(p *input.DispatchMouseEventParams) { p.DeltaX, p.DeltaY = dx, dy })
}

// step runs a part of a test that needs what the parts before it did.
func (b *tab) step(name string, f func(t *testing.T)) {
	whole := b.t
	defer func() { b.t = whole }()
	if !whole.Run(name, func(t *testing.T) {
		b.t = t
		f(t)
	}) {
		whole.FailNow()
	}
}

func TestBrowser(t *testing.T) {
	browser := startBrowser(t)
	r := fixture(t, "dual_worker_noisy.log")
	b := open(t, browser, 1400, 900, "light", r)
	from, to := b.view()
	require.Greater(t, b.colors(), 7)

	b.step("figures", func(t *testing.T) {
		f := r.Figures
		for name, want := range map[string]string{
			"seconds per proof":          fmt.Sprintf("%.1f s", *f.SecondsPerProof.Steady),
			"seconds per proof, overall": fmt.Sprintf("%.1f s", *f.SecondsPerProof.Overall),
			"GPU busy":                   fmt.Sprintf("%.1f%%", 100**f.GPUs[0].UtilizationActive),
			"GPU busy, overall":          fmt.Sprintf("%.1f%%", 100**f.GPUs[0].UtilizationOverall),
			"GPU kernels":                fmt.Sprintf("%.1f%%", 100**f.GPUs[0].KernelUtilizationActive),
			"cold start":                 fmt.Sprintf("%.1f s", float64(*f.ColdStartMS)/1000),
			"makespan":                   fmt.Sprintf("%.1f s", float64(*f.MakespanMS)/1000),
		} {
			require.Equal(t, want, b.text(`tr[data-figure="`+name+`"] .value`), name)
		}
		require.Equal(t, "gpu", eval[string](b, `document.querySelector(".verdict").dataset.verdict`))
		// What is drawn: each partition's synthesis, wait, proof and phases.
		var phases, admissions int
		for _, s := range r.Model.Sectors {
			if first, _ := s.Extent(); s.Admitted/1000 < first {
				admissions++
			}
			for p := range s.Partitions() {
				for range p.Phases() {
					phases++
				}
			}
		}
		require.Equal(t, 3*f.Partitions+phases+admissions+len(f.GPUs[0].Idle), eval[int](b, `+document.documentElement.dataset.spans`))
	})

	b.step("wheel zooms about the pointer and pans", func(t *testing.T) {
		b.do(wheel(600, 500, 0, -400))
		from1, to1 := b.view()
		require.Less(t, to1-from1, 0.7*(to-from))
		b.do(wheel(600, 500, 200, 0))
		from2, to2 := b.view()
		require.Greater(t, from2, from1)
		require.InDelta(t, to1-from1, to2-from2, 2)
	})

	b.step("dragging pans", func(t *testing.T) {
		from1, _ := b.view()
		b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, 500, 500, chromedp.Button("left"), chromedp.ClickCount(1)),
			chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 520, 500, chromedp.Button("left")),
			chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 700, 500, chromedp.Button("left")),
			chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, 700, 500, chromedp.Button("left"), chromedp.ClickCount(1)))
		from2, _ := b.view()
		require.Less(t, from2, from1)
	})

	b.step("keys zoom, pan and fit", func(t *testing.T) {
		b.do(chromedp.KeyEvent("0"))
		from1, to1 := b.view()
		require.Equal(t, []float64{from, to}, []float64{from1, to1})
		b.do(chromedp.KeyEvent("+"))
		from2, to2 := b.view()
		require.InDelta(t, 0.6*(to-from), to2-from2, 2)
		b.do(chromedp.KeyEvent("d"))
		from3, _ := b.view()
		require.Greater(t, from3, from2)
		b.do(chromedp.KeyEvent("0"))
	})

	b.step("dragging on the axis chooses a stretch", func(t *testing.T) {
		box := eval[[]float64](b, `(() => { const r = document.querySelector(".axis").getBoundingClientRect(); return [r.left, r.top]; })()`)
		y := box[1] + 10
		b.do(chromedp.DragAndDropXY(box[0]+300, y, box[0]+500, y))
		from1, to1 := b.view()
		require.Less(t, to1-from1, 0.4*(to-from))
		b.do(chromedp.KeyEvent("0"))
	})

	b.step("lanes", func(t *testing.T) {
		for i, want := range []struct {
			mode  string
			lanes int
		}{{"sector", 5}, {"worker", 2}, {"device", 1}, {"synthesis", 10}} {
			b.do(chromedp.KeyEvent(fmt.Sprint(i + 1)))
			b.frame()
			require.Equal(t, want.mode, eval[string](b, `stage.dataset.mode`))
			require.Equal(t, want.lanes, eval[int](b, `+document.querySelector(".pane").dataset.lanes`), want.mode)
			require.Greater(t, b.colors(), 4, want.mode)
		}
		b.do(chromedp.Click(`input[value=sector] + span`))
		b.frame()
		require.Equal(t, "sector", eval[string](b, `stage.dataset.mode`))
	})

	b.step("search", func(t *testing.T) {
		label := r.Model.Sectors[3].Label()
		b.do(chromedp.KeyEvent("/"))
		b.until(`document.activeElement === search`)
		eval[bool](b, `search.value = "", true`) // the protocol types the key nevertheless
		b.do(chromedp.SendKeys("#search", strings.ToUpper(label[:4])))
		b.until(`found.textContent === "1 of 1"`)
		b.do(chromedp.SendKeys("#search", "none"))
		b.until(`found.textContent === "no such sector"`)
		b.do(chromedp.KeyEvent(kb.Escape))
		b.until(`found.textContent === ""`)
		eval[bool](b, `document.activeElement.blur(), true`)
	})

	b.step("hovering tells of a span", func(t *testing.T) {
		x, y := b.span("synthesis")
		b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x+1, y), chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y))
		b.until(`!tip.hidden`)
		require.Contains(t, b.text("#tip"), "db5b5fab")
		b.do(chromedp.MouseClickXY(x, y))
		b.until(`live.textContent.startsWith("synthesis")`)
		b.do(chromedp.KeyEvent(kb.Escape))
		b.until(`tip.hidden`)
	})

	b.step("keys go from span to span", func(t *testing.T) {
		b.do(chromedp.Focus(`.lanes canvas`), chromedp.KeyEvent(kb.ArrowRight))
		b.until(`live.textContent.startsWith("admission wait")`)
		b.do(chromedp.KeyEvent(kb.ArrowRight))
		b.until(`live.textContent.startsWith("synthesis")`)
		b.do(chromedp.KeyEvent(kb.ArrowRight))
		b.until(`live.textContent.startsWith("queue wait")`)
		b.do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.End))
		b.until(`live.textContent.startsWith("gpu prove")`)
		require.Contains(t, b.text("#live"), "partition 1")
		b.do(chromedp.KeyEvent(kb.Enter))
		from1, to1 := b.view()
		require.Less(t, to1-from1, 20_000.)
		b.do(chromedp.KeyEvent("0"), chromedp.KeyEvent(kb.Escape))
	})

	b.step("light and dark", func(t *testing.T) {
		background := `getComputedStyle(document.body).backgroundColor`
		light := eval[string](b, background)
		b.do(chromedp.KeyEvent("t"))
		b.frame()
		require.NotEqual(t, light, eval[string](b, background))
		b.do(chromedp.Click(`button[data-act=theme]`))
		b.frame()
		require.Equal(t, light, eval[string](b, background))
	})

	b.step("help", func(t *testing.T) {
		b.do(chromedp.KeyEvent("?"))
		b.until(`help.open`)
		b.do(chromedp.KeyEvent(kb.Escape))
		b.until(`!help.open`)
	})

	b.step("a sector's row goes to it", func(t *testing.T) {
		eval[bool](b, `document.querySelector("details").open = true`)
		b.do(chromedp.Click(`button[data-sector="0:4"]`))
		b.until(`found.textContent === "1 of 1"`)
	})
}

// TestBrowserScope compares what is drawn of a part of a run with its figures.
func TestBrowserScope(t *testing.T) {
	browser := startBrowser(t)
	r := fixture(t, "failure.log")
	chosen := r.Model.Sectors[slices.IndexFunc(r.Model.Sectors, func(s *run.Sector) bool { return s.Label() == "4202" })]
	r = scoped(r, only(chosen))
	first, last := chosen.Extent()
	b := open(t, browser, 1400, 900, "light", r)
	require.Contains(t, b.text(".scope"), "sector 4202 only")
	require.Equal(t, 1, eval[int](b, `+document.querySelector(".pane").dataset.lanes`))
	from, to := b.view()
	require.InDelta(t, last-first, to-from, 0.04*float64(last-first))

	proofs := r.Figures.GPUs[0].Proofs
	require.Contains(t, b.text(".gpu"), fmt.Sprintf("%d proofs", proofs))
	// The keys go through each of the devices' proofs.
	b.do(chromedp.KeyEvent("3"), chromedp.Focus(`.lanes canvas`))
	seen, others := make(map[string]bool), 0
	for i := range 36 {
		key := kb.ArrowRight
		if i%9 == 0 {
			b.do(chromedp.KeyEvent(kb.ArrowDown))
			key = kb.Home
		}
		b.do(chromedp.KeyEvent(key))
		said := b.text("#live")
		if strings.HasPrefix(said, "gpu prove") && !seen[said] {
			seen[said] = true
			if strings.Contains(said, "not chosen") {
				others++
			}
		}
	}
	require.Len(t, seen, proofs)
	require.Positive(t, others)

	from0, to0 := int64(60_000), int64(120_000)
	w := scoped(fixture(t, "dual_worker_noisy.log"), figures.Scope{From: from0, To: to0})
	b = open(t, browser, 1400, 900, "light", w)
	require.Equal(t, "Only a part of the run: 1:00.000 to 2:00.000 of the run's clock", b.text(".scope"))
	labels := strings.Fields(eval[string](b, `document.querySelector(".axis").dataset.labels`))
	require.Equal(t, "1:00", labels[0])
	require.Equal(t, "2:00", labels[len(labels)-1])
	b.do(chromedp.Focus(`.lanes canvas`), chromedp.KeyEvent(kb.Home))
	b.until(`live.textContent.includes("goes on before what is shown")`)
}

// TestBrowserClock reads times off the page of an engine that was up for a day.
func TestBrowserClock(t *testing.T) {
	browser := startBrowser(t)
	const up = 86_400_000
	log := fmt.Sprintf("TIMELINE,%d,SYNTH_START,a,partition=0\nTIMELINE,%d,SYNTH_END,a,partition=0,synth_ms=60000\n", up+5000, up+65_000)
	r := read(t, "late.log", []byte(log))
	b := open(t, browser, 390, 800, "light", r)
	labels := eval[string](b, `document.querySelector(".axis").dataset.labels`)
	require.Contains(t, labels, "24:00:30")
	b.do(chromedp.Focus(`.lanes canvas`), chromedp.KeyEvent(kb.ArrowRight))
	b.until(`live.textContent.includes("from 24:00:05.000; to 24:01:05.000; wall clock 2026-02-19 14:59:12.000 UTC")`)

	b = open(t, browser, 1400, 900, "light", r, fixture(t, "standard.log"))
	require.Contains(t, b.text(".foot"), "first synthesis")
	require.Equal(t, "0:00", strings.Fields(eval[string](b, `document.querySelector(".axis").dataset.labels`))[0])
	b.do(chromedp.Focus(`.lanes canvas`), chromedp.KeyEvent(kb.ArrowRight))
	b.until(`live.textContent.includes("from 1st synthesis 0.000 s; run's clock 24:00:05.000 to 24:01:05.000")`)
}

func TestBrowserDark(t *testing.T) {
	b := open(t, startBrowser(t), 390, 800, "dark", fixture(t, "standard.log"))
	require.Equal(t, "dark", eval[string](b, `getComputedStyle(document.documentElement).colorScheme`))
	require.LessOrEqual(t, eval[int](b, `document.documentElement.scrollWidth`), 390, "nothing is wider than the window")
	require.Equal(t, "synthesis", eval[string](b, `document.querySelector(".verdict").dataset.verdict`))
	from, to := b.view()
	x, y := 158., eval[float64](b, `document.querySelector(".lanes canvas").getBoundingClientRect().top + 10`)
	b.do(chromedp.TapXY(x, y))
	b.until(`!tip.hidden`)
	require.Contains(t, b.text("#tip"), "gpu prove")
	b.do(chromedp.Click(`button[data-act=in]`))
	from1, to1 := b.view()
	require.Less(t, to1-from1, to-from)
}

func TestBrowserHostile(t *testing.T) {
	browser := startBrowser(t)
	b := open(t, browser, 1400, 900, "light", read(t, `<img src=x onerror="window.harmed=7">.log`, hostileLog()))
	require.Equal(t, len(hostile), eval[int](b, `+document.querySelector(".pane").dataset.lanes`))
	eval[bool](b, `for (const d of document.querySelectorAll("details")) d.open = true; true`)
	b.do(chromedp.Focus(`.lanes canvas`))
	for i := range hostile {
		b.do(chromedp.KeyEvent(kb.ArrowDown))
		b.until(fmt.Sprintf(`live.textContent.includes("from %d.")`, i))
	}
	shown := eval[string](b, `document.body.innerText`)
	require.Contains(t, shown, `\u202egpj`)
	require.NotContains(t, shown, "\u202e")
	require.NotContains(t, shown, "\u2028")
	require.True(t, eval[bool](b, `window.harmed === undefined`))
	require.Zero(t, eval[int](b, `document.querySelectorAll("img, iframe, script:not([type]) ~ script").length`))
}

func TestBrowserComparison(t *testing.T) {
	browser := startBrowser(t)
	a, c := fixture(t, "standard.log"), fixture(t, "dual_worker_noisy.log")
	b := open(t, browser, 1400, 900, "light", a, c)
	require.Equal(t, []int{5, 5}, eval[[]int](b, `[...document.querySelectorAll(".pane")].map((p) => +p.dataset.lanes)`))
	was, is := *a.Figures.SecondsPerProof.Steady, *c.Figures.SecondsPerProof.Steady
	require.Equal(t, strings.Replace(fmt.Sprintf("%+.1f%%", 100*(is-was)/was), "-", "−", 1), b.text(`tr[data-figure="seconds per proof"] .change`))
	require.Contains(t, b.text(".hero"), "whole-sector")
	b.do(chromedp.SendKeys("#search", c.Model.Sectors[0].Label()))
	b.until(`found.textContent === "1 of 2"`) // the logs have the same jobs
}

func TestBrowserSparse(t *testing.T) {
	browser := startBrowser(t)
	for name, log := range sparse {
		t.Run(name, func(t *testing.T) {
			b := open(t, browser, 1400, 900, "light", read(t, name, []byte(log)))
			b.do(chromedp.Focus(`.lanes canvas`))
			for _, key := range []string{"1", kb.ArrowRight, kb.Enter, "2", "3", kb.ArrowRight, "4", "+", "0"} {
				b.do(chromedp.KeyEvent(key))
				b.frame()
			}
		})
	}
}

// TestBrowserLive shows what a live pipeline's spans have and logs do not.
func TestBrowserLive(t *testing.T) {
	browser := startBrowser(t)
	b := open(t, browser, 1400, 900, "light", live(t))
	b.do(chromedp.KeyEvent("4"))
	b.frame()
	require.Equal(t, 4, eval[int](b, `+document.querySelector(".pane").dataset.lanes`))
	b.do(chromedp.KeyEvent("3"), chromedp.Focus(`.lanes canvas`))
	for _, key := range []string{kb.Home, kb.ArrowDown, kb.ArrowDown} {
		b.do(chromedp.KeyEvent(key))
	}
	b.until(`live.textContent.startsWith("gpu prove")`)
	for _, want := range []string{"left", "utilization", "power", "memory 21.0 GiB", "PCIe in 7.00 GB/s"} {
		require.Contains(t, b.text("#live"), want)
	}
}

// TestBrowserLarge states how long a browser takes to open a page of 20,000
// spans, and to draw the next frame.
func TestBrowserLarge(t *testing.T) {
	browser := startBrowser(t)
	r := read(t, "large.log", manySectors(667))
	b := open(t, browser, 1400, 900, "light", r)
	spans := eval[int](b, `+document.documentElement.dataset.spans`)
	require.GreaterOrEqual(t, spans, 20_000)
	frame := eval[float64](b, `(async () => {
		const canvas = document.querySelector(".lanes canvas"), times = [];
		for (let i = 0; i < 40; i++) {
			const before = performance.now();
			canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: i < 20 ? -60 : 60, clientX: 700, clientY: 500, cancelable: true }));
			await new Promise(requestAnimationFrame);
			times.push(performance.now() - before);
		}
		times.sort((a, b) => a - b);
		return times[20];
	})()`)
	t.Logf("%d spans: ready %s ms after the start of the navigation, a frame of zooming takes %.1f ms (median)",
		spans, eval[string](b, `document.documentElement.dataset.ready`), frame)
	require.Less(t, eval[int](b, `+document.querySelector(".pane").dataset.drawn`), 40, "only lanes in sight are drawn")

	// The GPU is busy for 97% of the time, with a gap after each proof that is
	// far narrower than a pixel: it must not look idle.
	busy := eval[float64](b, `(() => {
		const c = document.querySelector(".overview"), copy = new OffscreenCanvas(500, 1);
		copy.getContext("2d").drawImage(c, -300, 5 - c.height);
		const d = copy.getContext("2d").getImageData(0, 0, 500, 1).data;
		let n = 0;
		for (let i = 0; i < d.length; i += 4) if (d[i] > 180 && d[i + 2] < 80) n++;
		return n / 500;
	})()`)
	require.Greater(t, busy, 0.95, "share of the overview in the GPU's colour")
}

// TestPictures takes pictures of pages where PROVETRACE_PICTURES names a
// directory for them.
func TestPictures(t *testing.T) {
	dir := os.Getenv(picturesVariable)
	if dir == "" {
		t.Skip(picturesVariable + " names no directory for pictures")
	}
	browser := startBrowser(t)
	for _, p := range []struct {
		name          string
		width, height int64
		scheme        string
		keys          string
		logs          []string
	}{
		{"dual-light", 1400, 900, "light", "", []string{"dual_worker_noisy.log"}},
		{"dual-dark", 1400, 900, "dark", "", []string{"dual_worker_noisy.log"}},
		{"dual-small-light", 390, 800, "light", "", []string{"dual_worker_noisy.log"}},
		{"dual-small-dark", 390, 800, "dark", "", []string{"dual_worker_noisy.log"}},
		{"dual-zoomed", 1400, 900, "light", "++++", []string{"dual_worker_noisy.log"}},
		{"standard-light", 1400, 900, "light", "", []string{"standard.log"}},
		{"gpus-light", 1400, 900, "light", "3+++", []string{"two_gpus.log"}},
		{"workers-light", 1400, 900, "light", "2", []string{"split.log"}},
		{"synthesis-light", 1400, 900, "light", "4", []string{"dual_worker_noisy.log"}},
		{"failure-dark", 1400, 900, "dark", "", []string{"failure.log"}},
		{"truncated-light", 1400, 900, "light", "", []string{"dirty_truncated.log"}},
		{"compared-light", 1400, 900, "light", "", []string{"standard.log", "dual_worker_noisy.log"}},
		{"compared-small-dark", 390, 800, "dark", "", []string{"standard.log", "dual_worker_noisy.log"}},
		{"live-light", 1400, 900, "light", "", []string{""}},
		{"live-gpus-dark", 1400, 900, "dark", "3", []string{""}},
		{"sector-light", 1400, 900, "light", "", []string{"failure.log#4202"}},
		{"sector-small-dark", 390, 800, "dark", "", []string{"failure.log#4202"}},
		{"sector-gpus-light", 1400, 900, "light", "3", []string{"failure.log#4202"}},
		{"window-light", 1400, 900, "light", "", []string{"dual_worker_noisy.log#window"}},
		{"window-gpus-small", 390, 800, "light", "3", []string{"dual_worker_noisy.log#window"}},
		{"three-light", 1400, 900, "light", "", []string{"dual_worker_noisy.log", "single_worker.log", "few_workers.log"}},
	} {
		var runs []Run
		for _, name := range p.logs {
			if name == "" {
				runs = append(runs, live(t))
				continue
			}
			log, part, scoping := strings.Cut(name, "#")
			r := fixture(t, log)
			if part == "window" {
				r = scoped(r, figures.Scope{From: 60_000, To: 120_000})
			} else if scoping {
				r = scoped(r, only(r.Model.Sectors[slices.IndexFunc(r.Model.Sectors, func(s *run.Sector) bool { return s.Label() == part })]))
			}
			runs = append(runs, r)
		}
		b := open(t, browser, p.width, p.height, p.scheme, runs...)
		for _, key := range p.keys {
			b.do(chromedp.KeyEvent(string(key)))
		}
		b.frame()
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		cancel()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, p.name+".png"), picture, 0o644))
	}
}

package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/report"
	"github.com/provetrace/provetrace/convert/run"
)

var fixtures = []string{
	"standard.log", "dual_worker.log", "dual_worker_noisy.log", "single_worker.log", "few_workers.log", "split.log",
	"curio.log", "two_gpus.log", "failure.log", "snap.log", "dirty_truncated.log", "dirty_dropped.log",
}

// A pageData is what the page's program reads.
type pageData struct {
	Runs []struct {
		Name    string
		Mark    string
		Sectors [][9]json.RawMessage
		Chosen  int
		Idle    [][4]int64
		Devices [][2]int64
		Curves  [][2]string
		Phases  [][2]any
		Strings []string
		Epoch   int64
		Clock   int64
		Begin   int64
		End     int64
	}
}

// dataOf takes the data out of a page.
func dataOf(t *testing.T, page string) pageData {
	t.Helper()
	m := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(page)
	require.NotNil(t, m)
	var d pageData
	decoder := json.NewDecoder(strings.NewReader(m[1]))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&d))
	return d
}

func as[T any](t *testing.T, raw json.RawMessage) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal(raw, &v))
	return v
}

func written(t *testing.T, runs ...Run) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, runs...))
	return b.String()
}

// TestDataIsTheRun holds what a page has of a run against the run.
func TestDataIsTheRun(t *testing.T) {
	for _, name := range fixtures {
		t.Run(name, func(t *testing.T) {
			r := fixture(t, name)
			d := dataOf(t, written(t, r)).Runs[0]
			require.Equal(t, name, d.Name)
			require.Len(t, d.Sectors, len(r.Model.Sectors))
			origin := d.Epoch - r.Model.Time(0).UnixMilli()
			for i, s := range r.Model.Sectors {
				require.Equal(t, s.Job, d.Strings[as[int](t, d.Sectors[i][1])])
				require.Equal(t, s.Attempt, as[int](t, d.Sectors[i][3]))
				require.Equal(t, int(s.State()), as[int](t, d.Sectors[i][4]))
				parts := as[[][]json.RawMessage](t, d.Sectors[i][7])
				n := 0
				for p := range s.Partitions() {
					row := parts[n]
					n++
					require.Equal(t, p.Index, as[int](t, row[0]))
					require.Equal(t, p.Worker, as[int](t, row[2]))
					at := origin
					times := as[[]*int64](t, row[10])
					for b, want := range p.Times {
						if want == run.Unknown {
							require.Nil(t, times[b])
							continue
						}
						at += *times[b]
						require.Equal(t, want, at)
					}
					if p.State == run.Incomplete {
						require.Equal(t, s.EndOf(&p), at+*times[len(p.Times)])
					}
					phases := as[[]int64](t, row[11])
					at = origin
					for ph := range p.Phases() {
						require.Equal(t, ph.Name, d.Phases[phases[0]][0])
						at += phases[1]
						require.Equal(t, ph.Start, at)
						require.Equal(t, ph.End, at+phases[2])
						phases = phases[3:]
					}
					require.Empty(t, phases)
				}
				require.Len(t, parts, n)
			}
			n := 0
			for _, g := range r.Figures.GPUs {
				for _, gap := range g.Idle {
					require.Equal(t, [3]int64{int64(*g.Ordinal), gap.StartMS - origin, gap.DurationMS}, [3]int64(d.Idle[n][:3]))
					require.Equal(t, string(gap.Cause), d.Strings[d.Idle[n][3]])
					n++
				}
			}
			require.Len(t, d.Idle, n)
		})
	}
}

// TestPolicy checks that the policy names the very script and style of the
// page: with another hash, a browser would run nothing.
func TestPolicy(t *testing.T) {
	page := written(t, fixture(t, "standard.log"))
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)[1]
	policy = strings.NewReplacer("&#39;", "'", "&#43;", "+").Replace(policy)
	require.Contains(t, policy, "default-src 'none'")
	require.NotContains(t, policy, "unsafe")
	for element, directive := range map[string]string{"script": "script-src", "style": "style-src"} {
		inline := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(page, -1)
		require.Len(t, inline, 1)
		require.Contains(t, policy, directive+" '"+hash(inline[0][1])+"'")
	}
	require.NotRegexp(t, `(?i)\son[a-z]+=|javascript:|https?://`, strings.ReplaceAll(page, `meta http-equiv`, ""))
}

func TestHostileText(t *testing.T) {
	page := written(t, read(t, `</script><script>alert(1)</script>`+"\u202e.log", hostileLog()))
	require.Equal(t, 2, strings.Count(page, "<script"), "the page's own")
	require.Equal(t, 2, strings.Count(page, "</script"))
	require.NotContains(t, page, "<img")
	require.NotContains(t, page, "\u202e")
	require.NotContains(t, page, "\u2028")
	d := dataOf(t, page).Runs[0]
	for _, id := range hostile {
		require.Contains(t, d.Strings, report.Sanitize(id))
	}
}

func TestLargeRunIsCut(t *testing.T) {
	r := read(t, "large.log", manySectors(100))
	var b bytes.Buffer
	require.NoError(t, write(&b, 300, []Run{r}))
	d := dataOf(t, b.String()).Runs[0]
	require.Len(t, d.Sectors, 11)
	require.Contains(t, b.String(), "The waterfall shows the first 11 of 100 sectors")
	for _, gap := range d.Idle {
		require.Less(t, gap[1], d.End)
	}
}

func TestSize(t *testing.T) {
	const spans = 20_000
	page := written(t, read(t, "large.log", manySectors(spans/30+1)))
	t.Logf("%d spans: %d kB", spans, len(page)/1000)
	require.Less(t, len(page), 5_000_000)
}

// scoped returns a run of which a scope selects a part.
func scoped(r Run, s figures.Scope) Run {
	return Run{Model: r.Model, Figures: figures.Within(r.Model, s), Scope: s}
}

// only selects a sector, and the time that it took.
func only(s *run.Sector) figures.Scope {
	first, last := s.Extent()
	return figures.Scope{From: first, To: last, Only: func(o *run.Sector) bool { return o == s }}
}

func TestScope(t *testing.T) {
	r := fixture(t, "dual_worker.log")
	chosen := r.Model.Sectors[1]
	first, last := chosen.Extent()
	page := written(t, scoped(r, only(chosen)))
	d := dataOf(t, page).Runs[0]
	require.Equal(t, 1, d.Chosen)
	require.Equal(t, chosen.Job, d.Strings[as[int](t, d.Sectors[0][1])])
	require.Equal(t, [2]int64{first, last}, [2]int64{d.Clock + d.Begin, d.Clock + d.End})
	overlapping := 0
	for _, s := range r.Model.Sectors {
		if from, to := s.Extent(); from <= last && to >= first {
			overlapping++
		}
	}
	require.Len(t, d.Sectors, overlapping, "the devices worked for the others, too")
	require.Contains(t, page, "<bdi>sector "+chosen.Label()+" only, 36.109 s to 1:45.029 of the run")
	require.Contains(t, page, "for other sectors</li>")

	d = dataOf(t, written(t, scoped(r, figures.Scope{From: 120_000, To: 180_000}))).Runs[0]
	require.Equal(t, len(d.Sectors), d.Chosen)
	require.Equal(t, [2]int64{120_000, 180_000}, [2]int64{d.Clock + d.Begin, d.Clock + d.End})
}

// sparse are logs of what hardly is a run.
var sparse = map[string]string{
	"nothing":        "TIMELINE,no,SYNTH_START,a,partition=0\n",
	"one start":      "TIMELINE,5,SYNTH_START,a,partition=0\n",
	"one end":        "TIMELINE,5,GPU_END,a,worker=0,gpu_ms=1\n",
	"only a pick-up": "TIMELINE,5,GPU_PICKUP,a,worker=0,partition=3\n",
	"no time":        "TIMELINE,0,SYNTH_START,a,kind=porep-c2\nTIMELINE,0,SYNTH_END,a,synth_ms=0\n",
	"a long id":      "TIMELINE,5,SYNTH_START," + strings.Repeat("ü", 100_000) + ",partition=0\n",
	"a late start":   "TIMELINE,999999999999,SYNTH_START,a,partition=0\n",
}

func TestSparseRuns(t *testing.T) {
	for name, log := range sparse {
		t.Run(name, func(t *testing.T) {
			r := read(t, name, []byte(log))
			page := written(t, r)
			require.Len(t, dataOf(t, page).Runs[0].Sectors, len(r.Model.Sectors))
			require.Less(t, len(page), 200_000)
		})
	}
}

func TestComparisonAgainstTheFirst(t *testing.T) {
	a, b := fixture(t, "dual_worker_noisy.log"), fixture(t, "single_worker.log")
	fig := figure{text: seconds, better: lower, of: func(f *figures.Figures) *float64 { return f.SecondsPerProof.Steady }}
	require.Equal(t, cell{Text: "49.0 s", Change: "+36.7%", Trend: "worse"}, fig.cell(a.Figures, b.Figures))
	require.Equal(t, cell{Text: "35.8 s", Change: "−26.9%", Trend: "better"}, fig.cell(b.Figures, a.Figures))
	require.Equal(t, cell{Text: "35.8 s", Change: "±0", Trend: "same"}, fig.cell(a.Figures, a.Figures))
	require.Equal(t, cell{Text: "–"}, fig.cell(a.Figures, &figures.Figures{}))
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteErrors(t *testing.T) {
	require.ErrorContains(t, Write(&bytes.Buffer{}), "there is no run to show")
	require.ErrorContains(t, Write(fullDisk{}, fixture(t, "standard.log")), "no space left")
}

func BenchmarkWrite(b *testing.B) {
	r := read(b, "large.log", manySectors(667))
	var out bytes.Buffer
	for b.Loop() {
		out.Reset()
		if err := Write(&out, r); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(out.Len()))
}

// Package page draws runs as a page to look at: the waterfall, with lanes by
// sector, GPU worker, device or synthesis worker, and the figures and the
// verdict beside it.
//
// In go runs with their figures, out comes one HTML file that needs nothing
// else: no server, no network, no other file. The time axis is the run's clock.
// Several runs are compared on a common axis, on which 0 is the first synthesis
// start of each. All text that comes from logs is data, never markup, and shown such that it cannot
// change what stands beside it.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"github.com/provetrace/provetrace/convert/figures"
	"github.com/provetrace/provetrace/convert/run"
)

// A Run is a run to show.
type Run struct {
	Model   *run.Run
	Figures *figures.Figures

	// Scope is what the figures are of. The page shows its time only, the lanes
	// of its sectors and, paler, what the devices and the synthesis workers did
	// for others.
	Scope figures.Scope
}

// MaxSpans is how many spans a page draws, of all its runs together: with
// more, it would take a browser long to open. Of larger runs the first sectors
// are drawn, and the page says so. The figures are those of the whole run.
const MaxSpans = 250_000

// Write writes the page of one run, or of several to compare: the first is
// what the others are compared with.
func Write(w io.Writer, runs ...Run) error { return write(w, MaxSpans, runs) }

func write(w io.Writer, maxSpans int, runs []Run) error {
	if len(runs) == 0 {
		return fmt.Errorf("draw a page: there is no run to show")
	}
	a, err := loadAssets()
	if err != nil {
		return fmt.Errorf("draw a page: %w", err)
	}
	data, drawn := encode(runs, maxSpans/len(runs))
	v := newView(runs, drawn)
	v.CSS, v.JS, v.Data, v.Policy = a.css, a.js, template.JS(data), a.policy
	var out bytes.Buffer
	if err := a.page.Execute(&out, v); err != nil {
		return fmt.Errorf("draw the page of %s: %w", runs[0].Model.Name, err)
	}
	_, err = w.Write(out.Bytes())
	return err
}

//go:embed assets
var files embed.FS

// scripts are the page's program, in the order in which its parts need each
// other.
var scripts = [...]string{"model.js", "paint.js", "timeline.js", "page.js"}

type assets struct {
	page   *template.Template
	css    template.CSS
	js     template.JS
	policy string
}

// loadAssets reads what the page is made of, and makes its content security
// policy: nothing may be loaded, and of scripts and styles only these may run.
var loadAssets = sync.OnceValues(func() (*assets, error) {
	css, err := files.ReadFile("assets/page.css")
	if err != nil {
		return nil, err
	}
	var js strings.Builder
	js.WriteString("\"use strict\";\n(() => {\n")
	for _, name := range scripts {
		text, err := files.ReadFile("assets/" + name)
		if err != nil {
			return nil, err
		}
		js.Write(text)
	}
	js.WriteString("})();\n")
	page, err := template.New("page.html").Funcs(functions).ParseFS(files, "assets/page.html")
	if err != nil {
		return nil, err
	}
	return &assets{
		page: page, css: template.CSS(css), js: template.JS(js.String()),
		policy: fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'",
			hash(js.String()), hash(string(css))),
	}, nil
})

// hash names an inline script or style in a content security policy, by
// Content Security Policy Level 3, section 2.3.1.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

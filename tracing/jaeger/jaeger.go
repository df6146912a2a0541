// Package jaeger makes the addresses of a Jaeger's pages, so that what sends
// traces can say where to see them.
package jaeger

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A UI is where the pages of a Jaeger are. The zero UI is none.
type UI struct {
	base string // without a slash at its end
}

// Parse reads the address of the pages, such as http://localhost:16686.
func Parse(address string) (UI, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return UI{}, fmt.Errorf("%q is not the URL of a page, such as http://localhost:16686", address)
	}
	return UI{strings.TrimRight(address, "/")}, nil
}

// Trace returns the address of a trace, by its id in hexadecimal. It is empty
// where there are no pages.
func (u UI) Trace(id string) string {
	if u.base == "" {
		return ""
	}
	return u.base + "/trace/" + id
}

// searchLimit is how many traces a search shows at most.
const searchLimit = 200

// Search returns the address of the search for the traces that have a span of
// an operation of a service between two times, a second more on either side. It
// is empty where there are no pages.
func (u UI) Search(service, operation string, from, to time.Time) string {
	if u.base == "" {
		return ""
	}
	q := url.Values{
		"service":   {service},
		"operation": {operation},
		"lookback":  {"custom"},
		"start":     {strconv.FormatInt(from.Add(-time.Second).UnixMicro(), 10)},
		"end":       {strconv.FormatInt(to.Add(time.Second).UnixMicro(), 10)},
		"limit":     {strconv.Itoa(searchLimit)},
	}
	return u.base + "/search?" + q.Encode()
}

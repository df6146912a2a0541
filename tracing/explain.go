package tracing

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errUnfinished is what an export fails with that the shutdown did not wait for.
var errUnfinished = errors.New("shut down before all spans were delivered")

// partialSuccess matches the text of the exporters' partial-success errors,
// whose types are internal to them.
var partialSuccess = regexp.MustCompile(`(?s)OTLP partial success: (.*) \((-?\d+) spans rejected\)`)

// rejectedSpans returns how many spans the backend rejected, where err is such
// a partial success.
func rejectedSpans(err error) (int64, bool) {
	m := partialSuccess.FindStringSubmatch(err.Error())
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[2], 10, 64)
	return n, err == nil
}

// isTooLarge tells whether a message was refused for its size alone: by a gRPC
// server, 4 MiB where nothing else is set, by an HTTP server, or by the
// exporter itself.
func isTooLarge(err error) bool {
	text := err.Error()
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(text, "larger than max") ||
		strings.Contains(text, ": 413 ") ||
		strings.Contains(text, "message too large") || strings.Contains(text, "body too large")
}

// What connecting fails with where nothing is to be reached, as the gRPC and
// HTTP libraries say it.
var (
	saysRefused     = []string{"connection refused"}
	saysUnknownHost = []string{"no such host", "produced zero addresses", "server misbehaving", "Temporary failure in name resolution"}
	saysNoRoute     = []string{"network is unreachable", "no route to host"}
)

// isUnreachable tells whether an attempt to export failed since nothing was
// there to connect to.
func isUnreachable(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) ||
		err != nil && contains(err.Error(), slices.Concat(saysRefused, saysUnknownHost, saysNoRoute)...)
}

func contains(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
}

// explain says in one sentence why an OTLP endpoint did not take spans and what
// to do. The gRPC and HTTP libraries flatten most causes into text, so that
// text is what there is to go by.
func (c *otlpConfig) explain(err error) error {
	say := func(format string, args ...any) error {
		return &hint{fmt.Sprintf(format, args...), err}
	}
	text := err.Error()
	has := func(parts ...string) bool { return contains(text, parts...) }
	if m := partialSuccess.FindStringSubmatch(text); m != nil {
		return say("%s rejected %s spans: %s", c.url, m[2], oneLine(m[1]))
	}
	if errors.Is(err, errUnfinished) {
		return say("the shutdown ended before %s had taken all spans: allow more time, or look at what slows it down", c.url)
	}

	// What the connection fails with, whichever the protocol.
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), has(saysRefused...):
		return say("nothing listens at %s: start Jaeger (docker compose up -d) or give another endpoint", c.url)
	case has(saysUnknownHost...):
		return say("the host of %s cannot be found by its name: correct the endpoint", c.url)
	case has(saysNoRoute...):
		return say("there is no route to %s: correct the endpoint", c.url)
	case has("first record does not look like a TLS handshake", "server gave HTTP response to HTTPS client"):
		return say("%s does not speak TLS: give the endpoint as http://", c.url)
	case has("certificate required", "bad certificate", "tls: handshake failure"):
		return say("%s wants a client certificate: set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY", c.url)
	case has("x509: certificate signed by unknown authority"):
		return say("the certificate of %s is of an authority that is not trusted here: set OTEL_EXPORTER_OTLP_CERTIFICATE to the authority's PEM file", c.url)
	case has("x509: "):
		return say("the certificate of %s is not valid (%s): correct the endpoint or the certificate", c.url, oneLine(after(text, "x509: ")))
	case has("tls: "):
		return say("%s and this program cannot agree on TLS (%s): correct the endpoint or its certificates", c.url, oneLine(after(text, "tls: ")))
	case has("Client sent an HTTP request to an HTTPS server"):
		return say("%s speaks TLS: give the endpoint as https://", c.url)
	}
	if c.grpc {
		return c.explainGRPC(err, text, say)
	}
	return c.explainHTTP(err, text, say)
}

func (c *otlpConfig) explainGRPC(err error, text string, say func(string, ...any) error) error {
	switch {
	case strings.Contains(text, "reading server preface"), strings.Contains(text, "unexpected HTTP status code"),
		strings.Contains(text, "frame too large"), strings.Contains(text, "unexpected content-type"):
		return say("%s does not speak gRPC: if it is OTLP's HTTP port set OTEL_EXPORTER_OTLP_PROTOCOL=%s, if it wants TLS give the endpoint as https://", c.url, protocolHTTP)
	}
	if isClosed(text) {
		return c.explainClosed(say)
	}
	s := status.Convert(err)
	message := oneLine(s.Message())
	var statusErr interface{ GRPCStatus() *status.Status }
	if errors.As(err, &statusErr) {
		message = oneLine(statusErr.GRPCStatus().Message())
	}
	switch code := s.Code(); {
	case code == codes.Unauthenticated, code == codes.PermissionDenied:
		return say("%s refuses the credentials (%s): set OTEL_EXPORTER_OTLP_HEADERS", c.url, message)
	case code == codes.Unimplemented:
		return say("%s speaks gRPC but takes no traces: give the endpoint of an OTLP receiver", c.url)
	case code == codes.ResourceExhausted && isTooLarge(err):
		return say("%s takes no message as large as one span is (%s): raise its limit", c.url, message)
	case code == codes.DeadlineExceeded, errors.Is(err, context.DeadlineExceeded), code == codes.Canceled:
		// The backend can see the end of the time first, and cancel.
		return say("%s did not answer within %s: look at what slows it down, or raise OTEL_EXPORTER_OTLP_TIMEOUT", c.url, c.limit())
	case code == codes.Unavailable, code == codes.ResourceExhausted:
		return say("%s cannot take spans now (%s): look at the backend's log", c.url, message)
	}
	return say("%s did not take spans: %s", c.url, message)
}

func (c *otlpConfig) explainHTTP(err error, text string, say func(string, ...any) error) error {
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case errors.Is(err, errWebPage):
		return say("%s answers with a web page: give the endpoint of an OTLP receiver, by default port %s", c.url, portHTTP)
	case has("malformed HTTP"), has("readLoopPeekFailLocked"), has("invalid gRPC request"):
		return say("%s does not speak HTTP: if it is OTLP's gRPC port set OTEL_EXPORTER_OTLP_PROTOCOL=%s", c.url, protocolGRPC)
	case isClosed(text):
		return c.explainClosed(say)
	case has(": 401 "), has(": 403 "):
		return say("%s refuses the credentials: set OTEL_EXPORTER_OTLP_HEADERS", c.url)
	case has(": 404 "), has(": 405 "):
		return say("%s takes no traces at this path: give the endpoint of an OTLP receiver, by default with the path %s", c.url, tracesPath)
	case has(": 413 "):
		return say("%s takes no message as large as one span is: raise its limit", c.url)
	case has(": 415 "):
		return say("%s does not take protobuf messages: give the endpoint of an OTLP receiver", c.url)
	case has(": 301 "), has(": 302 "), has(": 303 "), has(": 307 "), has(": 308 "):
		return say("%s is only a redirect: give the endpoint that it leads to", c.url)
	case has("request failure: body: "):
		return say("%s cannot take spans now (%s): look at the backend's log", c.url, oneLine(after(text, "body: ")))
	case errors.Is(err, context.DeadlineExceeded), has("Client.Timeout exceeded"), has("export timeout"):
		return say("%s did not answer within %s: look at what slows it down, or raise OTEL_EXPORTER_OTLP_TIMEOUT", c.url, c.limit())
	}
	return say("%s did not take spans: %s", c.url, oneLine(text))
}

// isClosed tells whether the connection broke before there was an answer.
func isClosed(text string) bool {
	return strings.Contains(text, "broken pipe") || strings.Contains(text, "connection reset by peer") ||
		strings.Contains(text, "use of closed network connection") ||
		strings.Contains(text, "client conn could not be established") || strings.HasSuffix(text, "EOF")
}

// explainClosed guesses at why. A server may close before the client has read
// that it wants TLS, a client certificate or another protocol.
func (c *otlpConfig) explainClosed(say func(string, ...any) error) error {
	switch {
	case c.tls == nil && !c.grpc:
		return say("%s closes the connection: if it is OTLP's gRPC port set OTEL_EXPORTER_OTLP_PROTOCOL=%s, if it wants TLS give the endpoint as https://", c.url, protocolGRPC)
	case c.tls == nil:
		return say("%s closes the connection: if it wants TLS, give the endpoint as https://", c.url)
	case len(c.tls.Certificates) == 0:
		return say("%s closes the connection: if it wants a client certificate, set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY", c.url)
	default:
		return say("%s closes the connection: look at the backend's log", c.url)
	}
}

// limit returns how long an export may take, for people.
func (c *otlpConfig) limit() string {
	if c.timeout <= 0 {
		return "the time allowed"
	}
	return c.timeout.Round(time.Millisecond).String()
}

// after returns what follows the last of a separator.
func after(s, separator string) string {
	if i := strings.LastIndex(s, separator); i >= 0 {
		return s[i+len(separator):]
	}
	return s
}

// oneLine returns a text of a backend as part of a sentence: without control
// characters, and of a length that can be read.
func oneLine(s string) string {
	const limit = 200
	var b strings.Builder
	for i, r := range strings.TrimRight(s, " .\n\"") {
		if i >= limit {
			b.WriteString("…")
			break
		}
		if unicode.IsControl(r) {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

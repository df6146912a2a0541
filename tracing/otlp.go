package tracing

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// How an export that may succeed later is repeated. The exporters' own 5 s
// before the first repetition are meant for what runs on regardless; here
// somebody waits at the end, and a backend that was started just now needs a
// second or two. For a lossless pipeline the wait is at each export.
const (
	retryFirst = 500 * time.Millisecond
	retryMax   = 30 * time.Second
	retryFor   = time.Minute

	losslessRetryFirst = 250 * time.Millisecond
	losslessRetryMax   = 2 * time.Second
	losslessRetryFor   = 5 * time.Second
)

// A reach knows whether there is a backend to be reached.
type reach struct {
	mu   sync.Mutex
	lost error       // what the last attempt to connect failed with; nil if it did not
	quit func(error) // what is called when there is none, once that is set
}

// tried notes how an attempt to export went.
func (r *reach) tried(err error) {
	if !isUnreachable(err) {
		err = nil
	}
	r.mu.Lock()
	r.lost = err
	quit := r.quit
	r.mu.Unlock()
	if err != nil && quit != nil {
		quit(err)
	}
}

// orQuit has quit be called if there is no backend to be reached, or as soon as
// that turns out.
func (r *reach) orQuit(quit func(error)) {
	r.mu.Lock()
	r.quit = quit
	lost := r.lost
	r.mu.Unlock()
	if lost != nil {
		quit(lost)
	}
}

// newOTLPExporter returns an exporter that connects when it first exports.
//
// The exporters read the environment too. All that they could read otherwise
// than config does is passed explicitly: TLS credentials, of which they would
// use those of the environment even for http://, the endpoint, the protocol's
// encoding and the headers.
func newOTLPExporter(ctx context.Context, c otlpConfig, lossless bool, r *reach) (sdktrace.SpanExporter, error) {
	first, longest, all := retryFirst, retryMax, retryFor
	if lossless {
		first, longest, all = losslessRetryFirst, losslessRetryMax, losslessRetryFor
	}
	if c.grpc {
		creds := insecure.NewCredentials()
		if c.tls != nil {
			creds = credentials.NewTLS(c.tls)
		}
		options := []otlptracegrpc.Option{
			otlptracegrpc.WithEndpoint(c.target),
			otlptracegrpc.WithTLSCredentials(creds),
			otlptracegrpc.WithHeaders(c.headers),
			otlptracegrpc.WithTimeout(c.timeout),
			// The limit is the server's matter, and checking one here would take
			// a tenth of the time of an export.
			otlptracegrpc.WithMaxRequestSize(-1),
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: first, MaxInterval: longest, MaxElapsedTime: all}),
			otlptracegrpc.WithDialOption(grpc.WithChainUnaryInterceptor(r.intercept)),
		}
		return otlptrace.New(ctx, otlptracegrpc.NewClient(options...))
	}

	transport := newTransport(c, r)
	compression := otlptracehttp.NoCompression
	if c.gzip {
		compression = otlptracehttp.GzipCompression
	}
	options := []otlptracehttp.Option{
		otlptracehttp.WithEndpoint(c.host),
		otlptracehttp.WithURLPath(c.path),
		otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		otlptracehttp.WithHeaders(c.headers),
		otlptracehttp.WithCompression(compression),
		otlptracehttp.WithTLSClientConfig(c.tls),
		otlptracehttp.WithHTTPClient(&http.Client{
			Transport: transport,
			Timeout:   c.timeout,
			// A redirected POST becomes a GET, and the page that it gets would
			// pass for success.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: first, MaxInterval: longest, MaxElapsedTime: all}),
	}
	if c.tls == nil {
		options = append(options, otlptracehttp.WithInsecure())
	} else {
		options = append(options, otlptracehttp.WithEndpointURL("https://"+c.host+c.path))
	}
	e, err := otlptrace.New(ctx, otlptracehttp.NewClient(options...))
	if err != nil {
		return nil, err
	}
	return &httpExporter{Exporter: e, transport: transport}, nil
}

// intercept notes how a call of gRPC went.
func (r *reach) intercept(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption) error {
	err := call(ctx, method, req, reply, conn, o...)
	r.tried(err)
	return err
}

// newTransport returns a transport with the limits of the exporter's own. That
// one is shared by all exporters of a process, so that none closes its
// connections.
func newTransport(c otlpConfig, r *reach) *otlpTransport {
	return &otlpTransport{reach: r, Transport: http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          4,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		TLSClientConfig:       c.tls,
	}}
}

// errWebPage is what a web server's page is taken for.
var errWebPage = errors.New("the answer is a web page")

// An otlpTransport refuses the pages with which web servers answer any request:
// with a status of 200, they would pass for an accepted export.
type otlpTransport struct {
	http.Transport
	reach *reach
}

func (t *otlpTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(r)
	t.reach.tried(err)
	if err == nil && resp.StatusCode/100 == 2 && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		_ = resp.Body.Close()
		return nil, errWebPage
	}
	return resp, err
}

// An httpExporter closes its connections with itself.
type httpExporter struct {
	*otlptrace.Exporter
	transport *otlpTransport
}

func (e *httpExporter) Shutdown(ctx context.Context) error {
	err := e.Exporter.Shutdown(ctx)
	e.transport.CloseIdleConnections()
	return err
}

package tracing

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/provetrace/provetrace/tracing/otlptest"
)

// checkQuiet fails the test if goroutines are left, or if anything reached
// OpenTelemetry's process-wide error handler, which writes to stderr.
func checkQuiet(t *testing.T) {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		// Go's HTTP server waits half a second after an error before it closes.
		goleak.VerifyNone(t, leaks, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
	})
	var mu sync.Mutex
	var handled []error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		handled = append(handled, err)
	}))
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		require.Empty(t, handled)
	})
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func mustSetup(t *testing.T, o Options) *Pipeline {
	t.Helper()
	p, err := Setup(testContext(t), o)
	require.NoError(t, err)
	return p
}

// emit ends n spans, spread over the stages.
func emit(s *Stages, n int) {
	start := time.Unix(1_700_000_000, 0)
	for i := range n {
		emitTestSpan(s.Tracer(Stage(i%int(numStages))), context.Background(), i, start.Add(time.Duration(i)*time.Second))
	}
}

func TestDelivery(t *testing.T) {
	for _, over := range []string{"grpc", "http/protobuf"} {
		for _, secure := range []string{"plaintext", "TLS", "mutual TLS"} {
			for _, compression := range []string{"none", "gzip"} {
				for _, lossless := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/%s/lossless=%v", over, secure, compression, lossless), func(t *testing.T) {
						checkQuiet(t)
						so := otlptest.Options{HTTP: over == "http/protobuf"}
						clearEnv(t,
							"OTEL_EXPORTER_OTLP_PROTOCOL="+over,
							"OTEL_EXPORTER_OTLP_COMPRESSION="+compression,
							"OTEL_EXPORTER_OTLP_HEADERS=X-Token=a%20b,other=1",
						)
						if secure != "plaintext" {
							ca := otlptest.NewCA(t)
							so.TLS = ca.ServerTLS(secure == "mutual TLS")
							t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", ca.File())
							cert, key := ca.ClientFiles()
							t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", cert)
							t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", key)
						}
						server := otlptest.Start(t, so)
						t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.Endpoint())

						p := mustSetup(t, Options{Lossless: lossless})
						emit(p.Stages(), 100)
						delivery, err := p.Shutdown(testContext(t))
						require.NoError(t, err)
						require.Equal(t, Delivery{Ended: 100, Delivered: 100}, delivery)
						require.NoError(t, p.Err())
						require.Equal(t, 100, server.Spans())
						for _, r := range server.Requests() {
							require.Equal(t, "a b", r.Header["x-token"])
							require.Equal(t, "1", r.Header["other"])
							require.Equal(t, so.HTTP && compression == "gzip", r.Gzipped)
						}
						services := make(map[string]int)
						for _, rs := range server.Traces().ResourceSpans().All() {
							name, _ := rs.Resource().Attributes().Get("service.name")
							services[name.Str()] += rs.ScopeSpans().At(0).Spans().Len()
						}
						require.Equal(t, map[string]int{"prover": 25, "prover-synthesis": 25, "prover-queue": 25, "prover-gpu": 25}, services)

						again, err := p.Shutdown(testContext(t))
						require.NoError(t, err)
						require.Equal(t, delivery, again)
					})
				}
			}
		}
	}
}

// Plaintext stays plaintext where the environment has certificates for other
// endpoints.
func TestCertificateWithPlaintext(t *testing.T) {
	for _, overHTTP := range []bool{false, true} {
		checkQuiet(t)
		server := otlptest.Start(t, otlptest.Options{HTTP: overHTTP})
		clearEnv(t, "OTEL_EXPORTER_OTLP_CERTIFICATE="+otlptest.NewCA(t).File(), "OTEL_EXPORTER_OTLP_INSECURE=false")
		o := Options{Endpoint: server.Endpoint()}
		if overHTTP {
			o.Protocol = "http/protobuf"
		}
		p := mustSetup(t, o)
		emit(p.Stages(), 1)
		delivery, err := p.Shutdown(testContext(t))
		require.NoError(t, err)
		require.Equal(t, Delivery{Ended: 1, Delivered: 1}, delivery)
	}
}

func TestResources(t *testing.T) {
	checkQuiet(t)
	server := otlptest.Start(t, otlptest.Options{})
	clearEnv(t,
		"OTEL_SERVICE_NAME=farm",
		"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test%20lab,host.name=rig-7",
		"OTEL_EXPORTER_OTLP_ENDPOINT="+server.Endpoint(),
	)
	p := mustSetup(t, Options{Resource: []attribute.KeyValue{attribute.String("rack", "4")}})
	emit(p.Stages(attribute.String("extra", "x")), int(numStages))
	_, err := p.Shutdown(testContext(t))
	require.NoError(t, err)

	instances := make(map[any]bool)
	traces := server.Traces()
	require.Equal(t, int(numStages), traces.ResourceSpans().Len())
	for _, rs := range traces.ResourceSpans().All() {
		attrs := rs.Resource().Attributes().AsRaw()
		require.Contains(t, []string{"farm", "farm-synthesis", "farm-queue", "farm-gpu"}, attrs["service.name"])
		require.Equal(t, "farm", attrs["service.namespace"])
		require.Equal(t, "test lab", attrs["deployment.environment.name"])
		require.Equal(t, "rig-7", attrs["host.name"])
		require.Equal(t, "4", attrs["rack"])
		require.Equal(t, "x", attrs["extra"])
		require.Equal(t, int64(os.Getpid()), attrs["process.pid"])
		require.Equal(t, "go", attrs["telemetry.sdk.language"])
		require.Equal(t, "opentelemetry", attrs["telemetry.sdk.name"])
		require.Contains(t, attrs, "process.executable.name")
		require.Contains(t, attrs, "process.runtime.version")
		require.NotContains(t, attrs, "process.command_args")
		require.NotContains(t, attrs, "process.command_line")
		require.NotEmpty(t, rs.SchemaUrl())
		instances[attrs["service.instance.id"]] = true
		scope := rs.ScopeSpans().At(0)
		require.Equal(t, ScopeName, scope.Scope().Name())
	}
	require.Len(t, instances, 1)
}

func TestDeterministicResources(t *testing.T) {
	clearEnv(t)
	convert := func(run string) (string, map[string]any) {
		var out bytes.Buffer
		p := mustSetup(t, Options{File: "-", Writer: &out, Lossless: true, DeterministicIDs: true})
		stages := p.Stages(RunSource.String(SourceTimeline), RunID.String(run))
		ctx := newTreeIDs(run, "job", 1).with(context.Background(), "", SpanSector)
		_, span := stages.Tracer(StagePipeline).Start(ctx, SpanSector, trace.WithTimestamp(time.Unix(1, 0)))
		span.End(trace.WithTimestamp(time.Unix(2, 0)))
		_, err := p.Shutdown(testContext(t))
		require.NoError(t, err)
		td, err := new(ptrace.JSONUnmarshaler).UnmarshalTraces(bytes.TrimSpace(out.Bytes()))
		require.NoError(t, err)
		return out.String(), td.ResourceSpans().At(0).Resource().Attributes().AsRaw()
	}
	first, attrs := convert("one")
	second, _ := convert("one")
	require.Equal(t, first, second)
	_, other := convert("two")
	require.NotEqual(t, attrs["service.instance.id"], other["service.instance.id"])
	require.Equal(t, "timeline", attrs["provetrace.source"])
	require.Equal(t, "one", attrs["provetrace.run"])
	for key := range attrs {
		require.False(t, strings.HasPrefix(key, "process.") || strings.HasPrefix(key, "host."), "%s describes the wrong process", key)
	}
}

func TestFailures(t *testing.T) {
	refused := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		return "http://" + l.Addr().String()
	}
	answer := func(r otlptest.Reply) func(otlptest.Request) otlptest.Reply {
		return func(otlptest.Request) otlptest.Reply { return r }
	}
	start := func(t *testing.T, o otlptest.Options) string { return otlptest.Start(t, o).Endpoint() }
	checkQuiet(t)
	trusted := otlptest.NewCA(t)
	clearEnv(t,
		"OTEL_EXPORTER_OTLP_TIMEOUT=2000",
		"OTEL_BSP_EXPORT_TIMEOUT=4000",
		"OTEL_EXPORTER_OTLP_CERTIFICATE="+trusted.File(),
	)
	startTLS := func(t *testing.T, o otlptest.Options, clientCerts bool) string {
		ca := otlptest.NewCA(t)
		if clientCerts {
			ca = trusted
		}
		o.TLS = ca.ServerTLS(clientCerts)
		return start(t, o)
	}
	const overHTTP = true
	type test struct {
		name     string
		protocol string
		endpoint func(t *testing.T) string
		want     string // part of the error, in which %s is the endpoint
	}
	tests := []test{
		{"refused", "grpc", func(*testing.T) string { return refused() }, "nothing listens at %s: start Jaeger"},
		{"refused", "http/protobuf", func(*testing.T) string { return refused() }, "nothing listens at %s"},
		{"no such host", "grpc", func(*testing.T) string { return "http://does-not-exist.invalid:4317" }, "the host of %s cannot be found"},
		{"no such host", "http/protobuf", func(*testing.T) string { return "http://does-not-exist.invalid:4318" }, "the host of %s"},
		{"slow", "grpc", func(t *testing.T) string {
			return start(t, otlptest.Options{Reply: answer(otlptest.Reply{Hang: true})})
		}, "%s did not answer within 2s"},
		{"slow", "http/protobuf", func(t *testing.T) string {
			return start(t, otlptest.Options{HTTP: overHTTP, Reply: answer(otlptest.Reply{Hang: true})})
		}, "%s/v1/traces did not answer within 2s"},
		{"unavailable", "grpc", func(t *testing.T) string {
			return start(t, otlptest.Options{Reply: answer(otlptest.Reply{Code: codes.Unavailable, Message: "out of\ndisk"})})
		}, "%s cannot take spans now (out of disk)"},
		{"unavailable", "http/protobuf", func(t *testing.T) string {
			return start(t, otlptest.Options{HTTP: overHTTP, Reply: answer(otlptest.Reply{Status: 503, Message: "out of disk"})})
		}, "cannot take spans now (out of disk)"},
		{"unauthenticated", "grpc", func(t *testing.T) string {
			return start(t, otlptest.Options{Reply: answer(otlptest.Reply{Code: codes.Unauthenticated, Message: "no token"})})
		}, "%s refuses the credentials (no token): set OTEL_EXPORTER_OTLP_HEADERS"},
		{"unauthenticated", "http/protobuf", func(t *testing.T) string {
			return start(t, otlptest.Options{HTTP: overHTTP, Reply: answer(otlptest.Reply{Status: 401})})
		}, "refuses the credentials: set OTEL_EXPORTER_OTLP_HEADERS"},
		{"invalid", "grpc", func(t *testing.T) string {
			return start(t, otlptest.Options{Reply: answer(otlptest.Reply{Code: codes.InvalidArgument, Message: "bad span"})})
		}, "%s did not take spans: bad span"},
		{"unimplemented", "grpc", func(t *testing.T) string { return startOtherGRPC(t) }, "%s speaks gRPC but takes no traces"},
		{"not found", "http/protobuf", func(t *testing.T) string {
			return start(t, otlptest.Options{HTTP: overHTTP}) + "/somewhere/else"
		}, "takes no traces at this path"},
		{"redirect", "http/protobuf", func(t *testing.T) string {
			return start(t, otlptest.Options{HTTP: overHTTP, Reply: answer(otlptest.Reply{Status: 302, Header: http.Header{"Location": {"/elsewhere"}}})})
		}, "is only a redirect"},
		{"web page", "http/protobuf", startWebServer, "answers with a web page"},
		{"web page", "grpc", startWebServer, "%s does not speak gRPC"},
		{"HTTP's port", "grpc", func(t *testing.T) string { return start(t, otlptest.Options{HTTP: overHTTP}) }, "%s does not speak gRPC"},
		{"gRPC's port", "http/protobuf", func(t *testing.T) string { return start(t, otlptest.Options{}) }, "if it is OTLP's gRPC port"},
		{"unknown authority", "grpc", func(t *testing.T) string { return startTLS(t, otlptest.Options{}, false) }, "the certificate of %s is of an authority that is not trusted here: set OTEL_EXPORTER_OTLP_CERTIFICATE"},
		{"unknown authority", "http/protobuf", func(t *testing.T) string { return startTLS(t, otlptest.Options{HTTP: overHTTP}, false) }, "is of an authority that is not trusted here"},
		{"no client certificate", "grpc", func(t *testing.T) string { return startTLS(t, otlptest.Options{}, true) }, "wants a client certificate"},
		{"no client certificate", "http/protobuf", func(t *testing.T) string { return startTLS(t, otlptest.Options{HTTP: overHTTP}, true) }, "wants a client certificate"},
		{"TLS to plaintext", "grpc", func(t *testing.T) string {
			return strings.Replace(start(t, otlptest.Options{}), "http:", "https:", 1)
		}, "%s does not speak TLS: give the endpoint as http://"},
		{"TLS to plaintext", "http/protobuf", func(t *testing.T) string {
			return strings.Replace(start(t, otlptest.Options{HTTP: overHTTP}), "http:", "https:", 1)
		}, "does not speak TLS"},
		{"plaintext to TLS", "grpc", func(t *testing.T) string {
			return strings.Replace(startTLS(t, otlptest.Options{}, false), "https:", "http:", 1)
		}, "give the endpoint as https://"},
		{"plaintext to TLS", "http/protobuf", func(t *testing.T) string {
			return strings.Replace(startTLS(t, otlptest.Options{HTTP: overHTTP}, false), "https:", "http:", 1)
		}, "give the endpoint as https://"},
		{"too large", "grpc", func(t *testing.T) string { return start(t, otlptest.Options{MaxMessage: 100}) }, "%s takes no message as large as one span"},
		{"too large", "http/protobuf", func(t *testing.T) string {
			return start(t, otlptest.Options{HTTP: overHTTP, MaxMessage: 100})
		}, "takes no message as large as one span"},
	}
	// All at once, since most of them wait for a timeout.
	type result struct {
		endpoint string
		pipeline *Pipeline
		delivery Delivery
		err      error
	}
	results := make([]result, len(tests))
	var wg sync.WaitGroup
	for i, tt := range tests {
		r := &results[i]
		r.endpoint = tt.endpoint(t)
		r.pipeline = mustSetup(t, Options{Endpoint: r.endpoint, Protocol: tt.protocol, Lossless: i%2 == 0})
		emit(r.pipeline.Stages(), 4)
		wg.Go(func() { r.delivery, r.err = r.pipeline.Shutdown(testContext(t)) })
	}
	wg.Wait()
	for i, tt := range tests {
		t.Run(tt.protocol+"/"+tt.name, func(t *testing.T) {
			r := results[i]
			require.Equal(t, Delivery{Ended: 4, Failed: 4}, r.delivery)
			require.Error(t, r.err)
			require.Contains(t, r.err.Error(), strings.Replace(tt.want, "%s", r.endpoint, 1))
			require.NotContains(t, r.err.Error(), "\n")
			require.Equal(t, r.err, r.pipeline.Err())
			require.Error(t, errors.Unwrap(r.err), "the cause is lost")
		})
	}
}

// What a connection fails with can depend on which end is faster. These are the
// texts that the other tests meet only sometimes.
func TestExplain(t *testing.T) {
	plain := otlpConfig{grpc: true, url: "http://a:4317"}
	secure := otlpConfig{grpc: true, url: "https://a:4317", tls: &tls.Config{}}
	client := otlpConfig{grpc: true, url: "https://a:4317", tls: &tls.Config{Certificates: make([]tls.Certificate, 1)}}
	overHTTP := otlpConfig{url: "http://a:4318/v1/traces"}
	unavailable := func(text string) error { return status.Error(codes.Unavailable, text) }
	tests := []struct {
		config otlpConfig
		err    error
		want   string
	}{
		{plain, unavailable("write: broken pipe"), "closes the connection: if it wants TLS, give"},
		{secure, unavailable("read: connection reset by peer"), "if it wants a client certificate, set"},
		{client, unavailable("error reading from server: EOF"), "closes the connection: look at the backend's log"},
		{overHTTP, errors.New("use of closed network connection"), "if it is OTLP's gRPC port set OTEL_EXPORTER_OTLP_PROTOCOL=grpc, if it wants TLS"},
		{overHTTP, errors.New("readLoopPeekFailLocked: %!w(<nil>)"), "does not speak HTTP"},
		{secure, unavailable("tls: failed to verify certificate: x509: certificate is valid for b, not a"), "is not valid (certificate is valid for b, not a): correct"},
		{secure, unavailable("remote error: tls: protocol version not supported"), "cannot agree on TLS (protocol version not supported)"},
		{plain, unavailable("dial tcp: connect: network is unreachable"), "there is no route to"},
		{plain, status.Error(codes.DeadlineExceeded, "late"), "did not answer within the time allowed"},
		{plain, status.Error(codes.Canceled, "context canceled"), "http://a:4317 did not answer within "},
		{plain, status.Error(codes.ResourceExhausted, "slow down"), "cannot take spans now (slow down)"},
		{overHTTP, errors.New("failed to send to x: 415 Unsupported (body: y)"), "does not take protobuf"},
		{overHTTP, errors.New("failed to send to x: 500 Internal (body: y)"), "did not take spans: failed to send to x: 500 Internal (body: y)"},
		{overHTTP, errors.New(strings.Repeat("long\n", 1000)), "did not take spans: long long"},
	}
	for _, tt := range tests {
		err := tt.config.explain(tt.err)
		require.ErrorContains(t, err, tt.want)
		require.ErrorContains(t, err, tt.config.url)
		require.ErrorIs(t, err, tt.err)
		require.NotContains(t, err.Error(), "\n")
		require.Less(t, len(err.Error()), 400)
	}
}

// startOtherGRPC starts a gRPC server without OTLP.
func startOtherGRPC(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return "http://" + listener.Addr().String()
}

// startWebServer starts a server that has a page for everything, as the user
// interfaces of backends do.
func startWebServer(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprint(w, "<!doctype html>")
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestPartialSuccess(t *testing.T) {
	for _, overHTTP := range []bool{false, true} {
		for _, rejected := range []int64{0, 3, 1000} {
			t.Run(fmt.Sprintf("http=%v/rejected=%d", overHTTP, rejected), func(t *testing.T) {
				checkQuiet(t)
				clearEnv(t)
				server := otlptest.Start(t, otlptest.Options{HTTP: overHTTP, Reply: func(otlptest.Request) otlptest.Reply {
					return otlptest.Reply{Rejected: rejected, Message: "too old (5 spans rejected)\nsorry"}
				}})
				o := Options{Endpoint: server.Endpoint(), Protocol: "grpc"}
				if overHTTP {
					o.Protocol = "http/protobuf"
				}
				p := mustSetup(t, o)
				emit(p.Stages(), 10)
				delivery, err := p.Shutdown(testContext(t))
				failed := min(rejected, 10)
				require.Equal(t, Delivery{Ended: 10, Delivered: 10 - failed, Failed: failed}, delivery)
				if rejected == 0 {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, fmt.Sprintf("rejected %d spans: too old (5 spans rejected) sorry", rejected))
			})
		}
	}
}

// What a backend refuses only for its size goes in smaller messages.
func TestLargeBatchesAreSplit(t *testing.T) {
	for _, overHTTP := range []bool{false, true} {
		t.Run(fmt.Sprintf("http=%v", overHTTP), func(t *testing.T) {
			checkQuiet(t)
			clearEnv(t)
			server := otlptest.Start(t, otlptest.Options{HTTP: overHTTP, MaxMessage: 20_000})
			o := Options{Endpoint: server.Endpoint(), Protocol: "grpc", Lossless: true}
			if overHTTP {
				o.Protocol = "http/protobuf"
			}
			p := mustSetup(t, o)
			emit(p.Stages(), 3000)
			delivery, err := p.Shutdown(testContext(t))
			require.NoError(t, err)
			require.Equal(t, Delivery{Ended: 3000, Delivered: 3000}, delivery)
			require.Equal(t, 3000, server.Spans())
		})
	}
}

func TestLosslessBatchFitsMessage(t *testing.T) {
	checkQuiet(t)
	clearEnv(t)
	server := otlptest.Start(t, otlptest.Options{})
	p := mustSetup(t, Options{Endpoint: server.Endpoint(), Lossless: true})
	emit(p.Stages(), 2*losslessBatch)
	_, err := p.Shutdown(testContext(t))
	require.NoError(t, err)
	require.Len(t, server.Requests(), 2, "a batch was split, or is not full")
}

func TestLosslessLimitsValues(t *testing.T) {
	clearEnv(t)
	var out bytes.Buffer
	p := mustSetup(t, Options{File: "-", Writer: &out, Lossless: true})
	_, span := p.Stages().Tracer(StageGPU).Start(context.Background(), "x", trace.WithAttributes(JobID.String(strings.Repeat("é", 1<<20))))
	span.End()
	_, err := p.Shutdown(testContext(t))
	require.NoError(t, err)
	require.Less(t, out.Len(), 4*losslessValueLimit)
	require.Contains(t, out.String(), strings.Repeat("é", losslessValueLimit))
}

// A span whose strings are not UTF-8, which protobuf has no place for, must not
// take its whole batch with it.
// TestAlso has spans written to a file and sent, whatever becomes of either.
func TestAlso(t *testing.T) {
	checkQuiet(t)
	server := otlptest.Start(t, otlptest.Options{})
	dead := otlptest.Start(t, otlptest.Options{Reply: func(otlptest.Request) otlptest.Reply {
		return otlptest.Reply{Code: codes.InvalidArgument, Message: "no"}
	}})
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "100")
	for name, c := range map[string]struct {
		file, endpoint   string
		written, sent    int64
		failed, rejected string
	}{
		"both":    {file: "spans.json", endpoint: server.Endpoint(), written: 90, sent: 90},
		"no host": {file: "spans.json", endpoint: dead.Endpoint(), written: 90, rejected: "did not take spans: no"},
		"no file": {file: "-", endpoint: server.Endpoint(), sent: 90, failed: "cannot write spans to the output"},
	} {
		t.Run(name, func(t *testing.T) {
			before := server.Spans()
			also := mustSetup(t, Options{Endpoint: c.endpoint})
			o := Options{File: c.file, Lossless: true, Writer: failingWriter{syscall.ENOSPC}, Also: also}
			if o.File != "-" {
				o.File = filepath.Join(t.TempDir(), o.File)
			}
			p := mustSetup(t, o)
			emit(p.Stages(), 90)
			d, err := p.Shutdown(testContext(t))
			require.Equal(t, Delivery{Ended: 90, Delivered: c.written, Failed: 90 - c.written}, d)
			requireError(t, err, c.failed)
			d, err = also.Shutdown(testContext(t))
			require.Equal(t, Delivery{Ended: 90, Delivered: c.sent, Failed: 90 - c.sent}, d)
			requireError(t, err, c.rejected)
			require.EqualValues(t, c.sent, server.Spans()-before)
		})
	}
}

// requireError requires an error that contains a text, or none where that is
// empty.
func requireError(t *testing.T, err error, text string) {
	t.Helper()
	if text == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorContains(t, err, text)
}

func TestInvalidUTF8(t *testing.T) {
	for _, overHTTP := range []bool{false, true} {
		checkQuiet(t)
		clearEnv(t)
		server := otlptest.Start(t, otlptest.Options{HTTP: overHTTP})
		o := Options{Endpoint: server.Endpoint(), Protocol: "grpc"}
		if overHTTP {
			o.Protocol = "http/protobuf"
		}
		p := mustSetup(t, o)
		stages := p.Stages()
		emit(stages, 3)
		_, span := stages.Tracer(StageGPU).Start(context.Background(), "na\xffme", trace.WithAttributes(
			JobID.String("job\xff"),
			Inferred.StringSlice([]string{"\xffstart"}),
			attribute.Slice("slice", attribute.StringValue("\xff"), attribute.IntValue(1)),
			attribute.Map("map", attribute.String("\xff", "\xff")),
		), trace.WithLinks(trace.Link{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}}), Attributes: []attribute.KeyValue{attribute.String("l", "\xff")}}))
		fail(span, time.Now(), errors.New("it \xff failed"))
		span.End()
		delivery, err := p.Shutdown(testContext(t))
		require.NoError(t, err)
		require.Equal(t, Delivery{Ended: 4, Delivered: 4}, delivery)
		require.Equal(t, 4, server.Spans())
	}
}

// A live pipeline never waits for its backend: it drops spans, and says so.
func TestLiveDrops(t *testing.T) {
	checkQuiet(t)
	clearEnv(t, "OTEL_BSP_MAX_QUEUE_SIZE=10", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=5")
	release := make(chan struct{})
	server := otlptest.Start(t, otlptest.Options{Reply: func(otlptest.Request) otlptest.Reply {
		<-release
		return otlptest.Reply{}
	}})
	p := mustSetup(t, Options{Endpoint: server.Endpoint()})
	emit(p.Stages(), 1000)
	close(release)
	delivery, err := p.Shutdown(testContext(t))
	require.Equal(t, int64(1000), delivery.Ended)
	require.Positive(t, delivery.Dropped)
	require.Zero(t, delivery.Failed)
	require.Equal(t, delivery.Ended, delivery.Delivered+delivery.Dropped)
	require.Equal(t, int(delivery.Delivered), server.Spans())
	require.ErrorContains(t, err, fmt.Sprintf("%d of 1000 spans were lost", delivery.Dropped))
}

// A lossless pipeline waits for its backend and drops nothing.
func TestLosslessWaits(t *testing.T) {
	checkQuiet(t)
	clearEnv(t, "OTEL_BSP_MAX_QUEUE_SIZE=10", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=5", "OTEL_TRACES_SAMPLER=always_off")
	server := otlptest.Start(t, otlptest.Options{})
	p := mustSetup(t, Options{Endpoint: server.Endpoint(), Lossless: true})
	emit(p.Stages(), 1000)
	delivery, err := p.Shutdown(testContext(t))
	require.NoError(t, err)
	require.Equal(t, Delivery{Ended: 1000, Delivered: 1000}, delivery)
	require.Equal(t, 1000, server.Spans())
}

// After a failure, a lossless pipeline tries no further, and a live one does.
func TestAfterFailure(t *testing.T) {
	for _, lossless := range []bool{false, true} {
		t.Run(fmt.Sprintf("lossless=%v", lossless), func(t *testing.T) {
			checkQuiet(t)
			clearEnv(t, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=10")
			server := otlptest.Start(t, otlptest.Options{Reply: func(r otlptest.Request) otlptest.Reply {
				if r.Number == 2 {
					return otlptest.Reply{Code: codes.InvalidArgument, Message: "no"}
				}
				return otlptest.Reply{}
			}})
			p := mustSetup(t, Options{Endpoint: server.Endpoint(), Lossless: lossless})
			emit(p.Stages(), 50)
			delivery, err := p.Shutdown(testContext(t))
			require.ErrorContains(t, err, "did not take spans: no")
			if lossless {
				require.Equal(t, Delivery{Ended: 50, Delivered: 10, Failed: 40}, delivery)
				require.Len(t, server.Requests(), 2)
			} else {
				require.Equal(t, Delivery{Ended: 50, Delivered: 40, Failed: 10}, delivery)
			}
		})
	}
}

// A backend that is starting gets the spans when it is ready.
func TestLosslessRetries(t *testing.T) {
	for _, overHTTP := range []bool{false, true} {
		checkQuiet(t)
		clearEnv(t)
		server := otlptest.Start(t, otlptest.Options{HTTP: overHTTP, Reply: func(r otlptest.Request) otlptest.Reply {
			switch {
			case r.Number > 1:
				return otlptest.Reply{}
			case overHTTP:
				return otlptest.Reply{Status: 503}
			default:
				return otlptest.Reply{Code: codes.Unavailable}
			}
		}})
		o := Options{Endpoint: server.Endpoint(), Protocol: "grpc", Lossless: true}
		if overHTTP {
			o.Protocol = "http/protobuf"
		}
		p := mustSetup(t, o)
		emit(p.Stages(), 4)
		delivery, err := p.Shutdown(testContext(t))
		require.NoError(t, err)
		require.Equal(t, Delivery{Ended: 4, Delivered: 4}, delivery)
	}
}

// The context bounds a shutdown, and nothing stays behind.
func TestShutdownIsBounded(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		for _, lossless := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/lossless=%v", protocol, lossless), func(t *testing.T) {
				checkQuiet(t)
				clearEnv(t, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=10", "OTEL_EXPORTER_OTLP_TIMEOUT=3600000", "OTEL_BSP_EXPORT_TIMEOUT=3600000")
				arrived := make(chan struct{}, 100)
				server := otlptest.Start(t, otlptest.Options{HTTP: protocol == "http/protobuf", Reply: func(otlptest.Request) otlptest.Reply {
					arrived <- struct{}{}
					return otlptest.Reply{Hang: true}
				}})
				p := mustSetup(t, Options{Endpoint: server.Endpoint(), Protocol: protocol, Lossless: lossless})
				emit(p.Stages(), 100)
				<-arrived
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				delivery, err := p.Shutdown(ctx)
				require.ErrorContains(t, err, "the shutdown ended before "+server.Endpoint())
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, Delivery{Ended: 100, Failed: 100}, delivery)
			})
		}
	}
}

// Where nothing can be connected to, a shutdown says so and does not wait for
// the exporter's last repetition.
func TestShutdownWithoutBackend(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			checkQuiet(t)
			// No other limit than the test's own, which gives another error.
			clearEnv(t, "OTEL_EXPORTER_OTLP_TIMEOUT=3600000", "OTEL_BSP_EXPORT_TIMEOUT=3600000", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=10")
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			require.NoError(t, l.Close())
			p := mustSetup(t, Options{Endpoint: "http://" + l.Addr().String(), Protocol: protocol})
			emit(p.Stages(), 100)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			delivery, err := p.Shutdown(ctx)
			require.ErrorContains(t, err, "nothing listens at ")
			require.Equal(t, Delivery{Ended: 100, Failed: 100}, delivery)
		})
	}
}

// A backend that is only slow gets all spans.
func TestShutdownWithSlowBackend(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			checkQuiet(t)
			clearEnv(t, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=10")
			graceOver := make(chan struct{})
			server := otlptest.Start(t, otlptest.Options{HTTP: protocol == "http/protobuf", Reply: func(otlptest.Request) otlptest.Reply {
				<-graceOver
				return otlptest.Reply{}
			}})
			p := mustSetup(t, Options{Endpoint: server.Endpoint(), Protocol: protocol})
			p.grace = 0
			emit(p.Stages(), 100)
			go func() {
				defer close(graceOver)
				assert.Eventually(t, func() bool {
					p.reach.mu.Lock()
					defer p.reach.mu.Unlock()
					return p.reach.quit != nil
				}, time.Minute, time.Millisecond)
			}()
			delivery, err := p.Shutdown(testContext(t))
			require.NoError(t, err)
			require.Equal(t, Delivery{Ended: 100, Delivered: 100}, delivery)
		})
	}
}

func TestSampledOut(t *testing.T) {
	checkQuiet(t)
	server := otlptest.Start(t, otlptest.Options{})
	clearEnv(t, "OTEL_TRACES_SAMPLER=always_off", "OTEL_EXPORTER_OTLP_ENDPOINT="+server.Endpoint())
	p := mustSetup(t, Options{})
	emit(p.Stages(), 10)
	delivery, err := p.Shutdown(testContext(t))
	require.NoError(t, err)
	require.Zero(t, delivery)
	require.Empty(t, server.Requests())
}

func TestDisabled(t *testing.T) {
	for _, v := range []string{"OTEL_SDK_DISABLED=true", "OTEL_TRACES_EXPORTER=none"} {
		checkQuiet(t)
		clearEnv(t, v)
		p := mustSetup(t, Options{})
		_, span := p.Stages().Tracer(StageGPU).Start(context.Background(), "x")
		require.False(t, span.IsRecording())
		require.Equal(t, DefaultServiceName, p.ServiceName())
		span.End()
		require.NoError(t, p.Err())
		delivery, err := p.Shutdown(testContext(t))
		require.NoError(t, err)
		require.Zero(t, delivery)
	}
}

func TestConsole(t *testing.T) {
	checkQuiet(t)
	clearEnv(t, "OTEL_TRACES_EXPORTER=console")
	var out bytes.Buffer
	p := mustSetup(t, Options{Writer: &out})
	emit(p.Stages(), 4)
	delivery, err := p.Shutdown(testContext(t))
	require.NoError(t, err)
	require.Equal(t, Delivery{Ended: 4, Delivered: 4}, delivery)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 4)
	for _, line := range lines {
		require.True(t, json.Valid([]byte(line)))
	}

	p = mustSetup(t, Options{Writer: failingWriter{errors.New("gone")}})
	emit(p.Stages(), 4)
	delivery, err = p.Shutdown(testContext(t))
	require.ErrorContains(t, err, "cannot write spans to the output: ")
	require.Equal(t, Delivery{Ended: 4, Failed: 4}, delivery)
}

// A pipeline can be used from many goroutines, and be shut down under them.
func TestConcurrentUse(t *testing.T) {
	checkQuiet(t)
	clearEnv(t)
	server := otlptest.Start(t, otlptest.Options{})
	p := mustSetup(t, Options{Endpoint: server.Endpoint()})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			stages := p.Stages()
			for range 50 {
				emit(stages, 4)
				_ = p.Err()
			}
		})
	}
	for range 2 {
		wg.Go(func() { _, _ = p.Shutdown(testContext(t)) })
	}
	wg.Wait()
	delivery, _ := p.Shutdown(testContext(t))
	require.Equal(t, delivery.Ended, delivery.Delivered+delivery.Failed+delivery.Dropped)
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// Package otlptest has a real OTLP server for tests and benchmarks: over gRPC
// or HTTP, in plaintext or TLS, keeping what it receives and failing as it is
// told to. It reads messages with the collector's own code.
package otlptest

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // so that the server takes compressed messages
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Options are the options of [Start]. The zero value is a gRPC server that
// accepts everything in plaintext.
type Options struct {
	HTTP bool        // OTLP over HTTP, with the path /v1/traces, instead of gRPC
	TLS  *tls.Config // nil for plaintext; see [CA.ServerTLS]

	// Discard has requests counted, but neither decoded nor kept.
	Discard bool

	// MaxMessage is the largest message taken, in bytes; 0 means gRPC's own
	// 4 MiB, and no limit for HTTP.
	MaxMessage int

	// Reply, where not nil, decides what a request is answered with.
	Reply func(Request) Reply
}

// A Request is what the server has received.
type Request struct {
	Number  int               // from 1
	Spans   int               // unless discarding
	Header  map[string]string // names in lower case, the first value of each
	Gzipped bool              // HTTP only: the gRPC library hides it
}

// A Reply is how a request is answered. The zero value accepts it.
type Reply struct {
	Code     codes.Code // over gRPC, an error unless OK
	Status   int        // over HTTP, an error unless 0
	Header   http.Header
	Message  string // of the error or of the partial success
	Rejected int64  // spans rejected by a partial success
	Hang     bool   // does not answer until the client gives up
}

// A Server is a running OTLP server.
type Server struct {
	options  Options
	endpoint string
	closing  chan struct{}

	mu       sync.Mutex
	requests []Request
	traces   ptrace.Traces
}

// Start starts a server on a free port of the loopback interface. It ends with
// the test.
func Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{options: o, closing: make(chan struct{}), traces: ptrace.NewTraces()}
	s.endpoint = "http://" + listener.Addr().String()
	if o.TLS != nil {
		s.endpoint = "https://" + listener.Addr().String()
	}
	var serve func() error
	var stop func()
	if o.HTTP {
		server := &http.Server{Handler: http.HandlerFunc(s.serveHTTP), ErrorLog: nil}
		server.ErrorLog = discardLog
		serve = func() error { return server.Serve(listener) }
		if o.TLS != nil {
			server.TLSConfig = o.TLS.Clone()
			serve = func() error { return server.ServeTLS(listener, "", "") }
		}
		stop = func() { _ = server.Close() }
	} else {
		server := grpc.NewServer(s.grpcOptions()...)
		ptraceotlp.RegisterGRPCServer(server, &grpcServer{server: s})
		serve = func() error { return server.Serve(listener) }
		stop = server.Stop
	}
	served := make(chan error, 1)
	go func() { served <- serve() }()
	tb.Cleanup(func() {
		close(s.closing)
		stop()
		if err := <-served; err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, grpc.ErrServerStopped) {
			tb.Error(err)
		}
	})
	return s
}

func (s *Server) grpcOptions() []grpc.ServerOption {
	var o []grpc.ServerOption
	if s.options.TLS != nil {
		o = append(o, grpc.Creds(credentials.NewTLS(s.options.TLS)))
	}
	if s.options.MaxMessage > 0 {
		o = append(o, grpc.MaxRecvMsgSize(s.options.MaxMessage))
	}
	if s.options.Discard {
		o = append(o, grpc.ForceServerCodecV2(discardCodec{}))
	}
	return o
}

// Endpoint returns the server's URL, without a path.
func (s *Server) Endpoint() string { return s.endpoint }

// Requests returns the requests so far, in the order of their arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Traces returns what was received so far in requests that were answered
// without an error, in the order of their arrival.
func (s *Server) Traces() ptrace.Traces {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := ptrace.NewTraces()
	s.traces.CopyTo(t)
	return t
}

// Spans returns how many spans [Server.Traces] has.
func (s *Server) Spans() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.traces.SpanCount()
}

// receive records a request and returns how to answer it.
func (s *Server) receive(ctx context.Context, r Request, traces ptrace.Traces) (Reply, error) {
	s.mu.Lock()
	r.Number = len(s.requests) + 1
	r.Spans = traces.SpanCount()
	s.requests = append(s.requests, r)
	s.mu.Unlock()
	var reply Reply
	if s.options.Reply != nil {
		reply = s.options.Reply(r)
	}
	if reply.Hang {
		select {
		case <-ctx.Done():
		case <-s.closing:
		}
		return reply, context.Canceled
	}
	if reply.Code == codes.OK && reply.Status == 0 {
		s.mu.Lock()
		traces.ResourceSpans().MoveAndAppendTo(s.traces.ResourceSpans())
		s.mu.Unlock()
	}
	return reply, nil
}

// response returns the message of a reply without an error.
func (r Reply) response() ptraceotlp.ExportResponse {
	response := ptraceotlp.NewExportResponse()
	if r.Rejected != 0 || r.Message != "" {
		response.PartialSuccess().SetRejectedSpans(r.Rejected)
		response.PartialSuccess().SetErrorMessage(r.Message)
	}
	return response
}

type grpcServer struct {
	ptraceotlp.UnimplementedGRPCServer
	server *Server
}

func (g *grpcServer) Export(ctx context.Context, request ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	r := Request{Header: make(map[string]string)}
	md, _ := metadata.FromIncomingContext(ctx)
	for name, values := range md {
		r.Header[name] = values[0]
	}
	reply, err := g.server.receive(ctx, r, request.Traces())
	if err != nil {
		return ptraceotlp.NewExportResponse(), status.FromContextError(err).Err()
	}
	if reply.Code != codes.OK {
		return ptraceotlp.NewExportResponse(), status.Error(reply.Code, reply.Message)
	}
	return reply.response(), nil
}

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/traces" {
		http.NotFound(w, r)
		return
	}
	request := Request{Header: make(map[string]string), Gzipped: r.Header.Get("Content-Encoding") == "gzip"}
	for name, values := range r.Header {
		request.Header[strings.ToLower(name)] = values[0]
	}
	traces, err := s.readHTTP(r)
	if err != nil {
		code := http.StatusBadRequest
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			code = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), code)
		return
	}
	reply, err := s.receive(r.Context(), request, traces)
	if err != nil {
		return
	}
	for name, values := range reply.Header {
		w.Header()[name] = values
	}
	if reply.Status != 0 {
		w.WriteHeader(reply.Status)
		_, _ = io.WriteString(w, reply.Message)
		return
	}
	body, err := reply.response().MarshalProto()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(body)
}

func (s *Server) readHTTP(r *http.Request) (ptrace.Traces, error) {
	body := io.Reader(r.Body)
	if s.options.MaxMessage > 0 {
		body = http.MaxBytesReader(nil, r.Body, int64(s.options.MaxMessage))
	}
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return ptrace.NewTraces(), err
		}
		body = unzipped
	}
	if s.options.Discard {
		_, err := io.Copy(io.Discard, body)
		return ptrace.NewTraces(), err
	}
	message, err := io.ReadAll(body)
	if err != nil {
		return ptrace.NewTraces(), err
	}
	request := ptraceotlp.NewExportRequest()
	if err := request.UnmarshalProto(message); err != nil {
		return ptrace.NewTraces(), err
	}
	return request.Traces(), nil
}

// A discardCodec reads nothing of a message and writes empty ones.
type discardCodec struct{}

func (discardCodec) Marshal(any) (mem.BufferSlice, error) { return nil, nil }
func (discardCodec) Unmarshal(mem.BufferSlice, any) error { return nil }
func (discardCodec) Name() string                         { return "proto" }

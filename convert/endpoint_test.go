package convert_test

import (
	"crypto/tls"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/provetrace/provetrace/convert/run"
	"github.com/provetrace/provetrace/tracing"
	"github.com/provetrace/provetrace/tracing/otlptest"
)

// TestEndpoints holds what an endpoint receives against the file that the same
// conversion writes, whatever the way.
func TestEndpoints(t *testing.T) {
	clearEnvironment(t)
	want := convertFixture(t, "failure")
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		for _, way := range []struct {
			name       string
			tls        bool
			clientCert bool
			gzip       bool
			headers    bool
		}{
			{name: "plaintext"},
			{name: "gzip", gzip: true},
			{name: "headers", headers: true},
			{name: "TLS", tls: true},
			{name: "TLS with client certificate, gzip and headers", tls: true, clientCert: true, gzip: true, headers: true},
		} {
			t.Run(protocol+" "+way.name, func(t *testing.T) {
				var serverTLS *tls.Config
				if way.tls {
					ca := otlptest.NewCA(t)
					serverTLS = ca.ServerTLS(way.clientCert)
					t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", ca.File())
					if way.clientCert {
						cert, key := ca.ClientFiles()
						t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", cert)
						t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", key)
					}
				}
				if way.gzip {
					t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
				}
				if way.headers {
					t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret,x-tenant=prover")
				}
				server := otlptest.Start(t, otlptest.Options{HTTP: protocol != "grpc", TLS: serverTLS})
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.Endpoint())
				t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
				convertTo(t, tracing.Options{}, run.Options{}, fixture("failure"))

				got := make(spans)
				got.add(t, server.Traces())
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("the endpoint's spans differ (-file +endpoint):\n%s", diff)
				}
				for _, r := range server.Requests() {
					if way.headers && (r.Header["authorization"] != "Bearer s3cret" || r.Header["x-tenant"] != "prover") {
						t.Errorf("a request has the headers %v", r.Header)
					}
					if protocol != "grpc" && r.Gzipped != way.gzip {
						t.Errorf("a request is gzipped: %v", r.Gzipped)
					}
				}
			})
		}
	}
}

// TestServiceName holds the services under a base of another name, and that
// resources have what the environment adds.
func TestServiceName(t *testing.T) {
	clearEnvironment(t)
	t.Setenv("OTEL_SERVICE_NAME", "cuzk")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=lab")
	server := otlptest.Start(t, otlptest.Options{})
	convertTo(t, tracing.Options{Endpoint: server.Endpoint()}, run.Options{}, fixture("standard"))
	got := make(spans)
	got.add(t, server.Traces())
	services := make(map[string]bool)
	for _, tr := range got {
		for _, s := range tr {
			services[s.Service] = true
			if s.Resource["service.namespace"] != "cuzk" || s.Resource["deployment.environment.name"] != "lab" {
				t.Fatalf("%s has the resource %v", s.Name, s.Resource)
			}
		}
	}
	want := map[string]bool{"cuzk": true, "cuzk-synthesis": true, "cuzk-queue": true, "cuzk-gpu": true}
	if diff := cmp.Diff(want, services); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
}

package tracing

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/provetrace/provetrace/tracing/otlptest"
)

// clearEnv unsets all OTEL_* variables for the test and sets those given, as
// name=value.
func clearEnv(t *testing.T, set ...string) {
	t.Helper()
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "") // restores it afterwards
			require.NoError(t, os.Unsetenv(name))
		}
	}
	for _, kv := range set {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
}

func TestConfigEndpoint(t *testing.T) {
	const (
		all    = "OTEL_EXPORTER_OTLP_ENDPOINT="
		traces = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="
		proto  = "OTEL_EXPORTER_OTLP_PROTOCOL="
	)
	tests := []struct {
		name    string
		env     []string
		options Options
		url     string
		grpc    bool
		target  string // gRPC target, or the host and path over HTTP
		tls     bool
	}{
		{"default", nil, Options{}, "http://localhost:4317", true, "localhost:4317", false},
		{"default over HTTP", []string{proto + "http/protobuf"}, Options{}, "http://localhost:4318/v1/traces", false, "localhost:4318/v1/traces", false},
		{"URL", []string{all + "http://jaeger:4317"}, Options{}, "http://jaeger:4317", true, "jaeger:4317", false},
		{"TLS", []string{all + "https://jaeger:4317"}, Options{}, "https://jaeger:4317", true, "jaeger:4317", true},
		{"no scheme", []string{all + "jaeger:4317"}, Options{}, "http://jaeger:4317", true, "jaeger:4317", false},
		{"no scheme, secure", []string{all + "jaeger:4317", "OTEL_EXPORTER_OTLP_INSECURE=false"}, Options{}, "https://jaeger:4317", true, "jaeger:4317", true},
		{"no scheme, insecure", []string{all + "jaeger:4317", "OTEL_EXPORTER_OTLP_INSECURE=TRUE"}, Options{}, "http://jaeger:4317", true, "jaeger:4317", false},
		{"traces' insecure first", []string{all + "jaeger:4317", "OTEL_EXPORTER_OTLP_INSECURE=true", "OTEL_EXPORTER_OTLP_TRACES_INSECURE=false"}, Options{}, "https://jaeger:4317", true, "jaeger:4317", true},
		{"the scheme wins over insecure", []string{all + "https://jaeger:4317", "OTEL_EXPORTER_OTLP_INSECURE=true"}, Options{}, "https://jaeger:4317", true, "jaeger:4317", true},
		{"no port", []string{all + "jaeger"}, Options{}, "http://jaeger:4317", true, "jaeger:4317", false},
		{"no port, http", []string{all + "http://jaeger"}, Options{}, "http://jaeger:4317", true, "jaeger:4317", false},
		{"no port, https", []string{all + "https://otlp.example.com"}, Options{}, "https://otlp.example.com:443", true, "otlp.example.com:443", true},
		{"no port, HTTP", []string{all + "http://jaeger", proto + "http/protobuf"}, Options{}, "http://jaeger/v1/traces", false, "jaeger/v1/traces", false},
		{"no port, no scheme, HTTP", []string{all + "jaeger", proto + "http/protobuf"}, Options{}, "http://jaeger:4318/v1/traces", false, "jaeger:4318/v1/traces", false},
		{"IPv6", []string{all + "http://[::1]:4317"}, Options{}, "http://[::1]:4317", true, "[::1]:4317", false},
		{"IPv6 without a port", []string{all + "[::1]"}, Options{}, "http://[::1]:4317", true, "[::1]:4317", false},
		{"space around", []string{all + " http://jaeger:4317 "}, Options{}, "http://jaeger:4317", true, "jaeger:4317", false},
		{"unix socket", []string{all + "unix:///run/otlp.sock"}, Options{}, "unix:///run/otlp.sock", true, "unix:///run/otlp.sock", false},
		{"HTTP's port", []string{all + "http://jaeger:4318"}, Options{}, "http://jaeger:4318/v1/traces", false, "jaeger:4318/v1/traces", false},
		{"HTTP's port, but gRPC", []string{all + "http://jaeger:4318", proto + "grpc"}, Options{}, "http://jaeger:4318", true, "jaeger:4318", false},
		{"HTTP's path", []string{traces + "http://jaeger:80/v1/traces"}, Options{}, "http://jaeger:80/v1/traces", false, "jaeger:80/v1/traces", false},
		{"a base path", []string{all + "http://gw:80/otlp/", proto + "http/protobuf"}, Options{}, "http://gw:80/otlp/v1/traces", false, "gw:80/otlp/v1/traces", false},
		{"traces' path is used as it is", []string{traces + "http://gw:80/in", proto + "http/protobuf"}, Options{}, "http://gw:80/in", false, "gw:80/in", false},
		{"traces' without a path", []string{traces + "http://gw:80", proto + "http/protobuf"}, Options{}, "http://gw:80/", false, "gw:80/", false},
		{"traces' first", []string{all + "http://a:1", traces + "http://b:2"}, Options{}, "http://b:2", true, "b:2", false},
		{"traces' protocol first", []string{proto + "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf"}, Options{}, "http://localhost:4318/v1/traces", false, "localhost:4318/v1/traces", false},
		{"option", []string{all + "http://a:1"}, Options{Endpoint: "b:2"}, "http://b:2", true, "b:2", false},
		{"option over HTTP", []string{proto + "grpc"}, Options{Endpoint: "http://b:2", Protocol: "http/protobuf"}, "http://b:2/v1/traces", false, "b:2/v1/traces", false},
		{"option with a path", nil, Options{Endpoint: "http://b:2/x/v1/traces"}, "http://b:2/x/v1/traces", false, "b:2/x/v1/traces", false},
		{"option wins over none", []string{"OTEL_TRACES_EXPORTER=none", "OTEL_SDK_DISABLED=true"}, Options{Endpoint: "b:2"}, "http://b:2", true, "b:2", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			clearEnv(t, tt.env...)
			c, err := readConfig(tt.options)
			require.NoError(t, err)
			require.Equal(t, toOTLP, c.to)
			require.Equal(t, tt.url, c.otlp.url)
			require.Equal(t, tt.grpc, c.otlp.grpc)
			if tt.grpc {
				require.Equal(t, tt.target, c.otlp.target)
			} else {
				require.Equal(t, tt.target, c.otlp.host+c.otlp.path)
			}
			require.Equal(t, tt.tls, c.otlp.tls != nil)
			require.Equal(t, 10*time.Second, c.otlp.timeout)
		})
	}
}

func TestConfigErrors(t *testing.T) {
	const otlp = "OTEL_EXPORTER_OTLP_"
	notPEM := filepath.Join(t.TempDir(), "not.pem")
	require.NoError(t, os.WriteFile(notPEM, []byte("nothing"), 0o600))
	cert, key := otlptest.NewCA(t).ClientFiles()
	missing := filepath.Join(t.TempDir(), "missing.pem")

	tests := []struct {
		name    string
		env     []string
		options Options
		want    string // part of the error
	}{
		{"SDK_DISABLED", []string{"OTEL_SDK_DISABLED=yes"}, Options{}, `OTEL_SDK_DISABLED is "yes": write true or false`},
		{"exporter", []string{"OTEL_TRACES_EXPORTER=otlp,console"}, Options{}, "use one of otlp, console and none"},
		{"jaeger", []string{"OTEL_TRACES_EXPORTER=jaeger"}, Options{}, "use otlp, which Jaeger takes too"},
		{"protocol", []string{otlp + "PROTOCOL=http/json"}, Options{}, `OTEL_EXPORTER_OTLP_PROTOCOL is "http/json", which is not supported: use grpc or http/protobuf`},
		{"traces' protocol", []string{otlp + "TRACES_PROTOCOL=udp"}, Options{}, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is"},
		{"option protocol", nil, Options{Protocol: "udp"}, `the protocol is "udp"`},
		{"scheme", []string{otlp + "ENDPOINT=ftp://a:1"}, Options{}, `OTEL_EXPORTER_OTLP_ENDPOINT has the scheme "ftp"`},
		{"no host", []string{otlp + "ENDPOINT=http://:4317"}, Options{}, "has no host"},
		{"port", []string{otlp + "ENDPOINT=http://a:99999"}, Options{}, `has the port "99999"`},
		{"port 0", []string{otlp + "ENDPOINT=a:0"}, Options{}, `has the port "0"`},
		{"port name", []string{otlp + "ENDPOINT=http://a:otlp"}, Options{}, "is not a URL"},
		{"escape", []string{otlp + "ENDPOINT=http://a%zz:1"}, Options{}, "is not a URL"},
		{"space", []string{otlp + "ENDPOINT=http://a b:1"}, Options{}, "is not a URL"},
		{"query", []string{otlp + "ENDPOINT=http://a:1?x=y"}, Options{}, "has a query"},
		{"option endpoint", nil, Options{Endpoint: "http://"}, "the endpoint"},
		{"unix over HTTP", []string{otlp + "ENDPOINT=unix:///a", otlp + "PROTOCOL=http/protobuf"}, Options{}, "only OTLP over gRPC"},
		{"insecure", []string{otlp + "ENDPOINT=a:1", otlp + "INSECURE=1"}, Options{}, `OTEL_EXPORTER_OTLP_INSECURE is "1"`},
		{"headers without a value", []string{otlp + "HEADERS=a=b,secret"}, Options{}, "entry 2 of OTEL_EXPORTER_OTLP_HEADERS has no '='"},
		{"headers without a name", []string{otlp + "TRACES_HEADERS==secret"}, Options{}, "has no name"},
		{"header name", []string{otlp + "HEADERS=a b=secret"}, Options{}, `the header name "a b"`},
		{"header value", []string{otlp + "HEADERS=a=secret%0Ax"}, Options{}, "not printable ASCII"},
		{"header escape", []string{otlp + "HEADERS=a=secret%zz"}, Options{}, `the value of "a"`},
		{"option header", nil, Options{Headers: map[string]string{"a": "secret\n"}}, "not printable ASCII"},
		{"compression", []string{otlp + "COMPRESSION=zstd"}, Options{}, `OTEL_EXPORTER_OTLP_COMPRESSION is "zstd"`},
		{"timeout", []string{otlp + "TIMEOUT=10s"}, Options{}, `OTEL_EXPORTER_OTLP_TIMEOUT is "10s"`},
		{"negative timeout", []string{otlp + "TRACES_TIMEOUT=-1"}, Options{}, "write a number of milliseconds"},
		{"certificate", []string{otlp + "CERTIFICATE=" + missing}, Options{}, "OTEL_EXPORTER_OTLP_CERTIFICATE names: open " + missing},
		{"not a certificate", []string{otlp + "CERTIFICATE=" + notPEM}, Options{}, "holds no PEM certificate"},
		{"client certificate alone", []string{otlp + "CLIENT_CERTIFICATE=" + cert}, Options{}, "is set without OTEL_EXPORTER_OTLP_CLIENT_KEY"},
		{"client key alone", []string{otlp + "CLIENT_KEY=" + key}, Options{}, "is set without OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"},
		{"client key", []string{otlp + "CLIENT_CERTIFICATE=" + cert, otlp + "CLIENT_KEY=" + missing}, Options{}, "loading the client certificate"},
		{"sampler", []string{"OTEL_TRACES_SAMPLER=jaeger_remote"}, Options{}, `OTEL_TRACES_SAMPLER is "jaeger_remote"`},
		{"sampler argument", []string{"OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=2"}, Options{}, `OTEL_TRACES_SAMPLER_ARG is "2"`},
		{"sampler NaN", []string{"OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=NaN"}, Options{}, `OTEL_TRACES_SAMPLER_ARG is "NaN"`},
		{"queue", []string{"OTEL_BSP_MAX_QUEUE_SIZE=0"}, Options{}, `OTEL_BSP_MAX_QUEUE_SIZE is "0"`},
		{"batch", []string{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE=-5"}, Options{}, `OTEL_BSP_MAX_EXPORT_BATCH_SIZE is "-5"`},
		{"delay", []string{"OTEL_BSP_SCHEDULE_DELAY=5s"}, Options{}, `OTEL_BSP_SCHEDULE_DELAY is "5s"`},
		{"limit", []string{"OTEL_SPAN_LINK_COUNT_LIMIT=many"}, Options{}, `OTEL_SPAN_LINK_COUNT_LIMIT is "many"`},
		{"resource", []string{"OTEL_RESOURCE_ATTRIBUTES=a=b,c"}, Options{}, `entry 2 of OTEL_RESOURCE_ATTRIBUTES is "c"`},
		{"resource escape", []string{"OTEL_RESOURCE_ATTRIBUTES=a=%zz"}, Options{}, `the value of "a" in OTEL_RESOURCE_ATTRIBUTES`},
		{"service name", nil, Options{ServiceName: "\xff"}, "is not UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			clearEnv(t, tt.env...)
			p, err := Setup(context.Background(), tt.options)
			require.ErrorContains(t, err, tt.want)
			require.Nil(t, p)
			require.NotContains(t, err.Error(), "\n")
			require.NotContains(t, err.Error(), "secret", "the error shows a credential")
		})
	}

	t.Run("password", func(t *testing.T) {
		for _, endpoint := range []string{"http://me:secret@a:1", "http://me:secret@a:x"} {
			clearEnv(t, otlp+"ENDPOINT="+endpoint)
			_, err := Setup(context.Background(), Options{})
			require.Error(t, err)
			require.NotContains(t, err.Error(), "secret")
		}
	})
}

func TestConfigHeaders(t *testing.T) {
	clearEnv(t,
		"OTEL_EXPORTER_OTLP_HEADERS=ignored=1",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS= Authorization = Basic%20dXNlcg== ,b=2,c=",
	)
	c, err := readConfig(Options{Headers: map[string]string{"B": "3", "d": "4"}})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"authorization": "Basic dXNlcg==", "b": "3", "c": "", "d": "4"}, c.otlp.headers)
}

func TestConfigDestination(t *testing.T) {
	tests := []struct {
		env     []string
		options Options
		to      destination
		text    string
	}{
		{nil, Options{}, toOTLP, "http://localhost:4317 (OTLP over gRPC)"},
		{[]string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_SDK_DISABLED=false"}, Options{}, toOTLP, "http://localhost:4317 (OTLP over gRPC)"},
		{[]string{"OTEL_SDK_DISABLED=TRUE"}, Options{}, toNothing, "nowhere, since OTEL_SDK_DISABLED is true"},
		{[]string{"OTEL_TRACES_EXPORTER=none"}, Options{}, toNothing, "nowhere, since OTEL_TRACES_EXPORTER is none"},
		{[]string{"OTEL_TRACES_EXPORTER=console"}, Options{}, toConsole, "the output"},
		{[]string{"OTEL_TRACES_EXPORTER=none"}, Options{File: "x.json"}, toFile, "x.json"},
		{[]string{"OTEL_SDK_DISABLED=true"}, Options{File: "-"}, toFile, "the output"},
		{nil, Options{Endpoint: "a:4318"}, toOTLP, "http://a:4318/v1/traces (OTLP over HTTP)"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			clearEnv(t, tt.env...)
			c, err := readConfig(tt.options)
			require.NoError(t, err)
			require.Equal(t, tt.to, c.to)
			require.Equal(t, tt.text, (&Pipeline{options: tt.options, config: c}).String())
		})
	}
}

func TestConfigServiceName(t *testing.T) {
	const name, attrs = "OTEL_SERVICE_NAME=", "OTEL_RESOURCE_ATTRIBUTES="
	tests := []struct {
		env    []string
		option string
		want   string
	}{
		{nil, "", "prover"},
		{[]string{name + "a"}, "", "a"},
		{[]string{attrs + "service.name=b"}, "", "b"},
		{[]string{name + "a", attrs + "service.name=b"}, "", "a"},
		{[]string{name + "a"}, "c", "c"},
	}
	for _, tt := range tests {
		clearEnv(t, tt.env...)
		c, err := readConfig(Options{ServiceName: tt.option})
		require.NoError(t, err)
		require.Equal(t, tt.want, c.service)
	}
}

func FuzzParseEndpoint(f *testing.F) {
	for _, s := range []string{"http://a:1", "a", "[::1]:4317", "unix:///x", "https://a/b?c#d", "http://u:p@h", "\x00", ":", "//", "http://[::1%25eth0]:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := parseEndpoint(s, "the endpoint")
		if err != nil || e.scheme == "unix" {
			return
		}
		require.NotEmpty(t, e.host)
		require.True(t, e.bare || e.scheme == "http" || e.scheme == "https")
	})
}

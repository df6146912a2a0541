package tracing

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Values of OTEL_EXPORTER_OTLP_PROTOCOL and of [Options.Protocol].
const (
	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

// What OTLP's specification sets where nothing else is given
// (https://opentelemetry.io/docs/specs/otel/protocol/exporter/).
const (
	portGRPC           = "4317"
	portHTTP           = "4318"
	tracesPath         = "/v1/traces"
	defaultOTLPTimeout = 10 * time.Second
)

// A destination is where the spans of a pipeline go.
type destination uint8

const (
	toNothing destination = iota
	toOTLP
	toConsole
	toFile
)

// config is what the options and the environment come to.
type config struct {
	to      destination
	why     string // toNothing: what turned the export off
	service string // base of the services' names
	otlp    otlpConfig
}

// otlpConfig is how an OTLP endpoint is reached.
type otlpConfig struct {
	grpc    bool
	url     string            // for people: the endpoint with its scheme
	target  string            // gRPC: host:port, or unix:path
	host    string            // HTTP: host:port
	path    string            // HTTP
	tls     *tls.Config       // nil for plaintext
	headers map[string]string // names in lower case
	gzip    bool
	timeout time.Duration // of one export; 0 for none
}

// readConfig reads the environment, over which the options win. The SDK and its
// exporters read most variables themselves, but put a default in the place of a
// value that they don't understand, with at best a line in a log. Here such a
// value is an error.
func readConfig(o Options) (config, error) {
	c := config{to: toOTLP}
	disabled, _, err := envBool("OTEL_SDK_DISABLED")
	if err != nil {
		return c, err
	}
	exporter := env("OTEL_TRACES_EXPORTER")
	switch exporter {
	case "", "otlp", "console", "none":
	case "jaeger", "zipkin":
		return c, fmt.Errorf("OTEL_TRACES_EXPORTER is %q, which is not supported: use otlp, which Jaeger takes too", exporter)
	default:
		return c, fmt.Errorf("OTEL_TRACES_EXPORTER is %q, which is not supported: use one of otlp, console and none", exporter)
	}
	switch {
	case o.File != "":
		c.to = toFile
	case o.Endpoint != "":
	case disabled:
		c.to, c.why = toNothing, "OTEL_SDK_DISABLED is true"
	case exporter == "none":
		c.to, c.why = toNothing, "OTEL_TRACES_EXPORTER is none"
	case exporter == "console":
		c.to = toConsole
	}
	if c.to == toNothing {
		// Nothing else is looked at, since nothing else is used.
		c.service = firstOf(o.ServiceName, env("OTEL_SERVICE_NAME"), DefaultServiceName)
		return c, nil
	}
	if err := checkSDKVariables(); err != nil {
		return c, err
	}
	attrs, err := envResource()
	if err != nil {
		return c, err
	}
	c.service = firstOf(o.ServiceName, env("OTEL_SERVICE_NAME"), attrs["service.name"], DefaultServiceName)
	if !utf8.ValidString(c.service) {
		return c, fmt.Errorf("the service name %q is not UTF-8", c.service)
	}
	if c.to == toOTLP {
		c.otlp, err = readOTLP(o)
	}
	return c, err
}

// readOTLP reads what belongs to the OTLP exporter.
func readOTLP(o Options) (otlpConfig, error) {
	var c otlpConfig
	from, source := o.Endpoint, "the endpoint"
	perSignal := false
	if from == "" {
		if from, source = envOTLP("ENDPOINT"); source == "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" {
			perSignal = true
		}
	}
	endpoint := endpoint{scheme: "http", host: "localhost"}
	if from != "" {
		var err error
		if endpoint, err = parseEndpoint(from, source); err != nil {
			return c, err
		}
	}
	if err := c.setProtocol(o.Protocol, endpoint); err != nil {
		return c, err
	}
	if endpoint.scheme == "" {
		// The specification lets this variable decide only where the endpoint
		// has no scheme, and has TLS as its default. A collector or Jaeger next
		// to a prover speaks plaintext, so that this is the default here.
		endpoint.scheme = "http"
		if plain, variable, err := envBoolOTLP("INSECURE"); err != nil {
			return c, err
		} else if variable != "" && !plain {
			endpoint.scheme = "https"
		}
	}
	if err := c.setEndpoint(endpoint, source, perSignal); err != nil {
		return c, err
	}

	var err error
	if c.headers, err = readHeaders(o.Headers); err != nil {
		return c, err
	}
	switch v, variable := envOTLP("COMPRESSION"); v {
	case "", "none":
	case "gzip":
		c.gzip = true
	default:
		return c, fmt.Errorf("%s is %q, which is not supported: use gzip or none", variable, v)
	}
	c.timeout = defaultOTLPTimeout
	if v, variable := envOTLP("TIMEOUT"); v != "" {
		ms, err := strconv.Atoi(v)
		if err != nil || ms < 0 || int64(ms) > math.MaxInt64/int64(time.Millisecond) {
			return c, fmt.Errorf("%s is %q: write a number of milliseconds, such as 10000", variable, v)
		}
		c.timeout = time.Duration(ms) * time.Millisecond
	}
	tlsConfig, err := readTLS()
	if err != nil {
		return c, err
	}
	if endpoint.scheme == "https" {
		c.tls = tlsConfig
	}
	return c, nil
}

// setProtocol chooses between gRPC and HTTP. Where nothing names the protocol,
// an endpoint on HTTP's registered port or with HTTP's path is taken for HTTP,
// since many SDKs have that as their default.
func (c *otlpConfig) setProtocol(option string, e endpoint) error {
	protocol, source := option, "the protocol"
	if protocol == "" {
		protocol, source = envOTLP("PROTOCOL")
	}
	switch protocol {
	case "":
		c.grpc = e.port != portHTTP && !strings.HasSuffix(strings.TrimRight(e.path, "/"), tracesPath)
	case protocolGRPC:
		c.grpc = true
	case protocolHTTP:
	default:
		return fmt.Errorf("%s is %q, which is not supported: use %s or %s", source, protocol, protocolGRPC, protocolHTTP)
	}
	return nil
}

// setEndpoint turns an endpoint into what the exporters take.
func (c *otlpConfig) setEndpoint(e endpoint, source string, perSignal bool) error {
	if e.scheme == "unix" {
		if !c.grpc {
			return fmt.Errorf("%s is a unix socket, which only OTLP over gRPC can use: set OTEL_EXPORTER_OTLP_PROTOCOL=%s", source, protocolGRPC)
		}
		c.url, c.target = e.raw, e.raw
		return nil
	}
	host := e.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	port := e.port
	switch {
	case port != "":
	case c.grpc && e.scheme == "http":
		port = portGRPC
	case c.grpc:
		port = "443"
	case e.raw == "" || e.bare && e.scheme == "http":
		port = portHTTP
	}
	if port != "" {
		host += ":" + port
	}
	c.url = e.scheme + "://" + host
	if c.grpc {
		c.target = host
		return nil
	}
	c.host = host
	switch p := strings.TrimRight(e.path, "/"); {
	case perSignal && e.path == "":
		c.path = "/"
	case perSignal, strings.HasSuffix(p, tracesPath) && source == "the endpoint":
		c.path = e.path
	default:
		c.path = path.Join("/", e.path, tracesPath)
	}
	c.url += c.path
	return nil
}

// An endpoint is a parsed OTLP endpoint.
type endpoint struct {
	raw    string
	bare   bool   // written without a scheme
	scheme string // http, https or unix; empty where bare
	host   string // without a port, and an IPv6 address without brackets
	port   string
	path   string
}

// parseEndpoint parses a URL, or a host with or without a port. The source is
// what errors call it.
func parseEndpoint(raw, source string) (endpoint, error) {
	e := endpoint{raw: strings.TrimSpace(raw)}
	bad := func(what string) (endpoint, error) {
		return e, fmt.Errorf("%s %s: write it as http://host:%s, or https:// for TLS", source, what, portGRPC)
	}
	s := e.raw
	if strings.HasPrefix(s, "unix:") {
		e.scheme = "unix"
		return e, nil
	}
	if !strings.Contains(s, "://") {
		e.bare = true
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		// The parser's error repeats the URL, which may hold a password.
		var urlErr *url.Error
		if errors.As(err, &urlErr) {
			err = urlErr.Err
		}
		return bad(fmt.Sprintf("is not a URL (%v)", err))
	}
	if u.User != nil {
		return e, fmt.Errorf("%s has a user name or a password in it: send credentials with OTEL_EXPORTER_OTLP_HEADERS instead", source)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return bad(fmt.Sprintf("has the scheme %q, which is not supported", u.Scheme))
	case u.Hostname() == "":
		return bad(fmt.Sprintf("%q has no host", e.raw))
	case u.RawQuery != "" || u.Fragment != "":
		return bad("has a query or a fragment, which OTLP endpoints lack")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return bad(fmt.Sprintf("has the port %q, which is not between 1 and 65535", port))
		}
	}
	if net.ParseIP(u.Hostname()) == nil && strings.ContainsAny(u.Hostname(), ": \t") {
		return bad(fmt.Sprintf("has the host %q, which is none", u.Hostname()))
	}
	if !e.bare {
		e.scheme = u.Scheme
	}
	e.host, e.port, e.path = u.Hostname(), u.Port(), u.Path
	return e, nil
}

// readHeaders reads the headers that each export carries. Errors never show a
// value, since it may be a credential.
func readHeaders(option map[string]string) (map[string]string, error) {
	headers := make(map[string]string)
	if list, variable := envOTLP("HEADERS"); list != "" {
		for i, entry := range strings.Split(list, ",") {
			name, value, found := strings.Cut(entry, "=")
			name = strings.TrimSpace(name)
			if !found {
				return nil, fmt.Errorf("entry %d of %s has no '=': write name=value,name=value", i+1, variable)
			}
			value, err := url.PathUnescape(value)
			if err != nil {
				return nil, fmt.Errorf("the value of %q in %s has a '%%' that escapes nothing: write %%25 for a percent sign", name, variable)
			}
			if err := addHeader(headers, name, strings.TrimSpace(value), variable); err != nil {
				return nil, err
			}
		}
	}
	for name, value := range option {
		if err := addHeader(headers, name, value, "the headers"); err != nil {
			return nil, err
		}
	}
	return headers, nil
}

// addHeader adds a header that both gRPC and HTTP can carry.
func addHeader(headers map[string]string, name, value, source string) error {
	if name == "" {
		return fmt.Errorf("a header in %s has no name: write name=value", source)
	}
	for i := range len(name) {
		// A token by RFC 9110, section 5.6.2.
		c := name[i] | 0x20
		if (c < 'a' || c > 'z') && !strings.ContainsRune("0123456789!#$%&'*+-.^_`|~", rune(name[i])) {
			return fmt.Errorf("the header name %q in %s has a character that header names cannot have", name, source)
		}
	}
	for i := range len(value) {
		if value[i] < ' ' || value[i] > '~' {
			return fmt.Errorf("the value of the header %q in %s has a character that is not printable ASCII", name, source)
		}
	}
	headers[strings.ToLower(name)] = value
	return nil
}

// readTLS reads the certificates that OTLP uses. Without any, the host's own
// authorities are trusted.
func readTLS() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file, variable := envOTLP("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate file that %s names: %w", variable, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s names %s, which holds no PEM certificate", variable, file)
		}
	}
	certFile, certVariable := envOTLP("CLIENT_CERTIFICATE")
	keyFile, keyVariable := envOTLP("CLIENT_KEY")
	switch {
	case certFile == "" && keyFile == "":
	case keyFile == "":
		return nil, fmt.Errorf("%s is set without OTEL_EXPORTER_OTLP_CLIENT_KEY: give both, or neither", certVariable)
	case certFile == "":
		return nil, fmt.Errorf("%s is set without OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: give both, or neither", keyVariable)
	default:
		cert, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("loading the client certificate and key that %s and %s name: %w", certVariable, keyVariable, err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}

// checkSDKVariables validates the variables that the SDK itself reads, and for
// some of which it would panic.
func checkSDKVariables() error {
	for _, v := range []struct {
		name string
		min  int
	}{
		{"OTEL_BSP_SCHEDULE_DELAY", 0},        // ms
		{"OTEL_BSP_EXPORT_TIMEOUT", 0},        // ms
		{"OTEL_BSP_MAX_QUEUE_SIZE", 1},        // spans
		{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1}, // spans
		{"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", -1},
		{"OTEL_ATTRIBUTE_COUNT_LIMIT", -1},
		{"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", -1},
		{"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", -1},
		{"OTEL_SPAN_EVENT_COUNT_LIMIT", -1},
		{"OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", -1},
		{"OTEL_SPAN_LINK_COUNT_LIMIT", -1},
		{"OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", -1},
	} {
		// Not trimmed: the SDK does not trim these either.
		s := os.Getenv(v.name)
		if s == "" {
			continue
		}
		if n, err := strconv.Atoi(s); err != nil || n < v.min || n > math.MaxInt32 {
			return fmt.Errorf("%s is %q: write a whole number from %d to %d", v.name, s, v.min, math.MaxInt32)
		}
	}
	switch sampler := strings.ToLower(env("OTEL_TRACES_SAMPLER")); sampler {
	case "", "always_on", "always_off", "parentbased_always_on", "parentbased_always_off":
	case "traceidratio", "parentbased_traceidratio":
		arg := env("OTEL_TRACES_SAMPLER_ARG")
		if arg == "" {
			break
		}
		if ratio, err := strconv.ParseFloat(arg, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
			return fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q: write the share of traces to keep, from 0 to 1", arg)
		}
	default:
		return fmt.Errorf("OTEL_TRACES_SAMPLER is %q, which is not supported: use always_on, always_off or traceidratio, or one of them with parentbased_ in front", sampler)
	}
	return nil
}

// envResource parses OTEL_RESOURCE_ATTRIBUTES, which the SDK then reads by the
// same rules.
func envResource() (map[string]string, error) {
	list := env("OTEL_RESOURCE_ATTRIBUTES")
	if list == "" {
		return nil, nil
	}
	attrs := make(map[string]string)
	for i, entry := range strings.Split(list, ",") {
		key, value, found := strings.Cut(entry, "=")
		key = strings.TrimSpace(key)
		if !found || key == "" {
			return nil, fmt.Errorf("entry %d of OTEL_RESOURCE_ATTRIBUTES is %q: write key=value,key=value", i+1, entry)
		}
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("the value of %q in OTEL_RESOURCE_ATTRIBUTES has a '%%' that escapes nothing: write %%25 for a percent sign", key)
		}
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return nil, fmt.Errorf("entry %d of OTEL_RESOURCE_ATTRIBUTES is not UTF-8", i+1)
		}
		attrs[key] = value
	}
	return attrs, nil
}

// env returns a variable without the space around it.
func env(name string) string {
	return strings.TrimSpace(os.Getenv(name))
}

// envOTLP returns a variable of the OTLP exporter and its name: the one for
// traces, else the one for all signals. Both are empty where neither is set.
func envOTLP(name string) (value, variable string) {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
		if v := env(variable); v != "" {
			return v, variable
		}
	}
	return "", ""
}

// envBool returns a variable that is true or false, and its name if it is set.
func envBool(names ...string) (value bool, variable string, err error) {
	for _, name := range names {
		switch v := env(name); strings.ToLower(v) {
		case "":
		case "true":
			return true, name, nil
		case "false":
			return false, name, nil
		default:
			return false, name, fmt.Errorf("%s is %q: write true or false", name, v)
		}
	}
	return false, "", nil
}

func envBoolOTLP(name string) (value bool, variable string, err error) {
	return envBool("OTEL_EXPORTER_OTLP_TRACES_"+name, "OTEL_EXPORTER_OTLP_"+name)
}

// firstOf returns the first string that is not empty.
func firstOf(s ...string) string {
	for _, s := range s {
		if s != "" {
			return s
		}
	}
	return ""
}

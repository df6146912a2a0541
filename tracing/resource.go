package tracing

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// instanceNamespace is the namespace that the semantic conventions set for
// service.instance.id where it is a UUID v5
// (https://opentelemetry.io/docs/specs/semconv/registry/attributes/service/).
var instanceNamespace = uuid.MustParse("4d63009a-8d0f-11ee-aad7-4c796ed8e320")

// baseResource returns what the resources of all stages have in common, without
// service.name. Of what is given twice, the last wins.
func baseResource(ctx context.Context, service string, o Options) []attribute.KeyValue {
	detectors := []resource.Option{resource.WithTelemetrySDK()}
	if !o.DeterministicIDs {
		// Of the process that proves. One that converts a log is another, on
		// perhaps another host. The command line is left out, since it may
		// hold secrets.
		detectors = append(detectors,
			resource.WithHost(),
			resource.WithHostID(),
			resource.WithProcessPID(),
			resource.WithProcessExecutableName(),
			resource.WithProcessRuntimeName(),
			resource.WithProcessRuntimeVersion(),
			resource.WithProcessRuntimeDescription(),
		)
	}
	// An error means that one of them found nothing, such as no machine id in a
	// container, and the resource has what the others found.
	detected, _ := resource.New(ctx, detectors...)
	attrs := detected.Attributes()
	if !o.DeterministicIDs {
		attrs = append(attrs,
			semconv.HostArchKey.String(runtime.GOARCH),
			semconv.ServiceInstanceID(uuid.NewString()),
		)
	}
	if version := buildVersion(); version != "" {
		attrs = append(attrs, semconv.ServiceVersion(version))
	}
	attrs = append(attrs, semconv.ServiceNamespace(service))
	attrs = append(attrs, resource.Environment().Attributes()...)
	return append(attrs, o.Resource...)
}

// stageResource returns the resource of a stage's spans.
func stageResource(base, extra []attribute.KeyValue, name string, deterministic bool) *resource.Resource {
	attrs := make([]attribute.KeyValue, 0, len(base)+len(extra)+2)
	if deterministic {
		// In front, so that one that is given wins.
		attrs = append(attrs, semconv.ServiceInstanceID(runInstance(extra)))
	}
	attrs = append(attrs, base...)
	attrs = append(attrs, extra...)
	attrs = append(attrs, semconv.ServiceName(name))
	return resource.NewWithAttributes(semconv.SchemaURL, attrs...)
}

// runInstance returns the service.instance.id of a converted run, which is the
// same each time that the run is converted.
func runInstance(attrs []attribute.KeyValue) string {
	run := ""
	for _, kv := range attrs {
		if kv.Key == RunID {
			run = kv.Value.AsString()
		}
	}
	return uuid.NewSHA1(instanceNamespace, []byte(run)).String()
}

// buildVersion returns the version of the program, empty where the build has
// none.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" {
		return ""
	}
	return info.Main.Version
}

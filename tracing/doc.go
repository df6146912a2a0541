// Package tracing records a GPU proving pipeline as OpenTelemetry spans.
//
// It holds the contract of the spans, that is their names, attributes and
// services; [Setup], which takes spans to a backend or into a file; and the
// [Recorder], which turns what happens in a pipeline into spans:
//
//	pipeline, err := tracing.Setup(ctx, tracing.Options{})
//	if err != nil {
//		return err
//	}
//	recorder := tracing.NewRecorder(pipeline.Stages(), tracing.RecorderOptions{Backend: "cuda"})
//	// … prove, with the recorder …
//	recorder.Close(time.Now())
//	delivery, err := pipeline.Shutdown(ctx)
//
// # What is recorded
//
// Each sector has a trace: a "prove sector" span over its partitions, with
// their synthesis, their wait in the queue and their time on the GPU, down to
// the phases of the device. The run has a trace of its own, with its sectors
// side by side and a span for each device, in which the gaps are the time that
// the device had no work. The spans belong to four services by their [Stage],
// since backends colour a waterfall by service.
//
// A pipeline is never slowed down or stopped by its tracing: the recorder does
// not fail, spans wait for export in a bounded queue, and those that find it
// full are dropped and counted in the [Delivery].
//
// # The environment
//
// Setup reads OpenTelemetry's standard variables, and refuses values that it
// cannot use:
//
//   - OTEL_SDK_DISABLED; OTEL_TRACES_EXPORTER: otlp, console or none
//   - OTEL_EXPORTER_OTLP_ENDPOINT, _PROTOCOL (grpc or http/protobuf), _HEADERS,
//     _COMPRESSION (gzip or none), _TIMEOUT (ms), _INSECURE, _CERTIFICATE,
//     _CLIENT_CERTIFICATE and _CLIENT_KEY, each also as OTEL_EXPORTER_OTLP_TRACES_…
//   - OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
//   - OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG
//   - OTEL_BSP_SCHEDULE_DELAY, _EXPORT_TIMEOUT, _MAX_QUEUE_SIZE and
//     _MAX_EXPORT_BATCH_SIZE, of which the file of a converted run, in whose
//     making nothing is queued, has only the last: the spans of a line
//   - the limits: OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT and its like. The SDK cuts a
//     span as it records it, for all that take it: what goes to a file lacks as
//     much as what is sent, and who reads that file back finds less. A journal
//     is not cut.
//
// Where it differs from the Go exporters: the default endpoint, and one without
// a scheme, is plaintext; a scheme wins over _INSECURE, as the specification
// has it; and an endpoint with the port 4318 or the path /v1/traces means HTTP
// where no protocol is given.
package tracing

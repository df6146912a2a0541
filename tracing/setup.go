package tracing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Sizes of a lossless pipeline, in spans. A span is some 600 bytes of protobuf,
// so that a batch stays far below the 4 MiB that a gRPC server takes by
// default; the queue keeps the exporter busy while a batch is made.
const (
	losslessBatch = 2048
	losslessQueue = 4 * losslessBatch
)

// losslessValueLimit bounds the strings of a lossless pipeline's attributes, in
// characters: a log may hold anything.
const losslessValueLimit = 4096

// shutdownGrace is how long a shutdown whose context is done waits for the
// export under way to notice.
const shutdownGrace = time.Second

// unreachableGrace is how long the shutdown of a live pipeline goes on trying to
// connect where there is no backend. One that is there, however slow, gets the
// time that the shutdown has.
const unreachableGrace = 1500 * time.Millisecond

// Options are the options of [Setup]. The zero value is a live pipeline as the
// environment has it. What is set here wins over the environment.
type Options struct {
	// ServiceName is the base of the services' names, by default
	// OTEL_SERVICE_NAME, else [DefaultServiceName].
	ServiceName string

	// Endpoint is where spans are sent, as a URL or as host:port, by default
	// http://localhost:4317. http is plaintext and https is TLS. A URL without
	// OTLP's path gets it where the protocol is HTTP.
	Endpoint string

	// Protocol is grpc or http/protobuf. By default it is grpc, but
	// http/protobuf if the endpoint's port is 4318 or its path is /v1/traces.
	Protocol string

	// Headers are sent with each export, beside those of
	// OTEL_EXPORTER_OTLP_HEADERS.
	Headers map[string]string

	// File, where not empty, is the file that spans are written to, as OTLP
	// JSON with a batch a line, instead of being sent. It is compressed if its
	// name ends in .gz or .zst, appears when it is whole, and replaces a file
	// of that name. "-" is the Writer.
	File string

	// Writer takes the spans where File is "-" and where
	// OTEL_TRACES_EXPORTER is console. By default it is the standard output.
	Writer io.Writer

	// Lossless has who ends spans wait for the exporter instead of dropping
	// them, and all spans be sampled. After the first failure nothing is
	// exported any more: [Pipeline.Err] tells when to stop.
	Lossless bool

	// DeterministicIDs is for runs that are converted: service.instance.id
	// follows from the run, and resources do not describe this process. If the
	// pipeline is also lossless, a file's lines are all full but the last.
	DeterministicIDs bool

	// Resource are further attributes of all resources.
	Resource []attribute.KeyValue

	// Also, where not nil, is a pipeline that takes elsewhere what this one
	// exports, with a queue, failures and counts of its own: a backend that is
	// slow or dead costs a file nothing. It is shut down by itself.
	Also *Pipeline
}

// A Pipeline takes spans to a backend or into a file. Its methods may be called
// from many goroutines.
type Pipeline struct {
	options Options
	config  config
	base    []attribute.KeyValue // of all resources

	// Nil where nothing is exported.
	courier   *courier
	processor *counter
	reach     reach
	grace     time.Duration // an unreachable backend's

	shutdown sync.Once
	delivery Delivery
	err      error
}

// Setup returns a pipeline as the options and the OTEL_* variables have it. It
// does not wait for the backend: the connection is made with the first export.
// An error means that an option or a variable cannot be used, or that the file
// cannot be written.
func Setup(ctx context.Context, o Options) (*Pipeline, error) {
	c, err := readConfig(o)
	if err != nil {
		return nil, err
	}
	p := &Pipeline{options: o, config: c, grace: unreachableGrace}
	if c.to == toNothing {
		return p, nil
	}
	w := o.Writer
	if w == nil {
		w = os.Stdout
	}
	p.courier = &courier{lossless: o.Lossless, explain: p.explain}
	switch {
	case c.to == toOTLP:
		p.courier.next, err = newOTLPExporter(ctx, c.otlp, o.Lossless, &p.reach)
	case c.to == toConsole:
		p.courier.next, err = stdouttrace.New(stdouttrace.WithWriter(w))
	case o.File == "-":
		p.courier.next = newWriterExporter(w)
	default:
		p.courier.next, err = newFileExporter(o.File)
	}
	if err != nil {
		return nil, err
	}
	p.base = baseResource(ctx, c.service, o)
	p.processor = &counter{SpanProcessor: p.newProcessor()}
	return p, nil
}

// newProcessor returns what takes ended spans to the courier.
func (p *Pipeline) newProcessor() sdktrace.SpanProcessor {
	if f, ok := p.courier.next.(*fileExporter); ok && p.options.Lossless && p.options.DeterministicIDs {
		// Only full lines, so that a file does not depend on the time that its
		// making took.
		f.perLine = losslessBatch
		if n, err := strconv.Atoi(env("OTEL_BSP_MAX_EXPORT_BATCH_SIZE")); err == nil {
			f.perLine = n
		}
		return newInline(p.courier)
	}
	return sdktrace.NewBatchSpanProcessor(p.courier, p.batching()...)
}

// batching returns the options of the batch processor, which reads the
// environment for what they leave out.
func (p *Pipeline) batching() []sdktrace.BatchSpanProcessorOption {
	if !p.options.Lossless {
		return nil
	}
	o := []sdktrace.BatchSpanProcessorOption{sdktrace.WithBlocking()}
	if env("OTEL_BSP_MAX_EXPORT_BATCH_SIZE") == "" {
		o = append(o, sdktrace.WithMaxExportBatchSize(losslessBatch))
	}
	if env("OTEL_BSP_MAX_QUEUE_SIZE") == "" {
		o = append(o, sdktrace.WithMaxQueueSize(losslessQueue))
	}
	if env("OTEL_BSP_EXPORT_TIMEOUT") == "" {
		// The exporter's own limit is enough.
		o = append(o, sdktrace.WithExportTimeout(0))
	}
	return o
}

// explain makes a sentence for people of what an export failed with.
func (p *Pipeline) explain(err error) error {
	switch {
	case p.config.to == toOTLP:
		return p.config.otlp.explain(err)
	case p.config.to == toConsole, errors.Is(err, errUnfinished):
		return fmt.Errorf("cannot write spans to %s: %w", p, fileCause(err))
	default:
		return err // by the file exporter, which says it all
	}
}

// String returns where spans go, for people.
func (p *Pipeline) String() string {
	switch p.config.to {
	case toOTLP:
		if p.config.otlp.grpc {
			return p.config.otlp.url + " (OTLP over gRPC)"
		}
		return p.config.otlp.url + " (OTLP over HTTP)"
	case toConsole:
		return "the output"
	case toFile:
		if p.options.File == "-" {
			return "the output"
		}
		return p.options.File
	default:
		return "nowhere, since " + p.config.why
	}
}

// ServiceName returns the base of the services' names.
func (p *Pipeline) ServiceName() string { return p.config.service }

// Stages are the tracers of the stages of one pipeline or of one converted run.
type Stages struct {
	tracers [numStages]trace.Tracer
}

// Tracer returns the tracer whose spans belong to the stage's service.
func (s *Stages) Tracer(stage Stage) trace.Tracer {
	return s.tracers[stage]
}

// Stages returns tracers whose resources also have the given attributes. It may
// be called for each of several runs, which then share the pipeline.
func (p *Pipeline) Stages(attrs ...attribute.KeyValue) *Stages {
	s := new(Stages)
	if p.processor == nil {
		for stage := range s.tracers {
			s.tracers[stage] = noop.NewTracerProvider().Tracer(ScopeName)
		}
		return s
	}
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithSpanProcessor(p.processor),
		sdktrace.WithIDGenerator(idGenerator{}),
	}
	if also := p.options.Also; also != nil && also.processor != nil {
		options = append(options, sdktrace.WithSpanProcessor(also.processor))
	}
	if p.options.Lossless {
		limits := sdktrace.NewSpanLimits()
		if limits.AttributeValueLengthLimit < 0 {
			limits.AttributeValueLengthLimit = losslessValueLimit
		}
		options = append(options,
			sdktrace.WithSampler(sdktrace.AlwaysSample()),
			sdktrace.WithRawSpanLimits(limits),
		)
	}
	for stage := range s.tracers {
		r := stageResource(p.base, attrs, Stage(stage).ServiceName(p.config.service), p.options.DeterministicIDs)
		// The providers are not shut down: they hold nothing but the
		// processor, which is the pipeline's.
		provider := sdktrace.NewTracerProvider(append(options[:len(options):len(options)], sdktrace.WithResource(r))...)
		s.tracers[stage] = provider.Tracer(ScopeName, trace.WithSchemaURL(semconv.SchemaURL))
	}
	return s
}

// Err returns the first failure to deliver spans so far, nil if there is none.
// It is cheap enough to be asked often.
func (p *Pipeline) Err() error {
	if p.courier == nil {
		return nil
	}
	return p.courier.err()
}

// Shutdown delivers what has ended and frees what the pipeline holds. When ctx
// is done, what is not delivered yet has failed; so it has soon where a live
// pipeline has no backend to connect to. The error, in one sentence, is the
// first failure to deliver spans. Spans that end during the shutdown or later
// are lost. Further calls return what the first one did.
func (p *Pipeline) Shutdown(ctx context.Context) (Delivery, error) {
	p.shutdown.Do(func() {
		if p.processor != nil {
			p.delivery, p.err = p.close(ctx)
		}
	})
	return p.delivery, p.err
}

func (p *Pipeline) close(ctx context.Context) (Delivery, error) {
	ended := p.processor.ended.Load()
	if ctx.Err() != nil {
		// Before anything is begun: a file could be whole by the time that the
		// context is looked at.
		p.courier.stop(errors.Join(errUnfinished, context.Cause(ctx)))
	}
	if !p.options.Lossless { // its exports have less patience anyway
		grace := time.AfterFunc(p.grace, func() { p.reach.orQuit(p.courier.stop) })
		defer grace.Stop()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The processor itself would leave its exports to themselves when the
		// context is done, so that the courier is what stops them.
		_ = p.processor.Shutdown(context.WithoutCancel(ctx))
	}()
	finished := true
	select {
	case <-done:
	case <-ctx.Done():
		p.courier.stop(errors.Join(errUnfinished, context.Cause(ctx)))
		// Only a writer that blocks can hold up what was stopped.
		grace := time.NewTimer(shutdownGrace)
		defer grace.Stop()
		select {
		case <-done:
		case <-grace.C:
			finished = false
			p.courier.record(p.courier.stopReason())
		}
	}

	delivered := p.courier.delivered.Load()
	if f, ok := p.courier.next.(*fileExporter); ok {
		delivered = f.written.Load()
	}
	d := Delivery{Ended: ended, Delivered: min(delivered, ended)}
	err := p.courier.err()
	if err != nil && p.config.to == toFile && p.options.File != "-" {
		d.Delivered = 0 // there is no file
	}
	if finished && !p.options.Lossless {
		d.Dropped = max(0, ended-p.courier.taken.Load())
	}
	d.Failed = ended - d.Delivered - d.Dropped
	if err == nil && d.Dropped > 0 {
		err = fmt.Errorf("%d of %d spans were lost since they came faster than %s takes them: raise OTEL_BSP_MAX_QUEUE_SIZE", d.Dropped, d.Ended, p)
	}
	return d, err
}

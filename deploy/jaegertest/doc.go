// Package jaegertest runs a real Jaeger for tests: built from deploy/jaeger,
// with the configuration that users run, on free ports of the loopback
// interface and with its data in a directory of the test.
//
// A test starts one, sends spans to [Server.GRPC] or [Server.HTTP] with
// whatever it tests, and reads back what Jaeger stored:
//
//	jaeger := jaegertest.Start(t)
//	export(t, jaeger.GRPC)
//	trace, err := jaeger.WaitTrace(ctx, traceID, 3)
//
// The binary is built once and kept in the user's cache directory. Building it
// with an empty build cache takes minutes, which is longer than some test
// timeouts allow; a pipeline that starts from nothing builds it first:
//
//	go build -C deploy/jaeger -o /dev/null github.com/jaegertracing/jaeger/cmd/jaeger
//
// Where that cannot be done, setting PROVETRACE_NO_JAEGER to anything skips the
// tests that need Jaeger. Without it, a Jaeger that cannot be built fails them.
package jaegertest

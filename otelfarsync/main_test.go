package otelfarsync_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/otelfarsync"
	"github.com/farsync/farsync/sqlite"
)

// holderVariable has the file of the Store for a process that is to hold a lock in it.
const holderVariable = "OTELFARSYNC_TEST_HOLDER"

// TestMain makes this test binary the holder of a lock, too.
func TestMain(m *testing.M) {
	if file, ok := os.LookupEnv(holderVariable); ok {
		if err := hold(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// hold holds a lock until its input ends, and then prints the spans that it has made.
func hold(file string) error {
	ctx, exported := context.Background(), tracetest.NewInMemoryExporter()
	spans := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exported))
	store, err := sqlite.Open(ctx, file, &sqlite.Options{Options: farsync.Options{
		Holder: "the other", Trace: otelfarsync.Trace(&otelfarsync.Options{TracerProvider: spans}),
	}})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	lease, err := farsync.NewMutex(store, "/billing").Lock(ctx)
	if err != nil {
		return err
	}
	fmt.Println("held")
	bufio.NewScanner(os.Stdin).Scan()
	if err := lease.Release(); err != nil {
		return err
	}
	var told []seen
	for _, s := range exported.GetSpans() {
		told = append(told, seen{s.Name, s.SpanContext.TraceID().String(), s.SpanContext.SpanID().String()})
	}
	return json.NewEncoder(os.Stdout).Encode(told)
}

// A seen is a span of another process.
type seen struct{ Name, Trace, Span string }

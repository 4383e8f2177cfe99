package otelfarsync_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/otelfarsync"
	"github.com/farsync/farsync/sqlite"
)

func ExampleTrace() {
	directory, err := os.MkdirTemp("", "otelfarsync")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(directory) }()

	spans := tracetest.NewInMemoryExporter() // a program has the exporter of its collector here
	trace := otelfarsync.Trace(&otelfarsync.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)),
		Path: func(path string) string {
			if strings.HasPrefix(path, "/customers/") {
				return "/customers/{id}"
			}
			return path // all others are few
		},
	})
	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(directory, "locks.db"), &sqlite.Options{
		Options: farsync.Options{Name: "locks", Trace: trace},
	})
	if err != nil {
		log.Print(err)
		return
	}
	defer func() { _ = store.Close() }()
	err = farsync.NewMutex(store, "/customers/4711").Do(ctx, func(context.Context, *farsync.Lease) error { return nil })
	if err != nil {
		log.Print(err)
		return
	}
	for _, span := range spans.GetSpans() {
		fmt.Println(span.Name)
	}
	// Output:
	// lock /customers/{id}
	// hold /customers/{id}
}

package otelfarsync_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/otelfarsync"
)

func TestQueues(t *testing.T) {
	inBubble(t, nil, sdktrace.NeverSample(), func(s *scene) {
		other := s.open("two", nil)
		for _, path := range []string{"/customers/1", "/customers/2", "/cron"} {
			s.lock(other, path)
		}
		for _, store := range []*farsync.Store{s.store, s.open("three", nil)} { // an entry each
			go func() { _, _ = farsync.NewMutex(store, "/customers/1").Lock(s.Context()) }() // ends with its Store
		}
		synctest.Wait()
		options := &otelfarsync.Options{
			Path: func(path string) string {
				if strings.HasPrefix(path, "/customers/") {
					return "/customers/{id}"
				}
				return ""
			},
		}
		s.reader = sdkmetric.NewManualReader()
		options.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.reader))
		gauge, err := otelfarsync.Queues(s.store, options, "/customers/", "/customers/1", "/cron")
		require.NoError(s, err)
		require.Equal(s, []string{
			"farsync.queue.entries {entry} path=/customers/{id},state=held,store=mem = 2",
			"farsync.queue.entries {entry} path=/customers/{id},state=waiting,store=mem = 2",
			"farsync.queue.entries {entry} state=held,store=mem = 1",
			"farsync.queue.entries {entry} state=waiting,store=mem = 0",
		}, s.points())

		// What is not known is not 0.
		refused := errors.New("not now")
		s.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Survey {
				return farsynctest.Refuse(refused)
			}
			return farsynctest.None
		})
		var handled error
		before := otel.GetErrorHandler()
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { handled = err }))
		defer otel.SetErrorHandler(before)
		var all metricdata.ResourceMetrics
		require.NoError(s, s.reader.Collect(context.Background(), &all), "the other metrics are sent")
		require.ErrorIs(s, handled, refused)
		require.False(s, slices.ContainsFunc(all.ScopeMetrics, func(m metricdata.ScopeMetrics) bool { return len(m.Metrics) > 0 }))
		s.SetFault(nil)
		require.NoError(s, gauge.Unregister())
		require.Empty(s, s.points())
		_, err = otelfarsync.Queues(s.store, options, "/a", "cron")
		require.ErrorIs(s, err, farsync.ErrPath)
	})
}

package otelfarsync

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// The bounds of the histograms, in seconds: a lock that is free takes a millisecond, and a lock that is not free takes
// as long as a person may wait for.
var (
	waitBounds = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 600}
	holdBounds = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 600, 3600}
)

// instruments are the metrics. The instruments of the SDK's meters are safe to use also when they could not be made.
type instruments struct {
	acquired, holds, renewals, left metric.Float64Histogram
	waiting, leases, sessions       metric.Int64UpDownCounter
	losses, unconfirmed             metric.Int64Counter
}

func newInstruments(m metric.Meter) instruments {
	histogram := func(name, what string, bounds []float64) metric.Float64Histogram {
		return must(m.Float64Histogram(name, metric.WithDescription(what), metric.WithUnit("s"),
			metric.WithExplicitBucketBoundaries(bounds...)))
	}
	gauge := func(name, unit, what string) metric.Int64UpDownCounter {
		return must(m.Int64UpDownCounter(name, metric.WithDescription(what), metric.WithUnit(unit)))
	}
	counter := func(name, unit, what string) metric.Int64Counter {
		return must(m.Int64Counter(name, metric.WithDescription(what), metric.WithUnit(unit)))
	}
	return instruments{
		acquired:    histogram("farsync.acquire.duration", "How long calls took that were to acquire a lock.", waitBounds),
		holds:       histogram("farsync.hold.duration", "How long locks were held.", holdBounds),
		waiting:     gauge("farsync.requests.waiting", "{request}", "Calls that wait for a lock."),
		leases:      gauge("farsync.leases.held", "{lease}", "Locks that are held."),
		sessions:    gauge("farsync.sessions", "{session}", "Sessions with the service."),
		losses:      counter("farsync.session.losses", "{session}", "Sessions that were lost, and with them all that was held."),
		renewals:    histogram("farsync.session.renewal.duration", "How long renewals of sessions took.", waitBounds),
		left:        histogram("farsync.session.renewal.left", "How long sessions still had when a renewal came.", waitBounds),
		unconfirmed: counter("farsync.releases.unconfirmed", "{lease}", "Releases that the service has not confirmed in time."),
	}
}

// must reports an error where OpenTelemetry reports its own.
func must[T any](instrument T, err error) T {
	if err != nil {
		otel.Handle(err)
	}
	return instrument
}

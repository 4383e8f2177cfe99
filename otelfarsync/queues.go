package otelfarsync

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/census"
	"github.com/farsync/farsync/recipe"
)

// surveyFor bounds a survey.
const surveyFor = 5 * time.Second

// Queues registers farsync.queue.entries, a gauge of how many entries hold and how many wait in the queues below the
// prefixes, of all processes; with no prefix in all queues. They are counted together unless Options.Path names
// classes.
//
// Each time that it is collected it makes a Store.Survey, which reads all these entries: register it in one process,
// and not in each, and Unregister it before the Store is closed. If the service does not answer within 5 seconds, or
// not all, nothing of it is observed, and the error goes where the errors of OpenTelemetry go. A prefix with which no
// path can begin is an error.
func Queues(store *farsync.Store, o *Options, prefixes ...string) (metric.Registration, error) {
	if o == nil {
		o = &Options{}
	}
	meters := o.MeterProvider
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	meter := meters.Meter(scope)
	for _, prefix := range prefixes {
		if err := recipe.CheckPrefix(prefix); err != nil {
			return nil, err
		}
	}
	gauge, err := meter.Int64ObservableGauge("farsync.queue.entries", metric.WithUnit("{entry}"),
		metric.WithDescription("Entries in the queues, those that hold and those that wait."))
	if err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(ctx context.Context, to metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, surveyFor)
		defer cancel()
		classes, err := census.Count(ctx, store, o.Path, prefixes)
		for class, n := range classes {
			labels := []attribute.KeyValue{storeKey.String(store.Name())}
			if class != "" {
				labels = append(labels, pathKey.String(class))
			}
			to.ObserveInt64(gauge, n.Held, metric.WithAttributes(append(labels, stateKey.String("held"))...))
			to.ObserveInt64(gauge, n.Waiting, metric.WithAttributes(append(labels, stateKey.String("waiting"))...))
		}
		if err != nil {
			otel.Handle(err) // a reader that is told sends nothing of all that the program measures
		}
		return nil
	}, gauge)
}

package promfarsync

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/census"
	"github.com/farsync/farsync/recipe"
)

// surveyFor bounds a survey. Prometheus gives up a scrape after 10 seconds unless told otherwise.
const surveyFor = 5 * time.Second

// Queues returns a collector of farsync_queue_entries, a gauge of how many entries hold and how many wait in the queues
// below the prefixes, of all processes; with no prefix in all queues. They are counted together unless Options.Path
// names classes.
//
// Each time that it is collected it makes a Store.Survey, which reads all these entries: register it in one process,
// and not in each. It collects nothing if the service does not answer within 5 seconds, or not all, or if the Store is
// closed. It panics if no path can begin with a prefix.
func Queues(store *farsync.Store, o *Options, prefixes ...string) prometheus.Collector {
	if o == nil {
		o = &Options{}
	}
	for _, prefix := range prefixes {
		if err := recipe.CheckPrefix(prefix); err != nil {
			panic("promfarsync: Queues: " + err.Error())
		}
	}
	return &queues{store, o.Path, prefixes, prometheus.NewDesc("farsync_queue_entries",
		"Entries in the queues, those that hold and those that wait.",
		[]string{"farsync_path", "farsync_state"}, prometheus.Labels{"farsync_store": store.Name()})}
}

type queues struct {
	store    *farsync.Store
	path     func(string) string
	prefixes []string
	desc     *prometheus.Desc
}

// Describe is of prometheus.Collector.
func (q *queues) Describe(to chan<- *prometheus.Desc) { to <- q.desc }

// Collect is of prometheus.Collector.
func (q *queues) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), surveyFor) // a scrape has none of its own
	defer cancel()
	classes, err := census.Count(ctx, q.store, q.path, q.prefixes)
	if err != nil {
		return
	}
	for class, n := range classes {
		to <- prometheus.MustNewConstMetric(q.desc, prometheus.GaugeValue, float64(n.Held), class, "held")
		to <- prometheus.MustNewConstMetric(q.desc, prometheus.GaugeValue, float64(n.Waiting), class, "waiting")
	}
}

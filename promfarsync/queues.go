package promfarsync

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/farsync/farsync"
)

// surveyFor bounds a survey. Prometheus gives up a scrape after 10 seconds unless told otherwise.
const surveyFor = 5 * time.Second

// Queues returns a collector of farsync_queue_entries, a gauge of how many entries hold and how many wait in the queues below the
// prefixes, those of all processes; with no prefix in all queues. They are counted together unless Options.Path names classes.
//
// Each time that it is collected it makes a farsync.Survey, which reads all these entries: register it in one process, and
// not in each. It collects nothing if the service does not answer within 5 seconds, or not all, or if the Store is closed.
func Queues(store *farsync.Store, o *Options, prefixes ...string) prometheus.Collector {
	if o == nil {
		o = &Options{}
	}
	if len(prefixes) == 0 {
		prefixes = []string{""}
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
	classes, err := q.count(ctx)
	if err != nil {
		return // a part of the truth would look like the whole
	}
	for class, n := range classes {
		to <- prometheus.MustNewConstMetric(q.desc, prometheus.GaugeValue, float64(n.held), class, "held")
		to <- prometheus.MustNewConstMetric(q.desc, prometheus.GaugeValue, float64(n.waiting), class, "waiting")
	}
}

type entries struct{ held, waiting int }

// count returns how many entries there are, by the classes of their paths.
func (q *queues) count(ctx context.Context) (map[string]entries, error) {
	counted := map[string]bool{}
	classes := map[string]entries{"": {}} // so that 0 is not nothing
	for _, prefix := range q.prefixes {
		for lock, err := range farsync.Survey(ctx, q.store, prefix) {
			if err != nil {
				return nil, err
			}
			if counted[lock.Path] {
				continue // one prefix begins with another
			}
			counted[lock.Path] = true
			class := ""
			if q.path != nil {
				class = q.path(lock.Path)
			}
			n := classes[class]
			for _, p := range lock.Participants {
				if p.Held {
					n.held++
				} else {
					n.waiting++
				}
			}
			classes[class] = n
		}
	}
	return classes, nil
}

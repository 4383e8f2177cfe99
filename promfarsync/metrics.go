package promfarsync

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// The bounds of the histograms, in seconds, as in package otelfarsync.
var (
	waitBounds = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 600}
	holdBounds = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 600, 3600}
)

// The labels of what is told of a Store, and of a lock. An empty one is none to Prometheus.
var (
	ofStore = []string{"farsync_store"}
	ofLock  = []string{"farsync_store", "farsync_kind", "farsync_path"}
)

type metrics struct {
	acquired, holds, renewals, left *prometheus.HistogramVec
	waiting, leases, sessions       *prometheus.GaugeVec
	losses, unconfirmed             *prometheus.CounterVec
}

func newMetrics() metrics {
	histogram := func(name, help string, bounds []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return metrics{
		acquired: histogram("farsync_acquire_duration_seconds", "How long calls took that were to acquire a lock.", waitBounds,
			slices.Concat(ofLock, []string{"farsync_outcome", "farsync_local", "error_type"})...),
		holds: histogram("farsync_hold_duration_seconds", "How long locks were held.", holdBounds,
			slices.Concat(ofLock, []string{"farsync_end"})...),
		waiting:  gauge("farsync_requests_waiting", "Calls that wait for a lock.", ofLock...),
		leases:   gauge("farsync_leases_held", "Locks that are held.", ofLock...),
		sessions: gauge("farsync_sessions", "Sessions with the service.", "farsync_store", "farsync_state"),
		losses: counter("farsync_session_losses_total", "Sessions that were lost, and with them all that was held.",
			"farsync_store", "error_type"),
		renewals:    histogram("farsync_session_renewal_duration_seconds", "How long renewals of sessions took.", waitBounds, ofStore...),
		left:        histogram("farsync_session_renewal_left_seconds", "How long sessions still had when a renewal came.", waitBounds, ofStore...),
		unconfirmed: counter("farsync_releases_unconfirmed_total", "Releases that the service has not confirmed in time.", ofLock...),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.acquired, m.holds, m.renewals, m.left, m.waiting, m.leases, m.sessions, m.losses, m.unconfirmed,
	}
}

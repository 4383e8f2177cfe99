// Package promfarsync counts for Prometheus what farsync's locks do, for programs without OpenTelemetry.
//
//	trace, err := promfarsync.Trace(prometheus.DefaultRegisterer, nil)
//	if err != nil {
//		return err
//	}
//	store, err := etcd.Open(ctx, client, &etcd.Options{Options: farsync.Options{Name: "etcd", Trace: trace}})
//
// The metrics are the same as in package otelfarsync, by the names and labels that OpenTelemetry's exporter for
// Prometheus gives them, so dashboards and alerts fit both:
//
//	farsync_acquire_duration_seconds           histogram  how long calls took, by outcome: held, locked, gave_up, error
//	farsync_hold_duration_seconds              histogram  how long locks were held, by end: released, lost, closed
//	farsync_requests_waiting                   gauge      calls that wait now
//	farsync_leases_held                        gauge      locks that are held now
//	farsync_sessions                           gauge      sessions, by state: connected, suspended, recovering
//	farsync_session_losses_total               counter    sessions that were lost
//	farsync_session_renewal_duration_seconds   histogram  how long renewals took
//	farsync_session_renewal_left_seconds       histogram  how long the leases still had when a renewal came
//	farsync_releases_unconfirmed_total         counter    releases that the service has not confirmed in time
//	farsync_queue_entries                      gauge      entries of all processes, by state: held, waiting; with Queues alone
//
// The two gauges of calls begin with 0 when a lock of their labels is first asked for, so that an alert on == 0 matches
// where none was ever had.
//
// All have the label farsync_store, the option Name of the Store. The metrics of calls and locks have farsync_kind. A
// path is on no metric, for there may be a million of them, unless Options.Path names its class: it is the label
// farsync_path.
package promfarsync

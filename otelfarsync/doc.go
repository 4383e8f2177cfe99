// Package otelfarsync tells OpenTelemetry what farsync's locks do: how long calls wait and locks are held, how many
// wait now, which leases were lost, and in a trace, which lock of which process a slow call was waiting for.
//
//	trace := otelfarsync.Trace(nil)
//	store, err := etcd.Open(ctx, client, &etcd.Options{Options: farsync.Options{Name: "etcd", Trace: trace}})
//
// # Metrics
//
//	farsync.acquire.duration         histogram, s   how long calls took, by outcome: held, locked, gave_up, error
//	farsync.hold.duration            histogram, s   how long locks were held, by end: released, lost, closed
//	farsync.requests.waiting         {request}      calls that wait now
//	farsync.leases.held              {lease}        locks that are held now
//	farsync.sessions                 {session}      sessions, by state: connected, suspended, recovering
//	farsync.session.losses           {session}      sessions that were lost
//	farsync.session.renewal.duration histogram, s   how long renewals took
//	farsync.session.renewal.left     histogram, s   how long the leases still had when a renewal came
//	farsync.releases.unconfirmed     {lease}        releases that the service has not confirmed in time
//	farsync.queue.entries            {entry}        entries of all processes, by state: held, waiting; with Queues alone
//
// All have the attribute farsync.store, the option Name of the Store. The metrics of calls and locks have farsync.kind.
// A path is on no metric, for there may be a million of them, unless Options.Path names its class.
//
// # Spans
//
// A call is a span: lock, read lock, acquire or campaign, from the call until the lock is held or the call has failed.
// If it waits, an event says behind how many; farsync.rejoined is how often it has lost its place meanwhile. If the
// holder's call is in a trace too, the span has a link to it, also when the holder is another process: a call that is
// sampled publishes its traceparent with its entry in the queue. To find it, a sampled call that waits makes one
// request more.
//
// A lease that was held is a span by the name of hold, made when the lease ends, with a link to the call that has
// acquired it. Stores that share a Trace are told apart by their option Name: Stores of two services with the same name,
// or with no name, may grant equal tokens for one path, and the first call then has the lease that ends first.
package otelfarsync

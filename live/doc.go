// Package live shows in a browser who holds a lock and who waits for it, as that changes.
//
//	view := live.New(nil)
//	view.Add("etcd", store, "/locks", "/cron")
//	mux.Handle("/debug/farsync/", view)
//
// A client who can reach the handler sees the paths, the holders and the waiters below these prefixes, and the values
// of elections: mount it where other pages for operators are, as the pages of net/http/pprof, behind the same
// authentication. docs/LIVE.md says how.
//
// # What it costs
//
// A View surveys its Stores once a second at most, however many viewers there are, and not at all while there are none.
// A survey that takes longer than a tenth of a second makes the next one later, so that a tenth of the time is spent on
// it. The View has no goroutine without a viewer.
//
// # What it shows
//
// The page shows the state of a moment ago: never decide by it that a lock is free. A survey reads queue by queue, so
// two queues may be shown as they were at different moments. Participants that wait for one another are shown as a
// deadlock once two surveys, two seconds apart at least, have shown the same ones. Nothing is done about it.
package live

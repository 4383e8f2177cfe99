package redis

import "time"

const (
	// After a subscription has ended the next is tried after this time, and then after twice as long each time.
	subscribeAgain = 50 * time.Millisecond
	// The most is short where there is no server, for locks are handed over late until it is found again. A server that
	// refuses a subscription is asked at a pace that costs it little, and waiters look at the same pace.
	subscribeMost = 500 * time.Millisecond
	refusedMost   = 5 * time.Second
	// longOutage is worth a word.
	longOutage = 3 * time.Second
)

// An outage is a time without a subscription.
type outage struct {
	since time.Time
	pause time.Duration // before the next attempt
	told  bool          // that it is a long one
}

// ended notes that an attempt to subscribe has ended, after it stood for a while or at once. It reports whether the
// outage is a long one, and whether that is news.
func (o *outage) ended(now time.Time, stood, refused bool) (long, news bool) {
	if stood || o.since.IsZero() {
		*o = outage{since: now}
	}
	most := subscribeMost
	if refused {
		most = refusedMost
	}
	o.pause = min(max(2*o.pause, subscribeAgain), most)
	long = now.Sub(o.since) >= longOutage
	news, o.told = long && !o.told, long
	return long, news
}

//go:build unix

package job

import "time"

// A lag is how late this process is run, by the latest of its last looks at the clock. A process that was late a moment
// ago is likely to be late when it matters.
type lag struct {
	planned time.Time // of the next look
	known   time.Duration
}

// A look forgets a part of what is known, so that half of it is forgotten in about a TTL.
const forget = 32

// ran notes that a look has come, and returns the lag.
func (l *lag) ran(now time.Time) time.Duration {
	l.known -= l.known / forget
	if !l.planned.IsZero() {
		l.known = max(l.known, now.Sub(l.planned))
	}
	return l.known
}

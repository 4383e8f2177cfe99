package sqlstore

import (
	"context"
	"time"
)

// Poll wakes Watches when what they wait for has changed, until the session ends, for a session that nothing notifies. It reads after
// times that grow from first to most, by the statement states, and while nothing is waited for it reads nothing. No state of a name may
// come twice, for what was in between may not have been seen: a queue that was left and joined again has another.
func (s *Session) Poll(first, most time.Duration) {
	known := map[string]string{}
	s.Waiters.Tend(s.Life, first, most, func(names []string, _ bool) {
		ctx, cancel := context.WithTimeout(s.Life, s.ttl/4)
		defer cancel()
		list, err := Collect(ctx, s.db.Read, func(rows Rows) (is [2]string, err error) {
			return is, rows.Scan(&is[0], &is[1])
		}, "states", Array(names))
		if err != nil {
			return // the next is compared with what is known
		}
		seen := map[string]string{}
		for _, is := range list {
			// What is seen of a name for the first time may come after a change that its Watch, whose look was before, has missed.
			if was, ok := known[is[0]]; !ok || was != is[1] {
				s.Waiters.Wake(is[:1])
			}
			seen[is[0]] = is[1]
		}
		known = seen
	})
}

package redis

import "time"

// A clock compares the clock of the server, which decides when sessions end, with the monotonic one of this process.
type clock struct {
	server      int64 // µs, at a moment between sent and answered
	sent, heard time.Time
}

// leastStep is the least step that is worth a word.
const leastStep = 100 * time.Millisecond

// step returns by how much the server's clock was set since the last call, 0 if that cannot be told from the time that
// requests take.
func (c *clock) step(server int64, sent, heard time.Time) time.Duration {
	was := *c
	*c = clock{server, sent, heard}
	if was.server == 0 || server == 0 {
		return 0
	}
	passed := time.Duration(server-was.server) * time.Microsecond
	switch most, least := heard.Sub(was.sent), sent.Sub(was.heard); {
	case passed > most+leastStep:
		return passed - most
	case passed < least-leastStep:
		return passed - least
	}
	return 0
}

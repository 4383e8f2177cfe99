package redis

import "time"

// A clock compares the clock of the server, which decides when sessions end, with the monotonic one of this process.
type clock struct {
	base        time.Time
	ahead, slow time.Duration // of the last answer: how far the server was ahead of base, and how long it took
}

// leastStep is the least step that is worth a word.
const leastStep = 100 * time.Millisecond

// step returns by how much the server's clock, in µs, was set since the last call, 0 if that cannot be told from the
// time that requests take.
func (c *clock) step(server int64, sent, heard time.Time) time.Duration {
	was := *c
	if was.base.IsZero() {
		c.base = sent
	}
	c.ahead, c.slow = time.Duration(server)*time.Microsecond-sent.Sub(c.base), heard.Sub(sent)
	step := c.ahead - was.ahead
	if was.base.IsZero() || step.Abs() <= leastStep+max(c.slow, was.slow) {
		return 0
	}
	return step
}

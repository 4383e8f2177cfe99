//go:build unix

package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLagIsThatOfTheLatestLook, and is forgotten within a few TTLs, which have 20 looks each.
func TestLagIsThatOfTheLatestLook(t *testing.T) {
	now := time.Now()
	l := lag{}
	require.Zero(t, l.ran(now), "nothing was planned")
	look := func(late time.Duration) time.Duration {
		now = now.Add(time.Second)
		l.planned = now.Add(-late)
		return l.ran(now)
	}
	require.Zero(t, look(-time.Millisecond), "a look before its time is not late")
	require.Equal(t, 400*time.Millisecond, look(400*time.Millisecond))
	require.Greater(t, look(0), 380*time.Millisecond)
	for range 20 {
		look(0)
	}
	require.Greater(t, l.known, 150*time.Millisecond)
	for range 200 {
		look(0)
	}
	require.Less(t, l.known, time.Millisecond)
}

// TestLagDoesNotEndWhatIsRenewed: with the longest grace, a half of the TTL, and the greatest lag, a lease that is renewed every quarter
// of its TTL never comes to its grace.
func TestLagDoesNotEndWhatIsRenewed(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 10 * time.Second, time.Hour} {
		for _, grace := range []time.Duration{0, ttl / 3, ttl / 2} {
			r := run{Job: &Job{TTL: ttl, Grace: grace}}
			left := ttl*3/4 - 2*r.margin() - r.mostLag()
			require.GreaterOrEqual(t, left, grace)
			require.LessOrEqual(t, r.mostLag(), ttl/8)
		}
	}
}

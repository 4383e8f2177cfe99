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

// TestLagDoesNotEndWhatIsRenewed: with the longest grace and the greatest lag, a lease that is renewed every quarter of its TTL never comes
// to its grace, also where it counts from the last renewal but one. A renewal has some time left to be answered.
func TestLagDoesNotEndWhatIsRenewed(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 10 * time.Second, time.Hour} {
		for _, oldest := range []time.Duration{ttl / 4, ttl / 2} {
			for _, grace := range []time.Duration{0, ttl / 3, ttl / 2} {
				j := &Job{TTL: ttl, Oldest: oldest}
				j.Grace = min(grace, j.MostGrace())
				require.GreaterOrEqual(t, ttl-oldest-2*j.margin()-j.mostLag()-ttl/20, j.Grace)
				require.LessOrEqual(t, j.mostLag(), ttl/8)
			}
		}
	}
}

// TestMostGrace is what docs/COMMAND.md says, with the default TTL.
func TestMostGrace(t *testing.T) {
	require.Equal(t, 5*time.Second, (&Job{TTL: 10 * time.Second, Oldest: 10 * time.Second / 4}).MostGrace())
	require.Equal(t, 3*time.Second, (&Job{TTL: 10 * time.Second, Oldest: 10 * time.Second / 2}).MostGrace())
}

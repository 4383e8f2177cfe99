package redis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOutageIsToldOnce: attempts become rare, more so where they are refused, and a subscription that stood ends the outage.
func TestOutageIsToldOnce(t *testing.T) {
	for _, refused := range []bool{false, true} {
		var o outage
		now, most := time.Now(), map[bool]time.Duration{false: subscribeMost, true: refusedMost}[refused]
		for range 2 {
			stood, told, attempts := true, 0, 0
			for begun := now; now.Sub(begun) < time.Minute; attempts++ {
				long, news := o.ended(now, stood, refused)
				require.Equal(t, now.Sub(begun) >= longOutage, long)
				if news {
					told++
				}
				if stood {
					require.Equal(t, subscribeAgain, o.pause)
				}
				require.LessOrEqual(t, o.pause, most)
				now, stood = now.Add(o.pause), false
			}
			require.Equal(t, 1, told)
			require.Equal(t, most, o.pause)
			require.Less(t, attempts, int(time.Minute/most)+8)
		}
	}
}

package redis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStepsOfTheServersClockAreTold(t *testing.T) {
	begun := time.Now()
	at := begun.Add
	for _, row := range []struct {
		name        string
		server      time.Duration // passed by the server's clock
		sent, heard time.Duration // since the first answer
		want        time.Duration
	}{
		{"none", time.Second, time.Second, time.Second + time.Millisecond, 0},
		{"none, in a slow answer", 3 * time.Second, time.Second, 4 * time.Second, 0},
		{"none that is worth a word", time.Second + leastStep/2, time.Second, time.Second, 0},
		{"forward", 10 * time.Second, time.Second, 2 * time.Second, 9 * time.Second},
		{"back", -5 * time.Second, time.Second, 2 * time.Second, -6 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			var c clock
			first := begun.UnixMicro()
			require.Zero(t, c.step(first, at(0), at(0)))
			require.Equal(t, row.want, c.step(first+row.server.Microseconds(), at(row.sent), at(row.heard)))
		})
	}
}

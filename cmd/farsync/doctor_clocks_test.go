package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/cmd/farsync/internal/location"
)

// TestDoctorSaysOfAClockWhatIsKnown: what the doubt hides is not said to be ahead, nor behind.
func TestDoctorSaysOfAClockWhatIsKnown(t *testing.T) {
	t.Parallel()
	const doubt = 17 * time.Millisecond
	for ahead, want := range map[time.Duration]findingJSON{
		0:                             {"clock", true, "that of db:1 and this host's agree, give or take 17ms"},
		-doubt:                        {"clock", true, "that of db:1 and this host's agree, give or take 17ms"},
		doubt + time.Millisecond:      {"clock", true, "that of db:1 is 18ms ahead of this host's, give or take 17ms"},
		-clocksApart - doubt:          {"clock", true, "that of db:1 is 2.017s behind this host's, give or take 17ms"},
		clocksApart + 2*doubt:         {"clock", false, "that of db:1 is 2.034s ahead of this host's: times are shown wrong, and jobs of cron are not started together"},
		-time.Hour - time.Microsecond: {"clock", false, "that of db:1 is 1h0m0s behind this host's: times are shown wrong, and jobs of cron are not started together"},
	} {
		var d doctor
		d.clock(location.Member{Host: "db:1", Ahead: ahead, Doubt: doubt, Clock: true})
		require.Equal(t, []findingJSON{want}, d.findings)
	}
}

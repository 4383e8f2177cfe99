//go:build unix

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// TestTableFitsTheTerminal: with names as they are, for how long somebody has been there is shown at any width, and who
// it is can be told.
func TestTableFitsTheTerminal(t *testing.T) {
	now := time.Date(2026, 11, 22, 4, 5, 6, 0, time.UTC)
	at := func(d time.Duration) *time.Time { since := now.Add(-d); return &since }
	locks := []lockJSON{
		{Path: "/deploy/shop", Participants: []userJSON{
			{Holder: "ip-10-0-12-34.eu-central-1.compute.internal pid 41271", Held: true, Kind: "exclusive", Units: 1, Token: 447120640, HeldSince: at(130 * time.Second)},
			{Holder: "ip-10-0-12-35.eu-central-1.compute.internal pid 977 https://ci.example.com/jobs/4711", Kind: "exclusive", Units: 1, Token: 447120896, Joined: at(3 * time.Second)},
		}},
		{Path: "/billing/eu-central-1/invoices/monthly/2026-11", Participants: []userJSON{
			{Holder: "billing-worker-7d9f8b6c5d-x2x9z pid 1", Held: true, Kind: "permit", Units: 2, Token: 447121152, HeldSince: at(40 * time.Minute)},
		}},
	}
	for width, want := range map[int]string{
		40: `LOCK        WHO                    FOR
/depl…shop  ip-10-0-12…1271 holds  2m10s
            ip-10-0-1… waits, 1st  3s
/bill…6-11  billing-wo…id 1 holds  40m
`,
		60: `LOCK                         WHO                       FOR
/deploy/shop                 ip-10-0-12-3…41271 holds  2m10s
                             ip-10-0-12-3… waits, 1st  3s
/billing/eu-c…nthly/2026-11  billing-work…pid 1 holds  40m
`,
		80: `LOCK                                  WHO                       FOR    TOKEN
/deploy/shop                          ip-10-0-12-3…41271 holds  2m10s  447120640
                                      ip-10-0-12-3… waits, 1st  3s     447120896
/billing/eu-centra…s/monthly/2026-11  billing-work…pid 1 holds  40m    447121152
`,
		100: `LOCK                                            WHO                                 FOR    TOKEN
/deploy/shop                                    ip-10-0-12-34.eu-… pid 41271 holds  2m10s  447120640
                                                ip-10-0-12-35.eu-…/4711 waits, 1st  3s     447120896
/billing/eu-central-1/invoices/monthly/2026-11  billing-worker-7d…2x9z pid 1 holds  40m    447121152
`,
		140: `LOCK                                            WHO                                                              KIND       FOR    TOKEN
/deploy/shop                                    ip-10-0-12-34.eu-central-1.compute.internal pid 41271 holds      exclusive  2m10s  447120640
                                                ip-10-0-12-35.eu-central-1.comp…xample.com/jobs/4711 waits, 1st  exclusive  3s     447120896
/billing/eu-central-1/invoices/monthly/2026-11  billing-worker-7d9f8b6c5d-x2x9z pid 1 holds                      2 units    40m    447121152
`,
	} {
		var out bytes.Buffer
		require.NoError(t, (&app{}).table(&out, locks, now, width))
		require.Equal(t, want, out.String())
		for line := range strings.Lines(out.String()) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), width)
		}
		for _, text := range []string{"FOR", "2m10s", "40m", "holds", "waits, 1st"} {
			require.Contains(t, out.String(), text, "%d columns", width)
		}
	}
}

func TestLocksAreSorted(t *testing.T) {
	now := time.Now()
	user := func(held bool, ago time.Duration) userJSON {
		since := now.Add(-ago)
		return userJSON{Held: held, Joined: &since}
	}
	for by, want := range map[bySort]string{"path": "/a /b /c", "for": "/b /c /a", "waiting": "/c /a /b"} {
		locks := []lockJSON{
			{Path: "/a", Participants: []userJSON{user(true, time.Second)}},
			{Path: "/b", Participants: []userJSON{user(true, time.Hour)}},
			{Path: "/c", Participants: []userJSON{user(true, time.Minute), user(false, time.Second)}},
		}
		by.sort(locks)
		require.Equal(t, want, locks[0].Path+" "+locks[1].Path+" "+locks[2].Path)
	}
}

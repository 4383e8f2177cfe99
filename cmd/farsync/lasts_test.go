//go:build unix

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWatchKnowsSinceWhenAtTheEarliest: whoever was seen to wait did not hold then.
func TestWatchKnowsSinceWhenAtTheEarliest(t *testing.T) {
	start := time.Date(2026, 11, 22, 4, 0, 0, 0, time.UTC)
	at := start.Add
	look := func(held bool) []lockJSON {
		u := userJSON{Holder: "a", Held: held, Token: 512, Joined: &start}
		if held {
			u.HeldAfter = u.Joined
		}
		return []lockJSON{{Path: "/x", Participants: []userJSON{u}}}
	}
	var v view
	for _, is := range []struct {
		at    time.Duration
		held  bool
		lasts string
	}{
		{time.Hour, false, "60m"},
		{time.Hour + time.Second, false, "60m"},
		{time.Hour + 2*time.Second, true, "≤ 1s"},
		{2 * time.Hour, true, "≤ 59m"},
	} {
		locks := look(is.held)
		v.bound(locks, at(is.at))
		require.Equal(t, is.lasts, locks[0].Participants[0].lasts(at(is.at)))
	}
	v = view{}
	locks := look(true)
	v.bound(locks, at(time.Hour))
	require.Equal(t, "≤ 60m", locks[0].Participants[0].lasts(at(time.Hour)), "it was not seen to wait")
}

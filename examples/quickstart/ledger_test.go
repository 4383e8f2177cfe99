//go:build unix

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLedgerFindsWhatTheMarkWouldHaveRefused(t *testing.T) {
	l := newLedger()
	l.add(access{who: "a", token: 1})
	l.add(access{who: "b", token: 2})
	l.add(access{who: "b", token: 2, write: true, value: 1})
	l.add(access{who: "a", token: 1, write: true, value: 1}) // let in by a resource that does not look
	refused, accepted := l.late()
	require.Empty(t, refused)
	require.Len(t, accepted, 1)
	require.Equal(t, 1, l.overlaps())
	write, mark, ok := l.writeWith(1)
	require.True(t, ok)
	require.False(t, write.refused)
	require.EqualValues(t, 2, mark)
}

func TestLedgerCountsHandOversAndTokens(t *testing.T) {
	l := newLedger()
	for i, who := range []string{"a", "b", "b", "a"} {
		l.add(access{who: who, token: 10 * (1 + 1<<i)})
		l.add(access{who: who, token: 10 * (1 + 1<<i), write: true, value: i + 1})
	}
	require.Equal(t, 2, handOvers(l.acquisitions()))
	require.True(t, increasing(l.acquisitions()))
	require.Zero(t, l.overlaps())
	require.Equal(t, map[string]int{"a": 2, "b": 2}, l.adds())

	l.add(access{who: "b", token: 90}) // as the one before: two holders at once
	require.False(t, increasing(l.acquisitions()))
}

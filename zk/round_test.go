package zk

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// TestNextName: nothing is guessed of names that other programs have made.
func TestNextName(t *testing.T) {
	mark := newMark()
	for _, row := range []struct {
		name, next string
	}{
		{mark + "9-lock-0000000041", mark + "10-lock-0000000043"},
		{mark + "0-lock-0000000041", mark + "1-lock-0000000043"},
		{mark + "-lock-0000000041", ""},
		{mark + "9-lock-000000041", ""},
		{mark + "9-lock--000000041", ""},
		{mark + "9-latch-0000000041", ""},
		{mark + "x-lock-0000000041", ""},
		{mark + "9223372036854775808-lock-0000000041", ""},
		{"_c_" + uuid + "-lock-0000000041", ""},
		{"lock-0000000041", ""},
		{"_c_9-lock-0000000041", ""},
		{"", ""},
	} {
		require.Equal(t, row.next, nextName(row.name, 43), row.name)
	}
	require.Empty(t, nextName(mark+"9-lock-0000000041", -1))
}

// TestNumbersOfASession: no name is given twice in a queue, also where the session has forgotten which it has given there.
func TestNumbersOfASession(t *testing.T) {
	s := &session{service: &service{}, mark: newMark(), rounds: map[string]*round{}}
	seen := map[string]bool{}
	for i := range 3 * mostRounds {
		for _, queue := range []string{"/one", "/" + strings.Repeat("q", i%7+1), "/n" + newMark()} {
			id := s.NewID(queue, driver.Exclusive, 1)
			require.False(t, seen[id], id)
			seen[id] = true
		}
	}
	require.LessOrEqual(t, len(s.rounds), mostRounds)
}

// TestGuessIsTheNextOfTheOneThatWasAhead: only where two at least must be ahead, and only where the last guess was right.
func TestGuessIsTheNextOfTheOneThatWasAhead(t *testing.T) {
	s, other := &session{service: &service{}, mark: newMark(), rounds: map[string]*round{}}, newMark()
	made := func(sequence string) *driver.Entry {
		return &driver.Entry{Queue: "/q", ID: s.NewID("/q", driver.Exclusive, 1) + sequence, Kind: driver.Exclusive}
	}
	is := func(name string) []driver.Entry { return []driver.Entry{{Queue: "/q", ID: "/q/" + name}} }
	first := made("0000000010")
	require.Nil(t, s.guess(first), "it has never waited")
	s.learn(first, is(other+"4-lock-0000000009"))
	s.stood(first, &driver.Target{Entry: is(other + "4-lock-0000000009")[0]})
	require.False(t, s.guesses(first))

	second := made("0000000013")
	want := is(other + "5-lock-0000000012")
	guess := s.guess(second)
	require.Equal(t, want[0].ID, guess[0].ID)
	require.Equal(t, 1, guess[0].Ahead)
	require.Nil(t, s.guess(made("0000000012")), "the one that joined in between may be alone")
	require.Nil(t, s.guess(made("0000000003")), "the queue has begun anew")
	s.learn(second, is(other+"6-lock-0000000012"))
	require.False(t, s.guesses(second))
	s.learn(second, nil)
	require.False(t, s.guesses(second))
	s.learn(second, want)
	require.True(t, s.guesses(second))
	s.missed(&driver.Target{Entry: driver.Entry{Queue: "/q"}})
	require.False(t, s.guesses(second))
	s.learn(second, want)
	require.True(t, s.guesses(second))
	s.learn(&driver.Entry{Queue: "/q", Kind: driver.Candidate}, nil)
	require.True(t, s.guesses(second), "it is of another kind")
	s.stood(second, &driver.Target{Entry: is(other + "5-lock-0000000012")[0], Alone: true})
	require.Equal(t, want[0].ID, s.guess(second)[0].ID, "behind one alone it learns nothing")
}

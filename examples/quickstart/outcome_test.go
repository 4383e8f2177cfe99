//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProblemsAreFound(t *testing.T) {
	sound := []access{
		{who: "a", token: 1},
		{who: "b", token: 2},
		{who: "b", token: 2, write: true, value: 1},
		{who: "a", token: 1, write: true, value: 1, refused: true},
		{who: "a", token: 3},
		{who: "a", token: 3, write: true, value: 2},
	}
	for _, test := range []struct {
		problem string
		spoil   func(o *outcome)
	}{
		{"", func(*outcome) {}},
		{"1 of 2 adds are lost", func(o *outcome) { o.found = 1 }},
		{"1 more than was added", func(o *outcome) { o.found = 3 }},
		{"while the lease still counted as held: 1", func(o *outcome) { o.show.unaware = 1 }},
		{"entries left in the queue: 4", func(o *outcome) { o.left = 4 }},
		{"no late request was refused", func(o *outcome) { o.show.ledger.accesses = sound[4:] }},
		{"not higher than the one before", func(o *outcome) { o.show.ledger.add(access{who: "c", token: 3}) }},
		{"were accepted: 1", func(o *outcome) { o.show.ledger.add(access{who: "b", token: 2, write: true}) }},
		{"overlapped and got through: 1", func(o *outcome) { o.show.ledger.add(access{who: "b", token: 2, write: true}) }},
	} {
		t.Run(test.problem, func(t *testing.T) {
			o := &outcome{show: &show{ledger: newLedger()}, expected: 2, found: 2}
			for _, a := range sound {
				o.show.ledger.add(a)
			}
			test.spoil(o)
			if test.problem == "" {
				require.Empty(t, o.Problems())
				require.Contains(t, o.Table(), "Nothing was lost.")
				return
			}
			require.Contains(t, o.Table(), "WRONG")
			require.Contains(t, strings.Join(o.Problems(), "\n"), test.problem)
		})
	}
}

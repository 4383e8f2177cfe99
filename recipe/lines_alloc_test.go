package recipe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// A program that locks another path each time pays for no line, as long as nobody waits.
func TestLineOfAFreeLockCostsNoMemory(t *testing.T) {
	s := &Store{}
	var requests []Request
	for _, path := range []string{"/a", "/b", "/c", "/d"} {
		for _, k := range []driver.Kind{driver.Exclusive, driver.Write, driver.Read, driver.Permit} {
			requests = append(requests, Request{Queue: path, Kind: k, Units: 1, Line: true})
		}
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for i := range requests {
			g := s.through(&requests[i])
			if w := g.window; w != nil {
				b, _ := w.enter(t.Context(), "", 1)
				w.bequeath(b, nil)
			} else {
				c := g.cohort
				c.depart(c.add(trying))
			}
			g.use(-1)
		}
	})-float64(len(requests)), "each has a grant, or a bid")
	for i := range s.lines {
		require.Empty(t, s.lines[i].of)
	}
}

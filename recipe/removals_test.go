package recipe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// A chain is a session in which calls wait one behind the other.
type chain struct {
	in    *session
	calls []*waiting
}

const chainQueue = "/q"

func chainEntry(i int) driver.Entry {
	return driver.Entry{Queue: chainQueue, ID: fmt.Sprintf("%06d", i), Revision: int64(i), Value: []byte("v")}
}

// place returns the place of an entry of the chain.
func (c *chain) place(i int) *place {
	e := chainEntry(i)
	return &place{entry: e, made: e, in: c.in}
}

// chainOf returns calls with the entries 2 to n+1, each behind the entry before.
func chainOf(n int) *chain {
	c := &chain{in: &session{ttl: 10 * time.Second, life: context.Background(), waiters: map[*waiting]bool{}}}
	for i := range n {
		w := &waiting{place: c.place(i + 2), behind: chainEntry(i + 1)}
		c.calls = append(c.calls, w)
		c.in.waiters[w] = true
	}
	return c
}

func (c *chain) refuse(i int) {
	c.in.removalFailed(c.place(i), time.Now(), true, errors.New("no right to delete"))
}

// Of a crowd whose calls wait one behind the other, and behind an entry that is not removed, the first that asks goes through those ahead of it, and
// the others find what it has found.
func TestCrowdBehindAnEntryThatStaysIsGoneThroughOnce(t *testing.T) {
	const n = 5000
	c := chainOf(n)
	c.refuse(1)
	require.NotNil(t, c.calls[n-1].stuck())
	for _, w := range c.calls {
		require.Same(t, c.in.removals[chainQueue].of["000001"], w.found)
	}
	passed := func() (calls int) {
		for _, w := range c.calls {
			if w.walk == c.in.walks {
				calls++
			}
		}
		return calls
	}
	require.Equal(t, n, passed())
	for _, i := range rand.Perm(n)[:100] {
		require.NotNil(t, c.calls[i].stuck())
		require.Equal(t, 1, passed(), "it goes no further than to itself")
		c.in.delist(c.calls[i], true)
	}
}

// Calls that wait ahead of all that is not removed do not go through each other.
func TestCrowdAheadOfAnEntryThatStaysIsNotGoneThrough(t *testing.T) {
	const n = 5000
	c := chainOf(n)
	c.refuse(n + 2)
	for _, w := range c.calls {
		require.Nil(t, w.stuck())
		require.Zero(t, w.walk)
	}
}

// What was found to be in the way of a call is not told once it is not.
func TestWhatWasFoundInTheWayIsForgotten(t *testing.T) {
	for name, end := range map[string]func(c *chain){
		"the removal is confirmed": func(c *chain) { c.in.removed(c.place(1), &(&Store{}).unstuck) },
		"a call waits for another": func(c *chain) {
			c.in.moved(c.calls[1], []driver.Target{{Entry: driver.Entry{ID: "another", Value: []byte("v")}}})
		},
		"a call has what it wants": func(c *chain) { c.in.delist(c.calls[1], false) },
		"an entry in between goes": func(c *chain) { c.in.delist(c.calls[1], true); c.in.removed(c.place(3), &(&Store{}).unstuck) },
		"the oldest becomes known": func(c *chain) {
			c.calls[1].behind.Value = nil
			c.in.heads(c.calls[1], driver.Entry{ID: "another", Value: []byte("v")})
		},
		"another is not removed":    func(c *chain) { c.refuse(9); c.in.removed(c.place(1), &(&Store{}).unstuck) },
		"all that was there is new": func(c *chain) { c.in.removed(c.place(1), &(&Store{}).unstuck); c.refuse(9) },
	} {
		t.Run(name, func(t *testing.T) {
			c := chainOf(5)
			c.refuse(1)
			last := c.calls[4]
			require.NotNil(t, last.stuck())
			end(c)
			require.Nil(t, last.stuck())
		})
	}
}

// A Replaceable request behind the entry of another Store is in its turn behind all that is ahead of both and not
// removed, but not behind what the service may not have made.
func TestEntryOfAnotherStoreHidesNoEntryThatStays(t *testing.T) {
	for name, row := range map[string]struct {
		revision int64
		kind     driver.Kind
		stuck    bool
	}{
		"ahead":               {1, driver.Exclusive, true},
		"ahead, and a writer": {1, driver.Write, true},
		"ahead, a permit":     {1, driver.Permit, false},
		"behind":              {9, driver.Exclusive, false},
		"it may not be there": {0, driver.Exclusive, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := chainOf(2)
			last := c.calls[1]
			last.place.entry.Kind, last.behind.ID = row.kind, "another"
			var told error
			last.spurn = func(why error) { told = why }
			c.in.movable = map[string]map[*waiting]bool{chainQueue: {last: true}}
			p := c.place(1)
			p.entry.Revision = row.revision
			c.in.removalFailed(p, time.Now(), true, errors.New("no right to delete"))
			require.Nil(t, last.stuck(), "of a lock that may be held")
			require.Equal(t, row.stuck, told != nil)
			require.Equal(t, row.stuck, len(c.in.movable) == 0)
		})
	}
}

// A chain that leads to itself, of what was seen at different times, is gone through once.
func TestCallsThatWaitForEachOtherAreNoChain(t *testing.T) {
	c := chainOf(5)
	c.refuse(0)
	c.calls[0].behind = chainEntry(6)
	require.Nil(t, c.calls[4].stuck())
}

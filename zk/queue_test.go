package zk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/suite"
)

// TestUnprovedCreateShowsNothingAhead: a create that was found again on another connection rests on Syncs until a quorum has
// proved the session. If that fails, its View must not show the readers ahead either: none of them keeps a reader waiting,
// so it would be granted on the word of a leader that may be cut off.
func TestUnprovedCreateShowsNothingAhead(t *testing.T) {
	w := newWire(time.Second, 0, nil)
	s := &session{service: &service{}, wire: w, mark: newMark()}
	w.end(errEnded) // every request fails
	names := &read{call: *newCall(newFrame(opGetChildren))}
	var ids []string
	for _, sequence := range []string{"0000000001", "0000000002"} {
		name := newName(s.mark, 1, driver.Read, 1) + sequence
		names.names += childrenOf(name)
		ids = append(ids, s.path("/q")+"/"+name)
	}
	e := driver.Entry{Queue: "/q", ID: ids[1], Kind: driver.Read, Units: 1}

	v, err := s.joined(t.Context(), &e, names, driver.Register{})
	require.NoError(t, err)
	require.True(t, v.All)
	require.Len(t, v.Entries, 1)

	w.renewed(time.Now(), opSync)
	v, err = s.joined(t.Context(), &e, names, driver.Register{})
	require.NoError(t, err)
	require.False(t, v.All)
	require.Empty(t, v.Entries, "the caller takes them for all that keeps it waiting")
}

// TestOnePassFindsWhatTheOrderedQueueShows: names of all recipes, foreign ones, and sequences that repeat.
func TestOnePassFindsWhatTheOrderedQueueShows(t *testing.T) {
	s := &service{}
	random := rand.New(rand.NewPCG(1, 2))
	kinds := []driver.Kind{driver.Exclusive, driver.Write, driver.Read, driver.Candidate, driver.Permit}
	name := func() string {
		sequence := fmt.Sprintf("%010d", random.IntN(40))
		switch random.IntN(12) {
		case 0:
			return "other" + sequence
		case 1:
			return []string{"lock-", "x", "~", "lock-x", "a" + lastSequence, lastSequence, "lock-" + lastSequence}[random.IntN(7)]
		default:
			return newName(newMark(), 1, kinds[random.IntN(len(kinds))], 1) + sequence
		}
	}
	rounds := 300
	if suite.More(t, suite.ZooKeeper) {
		rounds = 3000
	}
	for range rounds {
		var names []string
		for range random.IntN(12) {
			if n := name(); !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
		r := &read{call: call{names: childrenOf(names...)}}
		for _, kind := range []driver.Kind{driver.Exclusive, driver.Write, driver.Candidate} {
			q := r.queue("/q", s.path("/q"), kind)
			r.seen = nil
			for _, id := range append(slices.Clone(names), "", newName(newMark(), 1, kind, 1)+"0000000020") {
				e := &driver.Entry{Queue: "/q", Kind: kind, Units: 1}
				if id != "" {
					e.ID = "/q/" + id
				}
				list, all, there := q.ahead(e, true)
				got, gotAll, gotThere := r.names.nearest(e, "/q")
				if id != "" {
					require.Equal(t, there, gotThere, "%s in %v", id, names)
				}
				if id == "" || there {
					require.Equal(t, all, gotAll, "%s in %v", id, names)
					require.Equal(t, list, append([]driver.Entry{}, got...), "%s in %v", id, names)
				}
			}
		}
	}
}

// TestNodesThatLeaveACrowdAreForgotten: a queue that was a crowd once is remembered for as long as the session lives, and those that come
// and go later are none of it.
func TestNodesThatLeaveACrowdAreForgotten(t *testing.T) {
	s := &session{service: &service{}, wire: newWire(time.Second, 0, nil), crowds: map[string]*queue{}, mark: newMark()}
	node := func(i int) string { return newName(s.mark, 1, driver.Exclusive, 1) + fmt.Sprintf("%010d", i) }
	var crowd []string
	for i := range crowdSize {
		crowd = append(crowd, node(i))
	}
	names := &read{call: call{names: childrenOf(crowd...)}}
	own := driver.Entry{Queue: "/q", ID: "/q/" + crowd[crowdSize-1], Kind: driver.Exclusive}
	q := names.queue("/q", "/q", driver.Exclusive)
	s.remember(q, &own)
	require.False(t, s.first(&own))
	for i := range 10 * crowdSize {
		e := driver.Entry{Queue: "/q", Kind: driver.Exclusive, ID: "/q/" + node(crowdSize+i)}
		if i < crowdSize-1 {
			e.ID = "/q/" + crowd[i]
		}
		s.left(&e)
	}
	require.LessOrEqual(t, len(q.gone), crowdSize)
	require.True(t, s.first(&own))
}

// TestSessionsOfServersWithAHighIDAreNamedAsZooKeeperDoes: the first byte of a session's number is that of the server that opened it.
func TestSessionsOfServersWithAHighIDAreNamedAsZooKeeperDoes(t *testing.T) {
	for owner, name := range map[int64]string{0x100a5c: "0x100a5c", -0x7f00000000000000 + 0xa5c: "0x8100000000000a5c", 0: ""} {
		r := &read{call: call{stat: stat{owner: owner}}}
		require.Equal(t, name, r.fill(driver.Entry{}).Session)
	}
}

package etcd

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/driver"
)

// TestPermitsSayWhoseTheyAre: the name of a permit that knows turns has its lease, and begins with the time.
func TestPermitsSayWhoseTheyAre(t *testing.T) {
	s := &session{lease: 0x694d9f8a3b1c5e07}
	last := ""
	for range 1000 {
		key := beginOf("/a", driver.Permit, 12) + s.permitID()
		require.Greater(t, key, last, "also in the same microsecond")
		last = key
	}
	require.Regexp(t, "^/a/s12-[A-Z2-7]{11}t694d9f8a3b1c5e07$", last)
	e, ok := parseEntry("/a", made(last, ""))
	require.True(t, ok)
	require.Equal(t, driver.Permit, e.Kind)
	require.EqualValues(t, 12, e.Units)
	require.True(t, knows(e))
	require.True(t, plain(e), "it is no mutex")
	require.True(t, fromLocks(made(last, "")))
	lease, at, ok := permitName(last)
	require.True(t, ok)
	require.Equal(t, s.lease, lease)
	require.Equal(t, "/a!turn/t694d9f8a3b1c5e07."+at, turnKey(e))
	require.True(t, strings.HasPrefix(turnKey(e), prefix("/a"+turnSuffix)+turnsOf(s.lease)), "where its session hears of it")
	require.Equal(t, line{"/a", driver.Permit}, lineOf("/a", last))
	require.Equal(t, line{"/a", driver.Exclusive}, lineOf("/a", "/a/m-"+turnID(1, 1)))
}

// TestNamesOfOtherPermitsArePlain: those of earlier versions, and what only looks like one.
func TestNamesOfOtherPermitsArePlain(t *testing.T) {
	at := timeText(time.UnixMicro(1_795_000_000_000_000))
	for _, name := range []string{
		"s1-" + newID(driver.Permit), "s1-" + newID(driver.Exclusive), "s1-", "s1", "", "m-" + turnID(7, 1),
		"m-" + permitID(time.Now(), 7), "s0-" + permitID(time.Now(), 7), "s01-" + permitID(time.Now(), 7), "s1-" + permitID(time.Now(), 0),
		"s1-" + at + "t0000000000000000", "s1-" + at + "t00000000000000007", "s1-" + at + "t000000000000007", "s1-" + at + "T0000000000000007",
		"s1-" + at + "t000000000000000A", "s1-" + at + "t8000000000000000", "s1-" + at + "t+000000000000007", "s1-" + strings.ToLower(at) + "t0000000000000007",
	} {
		require.False(t, knows(driver.Entry{Queue: "/a", ID: "/a/" + name}), name)
	}
	require.True(t, knows(driver.Entry{Queue: "/a", ID: "/a/s1-" + at + "t0000000000000007"}))
}

// FuzzPermitName: there is one way to write a name, and what is written is read.
func FuzzPermitName(f *testing.F) {
	at := timeText(time.UnixMicro(1_795_000_000_000_000))
	for _, name := range []string{"s1-" + at + "t694d9f8a3b1c5e07", "s1-" + at + "t0000000000000000", "s1-" + newID(driver.Permit), "m-t1.0000000001"} {
		f.Add(name, int64(1_795_000_000_000_000), int64(7), int64(2))
	}
	f.Fuzz(func(t *testing.T, name string, micros, number, units int64) {
		if lease, at, ok := permitName(name); ok {
			_, n := parseKind(name[strings.LastIndexByte(name, '/')+1:])
			text := prefix("/q") + kindText(driver.Permit, n) + "-" + at + permitID(time.UnixMicro(0), lease)[timeLen:]
			require.Equal(t, prefix("/q")+name[strings.LastIndexByte(name, '/')+1:], text)
		}
		if micros >= 0 && micros < 1<<55 && number > 0 && units > 0 {
			e, ok := parseEntry("/q", made(beginOf("/q", driver.Permit, units)+permitID(time.UnixMicro(micros), clientv3.LeaseID(number)), ""))
			require.True(t, ok)
			require.Equal(t, units, e.Units)
			lease, at, ok := permitName(e.ID)
			require.True(t, ok)
			require.EqualValues(t, number, lease)
			require.Equal(t, timeText(time.UnixMicro(micros)), at)
		}
	})
}

// permit is an entry of so many units that was made at a revision; a plain one if turns is false.
func permit(units, revision int64, turns bool) driver.Entry {
	e := driver.Entry{Queue: "/q", ID: beginOf("/q", driver.Permit, units), Kind: driver.Permit, Units: units, Revision: revision}
	if turns {
		e.ID += permitID(time.UnixMicro(revision), 7)
	} else {
		e.ID += newID(driver.Permit)
	}
	return e
}

func TestLetIn(t *testing.T) {
	p := func(units, revision int64) driver.Entry { return permit(units, revision, true) }
	mutex := driver.Entry{Queue: "/q", ID: "/q/m-" + turnID(7, 1), Kind: driver.Exclusive, Units: 1, Revision: 4}
	for _, row := range []struct {
		name  string
		size  int64
		left  []driver.Entry
		gone  driver.Entry
		letIn []int64
	}{
		{"none waits", 3, []driver.Entry{p(1, 2), p(1, 3)}, p(1, 1), nil},
		{"the next", 3, []driver.Entry{p(1, 2), p(1, 3), p(1, 4), p(1, 5)}, p(1, 1), []int64{4}},
		{"out of order", 3, []driver.Entry{p(1, 1), p(1, 2), p(1, 4), p(1, 5)}, p(1, 3), []int64{4}},
		{"several", 3, []driver.Entry{p(1, 2), p(1, 3), p(1, 4), p(1, 5)}, p(3, 1), []int64{2, 3, 4}},
		{"a large one has no room", 3, []driver.Entry{p(1, 2), p(1, 3), p(2, 4), p(1, 5)}, p(1, 1), nil},
		{"a waiter that gives up", 2, []driver.Entry{p(1, 1), p(1, 3), p(1, 4)}, p(2, 2), []int64{3}},
		{"one behind all that fit", 2, []driver.Entry{p(1, 1), p(1, 2), p(1, 3)}, p(1, 4), nil},
		{"one that asks for more than there is", 2, []driver.Entry{p(1, 1), p(1, 3)}, p(math.MaxInt64, 2), []int64{3}},
		{"and one that waits", 2, []driver.Entry{p(1, 2), p(math.MaxInt64, 3), p(1, 4)}, p(1, 1), nil},
		{"plain ones watch", 2, []driver.Entry{permit(1, 2, false), p(1, 3)}, p(2, 1), []int64{3}},
		{"none fits behind what is no permit", 4, []driver.Entry{p(1, 2), mutex, p(1, 5)}, p(1, 1), nil},
		{"nor without a size", 0, []driver.Entry{p(1, 2), p(1, 3)}, p(1, 1), nil},
		{"the largest size", math.MaxInt64, []driver.Entry{p(1, 2), p(1, 3)}, p(math.MaxInt64, 1), []int64{2, 3}},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.letIn, revisions(letIn(row.size, row.left, row.gone)))
		})
	}
	require.Equal(t, []int64{1, 2}, revisions(fitting(3, []driver.Entry{p(1, 1), p(2, 2), p(1, 3)})))
	require.Equal(t, []int64{1}, revisions(fitting(math.MaxInt64, []driver.Entry{p(1, 1)})))
}

func revisions(list []driver.Entry) (revisions []int64) {
	for _, e := range list {
		revisions = append(revisions, e.Revision)
	}
	return revisions
}

// TestEachIsLetInOnce: in a history of joins and removals, in any order, each that did not fit when it joined is let in by one removal, and by
// the one after which it fits.
func TestEachIsLetInOnce(t *testing.T) {
	fits := func(size int64, queue []driver.Entry, e driver.Entry) bool {
		ahead := int64(0)
		for _, other := range queue {
			if other.Revision < e.Revision {
				ahead += other.Units
			}
		}
		return ahead+e.Units <= size
	}
	for range 2000 {
		size := 1 + rand.Int64N(6)
		var queue []driver.Entry
		waits := map[int64]bool{}
		for revision := int64(1); revision < 40; revision++ {
			if len(queue) == 0 || rand.N(2) == 0 {
				e := permit(1+rand.Int64N(size), revision, true)
				waits[revision] = !fits(size, queue, e)
				queue = append(queue, e)
				continue
			}
			i := rand.N(len(queue))
			gone := queue[i]
			queue = slices.Delete(queue, i, i+1)
			var want []int64
			for _, e := range queue {
				if waits[e.Revision] && fits(size, queue, e) {
					want = append(want, e.Revision)
					waits[e.Revision] = false
				}
			}
			slices.SortFunc(want, cmp.Compare[int64])
			require.Equal(t, want, revisions(letIn(size, queue, gone)))
		}
	}
}

// TestSizeInTheRegister is what package recipe writes, and nothing else.
func TestSizeInTheRegister(t *testing.T) {
	for value, size := range map[string]int64{"8 8": 8, "8 3": 3, "": 0, "8": 0, "x y": 0, "8 x": 0, "9223372036854775808 1": 0} {
		require.Equal(t, size, sizeIn(driver.Register{Value: value, Version: 1}), value)
	}
}

// TestPermitAwaitsItsTurnOnlyAmongThoseThatTell: and only if it was shown what it waits by.
func TestPermitAwaitsItsTurnOnlyAmongThoseThatTell(t *testing.T) {
	self, size := permit(1, 9, true), driver.Register{Value: "2 2", Version: 1}
	known, older := permit(1, 1, true), permit(1, 2, false)
	require.True(t, toldByAll(driver.View{Self: self, All: true, Entries: []driver.Entry{known}, Register: size}))
	for name, v := range map[string]driver.View{
		"alone":              {Self: self, All: true, Register: size},
		"not all was shown":  {Self: self, Entries: []driver.Entry{known}, Register: size},
		"behind a plain one": {Self: self, All: true, Entries: []driver.Entry{older, known}, Register: size},
		"behind a mutex":     {Self: self, All: true, Entries: []driver.Entry{{ID: "/q/m-" + turnID(7, 1)}}, Register: size},
		"no size":            {Self: self, All: true, Entries: []driver.Entry{known}},
		"a plain one":        {Self: older, All: true, Entries: []driver.Entry{known}, Register: size},
	} {
		require.False(t, toldByAll(v), name)
	}
}

// A permit waits by a version of the size, and for its turn. Either wakes it, and proves nothing.
func TestHallWakesAPermit(t *testing.T) {
	s := &session{spare: newSpare(), lease: 7}
	s.watching = newStream(t.Context(), 0)
	h := newHall("/q", 7)
	h.of.since = 10
	h.size = watch{key: sizeKey("/q"), of: &h.of, hall: h}
	s.watching.halls = map[string]*hall{"/q": h}
	tell := func(w *watch, key string, at int64) {
		require.NoError(t, h.hear(s, s.watching, w, &pb.WatchResponse{Events: []*mvccpb.Event{
			{Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: at}},
		}}))
	}
	e := permit(1, 20, true)
	size := func(version int64) []driver.Target {
		return []driver.Target{{What: driver.Turn}, {Entry: driver.Entry{Queue: "/q", Version: version}, What: driver.Registered}}
	}
	woken := func(at *seat) bool {
		woken, proof, ready, err := s.turnAt(t.Context(), at, false)
		require.NoError(t, err)
		require.Nil(t, proof)
		require.NotEqual(t, woken, ready)
		return woken
	}
	tell(&h.size, sizeKey("/q"), 15)
	first := s.enter(&e, size(15))
	require.False(t, woken(first), "it has seen that size")
	tell(&h.size, sizeKey("/q"), 21)
	require.True(t, woken(first))
	first.exit()
	second := s.enter(&e, size(21))
	require.False(t, woken(second), "it has set it itself")
	tell(&h.all, turnKey(permit(1, 19, true)), 22)
	require.False(t, woken(second), "another's")
	tell(&h.all, turnKey(e), 23)
	require.True(t, woken(second))
	second.exit()
	s.forget(permit(1, 19, true))
	require.NotEmpty(t, h.came, "a wait that is repeated is told once more")
	s.forget(e)
	require.Empty(t, h.came)
}

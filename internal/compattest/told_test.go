package compattest

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/earlier"
	"github.com/farsync/farsync/internal/suite"
)

// telling is a commit in which whoever releases units of a semaphore on etcd tells the waiters that it lets in.
const telling = "064467b1f81ce6c9e9b285e656f54129988c28be"

// toldKey is the key of a permit of that version.
var toldKey = regexp.MustCompile(`/s[0-9]+-[A-Z2-7]{11}t[0-9a-f]{16} = `)

// TestToldPermitsShareQueues: permits of both versions stand in one queue, and each waiter is served in its turn, whoever
// makes room for it.
func TestToldPermitsShareQueues(t *testing.T) {
	suite.Long(t, suite.Etcd, "builds an earlier farsync, and contenders of both versions race")
	endpoint := embedtest.Etcd(t).Endpoint()
	written := etcdWritten(t, endpoint)
	executables := map[string]string{"old": earlier.Program(t, telling, "./internal/compattest/old", map[string]string{
		"internal/compattest/player.go":   "player.go",
		"internal/compattest/old/main.go": "testdata/main.go",
	}), "new": newPlayer(t)}
	open := func(version, name string) *process {
		return start(t, executables[version], Settings{Backend: "etcd", Server: endpoint, Holder: version + " " + name, TTL: longTTL})
	}
	old, recent := []*process{open("old", "1"), open("old", "2")}, []*process{open("new", "1"), open("new", "2")}
	old1, old2, new1, new2 := old[0].in(t), old[1].in(t), recent[0].in(t), recent[1].in(t)
	agree := func(path string, n int) []string {
		t.Helper()
		seen := old1.sees(path, 2, n)
		require.Equal(t, seen, new1.sees(path, 2, n))
		return seen
	}

	path := "/told/one"
	acquire := func(units int64) Move { return Move{Do: "acquire", Path: path, Size: 2, Units: units} }
	first := old1.get(acquire(2))
	told := old2.begin(acquire(1))
	agree(path, 2)
	recent1 := new1.begin(acquire(1))
	agree(path, 3)
	behind := old1.begin(acquire(1)) // it watches, for not all that is ahead tells
	agree(path, 4)
	last := new2.begin(acquire(2))
	holds(t, agree(path, 5), 1)
	keys := slices.DeleteFunc(written(t, path), func(line string) bool { return !strings.HasPrefix(line, "/s") })
	require.Len(t, keys, 5)
	require.Len(t, slices.DeleteFunc(keys, func(line string) bool { return !toldKey.MatchString(line) }), 3, "those of the earlier version")
	first.release()
	told.got()
	recent1.got()
	holds(t, agree(path, 4), 2)
	told.release()
	behind.got()
	holds(t, agree(path, 3), 2)
	last.waits()
	behind.release()
	recent1.release()
	last.got()
	told = old2.begin(acquire(1))
	agree(path, 2)
	recent1 = new1.begin(acquire(1))
	holds(t, agree(path, 3), 1)
	last.release()
	told.got().release()
	recent1.got().release()
	agree(path, 0)

	// A waiter that awaits its turn hears of a size that the other version sets. A waiter of this version hears of one ahead
	// of it that gives up.
	path = "/told/size"
	first = old1.get(acquire(2))
	told = old2.begin(acquire(1))
	agree(path, 2)
	new1.do(Move{Do: "resize", Path: path, Size: 2, Units: 3})
	told.got()
	large := old1.begin(acquire(3))
	agree(path, 3)
	recent1 = new2.begin(acquire(1))
	agree(path, 4)
	told.release()
	agree(path, 3)
	recent1.waits()
	large.giveUp()
	recent1.got().release()
	first.release()
	agree(path, 0)

	for _, m := range mixes {
		if m.name == "semaphore" {
			m.run(t, "/told/mix", slices.Concat(old, recent))
		}
	}
	require.Empty(t, slices.DeleteFunc(written(t, "/told/mix"), func(line string) bool { return strings.HasPrefix(line, "!size/") }))
}

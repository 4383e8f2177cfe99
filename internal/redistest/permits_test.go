package redistest_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// upkeep are commands of a client's connections, which are made and looked after at any time: a subscription that has
// been quiet for 3 s has to show that it is alive.
var upkeep = []string{"client", "hello", "info", "ping", "ssubscribe", "sunsubscribe"}

// commands returns how often the server has carried out each command, in scripts or not, but for the upkeep.
func commands(t testing.TB, admin *client.Client) map[string]int {
	text, err := admin.Info(within(t, soon), "commandstats").Result()
	require.NoError(t, err)
	calls := map[string]int{}
	for line := range strings.Lines(text) {
		line, found := strings.CutPrefix(line, "cmdstat_")
		name, fields, _ := strings.Cut(line, ":")
		if of, _, _ := strings.Cut(name, "|"); !found || slices.Contains(upkeep, of) {
			continue
		}
		var n int
		_, err := fmt.Sscanf(fields, "calls=%d,", &n)
		require.NoError(t, err)
		calls[name] = n
	}
	return calls
}

// TestPermitsCostTheSameWhateverTheSize counts the commands of a join and of a leave in semaphores that are full, with as
// many waiting as hold.
func TestPermitsCostTheSameWhateverTheSize(t *testing.T) {
	large := 100
	if suite.More(t, suite.Redis) {
		large = 1000
	}
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	create := func(queue string) driver.Entry {
		e := driver.Entry{Queue: queue, Kind: driver.Permit, Units: 1, Value: []byte("x"), Since: time.Now()}
		e.ID = in.NewID(queue, e.Kind, e.Units)
		v, err := in.Create(within(t, soon), e, 0)
		require.NoError(t, err)
		return v.Self
	}
	total := func() (n int) {
		for _, calls := range commands(t, admin) {
			n += calls
		}
		return n
	}
	var cost []int
	for _, size := range []int{10, large} {
		queue := "/permits/" + strconv.Itoa(size)
		_, err := in.SetRegister(within(t, soon), queue, fmt.Sprint(size, " ", size), 0, driver.Entry{})
		require.NoError(t, err)
		first := create(queue)
		for range 2*size - 1 {
			create(queue)
		}
		before := total()
		const times = 8
		for range times {
			last := create(queue)
			v, err := in.Ahead(within(t, soon), last, true)
			require.NoError(t, err)
			require.Len(t, v.Entries, 1)
			_, found, err := in.Delete(within(t, soon), last)
			require.NoError(t, err)
			require.True(t, found)
		}
		_, found, err := in.Delete(within(t, soon), first) // grants to one
		require.NoError(t, err)
		require.True(t, found)
		cost = append(cost, total()-before)
		t.Logf("size %d: %d commands", size, cost[len(cost)-1])
	}
	require.Equal(t, cost[0], cost[1])
}

// TestPermitsAreServedInTurn has holders of several units come and go, give up, and be resized.
func TestPermitsAreServedInTurn(t *testing.T) {
	suite.Long(t, suite.Redis, "a crowd that gives up after 2 ms")
	t.Parallel()
	server := embedtest.Redis(t)
	const size = 8
	section := locktest.NewSection(t, size)
	var all sync.WaitGroup
	for i := range 3 {
		store := newStore(t, server.Endpoint(), fresh(time.Minute))
		sem := farsync.NewSemaphore(store, "/permits", size)
		for j := range 8 {
			units := int64((i+j)%3 + 1)
			all.Go(func() {
				for k := range 20 {
					limit := soon
					if k%5 == 4 {
						limit = 2 * time.Millisecond // gives up
					}
					lease, err := sem.Acquire(within(t, limit), units)
					if err != nil {
						if limit == soon {
							t.Errorf("stranded: %v", err)
						}
						continue
					}
					section.Visit(t.Context(), lease, units)
					if err := lease.Release(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	visits, most := section.Visits()
	t.Log(visits, "visits, at most", most, "units at once")
	require.Greater(t, visits, 3*8*16-1)
	admin := newClient(t, server.Endpoint())
	account, err := admin.HMGet(within(t, soon), prefix+"size:/permits", "held", "granted").Result()
	require.NoError(t, err)
	require.Equal(t, []any{"0", "0"}, account, "nothing is held")
}

// TestManyPermitsAreFreedInPages: the end of a session with more permits than a script grants. As many
// others wait for them.
func TestManyPermitsAreFreedInPages(t *testing.T) {
	size := int64(200)
	if suite.More(t, suite.Redis) {
		size = 1000
	}
	t.Parallel()
	server := embedtest.Redis(t)
	a, b := openSession(t, server.Endpoint(), time.Hour), openSession(t, server.Endpoint(), time.Hour)
	_, err := a.SetRegister(within(t, soon), "/many", fmt.Sprint(size, " ", size), 0, driver.Entry{})
	require.NoError(t, err)
	create := func(in driver.Session, units int64) driver.Entry {
		e := driver.Entry{Queue: "/many", Kind: driver.Permit, Units: units}
		e.ID = in.NewID("/many", e.Kind, units)
		v, err := in.Create(within(t, soon), e, 0)
		require.NoError(t, err)
		return v.Self
	}
	for range size {
		create(a, 1)
	}
	var waiting []driver.Entry
	for range size {
		waiting = append(waiting, create(b, 1))
	}
	require.NoError(t, a.Close(within(t, soon)))
	for _, e := range waiting {
		v, err := b.Ahead(within(t, soon), e, true)
		require.NoError(t, err)
		for _, other := range v.Entries {
			require.Zero(t, other.Units, "granted")
		}
	}
	// And one that frees all units at once.
	for _, e := range waiting {
		_, _, err := b.Delete(within(t, soon), e)
		require.NoError(t, err)
	}
	whole := create(b, size)
	waiting = waiting[:0]
	for range size {
		waiting = append(waiting, create(b, 1))
	}
	_, _, err = b.Delete(within(t, soon), whole)
	require.NoError(t, err)
	granted, err := newClient(t, server.Endpoint()).HGet(within(t, soon), prefix+"size:/many", "granted").Result()
	require.NoError(t, err)
	require.Equal(t, strconv.FormatInt(size, 10), granted, "all, although a script grants to 128")
}

// TestPermitWhoseHashWasRemovedByHand: its units are free again once it is the oldest.
func TestPermitWhoseHashWasRemovedByHand(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin, in := newClient(t, server.Endpoint()), openSession(t, server.Endpoint(), time.Hour)
	_, err := in.SetRegister(within(t, soon), "/hand", "3 3", 0, driver.Entry{})
	require.NoError(t, err)
	var held []driver.Entry
	for range 3 {
		held = append(held, create(t, in, "/hand", driver.Permit).Self)
	}
	waits := create(t, in, "/hand", driver.Permit)
	require.Len(t, waits.Entries, 1)
	require.Positive(t, waits.Entries[0].Units)
	// The waiter is told although it is shown that it holds: an earlier look of it may be answered after this one.
	session := admin.HGet(within(t, soon), prefix+"e:"+waits.Self.ID, "session").Val()
	told := admin.SSubscribe(within(t, soon), prefix+"c:"+session)
	t.Cleanup(func() { _ = told.Close() })
	_, err = told.Receive(within(t, soon))
	require.NoError(t, err)
	for i, want := range []struct{ held, granted string }{{"3", "3"}, {"2", "2"}} {
		require.NoError(t, admin.Del(within(t, soon), prefix+"e:"+held[i].ID).Err())
		v, err := in.Ahead(within(t, soon), waits.Self, true)
		require.NoError(t, err)
		for _, other := range v.Entries {
			require.Zero(t, other.Units, "granted")
		}
		require.Equal(t, []any{want.held, want.granted},
			admin.HMGet(within(t, soon), prefix+"size:/hand", "held", "granted").Val())
	}
	message, err := told.ReceiveMessage(within(t, soon))
	require.NoError(t, err)
	require.Equal(t, waits.Self.ID, message.Payload)
	for _, e := range []driver.Entry{waits.Self, held[2]} {
		_, found, err := in.Delete(within(t, soon), e)
		require.NoError(t, err)
		require.True(t, found)
	}
	require.Equal(t, []any{"0", "0"}, admin.HMGet(within(t, soon), prefix+"size:/hand", "held", "granted").Val())
}

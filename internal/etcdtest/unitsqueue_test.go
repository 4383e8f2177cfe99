package etcdtest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

const sizeOfUnits = 4

// contendForUnits makes one attempt, of one sort or another, to be in the section with some units.
func contendForUnits(t *testing.T, store *farsync.Store, path string, section *locktest.Section) {
	sem := farsync.NewSemaphore(store, path, sizeOfUnits)
	acquire := sem.Acquire
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	switch rand.N(6) {
	case 0:
		acquire = sem.TryAcquire
	case 1:
		ctx, cancel = context.WithTimeout(ctx, rand.N(10*time.Millisecond))
		defer cancel()
	}
	units := 1 + rand.Int64N(3)
	lease, err := acquire(ctx, units)
	switch {
	case errors.Is(err, farsync.ErrLocked), err != nil && ctx.Err() != nil && t.Context().Err() == nil && mustNotHang(t, ctx):
	case err != nil:
		t.Error(err)
	default:
		section.Enter(lease, units)()
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
	}
}

// TestContendersForUnits acquire some units, try, give up and close their Stores, and all who wait are served.
func TestContendersForUnits(t *testing.T) {
	suite.Long(t, suite.Etcd, "up to 32 contenders race")
	for _, contenders := range []int{2, 5, 12, 32} {
		t.Run(fmt.Sprint(contenders), func(t *testing.T) {
			server, admin := begin(t)
			path := newPath(t)
			section := locktest.NewSection(t, sizeOfUnits)
			var all sync.WaitGroup
			for range contenders {
				all.Go(func() {
					store := newStore(t, server.Endpoint(), unaided)
					for range 40 {
						contendForUnits(t, store, path, section)
						if rand.N(20) == 0 {
							_ = store.Close()
							store = newStore(t, server.Endpoint(), unaided)
						}
					}
				})
			}
			all.Wait()
			require.Empty(t, section.Overlaps())
			spent(t, admin, path)
		})
	}
}

// TestContendersForUnitsWhileTheSizeChanges hear of each size that is set.
func TestContendersForUnitsWhileTheSizeChanges(t *testing.T) {
	suite.Long(t, suite.Etcd, "12 contenders race while the size changes")
	server, admin := begin(t)
	path := newPath(t)
	const most = 3 * sizeOfUnits
	section := locktest.NewSection(t, most) // a smaller size takes nothing from those that hold
	ctx, cancel := context.WithCancel(t.Context())
	var all, sizes sync.WaitGroup
	sizes.Go(func() {
		sem := farsync.NewSemaphore(newStore(t, server.Endpoint(), unaided), path, sizeOfUnits)
		for ctx.Err() == nil {
			if err := sem.Resize(ctx, 3+rand.Int64N(most-2)); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	for range 12 {
		all.Go(func() {
			store := newStore(t, server.Endpoint(), unaided)
			for range 40 {
				contendForUnits(t, store, path, section)
			}
		})
	}
	all.Wait()
	cancel()
	sizes.Wait()
	require.Empty(t, section.Overlaps())
	spent(t, admin, path)
}

// TestLostAnswersForgetNobodyWhoWaitsForUnits: the answers to joins, releases and looks are lost below the policy, or come
// late.
func TestLostAnswersForgetNobodyWhoWaitsForUnits(t *testing.T) {
	suite.Long(t, suite.Etcd, "contenders race while answers are lost")
	for _, kind := range []farsynctest.OpKind{farsynctest.Create, farsynctest.Delete, farsynctest.Watch, farsynctest.Ahead} {
		for name, fault := range map[string]farsynctest.Fault{
			"request lost": farsynctest.LoseRequest, "reply lost": farsynctest.LoseReply, "late": farsynctest.Late(3),
		} {
			t.Run(fmt.Sprint(kind, ", ", name), func(t *testing.T) {
				server, admin := begin(t)
				path := newPath(t)
				section := locktest.NewSection(t, sizeOfUnits)
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						store, err := farsync.Open(t.Context(), injected(t, server.Endpoint(), func(op farsynctest.Op) farsynctest.Fault {
							if op.Kind == kind && rand.N(3) == 0 {
								return fault
							}
							return farsynctest.None
						}), &unaided.Options)
						require.NoError(t, err)
						defer func() { require.NoError(t, store.Close()) }()
						for range 15 {
							contendForUnits(t, store, path, section)
						}
					})
				}
				all.Wait()
				require.Empty(t, section.Overlaps())
				spent(t, admin, path)
			})
		}
	}
}

func injected(t testing.TB, endpoint string, fault func(op farsynctest.Op) farsynctest.Fault) driver.Service {
	service, err := etcd.NewService(newClient(t, endpoint))
	require.NoError(t, err)
	return farsynctest.Inject(service, farsynctest.InjectorFunc(func(_ context.Context, op farsynctest.Op) farsynctest.Fault { return fault(op) }))
}

// acquireBehind acquires a unit in the background.
func acquireBehind(t *testing.T, store *farsync.Store, path string, size int64) chan *farsync.Lease {
	granted := make(chan *farsync.Lease, 1)
	go func() { // ends when it has acquired, or when the Store is closed
		lease, err := farsync.NewSemaphore(store, path, size).Acquire(context.Background(), 1)
		if err == nil {
			granted <- lease
		} else {
			assert.ErrorIs(t, err, farsync.ErrClosed)
		}
	}()
	return granted
}

// takes appends a permit of a session of its own.
func (r row) takes(units int64) *stander { return r.takesIn(r.open(), units) }

func (r row) takesIn(in session, units int64) *stander {
	p := &stander{session: in, row: r}
	e := in.entry(r.queue, driver.Permit)
	e.ID, e.Units = in.NewID(r.queue, driver.Permit, units), units
	p.create(e)
	return p
}

// TestWhatWakesAWaiterForUnits: no driver looks by itself, so each of these has to end the watch.
func TestWhatWakesAWaiterForUnits(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(r row, holder *stander, told driver.Entry, size int64)
	}{
		{"a release", func(_ row, holder *stander, _ driver.Entry, _ int64) { holder.leave() }},
		{"the end of a session", func(r row, holder *stander, _ driver.Entry, _ int64) {
			require.NoError(r, holder.Close(r.Context()))
		}},
		{"a release of a permit of an earlier version", func(r row, _ *stander, told driver.Entry, _ int64) { r.remove(told) }},
		{"the end of its session", func(r row, _ *stander, told driver.Entry, _ int64) {
			for _, kv := range keysOf(r, r.admin, r.queue) {
				if string(kv.Key) == told.ID {
					revokeLeaseOf(r, r.admin, kv)
				}
			}
		}},
		{"another size", func(r row, holder *stander, _ driver.Entry, size int64) {
			_, err := holder.SetRegister(r.Context(), r.queue, "3 3", size, driver.Entry{})
			require.NoError(r, err)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRow(t)
			holder := r.takes(1)
			size, err := holder.SetRegister(t.Context(), r.queue, "2 2", 0, driver.Entry{})
			require.NoError(t, err)
			told := r.put("s1-34567ABCDEFt694d8af1b3c2a017")
			waiter := r.takes(1)
			require.True(t, waiter.v.All)
			require.False(t, waiter.v.Turn)
			require.Regexp(t, "/s1-[A-Z2-7]{26}$", waiter.v.Self.ID)
			require.Equal(t, driver.Register{Value: "2 2", Version: size}, waiter.v.Register)
			var on []driver.Target
			for _, e := range slices.Backward(waiter.v.Entries) {
				require.Equal(t, driver.Permit, e.Kind)
				require.EqualValues(t, 1, e.Units)
				on = append(on, driver.Target{Entry: e})
			}
			require.Len(t, on, 2)
			on = append(on, driver.Target{Entry: driver.Entry{Queue: r.queue, Version: size}, What: driver.Registered})
			stands, woken := make(chan struct{}), make(chan error, 1)
			ctx := within(t, soon)
			go func() { // joined below
				proof, err := waiter.Watch(ctx, waiter.v.Self, on, sync.OnceFunc(func() { close(stands) }))
				assert.Nil(t, proof)
				woken <- err
			}()
			select {
			case <-stands:
			case err := <-woken:
				t.Fatalf("the watch ended before anything had changed: %v", err)
			}
			row.do(r, holder, told, size)
			require.NoError(t, <-woken)
		})
	}
}

// TestUnitsOfALongQueue: a join behind more than a page of keys shows nothing, and the look after it shows all.
func TestUnitsOfALongQueue(t *testing.T) {
	r := newRow(t)
	in := r.open()
	size, err := in.SetRegister(t.Context(), r.queue, "2 2", 0, driver.Entry{})
	require.NoError(t, err)
	const long = 130
	var all []*stander
	for range long {
		all = append(all, r.takesIn(in, 1))
	}
	last := r.takes(1)
	require.False(t, last.v.All || last.v.Turn)
	require.Empty(t, last.v.Entries)
	v, err := last.Ahead(t.Context(), last.v.Self, true)
	require.NoError(t, err)
	require.True(t, v.All)
	require.Equal(t, driver.Register{Value: "2 2", Version: size}, v.Register)
	require.Len(t, v.Entries, long)
	for i, e := range v.Entries {
		require.Equal(t, all[i].v.Self.ID, e.ID, "oldest first")
	}
}

// TestPermitsAreNoneOfAMutex: a permit that has joined a queue of mutexes by mistake is given no turn there, and takes none
// from the next.
func TestPermitsAreNoneOfAMutex(t *testing.T) {
	r := newRow(t)
	a, b := r.alone(), r.takes(1)
	require.False(t, b.v.Turn)
	c := r.joins()
	require.False(t, c.v.Turn, "it looks, and watches")
	a.leave()
	r.turns()
	b.leave()
	r.turns()
	c.leave()
	r.turns()
}

// TestCloseLetsInWhoWaitsForUnits: a program releases and ends at once, or ends while it holds or waits for units.
func TestCloseLetsInWhoWaitsForUnits(t *testing.T) {
	for _, name := range []string{"released", "held", "waits"} {
		t.Run(name, func(t *testing.T) {
			server, admin := begin(t)
			path := newPath(t)
			open := func() *farsync.Store { return newStore(t, server.Endpoint(), unaided) }
			store, others := open(), open()
			first, err := farsync.NewSemaphore(others, path, 2).Acquire(t.Context(), 2)
			require.NoError(t, err)
			closed := make(chan struct{})
			got2 := make(chan *farsync.Lease, 1)
			go func() {
				defer close(closed)
				lease, err := farsync.NewSemaphore(store, path, 2).Acquire(t.Context(), 2)
				if err == nil {
					got2 <- lease
				} else {
					assert.ErrorIs(t, err, farsync.ErrClosed)
				}
			}()
			awaitKeys(t, admin, path, 2)
			third := acquireBehind(t, open(), path, 2)
			awaitKeys(t, admin, path, 3)
			fourth := acquireBehind(t, open(), path, 2)
			awaitKeys(t, admin, path, 4)
			switch name {
			case "released":
				require.NoError(t, first.Release())
				require.NoError(t, got(t, got2).Release())
				require.NoError(t, store.Close())
			case "held":
				require.NoError(t, first.Release())
				got(t, got2)
				require.NoError(t, store.Close())
			case "waits":
				require.NoError(t, store.Close())
				require.NoError(t, first.Release())
			}
			a, b := got(t, third), got(t, fourth)
			require.NoError(t, a.Release())
			require.NoError(t, b.Release())
			<-closed
			spent(t, admin, path)
		})
	}
}

// TestPermitsOfEarlierStores: they name their lease, and have keys beside the queue that name it, too. They count, and a
// queue in which no others stand is listed.
func TestPermitsOfEarlierStores(t *testing.T) {
	server, admin := begin(t)
	path := newPath(t)
	store := newStore(t, server.Endpoint(), nil)
	sem := farsync.NewSemaphore(store, path, 3)
	first, err := sem.Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, first.Release(), "the size is declared")
	granted, err := admin.Grant(t.Context(), 600)
	require.NoError(t, err)
	const at = "34567ABCDEF"
	lease := fmt.Sprintf("%016x", int64(granted.ID))
	for _, key := range []string{
		path + "/s2-" + at + "t" + lease, path + "!turn/t" + strings.TrimLeft(lease, "0") + "." + at,
	} {
		_, err := admin.Put(t.Context(), key, "", clientv3.WithLease(granted.ID))
		require.NoError(t, err)
	}
	shown := map[string]int64{}
	for queue, err := range store.Survey(t.Context(), path) {
		require.NoError(t, err)
		require.Len(t, queue.Participants, 1)
		shown[queue.Path] = queue.Participants[0].Units
	}
	require.Equal(t, map[string]int64{path: 2}, shown, "the key of a turn is no queue")
	_, err = sem.TryAcquire(t.Context(), 2)
	require.ErrorIs(t, err, farsync.ErrLocked)
	last, err := sem.TryAcquire(t.Context(), 1)
	require.NoError(t, err, "a unit is left")
	require.NoError(t, last.Release())
	all := make(chan *farsync.Lease, 1)
	go func() { // ends when it has acquired
		lease, err := sem.Acquire(t.Context(), 3)
		assert.NoError(t, err)
		all <- lease
	}()
	awaitKeys(t, admin, path, 2)
	_, err = admin.Revoke(t.Context(), granted.ID)
	require.NoError(t, err)
	require.NoError(t, got(t, all).Release())
	spent(t, admin, path)
}

// TestUsersOfUnitsAreGivenNoTurns: where users have rights of their own, a semaphore needs no key but its size and those
// in its queue.
func TestUsersOfUnitsAreGivenNoTurns(t *testing.T) {
	server, admin := beginAlone(t)
	r := newRealm(t, server, admin)
	path := "/locks/units"
	store := storeOn(t, r.as("root"), unaided)
	first, err := farsync.NewSemaphore(store, path, 1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	waits := acquireBehind(t, storeOn(t, r.as("root"), unaided), path, 1)
	awaitQueue(t, store, path, 2)
	for _, kv := range keysOf(t, r.root, path) {
		require.NotContains(t, strings.TrimPrefix(string(kv.Key), path), "t")
	}
	require.NoError(t, first.Release())
	require.NoError(t, got(t, waits).Release())
	require.Empty(t, keysOf(t, r.root, path+"!turn"))
}

package etcdtest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
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

// TestNoneNeedsToLookForUnits: contenders that acquire some units, try, give up and close their Stores, and none of those that wait looks by
// itself.
func TestNoneNeedsToLookForUnits(t *testing.T) {
	suite.Long(t, suite.Etcd, "up to 32 contenders race")
	for _, row := range []struct{ contenders, plain int }{{2, 0}, {5, 0}, {12, 0}, {32, 0}, {9, 3}} {
		t.Run(fmt.Sprintf("%d, %d of them plain", row.contenders, row.plain), func(t *testing.T) {
			server, admin := begin(t)
			path := newPath(t)
			section := locktest.NewSection(t, sizeOfUnits)
			var all sync.WaitGroup
			for i := range row.contenders {
				all.Go(func() {
					if i < row.plain {
						store := newPlain(t, server.Endpoint())
						for range 40 {
							contendForUnits(t, store, path, section)
						}
						return
					}
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

// TestNoneNeedsToLookWhileTheSizeChanges: those that wait for their turns hear of each size that is set.
func TestNoneNeedsToLookWhileTheSizeChanges(t *testing.T) {
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

// TestLostAnswersTellThoseThatAreLetIn: the answers to joins, releases and touches are lost below the policy, or come late, and none has to
// look by itself.
func TestLostAnswersTellThoseThatAreLetIn(t *testing.T) {
	suite.Long(t, suite.Etcd, "contenders race while answers are lost")
	for _, kind := range []storetest.OpKind{storetest.Create, storetest.Delete, storetest.Touch, storetest.Watch, storetest.Ahead} {
		for name, fault := range map[string]storetest.Fault{
			"request lost": storetest.LoseRequest, "reply lost": storetest.LoseReply, "late": storetest.Late(3),
		} {
			t.Run(fmt.Sprint(kind, ", ", name), func(t *testing.T) {
				server, admin := begin(t)
				path := newPath(t)
				section := locktest.NewSection(t, sizeOfUnits)
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						store, err := recipe.Open(t.Context(), injected(t, server.Endpoint(), func(op storetest.Op) storetest.Fault {
							if op.Kind == kind && rand.N(3) == 0 {
								return fault
							}
							return storetest.None
						}), unaided.Options)
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

func injected(t testing.TB, endpoint string, fault func(op storetest.Op) storetest.Fault) driver.Service {
	service, err := etcd.NewService(newClient(t, endpoint))
	require.NoError(t, err)
	return storetest.Inject(service, storetest.InjectorFunc(func(_ context.Context, op storetest.Op) storetest.Fault { return fault(op) }))
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

// TestReleaserThatIsKilled removes its permit and tells none: the waiter looks by itself.
func TestReleaserThatIsKilled(t *testing.T) {
	server, admin := begin(t)
	path := newPath(t)
	before := newStore(t, server.Endpoint(), unaided)
	lease, err := farsync.NewSemaphore(before, path, 1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, lease.Release(), "the size is declared")
	killed := openSession(t, newClient(t, server.Endpoint()))
	e := killed.entry(path, driver.Permit)
	v, err := killed.Create(t.Context(), e, 0)
	require.NoError(t, err)
	service, err := etcd.NewService(newClient(t, server.Endpoint()))
	require.NoError(t, err)
	w := targets{service, make(chan driver.Target, 10)}
	store, err := recipe.Open(t.Context(), w, farsync.Options{TTL: 10 * time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	waits := acquireBehind(t, store, path, 1)
	require.Equal(t, driver.Turn, (<-w.on).What)
	left, found, err := killed.Delete(t.Context(), v.Self)
	require.NoError(t, err)
	require.True(t, found)
	require.True(t, left.Turn)
	require.Len(t, left.Entries, 1)
	require.NoError(t, got(t, waits).Release())
	spent(t, admin, path)
}

// TestHolderOfUnitsThatDies tells none. One that has looked by itself watches from then on.
func TestHolderOfUnitsThatDies(t *testing.T) {
	suite.Long(t, suite.Etcd, "waits until a waiter looks by itself, with a TTL of 4 s")
	server, admin := begin(t)
	path := newPath(t)
	one := newStore(t, server.Endpoint(), unaided)
	lease, err := farsync.NewSemaphore(one, path, 2).Acquire(t.Context(), 1)
	require.NoError(t, err)
	dead := openSession(t, newClient(t, server.Endpoint()))
	dead.create(t, path, driver.Permit)
	service, err := etcd.NewService(newClient(t, server.Endpoint()))
	require.NoError(t, err)
	w := targets{service, make(chan driver.Target, 10)}
	store, err := recipe.Open(t.Context(), w, farsync.Options{TTL: 4 * time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	waits := acquireBehind(t, store, path, 2)
	require.Equal(t, driver.Turn, (<-w.on).What)
	require.Equal(t, driver.Gone, (<-w.on).What, "when it has looked")
	revokeLeaseOf(t, admin, keysOf(t, admin, path)[1])
	require.NoError(t, got(t, waits).Release())
	require.NoError(t, lease.Release())
	spent(t, admin, path)
}

// TestCloseTellsThoseThatAreLetIn: a program that releases and ends at once, or that ends while it holds or waits for units.
func TestCloseTellsThoseThatAreLetIn(t *testing.T) {
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

// TestSurveyShowsPermitsThatAreTold: a queue in which only such entries stand is one, and their turns are none.
func TestSurveyShowsPermitsThatAreTold(t *testing.T) {
	server, admin := begin(t)
	path := newPath(t)
	store := newStore(t, server.Endpoint(), unaided)
	first, err := farsync.NewSemaphore(store, path, 2).Acquire(t.Context(), 2)
	require.NoError(t, err)
	waits := acquireBehind(t, newStore(t, server.Endpoint(), unaided), path, 2)
	awaitKeys(t, admin, path, 2)
	require.NoError(t, first.Release())
	second := got(t, waits)
	awaitKeys(t, admin, path+"!turn", 1)
	var queues []farsync.Lock
	for queue, err := range farsync.Survey(t.Context(), store, path) {
		require.NoError(t, err)
		queues = append(queues, queue)
	}
	require.Len(t, queues, 1)
	require.Equal(t, path, queues[0].Path)
	require.NoError(t, second.Release())
	spent(t, admin, path)
}

// TestUsersOfUnitsAreGivenNoTurns: where users have rights of their own, permits are those of earlier versions.
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

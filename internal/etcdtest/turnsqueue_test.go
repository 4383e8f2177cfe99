package etcdtest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// unaided are options with which a waiter that awaits its turn looks by itself after an hour: within a test, none does.
var unaided = ttl(4 * time.Hour)

// newPlain returns a Store whose entries are those of earlier versions: the server does not tell it that authentication is off.
func newPlain(t testing.TB, endpoint string) *farsync.Store {
	f := new(faults)
	f.next("/etcdserverpb.Auth/AuthStatus", refuse(rpctypes.ErrGRPCPermissionDenied))
	store := newStore(t, endpoint, unaided, f.dial()...)
	require.Equal(t, 1, f.calls("/etcdserverpb.Auth/AuthStatus"))
	return store
}

// spent requires that no turn is left in a queue that is empty. A turn that is put behind a release goes with its entry.
func spent(t *testing.T, admin *clientv3.Client, path string) {
	t.Helper()
	awaitKeys(t, admin, path, 0)
	awaitKeys(t, admin, path+"!turn", 0)
}

// TestNoneNeedsToLook: contenders that lock, try, give up and close their Stores, and none of those that wait looks by itself.
func TestNoneNeedsToLook(t *testing.T) {
	suite.Long(t, suite.Etcd, "up to 32 contenders race")
	for _, contenders := range []int{2, 3, 8, 32} {
		t.Run(fmt.Sprint(contenders), func(t *testing.T) {
			server, admin := begin(t)
			path := newPath(t)
			section := locktest.NewSection(t, 1)
			var all sync.WaitGroup
			for range contenders {
				all.Go(func() {
					store := newStore(t, server.Endpoint(), unaided)
					for range 60 {
						contend(t, store, path, section)
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

// contend makes one attempt, of one sort or another, to be in the section.
func contend(t *testing.T, store *farsync.Store, path string, section *locktest.Section) {
	mu := farsync.NewMutex(store, path)
	lock := mu.Lock
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	switch rand.N(6) {
	case 0:
		lock = mu.TryLock
	case 1:
		ctx, cancel = context.WithTimeout(ctx, rand.N(10*time.Millisecond))
		defer cancel()
	}
	lease, err := lock(ctx)
	switch {
	case errors.Is(err, farsync.ErrLocked), err != nil && ctx.Err() != nil && t.Context().Err() == nil && mustNotHang(t, ctx):
	case err != nil:
		t.Error(err)
	default:
		section.Enter(lease, 1)()
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
	}
}

// mustNotHang reports that ctx was the short one.
func mustNotHang(t *testing.T, ctx context.Context) bool {
	if deadline, _ := ctx.Deadline(); time.Since(deadline) >= 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return true
	}
	t.Error("a waiter was not woken")
	return false
}

// TestQueueOfAllPrograms: those of other programs, of earlier versions and of this one stand in one queue, in every order, and are served in
// the order in which they came. None looks by itself.
func TestQueueOfAllPrograms(t *testing.T) {
	type locker struct {
		name string
		lock func(t *testing.T, endpoint, path string) (enter func(context.Context) error, leave func() error)
	}
	ours := func(open func(testing.TB, string) *farsync.Store) func(*testing.T, string, string) (func(context.Context) error, func() error) {
		return func(t *testing.T, endpoint, path string) (func(context.Context) error, func() error) {
			mu := farsync.NewMutex(open(t, endpoint), path)
			var lease *farsync.Lease
			return func(ctx context.Context) (err error) { lease, err = mu.Lock(ctx); return err },
				func() error { return lease.Release() }
		}
	}
	others := func(name string) func(*testing.T, string, string) (func(context.Context) error, func() error) {
		return func(t *testing.T, endpoint, path string) (func(context.Context) error, func() error) {
			p := peers[name](t, newClient(t, endpoint), path)
			return func(ctx context.Context) error { return p.enter(ctx, "") }, func() error { return p.leave(t.Context()) }
		}
	}
	kinds := []locker{
		{"new", ours(func(t testing.TB, endpoint string) *farsync.Store { return newStore(t, endpoint, unaided) })},
		{"plain", ours(newPlain)},
		{"concurrency", others("concurrency.Mutex")},
		{"service", others("lock service")},
	}
	for _, pattern := range []string{"0101", "1010", "0020", "2000", "0002", "00200", "0300", "0012003100", "30020100", "0000200000", "11000"} {
		t.Run(pattern, func(t *testing.T) {
			server, admin := begin(t)
			path := newPath(t)
			served := make(chan int, len(pattern))
			var all sync.WaitGroup
			var first func() error
			for i, digit := range pattern {
				kind := kinds[digit-'0']
				enter, leave := kind.lock(t, server.Endpoint(), path)
				if i == 0 {
					require.NoError(t, enter(t.Context()))
					first = leave
					continue
				}
				ctx := within(t, soon)
				all.Go(func() {
					if err := enter(ctx); err != nil {
						t.Error(i, kind.name, err)
						return
					}
					served <- i
					if err := leave(); err != nil {
						t.Error(i, kind.name, err)
					}
				})
				awaitKeys(t, admin, path, i+1)
			}
			require.NoError(t, first())
			all.Wait()
			close(served)
			last := 0
			for i := range served {
				require.Greater(t, i, last, "served in the order in which they came")
				last = i
			}
			require.Equal(t, len(pattern)-1, last)
			spent(t, admin, path)
		})
	}
}

// TestCloseTellsTheNext: a program that releases and ends at once, or that ends while it holds or waits, leaves the next its turn.
func TestCloseTellsTheNext(t *testing.T) {
	for _, name := range []string{"released", "held", "waits"} {
		t.Run(name, func(t *testing.T) {
			server, admin := begin(t)
			path := newPath(t)
			store := newStore(t, server.Endpoint(), unaided)
			before := newStore(t, server.Endpoint(), unaided)
			others := newStore(t, server.Endpoint(), unaided)
			first := lock(t, before, path)
			second, closed := make(chan *farsync.Lease, 1), make(chan struct{})
			go func() {
				defer close(closed)
				lease, err := farsync.NewMutex(store, path).Lock(t.Context())
				if err == nil {
					second <- lease
				} else {
					assert.ErrorIs(t, err, farsync.ErrClosed)
				}
			}()
			awaitQueue(t, others, path, 2)
			third := lockBehind(t, others, path)
			awaitQueue(t, others, path, 3)
			fourth := lockBehind(t, newStore(t, server.Endpoint(), unaided), path)
			awaitQueue(t, others, path, 4)
			switch name {
			case "released":
				require.NoError(t, first.Release())
				require.NoError(t, got(t, second).Release())
				require.NoError(t, store.Close())
			case "held":
				require.NoError(t, first.Release())
				got(t, second)
				require.NoError(t, store.Close())
			case "waits":
				require.NoError(t, store.Close())
				require.NoError(t, first.Release())
			}
			require.NoError(t, got(t, third).Release())
			require.NoError(t, got(t, fourth).Release())
			<-closed
			spent(t, admin, path)
		})
	}
}

// TestTryThatJoinsTells: it was free when it looked, and taken when it joined. Another joined behind both, and awaits a turn.
func TestTryThatJoinsTells(t *testing.T) {
	server, admin := begin(t)
	path := newPath(t)
	holder, waiter := newStore(t, server.Endpoint(), unaided), newStore(t, server.Endpoint(), unaided)
	var held *farsync.Lease
	var waits chan *farsync.Lease
	// Each once: a request that is not answered in a second is made again.
	var create, leave sync.Once
	service, err := etcd.NewService(newClient(t, server.Endpoint()))
	require.NoError(t, err)
	store, err := farsync.Open(t.Context(), farsynctest.Inject(service, farsynctest.InjectorFunc(func(_ context.Context, op farsynctest.Op) farsynctest.Fault {
		switch op.Kind {
		case farsynctest.Create:
			create.Do(func() { held = lock(t, holder, path) })
		case farsynctest.Delete:
			leave.Do(func() {
				waits = lockBehind(t, waiter, path)
				awaitKeys(t, admin, path, 3)
			})
		}
		return farsynctest.None
	})), &unaided.Options)
	require.NoError(t, err)
	_, err = farsync.NewMutex(store, path).TryLock(t.Context())
	require.ErrorIs(t, err, farsync.ErrLocked)
	require.NoError(t, held.Release())
	require.NoError(t, got(t, waits).Release())
	require.NoError(t, store.Close())
	spent(t, admin, path)
}

// TestLostAnswersTellTheNext: the answers to releases and touches are lost below the policy, or come late, and none has to look by itself.
func TestLostAnswersTellTheNext(t *testing.T) {
	suite.Long(t, suite.Etcd, "contenders race while answers are lost")
	for _, kind := range []farsynctest.OpKind{farsynctest.Create, farsynctest.Delete, farsynctest.Touch} {
		for name, fault := range map[string]farsynctest.Fault{
			"request lost": farsynctest.LoseRequest, "reply lost": farsynctest.LoseReply, "late": farsynctest.Late(3),
		} {
			t.Run(fmt.Sprint(kind, ", ", name), func(t *testing.T) {
				server, admin := begin(t)
				path := newPath(t)
				section := locktest.NewSection(t, 1)
				var all sync.WaitGroup
				for range 6 {
					all.Go(func() {
						service, err := etcd.NewService(newClient(t, server.Endpoint()))
						require.NoError(t, err)
						store, err := farsync.Open(t.Context(), farsynctest.Inject(service, farsynctest.InjectorFunc(
							func(_ context.Context, op farsynctest.Op) farsynctest.Fault {
								if op.Kind == kind && rand.N(3) == 0 {
									return fault
								}
								return farsynctest.None
							})), &unaided.Options)
						require.NoError(t, err)
						defer func() { require.NoError(t, store.Close()) }()
						for range 15 {
							contend(t, store, path, section)
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

// targets notes what sessions watch.
type targets struct {
	driver.Service
	on chan driver.Target
}

func (w targets) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := w.Service.Open(ctx, ttl)
	return targetsSession{in, w}, err
}

type targetsSession struct {
	driver.Session
	of targets
}

func (s targetsSession) Watch(ctx context.Context, e driver.Entry, on []driver.Target, stands func()) (*driver.View, error) {
	return s.Session.Watch(ctx, e, on, func() {
		stands()
		select {
		case s.of.on <- on[0]:
		default:
		}
	})
}

// TestWaiterOfADeadOneLooks: those ahead of it that die tell it nothing. Once it has looked it watches its predecessor to the end, also when
// that was another before.
func TestWaiterOfADeadOneLooks(t *testing.T) {
	suite.Long(t, suite.Etcd, "waits until a waiter looks by itself, with a TTL of 4 s")
	for _, name := range []string{"the holder goes first", "the dead one goes first"} {
		t.Run(name, func(t *testing.T) {
			server, admin := begin(t)
			path := newPath(t)
			first := lock(t, newStore(t, server.Endpoint(), unaided), path)
			dead := openSession(t, newClient(t, server.Endpoint()))
			dead.create(t, path, driver.Exclusive)
			service, err := etcd.NewService(newClient(t, server.Endpoint()))
			require.NoError(t, err)
			w := targets{service, make(chan driver.Target, 10)}
			store, err := farsync.Open(t.Context(), w, &farsync.Options{TTL: 4 * time.Second})
			require.NoError(t, err)
			defer func() { require.NoError(t, store.Close()) }()
			last := lockBehind(t, store, path)
			require.Equal(t, driver.Turn, (<-w.on).What)
			keys := awaitKeys(t, admin, path, 3)
			if name == "the dead one goes first" {
				require.Equal(t, string(keys[1].Key), (<-w.on).Entry.ID, "when it has looked")
				revokeLeaseOf(t, admin, keys[1])
				require.Equal(t, string(keys[0].Key), (<-w.on).Entry.ID)
				require.NoError(t, first.Release())
			} else {
				require.NoError(t, first.Release())
				revokeLeaseOf(t, admin, keys[1])
			}
			require.NoError(t, got(t, last).Release())
			spent(t, admin, path)
		})
	}
}

// late is a driver whose watches tell of a turn when the session has ended by the Store's clock.
type late struct {
	driver.Service
	lost <-chan struct{}
	told chan driver.Entry
	once *sync.Once
}

func (l late) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := l.Service.Open(ctx, ttl)
	return lateSession{in, l}, err
}

type lateSession struct {
	driver.Session
	of late
}

func (s lateSession) Renew(ctx context.Context, prove []driver.Entry) error {
	select {
	case <-s.of.lost:
		return s.Session.Renew(ctx, prove)
	default:
		return errBroken
	}
}

func (s lateSession) Watch(ctx context.Context, e driver.Entry, on []driver.Target, stands func()) (*driver.View, error) {
	if on[0].What != driver.Turn {
		return s.Session.Watch(ctx, e, on, stands)
	}
	proof, err := s.Session.Watch(context.WithoutCancel(ctx), e, on, stands)
	s.of.once.Do(func() {
		s.of.told <- e
		<-s.of.lost
	})
	return proof, err
}

// TestTurnAfterTheEndOfTheSession: it comes when the session has passed its deadline here, and not at the server. It grants nothing.
func TestTurnAfterTheEndOfTheSession(t *testing.T) {
	suite.Long(t, suite.Etcd, "a turn has to come within a TTL of 2 s")
	server, _ := begin(t)
	path := newPath(t)
	first := lock(t, newStore(t, server.Endpoint(), unaided), path)
	second := lockBehind(t, newStore(t, server.Endpoint(), unaided), path)
	service, err := etcd.NewService(newClient(t, server.Endpoint()))
	require.NoError(t, err)
	lost := make(chan struct{})
	l := late{service, lost, make(chan driver.Entry, 1), new(sync.Once)}
	awaitQueue(t, newStore(t, server.Endpoint(), nil), path, 2)
	store, err := farsync.Open(t.Context(), l, &farsync.Options{TTL: 2 * time.Second, OnState: func(s farsync.State) {
		if s == farsync.StateLost {
			close(lost)
		}
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	waits := lockBehind(t, store, path)
	awaitQueue(t, newStore(t, server.Endpoint(), nil), path, 3)
	require.NoError(t, first.Release())
	require.NoError(t, got(t, second).Release())
	e := <-l.told
	lease := got(t, waits)
	require.NotEqual(t, e.ID, lease.ID(), "it joined again")
	require.NoError(t, lease.Release())
}

// TestUsersAreGivenNoTurns: where users have rights of their own, entries are those of earlier versions, and releases succeed.
func TestUsersAreGivenNoTurns(t *testing.T) {
	server, admin := beginAlone(t)
	r := newRealm(t, server, admin)
	path := "/locks/turns"
	holder := storeOn(t, r.as("writer"), unaided)
	first := lock(t, holder, path)
	var waits []chan *farsync.Lease
	for i := range 4 {
		waits = append(waits, lockBehind(t, storeOn(t, r.as([]string{"writer", "root"}[i%2]), unaided), path))
		awaitQueue(t, holder, path, i+2)
	}
	for _, kv := range keysOf(t, r.root, path) {
		require.NotContains(t, string(kv.Key), "/m-t")
	}
	require.NoError(t, first.Release())
	for _, wait := range waits {
		require.NoError(t, got(t, wait).Release())
	}
	require.Empty(t, keysOf(t, r.root, path+"!turn"))
}

// TestMemberThatDoesNotSayWhetherItAuthenticates: another is asked.
func TestMemberThatDoesNotSayWhetherItAuthenticates(t *testing.T) {
	server, _ := begin(t)
	silent := func(ctx context.Context, _ func(context.Context) (any, error)) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for _, row := range []struct {
		name  string
		fate  fate
		bound time.Duration // of Open
		long  string
	}{
		{"it is silent", silent, 2 * time.Second, "an answer has to come within a second"},
		{"the connection breaks", loseRequest, soon, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.long != "" {
				suite.Long(t, suite.Etcd, row.long)
			}
			f := new(faults)
			f.next("/etcdserverpb.Auth/AuthStatus", row.fate)
			service, err := etcd.NewService(newClient(t, server.Endpoint(), f.dial()...))
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), row.bound)
			defer cancel()
			in, err := service.Open(ctx, soon)
			require.NoError(t, err)
			require.Contains(t, in.NewID("/asked", driver.Exclusive, 1), "/m-t")
			require.NoError(t, in.Close(t.Context()))
		})
	}
}

// TestSurveyShowsQueuesAndNoTurns: a queue of waiters is one queue, with those that wait and the one that holds.
func TestSurveyShowsQueuesAndNoTurns(t *testing.T) {
	server, admin := begin(t)
	path := newPath(t)
	store := newStore(t, server.Endpoint(), unaided)
	first := lock(t, store, path)
	var waits []chan *farsync.Lease
	for i := range 3 {
		waits = append(waits, lockBehind(t, newStore(t, server.Endpoint(), unaided), path))
		awaitQueue(t, store, path, i+2)
	}
	require.NoError(t, first.Release())
	second := got(t, waits[0])
	require.NoError(t, second.Release())
	third := got(t, waits[1])
	awaitKeys(t, admin, path+"!turn", 1)
	var paths []string
	for queue, err := range store.Survey(t.Context(), path) {
		require.NoError(t, err)
		paths = append(paths, queue.Path)
	}
	require.Equal(t, []string{path}, paths)
	require.NoError(t, third.Release())
	require.NoError(t, got(t, waits[2]).Release())
	spent(t, admin, path)
}

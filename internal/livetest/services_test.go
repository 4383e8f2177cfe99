//go:build unix

package livetest

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/sqlite"
	"github.com/farsync/farsync/zk"
)

// The kinds of stores.
const (
	onEtcd      = "etcd"
	onZooKeeper = "zk"
	onSQLite    = "sqlite"
)

// openStore opens a Store. The caller calls leave after it has closed it.
func openStore(ctx context.Context, kind, where string, o farsync.Options) (store *farsync.Store, leave func(), err error) {
	leave = func() {}
	switch kind {
	case onEtcd:
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{where}, Logger: zap.NewNop()})
		if err != nil {
			return nil, nil, err
		}
		if store, err = etcd.Open(ctx, client, &etcd.Options{Options: o}); err != nil {
			return nil, nil, err
		}
		return store, func() { _ = client.Close() }, nil
	case onZooKeeper:
		store, err = zk.Open(ctx, []string{where}, &zk.Options{Options: o})
	default:
		store, err = sqlite.Open(ctx, where, &sqlite.Options{Options: o})
	}
	return store, leave, err
}

// A server is one that can be killed.
type server interface {
	Endpoint() string
	Kill()
	Restart(ctx context.Context) error
}

// startServer starts a server of a kind, gone with t.
func startServer(t testing.TB, kind string) server {
	t.Helper()
	if kind == onEtcd {
		return embedtest.Etcd(t)
	}
	return embedtest.ZooKeeper(t)
}

// store returns a Store of a kind at an address, closed by t.
func store(t testing.TB, kind, where string, o farsync.Options) *farsync.Store {
	t.Helper()
	s, leave, err := openStore(within(t), kind, where, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = s.Close()
		leave()
	})
	return s
}

func TestLockOfAnotherProcessAppearsAndGoes(t *testing.T) {
	t.Parallel()
	b := needBrowser(t)
	for _, kind := range []string{onSQLite, onEtcd, onZooKeeper} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			where := filepath.Join(t.TempDir(), "locks.db")
			if kind != onSQLite {
				where = startServer(t, kind).Endpoint()
			}
			own := store(t, kind, where, farsync.Options{})
			s := newSite(t, nil)
			s.view.Add(kind, own)
			p := b.open(t, s.page(), wide)
			p.until("nothing is held", visible("All is free"))

			another := startOther(t, kind, where, "/deploy/shop")
			held := time.Now()
			p.until("it appears", `document.querySelector("td.held")?.innerText === "another process"`)
			t.Logf("a lock of another process appeared after %v", time.Since(held).Round(time.Millisecond))
			another.end(t)
			released := time.Now()
			p.until("it goes", visible("All is free"))
			t.Logf("it went %v after its release", time.Since(released).Round(time.Millisecond))

			lease, err := farsync.NewMutex(own, "/own").Lock(within(t))
			require.NoError(t, err)
			p.until("the page's own process", `document.querySelector("td.held")?.innerText.endsWith("this process")`)
			require.NoError(t, lease.Release())
			p.requireQuiet(s.page())
		})
	}
}

// TestServicesRestart: while a service is away its locks are shown as they were, those of the others go on, and when it is back, so
// is what it has.
func TestServicesRestart(t *testing.T) {
	suite.Long(t, suite.Live, "kills etcd and ZooKeeper, and starts them again")
	t.Parallel()
	b := needBrowser(t)
	kinds := []string{onEtcd, onZooKeeper}
	s := newSite(t, nil)
	c := newCast(t)
	s.view.Add("memory", c.store("ops"))
	stores, servers := map[string]*farsync.Store{}, map[string]server{}
	for _, kind := range kinds {
		servers[kind] = startServer(t, kind)
		stores[kind] = store(t, kind, servers[kind].Endpoint(), farsync.Options{})
		s.view.Add(kind, stores[kind])
		_, err := farsync.NewMutex(stores[kind], "/before/"+kind).Lock(within(t))
		require.NoError(t, err)
	}
	p := b.open(t, s.page(), wide)
	for _, kind := range kinds {
		p.until("its lock", visible("/before/"+kind))
	}
	for _, kind := range kinds {
		servers[kind].Kill()
	}
	for _, kind := range kinds {
		p.until("it says so", visible(kind+" does not answer"))
		require.True(t, p.shows("/before/"+kind), "what was so is still there to be read")
	}
	c.lock("web-1 pid 88", "/elsewhere")
	p.until("the others go on", visible("/elsewhere"))
	p.axe()
	for _, kind := range kinds {
		require.NoError(t, servers[kind].Restart(within(t)))
		_, err := farsync.NewMutex(stores[kind], "/after/"+kind).Lock(within(t))
		require.NoError(t, err)
	}
	for _, kind := range kinds {
		p.untilWithin(3, "it is back", visible("/after/"+kind)+" && !"+visible(kind+" does not answer"))
	}
	_, problems := p.seen()
	require.Empty(t, problems)
}

// shows reports whether the page has a text.
func (p *tab) shows(text string) (ok bool) {
	p.t.Helper()
	p.eval(visible(text), &ok)
	return ok
}

var crowded = flag.Bool("crowded", false, "show 2,000 locks and 5,000 entries of each service, not a tenth of them")

// TestThousandsOnServices: locks with entries in their queues, by the thousand, and a page that can still be used.
func TestThousandsOnServices(t *testing.T) {
	suite.Long(t, suite.Live, "a crowd of hundreds on each service")
	locks, entries := 200, 500
	if *crowded {
		locks, entries = 2000, 5000
	}
	last := fmt.Sprintf("/jobs/%04d", locks-1)
	b := needBrowser(t)
	for _, kind := range []string{onEtcd, onZooKeeper} {
		t.Run(kind, func(t *testing.T) {
			where := startServer(t, kind).Endpoint()
			ops := store(t, kind, where, farsync.Options{})
			crowd := store(t, kind, where, farsync.Options{TTL: time.Minute}) // it is no matter of how busy the machine is
			leases := make([]*farsync.Lease, locks)
			inParallel(t, locks, func(i int) (err error) {
				leases[i], err = farsync.NewMutex(crowd, fmt.Sprintf("/jobs/%04d", i)).Lock(within(t))
				return err
			})
			ctx, cancel := context.WithCancel(t.Context())
			var all errgroup.Group
			defer func() {
				cancel()
				_ = all.Wait()
			}()
			for i := range entries - locks {
				all.Go(func() error { // joined above
					_, err := farsync.NewMutex(crowd, fmt.Sprintf("/jobs/%04d", i%10)).Lock(locktest.Apart(ctx))
					return err
				})
			}
			s := newSite(t, nil)
			s.view.Add(kind, ops)
			p := b.open(t, s.page(), wide)
			p.untilWithin(3, "all are known", visible(grouped(locks)+" locks · "+grouped(locks)+" held · "+grouped(entries-locks)+" waiting"))
			p.eval("scrollTo(0, document.documentElement.scrollHeight)", nil)
			p.until("the last", visible(last))
			p.axe()
			begun := time.Now()
			require.NoError(t, leases[locks-1].Release())
			p.untilWithin(3, "it goes", "!"+visible(last))
			t.Logf("of %d entries, a lock went %v after its release", entries, time.Since(begun).Round(time.Millisecond))
			p.eval("scrollTo(0, 0)", nil)
			p.until("the first", visible("/jobs/0003"))
			p.eval(`document.querySelector('button[title="/jobs/0003"]').click()`, nil)
			p.until("those that wait for one", fmt.Sprintf(`document.querySelectorAll("#lock ol > li").length === %d`, min(99, (entries-locks)/10)))
			p.press("Escape", 27)
			p.eval(`{ const o = document.getElementById("filter"); o.value = "/0077"; o.dispatchEvent(new Event("input")); }`, nil)
			p.until("one of them", `document.querySelectorAll("td.path button").length === 1 && `+visible("/jobs/0077"))
			p.requireQuiet(s.page())
		})
	}
}

// grouped returns a number as the page has it.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// inParallel calls f with each number below n, some at a time.
func inParallel(t testing.TB, n int, f func(i int) error) {
	t.Helper()
	var all errgroup.Group
	all.SetLimit(64)
	for i := range n {
		all.Go(func() error { return f(i) })
	}
	require.NoError(t, all.Wait())
}

//go:build unix

package livetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/live"
)

func TestMain(m *testing.M) {
	embedtest.Child()
	if len(os.Args) == 5 && os.Args[1] == otherProcess {
		if err := lockUntilToldOtherwise(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	locktest.AtOnce(4) // each has a tab of its own, and waits for it
	os.Exit(run(m))
}

// chromium is the browser of all tests, and missing is why there is none.
var (
	chromium *browser
	missing  error
)

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "farsync-livetest-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if chromium, missing = startBrowser(dir); missing == nil {
		defer chromium.stop()
	}
	return m.Run()
}

// needBrowser returns the browser. Where there is none the test is skipped, or fails if FARSYNC_REQUIRE_SERVERS is 1.
func needBrowser(t testing.TB) *browser {
	t.Helper()
	if errors.Is(missing, exec.ErrNotFound) && os.Getenv("FARSYNC_REQUIRE_SERVERS") != "1" {
		t.Skip("no Chromium: ", missing)
	}
	require.NoError(t, missing)
	return chromium
}

// wide is a window on a desk, and narrow is a small telephone.
var (
	wide   = settings{width: 1280, height: 720}
	narrow = settings{width: 320, height: 640}
)

// A site serves a View in a folder of a mux.
type site struct {
	*httptest.Server
	view *live.View
}

const folder = "/debug/farsync/"

func newSite(t testing.TB, o *live.Options) *site {
	t.Helper()
	s := &site{view: live.New(o)}
	mux := http.NewServeMux()
	mux.Handle(folder, s.view)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		require.NoError(t, s.view.Close())
		s.Close()
	})
	return s
}

func (s *site) page() string { return s.URL + folder }

// A cast are clients of one service, by their names.
type cast struct {
	t       testing.TB
	service *farsynctest.Mem
	stores  map[string]*farsync.Store
}

func newCast(t testing.TB) *cast {
	return &cast{t, farsynctest.NewMem(), map[string]*farsync.Store{}}
}

// store returns that of a name, closed by t.
func (c *cast) store(name string) *farsync.Store {
	if c.stores[name] == nil {
		// A browser may keep a small machine busy for longer than the usual TTL.
		s := c.service.Open(&farsynctest.MemOptions{Options: farsync.Options{Holder: name, TTL: time.Hour}})
		c.stores[name] = s
		c.t.Cleanup(func() { _ = s.Close() })
	}
	return c.stores[name]
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	t.Cleanup(cancel)
	return ctx
}

// lock has a client hold a lock.
func (c *cast) lock(name, path string) *farsync.Lease {
	c.t.Helper()
	lease, err := farsync.NewMutex(c.store(name), path).Lock(within(c.t))
	require.NoError(c.t, err)
	return lease
}

// wait begins a call that waits, and returns when it stands in the queue. It ends with t.
func (c *cast) wait(ctx context.Context, name, path string, call func(ctx context.Context, store *farsync.Store) (*farsync.Lease, error)) {
	c.t.Helper()
	before := len(c.service.Entries(path))
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // joined at the end of t
		defer close(done)
		_, _ = call(ctx, c.store(name))
	}()
	c.t.Cleanup(func() {
		cancel()
		<-done
	})
	require.Eventually(c.t, func() bool { return len(c.service.Entries(path)) > before }, soon, 1e6)
}

// lockBehind has clients wait for a mutex, one behind the other.
func (c *cast) lockBehind(path string, names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.wait(c.t.Context(), name, path, func(ctx context.Context, store *farsync.Store) (*farsync.Lease, error) {
			return farsync.NewMutex(store, path).Lock(ctx)
		})
	}
}

// lockUnder has the holder of a lease wait for another lock.
func (c *cast) lockUnder(lease *farsync.Lease, name, path string) {
	c.t.Helper()
	ctx, cancel := lease.Context(c.t.Context())
	c.t.Cleanup(cancel)
	c.wait(ctx, name, path, func(ctx context.Context, store *farsync.Store) (*farsync.Lease, error) {
		return farsync.NewMutex(store, path).Lock(ctx)
	})
}

// incident is what a service may look like on a bad morning.
func (c *cast) incident() {
	c.lock("ci-7 pid 412 release 4.2", "/deploy/shop")
	c.lockBehind("/deploy/shop", "ci-2 pid 88", "ci-9 pid 7", "ci-3 pid 1204", "ci-7 pid 415")
	c.lock("ci-1 pid 9", "/deploy/search")
	for name, units := range map[string]int64{"idx-1 pid 30": 1, "idx-4 pid 31": 2} {
		_, err := farsync.NewSemaphore(c.store(name), "/reindex", 3).Acquire(within(c.t), units)
		require.NoError(c.t, err)
	}
	c.wait(c.t.Context(), "idx-9 pid 12", "/reindex", func(ctx context.Context, store *farsync.Store) (*farsync.Lease, error) {
		return farsync.NewSemaphore(store, "/reindex", 3).Acquire(ctx, 1)
	})
	for _, name := range []string{"web-1 pid 88", "web-2 pid 90", "web-3 pid 71", "web-4 pid 66"} {
		_, err := farsync.NewRWMutex(c.store(name), "/config/prices").RLock(within(c.t))
		require.NoError(c.t, err)
	}
	c.wait(c.t.Context(), "pricing pid 5", "/config/prices", func(ctx context.Context, store *farsync.Store) (*farsync.Lease, error) {
		return farsync.NewRWMutex(store, "/config/prices").Lock(ctx)
	})
	_, err := farsync.NewElection(c.store("relay-2 pid 17"), "/leader/relay").Campaign(within(c.t), "relay-2:7070")
	require.NoError(c.t, err)
	c.wait(c.t.Context(), "relay-1 pid 16", "/leader/relay", func(ctx context.Context, store *farsync.Store) (*farsync.Lease, error) {
		return farsync.NewElection(store, "/leader/relay").Campaign(ctx, "relay-1:7070")
	})
	for _, name := range []string{"backup", "invoices", "newsletter", "rates", "sitemap"} {
		c.lock("cron-1 pid 301", "/cron/"+name)
	}
	c.lock("billing-3 pid 2210", "/billing/run/2026-11")
	c.lockBehind("/billing/run/2026-11", "billing-1 pid 2177")
}

// deadlock has two clients hold a lock each and wait for that of the other.
func (c *cast) deadlock() {
	a, b := c.lock("web-1 pid 88", "/db/accounts"), c.lock("worker-3 pid 412", "/db/ledger")
	c.lockUnder(a, "web-1 pid 88", "/db/ledger")
	c.lockUnder(b, "worker-3 pid 412", "/db/accounts")
	c.lockBehind("/db/ledger", "worker-1 pid 410")
}

// visible is a script that says whether the page shows a text.
func visible(text string) string {
	return "document.body.innerText.includes(" + quote(text) + ")"
}

package mysqltest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	mrand "math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	client "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
)

// A network has connections that fall silent: nothing that they carry is answered, now or later, and nothing ends them. That is what a
// client sees of a server that has moved, and of a firewall that has forgotten it. Connections made afterwards work.
type network struct {
	dsn string

	mu      sync.Mutex
	down    bool   // connections that are made are silent
	words   []byte // a connection that is to carry them falls silent
	lost    int    // how often it did
	asked   int    // silent connections that callers have made
	unasked int    // silent connections that no caller has asked for
}

// caller marks the context of a call.
type caller struct{}

func newNetwork(t *testing.T, d database) *network {
	name := rand.Text()
	n := &network{dsn: "root@" + name + "(" + d.server.Endpoint() + ")/" + d.name}
	client.RegisterDialContext(name, n.dial)
	t.Cleanup(func() { client.DeregisterDialContext(name) })
	return n
}

// open returns a session by the network.
func (n *network) open(t *testing.T, ttl time.Duration) driver.Session {
	service, err := mysql.NewService(n.dsn, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, service.Close()) })
	in, err := service.Open(within(t, soon), ttl)
	require.NoError(t, err)
	t.Cleanup(in.Drop)
	return in
}

// set changes the network. No words are in none.
func (n *network) set(down bool, words string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down, n.words = down, []byte(words)
}

// is reports whether something is so of the network.
func (n *network) is(so func() bool) func() bool {
	return func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return so()
	}
}

func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.down {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		return &wire{Conn: conn, of: n}, err
	}
	conn, _ := net.Pipe()
	if ctx.Value(caller{}) == nil {
		n.unasked++
		return conn, nil
	}
	n.asked++
	return conn, nil
}

// A wire is a connection that may fall silent.
type wire struct {
	net.Conn
	of     *network
	silent bool // guarded by the mu of the network
}

func (w *wire) Write(b []byte) (int, error) {
	w.of.mu.Lock()
	if !w.silent && (w.of.down || len(w.of.words) > 0 && bytes.Contains(b, w.of.words)) {
		w.silent = true
		w.of.lost++
	}
	silent := w.silent
	w.of.mu.Unlock()
	if silent {
		return len(b), nil
	}
	return w.Conn.Write(b)
}

// TestServerThatHasMovedIsFoundAgain: callers who wait in a pool of database/sql while the server is silent have the pool make connections of
// its own, which no caller's ctx ends, and which take the place of others. So callers wait for a place before they come to the pool.
func TestServerThatHasMovedIsFoundAgain(t *testing.T) {
	suite.Long(t, suite.MySQL, "callers race, and give up within 150 ms")
	t.Parallel()
	n := newNetwork(t, newDatabase(t))
	in := n.open(t, time.Hour)
	create := func(ctx context.Context) error {
		_, err := in.Create(ctx, driver.Entry{Queue: "/moved", ID: in.NewID("/moved", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1}, 0)
		return err
	}
	n.set(true, "")
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), caller{}, true))
	defer cancel()
	var all sync.WaitGroup
	find := func(ctx context.Context) error {
		_, err := in.Find(ctx, driver.Entry{Queue: "/moved", ID: "none"})
		return err
	}
	for i := range 12 {
		call := create
		if i%2 > 0 { // of the connections some are for reads alone
			call = find
		}
		all.Go(func() {
			for ctx.Err() == nil {
				attempt, end := context.WithTimeout(ctx, 50*time.Millisecond+mrand.N(100*time.Millisecond)) // so that some always wait
				if call(attempt) == nil {
					t.Error("the server is silent")
				}
				end()
			}
		})
	}
	require.Eventually(t, n.is(func() bool { return n.asked > 60 }), soon, time.Millisecond, "callers give up")
	cancel()
	all.Wait()
	require.True(t, n.is(func() bool { return n.unasked == 0 })(), "the pool makes connections of its own")
	n.set(false, "")
	began := time.Now()
	again := within(t, soon)
	require.Eventually(t, func() bool { return create(again) == nil }, soon, time.Millisecond) // one attempt is told of what the pool tried before
	t.Logf("found again after %v", time.Since(began))
}

// TestRenewalDoesNotWaitForThoseWithoutAnAnswer: a Store leaves up to eight attempts under way, each on a connection of its own.
func TestRenewalDoesNotWaitForThoseWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, newDatabase(t))
	in := n.open(t, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	n.set(false, "CALL farsync_renew")
	const unanswered = 7
	for range unanswered {
		all.Go(func() {
			if in.Renew(ctx, nil) == nil {
				t.Error("it was not sent")
			}
		})
	}
	require.Eventually(t, n.is(func() bool { return n.lost == unanswered }), soon, time.Millisecond, "all were sent")
	n.set(false, "")
	require.NoError(t, in.Renew(within(t, soon), nil))
}

package redistest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/redis"
)

// What the tests of every store share.
const soon = locktest.Soon

var within, lock = locktest.Within, locktest.Lock

// prefix begins every key of the default namespace.
const prefix = "farsync:{farsync}:"

// TestMain has the tests run side by side, more of them than there are processors, for most of them wait: each has servers of
// its own. In the end nothing of any may be left.
func TestMain(m *testing.M) {
	embedtest.Child()
	client.SetLogger(quiet{})
	locktest.AtOnce(8)
	code := m.Run()
	if err := locktest.Leaks(); err != nil {
		fmt.Fprintln(os.Stderr, "left over:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// quiet logs nothing: go-redis says of every dial that fails that it did.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// fresh returns options with a TTL, for a server that is new.
func fresh(ttl time.Duration) *redis.Options {
	return &redis.Options{Options: farsync.Options{TTL: ttl}, Fresh: true}
}

// at returns the settings of a client of one server.
func at(endpoint string) *client.UniversalOptions {
	return &client.UniversalOptions{Addrs: []string{endpoint}}
}

// newStore returns a Store, closed by t.
func newStore(t testing.TB, endpoint string, options *redis.Options) *farsync.Store {
	t.Helper()
	store, err := open(within(t, soon), endpoint, options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// open opens a Store as often as it takes: a machine that is busy with other things may take longer than one Open.
func open(ctx context.Context, endpoint string, options *redis.Options) (*farsync.Store, error) {
	return openAt(ctx, at(endpoint), options)
}

func openAt(ctx context.Context, to *client.UniversalOptions, options *redis.Options) (*farsync.Store, error) {
	for {
		store, err := redis.Open(ctx, to, options)
		if !errors.Is(err, farsync.ErrUnavailable) || ctx.Err() != nil {
			return store, err
		}
	}
}

// newService returns a driver.
func newService(t testing.TB, endpoint string, options *redis.Options) driver.Service {
	s, err := redis.NewService(at(endpoint), options)
	require.NoError(t, err)
	return s
}

// openSession returns a session of the driver, closed by t.
func openSession(t testing.TB, endpoint string, ttl time.Duration) driver.Session {
	return openOn(t, newService(t, endpoint, fresh(0)), ttl)
}

// openOn is openSession on a service of t.
func openOn(t testing.TB, service driver.Service, ttl time.Duration) driver.Session {
	in, err := service.Open(within(t, soon), ttl)
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close(context.WithoutCancel(t.Context())) })
	return in
}

// create appends an entry to a queue.
func create(t testing.TB, in driver.Session, queue string, k driver.Kind) driver.View {
	v, err := join(t, in, queue, k)
	require.NoError(t, err)
	return v
}

func join(t testing.TB, in driver.Session, queue string, k driver.Kind) (driver.View, error) {
	e := driver.Entry{Queue: queue, Kind: k, Units: 1, Value: []byte("x"), Since: time.Now()}
	e.ID = in.NewID(queue, e.Kind, e.Units)
	return in.Create(within(t, soon), e, 0)
}

// An administrator does at a server what the suites ask for.
type administrator struct {
	*client.Client
	session driver.Session
}

func newAdministrator(t testing.TB, endpoint string) administrator {
	admin := newClient(t, endpoint)
	return administrator{admin, openSession(t, endpoint, time.Hour)}
}

// newClient returns a client of the library, closed by t.
func newClient(t testing.TB, endpoint string) *client.Client {
	c := client.NewClient(&client.Options{Addr: endpoint})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// remove removes an entry, as docs/wire-redis.md has it.
func (a administrator) remove(t *testing.T, e driver.Entry) {
	_, found, err := a.session.Delete(within(t, soon), e)
	require.NoError(t, err)
	require.True(t, found)
}

// byHand appends an entry of another program, as docs/wire-redis.md has it.
var byHand = client.NewScript(`
local P, id, path, session = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local revision = string.format('%.0f', math.max((redis.call('GET', P .. 'revision') or 0) + 1, now))
redis.call('SET', P .. 'revision', revision)
redis.call('ZADD', P .. 'q:' .. path, revision, id)
redis.call('ZADD', P .. 'x:' .. path, revision, id)
redis.call('ZADD', P .. 'queues', 0, path)
redis.call('HSET', P .. 'e:' .. id, 'queue', path, 'kind', 'batch', 'units', 1, 'revision', revision, 'version', 1)
if session ~= '' then
  redis.call('HSET', P .. 'e:' .. id, 'session', session)
  redis.call('SADD', P .. 's:' .. session, id)
  redis.call('ZADD', P .. 'sessions', string.format('%.0f', now + 600000000), session)
end
for _, other in ipairs(redis.call('SMEMBERS', P .. 'w:vacant:' .. path)) do
  redis.call('SPUBLISH', P .. 'c:' .. other, 'vacant:' .. path)
end
redis.call('DEL', P .. 'w:vacant:' .. path)
return id`)

func (a administrator) foreign(t *testing.T, queue string) driver.Entry {
	return a.append(t, queue, rand.Text())
}

// stray is foreign without a session.
func (a administrator) stray(t *testing.T, queue string) driver.Entry { return a.append(t, queue, "") }

func (a administrator) append(t *testing.T, queue, session string) driver.Entry {
	id := rand.Text()
	require.NoError(t, byHand.Run(within(t, soon), a.Client, []string{prefix}, id, queue, session).Err())
	return driver.Entry{Queue: queue, ID: id}
}

// expire has the session of an entry run out.
func (a administrator) expire(t testing.TB, id string) {
	session, err := a.HGet(within(t, soon), prefix+"e:"+id, "session").Result()
	require.NoError(t, err)
	n, err := a.ZAddXX(within(t, soon), prefix+"sessions", client.Z{Score: 1, Member: session}).Result()
	require.NoError(t, err)
	require.Zero(t, n, "it was there")
	require.NoError(t, a.session.Renew(within(t, soon), nil), "which ends what has run out")
}

package redistest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
)

// A line is the entries of a queue in their order, each of a session of its own.
type line struct {
	*testing.T
	name, path string
	admin      *client.Client
	in         driver.Session // looks for all
	sessions   []driver.Session
	all        []driver.Entry
}

func (l *line) join(in driver.Session, k driver.Kind) driver.View {
	v := create(l, in, l.path, k)
	l.all, l.sessions = append(l.all, v.Self), append(l.sessions, in)
	return v
}

func (l *line) look(i int) driver.View {
	e := l.all[i]
	e.Units = 1
	v, err := l.in.Ahead(within(l, soon), e, true)
	require.NoError(l, err, "%s: the %d. of %d, %s", l.name, i, len(l.all), e.Kind)
	return v
}

func (l *line) leave(i int) {
	l.Helper()
	_, found, err := l.sessions[i].Delete(within(l, soon), l.all[i])
	require.NoError(l, err, l.name)
	require.True(l, found, l.name)
	l.all, l.sessions = append(l.all[:i:i], l.all[i+1:]...), append(l.sessions[:i:i], l.sessions[i+1:]...)
}

// holders expects those to hold, by the looks of all, who stand at the head: one, two with a permit, or all readers.
// The last looks first.
func (l *line) holders() {
	l.Helper()
	n := 1
	for n < len(l.all) && (l.all[0].Kind == driver.Permit && n < 2 || l.all[n-1].Kind == driver.Read && l.all[n].Kind == driver.Read) {
		n++
	}
	for i, e := range slices.Backward(l.all) {
		v := l.look(i)
		granted := len(v.Entries) == 0 || v.Entries[0].Units == 0
		require.Equal(l, i < n, granted, "%s: the %d. of %d, %s", l.name, i, len(l.all), e.Kind)
	}
}

// served has all leave in their order, and expects nothing to be left.
func (l *line) served() {
	l.Helper()
	for len(l.all) > 0 {
		l.holders()
		l.leave(0)
	}
	require.Zero(l, l.admin.Exists(within(l, soon), prefix+"q:"+l.path, prefix+"wu:"+l.path, prefix+"x:"+l.path).Val(), l.name)
	require.ErrorIs(l, l.admin.ZScore(within(l, soon), prefix+"queues", l.path).Err(), client.Nil, l.name)
}

// afterwards has something lost of a queue of each family, and then anything happen as the first. Nobody holds who did
// not hold, and all are served in their order.
func afterwards(t *testing.T, lose func(*line)) {
	t.Helper()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	var sessions []driver.Session
	for range 4 {
		sessions = append(sessions, openSession(t, server.Endpoint(), time.Hour))
	}
	declare := func(l *line) {
		r, err := in.Register(within(t, soon), l.path)
		require.NoError(t, err, l.name)
		_, err = in.SetRegister(within(t, soon), l.path, "2 2", r.Version, driver.Entry{})
		require.NoError(t, err, l.name)
	}
	first := map[string]func(l *line, last driver.Kind){
		"a join": func(l *line, last driver.Kind) {
			v := l.join(in, last)
			require.NotEmpty(t, v.Entries, l.name)
			require.NotZero(t, v.Entries[0].Units, l.name)
		},
		"a look of the first": func(l *line, _ driver.Kind) { l.look(0) },
		"a look of the last":  func(l *line, _ driver.Kind) { l.look(len(l.all) - 1) },
		"a find": func(l *line, _ driver.Kind) {
			_, err := in.Find(within(t, soon), l.all[0])
			require.NoError(t, err, l.name)
		},
		"a release":       func(l *line, _ driver.Kind) { l.leave(0) },
		"one waits less":  func(l *line, _ driver.Kind) { l.leave(len(l.all) - 1) },
		"a size declared": func(l *line, _ driver.Kind) { declare(l) },
		"a session ends": func(l *line, last driver.Kind) {
			own := openSession(t, server.Endpoint(), time.Hour)
			create(t, own, l.path, last)
			require.NoError(t, own.Close(within(t, soon)), l.name)
		},
	}
	for what, do := range first {
		for _, kinds := range [][]driver.Kind{
			{driver.Exclusive, driver.Exclusive, driver.Exclusive},
			{driver.Candidate, driver.Candidate, driver.Candidate},
			{driver.Read, driver.Read, driver.Write, driver.Read, driver.Write},
			{driver.Write, driver.Read, driver.Read, driver.Write},
			{driver.Permit, driver.Permit, driver.Permit, driver.Permit},
			{driver.Exclusive, driver.Exclusive},
			{driver.Read, driver.Read, driver.Write},
		} {
			l := &line{T: t, name: fmt.Sprintf("%s %v", what, kinds), in: in, admin: admin}
			l.path = "/" + strings.NewReplacer(" ", "-", "[", "", "]", "").Replace(l.name)
			declare(l)
			for i, k := range kinds {
				l.join(sessions[i%len(sessions)], k)
			}
			l.holders()
			lose(l)
			do(l, kinds[len(kinds)-1])
			if !admin.HExists(within(t, soon), prefix+"size:"+l.path, "current").Val() {
				declare(l)
			}
			l.served()
		}
	}
}

// TestQueueThatIsDeletedLetsNobodyIn, with what stands beside it or alone: the entries say themselves where they stand.
func TestQueueThatIsDeletedLetsNobodyIn(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{
		{"q:"}, {"q:", "wu:"}, {"q:", "x:"}, {"q:", "x:", "wu:"}, {"q:", "size:"}, {"q:", "x:", "wu:", "size:"}, {"q:", "queues"}, {"q:", "size:", "queues"},
	} {
		t.Run(fmt.Sprint(keys), func(t *testing.T) {
			t.Parallel()
			afterwards(t, func(l *line) {
				for _, key := range keys {
					if key != "queues" {
						key += l.path
					}
					l.admin.Del(within(t, soon), prefix+key)
				}
			})
		})
	}
}

// TestHolderWhoIsTakenOutOfTheQueueStillHolds: so does a waiter wait.
func TestHolderWhoIsTakenOutOfTheQueueStillHolds(t *testing.T) {
	t.Parallel()
	for _, out := range [][]int{{0}, {1}, {0, 1}} {
		t.Run(fmt.Sprint(out), func(t *testing.T) {
			t.Parallel()
			afterwards(t, func(l *line) {
				if l.all[0].Kind == driver.Read {
					return // see TestReaderWhoIsTakenOutOfTheQueueByHand
				}
				for _, i := range out {
					require.NoError(t, l.admin.ZRem(within(t, soon), prefix+"q:"+l.path, l.all[i].ID).Err())
				}
			})
		})
	}
}

// TestReaderWhoWasAWriterIsFound where the queue is deleted, though its name says otherwise.
func TestReaderWhoWasAWriterIsFound(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	in := openSession(t, server.Endpoint(), time.Hour)
	reader, err := in.Replace(within(t, soon), create(t, in, "/rw", driver.Write).Self, driver.Read, nil)
	require.NoError(t, err)
	require.NoError(t, newClient(t, server.Endpoint()).Del(within(t, soon), prefix+"q:/rw").Err())
	v := create(t, in, "/rw", driver.Write)
	require.Len(t, v.Entries, 1)
	require.Equal(t, reader.ID, v.Entries[0].ID)
}

// TestCommandsOfALock, which the server carries out for the script: the fields and sets that guard against keys which others delete cost
// as little as this.
func TestCommandsOfALock(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	price := func(do func()) (n int) {
		before := commands(t, admin)["evalsha"]
		for _, calls := range commands(t, admin) {
			n -= calls
		}
		do()
		for _, calls := range commands(t, admin) {
			n += calls
		}
		require.Equal(t, 1, commands(t, admin)["evalsha"]-before)
		return n - 1
	}
	var first, second driver.Entry
	require.Equal(t, 23, price(func() { first = create(t, in, "/price", driver.Exclusive).Self }), "a join of an empty queue")
	require.Equal(t, 26, price(func() { second = create(t, in, "/price", driver.Exclusive).Self }), "a join behind another")
	leave := func(e driver.Entry) {
		_, _, err := in.Delete(within(t, soon), e)
		require.NoError(t, err)
	}
	require.Equal(t, 13, price(func() { leave(first) }), "a release")
	require.Equal(t, 12, price(func() {
		_, err := in.Ahead(within(t, soon), second, true)
		require.NoError(t, err)
	}), "a look")
	require.Equal(t, 13, price(func() { leave(second) }), "a release of the last")
	require.Equal(t, 10, price(func() { require.NoError(t, in.Renew(within(t, soon), nil)) }), "a renewal")
}

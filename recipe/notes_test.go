//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/recipe"
)

// A notebook is a slog.Handler that keeps every line.
type notebook struct {
	least slog.Level
	mu    *sync.Mutex
	lines *[]string
	with  []slog.Attr
}

func newNotebook(least slog.Level) notebook { return notebook{least, &sync.Mutex{}, &[]string{}, nil} }

func (n notebook) Enabled(_ context.Context, l slog.Level) bool { return l >= n.least }

func (n notebook) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message + ":"
	for _, a := range n.with {
		line += " " + a.String()
	}
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	*n.lines = append(*n.lines, line)
	return nil
}

func (n notebook) WithAttrs(attrs []slog.Attr) slog.Handler {
	n.with = slices.Concat(n.with, attrs)
	return n
}

func (n notebook) WithGroup(string) slog.Handler { return n }

// take returns the lines since the last call.
func (n notebook) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := *n.lines
	*n.lines = nil
	return lines
}

// noted opens a Store that writes into a notebook.
func (w *world) noted(least slog.Level) (*recipe.Store, notebook) {
	book := newNotebook(least)
	s := w.with(recipe.Options{
		TTL: ttl, Holder: "noted", Name: "test", Logger: slog.New(book),
	})
	w.Cleanup(func() {
		w.Partition(s, false)
		_ = s.Close()
	})
	return s, book
}

// TestNotes has every line that a Store writes, with its keys.
func TestNotes(t *testing.T) {
	inBubble(t, func(w *world) {
		other := w.open()
		s, book := w.noted(slog.LevelDebug)
		wrote := func(lines ...string) {
			t.Helper()
			w.settle()
			got := book.take()
			slices.Sort(got) // two goroutines may have written them
			require.Equal(t, lines, got)
		}
		g := gateFor(s, exclusive)
		w.settle()
		wrote("INFO session open: store=test ttl=10s holder=noted")

		first := w.granted(w.startGate(g))
		revision, _ := first.hold.Token()
		token := revision << 8
		wrote(fmt.Sprintf("DEBUG acquired: store=test path=/q kind=exclusive token=%d waited=0s ahead=0", token))
		second := w.startGate(g)
		time.Sleep(10 * time.Millisecond)
		w.release(first)
		w.granted(second)
		wrote(fmt.Sprintf("DEBUG acquired: store=test path=/q kind=exclusive token=%d waited=10ms ahead=0", token+1),
			fmt.Sprintf("DEBUG released: store=test path=/q kind=exclusive token=%d held=10ms", token))
		time.Sleep(time.Second)
		w.release(second)
		wrote(fmt.Sprintf("DEBUG released: store=test path=/q kind=exclusive token=%d held=1s", token+1))

		holder := w.granted(w.start(other))
		behind := w.Entries(queue)[0]
		waits := w.start(s)
		time.Sleep(11 * time.Minute)
		got := book.take()
		require.Len(t, got, 3)
		for i, waited := range []string{"10s", "1m0s", "10m0s"} {
			require.Equal(t, fmt.Sprintf(`INFO still waiting: store=test path=/q kind=exclusive behind="client-1" (entry %q) ahead=1 waited=%s`, behind.ID, waited), got[i])
		}
		w.release(holder)
		revision, _ = w.granted(waits).hold.Token()
		wrote(fmt.Sprintf("DEBUG acquired: store=test path=/q kind=exclusive token=%d waited=11m0s ahead=1", revision<<8))

		w.Expire(s)
		time.Sleep(5 * time.Second)
		got = book.take()
		require.Len(t, got, 3)
		cause := "cause=lost: the service has ended the session: the service knows no such session"
		require.Equal(t, "WARN session lost: store=test ttl=10s locks=1 "+cause, got[0])
		require.Regexp(t, fmt.Sprintf("^WARN lock lost: store=test path=/q kind=exclusive token=%d held=[0-9.m]+s %s$", revision<<8, cause), got[1])
		require.Equal(t, "INFO session open: store=test ttl=10s holder=noted", got[2])
		require.ErrorIs(t, waits.hold.Release(), recipe.ErrLost)
		require.Empty(t, book.take(), "it has been said")

		removed := w.granted(w.start(s))
		revision, _ = removed.hold.Token()
		book.take()
		w.Delete(w.Entries(queue)[0].ID)
		require.ErrorIs(t, removed.hold.Release(), recipe.ErrLost)
		wrote(fmt.Sprintf("WARN lock lost: store=test path=/q kind=exclusive token=%d held=0s cause=lost: the entry is gone", revision<<8))
		removed = w.granted(w.start(s))
		revision, _ = removed.hold.Token()
		time.Sleep(5 * time.Second)
		book.take()
		w.Delete(w.Entries(queue)[0].ID)
		wrote(fmt.Sprintf("WARN lock lost: store=test path=/q kind=exclusive token=%d held=5s cause=its entry was removed by another client", revision<<8))
		require.ErrorIs(t, removed.hold.Release(), recipe.ErrLost)

		unconfirmed := w.granted(w.start(s))
		revision, _ = unconfirmed.hold.Token()
		book.take()
		refusal := errors.New("not now")
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Delete {
				return farsynctest.Refuse(refusal)
			}
			return farsynctest.None
		})
		require.ErrorIs(t, unconfirmed.hold.Release(), refusal)
		w.settle()
		w.SetFault(nil)
		got = book.take()
		slices.Sort(got) // of two goroutines
		require.Equal(t, []string{
			"ERROR entry not removed: trying again until the session ends: store=test path=/q kind=exclusive cause=delete: not now",
			fmt.Sprintf("WARN release not confirmed: store=test path=/q kind=exclusive token=%d held=0s cause=delete: not now", revision<<8),
		}, got)
		time.Sleep(time.Minute)

		// No renewal is answered until the last tenth of a second: the margin is half a second.
		hold := w.granted(w.startFor(s, recipe.Request{Queue: "/other", Kind: driver.Write, Units: 1})).hold
		book.take()
		w.PartitionClient("noted", true)
		time.Sleep(time.Until(hold.Deadline()) - 100*time.Millisecond)
		got = book.take()
		require.Len(t, got, 1)
		require.Regexp(t, `^WARN session suspended: store=test cause=no answer left=[0-9.]+s$`, got[0])
		w.PartitionClient("noted", false)
		w.settle()
		wrote("INFO session connected again: store=test", "WARN session renewed late: store=test left=100ms")
		require.NoError(t, hold.Release())

		owned, created := faults(farsynctest.Owned, 1, farsynctest.Refuse(refusal)), faults(farsynctest.Create, 1, farsynctest.Late(2))
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Owned {
				return owned(op)
			}
			return created(op)
		})
		ctx, cancel := context.WithTimeout(w.Context(), time.Millisecond)
		defer cancel()
		_, err := recipe.Acquire(ctx, s, &exclusive)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		book.take()
		time.Sleep(time.Minute)
		wrote("DEBUG own entries not looked for: store=test cause=owned: not now", "INFO late entry removed: store=test path=/q kind=exclusive")

		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.OpenSession {
				return farsynctest.Fail(driver.NotDone, refusal)
			}
			return farsynctest.None
		})
		w.Expire(s)
		time.Sleep(5 * time.Second)
		got = book.take()
		require.Equal(t, "WARN session lost: store=test ttl=10s locks=0 "+cause, got[0])
		require.Equal(t, "WARN no new session yet: store=test cause=open session: not now", got[1])
		w.SetFault(nil)
	})
}

// TestNotesOfDroppedLeases: a lease that nobody can reach any more is told of at the next renewal, once, and only if it
// is still held. Of very many the first are named.
func TestNotesOfDroppedLeases(t *testing.T) {
	inBubble(t, func(w *world) {
		s, book := w.noted(slog.LevelWarn)
		take := func(n int) (list []*recipe.Hold) {
			for i := range n {
				r := recipe.Request{Queue: fmt.Sprintf("/q/%d", i), Kind: driver.Exclusive, Units: 1}
				list = append(list, w.granted(w.startFor(s, r)).hold)
			}
			return list
		}
		const named = 100
		list := take(named + 3)
		w.settle()
		list[0].Dropped()
		w.settle()
		require.Empty(t, book.take(), "the goroutine of the collector writes nothing")
		time.Sleep(ttl / 4)
		w.settle()
		revision, _ := list[0].Token()
		require.Equal(t, []string{fmt.Sprintf("WARN lease dropped without Release: its lock stays until the Store is closed: "+
			"store=test path=/q/0 kind=exclusive token=%d held=2.5s", revision<<8)}, book.take())
		time.Sleep(10 * ttl)
		w.settle()
		require.Empty(t, book.take(), "it has been said")
		require.NoError(t, list[0].Err(), "it is renewed all the same")

		for _, hold := range list {
			hold.Dropped()
		}
		time.Sleep(ttl / 4)
		w.settle()
		lines := book.take()
		require.Len(t, lines, named+1)
		require.Equal(t, "WARN lease dropped without Release: its lock stays until the Store is closed: store=test locks=3", lines[named])

		list[1].Dropped()
		require.NoError(t, list[1].Release())
		list[2].Dropped()
		w.Expire(s)
		time.Sleep(ttl)
		w.settle()
		for _, line := range book.take() {
			require.NotContains(t, line, "dropped", "neither was held any more")
		}
	})
}

// What no Logger takes is not put together.
func TestNotesOfWarnings(t *testing.T) {
	inBubble(t, func(w *world) {
		other := w.open()
		s, book := w.noted(slog.LevelWarn)
		holder := w.granted(w.start(other))
		waits := w.start(s)
		time.Sleep(time.Hour)
		w.release(holder)
		w.release(w.granted(waits))
		require.Empty(w, book.take())
	})
}

// A nameless service shows no values with what is ahead, as etcd and ZooKeeper do not.
type nameless struct{ driver.Service }

func (s nameless) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := s.Service.Open(ctx, ttl)
	return namelessSession{in}, err
}

type namelessSession struct{ driver.Session }

func without(v driver.View) driver.View {
	v.Entries = slices.Clone(v.Entries)
	for i := range v.Entries {
		v.Entries[i].Value = nil
	}
	return v
}

func (s namelessSession) Create(ctx context.Context, e driver.Entry, attempt int) (driver.View, error) {
	v, err := s.Session.Create(ctx, e, attempt)
	return without(v), err
}

func (s namelessSession) Ahead(ctx context.Context, e driver.Entry, nearest bool) (driver.View, error) {
	v, err := s.Session.Ahead(ctx, e, nearest)
	return without(v), err
}

func (s namelessSession) Watch(
	ctx context.Context, e driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	proof, err := s.Session.Watch(ctx, e, on, stands)
	if proof != nil {
		*proof = without(*proof)
	}
	return proof, err
}

// An error names the holder, and not only its key. The name is asked for before the deadline: afterwards nothing
// may keep the caller waiting.
func TestTheHolderIsNamed(t *testing.T) {
	inBubble(t, func(w *world) {
		holder := w.granted(w.start(w.open()))
		book := newNotebook(slog.LevelInfo)
		s, err := recipe.Open(w.Context(), nameless{w.Service("x")}, recipe.Options{TTL: ttl, Logger: slog.New(book)})
		require.NoError(w, err)
		defer func() { require.NoError(w, s.Close()) }()
		id := w.Entries(queue)[0].ID
		for _, patience := range []time.Duration{time.Millisecond, time.Second} {
			w.ResetCount()
			ctx, cancel := context.WithTimeout(w.Context(), patience)
			began := time.Now()
			_, err = recipe.Acquire(ctx, s, &exclusive)
			require.EqualError(w, err, `context deadline exceeded (waiting behind "client-1" (entry "`+id+`"))`)
			require.Equal(w, patience, time.Since(began))
			require.Equal(w, 1, w.Count(farsynctest.List), "one read, and only of a call that has come to its end")
			cancel()
		}
		w.ResetCount()
		waits := w.start(s)
		time.Sleep(5 * time.Second)
		require.Zero(w, w.Count(farsynctest.List), "a ctx without a deadline asks for nothing")
		waits.cancel()
		<-waits.done
		require.EqualError(w, waits.err, `context canceled (waiting behind entry "`+id+`")`)
		book.take()

		// Many that wait for long are one read.
		for range 20 {
			waits = w.start(s)
			defer waits.cancel()
		}
		w.ResetCount()
		time.Sleep(15 * time.Second)
		require.Equal(w, 1, w.Count(farsynctest.List))
		require.Len(w, book.take(), 20)
		waits.cancel()
		<-waits.done
		require.ErrorContains(w, waits.err, `"client-1"`)

		// A service that does not answer keeps no caller waiting.
		w.PartitionClient("x", true)
		ctx, cancel := context.WithTimeout(w.Context(), 500*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err = recipe.Acquire(ctx, s, &exclusive)
		require.ErrorIs(w, err, context.DeadlineExceeded)
		require.Equal(w, 500*time.Millisecond, time.Since(began))
		w.PartitionClient("x", false)
		w.release(holder)
	})
}

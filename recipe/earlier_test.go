//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// A forgetful service has no history, so the Store keeps no list of what it makes there.
type forgetful struct{ driver.Service }

func (f forgetful) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := f.Service.Open(ctx, ttl)
	return forgetfulSession{in}, err
}

type forgetfulSession struct{ driver.Session }

func (forgetfulSession) History() string { return "" }

// lostWith opens a Store that has held h and has lost the session of that, which the service keeps for another second at least.
func (w *world) lostWith(h recipe.Request, history bool, o recipe.Options) *recipe.Store {
	w.Helper()
	o.TTL, o.Holder = time.Minute, "we"
	service := w.Service("we")
	if !history {
		service = forgetful{service}
	}
	s, err := recipe.Open(w.Context(), service, o)
	require.NoError(w, err)
	w.names[s] = "we"
	w.Cleanup(func() { require.NoError(w, s.Close()) })
	held := w.granted(w.startFor(s, h))
	w.loseSession(s)
	require.ErrorIs(w, held.hold.Err(), recipe.ErrLost)
	require.NotEmpty(w, w.Entries(queue))
	return s
}

// loseSession has a Store lose its session, and returns once it has another.
func (w *world) loseSession(s *recipe.Store) {
	w.Partition(s, true)
	for s.State() != recipe.Lost {
		time.Sleep(time.Second)
	}
	w.Partition(s, false)
	for s.State() != recipe.Connected {
		time.Sleep(time.Millisecond)
	}
}

// What a lost session of a Store has left in a queue is told to the Store's own callers as that, and not by the name of the Store: by the error of a Lock
// and of a Try, by the Trace and in the log.
func TestEntryOfALostSessionIsNotToldByItsName(t *testing.T) {
	of := func(k driver.Kind) recipe.Request { return recipe.Request{Queue: queue, Kind: k, Units: 1} }
	permit := recipe.Request{Queue: queue, Kind: driver.Permit, Units: 2, Size: 2}
	line := exclusive
	line.Line = true
	const left = "an entry of an earlier session of this Store, which was lost and is to end within "
	for name, row := range map[string]struct{ held, asks recipe.Request }{
		"exclusive": {exclusive, exclusive}, "line": {line, line}, "read": {of(driver.Write), of(driver.Read)}, "write": {of(driver.Read), of(driver.Write)},
		"permit": {permit, permit}, "candidate": {of(driver.Candidate), of(driver.Candidate)},
	} {
		for _, history := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/history %v", name, history), func(t *testing.T) {
				inBubble(t, func(w *world) {
					var told []string
					s := w.lostWith(row.held, history, recipe.Options{Trace: &recipe.Trace{Wait: func(ctx context.Context, _ recipe.Want, b recipe.Behind) {
						holder, note := b.Look(ctx)
						told = append(told, holder+note)
					}}})
					tried := w.within(s, trying(row.asks), time.Second)
					require.True(w, tried.returned())
					require.ErrorIs(w, tried.err, recipe.ErrLocked)
					require.ErrorContains(w, tried.err, "locked: held by "+left)
					require.Empty(w, recipe.HolderOf(tried.err))
					first := w.within(s, row.asks, 500*time.Millisecond)
					second := w.within(s, row.asks, 400*time.Millisecond)
					if row.asks.Line {
						local := w.startFor(s, trying(row.asks))
						require.ErrorContains(w, local.err, "locked: waited for in this process, behind "+left)
						require.Empty(w, recipe.HolderOf(local.err))
					}
					<-first.done
					<-second.done
					for _, each := range []*try{first, second} {
						require.ErrorIs(w, each.err, context.DeadlineExceeded)
						require.NotErrorIs(w, each.err, recipe.ErrUnavailable)
					}
					require.Empty(w, recipe.HolderOf(first.err))
					require.ErrorContains(w, first.err, "waiting behind "+left)
					require.NotContains(w, first.err.Error(), `"we"`)
					require.NotEmpty(w, told)
					require.Empty(w, told[0])

					patient := w.startFor(s, row.asks)
					w.finally(patient)
					tried = w.within(s, trying(row.asks), time.Second)
					if row.asks.Kind != driver.Read {
						require.ErrorContains(w, tried.err, `"we"`, "the present session's")
					}
					w.release(patient)
				})
			})
		}
	}
}

// A Lock that has waited in a lost session waits on in the next, behind what the first has left. That is logged.
func TestWaitBehindALostSessionIsLogged(t *testing.T) {
	inBubble(t, func(w *world) {
		book := newNotebook(slog.LevelInfo)
		s := w.with(recipe.Options{TTL: 5 * time.Minute, Holder: "we", Logger: slog.New(book)})
		w.Cleanup(func() { require.NoError(w, s.Close()) })
		w.granted(w.start(s))
		waits := w.start(s)
		w.loseSession(s)
		time.Sleep(5 * time.Second)
		require.False(w, waits.returned())
		for _, line := range book.take() {
			if strings.HasPrefix(line, "INFO still waiting") && strings.Contains(line, "behind=an entry of an earlier session of this Store, which was lost and is to end within ") {
				w.release(w.finally(waits))
				return
			}
		}
		require.Fail(w, "not logged")
	})
}

// What a Store knows of a lost session is forgotten when that can stand nowhere.
func TestLostSessionsAreForgotten(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		for range 3 {
			w.granted(w.start(s))
			w.startFor(s, exclusive)
			w.loseSession(s)
			require.NotZero(w, s.Earlier())
			time.Sleep(3 * ttl)
			require.Zero(w, s.Earlier())
			w.Delete(w.Entries(queue)[0].ID) // of the call that waits on in the next session
			time.Sleep(ttl)
		}
	})
}

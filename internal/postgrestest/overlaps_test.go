package postgrestest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

var (
	overlaps     = flag.Int("overlaps", 40, "rounds in which deletes of permits overlap")
	bites        = flag.Int("overlapbites", 400, "rounds within which a part of the schema that is missing shows")
	overlapsSeed = flag.Uint64("overlapseed", 1, "of the first round")
)

// A hand is a connection by which somebody changes a queue of permits, a statement at a time. A statement that waits
// for a lock is left to wait, and others go on.
type hand struct {
	conn   *pgx.Conn
	pid    uint32
	open   bool       // it is in a transaction
	failed bool       // which can only be rolled back
	busy   chan error // of the statement that is under way, if there is one
	then   func(error)
}

// A standing is a permit that waits as a Store has it wait.
type standing struct {
	id, session string
	units       int64
	state       string // looks, turns, stands, holds or gone
	version     int64  // of the register, as it has looked
	told        bool   // since it began to turn
	moved       bool   // what farsync_turned has answered
	busy        bool   // a hand does something for it
}

// A scuffle is one round: some permits, some that wait, and hands that delete, lock, take back, end sessions and
// resize, in an order that is the seed's. Which statement waits for which the server says, and no time.
type scuffle struct {
	database
	*rand.Rand

	queue    string
	hands    []*hand
	ear      *pgx.Conn
	entries  []string
	sessions []string
	waiters  []*standing
	said     []string      // what was done, for people
	ended    chan struct{} // a statement has, since this was received from last
}

func (s *scuffle) say(format string, arguments ...any) {
	s.said = append(s.said, fmt.Sprintf(format, arguments...))
}

// direct returns a connection that is closed with t.
func (d database) direct(t testing.TB) *pgx.Conn {
	conn, err := pgx.ConnectConfig(within(t, soon), d.config(t).ConnConfig)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// does has a hand do something, and returns once that has ended or waits for a lock.
func (s *scuffle) does(t testing.TB, h *hand, run func(ctx context.Context) error, then func(error)) {
	done := make(chan error, 1)
	h.busy, h.then = done, then
	ctx := within(t, soon)
	go func() { // joined by settled
		done <- run(ctx)
		select {
		case s.ended <- struct{}{}:
		default:
		}
	}()
	s.settle(t)
}

// settle returns once every statement that is under way has ended, or waits for a lock.
func (s *scuffle) settle(t testing.TB) {
	for again := true; again; {
		again = false
		for _, h := range s.hands {
			again = s.settled(t, h) || again // what has ended may have let others go on
		}
	}
}

// settled waits until the statement of a hand has ended, or waits for a lock, and reports whether one has ended.
func (s *scuffle) settled(t testing.TB, h *hand) bool {
	for h.busy != nil {
		select {
		case err := <-h.busy:
			h.busy = nil
			h.then(err)
			return true
		default:
		}
		if s.count(t, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'", h.pid) > 0 {
			return false
		}
	}
	return false
}

// hears takes in what was notified by now.
func (s *scuffle) hears(t testing.TB) {
	const end = "that is all"
	s.exec(t, "SELECT pg_notify('scuffle', $1)", end)
	for {
		note, err := s.ear.WaitForNotification(within(t, soon))
		require.NoError(t, err)
		if note.Channel == "scuffle" {
			return
		}
		for _, w := range s.waiters {
			mine := note.Payload == w.id || note.Payload == "="+s.queue || note.Payload == ""
			w.told = w.told || mine && note.Channel == "farsync_"+w.session
		}
	}
}

// joins adds a permit, by the statement of a Store. One that others hold or wait for at the beginning is added by the
// operator.
func (s *scuffle) joins(w *standing) (statement string, arguments []any) {
	return "SELECT count(*) FROM farsync_enter($1, $2, 1, $3, 0, $4, NULL, 0)", []any{s.queue, w.id, w.units, w.session}
}

// newScuffle fills a queue.
func newScuffle(t testing.TB, d database, hands []*hand, ear *pgx.Conn, seed uint64) *scuffle {
	s := &scuffle{
		database: d, Rand: rand.New(rand.NewPCG(seed, 41)), queue: fmt.Sprint("/scuffle/", seed),
		hands: hands, ear: ear, ended: make(chan struct{}, 1),
	}
	for n := range 4 {
		id := fmt.Sprintf("s%d-%d", seed, n)
		s.sessions = append(s.sessions, id)
		s.exec(t, "INSERT INTO farsync_sessions VALUES ($1, farsync_begin_5(3600000000), 3600000000)", id)
		_, err := ear.Exec(within(t, soon), "LISTEN "+pgx.Identifier{"farsync_" + id}.Sanitize())
		require.NoError(t, err)
	}
	size := 1 + s.Int64N(3)
	s.exec(t, "INSERT INTO farsync_registers VALUES ($1, $2, 1)", s.queue, fmt.Sprint(size, " ", size))
	other := s.IntN(8) // where an entry of another kind stands, if it is among the first
	for n := range 5 {
		w := s.permit(size)
		if n == other {
			s.exec(t, "INSERT INTO farsync_entries (id, queue, session, kind) VALUES ($1, $2, $3, 'other')",
				w.id, s.queue, w.session)
			s.say("%s is of another kind", w.id)
			continue
		}
		statement, arguments := s.joins(w)
		s.exec(t, statement, arguments...)
		s.waiters = append(s.waiters, w)
	}
	for s.steps(t) {
	}
	return s
}

// permit makes one that is still to join.
func (s *scuffle) permit(most int64) *standing {
	w := &standing{
		id: fmt.Sprintf("%s-%d", s.queue, len(s.entries)), session: s.sessions[s.IntN(len(s.sessions))],
		units: 1 + s.Int64N(min(most, 2)), state: "looks",
	}
	s.entries = append(s.entries, w.id)
	s.say("%s of %s for %d joins", w.id, w.session, w.units)
	return w
}

// steps has each that waits go on without a hand, unless that has to wait, and reports whether one has got on.
func (s *scuffle) steps(t testing.TB) (on bool) {
	s.hears(t)
	for _, w := range s.waiters {
		if w.busy {
			continue
		}
		switch {
		case w.state == "stands" && w.told:
			w.state = "looks"
			on = true
		case w.state == "looks":
			w.state = s.look(t, w)
			on = true
		case w.state == "turns":
			if h := s.free(false); h != nil {
				s.turns(t, h, w)
				on = true
			}
		}
	}
	return on
}

// look is what farsync_room shows, with the register of the same state.
func (s *scuffle) look(t testing.TB, w *standing) (state string) {
	var there, granted bool
	require.NoError(t, s.admin.QueryRow(within(t, soon), `SELECT EXISTS (SELECT 1 FROM farsync_entries WHERE id = $2),
			NOT EXISTS (SELECT 1 FROM farsync_room($1, $2, 2, $3, 0)
				WHERE id NOT IN ('', $2) AND NOT (id LIKE 'turn:%' AND units = 0)),
			coalesce((SELECT version FROM farsync_registers WHERE queue = $1), 0)`,
		s.queue, w.id, w.units).Scan(&there, &granted, &w.version))
	switch {
	case !there:
		return "gone"
	case granted:
		return "holds"
	default:
		return "turns"
	}
}

// turns asks farsync_turned, as a Watch does that listens.
func (s *scuffle) turns(t testing.TB, h *hand, w *standing) {
	w.told, w.busy = false, true
	s.does(t, h, func(ctx context.Context) error {
		return h.conn.QueryRow(ctx, "SELECT moved FROM farsync_turned($1, $2, $3)", s.queue, w.id, w.version).Scan(&w.moved)
	}, func(err error) {
		w.busy = false
		if w.state = "stands"; deadlocked(t, err) || w.moved {
			w.state = "looks"
		}
		s.say("%s has turned, and %s", w.id, w.state)
	})
}

// free returns a hand that waits for nothing, in a transaction or in none.
func (s *scuffle) free(open bool) *hand {
	for _, n := range s.Perm(len(s.hands)) {
		if h := s.hands[n]; h.busy == nil && h.open == open {
			return h
		}
	}
	return nil
}

// any returns some entry of the queue.
func (s *scuffle) any() string { return s.entries[s.IntN(len(s.entries))] }

// act has a hand do one thing in a transaction.
func (s *scuffle) act(t testing.TB, h *hand) {
	statement, arguments := "DELETE FROM farsync_entries WHERE id = $1", []any{s.any()}
	switch n := s.IntN(12); {
	case n < 5:
	case n < 6:
		statement, arguments = "DELETE FROM farsync_entries WHERE id IN ($1, $2)", []any{s.any(), s.any()}
	case n < 7:
		statement = "SELECT FROM farsync_entries WHERE id = $1 FOR UPDATE"
	case n < 8:
		statement = "SELECT FROM farsync_entries WHERE id = $1 FOR SHARE"
	case n < 10:
		statement, arguments = "SELECT farsync_end($1)", []any{s.sessions[s.IntN(len(s.sessions))]}
	default:
		// In the turn of its queue, as every change of a register.
		statement = "SELECT farsync_write($1, $2, (SELECT version FROM farsync_registers WHERE queue = $1), '')"
		arguments = []any{s.queue, fmt.Sprint("9 ", 1+s.IntN(3))}
	}
	s.runs(t, h, statement, arguments...)
}

// runs has a hand run a statement, in a transaction of the hand's own if none is open.
func (s *scuffle) runs(t testing.TB, h *hand, statement string, arguments ...any) {
	name := slices.Index(s.hands, h)
	s.say("%d: %s %v", name, statement, arguments)
	s.does(t, h, func(ctx context.Context) error {
		if !h.open {
			if _, err := h.conn.Exec(ctx, "BEGIN"); err != nil {
				return err
			}
		}
		_, err := h.conn.Exec(ctx, statement, arguments...)
		return err
	}, func(err error) {
		h.open, h.failed = true, deadlocked(t, err)
		s.say("%d: done %v", name, err)
	})
}

// deadlocked reports whether that was it. A Store sends the statement again. There is no other error.
func deadlocked(t testing.TB, err error) bool {
	if refused, is := errors.AsType[*pgconn.PgError](err); is && refused.Code == "40P01" {
		return true
	}
	require.NoError(t, err)
	return false
}

// ends ends the transaction of a hand.
func (s *scuffle) ends(t testing.TB, h *hand, how string) {
	s.say("%d: %s", slices.Index(s.hands, h), how)
	s.does(t, h, func(ctx context.Context) error {
		_, err := h.conn.Exec(ctx, how)
		return err
	}, func(err error) {
		require.NoError(t, err)
		h.open, h.failed = false, false
	})
}

// play plays a round, and returns who was forgotten: a permit that waits and is granted, or whose entry has gone, or
// that knows another size, and that was told nothing. One whose session has ended is told by that.
func (s *scuffle) play(t testing.TB) (forgotten []string) {
	for range 16 {
		switch h, idle := s.free(true), s.free(false); {
		case h != nil && (idle == nil || s.IntN(2) == 0):
			switch n := s.IntN(6); {
			case h.failed || n == 0:
				s.ends(t, h, "ROLLBACK")
			case n < 4:
				s.ends(t, h, "COMMIT")
			default:
				s.act(t, h)
			}
		case idle != nil && s.IntN(4) == 0:
			w := s.permit(2)
			w.busy = true
			statement, arguments := s.joins(w)
			s.does(t, idle, func(ctx context.Context) error {
				_, err := idle.conn.Exec(ctx, statement, arguments...)
				return err
			}, func(err error) {
				deadlocked(t, err) // then there is none
				w.busy = false
			})
			s.waiters = append(s.waiters, w)
		case idle != nil:
			s.act(t, idle)
		}
		s.steps(t)
	}
	for s.end(t) {
	}
	for s.steps(t) {
	}
	for _, w := range s.waiters {
		before := w.version
		lives := s.count(t, "SELECT count(*) FROM farsync_sessions WHERE id = $1", w.session) > 0
		if w.state == "stands" && lives && (s.look(t, w) != "turns" || w.version != before) {
			forgotten = append(forgotten, w.id)
		}
	}
	return forgotten
}

// end ends a transaction that waits for nothing, and reports whether there was one, or one that waits. Of those that
// all wait for each other the server ends one.
func (s *scuffle) end(t testing.TB) bool {
	if h := s.free(true); h != nil {
		how := "COMMIT"
		if h.failed || s.IntN(4) == 0 {
			how = "ROLLBACK"
		}
		s.ends(t, h, how)
		return true
	}
	if !slices.ContainsFunc(s.hands, func(h *hand) bool { return h.busy != nil }) {
		return false
	}
	select {
	case <-s.ended:
	case <-within(t, soon).Done():
		require.Fail(t, "all wait for one another", "%s", strings.Join(s.said, "\n"))
	}
	s.settle(t)
	return true
}

// newHands returns connections, and one that hears what is notified.
func (d database) newHands(t testing.TB) (hands []*hand, ear *pgx.Conn) {
	for range 4 {
		conn := d.direct(t)
		hands = append(hands, &hand{conn: conn, pid: conn.PgConn().PID()})
	}
	ear = d.direct(t)
	_, err := ear.Exec(within(t, soon), "LISTEN scuffle")
	require.NoError(t, err)
	return hands, ear
}

// scuffles plays rounds, and returns after how many a permit was forgotten, and what was done in that round.
func (d database) scuffles(t testing.TB, from uint64, rounds int) (after int, said []string) {
	hands, ear := d.newHands(t)
	for n := range rounds {
		s := newScuffle(t, d, hands, ear, from+uint64(n))
		if forgotten := s.play(t); len(forgotten) > 0 {
			return n + 1, append(s.said, fmt.Sprintf("seed %d: forgotten are %v", from+uint64(n), forgotten))
		}
		_, err := ear.Exec(within(t, soon), "UNLISTEN *; LISTEN scuffle")
		require.NoError(t, err)
	}
	return 0, nil
}

// TestOverlappingDeletesForgetNoPermit: deletes, locks, transactions that are taken back, ends of sessions and resizes
// overlap in any order. In the end each permit that waits and fits was told, and each whose entry has gone.
func TestOverlappingDeletesForgetNoPermit(t *testing.T) {
	suite.Long(t, suite.Postgres, "plays rounds in which many transactions wait for one another")
	t.Parallel()
	d := newServer(t, embedtest.Setting("deadlock_timeout = 10ms"))
	after, said := d.scuffles(t, *overlapsSeed, *overlaps)
	require.Zero(t, after, "%s", strings.Join(said, "\n"))
}

// TestEachPartThatTellsPermitsIsNeeded: without any of the parts of the schema that see to it, the rounds show a permit
// that is forgotten.
func TestEachPartThatTellsPermitsIsNeeded(t *testing.T) {
	suite.Long(t, suite.Postgres, "plays rounds until a permit is forgotten")
	t.Parallel()
	for name, part := range map[string]struct {
		text, without string
		seed          uint64 // near that of a round that shows it
	}{
		"farsync_turned waits for what is leaving": {
			"PERFORM 1 FROM farsync_entries e WHERE e.id = ANY (may.leaving) ORDER BY e.id FOR KEY SHARE;", "", 3,
		},
		"farsync_let_in counts what is leaving as gone": {
			"IF other.leaves THEN\n      PERFORM 1", "IF false THEN\n      PERFORM 1", 146,
		},
		"what is leaving left no room before": {
			"    before := CASE WHEN other.units <= before THEN before - other.units END;\n    CONTINUE WHEN NOT stays;\n",
			"    CONTINUE WHEN NOT stays;\n    before := CASE WHEN other.units <= before THEN before - other.units END;\n", 189,
		},
		"a size tells": {
			"SELECT DISTINCT session FROM farsync_entries WHERE queue = new.queue",
			"SELECT DISTINCT session FROM farsync_entries WHERE false AND queue = new.queue", 1,
		},
		"an entry that has gone tells its own session": {
			"PERFORM farsync_tell(s.id, g.id) FROM gone g",
			"PERFORM farsync_tell(s.id, g.id) FROM (SELECT * FROM gone WHERE false) g", 8,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			without := strings.Replace(postgres.Schema(), part.text, part.without, 1)
			require.NotEqual(t, postgres.Schema(), without)
			d := newServer(t, embedtest.Setting("deadlock_timeout = 10ms"))
			_, err := d.direct(t).PgConn().Exec(within(t, soon), without).ReadAll()
			require.NoError(t, err)
			after, _ := d.scuffles(t, part.seed, *bites)
			t.Logf("%d rounds", after)
			require.NotZero(t, after, "nothing was forgotten in %d rounds", *bites)
		})
	}
}

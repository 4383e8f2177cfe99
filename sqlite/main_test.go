//go:build unix

package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/machine"
)

// soon is for what has to happen at all.
const soon = time.Minute

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		play(role)
		return
	}
	locktest.AtOnce(8)
	os.Exit(m.Run())
}

// entriesOf returns the names in a directory.
func entriesOf(t testing.TB, dir string) (names []string) {
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func newFile(t testing.TB) string { return filepath.Join(t.TempDir(), "locks.db") }

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// newStore returns a Store in the file, closed by t.
func newStore(t testing.TB, file string, options *Options) *farsync.Store {
	store, err := Open(within(t, soon), file, options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func ttl(d time.Duration) *Options { return &Options{Options: farsync.Options{TTL: d}} }

// An operator changes a file as the sqlite3 shell does: no session is told.
type operator struct{ db *sql.DB }

func newOperator(t testing.TB, file string) operator {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)")
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return operator{db}
}

func (o operator) exec(t testing.TB, statement string, args ...any) int64 {
	result, err := o.db.ExecContext(within(t, soon), statement, args...)
	require.NoError(t, err)
	n, err := result.RowsAffected()
	require.NoError(t, err)
	return n
}

func (o operator) delete(t *testing.T, e driver.Entry) {
	require.EqualValues(t, 1, o.exec(t, "DELETE FROM farsync_entries WHERE id = ?", e.ID))
}

// foreign adds an entry in a session of another program; of none if that is empty.
func (o operator) foreign(t *testing.T, queue string, session any) driver.Entry {
	if session != nil {
		o.exec(t, "INSERT OR IGNORE INTO farsync_sessions VALUES (?, ?, ?, 1000000, 0)", session, machine.Boot(), machine.Clock()+int64(time.Hour))
	}
	e := driver.Entry{Queue: queue, ID: rand.Text()}
	o.exec(t, "INSERT INTO farsync_entries (id, queue, session, kind) VALUES (?, ?, ?, 'other')", e.ID, queue, session)
	return e
}

// expire ends the session that has an entry with this ID, as one is ended that has not been renewed.
func expire(t *testing.T, by driver.Session, id string) {
	require.NoError(t, by.(*session).endOwner(within(t, soon), id))
}

// endOwner ends the session of an entry.
func (s *session) endOwner(ctx context.Context, id string) error {
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM farsync_sessions WHERE id = (SELECT session FROM farsync_entries WHERE id = ?)", id)
		return err
	})
}

// newSessionIn returns a session in the file, closed by t. It is not renewed, and outlives every test.
func newSessionIn(t *testing.T, file string, options *Options) *session {
	s, err := NewService(file, options)
	require.NoError(t, err)
	in, err := s.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = in.Close(context.WithoutCancel(t.Context()))
		require.NoError(t, s.Close())
	})
	return in.(*session)
}

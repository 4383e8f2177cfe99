//go:build unix

package sqlite

import (
	"testing"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

func TestCrowds(t *testing.T) {
	suite.Long(t, suite.SQLite, "crowds of ten thousand")
	t.Parallel()
	locktest.RunCrowds(t, func(t testing.TB) locktest.Crowded {
		file := newFile(t)
		first := newStore(t, file, nil) // which makes the tables
		admin := newOperator(t, file)
		_ = first.Close()
		return locktest.Crowded{Open: func(t testing.TB, of time.Duration) *farsync.Store {
			return newStore(t, file, ttl(of))
		}, Crowd: func(t testing.TB, n int) {
			// By the clock of a session that is there.
			admin.exec(t, `INSERT OR IGNORE INTO farsync_sessions
				SELECT 'dead', boot, deadline + 3600000000, ttl, 1 FROM farsync_sessions LIMIT 1`)
			admin.exec(t, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
				INSERT INTO farsync_entries (id, queue, session, kind)
				SELECT hex(randomblob(16)), '/crowd', 'dead', 'exclusive' FROM n`, n)
		}, Adopt: func(t testing.TB) {
			admin.exec(t, "UPDATE farsync_entries SET session = (SELECT id FROM farsync_sessions WHERE id <> 'dead')")
		}, Dies: func(t testing.TB) {
			admin.exec(t, "UPDATE farsync_sessions SET deadline = 0 WHERE id = 'dead'")
		}}
	})
}

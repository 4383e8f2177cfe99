package mysqltest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

func TestCrowds(t *testing.T) {
	suite.Long(t, suite.MySQL, "crowds of ten thousand, beside sessions of a TTL of 1 s")
	t.Parallel()
	locktest.RunCrowds(t, func(t testing.TB) locktest.Crowded {
		d := newDatabase(t)
		return locktest.Crowded{Open: func(t testing.TB, of time.Duration) *farsync.Store {
			return d.open(t, ttl(of))
		}, Crowd: d.crowd, Adopt: func(t testing.TB) {
			d.exec(t, "UPDATE farsync_entries SET session = (SELECT id FROM farsync_sessions WHERE id <> 'dead')")
		}, Dies: func(t testing.TB) {
			d.exec(t, "UPDATE farsync_sessions SET deadline = 1 WHERE id = 'dead'")
		}}
	})
}

func (d database) crowd(t testing.TB, n int) {
	d.exec(t, "INSERT IGNORE INTO farsync_sessions VALUES ('dead', ?, 1000000)", time.Now().Add(time.Hour).UnixMicro())
	d.exec(t, "INSERT IGNORE INTO farsync_queues VALUES ('/crowd', 0)")
	d.exec(t, fmt.Sprintf(`INSERT INTO farsync_entries (id, queue, session, kind, revision)
		SELECT UUID(), '/crowd', 'dead', 'exclusive', last + seq FROM farsync_queues, seq_1_to_%d WHERE path = '/crowd'`, n))
	d.exec(t, "UPDATE farsync_queues SET last = last + ? WHERE path = '/crowd'", n)
}

package postgrestest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

func TestCrowds(t *testing.T) {
	suite.Long(t, suite.Postgres, "crowds of ten thousand, beside sessions of a TTL of 1 s")
	t.Parallel()
	locktest.RunCrowds(t, func(t testing.TB) locktest.Crowded {
		d := newServer(t)
		return locktest.Crowded{Open: d.open, Crowd: d.crowd, Adopt: func(t testing.TB) {
			d.exec(t, "UPDATE farsync_entries SET session = (SELECT id FROM farsync_sessions WHERE id <> 'dead')")
		}, Dies: func(t testing.TB) {
			d.exec(t, "UPDATE farsync_sessions SET deadline = 0 WHERE id = 'dead'")
		}}
	})
}

// crowd has no triggers run, which would take seconds.
func (d database) crowd(t testing.TB, n int) {
	d.exec(t, fmt.Sprintf(`BEGIN;
		INSERT INTO farsync_sessions VALUES ('dead', farsync_now() + %d, 1000000) ON CONFLICT DO NOTHING;
		SELECT farsync_turn('/crowd');
		SET LOCAL session_replication_role = replica;
		INSERT INTO farsync_entries (id, queue, session, kind, revision)
			SELECT gen_random_uuid(), '/crowd', 'dead', 'exclusive', last + n
			FROM farsync_queues, generate_series(1, %[2]d) n WHERE path = '/crowd';
		UPDATE farsync_queues SET last = last + %[2]d WHERE path = '/crowd';
		COMMIT`, time.Hour.Microseconds(), n))
}

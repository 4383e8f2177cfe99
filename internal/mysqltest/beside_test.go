package mysqltest_test

import (
	"bufio"
	"bytes"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/earlier"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
)

// before is the last commit whose Stores join by farsync_create_3.
const before = "064467b1f81ce6c9e9b285e656f54129988c28be"

// TestEarlierStoresBeside: an earlier farsync makes the tables, and its Stores are in use. Migrate is run, Stores of
// this farsync come to the same queue, and the earlier ones go on; those of today leave, and an earlier one is all
// there is, as after a rollback. No two hold, tokens rise, and nothing is left.
func TestEarlierStoresBeside(t *testing.T) {
	suite.Long(t, suite.MySQL, "processes of two versions race, and are counted")
	t.Parallel()
	program := earlier.Program(t, before, "./beside", map[string]string{"beside/main.go": "testdata/beside/main.go"})
	d := bareDatabase(t, serverOf(t, shared))
	d.exec(t, "CREATE TABLE beside (inside int)")
	d.exec(t, "INSERT INTO beside VALUES (0)")
	d.exec(t, "CREATE TABLE written (n int AUTO_INCREMENT PRIMARY KEY, token bigint)")
	const times = 40
	start := func(what string) (wait func()) {
		var says bytes.Buffer
		running := exec.CommandContext(t.Context(), program, d.dsn(), what)
		running.Stderr = &says
		out, err := running.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, running.Start())
		if what != "migrate" {
			said, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err, "%s", &says)
			require.Equal(t, "open\n", said)
		}
		return func() {
			t.Helper()
			require.NoError(t, running.Wait(), "%s", &says)
		}
	}
	start("migrate")()
	_, err := mysql.Open(within(t, soon), d.dsn(), nil)
	require.ErrorContains(t, err, "?migrate=1")
	one, other := start(strconv.Itoa(times)), start(strconv.Itoa(times))
	require.NoError(t, mysql.Migrate(within(t, soon), d.dsn()))
	stores := []*farsync.Store{d.open(t, nil), d.open(t, nil)}
	for range times {
		for _, store := range stores {
			lease := lock(t, store, "/beside")
			require.EqualValues(t, 1, d.exec(t, "UPDATE beside SET inside = inside + 1"))
			require.Equal(t, 1, ask[int](t, d, "SELECT inside FROM beside"), "so many hold")
			d.exec(t, "INSERT INTO written (token) VALUES (?)", int64(lease.Token()))
			d.exec(t, "UPDATE beside SET inside = inside - 1")
			require.NoError(t, lease.Release())
		}
	}
	one()
	other()
	for _, store := range stores {
		require.NoError(t, store.Close())
	}
	start("migrate")()
	start(strconv.Itoa(times))()
	require.Equal(t, 5*times, ask[int](t, d, "SELECT COUNT(*) FROM written"))
	require.Zero(t, ask[int](t, d, "SELECT COUNT(*) FROM written a JOIN written b ON b.n = a.n + 1 AND b.token <= a.token"))
	require.Zero(t, ask[int](t, d, "SELECT (SELECT COUNT(*) FROM farsync_entries) + (SELECT COUNT(*) FROM farsync_sessions)"))
	require.NoError(t, mysql.Migrate(within(t, soon), d.dsn()))
	require.NoError(t, lock(t, d.open(t, nil), "/beside").Release())
}

// TestJoinMeetsTheEndOfItsSession: the session runs out, and another client ends it, or its own does, while a join has
// inserted its entry and not looked yet whether the session lives. Then each of the two waits for the other: the server
// rolls one of them back, and whichever that is, no entry is left without its session.
func TestJoinMeetsTheEndOfItsSession(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{
		"another ends it": "CALL farsync_bury_one_3('job', 9, @removed, @is_busy)", "its own does": "CALL farsync_end('job')",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			d.exec(t, "INSERT INTO farsync_sessions VALUES ('job', 1, 1000000)")
			conn, err := d.admin.Conn(within(t, soon))
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			do := func(statement string) error {
				_, err := conn.ExecContext(within(t, soon), statement)
				return err
			}
			// As farsync_create_4 does, statement by statement.
			require.NoError(t, do("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"))
			require.NoError(t, do("START TRANSACTION"))
			require.NoError(t, do("SET foreign_key_checks = 0"))
			require.NoError(t, do("INSERT INTO farsync_entries (id, queue, session, revision) VALUES ('job-1', '/q', 'job', 1)"))
			require.NoError(t, do("SET foreign_key_checks = 1"))
			ended := make(chan error, 1)
			go func() { // joined below
				_, err := d.admin.ExecContext(within(t, soon), end)
				ended <- err
			}()
			awaitWaiting(t, d)
			var lives int
			err = conn.QueryRowContext(within(t, soon), "SELECT COUNT(*) FROM farsync_sessions WHERE id = 'job' AND deadline > 0 LOCK IN SHARE MODE").Scan(&lives)
			if err == nil && lives == 0 {
				require.NoError(t, do("DELETE FROM farsync_entries WHERE id = 'job-1'"))
			}
			if err == nil {
				require.NoError(t, do("COMMIT"))
			} else {
				require.ErrorContains(t, err, "Deadlock")
			}
			of := locktest.Got(t, ended)
			t.Logf("the join: %v, with %d sessions; the end: %v", err, lives, of)
			require.True(t, err == nil || of == nil, "one of them goes on")
			require.Zero(t, ask[int](t, d, "SELECT COUNT(*) FROM farsync_entries e LEFT JOIN farsync_sessions s ON s.id = e.session WHERE s.id IS NULL"))
		})
	}
}

// TestJoinThatFailsLeavesItsConnectionAsItWas: the foreign key is checked again by the next statement.
func TestJoinThatFailsLeavesItsConnectionAsItWas(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, "CALL farsync_open('job', 3600000000)")
	d.exec(t, "INSERT INTO farsync_queues VALUES ('/kept', 1)")
	end := d.keep(t, keepers[0])
	for _, checks := range []int{1, 0} {
		conn, err := d.admin.Conn(within(t, soon))
		require.NoError(t, err)
		for _, statement := range []string{"SET innodb_lock_wait_timeout = 1", "SET foreign_key_checks = " + strconv.Itoa(checks)} {
			_, err = conn.ExecContext(within(t, soon), statement)
			require.NoError(t, err)
		}
		_, err = conn.ExecContext(within(t, soon), "CALL farsync_create_4('/kept', 'kept', 1, 'job', 'exclusive', 1, NULL, 0)")
		require.ErrorContains(t, err, "Lock wait timeout")
		var is int
		require.NoError(t, conn.QueryRowContext(within(t, soon), "SELECT @@SESSION.foreign_key_checks").Scan(&is))
		require.Equal(t, checks, is)
		require.Equal(t, 1, ask[int](t, d, "SELECT last FROM farsync_queues WHERE path = '/kept' FOR UPDATE NOWAIT"), "it was rolled back")
		_, err = conn.ExecContext(within(t, soon), "SET foreign_key_checks = 1")
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	end()
}

//go:build unix

package mysqltest_test

import (
	"bufio"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
)

var holders = flag.Int("holders", 3, "processes that are stopped between Guard and COMMIT")

// holderVariable is the DSN of a process that is a holder, holderPath its path.
const holderVariable, holderPath = "FARSYNC_MYSQL_HOLDER", "FARSYNC_MYSQL_PATH"

const stoppedTTL = 2 * time.Second

// hold locks, guards a transaction, and writes and commits in it when it is told to.
func hold(ctx context.Context, dsn, path string) error {
	store, err := mysql.Open(ctx, dsn, ttl(stoppedTTL))
	if err != nil {
		return err
	}
	lease, err := farsync.NewMutex(store, path).Lock(ctx)
	if err != nil {
		return err
	}
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err == nil {
		err = mysql.Guard(ctx, tx, lease)
	}
	if err != nil {
		return err
	}
	fmt.Println("guarded")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO written (path, token) VALUES (?, ?)", path, int64(lease.Token())); err != nil {
		return err
	}
	return tx.Commit()
}

// TestHoldersStoppedBetweenGuardAndCommit, for longer than their TTL: the next holds only after their transactions have ended, so what
// they write is never late.
func TestHoldersStoppedBetweenGuardAndCommit(t *testing.T) {
	suite.Long(t, suite.MySQL, "stops processes, beside a TTL of 2 s")
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, "CREATE TABLE written (n int AUTO_INCREMENT PRIMARY KEY, path varchar(99), token bigint)")
	next := d.open(t, ttl(stoppedTTL))
	var all sync.WaitGroup
	for i := range *holders {
		path := fmt.Sprint("/stopped/", i)
		holder := exec.Command(os.Args[0])
		holder.Env = append(os.Environ(), holderVariable+"="+d.dsn(), holderPath+"="+path)
		holder.Stderr = os.Stderr
		in, err := holder.StdinPipe()
		require.NoError(t, err)
		out, err := holder.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, holder.Start())
		t.Cleanup(func() { _ = holder.Process.Kill() })
		said, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "guarded\n", said)
		require.NoError(t, holder.Process.Signal(syscall.SIGSTOP))
		got := locktest.LockBehind(t, next, path)
		require.Eventually(t, func() bool { // its session is over
			return ask[int](t, d, `SELECT COUNT(*) FROM farsync_sessions s JOIN farsync_entries e ON e.session = s.id
				WHERE e.queue = ? AND s.deadline <= 0`, path) == 1
		}, soon, 10*time.Millisecond)
		all.Go(func() {
			lease := locktest.Got(t, got)
			if _, err := d.admin.Exec("INSERT INTO written (path, token) VALUES (?, ?)", path, int64(lease.Token())); err != nil {
				t.Error(err)
			}
			_ = lease.Release()
		})
		require.Empty(t, got, "the transaction is open")
		_, err = fmt.Fprintln(in)
		require.NoError(t, err)
		require.NoError(t, holder.Process.Signal(syscall.SIGCONT))
		require.NoError(t, holder.Wait(), "it commits")
	}
	all.Wait()
	require.Equal(t, 2**holders, ask[int](t, d, "SELECT COUNT(*) FROM written"))
	require.Zero(t, ask[int](t, d, "SELECT COUNT(*) FROM written a JOIN written b ON a.path = b.path AND a.n < b.n AND a.token >= b.token"))
}

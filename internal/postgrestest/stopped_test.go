//go:build unix

package postgrestest_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

var stops = flag.Int("stops", 4, "holders that are stopped between Guard and COMMIT, and as many before Guard")

// holderVariable makes a process of this executable a holder: the address of the server, and the number of its account.
const holderVariable = "FARSYNC_POSTGRES_HOLDER"

// holdInstead returns only if the process is not a holder.
func holdInstead() {
	if what, ok := os.LookupEnv(holderVariable); ok {
		if err := hold(context.Background(), what); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// hold locks, and writes to an account in a transaction with a guard. After each step it says so, and waits for a line.
func hold(ctx context.Context, what string) error {
	account, to, _ := strings.Cut(what, " ")
	config, err := pgxpool.ParseConfig(to)
	if err != nil {
		return err
	}
	store, err := postgres.Open(ctx, config, &postgres.Options{Options: farsync.Options{TTL: time.Second}})
	if err != nil {
		return err
	}
	lines := bufio.NewReader(os.Stdin)
	step := func(name string) {
		fmt.Println(name)
		_, _ = lines.ReadString('\n')
	}
	lease, err := farsync.NewMutex(store, "/stopped/"+account).Lock(ctx)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, to)
	if err != nil {
		return err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	entries, err := lease.GuardEntries() // the lease itself will know that it is lost, and show none
	if err != nil {
		return err
	}
	step("locked")
	if err := postgres.Guard(ctx, tx, held(entries)); err != nil {
		return err
	}
	step("guarded")
	if _, err := tx.Exec(ctx, "UPDATE accounts SET writes = writes || 'a' WHERE id = $1", account); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	step("committed")
	return nil
}

// A holder is such a process.
type holder struct {
	t       *testing.T
	command *exec.Cmd
	in      io.Writer
	out     *bufio.Reader
}

func startHolder(t *testing.T, d database, account int) *holder {
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), holderVariable+"="+strconv.Itoa(account)+" "+d.server.URL())
	in, err := command.StdinPipe()
	require.NoError(t, err)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // killed
	})
	return &holder{t, command, in, bufio.NewReader(out)}
}

func (h *holder) says(what string) {
	line, err := h.out.ReadString('\n')
	require.NoError(h.t, err)
	require.Contains(h.t, line, what)
}

func (h *holder) goOn() {
	_, err := fmt.Fprintln(h.in)
	require.NoError(h.t, err)
}

func (h *holder) signal(s syscall.Signal) { require.NoError(h.t, h.command.Process.Signal(s)) }

// TestStoppedHoldersWriteNothingStale: holders are stopped for longer than their TTL, each second one between Guard and COMMIT, the
// others before Guard. Of the first the next is granted nothing before they have committed; what the others try to write
// after the next has held is refused.
func TestStoppedHoldersWriteNothingStale(t *testing.T) {
	suite.Long(t, suite.Postgres, "stops processes")
	t.Parallel()
	d := newServer(t, embedtest.Setting("max_connections = 300"))
	d.exec(t, "CREATE TABLE accounts (id int PRIMARY KEY, writes text NOT NULL DEFAULT '')")
	next := d.open(t, 10*time.Second)
	holders, granted := make([]*holder, 2**stops), make([]chan error, 2**stops)
	guards := func(i int) bool { return i%2 == 0 }
	for i := range holders {
		d.exec(t, "INSERT INTO accounts (id) VALUES ($1)", i)
		holders[i], granted[i] = startHolder(t, d, i), make(chan error, 1)
	}
	for i, h := range holders {
		h.says("locked")
		if guards(i) {
			h.goOn()
			h.says("guarded")
		}
		h.signal(syscall.SIGSTOP)
		go func() { // granted is read below
			lease, err := farsync.NewMutex(next, fmt.Sprint("/stopped/", i)).Lock(within(t, soon))
			if err == nil {
				_, err = d.admin.Exec(within(t, soon), "UPDATE accounts SET writes = writes || 'b' WHERE id = $1", i)
			}
			if err == nil {
				err = lease.Release()
			}
			granted[i] <- err
		}()
	}
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, d.admin.QueryRow(within(t, soon), "SELECT count(*) FROM farsync_sessions").Scan(&n))
		return n == 1
	}, soon, 10*time.Millisecond, "all sessions but one are over")
	for i, h := range holders {
		if guards(i) {
			require.Empty(t, granted[i])
			h.signal(syscall.SIGCONT)
			h.goOn()
			h.says("committed")
			require.NoError(t, <-granted[i])
		} else {
			require.NoError(t, <-granted[i])
			h.signal(syscall.SIGCONT)
			h.goOn()
			h.says("its session is over")
		}
		var writes string
		require.NoError(t, d.admin.QueryRow(within(t, soon), "SELECT writes FROM accounts WHERE id = $1", i).Scan(&writes))
		require.Equal(t, map[bool]string{true: "ab", false: "b"}[guards(i)], writes)
	}
}

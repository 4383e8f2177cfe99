//go:build unix

package sqlite

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/internal/suite"
)

var fire = flag.Duration("fire", 5*time.Second, "how long TestProcessesUnderFire kills and stops processes")

const visitVariable = "FARSYNC_SQLITE_VISIT"

// work locks, visits the ledger, and releases, until ctx ends. It then says how many turns it has had, and how many of them
// came after another process's.
func work(ctx context.Context, mu *farsync.Mutex, file string) error {
	section, err := openLedger(file + ".ledger")
	if err != nil {
		return err
	}
	visit, _ := time.ParseDuration(os.Getenv(visitVariable))
	turns, others, lost := 0, 0, 0
	for {
		lease, err := mu.Lock(ctx)
		if ctx.Err() != nil {
			fmt.Println("turns", turns, others, lost)
			return nil //nolint:nilerr // that of ctx, which has ended as it should
		}
		if err != nil {
			return err
		}
		other, stale, _, err := section.enter(lease)
		if err == nil && visit > 0 && !stale {
			_ = pause.For(ctx, visit)
			_, stale, _, err = section.enter(lease)
		}
		if err != nil {
			return err
		}
		err = lease.Release()
		switch {
		case errors.Is(err, farsync.ErrLost) || stale:
			lost++
		case errors.Is(err, farsync.ErrUnavailable): // a process that is stopped in a write holds up the file
		case err != nil:
			return err
		}
		if turns++; turns == 1 {
			fmt.Println("locked")
		}
		if other {
			others++
		}
	}
}

// TestProcessesUnderFire has processes lock and release, and kills some of them and stops others wherever they are.
func TestProcessesUnderFire(t *testing.T) {
	suite.Long(t, suite.SQLite, "kills and stops processes")
	file := newFile(t)
	begin := func() *process { return start(t, "work", file, ttlVariable+"=1s", visitVariable+"=1ms") }
	workers := make([]*process, 8)
	for i := range workers {
		workers[i] = begin()
	}
	for _, w := range workers {
		w.says("locked")
	}
	kills, stops := 0, 0
	for began := time.Now(); time.Since(began) < *fire || kills == 0 || stops == 0; {
		i := rand.N(len(workers))
		if rand.N(2) == 0 {
			workers[i].kill()
			workers[i] = begin()
			kills++
		} else {
			workers[i].signal(syscall.SIGSTOP)
			require.NoError(t, pause.For(t.Context(), rand.N(2*time.Second))) // up to two TTL
			workers[i].signal(syscall.SIGCONT)
			stops++
		}
		require.NoError(t, pause.For(t.Context(), rand.N(200*time.Millisecond)))
	}
	lost := 0
	for _, w := range workers {
		_ = w.stdin.Close() // it may have ended already, which it says
	}
	for _, w := range workers {
		var turns, others, gone int
		_, err := fmt.Sscan(w.says("turns"), &turns, &others, &gone)
		require.NoError(t, err)
		lost += gone
		w.ends()
	}
	lease, err := farsync.NewMutex(newStore(t, file, nil), path).Lock(within(t, soon))
	require.NoError(t, err)
	section, err := openLedger(file + ".ledger")
	require.NoError(t, err)
	_, _, visits, err := section.enter(lease)
	require.NoError(t, err, "the last token is the highest")
	require.NoError(t, lease.Release())
	t.Logf("%d acquisitions, %d kills, %d stops, 0 overlaps; of the processes left, %d leases were lost", visits, kills, stops, lost)
	require.Greater(t, visits, uint64(len(workers)))
}

package sqlite

import (
	"encoding/binary"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// turnsOf returns how many turns to write were asked for at the gate of a file.
func turnsOf(t *testing.T, file string) int {
	counter, err := os.ReadFile(file + "-gate")
	require.NoError(t, err)
	return int(binary.BigEndian.Uint64(counter[:8]) >> 1)
}

// TestTryBesideOthersWritesTwice: the row of its session, which goes again. Many programs start at the full hour, and their turns
// to write are what each has to wait for.
func TestTryBesideOthersWritesTwice(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	create(t, newSessionIn(t, file, nil), path) // a Store that holds looks after its entry once in a while, which is a turn
	for range 3 {
		before := turnsOf(t, file)
		store, err := Open(within(t, soon), file, ttl(time.Hour))
		require.NoError(t, err)
		require.Equal(t, before+1, turnsOf(t, file), "of Open")
		_, err = farsync.NewMutex(store, path).TryLock(within(t, soon))
		require.ErrorIs(t, err, farsync.ErrLocked)
		require.Equal(t, before+1, turnsOf(t, file), "of TryLock")
		require.NoError(t, store.Close())
		require.Equal(t, before+2, turnsOf(t, file), "of Close")
	}
}

// TestOpensAtOnce of a file that is new to all: its tables are made once, and those who come meanwhile write no more than that they
// have found them.
func TestOpensAtOnce(t *testing.T) {
	t.Parallel()
	const stores = 12
	file := newFile(t)
	var all sync.WaitGroup
	for range stores {
		all.Go(func() {
			store, err := Open(within(t, soon), file, ttl(time.Hour))
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = store.Close() })
			lease, err := farsync.NewMutex(store, path).Lock(within(t, soon))
			if err == nil {
				err = lease.Release()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	admin := newOperator(t, file)
	require.Equal(t, stores, admin.ask(t, "SELECT count(*) FROM farsync_sessions"))
	require.Equal(t, 1, admin.ask(t, "SELECT settled FROM farsync_file"))
	version := admin.ask(t, "PRAGMA schema_version")
	other := newFile(t)
	newStore(t, other, nil)
	require.Equal(t, newOperator(t, other).ask(t, "PRAGMA schema_version"), version, "the tables were made once")
}

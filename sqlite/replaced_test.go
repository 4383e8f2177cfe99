//go:build unix

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// An exchange is what people, deployments and cleaners do to a file, and to what lies beside it.
type exchange struct {
	name    string
	why     string
	overlap bool // a newcomer finds nothing that tells it of the holder
	log     bool // the file itself stays
	rest    bool // the file has sessions of before, which run out before anything is granted
	// do gets the file as programs name it, and a backup of the time before the lock.
	do func(t *testing.T, file, backup string)
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// removeLog removes the files that SQLite keeps beside a file.
func removeLog(file string) (errs []error) {
	return []error{os.Remove(file + "-wal"), os.Remove(file + "-shm")}
}

// backUp makes a copy of a file in use. It leaves no connection behind.
func backUp(t *testing.T, file, to string) {
	by := newOperator(t, file)
	by.exec(t, "VACUUM INTO '"+to+"'")
	must(t, by.db.Close())
}

var exchanges = []exchange{
	{name: "removed", why: "rm locks.db", do: func(t *testing.T, file, _ string) {
		must(t, os.Remove(file))
	}},
	{name: "removed with its log", why: "rm locks.db*, which leaves the directory of the sockets",
		do: func(t *testing.T, file, _ string) {
			must(t, append(removeLog(file), os.Remove(file), os.Remove(file+"-gate"))...)
		}},
	{name: "removed with all", why: "rm -r locks.db*", overlap: true,
		do: func(t *testing.T, file, _ string) {
			must(t, append(removeLog(file), os.Remove(file), os.Remove(file+"-gate"), os.RemoveAll(file+"-farsync"))...)
		}},
	{name: "renamed", why: "mv locks.db locks.old", do: func(t *testing.T, file, _ string) {
		must(t, os.Rename(file, file+".old"))
	}},
	{name: "a backup in its place", why: "mv backup locks.db",
		do: func(t *testing.T, file, backup string) {
			must(t, append(removeLog(file), os.Rename(backup, file))...)
		}},
	{name: "a backup that has the lock", why: "it was made while the lock was held", rest: true,
		do: func(t *testing.T, file, _ string) {
			backUp(t, file, file+".backup")
			must(t, append(removeLog(file), os.Rename(file+".backup", file))...)
		}},
	{name: "its log removed", why: "a cleaner of temporary folders", log: true, rest: true,
		do: func(t *testing.T, file, _ string) {
			must(t, removeLog(file)...)
		}},
	{name: "its log removed by SQLite", log: true, rest: true,
		why: "the holder's process copies the file, which drops its locks on it: whoever closes the file next takes itself for the last",
		do: func(t *testing.T, file, _ string) {
			log, err := os.Open(file + "-wal") // while it is open no other file gets its number
			require.NoError(t, err)
			defer func() { _ = log.Close() }()
			was, err := log.Stat()
			require.NoError(t, err)
			for _, suffix := range suffixes {
				_, err := os.ReadFile(file + suffix)
				require.NoError(t, err)
			}
			for is := was; err == nil && os.SameFile(was, is); is, err = os.Stat(file + "-wal") { // unless a waiter looks just then
				last := start(t, "idle", file)
				last.says("open")
				must(t, last.stdin.Close())
				last.ends()
			}
		}},
	{name: "its directory renamed", why: "a deployment keeps the last release", overlap: true,
		do: func(t *testing.T, file, _ string) {
			dir := filepath.Dir(file)
			must(t, os.Rename(dir, dir+".last"), os.Mkdir(dir, 0o755))
		}},
	{name: "its link switched", why: "a deployment switches a link", overlap: true,
		do: func(t *testing.T, file, _ string) {
			link := filepath.Dir(file)
			next := link + ".next"
			must(t, os.Mkdir(next, 0o755), os.Symlink(next, link+".link"))
			must(t, os.Rename(link+".link", link))
		}},
}

// says is what the holder's error says: of the file, or of its log.
var says = map[bool]string{
	false: "the path names",
	true:  "-wal was re", // moved, or placed by who came before the holder has looked
}

// TestFileThatIsReplacedEndsItsSessions: who opens the path finds another file, which knows nothing of the lock.
func TestFileThatIsReplacedEndsItsSessions(t *testing.T) {
	t.Parallel()
	for _, x := range exchanges {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			first := filepath.Join(t.TempDir(), "real")
			link := filepath.Join(t.TempDir(), "link")
			must(t, os.Mkdir(first, 0o755))
			file := filepath.Join(first, "locks.db")
			if x.name == "its link switched" {
				must(t, os.Symlink(first, link))
				file = filepath.Join(link, "locks.db")
			}
			backup := file + ".backup-of-before"
			must(t, newStore(t, file, nil).Close())
			backUp(t, file, backup)
			e := locktest.Exchange{
				Open:    func(t *testing.T) *farsync.Store { return newStore(t, file, ttl(10*time.Second)) },
				Do:      func(t *testing.T) { x.do(t, file, backup) },
				Overlap: x.overlap, Says: []string{file, says[x.log]},
			}
			if x.rest && !suite.More(t, suite.SQLite) { // who comes next waits for a TTL
				locktest.HolderIsTold(t, e)
				return
			}
			locktest.RunExchange(t, e)
		})
	}
}

// TestFileThatIsPutBackEndsItsSessions: the content goes back, and the file and its log stay what they were, as with
// .restore of the sqlite3 shell. A process that looks at what is there finds no lock. Sessions find out with their next
// renewal, at the latest.
func TestFileThatIsPutBackEndsItsSessions(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	must(t, newStore(t, file, nil).Close())
	backUp(t, file, file+".backup")
	e := locktest.Exchange{
		Open: func(t *testing.T) *farsync.Store { return newStore(t, file, ttl(10*time.Second)) },
		Do:   func(t *testing.T) { putBack(t, file, file+".backup") },
		// What was granted since the backup is nowhere.
		Overlap: true,
	}
	if !suite.More(t, suite.SQLite) { // who comes next waits for a TTL
		locktest.HolderIsTold(t, e)
		return
	}
	locktest.RunExchange(t, e)
}

// TestFileThatIsPutBackIsNoticedByAJoin: the file has the sessions of before, with earlier deadlines, and grants
// nothing in them.
func TestFileThatIsPutBackIsNoticedByAJoin(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	in := newSessionIn(t, file, nil)
	e := create(t, in, "/put-back")
	backUp(t, file, file+".backup")
	must(t, in.Renew(t.Context(), nil))
	later := create(t, in, "/put-back")
	putBack(t, file, file+".backup")
	_, err := in.Create(t.Context(), driver.Entry{
		Queue: "/other", ID: in.NewID("/other", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1,
	}, 0)
	require.ErrorContains(t, err, "has gone back to an earlier state")
	require.Equal(t, driver.Expired, outcome(err))
	err = in.Renew(t.Context(), nil)
	require.ErrorContains(t, err, file+" has gone back to an earlier state")
	require.Equal(t, driver.Expired, outcome(err))
	next := newSessionIn(t, file, nil)
	require.Greater(t, create(t, next, "/put-back").Revision, later.Revision)
	require.Greater(t, later.Revision, e.Revision)
}

// TestFileThatIsPutBackBehindAJoin: since the backup nothing was renewed, and an entry was made.
func TestFileThatIsPutBackBehindAJoin(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	in := newSessionIn(t, file, nil)
	backUp(t, file, file+".backup")
	create(t, in, "/put-back")
	putBack(t, file, file+".backup")
	err := in.Renew(t.Context(), nil)
	require.ErrorContains(t, err, file+" has gone back to an earlier state")
	require.Equal(t, driver.Expired, outcome(err))
}

// create joins a queue.
func create(t *testing.T, in driver.Session, queue string) driver.Entry {
	v, err := in.Create(within(t, soon), driver.Entry{
		Queue: queue, ID: in.NewID(queue, driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1,
	}, 0)
	require.NoError(t, err)
	return v.Self
}

// putBack makes the content of a file what it was, page by page, in a transaction of SQLite's own.
func putBack(t *testing.T, file, backup string) {
	by := newOperator(t, file)
	conn, err := by.db.Conn(within(t, soon))
	require.NoError(t, err)
	must(t, conn.Raw(func(c any) error {
		b, err := c.(interface {
			NewRestore(from string) (*sqlite.Backup, error)
		}).NewRestore("file:" + backup)
		if err != nil {
			return err
		}
		for more := true; more && err == nil; {
			more, err = b.Step(-1)
		}
		return errors.Join(err, b.Finish())
	}), conn.Close(), by.db.Close())
}

// TestTokensRiseOverABackup: a process that comes later, when no other lives, cannot know which tokens were given since
// the backup was made.
func TestTokensRiseOverABackup(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	once := func() farsync.Token {
		store := newStore(t, file, nil)
		lease, err := farsync.NewMutex(store, path).Lock(within(t, soon))
		require.NoError(t, err)
		must(t, lease.Release(), store.Close())
		return lease.Token()
	}
	first := once()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	highest := first
	for range 20 {
		highest = once()
	}
	must(t, os.WriteFile(file, content, 0o600))
	require.Greater(t, once(), highest)
}

// TestStoppedProcessIsWaitedForInAnotherFile: a holder that is stopped cannot be told that its file was removed. What
// is in its place grants nothing for a TTL. Then the holder has lost the lock, and finds out as it goes on.
func TestStoppedProcessIsWaitedForInAnotherFile(t *testing.T) {
	suite.Long(t, suite.SQLite, "stops a process")
	t.Parallel()
	const most = 10 * time.Second
	file := newFile(t)
	holder := start(t, "hold", file, ttlVariable+"="+most.String())
	holder.says("locked")
	holder.signal(syscall.SIGSTOP)
	stopped := time.Now()
	must(t, append(removeLog(file), os.Remove(file))...)
	var err error
	why := func() bool {
		return strings.Contains(fmt.Sprint(err), "nothing is granted in it before the 1 sessions")
	}
	for patience := most / 40; !why(); patience *= 2 { // a busy machine takes its time to open a file
		_, err = Open(within(t, patience), file, ttl(most))
		require.ErrorIs(t, err, farsync.ErrUnavailable)
	}
	lease, err := farsync.NewMutex(newStore(t, file, ttl(most)), path).Lock(within(t, soon))
	require.NoError(t, err)
	require.Greater(t, time.Since(stopped), most)
	holder.signal(syscall.SIGCONT)
	holder.says("lost")
	must(t, lease.Err(), lease.Release())
}

// TestKilledProcessIsNotWaitedForInAnotherFile: its socket refuses.
func TestKilledProcessIsNotWaitedForInAnotherFile(t *testing.T) {
	suite.Long(t, suite.SQLite, "kills a process")
	t.Parallel()
	file := newFile(t)
	holder := start(t, "hold", file, forever)
	holder.says("locked")
	holder.kill()
	must(t, append(removeLog(file), os.Remove(file))...)
	must(t, newStore(t, file, ttl(time.Hour)).Close())
}

// TestProcessesOverFilesThatAreReplaced: holders of other processes are told before the next is granted the lock, time
// after time.
func TestProcessesOverFilesThatAreReplaced(t *testing.T) {
	suite.Long(t, suite.SQLite, "kills processes that have a TTL of 2 s")
	t.Parallel()
	file := newFile(t)
	// Without its log a file may have the sessions of before, which run out.
	for i := range 6 {
		holder := start(t, "hold", file, ttlVariable+"=2s")
		holder.says("locked")
		waiter := start(t, "hold", file, ttlVariable+"=2s")
		store := newStore(t, file, nil)
		for list, err := store.Participants(t.Context(), path); len(list) < 2; list, err = store.Participants(t.Context(), path) {
			require.NoError(t, err)
		}
		must(t, store.Close())
		if i%2 == 0 {
			must(t, append(removeLog(file), os.Remove(file))...)
		} else {
			must(t, removeLog(file)...)
		}
		waiter.says("locked") // in the file that is there now
		holder.says("lost")
		holder.ends()
		waiter.kill()
	}
}

// TestFileThatIsReplacedIsClosedBeforeTheNextIsOpened: where the index is left, SQLite cuts it short for the next file,
// unless another process has it open. A process that then reads the file before ends with SIGBUS.
func TestFileThatIsReplacedIsClosedBeforeTheNextIsOpened(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(file string) error{
		"removed": os.Remove,
		"renamed": func(file string) error { return os.Rename(file, file+".old") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := newFile(t)
			before, next := newService(t, file), newService(t, file)
			in, err := before.Open(within(t, soon), time.Hour)
			require.NoError(t, err)
			create(t, in, "/closed")
			must(t, do(file))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err = next.current.awaitOthers(ctx)
			require.ErrorContains(t, err, "another Store of this process has not closed the file that was there")
			require.Equal(t, driver.NotDone, outcome(err))
			select {
			case <-in.(*session).Over(): // so its Store gives it up
			case <-time.After(soon):
				require.FailNow(t, "the session in the file before is not told")
			}
			_ = in.Close(within(t, soon)) // of a file that is not there any more
			other, err := next.Open(within(t, soon), time.Hour)
			require.NoError(t, err)
			select {
			case <-before.current.closed:
			default:
				require.FailNow(t, "the next file was opened before")
			}
			create(t, other, "/closed")
			must(t, other.Close(within(t, soon)))
		})
	}
}

func newService(t *testing.T, file string) *service {
	s, err := NewService(file, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s.(*service)
}

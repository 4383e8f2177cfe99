//go:build unix

package sqlite

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// TestMisuse gives files that are none, that are another's, and that cannot be written.
func TestMisuse(t *testing.T) {
	locktest.RunInputs(t, slices.Concat(wrongNames(t), wrongFiles(t), foreignTables(t), lockedFiles(t)))
}

func TestMisuseOfEveryStore(t *testing.T) {
	file := newFile(t)
	locktest.Mistaken{Open: func(ctx context.Context, options farsync.Options) (*farsync.Store, error) {
		return Open(ctx, file, &Options{Options: options})
	}, Opens: "farsync: open " + file + ": "}.Run(t)
}

// refused returns an Open of a file that must fail, and not take the service for one that does not answer.
func refused(given, file string, says ...string) locktest.Input {
	return locktest.Input{
		Given: given, Why: "a lock in another file than is meant excludes nobody",
		Says: append(says, "farsync: open "),
		Call: func(_ *testing.T, ctx context.Context, log *slog.Logger) error {
			store, err := Open(ctx, file, &Options{Options: farsync.Options{Logger: log}})
			if err == nil {
				_ = store.Close()
			}
			return err
		},
	}
}

// wrongNames would be files in the working directory, or have no name at all.
func wrongNames(t *testing.T) []locktest.Input {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Cleanup(func() {
		list, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, list, "nothing was made")
	})
	const shared = "is not a file that processes share; give its path"
	return []locktest.Input{
		refused("no name", "", `open "": no file is named`),
		refused(":memory:", ":memory:", "open :memory:: ", shared),
		refused("a URI", "file:locks.db", "open file:locks.db: ", shared),
		refused("a URI with a password", "file:locks.db?_auth_pass="+locktest.Secret, "open file:locks.db: ", shared),
		refused("NUL", "a\x00b", `open "a\x00b": `, "NUL"),
		refused("a network path of Windows", `\\server\share\locks.db`, `\\server\share\locks.db`, "a network path"),
		refused("a network path of POSIX", "//server/share/locks.db", "//server/share/locks.db: ", "no such file or directory"),
		refused("a URL", "smb://server/locks.db", "open smb://server/locks.db: ", "no such file or directory"),
		refused("a relative name in a directory that is missing", "none/locks.db", "open none/locks.db: ", dir+"/none: no such file or directory"),
		refused("a name that is too long", strings.Repeat("x", 300), strings.Repeat("x", 300), "cannot be opened or made", "file name too long"),
	}
}

func wrongFiles(t *testing.T) []locktest.Input {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	// made returns a file of farsync's after a change of its content.
	made := func(name string, change func([]byte) []byte) string {
		file := filepath.Join(dir, name)
		require.NoError(t, newStore(t, file, nil).Close())
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		return write(name, string(change(content)))
	}
	damaged := made("damaged.db", func(content []byte) []byte {
		for i := 100; i < 4096; i++ {
			content[i] ^= 0xa5
		}
		return append(content[:4096], bytes.Repeat([]byte{0xa5}, len(content)-4096)...)
	})
	half := made("half.db", func(content []byte) []byte { return content[:len(content)/2] })
	good := made("locks.of-any-name", func(content []byte) []byte { return content })
	pipe, loop := filepath.Join(dir, "pipe"), filepath.Join(dir, "loop")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.NoError(t, os.Symlink("loop", loop))
	require.NoError(t, newStore(t, good, nil).Close(), "any extension does")
	list := []locktest.Input{
		refused("no directory", filepath.Join(dir, "none", "locks.db"), filepath.Join(dir, "none")+": no such file or directory"),
		refused("a file in the place of a directory", filepath.Join(good, "locks.db"), good, "cannot be opened or made"),
		refused("a directory", dir, dir+": a directory; give"),
		refused("a directory with a slash", dir+"/", dir+"/: a directory; give"),
		refused("a pipe", pipe, pipe+": a device or a pipe"),
		refused("a device", "/dev/null", "/dev/null: a device or a pipe"),
		refused("a link to itself", loop, loop, "cannot be opened or made", "too many levels of symbolic links"),
		refused("a text", write("text.db", strings.Repeat("not a database ", 100)), "text.db", "no SQLite database"),
		refused("a database of a later version", write("later.db", "SQLite format 3\x00"+strings.Repeat("\xff", 4096)), "later.db", "no SQLite database"),
		refused("a damaged file", damaged, damaged, "damaged", "remove it with its -wal and -shm"),
		refused("half a file", half, half, "damaged"),
	}
	if runtime.GOOS == "linux" { // where file systems are known
		list = append(list, refused("a remote file system", "/proc/locks.db", "open /proc/locks.db: /proc", "not known to be local"))
	}
	return list
}

// foreignTables are of another program, and have our names.
func foreignTables(t *testing.T) (list []locktest.Input) {
	for given, statement := range map[string]string{
		"entries of another program":   "CREATE TABLE farsync_entries (a, b)",
		"sessions of another program":  "CREATE TABLE farsync_sessions (a, b)",
		"registers of another program": "CREATE TABLE farsync_registers (queue, value)",
		"a view in the place of them":  "CREATE VIEW farsync_entries AS SELECT 1",
	} {
		file := newFile(t)
		newOperator(t, file).exec(t, statement)
		list = append(list, refused(given, file, file, "the tables are not those of farsync"))
	}
	return list
}

// lockedFiles are kept by another program for longer than the caller waits.
func lockedFiles(t *testing.T) []locktest.Input {
	file := newFile(t)
	require.NoError(t, newStore(t, file, nil).Close())
	conn, err := newOperator(t, file).db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	with := refused("a file that another program keeps locked", file, file, "the service does not answer")
	with.Within, with.Is = 300*time.Millisecond, []error{farsync.ErrUnavailable, context.DeadlineExceeded}
	without := with
	without.Given, without.Within, without.Is = with.Given+", and no ctx", 0, with.Is[:1]
	return []locktest.Input{with, without}
}

// executable returns the path of a copy of this program that all users may run.
func executable(t *testing.T) string {
	dir, err := os.MkdirTemp("", "farsync-sqlite") //nolint:usetesting // no other user may enter a test's own
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	program := filepath.Join(dir, "program")
	from, err := os.Open(os.Args[0])
	require.NoError(t, err)
	defer from.Close()
	to, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(to, from)
	require.NoError(t, err)
	require.NoError(t, to.Close())
	return program
}

// TestMisuseByAnotherUser has a process of a user without rights open files, for root may write everything.
func TestMisuseByAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		suite.NotHere(t, "root, to become another user")
	}
	program := executable(t)
	dir := filepath.Dir(program)
	for _, row := range []struct {
		name            string
		directory, file os.FileMode // 0: there is no file
		says            string
	}{
		{"a file that may be read", 0o777, 0o644, "cannot be written: this user has not the right to read and write the file: access FILE: permission denied"},
		{"a file that may not be read", 0o777, 0o600, "this user has not the right to read and write the file: access FILE: permission denied"},
		{"a directory that may be read", 0o755, 0, "this user has not the right to make files in the directory: access DIR: permission denied"},
		{"a directory that may be read, and a file that may be written", 0o755, 0o666, "cannot be"},
		{"a file whose rights were changed alone", 0o777, 0o666, "give the users of the file the same rights on what lies beside it"},
		{"a directory that may not be entered", 0o700, 0o666, "this user has not the right to enter the directory: access DIR: permission denied"},
	} {
		t.Run(row.name, func(t *testing.T) {
			sub := filepath.Join(dir, strings.ReplaceAll(row.name, " ", "-"))
			require.NoError(t, os.Mkdir(sub, 0o755))
			file := filepath.Join(sub, "locks.db")
			if row.file != 0 {
				require.NoError(t, newStore(t, file, nil).Close())
				require.NoError(t, os.Chmod(file, row.file))
			}
			require.NoError(t, os.Chmod(sub, row.directory))
			p := prepared(t, "hold", file)
			p.Path = program
			p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			p.begin()
			words := p.saysAny("error")
			t.Log(words)
			require.Contains(t, words, strings.NewReplacer("FILE", file, "DIR", sub).Replace(row.says))
			require.Contains(t, words, file)
			require.NotContains(t, words, "out of memory")
		})
	}
}

// TestOpensThatAreGivenUp leaves no session in the file, no socket beside it, and no goroutine.
func TestOpensThatAreGivenUp(t *testing.T) {
	suite.Long(t, suite.SQLite, "callers give up at random moments, 200 times, with a TTL of 2 s")
	file := newFile(t)
	require.NoError(t, newStore(t, file, nil).Close())
	admin := newOperator(t, file)
	require.NoError(t, admin.db.Ping())
	before := goleak.IgnoreCurrent()
	defer func() { require.NoError(t, locktest.Leaks(before)) }()
	locktest.RunOpens(t, func(ctx context.Context) (*farsync.Store, error) {
		return Open(ctx, file, ttl(2*time.Second))
	}, func() (left int) {
		require.NoError(t, newStore(t, file, nil).Close()) // it removes what has run out
		require.NoError(t, admin.db.QueryRow("SELECT count(*) FROM farsync_sessions").Scan(&left))
		sockets, err := os.ReadDir(file + "-farsync")
		require.NoError(t, err)
		return left + len(sockets)
	})
}

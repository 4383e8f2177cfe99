package sqlite

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/suite"
)

// aside puts files aside, and returns how they come back: what was made in their place goes.
func aside(t *testing.T, files ...string) (back func() error) {
	for _, name := range files {
		require.NoError(t, os.Rename(name, name+".aside"))
	}
	return func() (err error) {
		for _, name := range files {
			err = errors.Join(err, os.Rename(name+".aside", name))
		}
		return err
	}
}

// TestFileThatIsExchangedWhileItIsOpened: who may write the directory has SQLite open other files, and puts the first
// back. The names are then as they were, and the connection is in another file, or in another log, which knows
// nothing of the holder.
func TestFileThatIsExchangedWhileItIsOpened(t *testing.T) {
	for name, suffixes := range map[string][]string{
		"the file":              {""},
		"the log":               {"-wal"},
		"the index":             {"-shm"},
		"the log and its index": {"-wal", "-shm"},
		"all":                   {"", "-wal", "-shm"},
	} {
		t.Run(name, func(t *testing.T) {
			file := newFile(t)
			require.NoError(t, newStore(t, file, nil).Close())
			start(t, "idle", file, forever).says("open") // it keeps the log
			admin := newOperator(t, file)
			admin.exec(t, "PRAGMA wal_checkpoint(FULL)") // so the file is complete, and what comes stands in the log alone
			require.NoError(t, admin.db.Close())
			start(t, "hold", file, forever).says("locked")
			s := newService(t, file)
			var names []string
			for _, suffix := range suffixes {
				names = append(names, file+suffix)
			}
			back := aside(t, names...)
			_ = s.current.db.PingContext(within(t, soon)) // a connection of the pool is opened here
			require.NoError(t, back())
			in, err := s.Open(within(t, soon), time.Hour)
			if err == nil {
				ahead, joins := in.Create(within(t, soon), driver.Entry{
					Queue: path, ID: in.NewID(path, driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1,
				}, 0)
				require.NoError(t, joins)
				require.Len(t, ahead.Entries, 1, "the holder")
				_ = in.Close(within(t, soon))
				require.Equal(t, "the log", name, "SQLite may find that the index is of another log, and open nothing")
				return
			}
			require.ErrorContains(t, err, file)
		})
	}
}

// TestConnectionThatIsOpenedLater is in the files of the session, too.
func TestConnectionThatIsOpenedLater(t *testing.T) {
	for _, suffix := range []string{"", "-wal"} {
		t.Run("another "+suffix, func(t *testing.T) {
			file := newFile(t)
			in := newSessionIn(t, file, nil)
			first, err := in.file.db.Conn(within(t, soon)) // so that the next is a new one
			require.NoError(t, err)
			back := aside(t, file+suffix)
			next, err := in.file.db.Conn(within(t, soon))
			if err == nil {
				require.NoError(t, next.Close())
			}
			must(t, back(), first.Close())
			require.Error(t, err)
		})
	}
}

// asAnother gives a file to another user.
func asAnother(t *testing.T, name string) {
	if os.Getuid() != 0 {
		suite.NotHere(t, "root, to give a file to another user")
	}
	require.NoError(t, os.Lchown(name, 61235, 61235))
}

// TestDirectoryOfSocketsOfAnotherUser: who may write the directory, and not the file, puts a directory of his own in
// the place of the directory of sockets, and in it a socket that refuses, with the name of a session that lives.
func TestDirectoryOfSocketsOfAnotherUser(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	in := newSessionIn(t, file, nil)
	create(t, in, path)
	must(t, os.Rename(file+"-farsync", file+"-before"), os.Mkdir(file+"-farsync", 0o755))
	sockets, err := os.Open(file + "-farsync")
	require.NoError(t, err)
	defer sockets.Close()
	// An address has room for 107 bytes, and a folder for temporary files may have a long name.
	name := fmt.Sprintf("/proc/self/fd/%d/%s", sockets.Fd(), in.ID)
	dead, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	require.NoError(t, dead.Close())
	asAnother(t, file+"-farsync")
	store, err := Open(within(t, soon), file, ttl(time.Hour))
	if err == nil {
		_, locked := farsync.NewMutex(store, path).TryLock(within(t, soon))
		t.Log("TryLock beside the holder: ", locked)
		_ = store.Close()
	}
	require.ErrorContains(t, err, file+"-farsync belongs to another user")
}

// TestFilesOfAnotherUser beside the file: what stands in them counts as if it stood in the file, which that user may
// not write.
func TestFilesOfAnotherUser(t *testing.T) {
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		t.Run(suffix, func(t *testing.T) {
			file := newFile(t)
			must(t, newStore(t, file, nil).Close(), os.WriteFile(file+suffix, nil, 0o600))
			asAnother(t, file+suffix)
			_, err := Open(within(t, soon), file, nil)
			require.ErrorContains(t, err, file+suffix+" belongs to another user")
			must(t, os.Chmod(file, 0o660), os.Chown(file, -1, 61235))
			newStore(t, file, nil) // the group may write the file
		})
	}
}

// memberOfAGroup returns a user who is in a group beside the user's own.
func memberOfAGroup(t *testing.T) (member, group int) {
	list, err := os.ReadFile("/etc/group")
	require.NoError(t, err)
	for line := range strings.Lines(string(list)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 4 {
			continue
		}
		name, _, _ := strings.Cut(fields[3], ",")
		if is, err := user.Lookup(name); err == nil && is.Uid != "0" && is.Gid != fields[2] {
			member, err = strconv.Atoi(is.Uid)
			require.NoError(t, err)
			group, err = strconv.Atoi(fields[2])
			require.NoError(t, err)
			return member, group
		}
	}
	suite.NotHere(t, "a user who is in two groups")
	return 0, 0
}

// TestLogOfAUserOfTheGroup: the user's own group is another, and the directory gives no group. Root may look at the
// file.
func TestLogOfAUserOfTheGroup(t *testing.T) {
	if os.Getuid() != 0 {
		suite.NotHere(t, "root, to give a file to another user")
	}
	member, group := memberOfAGroup(t)
	file := newFile(t)
	must(t, newStore(t, file, nil).Close(), os.WriteFile(file+"-wal", nil, 0o600), os.Chmod(file+"-wal", 0o660))
	must(t, os.Chown(file+"-wal", member, 61235), os.Chown(file, -1, group))
	_, err := Open(within(t, soon), file, nil)
	require.ErrorContains(t, err, file+"-wal may be written by users who may not write "+file)
	must(t, os.Chmod(file, 0o660))
	newStore(t, file, nil)
}

// TestLogOfAUserInAnAccessList: the file has a list of users who may write it, and its directory gives the same list to
// what these users make in it.
func TestLogOfAUserInAnAccessList(t *testing.T) {
	file := newFile(t)
	must(t, newStore(t, file, nil).Close(), os.WriteFile(file+"-wal", nil, 0o600))
	asAnother(t, file+"-wal")
	const everybody = "\xff\xff\xff\xff" // where an entry names nobody
	list := "\x02\x00\x00\x00" +
		"\x01\x00\x06\x00" + everybody + // the owner
		"\x02\x00\x06\x00\x33\xef\x00\x00" + // user 61235
		"\x04\x00\x00\x00" + everybody + // the group
		"\x10\x00\x06\x00" + everybody + // the most that a user or group has
		"\x20\x00\x00\x00" + everybody // others
	if err := unix.Setxattr(file, "system.posix_acl_access", []byte(list), 0); err != nil {
		suite.NotHere(t, "access lists on the file system: "+err.Error())
	}
	newStore(t, file, nil)
}

// TestFilesThatMoreUsersMayWrite than the file.
func TestFilesThatMoreUsersMayWrite(t *testing.T) {
	for _, suffix := range []string{"-wal", "-shm", "-journal", "-farsync"} {
		t.Run(suffix, func(t *testing.T) {
			file := newFile(t)
			must(t, newStore(t, file, nil).Close())
			if suffix != "-farsync" {
				must(t, os.WriteFile(file+suffix, nil, 0o600))
			}
			must(t, os.Chmod(file+suffix, 0o720))
			_, err := Open(within(t, soon), file, nil)
			require.ErrorContains(t, err, file+suffix+" may be written by users who may not write "+file)
		})
	}
}

// TestLogThatALinkLeadsTo ends the session: SQLite follows no link there, so who comes next finds no log.
func TestLogThatALinkLeadsTo(t *testing.T) {
	for _, suffix := range []string{"-wal", "-shm"} {
		t.Run(suffix, func(t *testing.T) {
			file := newFile(t)
			in := newSessionIn(t, file, nil)
			must(t, os.Rename(file+suffix, file+suffix+".moved"), os.Symlink(file+suffix+".moved", file+suffix))
			err := in.Renew(within(t, soon), nil)
			require.ErrorContains(t, err, file+suffix+" was replaced")
			require.Equal(t, driver.Expired, outcome(err))
		})
	}
}

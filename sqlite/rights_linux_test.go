package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/suite"
)

// withUmask has a process that is still to begin play its role by a program, with a umask.
func (p *process) withUmask(program, umask string) {
	p.Path, p.Args = "/bin/sh", []string{"sh", "-c", "umask " + umask + `; exec "$0"`, program}
}

// TestRightsOfAFile are those of its directory, whatever the umask of the process that makes it is, and those of what lies
// beside it are the file's.
func TestRightsOfAFile(t *testing.T) {
	for _, row := range []struct {
		umask             string
		directory         os.FileMode
		there             os.FileMode // 0: the file is still to be made
		file, beside, dir os.FileMode
	}{
		{"022", 0o700, 0, 0o600, 0o600, 0o700},
		{"000", 0o777, 0, 0o600, 0o600, 0o700},
		{"007", 0o770, 0, 0o600, 0o600, 0o700},
		{"002", os.ModeSetgid | 0o750, 0, 0o600, 0o600, os.ModeSetgid | 0o700},
		{"022", os.ModeSetgid | 0o770, 0, 0o660, 0o660, os.ModeSetgid | 0o770},
		{"077", os.ModeSetgid | 0o770, 0, 0o660, 0o660, os.ModeSetgid | 0o770},
		{"000", os.ModeSetgid | 0o777, 0, 0o660, 0o660, os.ModeSetgid | 0o770},
		{"077", os.ModeSetgid | 0o770, 0o600, 0o600, 0o600, os.ModeSetgid | 0o700}, // what is there is its owner's to share
		{"077", 0o770, 0o660, 0o660, 0o660, 0o770},
		{"022", 0o755, 0o644, 0o644, 0o644, 0o700},
	} {
		t.Run(fmt.Sprint(row.umask, row.directory, row.there), func(t *testing.T) {
			file := newFile(t)
			if row.there != 0 {
				require.NoError(t, os.WriteFile(file, nil, 0o600))
				require.NoError(t, os.Chmod(file, row.there))
			}
			require.NoError(t, os.Chmod(filepath.Dir(file), row.directory))
			p := prepared(t, "hold", file)
			p.withUmask(os.Args[0], row.umask)
			p.begin()
			p.says("locked")
			rights := func(suffix string) os.FileMode {
				is, err := os.Stat(file + suffix)
				require.NoError(t, err)
				return is.Mode() &^ os.ModeDir
			}
			require.Equal(t, row.file, rights(""))
			for _, suffix := range []string{"-wal", "-shm", "-gate"} {
				require.Equal(t, row.beside, rights(suffix), suffix)
			}
			require.Equal(t, row.dir, rights("-farsync"))
			sockets := entriesOf(t, file+"-farsync")
			require.Len(t, sockets, 1)
			if row.dir.Perm() == 0o770 {
				require.Equal(t, os.FileMode(0o770), rights("-farsync/"+sockets[0]).Perm())
			}
			require.Len(t, entriesOf(t, filepath.Dir(file)), 5, "nothing else is left")
		})
	}
}

// TestUsersOfOneGroup share a file in a directory as docs/SECURITY.md has it made, whoever comes first, and with whatever
// umask.
func TestUsersOfOneGroup(t *testing.T) {
	if os.Getuid() != 0 {
		suite.NotHere(t, "root, to become several users")
	}
	const group = 61234
	program := executable(t)
	for _, umask := range []string{"007", "022", "077"} {
		t.Run(umask, func(t *testing.T) {
			dir := filepath.Join(filepath.Dir(program), umask)
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.Chown(dir, 0, group))
			require.NoError(t, os.Chmod(dir, os.ModeSetgid|0o770))
			file := filepath.Join(dir, "locks.db")
			last := 0
			as := func(user uint32) *process {
				p := prepared(t, "hold", file, ttlVariable+"=1h") // who has to be waited for until it runs out is not served
				p.withUmask(program, umask)
				p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user, Groups: []uint32{group}}}
				p.begin()
				p.says("open")
				return p
			}
			holds := func(p *process) {
				t.Helper()
				var token int
				_, err := fmt.Sscan(p.says("locked"), &token)
				require.NoError(t, err)
				require.Greater(t, token, last)
				last = token
			}
			first := as(61235)
			holds(first)
			second := as(61236)
			require.NoError(t, first.stdin.Close()) // it gives the lock back
			first.ends()
			holds(second)
			third := as(61235)
			second.kill() // its death is seen by another user
			holds(third)
			require.NoError(t, third.stdin.Close())
			third.ends()
			store := newStore(t, file, ttl(time.Hour)) // root, who makes the log anew
			lease, err := farsync.NewMutex(store, path).Lock(within(t, soon))
			require.NoError(t, err)
			fourth := as(61236)
			require.NoError(t, lease.Release())
			holds(fourth)
		})
	}
}

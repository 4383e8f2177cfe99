//go:build unix

package sqlite

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
)

// planted returns a file that farsync is to leave alone, and the path of one that is still to be made.
func planted(t *testing.T) (victim, file string) {
	victim = filepath.Join(t.TempDir(), "victim")
	must(t, os.WriteFile(victim, []byte("a text of another program"), 0o600))
	return victim, newFile(t)
}

// TestLinksThatOthersPlant beside the file, in a directory that several users share, lead to files that the user may write whose
// program opens the file. Open refuses them, and nothing is written.
func TestLinksThatOthersPlant(t *testing.T) {
	var inputs []locktest.Input
	pipe := func(_, path string) error { return syscall.Mkfifo(path, 0o600) }
	for _, plant := range []struct {
		given, beside, says string
		link                func(victim, path string) error
	}{
		{"a symbolic link in the place of the gate", "-gate", "is a link", os.Symlink},
		{"a hard link in the place of the gate", "-gate", "has 2 names (hard links)", os.Link},
		{"a pipe in the place of the gate", "-gate", "not a regular file", pipe},
		{"a link to nothing in the place of the gate", "-gate", "is a link", func(victim, path string) error {
			return os.Symlink(victim+".new", path)
		}},
		{"a symbolic link in the place of the log", "-wal", "is a link", os.Symlink},
		{"a hard link in the place of the log", "-wal", "has 2 names (hard links)", os.Link},
		{"a hard link in the place of the log's index", "-shm", "has 2 names (hard links)", os.Link},
		{"a hard link in the place of the journal", "-journal", "has 2 names (hard links)", os.Link},
		{"a symbolic link in the place of the directory of sockets", "-farsync", "symbolic link in the place of a directory",
			func(victim, path string) error { return os.Symlink(filepath.Dir(victim), path) }},
	} {
		victim, file := planted(t)
		must(t, newStore(t, file, nil).Close(), os.Remove(file+"-gate"), os.Remove(file+"-farsync"))
		must(t, plant.link(victim, file+plant.beside))
		inputs = append(inputs, refused(plant.given, file, file+plant.beside, plant.says))
		t.Cleanup(func() {
			content, err := os.ReadFile(victim)
			require.NoError(t, err)
			require.Equal(t, "a text of another program", string(content))
			require.Equal(t, []string{"victim"}, entriesOf(t, filepath.Dir(victim)))
		})
	}
	locktest.RunInputs(t, inputs)
}

// TestSessionThatIsNamedAfterAFile: who may write the tables names sessions, and sockets are removed by these names.
func TestSessionThatIsNamedAfterAFile(t *testing.T) {
	t.Parallel()
	victim, file := planted(t)
	store := newStore(t, file, ttl(time.Hour))
	admin := newOperator(t, file)
	inside := filepath.Join(file+"-farsync", "inside")
	must(t, os.WriteFile(inside, nil, 0o600))
	relative, err := filepath.Rel(file+"-farsync", victim)
	require.NoError(t, err)
	for _, name := range []string{"inside", relative, victim} {
		admin.crowd(t, name, "/crowd", "exclusive", 1)
		admin.runsOut(t, name)
	}
	lease, err := farsync.NewMutex(store, "/crowd").TryLock(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, lease.Release())
	require.Zero(t, admin.ask(t, "SELECT count(*) FROM farsync_sessions WHERE deadline = 0"))
	require.FileExists(t, victim)
	require.FileExists(t, inside)
}

// TestDirectoryOfSocketsThatIsExchanged for a link while a session lives: what is removed is removed from the directory that was
// there.
func TestDirectoryOfSocketsThatIsExchanged(t *testing.T) {
	t.Parallel()
	victim, file := planted(t)
	store := newStore(t, file, ttl(time.Hour))
	admin := newOperator(t, file)
	must(t, os.Rename(file+"-farsync", file+"-before"), os.Symlink(filepath.Dir(victim), file+"-farsync"))
	admin.crowd(t, filepath.Base(victim), "/crowd", "exclusive", 1)
	admin.runsOut(t, filepath.Base(victim))
	lease, err := farsync.NewMutex(store, "/crowd").TryLock(within(t, soon))
	require.NoError(t, err)
	must(t, lease.Release(), store.Close())
	require.FileExists(t, victim)
	require.Empty(t, entriesOf(t, file+"-before"))
}

//go:build unix

package peers_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/peers"
	"github.com/farsync/farsync/internal/suite"
)

// The test binary is also another process: with a directory in its environment it is a member there, until its standard input
// ends.
const variable = "FARSYNC_PEERS_DIRECTORY"

func TestMain(m *testing.M) {
	dir := os.Getenv(variable)
	if dir == "" {
		os.Exit(m.Run())
	}
	in, err := peers.Open(dir, 0o700)
	if err != nil {
		fmt.Println(err)
		return
	}
	member := in.Join("other")
	fmt.Println("joined")
	_, _ = io.Copy(io.Discard, os.Stdin)
	member.Leave()
}

func open(t *testing.T, dir string) *peers.Directory {
	d, err := peers.Open(dir, 0o700)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// hear collects what a member hears, until it leaves.
func hear(m *peers.Member) (messages <-chan []string) {
	heard := make(chan []string, 10)
	go func() { m.Hear(func(words []string) { heard <- words }); close(heard) }()
	return heard
}

func TestMembersHearOneAnother(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep", 50)) // longer than a socket's path may be
	first, second := open(t, dir), open(t, dir)
	a, b := first.Join("a"), second.Join("b")
	atA, atB := hear(a), hear(b)
	a.Send("b", []string{"hello", "", "b"})
	require.Equal(t, []string{"hello", "", "b"}, <-atB)
	b.Send("a", nil)
	require.Equal(t, []string{""}, <-atA)
	b.Send("a", slices.Repeat([]string{"a word"}, 10_000))
	require.Equal(t, []string{""}, <-atA, "too long")
	b.Send("none", []string{"lost"})
	require.Nil(t, second.Join("a"), "the name is taken")
	a.Leave()
	b.Leave()
	_, more := <-atA
	require.False(t, more)
	_, more = <-atB
	require.False(t, more)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestFullSocketKeepsNoSender(t *testing.T) {
	d := open(t, t.TempDir())
	a, b := d.Join("a"), d.Join("b")
	for range 50 { // more than a socket takes, and none is read
		a.Send("b", []string{"again"})
	}
	heard := hear(b)
	require.Equal(t, []string{"again"}, <-heard)
	b.Leave()
	for range heard { // what was left
	}
	a.Leave()
}

func TestNilMember(t *testing.T) {
	var none *peers.Member
	none.Hear(func([]string) { t.Error("heard") })
	none.Send("a", []string{"lost"})
	none.Leave()
}

func TestDirectoryThatIsNone(t *testing.T) {
	dir := t.TempDir()
	_, err := peers.Open(filepath.Join(dir, "none", "dir"), 0o700)
	require.ErrorIs(t, err, os.ErrNotExist)
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	d := open(t, file)
	require.Nil(t, d.Join("a"))
	require.False(t, d.Dead("a"))
	require.Zero(t, d.Knock())
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(t.TempDir(), link))
	_, err = peers.Open(link, 0o700)
	require.ErrorContains(t, err, link+" is a symbolic link in the place of a directory")
}

// TestDeadIsSeenAtOnce: not the living, the stopped, those that have left, and those that never were.
func TestDeadIsSeenAtOnce(t *testing.T) {
	suite.Long(t, suite.SQLite, "stops and kills a process")
	dir := t.TempDir()
	d := open(t, dir)
	require.False(t, d.Dead("never"))
	member := d.Join("left")
	require.False(t, d.Dead("left"), "it lives")
	member.Leave()
	require.False(t, d.Dead("left"))

	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), variable+"="+dir)
	_, err := other.StdinPipe()
	require.NoError(t, err)
	out, err := other.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	t.Cleanup(func() { _ = other.Process.Kill() })
	said, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "joined\n", said)
	require.False(t, d.Dead("other"))
	require.NoError(t, other.Process.Signal(syscall.SIGSTOP))
	require.False(t, d.Dead("other"), "it is stopped")
	require.NoError(t, other.Process.Kill())
	_ = other.Wait() // it was killed
	require.True(t, d.Dead("other"))
	d.Remove("other")
	require.False(t, d.Dead("other"))
}

// Names come from what others have written: none leads out of the directory.
func TestNamesDoNotLeadOutOfTheDirectory(t *testing.T) {
	dir := t.TempDir()
	in, outside := filepath.Join(dir, "in"), open(t, dir)
	d := open(t, in)
	beside := outside.Join("beside")
	heard := hear(beside)
	a := d.Join("a")
	for _, name := range []string{"", ".", "..", "../beside", "./a", "a/", "/" + filepath.Join(dir, "beside"), filepath.Join(dir, "beside")} {
		a.Send(name, []string{"out"})
		d.Remove(name)
		require.False(t, d.Dead(name))
	}
	require.FileExists(t, filepath.Join(dir, "beside"))
	require.DirExists(t, in)
	beside.Leave()
	require.Empty(t, heard, "nothing was sent")
	a.Leave()
}

//go:build unix

package livetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// otherProcess is the first argument of the test's executable as another process.
const otherProcess = "other"

// lockUntilToldOtherwise is that process: it holds a lock in a service until its standard input ends.
func lockUntilToldOtherwise(kind, where, path string) error {
	ctx := context.Background() // a process has none
	store, leave, err := openStore(ctx, kind, where, farsync.Options{Holder: "another process"})
	if err != nil {
		return err
	}
	defer leave()
	defer store.Close()
	lease, err := farsync.NewMutex(store, path).Lock(ctx)
	if err != nil {
		return err
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return lease.Release()
}

// An other is that process, as a test sees it.
type other struct {
	command *exec.Cmd
	stdin   io.Closer
}

// startOther returns once the process holds the lock. It is ended by t, if the test has not done so.
func startOther(t testing.TB, kind, where, path string) *other {
	t.Helper()
	executable, err := os.Executable()
	require.NoError(t, err)
	o := &other{command: exec.Command(executable, otherProcess, kind, where, path)}
	o.command.Stderr = os.Stderr
	o.stdin, err = o.command.StdinPipe()
	require.NoError(t, err)
	stdout, err := o.command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, o.command.Start())
	t.Cleanup(func() {
		_ = o.command.Process.Kill()
		_ = o.command.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "held\n", line)
	return o
}

// end has it release the lock, and returns when it has ended.
func (o *other) end(t testing.TB) {
	t.Helper()
	require.NoError(t, o.stdin.Close())
	require.NoError(t, o.command.Wait())
}

package family

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// other starts a child of this process that belongs to no family, and returns its PID. Family.Kill ends it.
func other(t *testing.T) int {
	t.Helper()
	pid, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "600"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
	require.NoError(t, err)
	return pid
}

// lives reports whether a process is there, and not dead.
func lives(pid int) bool {
	s, ok := see(pid)
	return ok && s.lives()
}

// await waits for what others do.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, time.Millisecond, what)
}

// TestANumberThatIsUsedAgainIsSpared: the process that was found has ended, and another has its number.
func TestANumberThatIsUsedAgainIsSpared(t *testing.T) {
	pid := other(t)
	found := descendants(os.Getpid())
	require.Len(t, found, 1)
	require.Equal(t, pid, found[0].PID)
	earlier := found[0]
	earlier.born--
	earlier.signal(syscall.SIGKILL)
	require.False(t, Is(pid, earlier.born))
	// It still hears a stop. A process that was killed hears nothing.
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	await(t, "it is stopped", func() bool { s, _ := see(pid); return s.state == 'T' })
	require.True(t, Is(pid, found[0].born))
	found[0].signal(syscall.SIGKILL)
	await(t, "it is killed", func() bool { return !lives(pid) })
	_, err := syscall.Wait4(pid, nil, 0, nil)
	require.NoError(t, err)
	found[0].signal(syscall.SIGKILL) // there is none
	require.Empty(t, descendants(os.Getpid()))
}

// TestKillBelowSparesOtherChildren: the first process of a container has the orphans of others among its children.
func TestKillBelowSparesOtherChildren(t *testing.T) {
	f, err := Start("/bin/sh", []string{"sh", "-c", "sleep 600 & sleep 600 & wait; exec sleep 600"}, os.Environ(), syscall.SIGKILL)
	require.NoError(t, err)
	defer f.Kill()
	pid := other(t)
	await(t, "all are there", func() bool { return len(descendants(f.pid)) == 2 })
	below := descendants(f.pid)
	f.KillBelow()
	await(t, "what is below is dead", func() bool { return !lives(below[0].PID) && !lives(below[1].PID) })
	require.True(t, lives(pid))
	require.True(t, lives(f.pid))
}

package family

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestExitOfTheNextIsNotTakenForThatOfOneThatWasLeft: while processes of a family that was left still run, the exit of the next
// process is told to the next family.
func TestExitOfTheNextIsNotTakenForThatOfOneThatWasLeft(t *testing.T) {
	const soon = time.Minute
	start := func(line string) *Family {
		f, err := Start("/bin/sh", []string{"sh", "-c", line}, os.Environ(), syscall.SIGKILL)
		require.NoError(t, err)
		return f
	}
	ended := func(f *Family) int {
		select {
		case <-f.Ended:
		case <-time.After(soon):
			f.Kill()
			require.Fail(t, "its exit was lost")
		}
		return f.Status.ExitStatus()
	}
	var last *Family
	for range 20 {
		last = start("sleep 600 & exit 7")
		require.Equal(t, 7, ended(last))
		last.Leave()
	}
	last = start("exit 8")
	require.Equal(t, 8, ended(last))
	last.Kill() // all of them
}

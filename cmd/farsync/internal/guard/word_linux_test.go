package guard

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/cmd/farsync/internal/family"
)

// TestAGroupWhoseNumberIsUsedAgainIsSpared: COMMAND has ended, its group is empty, and the supervisor has not come to say so.
func TestAGroupWhoseNumberIsUsedAgainIsSpared(t *testing.T) {
	f, err := family.Start("/bin/sleep", []string{"sleep", "600"}, os.Environ(), syscall.SIGKILL)
	require.NoError(t, err)
	defer f.Kill()
	w, err := NewWord()
	require.NoError(t, err)
	w.SetGroup(f.Group(), f.Born()-1)
	w.killGroup()
	// It still hears a stop. A process that was killed hears nothing.
	f.Signal(syscall.SIGSTOP)
	select {
	case <-f.Stopped:
	case <-f.Ended:
		require.Fail(t, "another process was killed")
	case <-time.After(time.Minute):
		require.Fail(t, "it hangs")
	}
	w.SetGroup(f.Group(), f.Born())
	w.killGroup()
	select {
	case <-f.Ended:
	case <-time.After(time.Minute):
		require.Fail(t, "it hangs")
	}
	w.SetGroup(0, 0)
	w.killGroup()
}

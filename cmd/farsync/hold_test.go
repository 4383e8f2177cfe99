//go:build linux

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// TestHoldOutlastsWhatEndsTheScript: hold in the background of a script holds until the script has ended, also when Ctrl-C or the end of
// the terminal has it clean up.
func TestHoldOutlastsWhatEndsTheScript(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		signal syscall.Signal
		prefix string
	}{{"INT", syscall.SIGINT, "exec"}, {"HUP", syscall.SIGHUP, "trap '' HUP; exec"}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			held := filepath.Join(t.TempDir(), "held")
			p := prepare(file(t), "sh", "-c", `trap 'farsync who /x; echo code=$?; exit 7' `+row.name+`
me=$$
(`+row.prefix+` farsync hold /x --while $me >`+held+`) &
until [ -s `+held+` ]; do sleep 0.02; done
echo go
while :; do sleep 0.02; done`)
			p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			p.begin(t)
			until(t, "it is held", func() bool { return strings.Contains(p.out.String(), "go\n") })
			require.NoError(t, syscall.Kill(-p.Process.Pid, row.signal))
			require.Equal(t, 7, p.code(t), p.err.String())
			require.Contains(t, p.out.String(), "code=0\n")
		})
	}
}

// TestWaitingHoldEndsAsItsSignalSays, with the exit code of the signal that ended it.
func TestWaitingHoldEndsAsItsSignalSays(t *testing.T) {
	t.Parallel()
	store := file(t)
	observer, closed := open(t, store)
	defer closed()
	lease, err := farsync.NewMutex(observer, "/x").Lock(t.Context())
	require.NoError(t, err)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		p := start(t, store, "hold", "/x", "--while", "1")
		until(t, "it waits", func() bool {
			list, err := observer.Participants(t.Context(), "/x")
			return err == nil && len(list) == 2
		})
		require.NoError(t, p.Process.Signal(s))
		require.Equal(t, codeSignal+int(s), p.code(t))
	}
	require.NoError(t, lease.Release())
}

//go:build linux

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/suite"
)

// TestSignalsThatNobodyHearsDoNotHoldTheGuardUp: a supervisor that is stopped hears of no signal, and the guard kills in time.
func TestSignalsThatNobodyHearsDoNotHoldTheGuardUp(t *testing.T) {
	suite.Long(t, suite.Command, "stops the supervisor, with a TTL of 4 s")
	t.Parallel()
	p := start(t, file(t), "run", "--ttl", "4s", "/x", "--", "sh", "-c", "echo $$ $PPID; exec sleep 600")
	var pid, supervisor int
	until(t, "COMMAND is ready", func() bool {
		n, _ := fmt.Sscan(p.out.String(), &pid, &supervisor)
		return n == 2 && strings.HasSuffix(p.out.String(), "\n")
	})
	send(t, supervisor, syscall.SIGSTOP)
	until(t, "the guard has killed COMMAND", func() bool {
		for range 1000 {
			_ = p.Process.Signal(syscall.SIGWINCH)
		}
		return dead(pid)
	})
	require.Equal(t, codeLost, p.code(t))
}

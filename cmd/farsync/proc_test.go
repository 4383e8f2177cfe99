//go:build linux

package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/suite"
)

// TestWithoutProc: the verbs that run COMMAND say what they lack.
func TestWithoutProc(t *testing.T) {
	t.Parallel()
	hide := []string{"-m", "sh", "-c", `umount -l /proc && exec "$0" "$@"`}
	if out, err := exec.Command("unshare", append(hide, "true")...).CombinedOutput(); err != nil {
		suite.NotHere(t, "the right to unmount /proc: "+strings.TrimSpace(string(out)))
	}
	program, err := builtCommand() // the race detector needs /proc itself
	require.NoError(t, err)
	store := file(t)
	for _, verb := range []string{"run", "elect"} {
		p := startAs(t, store, "unshare", append(hide, program, verb, "/x", "--", "true")...)
		require.Equal(t, codeConfig, p.code(t), p.err.String())
		require.Contains(t, p.err.String(), "farsync: there is no /proc here, in which farsync finds")
		require.Equal(t, 1, strings.Count(p.err.String(), "\n"), p.err.String())
	}
}

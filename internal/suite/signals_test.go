//go:build unix

package suite_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/suite"
)

const hearVariable = "FARSYNC_SUITE_HEAR"

// TestProgramsOfTestsHearSignals that the caller of the tests ignores, as a script does for what it runs in the
// background.
func TestProgramsOfTestsHearSignals(t *testing.T) {
	if os.Getenv(hearVariable) != "" { // this process was started below
		suite.Hear()
		for _, name := range []string{"INT", "HUP"} {
			require.Error(t, exec.Command("sh", "-c", "kill -"+name+" $$").Run(), "SIG%s was ignored", name)
		}
		return
	}
	program, err := os.Executable()
	require.NoError(t, err)
	again := exec.Command("sh", "-c", `trap '' INT HUP; exec "$0" -test.run '^TestProgramsOfTestsHearSignals$'`, program)
	again.Env = append(os.Environ(), hearVariable+"=1")
	out, err := again.CombinedOutput()
	require.NoError(t, err, string(out))
}

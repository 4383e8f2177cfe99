package machine_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/machine"
	"github.com/farsync/farsync/internal/suite"
)

// askedVariable has a process of the test print its clock.
const askedVariable = "FARSYNC_MACHINE_ASKED"

// TestClockOfAnotherTimeNamespace: a process whose clock is shifted, as a container's may be, has the boot and the clock of all
// others all the same.
func TestClockOfAnotherTimeNamespace(t *testing.T) {
	if os.Getenv(askedVariable) != "" {
		fmt.Printf("%d %s\n", machine.Clock(), machine.Boot())
		return
	}
	for _, shift := range []string{"1000000", "-5"} {
		words := append(suite.OtherClock(t, shift), os.Args[0], "-test.run=^"+t.Name()+"$")
		p := exec.Command(words[0], words[1:]...)
		p.Env = append(os.Environ(), askedVariable+"=1")
		before := machine.Clock()
		out, err := p.Output()
		after := machine.Clock()
		require.NoError(t, err)
		var clock int64
		var boot [2]string
		_, err = fmt.Sscan(string(out), &clock, &boot[0], &boot[1])
		require.NoError(t, err, "%s", out)
		require.Equal(t, machine.Boot(), boot[0]+" "+boot[1])
		require.LessOrEqual(t, before, clock, "shifted by %s", shift)
		require.LessOrEqual(t, clock, after, "shifted by %s", shift)
	}
}

//go:build unix

package docstest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

func TestMain(m *testing.M) {
	embedtest.Child()
	locktest.AtOnce(4) // programs that are built, and servers that are waited for
	suite.Hear()
	code := m.Run()
	if built.directory != "" {
		_ = os.RemoveAll(built.directory)
	}
	os.Exit(code)
}

// built is the folder of what is built for several tests.
var built struct {
	once      sync.Once
	directory string // removed by TestMain
	err       error
}

func folder(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		built.directory, built.err = os.MkdirTemp("", "farsync-built") //nolint:usetesting // it outlives the test that is first
	})
	require.NoError(t, built.err)
	return built.directory
}

// command builds the command, which takes seconds to link, for all tests.
var command struct {
	once sync.Once
	err  error
}

// farsyncCommand returns the path of the command as users install it.
func farsyncCommand(t *testing.T) string {
	t.Helper()
	in := folder(t)
	command.once.Do(func() {
		out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", in, "../../cmd/farsync").CombinedOutput()
		if err != nil {
			command.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	require.NoError(t, command.err)
	return filepath.Join(in, "farsync")
}

// shell returns a line of a document as a shell runs it, in which farsync is the command, on a store.
func shell(t *testing.T, line, store string, environment ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(within(t, 2*soon), "sh", "-c", line)
	cmd.Env = append(cmd.Environ(), "FARSYNC_STORE="+store, "PATH="+filepath.Dir(farsyncCommand(t))+":/usr/bin:/bin")
	cmd.Env = append(cmd.Env, environment...)
	return cmd
}

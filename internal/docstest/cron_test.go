//go:build unix

package docstest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/postgres"
)

// TestCronProgramOfThePage: one of two runs the job. The first is told to end within its time, and the service keeps the lock all the same.
func TestCronProgramOfThePage(t *testing.T) {
	t.Parallel()
	program := programOf(t, "CRON")
	server := embedtest.Postgres(t)
	config, err := pgxpool.ParseConfig(server.URL())
	require.NoError(t, err)
	require.NoError(t, postgres.Migrate(within(t, soon), config.ConnConfig))
	command := func() *exec.Cmd {
		cmd := exec.CommandContext(within(t, soon), program)
		cmd.Dir, cmd.Env = filepath.Dir(program), append(os.Environ(), "DATABASE_URL="+server.URL())
		return cmd
	}
	const left = "another machine runs it, or has just run it"
	cmd := command()
	cmd.Stderr = os.Stderr
	first := begin(t, cmd)
	require.Regexp(t, `^the job, token \d+$`, first.line(t))
	require.Contains(t, run(t, command(), ""), left)
	first.ends(t, syscall.SIGTERM)
	require.Contains(t, run(t, command(), ""), left, "it was told to end, and has not given the lock back")
}

//go:build unix

package docstest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/redis"
)

// TestProgramOfTheReadmeRuns builds the README's program in this module, as it stands and with each line that opens another store,
// and runs it beside another of it.
func TestProgramOfTheReadmeRuns(t *testing.T) {
	t.Parallel()
	program := printedProgram(t, "README.md")
	opens := regexp.MustCompile(`(?ms)^func open\([^\n]*\n(.*?\n)}\n`)
	require.Len(t, opens.FindAllString(program, -1), 1)
	// with returns the program with the line of the README that opens a store in place of what opens PostgreSQL.
	with := func(line, imports string) string {
		shown := regexp.MustCompile(`(?m)^\treturn `+line+`\(.*$`).FindAllString(document(t, "README.md"), -1)
		require.Len(t, shown, 1)
		from := opens.FindStringSubmatchIndex(program)
		other := program[:from[2]] + shown[0] + "\n" + program[from[3]:]
		for _, unused := range []string{"\t\"os\"\n", "\t\"github.com/jackc/pgx/v5/pgxpool\"\n"} {
			require.Contains(t, other, unused)
			other = strings.Replace(other, unused, "", 1)
		}
		const old = "\t\"github.com/farsync/farsync/postgres\"\n"
		require.Contains(t, other, old)
		return strings.Replace(other, old, imports, 1)
	}

	server := embedtest.Redis(t).Endpoint()
	// Nothing is held on a server that is new: the program need not wait for a TTL.
	store, err := redis.Open(within(t, soon), &goredis.UniversalOptions{Addrs: []string{server}}, &redis.Options{Fresh: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	onRedis := with("redis.Open", "\t\"github.com/farsync/farsync/redis\"\n\tgoredis \"github.com/redis/go-redis/v9\"\n")
	require.Contains(t, onRedis, "localhost:6379")
	built := newBox(t, t.TempDir(), "readme", map[string]string{
		"postgres": program,
		"redis":    strings.Replace(onRedis, "localhost:6379", server, 1),
		"sqlite":   with("sqlite.Open", "\t\"github.com/farsync/farsync/sqlite\"\n"),
	})

	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		twice(t, built.program(t, "postgres"), false, "DATABASE_URL="+embedtest.Postgres(t).URL())
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		twice(t, built.program(t, "redis"), false)
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		twice(t, built.program(t, "sqlite"), true)
	})
}

// twice runs a program, and once more when it holds the lock. The second has to hold it after the first.
func twice(t *testing.T, program string, kill bool, environment ...string) {
	command := func() *exec.Cmd {
		cmd := exec.CommandContext(within(t, soon), program)
		cmd.Dir, cmd.Env, cmd.Stderr = filepath.Dir(program), append(os.Environ(), environment...), os.Stderr
		return cmd
	}
	token := func(said string) (token int64) {
		_, err := fmt.Sscanf(said, "billing, token %d\n", &token)
		require.NoError(t, err, "%q", said)
		return token
	}
	first := begin(t, command())
	line := first.line(t)
	var later strings.Builder
	second := command()
	second.Stdout = &later
	require.NoError(t, second.Start())
	if kill {
		require.NoError(t, first.cmd.Process.Kill())
		require.Error(t, first.cmd.Wait())
	} else {
		require.NoError(t, first.cmd.Wait())
	}
	require.NoError(t, second.Wait())
	require.Less(t, token(line), token(later.String()))
}

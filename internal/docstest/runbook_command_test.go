//go:build unix

package docstest_test

import (
	"path/filepath"
	"strings"
	"testing"

	redisclient "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/redis"
	"github.com/farsync/farsync/sqlite"
)

// TestRunbookBeginsWithTheCommand: who, ask and break come before the tools of the services, and each of their lines
// does what is said of it.
func TestRunbookBeginsWithTheCommand(t *testing.T) {
	t.Parallel()
	text := document(t, "docs/RUNBOOK.md")
	for _, heading := range []string{"## Who holds, and who waits\n", "## How to break a lock\n"} {
		_, section, found := strings.Cut(text, heading)
		require.True(t, found, heading)
		section, _, _ = strings.Cut(section, "\n## ")
		command := strings.Index(section, "\nfarsync ")
		require.Positive(t, command, heading)
		for _, tool := range []string{"etcdctl get", "etcdctl del", "zkCli.sh -server", "redis-cli ", "\nDELETE FROM", "\nSELECT "} {
			if i := strings.Index(section, tool); i >= 0 {
				require.Greater(t, i, command, "%s: %s", heading, tool)
			}
		}
	}

	// sample is what the runbook shows below farsync who: the columns of each line begin where those of the first do.
	const head = "LOCK            WHO                         KIND       FOR   TOKEN"
	sample := append([]string{head}, strings.Split(blocks(t, "docs/RUNBOOK.md", "text", head)[0], "\n")...)
	require.Len(t, sample, 3)
	for _, column := range []string{"WHO", "KIND", "FOR", "TOKEN"} {
		at := strings.Index(sample[0], column)
		for _, line := range sample {
			cells := []rune(line)
			require.Equal(t, " ", string(cells[at-1]), "before %s in %q", column, line)
			require.NotEqual(t, " ", string(cells[at]), "%s in %q", column, line)
		}
	}

	// command runs the line of the runbook that begins and ends like that.
	command := func(t *testing.T, store, begins, ends string, environment ...string) string {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, begins) && strings.HasSuffix(line, ends) {
				return run(t, shell(t, line, store, environment...), "")
			}
		}
		require.Fail(t, "the runbook has no such command", begins)
		return ""
	}
	for name, start := range map[string]func(*testing.T) (string, func(farsync.Options) *farsync.Store){
		"sqlite": func(t *testing.T) (string, func(farsync.Options) *farsync.Store) {
			file := filepath.Join(t.TempDir(), "locks.db")
			return "sqlite:" + file, func(o farsync.Options) *farsync.Store {
				store, err := sqlite.Open(within(t, soon), file, &sqlite.Options{Options: o})
				require.NoError(t, err)
				return store
			}
		},
		"redis": func(t *testing.T) (string, func(farsync.Options) *farsync.Store) {
			server := embedtest.Redis(t)
			return "redis://" + server.Endpoint(), func(o farsync.Options) *farsync.Store {
				to := &redisclient.UniversalOptions{Addrs: []string{server.Endpoint()}}
				store, err := redis.Open(within(t, soon), to, &redis.Options{Options: o, Fresh: true})
				require.NoError(t, err)
				return store
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			who := func(t *testing.T, store string) (token string) {
				lines := strings.Split(command(t, store, "farsync who /", billing), "\n")
				require.Len(t, lines, 3)
				require.Regexp(t, `^/locks/billing +worker-1 pid 412 holds .* \d+$`, lines[1])
				require.Regexp(t, `^ +worker-2 pid 88 +waits, 1st`, lines[2])
				for i, line := range lines {
					require.Regexp(t, pattern(sample[i]), line)
				}
				fields := strings.Fields(lines[1])
				return fields[len(fields)-1]
			}
			for _, row := range []struct {
				begins, ends string
				listens      bool
				is           error
			}{
				{"farsync ask --wait", billing, true, farsync.ErrReleased},
				{"farsync break --token", `"stuck since noon" ` + billing, false, farsync.ErrBroken},
				{"farsync break --token", "--delete " + billing, false, farsync.ErrLost},
			} {
				store, open := start(t)
				s := newScene(t, open)
				token := who(t, store)
				require.Equal(t, s.list[0].Token.String(), token)
				if asked := s.holder.Asked(); row.listens {
					go func() { // ends when it is asked, which the command does
						<-asked
						_ = s.holder.Release()
					}()
				}
				command(t, store, row.begins, row.ends, "TOKEN="+token)
				next := <-s.next
				require.NotNil(t, next)
				<-s.holder.Done()
				require.ErrorIs(t, s.holder.Err(), row.is)
				require.NoError(t, next.Release())
			}
		})
	}
}

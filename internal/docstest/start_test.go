//go:build unix

package docstest_test

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/redis"
)

// TestStartPages does what each page of docs/start says, with its program as it stands there, beside the command.
func TestStartPages(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/start/*.md")
	require.NoError(t, err)

	// Each store says where its server is, in place of the page's address.
	stores := map[string]struct {
		address string // on the page
		start   func(t *testing.T) string
	}{
		"one-machine": {"locks.db", func(*testing.T) string { return "locks.db" }}, // in a directory of the test
		"etcd": {"localhost:2379", func(t *testing.T) string {
			return strings.TrimPrefix(embedtest.Etcd(t).Endpoint(), "http://")
		}},
		"zookeeper": {"localhost:2181", func(t *testing.T) string { return embedtest.ZooKeeper(t).Endpoint() }},
		"redis":     {"localhost:6379", func(t *testing.T) string { return embedtest.Redis(t).Endpoint() }},
		"postgresql": {"localhost:5432", func(t *testing.T) string {
			server := embedtest.Postgres(t)
			connection, err := pgx.Connect(within(t, soon), server.URL())
			require.NoError(t, err)
			defer func() { _ = connection.Close(within(t, soon)) }()
			_, err = connection.Exec(within(t, soon), "CREATE SCHEMA locks")
			require.NoError(t, err)
			return server.Endpoint()
		}},
		"mysql": {"localhost:3306", func(t *testing.T) string {
			server := embedtest.MariaDB(t)
			db, err := sql.Open("mysql", server.DSN("test"))
			require.NoError(t, err)
			defer func() { _ = db.Close() }()
			_, err = db.ExecContext(within(t, soon), "CREATE DATABASE locks")
			require.NoError(t, err)
			return server.Endpoint()
		}},
	}
	require.Len(t, pages, len(stores))

	var body string
	for _, path := range pages {
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		page := "docs/start/" + name + ".md"
		store := stores[name]
		require.NotNil(t, store.start, page)
		_, main, found := strings.Cut(printedProgram(t, page), "\nfunc main() {\n")
		require.True(t, found)
		if body == "" {
			body = main
		}
		require.Equal(t, body, main, "%s: the stores differ in func open alone", page)

		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start{page: page, command: farsyncCommand(t), program: programOf(t, name), address: store.address}
			s.server = store.start(t)
			if name == "redis" && !suite.More(t, suite.Command) {
				// Nothing is held on a server that is new: the program need not wait for a TTL.
				fresh, err := redis.Open(within(t, soon), &goredis.UniversalOptions{Addrs: []string{s.server}}, &redis.Options{Fresh: true})
				require.NoError(t, err)
				t.Cleanup(func() { _ = fresh.Close() })
			}
			holder, waiter := s.run(t)
			if name == "postgresql" {
				s.runInASchema(t)
			}
			t.Run("killed", func(t *testing.T) {
				if name != "one-machine" { // there the lock is free at once
					suite.Long(t, suite.Command, "kills a holder, and waits for its TTL")
				}
				s.kill(t, holder, waiter)
			})
		})
	}
}

// A start is the scene of a page: its programs, on a server.
type start struct {
	page             string
	command, program string
	address, server  string // as the page has it, and of the server that runs
}

func (s *start) open(t *testing.T, argument string) *terminal {
	cmd := exec.CommandContext(within(t, 2*soon), s.program, strings.Replace(argument, s.address, s.server, 1))
	cmd.Dir, cmd.Stderr = filepath.Dir(s.program), os.Stderr
	return begin(t, cmd)
}

// pattern returns what a line of a page stands for: its host, its numbers and its times are others, and so are the blanks of its columns.
func pattern(line string) string {
	words := strings.Fields(line)
	for i, word := range words {
		switch {
		case word == "laptop":
			words[i] = `\S+`
		case regexp.MustCompile(`^\d+[ms]$`).MatchString(word):
			words[i] = `\d+(m?s|m)`
		case word == "≤":
			words[i] = "≤?"
		case regexp.MustCompile(`^\d+$`).MatchString(word):
			words[i] = `\d+`
		default:
			words[i] = regexp.QuoteMeta(word)
		}
	}
	return "^ *" + strings.Join(words, " *") + "$"
}

// transcripts returns what the page shows of terminals: a command, and what it prints.
func (s *start) transcripts(t *testing.T) (commands []string, prints [][]string) {
	for _, part := range strings.Split(document(t, s.page), "\n```text\n$ ")[1:] {
		block, _, found := strings.Cut(part, "\n```")
		require.True(t, found)
		lines := strings.Split(block, "\n")
		commands, prints = append(commands, lines[0]), append(prints, lines[1:])
	}
	return commands, prints
}

// run does what the page says up to the kill.
func (s *start) run(t *testing.T) (holder, waiter *terminal) {
	commands, prints := s.transcripts(t)
	require.Len(t, commands, 3, "two programs, and who holds")
	argument, found := strings.CutPrefix(commands[0], "./billing ")
	require.True(t, found)
	require.Equal(t, commands[0], commands[1])
	argument = strings.Trim(argument, "'") // as the shell does
	require.Contains(t, argument, s.address)
	require.Len(t, prints[0], 4)
	require.Len(t, prints[1], 2)
	waiting, holding := prints[1][0], prints[1][1]
	require.Equal(t, []string{waiting, "^C"}, []string{prints[0][0], prints[0][2]})

	first := s.open(t, argument)
	first.says(t, waiting)
	first.says(t, prints[0][1])
	second := s.open(t, argument)
	second.says(t, waiting)
	s.whoSays(t, commands[2], len(prints[2]))
	require.Equal(t, prints[0][3], first.ends(t, os.Interrupt))
	second.says(t, holding)

	third := s.open(t, argument)
	third.says(t, waiting)
	shown := s.whoSays(t, commands[2], len(prints[2]))
	for i, line := range prints[2] {
		require.Regexp(t, pattern(line), shown[i])
	}
	require.Contains(t, shown[1], fmt.Sprint(" pid ", second.cmd.Process.Pid, " "))
	require.Contains(t, shown[2], fmt.Sprint(" pid ", third.cmd.Process.Pid, " "))

	return second, third
}

// kill kills the holder: the waiter holds after it.
func (s *start) kill(t *testing.T, holder, waiter *terminal) {
	_, prints := s.transcripts(t)
	require.Contains(t, document(t, s.page), "\n```sh\nkill -9 4711\n```\n")
	holder.ends(t, syscall.SIGKILL)
	killed := time.Now()
	waiter.says(t, prints[1][1])
	t.Log("the lock stayed for", time.Since(killed).Round(10*time.Millisecond))
	require.Equal(t, prints[0][3], waiter.ends(t, os.Interrupt))
}

// who runs the page's command.
func (s *start) who(t *testing.T, line string) string {
	words := strings.Fields(strings.Replace(line, s.address, s.server, 1))
	require.Equal(t, "farsync", words[0])
	cmd := exec.CommandContext(within(t, soon), s.command, words[1:]...)
	cmd.Dir = filepath.Dir(s.program)
	return run(t, cmd, "")
}

// whoSays runs the page's command until it shows so many lines.
func (s *start) whoSays(t *testing.T, line string, lines int) []string {
	for ctx := within(t, soon); ; {
		shown := strings.Split(s.who(t, line), "\n")
		if len(shown) == lines {
			return shown
		}
		require.NoError(t, ctx.Err())
	}
}

// runInASchema: the two ends of a URL that the page names lead to the same tables.
func (s *start) runInASchema(t *testing.T) {
	const program, command = "?search_path=locks", "?schema=locks"
	text := document(t, s.page)
	require.Contains(t, text, "`"+program+"`")
	require.Contains(t, text, "`"+command+"`")
	commands, prints := s.transcripts(t)
	there := s.open(t, strings.TrimPrefix(commands[0], "./billing ")+program)
	there.says(t, prints[1][0])
	there.says(t, prints[1][1])
	who := strings.Replace(commands[2], " /locks", command+" /locks", 1)
	require.Contains(t, s.who(t, who), fmt.Sprint(" pid ", there.cmd.Process.Pid, " holds "))
	there.ends(t, os.Interrupt)
}

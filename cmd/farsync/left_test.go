//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

var named = regexp.MustCompile(`(?m)^farsync: COMMAND has ended, and left \d+ process(es)?: waiting for \d+ \w+`)

// TestWhatIsLeftIsNamedEachTime: a program that makes itself a daemon is at no moment of a look at all processes both
// listed and there, if each of its processes ends when it has started the next.
func TestWhatIsLeftIsNamedEachTime(t *testing.T) {
	t.Parallel()
	store := file(t)
	for i := range 8 {
		over := filepath.Join(memory(t), "over")
		daemon := "until test -e " + over + "; do sleep 0.05; done"
		p := start(t, store, "run", "/x"+strconv.Itoa(i), "--", "sh", "-c", `(setsid sh -c "(sh -c \"(`+daemon+`) &\" &)" &)`)
		until(t, "it is named", func() bool { return named.MatchString(p.err.String()) })
		require.NoError(t, os.WriteFile(over, nil, 0o600))
		require.Zero(t, p.code(t))
		require.Len(t, named.FindAllString(p.err.String(), -1), 1)
	}
}

// TestOthersSeeWhatIsWaitedFor: COMMAND is over, and the run holds on for what it has left running. Whoever looks at the
// lock sees that.
func TestOthersSeeWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		service func(t *testing.T) func() *service
		flags   []string
		blind   bool // the service cannot change such an entry
	}{
		"a mutex":               {onSQLite, nil, false},
		"a read lock":           {onSQLite, []string{"-s"}, false},
		"a write lock":          {onSQLite, []string{"-x"}, false},
		"a semaphore":           {onSQLite, []string{"--limit", "2", "--units", "2"}, false},
		"a mutex on etcd":       {onEtcd, nil, false},
		"a write lock on etcd":  {onEtcd, []string{"-x"}, true},
		"a semaphore on etcd":   {onEtcd, []string{"--limit", "2", "--units", "2"}, false},
		"a mutex on ZooKeeper":  {onZooKeeper, nil, false},
		"a mutex on PostgreSQL": {onPostgres, nil, false},
		"a mutex on Redis":      {onRedis, nil, false},
		"a mutex on MySQL":      {onMySQL, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := row.service(t)()
			over := filepath.Join(memory(t), "over")
			command := "sleep 1000 & echo $!; until test -e " + over + "; do sleep 0.05; done"
			run := startAs(t, s.store, installed(t), append(append([]string{"run", "--ttl", "60s"}, row.flags...), s.path, "--", "sh", "-c", command)...)
			until(t, "COMMAND runs", func() bool { return strings.HasSuffix(run.out.String(), "\n") })
			watching := startAs(t, s.direct, installed(t), "watch", s.path)
			until(t, "watch shows the holder", func() bool { return strings.Contains(watching.out.String(), " holds ") })
			require.NoError(t, os.WriteFile(over, nil, 0o600))
			until(t, "what is left is said", func() bool { return strings.Contains(run.err.String(), "left 1 process: waiting for ") })
			pid, err := strconv.Atoi(strings.TrimSpace(run.out.String()))
			require.NoError(t, err)
			left := "processes that COMMAND left running: " + strconv.Itoa(pid) + " sleep"
			who := func() (u userJSON, ok bool) {
				p := startAs(t, s.direct, installed(t), "who", "--json", s.path)
				require.Zero(t, p.code(t))
				var found whoJSON
				require.NoError(t, json.Unmarshal([]byte(p.out.String()), &found))
				require.Len(t, found.Locks, 1)
				u = found.Locks[0].Participants[0]
				require.True(t, u.Held)
				host, err := os.Hostname()
				require.NoError(t, err)
				require.Equal(t, host+" pid "+strconv.Itoa(run.Process.Pid), u.Holder)
				return u, u.WaitsFor == left
			}
			if row.blind {
				u, _ := who()
				require.Empty(t, u.WaitsFor)
			} else {
				until(t, "who shows it", func() bool { _, ok := who(); return ok })
				for _, verb := range [][]string{{"who"}, {"who", "--tree"}} {
					p := startAs(t, s.direct, installed(t), append(verb, s.path)...)
					require.Zero(t, p.code(t))
					require.Contains(t, p.out.String(), ", waits for "+left)
				}
				until(t, "watch shows it", func() bool { return strings.Contains(watching.out.String(), ", waits for "+left+"\n") })
				waiting := startAs(t, s.direct, installed(t), append(append([]string{"run", "-w", "1h"}, row.flags...), s.path, "--", "true")...)
				if name != "a read lock" {
					until(t, "a run that waits shows it", func() bool { return strings.Contains(waiting.err.String(), "; it waits for "+left) })
				}
			}
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			require.Zero(t, run.code(t), "it has given the lock back")
		})
	}
}

// TestWhatIsWaitedForFits: an entry has room for a line of 256 bytes.
func TestWhatIsWaitedForFits(t *testing.T) {
	require.Equal(t, "4711 sh", fit("4711 sh"))
	require.Equal(t, `4711 \x1b[2J`, fit("4711 \x1b[2J"))
	for n := range 5 {
		cut := fit(strings.Repeat("x", n) + strings.Repeat("ä", 200))
		require.LessOrEqual(t, len(cut), mostSaid)
		require.Greater(t, len(cut), mostSaid-4)
		require.True(t, strings.HasSuffix(cut, "ä…"))
	}
}

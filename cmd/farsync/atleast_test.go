//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/internal/suite"
)

// TestTheTimeOfAtLeastOutlivesFarsync on every service: when farsync ends in that time, the service keeps the lock for as long as
// farsync has said, and gives it to another client when the session has run out.
func TestTheTimeOfAtLeastOutlivesFarsync(t *testing.T) {
	suite.Long(t, suite.Command, "kills guards and supervisors, and waits for TTLs of 12 s")
	t.Parallel()
	const resting, working = "echo $$ $PPID; exit", "echo $$ $PPID; exec sleep 600"
	type processes struct{ guard, supervisor, command int }
	for name, open := range services {
		shared := open(t)
		for end, way := range map[string]struct {
			command string
			die     func(t *testing.T, p processes)
			silent  bool // no process is left that could say for how long
		}{
			"SIGTERM":           {resting, func(t *testing.T, p processes) { send(t, p.guard, syscall.SIGTERM) }, false},
			"SIGTERM, COMMAND":  {working, func(t *testing.T, p processes) { send(t, p.guard, syscall.SIGTERM) }, false},
			"no guard":          {resting, func(t *testing.T, p processes) { send(t, p.guard, syscall.SIGKILL) }, false},
			"no guard, COMMAND": {working, func(t *testing.T, p processes) { send(t, p.guard, syscall.SIGKILL) }, false},
			"no supervisor":     {resting, func(t *testing.T, p processes) { send(t, p.supervisor, syscall.SIGKILL) }, true},
		} {
			t.Run(name+"/"+end, func(t *testing.T) {
				t.Parallel()
				s := shared()
				status := filepath.Join(t.TempDir(), "status")
				p := start(t, s.direct, "run", "--at-least", "10m", "--ttl", "12s", "--status", status, s.path, "--", "sh", "-c", way.command)
				until(t, "COMMAND has begun", func() bool { return strings.Contains(p.out.String(), "\n") })
				all := processes{guard: p.Process.Pid}
				_, err := fmt.Sscan(p.out.String(), &all.command, &all.supervisor)
				require.NoError(t, err)
				if way.command == resting {
					until(t, "COMMAND has ended", func() bool { return dead(all.command) })
				}
				next, closed := openFor(t, s.direct, time.Minute)
				defer closed()
				told := time.Now()
				way.die(t, all)
				p.code(t)
				var said result
				if !way.silent {
					until(t, "the supervisor says how it ended", func() bool {
						line, _ := os.ReadFile(status)
						return json.Unmarshal(line, &said) == nil
					})
					require.Equal(t, "ended", said.Outcome)
					require.Positive(t, said.Kept)
					require.Contains(t, said.Error, "short of --at-least")
				}
				lease, err := farsync.NewMutex(next, s.path).Lock(t.Context())
				require.NoError(t, err)
				require.GreaterOrEqual(t, time.Since(told).Seconds(), said.Kept, "the service keeps the lock for as long as was said")
				require.NoError(t, lease.Release())
			})
		}
	}
}

// TestTheTTLThatIsNamedIsEnough: a lease has so much left right before it is renewed, and may be near its end by a margin.
func TestTheTTLThatIsNamedIsEnough(t *testing.T) {
	for _, zookeeper := range []bool{false, true} {
		for atLeast := 10 * time.Millisecond; atLeast < location.MostTTL; atLeast = atLeast*3/2 + 7*time.Millisecond {
			ttl := outlasting(atLeast, zookeeper)
			left := ttl - ttl/4
			if zookeeper {
				left = ttl / 2
			}
			require.GreaterOrEqual(t, left-max(ttl/20, 100*time.Millisecond), atLeast, "%v of a TTL of %v", atLeast, ttl)
			require.Equal(t, ttl, ttl.Truncate(time.Second))
		}
		require.Greater(t, outlasting(1<<63-1, zookeeper), location.MostTTL, "none is")
	}
}

//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/guard"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/internal/suite"
)

// make deaths sets these. By default each death is died once on etcd, and few on each other store.
var (
	deaths    = flag.Int("deaths", 0, "how often each death is died on each of the stores")
	deathsOn  = flag.String("deaths-on", "", "on this store alone")
	deathsOf  = flag.String("deaths-of", "", "in this way alone")
	deathsTTL = flag.Duration("deaths-ttl", 4*time.Second, "the TTL of the lock, which a machine that is busy with other tests keeps")
)

// A death is a way in which COMMAND loses its lock.
type death struct {
	name string
	die  func(t *testing.T, s *service, d *dying)
	// code is the exit code of the command.
	code int
	// byHand: a person has taken the lock away, so the next holder may be there before COMMAND is dead.
	byHand bool
	// lives: COMMAND goes on, and is then ended by SIGTERM.
	lives bool
	// freezes: the server answers no client, so no other test can use it.
	freezes bool
	// notOn is a store that has no such thing: a file no network, ZooKeeper no tool that ends the session of another client.
	notOn string
	// few: this one is also died on other stores than etcd when little time is spent on them.
	few bool
}

// A dying is one run of the command.
type dying struct {
	guard, supervisor int
	participant       farsync.Participant
}

// send sends a signal to a process that may have ended: the lock may have been lost meanwhile, by the clock alone.
func send(t *testing.T, pid int, s syscall.Signal) {
	if err := syscall.Kill(pid, s); !errors.Is(err, syscall.ESRCH) {
		require.NoError(t, err)
	}
}

var ways = []death{
	{name: "cut", notOn: "sqlite", code: codeLost, few: true, die: func(t *testing.T, s *service, _ *dying) { s.cut() }},
	{name: "server frozen", code: codeLost, freezes: true, die: func(t *testing.T, s *service, _ *dying) { s.freeze(t) }},
	{name: "supervisor killed", code: codeLost, few: true, die: func(t *testing.T, _ *service, d *dying) {
		send(t, d.supervisor, syscall.SIGKILL)
	}},
	{name: "supervisor stopped", code: codeLost, die: func(t *testing.T, _ *service, d *dying) {
		send(t, d.supervisor, syscall.SIGSTOP)
	}},
	{name: "guard killed", code: codeSignal + int(syscall.SIGKILL), die: func(t *testing.T, _ *service, d *dying) {
		send(t, d.guard, syscall.SIGKILL)
	}},
	{name: "guard killed behind a stopped supervisor", code: codeSignal + int(syscall.SIGKILL), die: func(t *testing.T, _ *service, d *dying) {
		send(t, d.supervisor, syscall.SIGSTOP)
		send(t, d.guard, syscall.SIGKILL)
	}},
	{name: "guard stopped", lives: true, code: codeSignal + int(syscall.SIGTERM), die: func(t *testing.T, _ *service, d *dying) {
		send(t, d.guard, syscall.SIGSTOP)
	}},
	{name: "key deleted", code: codeLost, byHand: true, die: func(t *testing.T, s *service, d *dying) { s.deleted(t, d.participant) }},
	{name: "session revoked", notOn: "zookeeper", code: codeLost, byHand: true, die: func(t *testing.T, s *service, d *dying) { s.revoked(t, d.participant) }},
}

// tally is how deaths of one way have come out.
type tally struct {
	died, early int
	least       time.Duration
}

// TestCommandIsDeadBeforeTheNextHolds: in whatever way the lock is lost, COMMAND and all that it has started have given their
// last sign of life before another client holds the lock.
func TestCommandIsDeadBeforeTheNextHolds(t *testing.T) {
	suite.Long(t, suite.Command, "kills, stops and cuts off the holder of a lock with a TTL of 4 s")
	t.Parallel()
	var mu sync.Mutex
	tallies := map[string]*tally{}
	t.Cleanup(func() {
		for _, way := range slices.Sorted(maps.Keys(tallies)) {
			n := tallies[way]
			t.Logf("%-70s %3d died, %d of them lost the lock before, least slack %v", way, n.died, n.early, n.least.Round(time.Millisecond))
		}
	})
	for name, start := range services {
		if *deathsOn != "" && *deathsOn != name {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := start(t)
			for _, way := range ways {
				if way.notOn == name || *deathsOf != "" && *deathsOf != way.name || *deaths == 0 && name != "etcd" && !way.few {
					continue
				}
				for i, manner := range []string{"deaf", "polite", "deaf, beside another"} {
					if *deaths == 0 && name != "etcd" && i > 0 {
						continue
					}
					for range max(*deaths, 1) {
						t.Run(way.name+"/"+manner, func(t *testing.T) {
							t.Parallel()
							open := shared
							if way.freezes {
								open = start(t)
							}
							slack, early := dies(t, open(), way, manner)
							mu.Lock()
							defer mu.Unlock()
							key := name + "/" + way.name + "/" + manner
							n := tallies[key]
							if n == nil {
								n = &tally{least: slack}
								tallies[key] = n
							}
							n.died++
							n.least = min(n.least, slack)
							if early {
								n.early++
							}
						})
					}
				}
			}
		})
	}
}

// dies runs the command until it has died in one way, and returns the time between the last sign of life and the next holder.
// A machine that is busy may have the lock lost by the clock before it comes to that, which is early, and no less a death.
func dies(t *testing.T, s *service, way death, manner string) (slack time.Duration, early bool) {
	p, dir, all := begin(t, s, manner)
	spared := other(t, p)
	next, closed := openFor(t, s.direct, *deathsTTL)
	defer closed()
	taken := make(chan time.Duration, 1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	waiting.Go(func() {
		if lease, err := farsync.NewMutex(next, s.path).Lock(ctx); err == nil {
			taken <- guard.Now()
			_ = lease.Release()
		}
	})
	var list []farsync.Participant
	until(t, "another client waits, or holds", func() bool {
		var err error
		list, err = next.Participants(t.Context(), s.path)
		return err == nil && len(list) == 2 || len(taken) > 0
	})
	if len(taken) == 0 {
		way.die(t, s, &dying{p.Process.Pid, all[0].parent, list[0]})
	}
	if s.thaw != nil {
		// By then the service may give the lock away, and does.
		defer time.AfterFunc(*deathsTTL, s.thaw).Stop()
	}
	alive := func(l life) bool { return !dead(l.pid) }
	if way.lives {
		outlive(t, dir, p, all, manner)
	}
	until(t, "all are dead", func() bool { return !slices.ContainsFunc(all, alive) })
	var at time.Duration
	select {
	case at = <-taken:
	case <-time.After(soon):
		require.Fail(t, "the lock does not come free")
	}
	last := slices.MaxFunc(lives(dir), func(a, b life) int { return int(a.last - b.last) }).last
	if !way.byHand {
		require.Less(t, last, at, "a process was alive when another client held the lock")
	}
	want, code := way.code, p.code(t)
	if way.lives && manner != "polite" {
		want = codeLost
	}
	if code != want {
		require.Equal(t, codeLost, code, p.err.String())
	}
	for _, pid := range spared {
		require.False(t, dead(pid), "what farsync has not started was killed")
	}
	return at - last, code != want
}

// begin runs the command until COMMAND and its descendants live. Where the machine is so busy that COMMAND is told to end before, or
// ended, there is nothing to be seen in that, and it begins anew.
func begin(t *testing.T, s *service, manner string) (p *process, dir string, all []life) {
	program, err := mortal()
	require.NoError(t, err)
	for all == nil {
		dir = t.TempDir()
		end(t, dir)
		before := ""
		manner, beside := strings.CutSuffix(manner, ", beside another")
		if beside {
			before = "sleep 600 </dev/null >/dev/null 2>&1 & echo $! && "
		}
		p = startAs(t, s.store, "sh", "-c", before+`exec farsync "$@"`, "sh",
			"run", "--ttl", deathsTTL.String(), s.path, "--", program, dir, manner)
		until(t, "COMMAND and its descendants live, or have to die", func() bool {
			all = lives(dir)
			return all != nil || ended(p) || strings.Contains(p.err.String(), "COMMAND is told to end")
		})
		if all == nil {
			_ = p.Process.Kill()
			p.code(t)
			other(t, p)
		}
	}
	return p, dir, all
}

// other returns the process that was started beside the command, if there is one, and ends it with the test.
func other(t *testing.T, p *process) []int {
	pid, err := strconv.Atoi(strings.TrimSpace(p.out.String()))
	if err != nil {
		return nil
	}
	t.Cleanup(func() { send(t, pid, syscall.SIGKILL) })
	return []int{pid}
}

// ended reports whether a command has ended.
func ended(p *process) bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// outlive waits until all have lived on for longer than the TTL, and ends them, as a user would. One that is deaf loses its supervisor.
func outlive(t *testing.T, dir string, p *process, all []life, manner string) {
	at := guard.Now()
	until(t, "it lives on for longer than its TTL, or has lost its lock", func() bool {
		return dead(all[0].pid) || !slices.ContainsFunc(lives(dir), func(l life) bool { return l.last < at+*deathsTTL+time.Second })
	})
	send(t, p.Process.Pid, syscall.SIGCONT)
	if manner != "polite" {
		send(t, all[0].pid, syscall.SIGTERM) // which it does not hear
		send(t, all[0].parent, syscall.SIGKILL)
		return
	}
	send(t, p.Process.Pid, syscall.SIGTERM)
	// What has left the group hears nothing of it, and COMMAND's end is waited for.
	until(t, "COMMAND hears of it", func() bool { return dead(all[0].pid) })
	send(t, all[3].pid, syscall.SIGTERM)
	send(t, all[4].pid, syscall.SIGTERM)
}

// open opens a Store, for what is not the command, with a TTL that a busy machine keeps.
func open(t testing.TB, store string) (*farsync.Store, func()) { return openFor(t, store, time.Minute) }

// openFor is open with a TTL.
func openFor(t testing.TB, store string, ttl time.Duration) (*farsync.Store, func()) {
	l, err := location.Parse(store)
	require.NoError(t, err)
	s, closed, err := l.Open(t.Context(), farsync.Options{TTL: ttl, Holder: "observer"})
	require.NoError(t, err)
	return s, func() {
		_ = s.Close()
		_ = closed()
	}
}

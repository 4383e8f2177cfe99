//go:build linux

package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/guard"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/embedtest"
)

var deaths = flag.Int("deaths", 1, "how often each death is died on etcd; a third as often on SQLite")

// A service is where a death is died.
type service struct {
	store  string // the URL for the command
	direct string // the URL for others, whom a cut does not reach
	// Each of these ends what holds, or keeps it from renewing. Nil where the service has no such thing.
	cut, frozen, deleted, revoked func(t *testing.T, p farsync.Participant)
	thaw                          func() // ends frozen
}

// A death is a way in which COMMAND loses its lock.
type death struct {
	name string
	die  func(t *testing.T, s *service, d *dying)
	// code is the exit code of the command, if it can have one.
	code int
	// byHand: a person has taken the lock away, so the next holder may be there before COMMAND is dead.
	byHand bool
	// lives: COMMAND goes on, and is then ended by SIGTERM.
	lives bool
}

// A dying is one run of the command.
type dying struct {
	guard, supervisor int
	participant       farsync.Participant
}

var ways = []death{
	{name: "cut", code: codeLost, die: func(t *testing.T, s *service, d *dying) { s.cut(t, d.participant) }},
	{name: "server frozen", code: codeLost, die: func(t *testing.T, s *service, d *dying) { s.frozen(t, d.participant) }},
	{name: "supervisor killed", code: codeLost, die: func(t *testing.T, _ *service, d *dying) {
		require.NoError(t, syscall.Kill(d.supervisor, syscall.SIGKILL))
	}},
	{name: "supervisor stopped", code: codeLost, die: func(t *testing.T, _ *service, d *dying) {
		require.NoError(t, syscall.Kill(d.supervisor, syscall.SIGSTOP))
	}},
	{name: "guard killed", code: -1, die: func(t *testing.T, _ *service, d *dying) {
		require.NoError(t, syscall.Kill(d.guard, syscall.SIGKILL))
	}},
	{name: "guard killed behind a stopped supervisor", code: -1, die: func(t *testing.T, _ *service, d *dying) {
		require.NoError(t, syscall.Kill(d.supervisor, syscall.SIGSTOP))
		require.NoError(t, syscall.Kill(d.guard, syscall.SIGKILL))
	}},
	{name: "guard stopped", lives: true, code: codeSignal + int(syscall.SIGTERM), die: func(t *testing.T, _ *service, d *dying) {
		require.NoError(t, syscall.Kill(d.guard, syscall.SIGSTOP))
	}},
	{name: "key deleted", code: codeLost, byHand: true, die: func(t *testing.T, s *service, d *dying) { s.deleted(t, d.participant) }},
	{name: "session revoked", code: codeLost, byHand: true, die: func(t *testing.T, s *service, d *dying) { s.revoked(t, d.participant) }},
}

// deathTTL is short, and long enough for a machine that is busy with other tests.
const deathTTL = 4 * time.Second

// TestCommandIsDeadBeforeTheNextHolds: in whatever way the lock is lost, COMMAND and all that it has started have given their
// last sign of life before another client holds the lock.
func TestCommandIsDeadBeforeTheNextHolds(t *testing.T) {
	var mu sync.Mutex
	least := map[string]time.Duration{}
	t.Cleanup(func() {
		for way, slack := range least {
			t.Logf("%-60s least slack %v", way, slack.Round(time.Millisecond))
		}
	})
	for name, open := range map[string]func(t *testing.T) *service{"SQLite": onSQLite, "etcd": onEtcd} {
		for _, way := range ways {
			if way.name == "cut" && name == "SQLite" {
				continue // there is no network
			}
			for _, manner := range []string{"deaf", "polite"} {
				times := *deaths
				if name == "SQLite" {
					times = (times + 2) / 3
				}
				for range times {
					t.Run(name+"/"+way.name+"/"+manner, func(t *testing.T) {
						t.Parallel()
						s := open(t)
						slack := dies(t, s, way, manner)
						mu.Lock()
						defer mu.Unlock()
						key := name + "/" + way.name + "/" + manner
						if was, known := least[key]; !known || slack < was {
							least[key] = slack
						}
					})
				}
			}
		}
	}
}

// dies runs the command until it has died in one way, and returns the time between the last sign of life and the next holder.
func dies(t *testing.T, s *service, way death, manner string) time.Duration {
	program, err := mortal()
	require.NoError(t, err)
	dir := t.TempDir()
	end(t, dir)
	p := start(t, s.store, "run", "--ttl", deathTTL.String(), "/x", "--", program, dir, manner)
	all := born(t, dir)
	next, closed := open(t, s.direct)
	defer closed()
	holders, err := farsync.NewMutex(next, "/x").Participants(t.Context())
	require.NoError(t, err)
	require.Len(t, holders, 1)
	taken := make(chan time.Duration, 1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	waiting.Go(func() {
		if lease, err := farsync.NewMutex(next, "/x").Lock(ctx); err == nil {
			taken <- guard.Now()
			_ = lease.Release()
		}
	})
	until(t, "another client waits", func() bool {
		list, err := farsync.NewMutex(next, "/x").Participants(t.Context())
		return err == nil && len(list) == 2
	})

	way.die(t, s, &dying{p.Process.Pid, all[0].parent, holders[0]})
	if s.thaw != nil {
		// By then the service may give the lock away, and does.
		defer time.AfterFunc(deathTTL, s.thaw).Stop()
	}
	if way.lives {
		at := guard.Now()
		until(t, "it lives on for longer than its TTL", func() bool {
			now := lives(dir)
			return slices.IndexFunc(now, func(l life) bool { return l.last < at+deathTTL+time.Second }) < 0
		})
		require.NoError(t, p.Process.Signal(syscall.SIGCONT))
		if manner == "deaf" {
			require.NoError(t, syscall.Kill(all[0].pid, syscall.SIGTERM), "it hears nothing")
			require.NoError(t, syscall.Kill(all[0].parent, syscall.SIGKILL))
		} else {
			require.NoError(t, p.Process.Signal(syscall.SIGTERM))
			// What has left the group hears nothing of it, and COMMAND's end is waited for.
			until(t, "COMMAND hears of it", func() bool { return dead(all[0].pid) })
			require.NoError(t, syscall.Kill(all[3].pid, syscall.SIGTERM))
			require.NoError(t, syscall.Kill(all[4].pid, syscall.SIGTERM))
		}
	}
	until(t, "all are dead", func() bool {
		return !slices.ContainsFunc(all, func(l life) bool { return !dead(l.pid) })
	})
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
	want := way.code
	if way.lives && manner == "deaf" {
		want = codeLost
	}
	require.Equal(t, want, p.code(t), p.err.String())
	return at - last
}

// open opens a Store, for what is not the command.
func open(t *testing.T, store string) (*farsync.Store, func()) {
	l, err := location.Parse(store)
	require.NoError(t, err)
	s, closed, err := l.Open(t.Context(), farsync.Options{TTL: deathTTL, Holder: "observer"})
	require.NoError(t, err)
	return s, func() {
		_ = s.Close()
		_ = closed()
	}
}

func onSQLite(t *testing.T) *service {
	store := file(t)
	name, err := url.PathUnescape(strings.TrimPrefix(strings.TrimSuffix(store, "?ttl=60s"), "sqlite:"))
	require.NoError(t, err)
	do := func(t *testing.T, statement, argument string) {
		db, err := sql.Open("sqlite", name+"?_pragma=busy_timeout(10000)")
		require.NoError(t, err)
		defer db.Close()
		done, err := db.ExecContext(t.Context(), statement, argument)
		require.NoError(t, err)
		n, err := done.RowsAffected()
		require.NoError(t, err)
		require.Positive(t, n)
	}
	s := &service{store: store, direct: store}
	s.deleted = func(t *testing.T, p farsync.Participant) { do(t, "DELETE FROM farsync_entries WHERE id = ?", p.ID) }
	s.revoked = func(t *testing.T, p farsync.Participant) {
		do(t, "DELETE FROM farsync_sessions WHERE id = (SELECT session FROM farsync_entries WHERE id = ?)", p.ID)
	}
	s.frozen = func(t *testing.T, _ farsync.Participant) {
		// A transaction of another program that writes keeps all others waiting.
		db, err := sql.Open("sqlite", name+"?_txlock=immediate&_pragma=busy_timeout(10000)")
		require.NoError(t, err)
		tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
		require.NoError(t, err)
		s.thaw = sync.OnceFunc(func() {
			require.NoError(t, tx.Rollback())
			require.NoError(t, db.Close())
		})
		t.Cleanup(s.thaw)
	}
	return s
}

// onEtcd starts a server of its own, for one that is frozen is so for all its clients.
func onEtcd(t *testing.T) *service {
	server := embedtest.Etcd(t)
	proxy := embedtest.NewProxy(t, server.Endpoint())
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return &service{
		store:  "etcd://" + proxy.Addr(),
		direct: "etcd://" + strings.TrimPrefix(server.Endpoint(), "http://"),
		cut:    func(*testing.T, farsync.Participant) { proxy.Cut() },
		frozen: func(*testing.T, farsync.Participant) { server.Pause() },
		thaw:   server.Resume, // does nothing to one that is not frozen
		deleted: func(t *testing.T, p farsync.Participant) {
			_, err := client.Delete(t.Context(), p.ID)
			require.NoError(t, err)
		},
		revoked: func(t *testing.T, p farsync.Participant) {
			var lease clientv3.LeaseID
			_, err := fmt.Sscanf(p.Session, "%x", &lease)
			require.NoError(t, err)
			_, err = client.Revoke(t.Context(), lease)
			require.NoError(t, err)
		},
	}
}

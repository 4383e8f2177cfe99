//go:build unix

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/internal/suite/marks"
	"github.com/farsync/farsync/internal/torture/history"
)

// Recipes that workers know in tests. The holders of deaf locks do not hear of a loss.
const (
	deaf  = "deaf"
	stuck = "stuck" // opens no client, and does not return
)

func TestMain(m *testing.M) {
	embedtest.Child()
	openers[deaf] = func(ctx context.Context, p part) (locker, error) {
		l, err := openers[ours](ctx, p)
		return deafLocker{l}, err
	}
	openers[stuck] = func(context.Context, part) (locker, error) { select {} }
	work()
	os.Exit(m.Run())
}

type deafLocker struct{ locker }

type deafHeld struct{ held }

func (deafHeld) Err() error            { return nil }
func (deafHeld) Done() <-chan struct{} { return nil }

// newCampaign returns a short one, with all that goes wrong.
func newCampaign(t *testing.T, store string) campaign {
	executable, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711)) // as in main
	return campaign{
		Store: store, Recipe: ours, Primitives: playable(store, primitives), Tiers: tiers, For: 5 * time.Second, Seed: uint64(time.Now().Unix()),
		TTL: defaultTTL, crowd: few, Worker: executable, Dir: dir,
	}
}

func (c *campaign) test(t *testing.T) *verdict {
	t.Logf("seed %d", c.Seed)
	v, err := c.run(t.Context(), t.Logf)
	missing := []error{embedtest.ErrNoZooKeeper, embedtest.ErrNoRedis, embedtest.ErrNoPostgres, embedtest.ErrNoMariaDB}
	if slices.ContainsFunc(missing, func(server error) bool { return errors.Is(err, server) }) {
		if os.Getenv("FARSYNC_REQUIRE_SERVERS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Logf("%d grants, %d lost, %d stale writes refused, %v", v.Granted, v.Lost, v.refused, v.faults)
	return v
}

// TestLocksUnderTorture is make torture for a moment.
func TestLocksUnderTorture(t *testing.T) {
	suite.Long(t, suite.Etcd, "all that can go wrong on every store")
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			c := newCampaign(t, store)
			v := c.test(t)
			require.Empty(t, v.Violations)
			require.Zero(t, v.Undecided)
			require.Positive(t, v.Granted)
			require.NotEmpty(t, v.faults)
		})
	}
}

// twoLongStops is a seed by which two processes are stopped for longer than the TTL in the first seconds, while they hold.
const twoLongStops = 9

// TestDeafHoldersAreCaught: processes are stopped for longer than their sessions last, and believe that they hold when they
// continue.
func TestDeafHoldersAreCaught(t *testing.T) {
	suite.Long(t, suite.Etcd, "stops processes for longer than their TTL")
	t.Parallel()
	c := newCampaign(t, onRedis)
	c.Recipe, c.Primitives, c.Tiers, c.For, c.Seed = deaf, []string{mutex}, []string{tierClient}, 12*time.Second, twoLongStops
	v := c.test(t)
	rules := map[string]bool{}
	for _, violation := range v.Violations {
		rules[violation.Rule] = true
	}
	for _, rule := range []string{"overlap", "order", "model", "worker"} {
		require.True(t, rules[rule], "%s was not found: %v", rule, v.Violations)
	}
	require.Positive(t, v.refused, "stale writes were not tried")
	require.Zero(t, rules["stale"], "stale writes were let in")
	require.Positive(t, v.found)
}

func (l deafLocker) lock(random *rand.Rand, primitive string) lock {
	made := l.locker.lock(random, primitive)
	for _, call := range []*func(context.Context) (held, error){&made.take, &made.try} {
		if hears := *call; hears != nil {
			*call = func(ctx context.Context) (held, error) {
				h, err := hears(ctx)
				if err != nil {
					return nil, err
				}
				return deafHeld{h}, nil
			}
		}
	}
	return made
}

// TestScheduleIsOfItsSeed: what goes wrong can be had again, and everything does some time.
func TestScheduleIsOfItsSeed(t *testing.T) {
	seen := map[string]bool{}
	for _, tier := range tiers {
		list := func(seed, row uint64, of shape, fast bool) (list []fault) {
			s := newSchedule(tier, seed, row, defaultTTL, of, fast)
			for range 500 {
				f := s.Next()
				seen[f.What] = true
				require.GreaterOrEqual(t, f.On, 0.0)
				require.Less(t, f.pick(3), 3)
				list = append(list, f)
			}
			return list
		}
		for _, of := range []shape{single, forgetful, ensemble, apart} {
			for _, fast := range []bool{false, true} {
				first, again := list(1, 0, of, fast), list(1, 0, of, fast)
				require.Equal(t, first, again)
				require.NotEqual(t, first, list(2, 0, of, fast))
				require.NotEqual(t, first, list(1, 1, of, fast))
			}
		}
	}
	for _, what := range []string{
		wireCut, wireRequests, wireReplies, wireDelay, wireFading, wireReset, wireOneSilent, wireOneMute, wireOneDeaf, nodeKill, nodeEmpty,
		nodeKillFirst, nodeStop, nodeStopFirst,
		nodeCutFirst, nodeCut, nodeMute, nodeDeaf, nodePart, nodeAll, clientStop, clientKill, entryGone,
	} {
		require.True(t, seen[what], what)
	}
}

func TestResourceRefusesWhatIsStale(t *testing.T) {
	r, d := newResource(t)
	for _, c := range []struct {
		write
		admitted bool
	}{
		{write{Process: "1", Queue: "/a", Tokens: []int64{5}, Fenced: true, First: true}, true},
		{write{Process: "1", Queue: "/a", Tokens: []int64{5}, Fenced: true}, true},
		{write{Process: "2", Queue: "/a", Tokens: []int64{6}, Fenced: true, First: true}, true},
		{write{Process: "1", Queue: "/a", Tokens: []int64{5}, Fenced: true}, false},
		{write{Process: "1", Queue: "/b", Tokens: []int64{5}, Fenced: true, First: true}, true},
		{write{Process: "1", Queue: "/q", Tokens: []int64{7, 2, 0}, Fenced: true, First: true}, true},
		{write{Process: "2", Queue: "/q", Tokens: []int64{0, 3, 1}, Fenced: true, First: true}, true},
		{write{Process: "1", Queue: "/q", Tokens: []int64{7, 2, 0}, Fenced: true}, false}, // a member that both have tells
		{write{Process: "3", Queue: "/a", Tokens: []int64{1}, First: true}, true},         // a permit's token does not fence
	} {
		require.Equal(t, answer{Admitted: c.admitted}, d.write(c.write), "%+v", c.write)
	}
	require.Equal(t, account{grants: 6, writes: 9, refused: 2}, r.count())
	require.Zero(t, r.stale())
	r.admitted["/a"] = append(r.admitted["/a"], []int64{5}) // as if the fence had let it in
	require.Equal(t, 1, r.stale())
}

// TestHoldersAreCaughtWhereTheyHold: a process that a fault is aimed at has no answer before the fault is there.
func TestHoldersAreCaughtWhereTheyHold(t *testing.T) {
	r, d := newResource(t)
	two := func(w write) bool { return w.Process == "2" }
	type caught struct {
		write
		proceed func(time.Duration)
		ok      bool
	}
	sprung := make(chan caught, 1)
	go func() { // joined by the receive below
		w, proceed, ok := r.catch(t.Context(), two)
		sprung <- caught{w, proceed, ok}
	}()
	answered := make(chan answer, 1)
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.traps) == 1
	}, leastHang, time.Millisecond)
	require.Equal(t, answer{Admitted: true}, d.write(write{Process: "1", Queue: "/a", Tokens: []int64{1}, Fenced: true}))
	require.Equal(t, answer{Admitted: true}, d.write(write{Process: "2", Queue: "/b", Tokens: []int64{1}}), "readers are not caught")
	go func() { answered <- d.write(write{Process: "2", Queue: "/a", Tokens: []int64{2}, Fenced: true}) }()
	c := <-sprung
	require.Equal(t, "2", c.Process)
	require.True(t, c.ok)
	require.Empty(t, answered)
	c.proceed(time.Second)
	require.Equal(t, answer{Admitted: true, Stay: time.Second}, <-answered)

	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, ok := r.catch(over, two)
	require.False(t, ok)
	require.Empty(t, r.traps)
}

// newResource returns a resource and a connection to it.
func newResource(t *testing.T) (*resource, *desk) {
	socket := filepath.Join(t.TempDir(), "r")
	r, err := serve(socket)
	require.NoError(t, err)
	t.Cleanup(r.close)
	d, err := reach(socket)
	require.NoError(t, err)
	return r, d
}

// TestWorkerThatHangsIsReported: a process that does not end is made to print its goroutines.
func TestWorkerThatHangsIsReported(t *testing.T) {
	c, dir := newCampaign(t, onSQLite), t.TempDir()
	r, err := serve(filepath.Join(dir, "r"))
	require.NoError(t, err)
	defer r.close()
	w, err := startProcess(c.Worker, part{
		Process: "w", Recipe: stuck, Store: onSQLite, Primitives: []string{mutex}, TTL: c.TTL, Hang: c.hang(), Dir: dir,
		Wires: [][]string{nil}, Resource: filepath.Join(dir, "r"),
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool { // it is a worker by then
		_, err := os.Stat(filepath.Join(dir, "w.jsonl"))
		return err == nil
	}, time.Minute, time.Millisecond)
	require.False(t, w.finish(time.Second))
	require.Len(t, w.complaints(), 1)
	require.Contains(t, w.complaints()[0], "goroutine")
	list, err := history.Load(dir, nil)
	require.NoError(t, err)
	require.Empty(t, list)
}

// TestMutantsFitTheSources: the proof that the checks find something changes words of the sources, which must be there.
func TestMutantsFitTheSources(t *testing.T) {
	root, err := moduleRoot(t.Context())
	require.NoError(t, err)
	for _, m := range mutants {
		for _, e := range m.edits {
			text, err := os.ReadFile(filepath.Join(root, e.file))
			require.NoError(t, err)
			_, err = e.apply(string(text))
			require.NoError(t, err, m.name)
		}
	}
}

// TestMutantsAreFoundByMakeTest: each of them has tests that find it, which docs/reports/RELIABILITY.md names, and none that leave themselves to make long.
func TestMutantsAreFoundByMakeTest(t *testing.T) {
	root, err := moduleRoot(t.Context())
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "reports", "RELIABILITY.md"))
	require.NoError(t, err)
	for _, m := range mutants {
		require.NotEmpty(t, m.tests[0], "%s: which test of make test finds it?", m.name)
		long, err := marks.Read(filepath.Join(root, m.tests[0]))
		require.NoError(t, err)
		files, err := filepath.Glob(filepath.Join(root, m.tests[0], "*_test.go"))
		require.NoError(t, err)
		top, _, _ := strings.Cut(m.tests[1], "/")
		pattern, err := regexp.Compile(top)
		require.NoError(t, err)
		var names []string
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, found := range testName.FindAllSubmatch(text, -1) {
				if name := string(found[1]); pattern.MatchString(name) {
					names = append(names, name)
				}
			}
		}
		require.NotEmpty(t, names, "%s: no test of %s is called %s", m.name, m.tests[0], m.tests[1])
		for _, name := range names {
			require.Contains(t, string(page), "`"+name, m.name)
		}
		for _, mark := range long {
			if !mark.Part && filepath.FromSlash(mark.Folder) == filepath.Join(root, m.tests[0]) {
				require.NotContains(t, names, mark.Test, "%s: its test is for make long", m.name)
			}
		}
	}
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

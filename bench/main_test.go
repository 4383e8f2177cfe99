package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/suite"
)

func TestMain(m *testing.M) {
	embedtest.Child()
	beVictim()
	os.Exit(m.Run())
}

func newPath() string { return fmt.Sprint("/bench/", paths.Add(1)) }

func newEtcdClient(b *testing.B, endpoint string) *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	require.NoError(b, err)
	b.Cleanup(func() { client.Close() })
	return client
}

func newEtcdStore(b *testing.B, endpoint string) *farsync.Store {
	store, err := etcd.Open(b.Context(), newEtcdClient(b, endpoint), nil)
	require.NoError(b, err)
	b.Cleanup(func() { store.Close() })
	return store
}

// TestScenes has every peer of every body run for a moment, on every store, with few contenders. Servers that sync their files
// and clusters are left out: the bodies on them are the same.
func TestScenes(t *testing.T) {
	suite.Long(t, suite.Etcd, "contenders of all peers, for a moment each")
	suite.Long(t, suite.ZooKeeper, "contenders of all peers, for a moment each")
	suite.Long(t, suite.Redis, "contenders of all peers, for a moment each")
	suite.Long(t, suite.Postgres, "contenders of all peers, for a moment each")
	suite.Long(t, suite.MySQL, "contenders of all peers, for a moment each")
	suite.Long(t, suite.SQLite, "contenders of all peers, for a moment each")
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			on := siteFor(t, siteSpec{store: store})
			done := map[string]bool{}
			for _, s := range plan() {
				s.n = min(s.n, 3)
				s.waiting = min(s.waiting, 5)
				if s.site() != on.spec || s.store != store || done[s.name()] {
					continue
				}
				done[s.name()] = true
				moment := pace{rounds: 1, warm: time.Millisecond, window: 20 * time.Millisecond, javaWarm: time.Millisecond}
				r, err := measure(t.Context(), s, on, moment, func(string) {})
				require.NoError(t, err, s.name())
				require.Len(t, r.Peers, len(s.peers))
				for _, p := range r.Peers {
					require.Len(t, p.Laps, 1, p.Name)
				}
			}
		})
	}
}

// siteFor opens a site for the test. A server that is missing is a failure, as it is for the program.
func siteFor(t *testing.T, spec siteSpec) *site {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	on, err := openSite(ctx, spec)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, on.close()) })
	return on
}

// TestDocumentsShowTheFiguresThatAreKept: tables and pictures are those of figures.json, to the letter.
func TestDocumentsShowTheFiguresThatAreKept(t *testing.T) {
	const docs = "../docs/reports"
	kept, err := loadFigures(filepath.Join(docs, figuresFile))
	require.NoError(t, err)
	require.NotEmpty(t, kept.Scenes)
	text, err := os.ReadFile(filepath.Join(docs, documentFile))
	require.NoError(t, err)
	filled, err := fill(string(text), kept.tables())
	require.NoError(t, err)
	require.Equal(t, filled, string(text), "make bench, or bin/bench -render -docs docs/reports, writes it")
	for name, p := range kept.plots() {
		picture, err := os.ReadFile(filepath.Join(docs, pictures, name))
		require.NoError(t, err)
		require.Equal(t, p.svg(), string(picture), name)
	}
}

// TestFramesAreCounted: whole and in pieces, a message counts once.
func TestFramesAreCounted(t *testing.T) {
	for _, c := range []struct {
		store    string
		client   bool
		bytes    string
		messages int
	}{
		{onRedis, true, "*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n*1\r\n$4\r\nPING\r\n", 2},
		{onRedis, false, "+OK\r\n$-1\r\n*2\r\n:1\r\n*1\r\n$1\r\nx\r\n%1\r\n+a\r\n:2\r\n*0\r\n", 5},
		{onZooKeeper, true, "\x00\x00\x00\x02ab\x00\x00\x00\x01c", 2},
		{onPostgres, true, "\x00\x00\x00\x08\x00\x03\x00\x00P\x00\x00\x00\x05xS\x00\x00\x00\x04Q\x00\x00\x00\x05;", 2},
		{onPostgres, false, "R\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00\x00\x05I", 1},
		{onMySQL, true, "\x02\x00\x00\x01ab\x01\x00\x00\x00\x0e\x02\x00\x00\x00\x03;", 2},
		{onMySQL, false, "\x01\x00\x00\x00x\x01\x00\x00\x02y\x01\x00\x00\x01\x01\x02\x00\x00\x02ab", 1},
		{onEtcd, true, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x01\x00\x01\x00\x00\x00\x01x", 1},
	} {
		whole, pieces := framesOf(c.store, c.client), framesOf(c.store, c.client)
		require.Equal(t, c.messages, whole.feed([]byte(c.bytes)), "%s: %q", c.store, c.bytes)
		messages := 0
		for _, b := range []byte(c.bytes) {
			messages += pieces.feed([]byte{b})
		}
		require.Equal(t, c.messages, messages, "%s: %q", c.store, c.bytes)
	}
}

func TestRatiosAreTakenWithinRounds(t *testing.T) {
	laps := func(rates ...float64) (p peerResult) {
		for _, r := range rates {
			p.Laps = append(p.Laps, lap{Rate: r})
		}
		return p
	}
	require.InDelta(t, 2.0, laps(200, 20, 2000).times(laps(100, 10, 1000)), 1e-9, "a machine that is slow for a while is slow for both")
	require.InDelta(t, 0.0, laps(1).times(laps(0)), 1e-9)
	require.InDelta(t, 0.25, jain([]int64{7, 0, 0, 0}), 1e-9)
	require.InDelta(t, 1.0, jain([]int64{7, 7}), 1e-9)
}

// TestSpreadServesEachSeveralTimes: a window in which some of a crowd cannot have been served says nothing of fairness.
func TestSpreadServesEachSeveralTimes(t *testing.T) {
	p := pace{window: time.Second}
	for _, row := range []struct {
		n    int
		rate float64
		want time.Duration
	}{
		{2, 1000, 500 * time.Millisecond}, {64, 512, time.Second}, {64, 128, 4 * time.Second}, {64, 1, 10 * time.Second}, {64, 0, 10 * time.Second},
	} {
		require.Equal(t, row.want, p.spread(row.n, row.rate), "%d contenders, %v in turn", row.n, row.rate)
	}
}

// TestBusyRatesAreNotShown: stores are measured at different times, and their rates stand in one column.
func TestBusyRatesAreNotShown(t *testing.T) {
	laps := []lap{{Rate: 188}}
	scene := result{Store: onRedis, Body: semaphore, N: crowd, Load: 51, Peers: []peerResult{{Name: ours, Laps: laps}}}
	require.NotContains(t, figures{Scenes: []result{scene}}.bodies(), "188")
	scene.Load = 2
	require.Contains(t, figures{Scenes: []result{scene}}.bodies(), "188")
}

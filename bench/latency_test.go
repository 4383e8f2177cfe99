package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/pause"
	farzk "github.com/farsync/farsync/zk"
)

// What follows measures how long a caller waits for something that tests assert only to happen.

// A server is one that can be stopped, and the stores on it.
type server interface {
	Pause()
	Resume()
}

// A service starts a server and opens stores on it.
type service struct {
	name  string
	start func(b *testing.B) (server, func(ttl time.Duration) *farsync.Store)
	// longest is a TTL that outlasts a server that is stopped.
	longest time.Duration
}

var services = []service{
	{"etcd", func(b *testing.B) (server, func(time.Duration) *farsync.Store) {
		s := embedtest.Etcd(b, embedtest.Bench())
		return s, func(ttl time.Duration) *farsync.Store {
			store, err := etcd.Open(b.Context(), newEtcdClient(b, s.Endpoint()), &etcd.Options{Options: farsync.Options{TTL: ttl}})
			require.NoError(b, err)
			b.Cleanup(func() { store.Close() })
			return store
		}
	}, time.Hour},
	{"zookeeper", func(b *testing.B) (server, func(time.Duration) *farsync.Store) {
		s := embedtest.ZooKeeper(b, embedtest.Bench())
		return s, func(ttl time.Duration) *farsync.Store {
			store, err := farzk.Open(b.Context(), []string{s.Endpoint()}, &farzk.Options{Options: farsync.Options{TTL: ttl}})
			require.NoError(b, err)
			b.Cleanup(func() { store.Close() })
			return store
		}
	}, 40 * time.Second},
}

// report reports the median and the longest of some times, in milliseconds.
func report(b *testing.B, times []time.Duration, unit string) {
	slices.Sort(times)
	milliseconds := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(milliseconds(times[len(times)/2]), "median-ms-"+unit)
	b.ReportMetric(milliseconds(times[len(times)-1]), "longest-ms-"+unit)
}

// BenchmarkResignation is how long an election is without a leader when one resigns.
func BenchmarkResignation(b *testing.B) {
	for _, service := range services {
		b.Run(service.name, func(b *testing.B) {
			_, open := service.start(b)
			path := newPath()
			stores := []*farsync.Store{open(10 * time.Second), open(10 * time.Second)}
			elections := []*farsync.Election{farsync.NewElection(stores[0], path), farsync.NewElection(stores[1], path)}
			lease, err := elections[0].Campaign(b.Context(), "")
			require.NoError(b, err)
			var vacant []time.Duration
			for i := 1; b.Loop(); i++ {
				b.StopTimer()
				next := make(chan *farsync.Lease, 1)
				go func() { // ends when it is elected
					lease, err := elections[i%2].Campaign(b.Context(), "")
					if err != nil {
						b.Error(err)
					}
					next <- lease
				}()
				queued(b, stores[i%2], path, 2)
				b.StartTimer()
				begun := time.Now()
				require.NoError(b, lease.Release())
				lease = <-next
				vacant = append(vacant, time.Since(begun))
				require.NotNil(b, lease)
			}
			require.NoError(b, lease.Release())
			report(b, vacant, "vacant")
		})
	}
}

// BenchmarkCrash is how long an election is without a leader when one can no longer reach its server, with a TTL of 2 s.
func BenchmarkCrash(b *testing.B) {
	const ttl = 2 * time.Second
	etcdServer := embedtest.Etcd(b, embedtest.Bench())
	zkServer := embedtest.ZooKeeper(b, embedtest.Bench())
	for name, open := range map[string]func(b *testing.B) (*farsync.Store, *embedtest.Proxy){
		"etcd": func(b *testing.B) (*farsync.Store, *embedtest.Proxy) {
			proxy := embedtest.NewProxy(b, etcdServer.Endpoint())
			store, err := etcd.Open(b.Context(), newEtcdClient(b, "http://"+proxy.Addr()), &etcd.Options{Options: farsync.Options{TTL: ttl}})
			require.NoError(b, err)
			b.Cleanup(func() { store.Close() })
			return store, proxy
		},
		"zookeeper": func(b *testing.B) (*farsync.Store, *embedtest.Proxy) {
			proxy := embedtest.NewProxy(b, zkServer.Endpoint())
			store, err := farzk.Open(b.Context(), []string{proxy.Addr()}, &farzk.Options{Options: farsync.Options{TTL: ttl}})
			require.NoError(b, err)
			b.Cleanup(func() { store.Close() })
			return store, proxy
		},
	} {
		b.Run(name, func(b *testing.B) {
			var vacant []time.Duration
			for b.Loop() {
				b.StopTimer()
				path := newPath()
				first, proxy := open(b)
				second, _ := open(b)
				lease, err := farsync.NewElection(first, path).Campaign(b.Context(), "")
				require.NoError(b, err)
				next := make(chan *farsync.Lease, 1)
				go func() { // ends when it is elected
					lease, err := farsync.NewElection(second, path).Campaign(b.Context(), "")
					if err != nil {
						b.Error(err)
					}
					next <- lease
				}()
				queued(b, second, path, 2)
				b.StartTimer()
				begun := time.Now()
				proxy.Cut()
				after := <-next
				vacant = append(vacant, time.Since(begun))
				require.NotNil(b, after)
				require.ErrorIs(b, lease.Err(), farsync.ErrLost)
				b.StopTimer()
				proxy.Heal()
				require.NoError(b, after.Release())
				b.StartTimer()
			}
			report(b, vacant, "vacant")
		})
	}
}

// BenchmarkGivingUp is how late a call returns when its context has ended, and no server answers.
func BenchmarkGivingUp(b *testing.B) {
	const patience = 10 * time.Millisecond
	for _, service := range services {
		for name, call := range map[string]func(ctx context.Context, store *farsync.Store, path string) error{
			"Lock": func(ctx context.Context, store *farsync.Store, path string) error {
				_, err := farsync.NewMutex(store, path).Lock(ctx)
				return err
			},
			"TryLock": func(ctx context.Context, store *farsync.Store, path string) error {
				_, err := farsync.NewMutex(store, path).TryLock(ctx)
				return err
			},
			"Participants": func(ctx context.Context, store *farsync.Store, path string) error {
				_, err := store.Participants(ctx, path)
				return err
			},
		} {
			b.Run(service.name+"/"+name, func(b *testing.B) {
				server, open := service.start(b)
				store, path := open(service.longest), newPath()
				lease, err := farsync.NewMutex(store, path).Lock(b.Context())
				require.NoError(b, err)
				require.NoError(b, lease.Release())
				server.Pause()
				var late []time.Duration
				for b.Loop() {
					ctx, cancel := context.WithTimeout(b.Context(), patience)
					begun := time.Now()
					require.ErrorIs(b, call(ctx, store, path), context.DeadlineExceeded)
					late = append(late, time.Since(begun)-patience)
					cancel()
				}
				server.Resume()
				report(b, late, "late")
			})
		}
	}
}

// BenchmarkMemberCutOff is how long after a release a waiter is served whose member of a cluster hears no more of it.
func BenchmarkMemberCutOff(b *testing.B) {
	cluster := embedtest.EtcdCluster(b, 3)
	leader, err := cluster.Leader(b.Context())
	require.NoError(b, err)
	follower := (leader + 1) % 3
	holders := newEtcdStore(b, cluster.Member(leader).Endpoint())
	var served []time.Duration
	for b.Loop() {
		b.StopTimer()
		path := newPath()
		lease, err := farsync.NewMutex(holders, path).Lock(b.Context())
		require.NoError(b, err)
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{cluster.Member(follower).Endpoint()}, Logger: zap.NewNop(),
		})
		require.NoError(b, err)
		b.Cleanup(func() { client.Close() })
		store, err := etcd.Open(b.Context(), client, nil)
		require.NoError(b, err)
		b.Cleanup(func() { store.Close() })
		next := make(chan *farsync.Lease, 1)
		go func() { // ends when it is served
			lease, err := farsync.NewMutex(store, path).Lock(b.Context())
			if err != nil {
				b.Error(err)
			}
			next <- lease
		}()
		queued(b, holders, path, 2)
		client.SetEndpoints(cluster.Endpoints()...) // its watch is with the follower, and now it may go elsewhere
		b.StartTimer()
		cluster.Isolate(follower)
		begun := time.Now()
		require.NoError(b, lease.Release())
		after := <-next
		served = append(served, time.Since(begun))
		b.StopTimer()
		cluster.Heal()
		require.NotNil(b, after)
		require.NoError(b, after.Release())
		b.StartTimer()
	}
	report(b, served, "served")
}

// queued waits until there are n in a queue. It polls, as anything does that looks at it from outside.
func queued(b *testing.B, store *farsync.Store, path string, n int) {
	for {
		list, err := store.Participants(b.Context(), path)
		require.NoError(b, err)
		if len(list) == n {
			return
		}
		require.NoError(b, pause.For(b.Context(), time.Millisecond))
	}
}

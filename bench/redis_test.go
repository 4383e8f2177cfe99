package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/redis"
)

// redisPeers are as their users have them: with their defaults, and a client for each contender.
func redisPeers(endpoint string) []peer {
	client := func(b *testing.B) *goredis.Client {
		c := goredis.NewClient(&goredis.Options{Addr: endpoint})
		b.Cleanup(func() { c.Close() })
		return c
	}
	return []peer{
		{"farsync", ours(func(b *testing.B) *farsync.Store {
			store, err := redis.Open(b.Context(), &goredis.UniversalOptions{Addrs: []string{endpoint}}, &redis.Options{Fresh: true})
			require.NoError(b, err)
			b.Cleanup(func() { store.Close() })
			return store
		})},
		{"rueidislock", rueidisPeer(endpoint, 0)},
		{"rueidislock, one key", rueidisPeer(endpoint, 1)},
		{"redsync", func(b *testing.B, n int) []locker {
			name := newPath()
			list := make([]locker, n)
			for i := range list {
				sync := redsync.New(redsyncredis.NewPool(client(b)))
				list[i] = lockerFunc(func(ctx context.Context) error {
					mu := sync.NewMutex(name, redsync.WithTries(1<<20))
					if err := mu.LockContext(ctx); err != nil {
						return err
					}
					_, err := mu.UnlockContext(ctx)
					return err
				})
			}
			return list
		}},
		{"redislock, 100 ms", func(b *testing.B, n int) []locker {
			name := newPath()
			list := make([]locker, n)
			for i := range list {
				locker := redislock.New(client(b))
				list[i] = lockerFunc(func(ctx context.Context) error {
					ctx, cancel := context.WithTimeout(ctx, time.Hour) // without a deadline it gives up after its TTL
					defer cancel()
					lock, err := locker.Obtain(ctx, name, 10*time.Second, &redislock.Options{
						RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
					})
					if err != nil {
						return err
					}
					return lock.Release(ctx)
				})
			}
			return list
		}},
	}
}

func rueidisPeer(endpoint string, majority int32) func(b *testing.B, n int) []locker {
	return func(b *testing.B, n int) []locker {
		name := newPath()
		list := make([]locker, n)
		for i := range list {
			mu, err := rueidislock.NewLocker(rueidislock.LockerOption{
				ClientOption: rueidis.ClientOption{InitAddress: []string{endpoint}}, KeyMajority: majority,
			})
			require.NoError(b, err)
			b.Cleanup(mu.Close)
			list[i] = lockerFunc(func(ctx context.Context) error {
				_, release, err := mu.WithContext(ctx, name)
				if err != nil {
					return err
				}
				release()
				return nil
			})
		}
		return list
	}
}

// patience is how long a contender waits before it counts as stuck.
const patience = 20 * time.Second

// A figure is what one run of one peer has shown.
type figure struct {
	rate     float64 // acquisitions a second
	commands float64 // at the server, an acquisition, those inside of scripts too
	jain     float64 // of the acquisitions of the contenders
}

// inTurn has all contenders wait, and each of them served once, round after round for d. So every acquisition but the first of
// a round is a hand-over. Where contenders go on at once instead, one of them takes the lock again and again while the others
// sleep.
func inTurn(ctx context.Context, list []locker, d time.Duration) (total, stuck int, took time.Duration) {
	var failed atomic.Int64
	began := time.Now()
	for time.Since(began) < d {
		var all sync.WaitGroup
		for _, l := range list {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				if err := l.once(ctx); err != nil {
					failed.Add(1)
				}
			})
		}
		all.Wait()
		total += len(list)
	}
	return total, int(failed.Load()), time.Since(began)
}

// atWill has all contenders lock as often as they can for d.
func atWill(ctx context.Context, b *testing.B, list []locker, d time.Duration) []int {
	counts := make([]int, len(list))
	end := time.Now().Add(d)
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	var all sync.WaitGroup
	for i, l := range list {
		all.Go(func() {
			for time.Now().Before(end) {
				switch err := l.once(ctx); {
				case err == nil:
					counts[i]++
				case ctx.Err() == nil:
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return counts
}

// commands returns how many commands the server has carried out since its statistics were reset, those inside of scripts too.
func commands(b *testing.B, admin *goredis.Client) (calls float64) {
	info, err := admin.Info(b.Context(), "commandstats").Result()
	require.NoError(b, err)
	for line := range strings.Lines(info) {
		name, fields, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !found || slices.Contains([]string{"info", "config|resetstat", "hello", "ping"}, name) || strings.HasPrefix(name, "client|") {
			continue
		}
		n, _, _ := strings.Cut(fields, ",")
		count, err := strconv.ParseFloat(n, 64)
		require.NoError(b, err)
		calls += count
	}
	return calls
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// BenchmarkRedis prints a table of one lock on Redis, farsync beside its peers. The runs are interleaved; a figure is the
// median of five.
func BenchmarkRedis(b *testing.B) {
	const runs, each = 5, time.Second
	for b.Loop() {
		endpoint := embedtest.Redis(b, "--appendonly", "no").Endpoint()
		admin := goredis.NewClient(&goredis.Options{Addr: endpoint})
		b.Cleanup(func() { admin.Close() })
		peers := redisPeers(endpoint)
		fmt.Printf("\n| contenders | | in turn /s | × rueidislock | commands | Jain, at will |\n|--:|---|--:|--:|--:|--:|\n")
		for _, n := range []int{1, 2, 8, 64} {
			contenders := make([][]locker, len(peers))
			for i, p := range peers {
				contenders[i] = p.make(b, n)
				inTurn(b.Context(), contenders[i], 1) // connects, and loads scripts
			}
			figures := make([][]figure, len(peers))
			for range runs {
				for i := range peers {
					require.NoError(b, admin.ConfigResetStat(b.Context()).Err())
					total, stuck, took := inTurn(b.Context(), contenders[i], each)
					if stuck > 0 {
						fmt.Printf("%s, %d contenders: %d waited for longer than %v\n", peers[i].name, n, stuck, patience)
					}
					calls := commands(b, admin)
					f := figure{rate: float64(total) / took.Seconds(), commands: calls / float64(total), jain: 1}
					if n > 1 {
						f.jain = jain(atWill(b.Context(), b, contenders[i], each/2))
					}
					figures[i] = append(figures[i], f)
				}
			}
			of := func(i int, what func(figure) float64) float64 {
				var list []float64
				for _, f := range figures[i] {
					list = append(list, what(f))
				}
				return median(list)
			}
			rate := func(f figure) float64 { return f.rate }
			base := of(1, rate)
			for i, p := range peers {
				fmt.Printf("| %d | %s | %.0f | %.2f | %.1f | %.2f |\n", n, p.name, of(i, rate), of(i, rate)/base,
					of(i, func(f figure) float64 { return f.commands }), of(i, func(f figure) float64 { return f.jain }))
			}
		}
	}
}

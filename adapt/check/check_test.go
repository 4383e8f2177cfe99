package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/adapt"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/suite"
)

// soon is for what has to happen at all. No test is to get near it.
const soon = time.Minute

func TestMain(m *testing.M) { embedtest.Main(m) }

// newStore returns a Store on a client of its own, closed by t: that of one replica.
func newStore(t *testing.T, server *embedtest.EtcdServer) *farsync.Store {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	store, err := etcd.Open(t.Context(), client, &etcd.Options{Options: farsync.Options{TTL: 30 * time.Second}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// schedule starts a scheduler, shut down by t, with a job that all replicas start at the same time.
func schedule(t *testing.T, at time.Time, job func(), option gocron.SchedulerOption) {
	scheduler, err := gocron.NewScheduler(option)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, scheduler.Shutdown()) })
	_, err = scheduler.NewJob(gocron.DurationJob(time.Second), gocron.NewTask(job), gocron.WithName("pkg/billing.run"),
		gocron.WithStartAt(gocron.WithStartDateTime(at)))
	require.NoError(t, err)
	scheduler.Start()
}

// A tally counts the runs of a job, by the second in which they were due.
type tally struct {
	begin time.Time
	mu    sync.Mutex
	runs  map[int]int
	news  chan struct{}
}

func (c *tally) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[int(time.Since(c.begin)/time.Second)]++
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// await waits for so many runs.
func (c *tally) await(t *testing.T, n int) {
	t.Helper()
	for timeout := time.After(soon); ; {
		select {
		case <-c.news:
			c.mu.Lock()
			have := len(c.runs)
			c.mu.Unlock()
			if have >= n {
				return
			}
		case <-timeout:
			require.FailNow(t, "the job is not run")
		}
	}
}

// TestGocronRunsAShortJobOnce: three replicas whose clocks are a tenth of a second apart start it, every second, and one
// of them runs it.
func TestGocronRunsAShortJobOnce(t *testing.T) {
	suite.Long(t, suite.Etcd, "schedulers that start a job every second")
	server := embedtest.Etcd(t)
	at := time.Now().Add(2 * time.Second)
	c := &tally{begin: at.Add(-500 * time.Millisecond), runs: map[int]int{}, news: make(chan struct{}, 1)}
	for replica := range 3 {
		locker := adapt.NewGocronLocker[gocron.Lock](newStore(t, server), "/cron", 500*time.Millisecond)
		t.Cleanup(locker.Close) // after the scheduler is shut down
		schedule(t, at.Add(time.Duration(replica)*100*time.Millisecond), c.run, gocron.WithDistributedLocker(locker))
	}
	c.await(t, 3)
	c.mu.Lock()
	defer c.mu.Unlock()
	for second, runs := range c.runs {
		require.Equal(t, 1, runs, "in second %d", second)
	}
}

// TestGocronRunsJobsOnTheLeader: only there, and elsewhere once it is gone.
func TestGocronRunsJobsOnTheLeader(t *testing.T) {
	suite.Long(t, suite.Etcd, "schedulers that start a job every second")
	server := embedtest.Etcd(t)
	at := time.Now().Add(2 * time.Second)
	ran := make(chan int64, 100)
	stops := map[int64]func(){}
	for replica := range int64(2) {
		elector := adapt.NewGocronElector(farsync.NewElection(newStore(t, server), "/leader"), fmt.Sprint(replica))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- elector.Run(ctx) }()
		stop := sync.OnceFunc(func() {
			cancel()
			require.NoError(t, <-ended)
		})
		t.Cleanup(stop)
		stops[replica] = stop
		schedule(t, at, func() {
			require.NotNil(t, elector.Lease())
			ran <- replica
		}, gocron.WithDistributedElector(elector))
	}
	first := <-ran
	require.Equal(t, first, <-ran)
	stops[first]()
	for timeout := time.After(soon); ; {
		select {
		case replica := <-ran:
			if replica != first {
				return
			}
		case <-timeout:
			require.FailNow(t, "the other replica runs nothing")
		}
	}
}

// TestCertmagicObtainsOnce: of two instances that use one storage, with farsync's locks, one at a time is at a
// certificate.
func TestCertmagicObtainsOnce(t *testing.T) {
	server := embedtest.Etcd(t)
	files := &certmagic.FileStorage{Path: t.TempDir()}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	var issued atomic.Int64
	var inside [5]atomic.Int64 // by certificate
	var all sync.WaitGroup
	for range 4 {
		storage := Storage{files, adapt.NewCertMagic(newStore(t, server), "/certs")}
		all.Go(func() {
			for i := range inside {
				if err := obtain(ctx, storage, fmt.Sprintf("issue_cert_*.example-%d.com", i), &inside[i], &issued); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, len(inside), issued.Load(), "a certificate was issued twice")
}

// obtain does as certmagic does: whoever comes second finds the work done.
func obtain(ctx context.Context, storage certmagic.Storage, name string, inside, issued *atomic.Int64) (err error) {
	if err := storage.Lock(ctx, name); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, storage.Unlock(ctx, name)) }()
	if inside.Add(1) > 1 {
		return errors.New("two at one certificate")
	}
	defer inside.Add(-1)
	if _, err := storage.Load(ctx, name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	issued.Add(1)
	return storage.Store(ctx, name, []byte("certificate"))
}

// TestCertmagicUsesTheLocks: certmagic itself waits for the lock of this name before it cleans a storage.
func TestCertmagicUsesTheLocks(t *testing.T) {
	server := embedtest.Etcd(t)
	store := newStore(t, server)
	storage := Storage{&certmagic.FileStorage{Path: t.TempDir()}, adapt.NewCertMagic(store, "/certs")}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	got, err := storage.TryLock(ctx, "storage_clean")
	require.NoError(t, err)
	require.True(t, got)
	cleaned := make(chan error, 1)
	go func() {
		cleaned <- certmagic.CleanStorage(ctx, storage, certmagic.CleanStorageOptions{Logger: zap.NewNop()})
	}()
	require.Eventually(t, func() bool {
		list, err := store.Participants(ctx, "/certs/storage_5fclean")
		return err == nil && len(list) == 2
	}, soon, 5*time.Millisecond)
	require.Empty(t, cleaned)
	require.NoError(t, storage.Unlock(ctx, "storage_clean"))
	require.NoError(t, <-cleaned)
}

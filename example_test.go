package farsync_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

// The examples run on a store in memory, so that they need no server. In a program, open that of a service:
// etcd.Open(ctx, client, nil).
func ExampleMutex() {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	mu := farsync.NewMutex(store, "/locks/billing")

	ctx := context.Background()
	lease, err := mu.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held:", lease.Err() == nil)
	fmt.Println("released:", lease.Release())
	fmt.Println("afterwards:", lease.Err())
	// Output:
	// held: true
	// released: <nil>
	// afterwards: released
}

func ExampleMutex_TryLock() {
	service := farsynctest.NewMem()
	here, there := service.Open(nil), service.Open(nil)
	defer here.Close()
	defer there.Close()

	ctx := context.Background()
	lease, err := farsync.NewMutex(here, "/locks/report").TryLock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()

	_, err = farsync.NewMutex(there, "/locks/report").TryLock(ctx)
	fmt.Println(err)
	fmt.Println("another client is at it:", errors.Is(err, farsync.ErrLocked))
	// Output:
	// farsync: try lock /locks/report: locked: held by "mem-1"
	// another client is at it: true
}

// Lock waits for as long as its context allows.
func ExampleMutex_Lock_timeout() {
	service := farsynctest.NewMem()
	here, there := service.Open(nil), service.Open(nil)
	defer here.Close()
	defer there.Close()

	lease, err := farsync.NewMutex(here, "/locks/report").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err = farsync.NewMutex(there, "/locks/report").Lock(ctx)
	fmt.Println("gave up:", errors.Is(err, context.DeadlineExceeded))
	// Output:
	// gave up: true
}

func ExampleMutex_Do() {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	mu := farsync.NewMutex(store, "/locks/counter")

	counter := 0
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			err := mu.Do(context.Background(), func(ctx context.Context, lease *farsync.Lease) error {
				counter++ // no other caller is here, in this process or in another
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	all.Wait()
	fmt.Println(counter)
	// Output:
	// 10
}

// The wait for the lock is bounded apart from the work under it.
func ExampleLease_Do() {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	rw := farsync.NewRWMutex(store, "/locks/catalog")

	update := func(ctx context.Context) error {
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		lease, err := rw.Lock(short)
		if err != nil {
			return err // also if others have it for longer than a minute
		}
		return lease.Do(ctx, func(ctx context.Context, lease *farsync.Lease) error {
			fmt.Println("the catalog is written")
			if err := rw.Downgrade(ctx, lease); err != nil { // the lease is there for what takes one
				return err
			}
			fmt.Println("and read back, before another can write")
			return nil
		})
	}
	fmt.Println(update(context.Background()))
	// Output:
	// the catalog is written
	// and read back, before another can write
	// <nil>
}

// All replicas run the same lines on the same schedule. One of them runs the job.
func ExampleMutex_TryDo() {
	service := farsynctest.NewMem()
	ctx, shutDown := context.WithCancel(context.Background())
	var replicas sync.WaitGroup
	for _, name := range []string{"first replica", "second replica"} {
		started := make(chan struct{})
		replicas.Go(func() {
			store := service.Open(nil)
			defer store.Close()
			ran, err := farsync.NewMutex(store, "/cron/billing").TryDo(ctx, time.Minute, func(context.Context, *farsync.Lease) error {
				fmt.Println(name, "runs the job")
				close(started)
				return nil
			})
			switch {
			case err != nil:
				fmt.Println(err)
			case !ran:
				fmt.Println(name, "leaves it to another")
				close(started)
			}
		})
		<-started
	}
	shutDown() // the mutex would be held for the rest of the minute
	replicas.Wait()
	// Output:
	// first replica runs the job
	// second replica leaves it to another
}

// An error says what was asked for, on which path, and why it failed.
func ExampleError() {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()

	_, err := farsync.NewMutex(store, "no/slash").TryLock(context.Background())
	if e, ok := errors.AsType[*farsync.Error](err); ok {
		fmt.Println(e.Op)
		fmt.Println(e.Path)
	}
	fmt.Println(errors.Is(err, farsync.ErrPath))
	// Output:
	// try lock
	// no/slash
	// true
}

// Each error is a decision of the caller: another has the lock, the service does not answer, or the program is wrong.
func ExampleError_holder() {
	service := farsynctest.NewMem()
	here := service.Open(&farsynctest.MemOptions{Options: farsync.Options{Holder: "web-3"}})
	defer here.Close()
	there := service.Open(&farsynctest.MemOptions{Options: farsync.Options{Holder: "web-4"}})
	defer there.Close()

	status := func(err error) (code int, text string) {
		switch e, _ := errors.AsType[*farsync.Error](err); {
		case err == nil:
			return http.StatusOK, "done"
		case errors.Is(err, farsync.ErrLocked):
			return http.StatusConflict, "locked by " + cmp.Or(e.Holder, "another client")
		case errors.Is(err, farsync.ErrUnavailable):
			return http.StatusServiceUnavailable, "try again"
		case errors.Is(err, farsync.ErrPath):
			return http.StatusNotFound, "no such document"
		default: // ErrDeadlock and ErrKind among them
			return http.StatusInternalServerError, err.Error()
		}
	}
	lease, err := farsync.NewMutex(here, "/documents/17").TryLock(context.Background())
	fmt.Println(status(err))
	defer lease.Release()
	_, err = farsync.NewMutex(there, "/documents/17").TryLock(context.Background())
	fmt.Println(status(err))
	_, err = farsync.NewMutex(there, "/documents/../17").TryLock(context.Background())
	fmt.Println(status(err))
	// Output:
	// 200 done
	// 409 locked by web-3
	// 404 no such document
}

// A lease that is lost ends the contexts made from it, and says why.
func ExampleLease_Context() {
	service := farsynctest.NewMem()
	store := service.Open(&farsynctest.MemOptions{Options: farsync.Options{TTL: time.Second}})
	defer store.Close()

	lease, err := farsync.NewMutex(store, "/locks/billing").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := lease.Context(context.Background())
	defer cancel()

	service.Partition(store, true) // the network fails
	<-ctx.Done()                   // within the TTL
	fmt.Println("lost:", errors.Is(context.Cause(ctx), farsync.ErrLost))
	fmt.Println("release says so too:", errors.Is(lease.Release(), farsync.ErrLost))
	service.Partition(store, false)
	// Output:
	// lost: true
	// release says so too: true
}

// A table that remembers the highest token it has seen, as a database can in a column of its own.
type table struct {
	mu   sync.Mutex
	mark farsync.Token
	row  string
}

func (t *table) write(row string, token farsync.Token) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if token < t.mark {
		return errors.New("stale token: refused")
	}
	t.mark, t.row = token, row
	return nil
}

// A resource that checks tokens is safe even from a holder that slept through the loss of its lease.
func ExampleToken() {
	service := farsynctest.NewMem()
	sleeper, other := service.Open(nil), service.Open(nil)
	defer sleeper.Close()
	defer other.Close()
	ctx := context.Background()
	var balance table

	first, err := farsync.NewMutex(sleeper, "/locks/balance").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	// The process of the first holder is suspended here, for longer than its session lasts. Another gets the lock.
	service.Expire(sleeper)
	second, err := farsync.NewMutex(other, "/locks/balance").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer second.Release()
	fmt.Println("second writes:", balance.write("second", second.Token()))

	// Now the first wakes up, and does what it was about to do.
	fmt.Println("first writes:", balance.write("first", first.Token()))
	fmt.Println(balance.row)
	// Output:
	// second writes: <nil>
	// first writes: stale token: refused
	// second
}

// Code below a Locker that sends a token with each write, or stops when the lease is lost, takes the lease from it.
func ExampleLocker_Lease() {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	l := farsync.NewMutex(store, "/locks/queue").Locker(context.Background(), func(err error) { fmt.Println("trouble:", err) })

	l.Lock()
	ctx, cancel := l.Lease().Context(context.Background())
	fmt.Println(ctx.Err(), l.Lease().Token() > 0)
	cancel()
	l.Unlock()
	fmt.Println(l.Lease() == nil)
	// Output:
	// <nil> true
	// true
}

// A Locker goes wherever a sync.Locker does: here, into a condition variable.
func ExampleMutex_Locker() {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	mu := farsync.NewMutex(store, "/locks/queue")

	ctx, cancel := context.WithCancel(context.Background()) // for as long as the Locker is used
	defer cancel()
	l := mu.Locker(ctx, func(err error) { fmt.Println("trouble:", err) })

	ready := false
	cond := sync.NewCond(l)
	go func() {
		l.Lock()
		defer l.Unlock()
		ready = true
		cond.Signal()
	}()
	l.Lock()
	for !ready {
		cond.Wait()
	}
	l.Unlock()
	fmt.Println("ready:", ready)
	// Output:
	// ready: true
}

// The names of files have bytes that a path must not have.
func ExamplePathOf() {
	for _, name := range []string{"report-7.pdf", "2026/07/übersicht.pdf", ".."} {
		fmt.Println(farsync.PathOf("/files", name))
	}
	// Output:
	// /files/report-7.pdf
	// /files/2026_2f07_2f_c3_bcbersicht.pdf
	// /files/_..
}

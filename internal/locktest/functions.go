package locktest

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
)

// A Function is a function that a program can put into the settings of a Store's client, for RunFunction.
type Function struct {
	// Service returns a driver with the function, which calls do first.
	Service func(t *testing.T, do func()) driver.Service
	// Other is another Store in the process, on the same service.
	Other *farsync.Store
	// Path is of the test's own.
	Path string
}

// crowd is how many calls are made at a time, for the function to be called: more than there are connections.
const crowd = 24

// RunFunction makes sure that a function of the program that blocks, panics, ends its goroutine or calls the Store
// keeps nobody. A session that has a connection is renewed by it, also after a Reset that finds this connection alive.
// Calls end with their ctx, session, driver and Store are closed, and other Stores go on.
func RunFunction(t *testing.T, f Function) {
	goes := make(chan struct{})
	t.Cleanup(func() { close(goes) })
	for does, what := range map[string]func(){
		"blocks":             func() { <-goes },
		"panics":             func() { panic("a bug") },
		"ends its goroutine": runtime.Goexit,
	} {
		t.Run(does, func(t *testing.T) {
			t.Parallel()
			f.keepsNoSession(t, what)
			f.keepsNoStore(t, func(*farsync.Store) { what() })
		})
	}
	t.Run("calls the Store", func(t *testing.T) {
		t.Parallel()
		f.keepsNoStore(t, func(store *farsync.Store) {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			if lease, err := farsync.NewMutex(store, f.Path+"/back").TryLock(ctx); err == nil {
				_ = lease.Release()
			}
			_ = store.Close()
		})
	})
}

// An arm has a function do what it is to do once it is armed, again and again or the first time alone.
type arm struct{ armed, was, within atomic.Bool }

func (a *arm) call(what func(), again bool) {
	if !a.armed.Load() || !again && a.within.Swap(true) {
		return
	}
	a.was.Store(true)
	what()
}

func (f Function) keepsNoSession(t *testing.T, what func()) {
	var a arm
	service := f.Service(t, func() { a.call(what, true) })
	in, err := service.Open(Within(t, Soon), time.Hour)
	require.NoError(t, err)
	renew := func(why string) {
		err := Returns(t, Soon, why, func() (err error) {
			// An attempt that is cut off closes its connection, and no other can be made while the function blocks.
			for ctx := Within(t, Soon); ctx.Err() == nil; {
				if err = in.Renew(ctx, nil); err == nil {
					break
				}
			}
			return err
		})
		require.NoError(t, err, why)
	}
	renew("Renew")
	a.armed.Store(true)
	a.reached(t, func(ctx context.Context) { _, _ = in.List(ctx, f.Path, 1) }, func() { renew("Renew beside it") })
	renew("Renew after it")
	in.Reset()
	renew("Renew after Reset")
	_ = Returns(t, Soon, "Close of the session", func() error { return in.Close(Within(t, time.Second)) })
	require.NoError(t, Returns(t, Soon, "Close of the driver", service.Close))
}

// reached makes calls, more at a time than there are connections, until the function was called, and calls meanwhile
// beside the calls that wait for it. When their ctx ends all of them have to return.
func (a *arm) reached(t *testing.T, call func(ctx context.Context), meanwhile func()) {
	ctx, cancel := context.WithCancel(Within(t, Soon))
	defer cancel()
	var all sync.WaitGroup
	for range crowd {
		all.Go(func() {
			for !a.was.Load() && ctx.Err() == nil {
				call(ctx)
			}
		})
	}
	require.Eventually(t, a.was.Load, Soon, time.Millisecond, "it is not called")
	meanwhile()
	cancel()
	_ = Returns(t, Soon, "all calls", func() error { all.Wait(); return nil })
}

func (f Function) keepsNoStore(t *testing.T, what func(*farsync.Store)) {
	var a arm
	var of atomic.Pointer[farsync.Store]
	service := f.Service(t, func() { a.call(func() { what(of.Load()) }, false) })
	store, err := farsync.Open(Within(t, Soon), service, &farsync.Options{TTL: time.Minute})
	require.NoError(t, err)
	of.Store(store)
	held := Lock(t, store, f.Path+"/held")
	a.armed.Store(true)
	a.reached(t, func(ctx context.Context) { _, _ = store.Participants(ctx, f.Path+"/held") }, func() {})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.Error(t, Returns(t, Soon, "Lock", func() error {
		_, err := farsync.NewMutex(store, f.Path+"/held").Lock(ctx)
		return err
	}))
	if err := held.Err(); err != nil && !errors.Is(err, farsync.ErrClosed) {
		t.Errorf("the lease was lost: %v", err)
	}
	require.NoError(t, Lock(t, f.Other, f.Path+"/other/"+time.Now().Format("150405.000000000")).Release())
	_ = Returns(t, Soon, "Close", store.Close)
}

//nolint:forbidigo // time is that of a bubble
package farsync_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
)

var (
	errFull  = errors.New("the table is full")
	errRan   = errors.New("it has run")
	errTaken = errors.New("not run, as if another ran it")
)

// lockCalls are the calls that lock one path of one Store, or of three as a quorum. Each releases what it gets.
var lockCalls = map[string]func(ctx context.Context, stores []*farsync.Store) error{
	"Mutex.Lock": func(ctx context.Context, s []*farsync.Store) error {
		return released(farsync.NewMutex(s[0], "/m").Lock(ctx))
	},
	"Mutex.TryLock": func(ctx context.Context, s []*farsync.Store) error {
		return released(farsync.NewMutex(s[0], "/m").TryLock(ctx))
	},
	"Mutex.TryDo": func(ctx context.Context, s []*farsync.Store) error {
		ran, err := farsync.NewMutex(s[0], "/m").TryDo(ctx, 0, func(context.Context, *farsync.Lease) error { return errRan })
		if !ran && err == nil {
			return errTaken
		}
		if errors.Is(err, errRan) {
			return nil
		}
		return err
	},
	"ReentrantMutex.Lock": func(ctx context.Context, s []*farsync.Store) error {
		return released(farsync.NewReentrantMutex(s[0], "/m").Lock(ctx))
	},
	"ReentrantMutex.TryLock": func(ctx context.Context, s []*farsync.Store) error {
		return released(farsync.NewReentrantMutex(s[0], "/m").TryLock(ctx))
	},
	"MultiMutex.Lock": func(ctx context.Context, s []*farsync.Store) error {
		return released(farsync.NewMultiMutex(farsync.NewMutex(s[0], "/free"), farsync.NewMutex(s[0], "/m")).Lock(ctx))
	},
	"MultiMutex.TryLock": func(ctx context.Context, s []*farsync.Store) error {
		return released(farsync.NewMultiMutex(farsync.NewMutex(s[0], "/free"), farsync.NewMutex(s[0], "/m")).TryLock(ctx))
	},
	"QuorumMutex.Lock": func(ctx context.Context, s []*farsync.Store) error {
		return released(quorumOf(s, "/m").Lock(ctx))
	},
	"QuorumMutex.TryLock": func(ctx context.Context, s []*farsync.Store) error {
		return released(quorumOf(s, "/m").TryLock(ctx))
	},
}

func quorumOf(stores []*farsync.Store, path string) *farsync.QuorumMutex {
	var members []*farsync.Mutex
	for _, s := range stores {
		members = append(members, farsync.NewMutex(s, path))
	}
	return farsync.NewQuorumMutex(members...)
}

// released gives back a lease. That the service does not confirm it is the fault of a later call.
func released[L interface {
	comparable
	Release() error
}](lease L, err error) error {
	if err == nil {
		_ = lease.Release()
	}
	return err
}

// No call of a service that refuses, or is silent, is told that a lock is taken: nobody holds. What is refused is to make an entry, or to remove
// the entry of the lease that this process has had before.
func TestTroubleIsNotToldAsALock(t *testing.T) {
	for _, state := range []struct {
		name    string
		op      farsynctest.OpKind
		fault   farsynctest.Fault
		refused bool
		cause   string
	}{
		{"no entry is made", farsynctest.Create, farsynctest.Fail(driver.Refused, errFull), true, errFull.Error()},
		{"making an entry is put off", farsynctest.Create, farsynctest.Fail(driver.NotDone, errFull), false, ""},
		{"making an entry is not answered", farsynctest.Create, farsynctest.Silence(false), false, ""},
		{"no entry is removed", farsynctest.Delete, farsynctest.Fail(driver.Refused, errFull), true, errFull.Error()},
		{"removing an entry is put off", farsynctest.Delete, farsynctest.Fail(driver.NotDone, errFull), false, ""},
		{"removing an entry is not answered", farsynctest.Delete, farsynctest.Silence(false), false, ""},
	} {
		for name, call := range lockCalls {
			t.Run(state.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var services []*farsynctest.Mem
					var stores []*farsync.Store
					for i := range 3 {
						m := farsynctest.NewMem()
						store, err := farsync.Open(t.Context(), m.Service("a"), &farsync.Options{
							Name: fmt.Sprint("member-", i), Holder: "the-holder", TTL: quorumTTL,
						})
						require.NoError(t, err)
						services, stores = append(services, m), append(stores, store)
						defer func() { require.NoError(t, store.Close()) }()
					}
					trouble := func(begins bool) {
						for _, m := range services {
							m.SetFault(func(op farsynctest.Op) farsynctest.Fault {
								if begins && op.Kind == state.op {
									return state.fault
								}
								return farsynctest.None
							})
						}
					}
					before, err := quorumOf(stores, "/m").Lock(t.Context())
					require.NoError(t, err)
					time.Sleep(quorumTTL) // it holds all of its members
					trouble(true)
					err = before.Release()
					require.Equal(t, state.op == farsynctest.Delete, err != nil, err)

					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					err = call(ctx, stores)
					t.Log(err)
					require.Error(t, err)
					require.NotErrorIs(t, err, farsync.ErrLocked)
					require.NotErrorIs(t, err, errTaken)
					require.Equal(t, !state.refused, errors.Is(err, farsync.ErrUnavailable), err)
					require.ErrorContains(t, err, state.cause)
					for _, lie := range []string{"behind", "held", "locked", "the-holder"} {
						require.NotContains(t, err.Error(), lie)
					}
					told, ok := errors.AsType[*farsync.Error](err)
					require.True(t, ok)
					require.Empty(t, told.Holder)

					trouble(false)
					time.Sleep(2 * quorumTTL)
					require.NoError(t, call(t.Context(), stores))
				})
			})
		}
	}
}

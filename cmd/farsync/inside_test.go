//go:build unix

package main

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/farsynctest"
)

// TestAQueueThatMayNotBeReadIsAnotherStores: the path of a lock around may be one that the user of another store has no
// right to. It is none of that store's locks, and the farsync inside goes on.
func TestAQueueThatMayNotBeReadIsAnotherStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := farsynctest.NewMem()
		store := service.Open(nil)
		defer store.Close()
		outer, err := farsync.NewMutex(store, "/x").Lock(t.Context())
		require.NoError(t, err)
		inside := func() (*work, error) {
			w := &work{location: &location.Location{}, request: request{paths: []string{"/x"}, kind: farsync.KindExclusive, units: 1}}
			_, err := w.inside(t.Context(), store)
			return w, err
		}
		t.Setenv(underVariable, (&work{request: request{paths: []string{"/x"}}}).environs(&held{leases: []*farsync.Lease{outer}}))
		_, err = inside()
		require.ErrorIs(t, err, farsync.ErrDeadlock)
		require.Equal(t, codeData, codeOf(err))
		service.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.List {
				return farsynctest.Refuse(errors.New("permission denied"))
			}
			return farsynctest.None
		})
		w, err := inside()
		require.NoError(t, err)
		require.Len(t, w.around, 1, "who is further inside may read it")
		service.SetFault(nil)
		require.NoError(t, outer.Release())
		_, err = inside()
		require.NoError(t, err, "it is over")
	})
}

// FuzzOuters: whatever stands in the environment is either a list of locks, or no word of farsync's.
func FuzzOuters(f *testing.F) {
	f.Add("/x 256 m-1")
	f.Add("/x 256 m-1 /team/y 9223372036854775807 /locks/y/_c_4f-mutex-0000000000")
	f.Add("nonsense")
	f.Add("/x 256")
	f.Fuzz(func(t *testing.T, text string) {
		list := outers(text)
		again := (&work{around: list}).environs(&held{})
		require.Equal(t, list, outers(again))
	})
}

//nolint:forbidigo // time is that of a bubble
package farsync_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

// TestAskedAfterARefusal: a service that refuses a holder for a moment to say whether there are words for him, for want of a right, say, is asked
// again: he is told of who asks later.
func TestAskedAfterARefusal(t *testing.T) {
	for _, kind := range []farsynctest.OpKind{farsynctest.Heard, farsynctest.Watch} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := farsynctest.NewMem()
				holder, other := mem.Open(nil), mem.Open(nil)
				defer func() {
					require.NoError(t, holder.Close())
					require.NoError(t, other.Close())
				}()
				lease, err := farsync.NewMutex(holder, "/asked").Lock(t.Context())
				require.NoError(t, err)
				until := time.Now().Add(time.Second)
				mem.SetFault(func(op farsynctest.Op) farsynctest.Fault {
					if op.Kind == kind && time.Now().Before(until) {
						return farsynctest.Refuse(errors.New("permission denied"))
					}
					return farsynctest.None
				})
				asked := lease.Asked()
				time.Sleep(time.Minute)
				require.NoError(t, other.Ask(t.Context(), "/asked"))
				select {
				case <-asked:
				case <-time.After(time.Hour):
					require.Fail(t, "he is not told")
				}
				require.NoError(t, lease.Release())
			})
		})
	}
}

package farsync_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/storetest"
)

// The service refuses to watch an entry that no session ends. An observer then looks now and then.
func TestObserveBehindAStray(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := storetest.NewMem()
		s := m.Open(nil)
		stray := m.AddStray("/e", "stray")
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		m.ResetCount()
		m.SetFault(func(storetest.Op) storetest.Fault {
			if m.Count() > 10000 {
				panic("it spins")
			}
			return storetest.None
		})
		n := 0
		for leader, err := range farsync.NewElection(s, "/e").Observe(ctx) {
			t.Log(leader, err)
			n++
		}
		require.Less(t, m.Count(), 200)
		require.Less(t, n, 3)
		m.Delete(stray)
		require.NoError(t, s.Close())
	})
}

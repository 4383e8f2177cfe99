package locktest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
	_ "github.com/farsync/farsync/internal/suite/bubbles"
	"github.com/farsync/farsync/recipe"
)

// TestMemFrozen is where the time counts: a call is back at the very moment when its ctx ends.
func TestMemFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := farsynctest.NewMem()
		var clients []*farsync.Store
		partition := func(cut bool) {
			for _, c := range clients {
				service.Partition(c, cut)
			}
		}
		RunFrozen(t, Frozen{
			Open: func(_ *testing.T, ttl time.Duration) *farsync.Store {
				c := service.Open(&farsynctest.MemOptions{Options: farsync.Options{TTL: ttl}})
				clients = append(clients, c)
				return c
			},
			Long:   2 * time.Minute,
			Short:  3 * time.Second,
			Freeze: func() { partition(true) },
			Resume: func() { partition(false) },
		})
	})
}

// instant are the exported methods that ask no service.
var instant = []string{
	"Lease.Token", "Lease.ID", "Lease.Deadline", "Lease.Done", "Lease.Err", "Lease.Context", "Lease.Asked", "Lease.Entries", "Lease.GuardEntries",
	"Lease.ReleaseAfter",
	"MultiLease.Tokens", "MultiLease.Deadline", "MultiLease.Done", "MultiLease.Err", "MultiLease.Context",
	"MultiLease.Asked", "MultiLease.Entries", "MultiLease.GuardEntries", "Store.State", "Store.Name",
}

func TestFrozenRowsCoverEveryCall(t *testing.T) {
	rows := slices.Concat(frozenRows, frozenMultiRows, frozenStoreRows)
	for _, of := range []reflect.Type{
		reflect.TypeFor[*farsync.Mutex](),
		reflect.TypeFor[*farsync.ReentrantMutex](),
		reflect.TypeFor[*farsync.RWMutex](),
		reflect.TypeFor[*farsync.Semaphore](),
		reflect.TypeFor[*farsync.Pool](),
		reflect.TypeFor[*farsync.Election](),
		reflect.TypeFor[*farsync.Lease](),
		reflect.TypeFor[*farsync.MultiMutex](),
		reflect.TypeFor[*farsync.QuorumMutex](),
		reflect.TypeFor[*farsync.MultiLease](),
		reflect.TypeFor[*farsync.Store](),
		reflect.TypeFor[recipe.Queue](),
	} {
		name := of.Name()
		if of.Kind() == reflect.Pointer {
			name = of.Elem().Name()
		}
		for method := range of.Methods() {
			call := fmt.Sprintf("%s.%s", name, method.Name)
			has := slices.ContainsFunc(rows, func(r frozenRow) bool {
				method, _, _ := strings.Cut(r.name, ",")
				return method == call
			})
			require.NotEqual(t, slices.Contains(instant, call), has, "%s: has a row, or is said to be instant", call)
		}
	}
}

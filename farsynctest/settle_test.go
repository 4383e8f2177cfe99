//nolint:forbidigo // time is that of a bubble
package farsynctest_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

// The next two are the code of docs/TESTING.md.

func Settle(ctx context.Context, store *farsync.Store, settled func(account int)) error {
	return farsync.NewMutex(store, "/locks/settling").Do(ctx, func(ctx context.Context, _ *farsync.Lease) error {
		for account := 1; ; account++ {
			select {
			case <-time.After(time.Minute):
				settled(account)
			case <-ctx.Done():
				return context.Cause(ctx) // after a loss: why
			}
		}
	})
}

func TestSettleStopsWhenItsLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := farsynctest.NewMem()
		store := service.Open(nil)
		defer store.Close() // in the bubble

		accounts, ended := 0, make(chan error)
		go func() { ended <- Settle(t.Context(), store, func(int) { accounts++ }) }()

		time.Sleep(3*time.Hour + time.Second)
		service.Lose(store)
		err := <-ended
		if !errors.Is(err, farsync.ErrLost) {
			t.Errorf("it ends with %v", err)
		}
		if accounts != 180 {
			t.Errorf("%d accounts", accounts)
		}
	})
}

func TestPageHasTheTestThatRuns(t *testing.T) {
	page, err := os.ReadFile("../docs/TESTING.md")
	require.NoError(t, err)
	source, err := os.ReadFile("settle_test.go")
	require.NoError(t, err)
	blocks := strings.Split(string(page), "```go\n")
	require.Len(t, blocks, 3)
	for _, block := range blocks[1:] {
		code, _, _ := strings.Cut(block, "```")
		require.Contains(t, string(source), code)
	}
}

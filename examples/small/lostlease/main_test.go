package main

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

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

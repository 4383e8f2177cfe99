package turnstile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/suite"
	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

func newGates(t *testing.T, n int) (gates []*Gate) {
	if !supported {
		suite.NotHere(t, "a system whose files have locks of open descriptions")
	}
	file := filepath.Join(t.TempDir(), "gate")
	for range n {
		g := New(file)
		t.Cleanup(func() { require.NoError(t, g.Close()) })
		gates = append(gates, g)
	}
	return gates
}

// join draws a ticket that has a number.
func join(t *testing.T, g *Gate) *Ticket {
	ticket, err := g.Join(t.Context())
	require.NoError(t, err)
	require.Positive(t, ticket.number)
	return ticket
}

// TestTurnsAreInOrder draws tickets of several processes, and has all wait at once.
func TestTurnsAreInOrder(t *testing.T) {
	gates := newGates(t, 5)
	for range 20 {
		var mu sync.Mutex
		var order []int
		var run sync.WaitGroup
		for i, g := range gates {
			ticket := join(t, g)
			run.Go(func() {
				ticket.Wait(t.Context())
				for ticket.first != 0 { // the machine is slow, and this one has lost patience
					ticket.Wait(t.Context())
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				ticket.Leave(true)
			})
		}
		run.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4}, order)
	}
}

// TestGoroutinesAreInOrder: those of one process share a gate, and never the ticket.
func TestGoroutinesAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(filepath.Join(t.TempDir(), "none", "gate")) // they take turns without a file, too
		first, err := g.Join(t.Context())
		require.NoError(t, err)
		var order []int
		for i := range 5 {
			go func() {
				ticket, err := g.Join(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				ticket.Leave(true)
			}()
			synctest.Wait()
		}
		first.Leave(true)
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4}, order)
		require.NoError(t, g.Close())
	})
}

// TestJoinIsBounded by its context, and by Close.
func TestJoinIsBounded(t *testing.T) {
	g := newGates(t, 1)[0]
	ticket := join(t, g)
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	_, err := g.Join(ctx)
	require.ErrorIs(t, err, gone)
	ticket.Leave(true)

	other := New(g.path)
	ticket = join(t, other)
	closed := make(chan error)
	go func() { closed <- other.Close() }()
	ticket.Leave(true)
	require.NoError(t, <-closed)
	_, err = other.Join(t.Context())
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, New(g.path).Close(), "one that was not used")
}

func TestNumbersGoOn(t *testing.T) {
	gates := newGates(t, 2)
	last := int64(0)
	for i := range 10 {
		ticket := join(t, gates[i%2])
		require.Greater(t, ticket.number, last)
		last = ticket.number
		ticket.Leave(true)
		require.Equal(t, last, gates[0].left())
	}
}

// TestStuckIsOvertaken, once for each process: then it is known, until it is gone.
func TestStuckIsOvertaken(t *testing.T) {
	gates := newGates(t, 4)
	stuck := []*Ticket{join(t, gates[0]), join(t, gates[1])}
	for _, first := range stuck {
		next := join(t, gates[2])
		began := time.Now()
		require.True(t, next.Wait(t.Context()))
		require.Equal(t, first.number, next.first)
		require.GreaterOrEqual(t, time.Since(began), patience)
		next.Leave(false)
		next = join(t, gates[2])
		require.True(t, next.Wait(t.Context()))
		require.Equal(t, first.number, next.first, "the last had no turn, so what is ahead may have had it")
		next.Leave(true)
	}
	next := join(t, gates[2])
	require.True(t, next.Wait(t.Context()))
	require.Zero(t, next.first, "nothing is waited for")
	stuck[1].Leave(false)
	stuck[0].Leave(true)
	behind := join(t, gates[3])
	require.True(t, behind.Wait(t.Context()))
	require.Equal(t, next.number, behind.first)
	next.Leave(true)
	require.True(t, behind.Wait(t.Context()))
	require.Zero(t, behind.first)
	behind.Leave(true)
	last := join(t, gates[2])
	require.True(t, last.Wait(t.Context()))
	require.Empty(t, gates[2].stuck)
	last.Leave(true)
}

// TestWaitIsBounded by its context. One try is made all the same: what is tried says best why it was not done.
func TestWaitIsBounded(t *testing.T) {
	gates := newGates(t, 2)
	ahead, ticket := join(t, gates[0]), join(t, gates[1])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.True(t, ticket.Wait(ctx))
	require.False(t, ticket.Wait(ctx))
	ahead.Leave(false)
	require.False(t, ticket.Wait(ctx))
	require.True(t, ticket.Wait(t.Context()))
	ticket.Leave(true)
	for range naps + 2 {
		require.True(t, new(Ticket).Wait(t.Context()))
	}
}

func TestClosedFileHasNoTickets(t *testing.T) {
	gates := newGates(t, 1)
	dead := New(gates[0].path)
	join(t, dead)
	require.NoError(t, dead.file.Close(), "as the system does it for a process that has died")
	ticket := join(t, gates[0])
	require.True(t, ticket.Wait(t.Context()))
	require.Zero(t, ticket.first)
	ticket.Leave(true)
}

// TestNoTicket: without one, a process tries its luck.
func TestNoTicket(t *testing.T) {
	g := newGates(t, 1)[0]
	join(t, g).Leave(true)
	require.NoError(t, os.WriteFile(g.path, slices.Repeat([]byte{0xff}, 16), 0o600), "another program's")
	join(t, g).Leave(true)

	stopped := New(g.path)
	join(t, stopped).Leave(true)
	require.True(t, lock(stopped.file, counterAt), "as it drew")
	ticket, err := g.Join(t.Context())
	require.NoError(t, err)
	require.Zero(t, ticket.number)
	require.True(t, ticket.Wait(t.Context()))
	require.True(t, ticket.Wait(t.Context()))
	ticket.Leave(true)
	require.NoError(t, stopped.Close())
	join(t, g).Leave(true)
}

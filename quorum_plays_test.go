//nolint:forbidigo // in a bubble
package farsync_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/suite"
)

// An assembly is services that fail independently, and clients of a QuorumMutex on them. Whatever happens to the
// services, all keep their promise: a service that forgets grants nothing for a TTL.
type assembly struct {
	*stage
	members []*farsynctest.Mem
	leases  []*farsync.MultiLease // those that may be held. Guarded by the stage's mu.
	highest []farsync.Token       // of each member. Guarded by the stage's mu.
}

// sitting is one client of an assembly.
type sitting struct {
	*actor
	of     *assembly
	stores []*farsync.Store
	quorum *farsync.QuorumMutex
}

// hold notes that a lease is held, and looks for another, and for tokens that have not risen.
func (s *assembly) hold(lease *farsync.MultiLease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served++
	s.leases = append(slices.DeleteFunc(s.leases, func(o *farsync.MultiLease) bool { return o.Err() != nil }), lease)
	if lease.Err() != nil || s.wrong != "" {
		return
	}
	if len(s.leases) > 1 {
		s.wrong = fmt.Sprintf("%d hold", len(s.leases))
	}
	won := 0
	for i, token := range lease.Tokens() {
		if token == 0 {
			continue
		}
		won++
		if token <= s.highest[i] {
			s.wrong = fmt.Sprintf("member %d: token %d after %d", i, token, s.highest[i])
		}
		s.highest[i] = token
	}
	if 2*won <= len(s.members) {
		s.wrong = fmt.Sprintf("held by %d of %d members", won, len(s.members))
	}
}

func (a *sitting) play(end time.Time) {
	for time.Now().Before(end) {
		lock, allowed := a.quorum.Lock, []error{}
		if a.chance(0.3) {
			lock, allowed = a.quorum.TryLock, []error{farsync.ErrLocked, farsync.ErrUnavailable} // as members grant nothing
		}
		lease, ok := demand(a.actor, "lock", lock, allowed...)
		if ok {
			a.of.hold(lease)
			time.Sleep(a.moment())
			if a.chance(0.2) {
				time.Sleep(a.ttl) // long enough for the other members to be taken
			}
			if lease.Err() == nil && !time.Now().Before(lease.Deadline()) {
				a.complain("held after its deadline")
			}
			a.finish(lease)
		}
		if a.chance(0.5) {
			time.Sleep(a.moment())
		}
	}
}

// finish ends a lease.
func (a *sitting) finish(lease *farsync.MultiLease) {
	was := lease.Err()
	began := time.Now()
	err := lease.Release()
	switch took := time.Since(began); {
	case took > a.ttl/3+2*a.latency:
		a.complain("release took %v", took)
	case was != nil && !errors.Is(err, farsync.ErrLost):
		a.complain("release is %v, but %v was the end", err, was)
	case err == nil, errors.Is(err, farsync.ErrUnavailable), errors.Is(err, errPlayRefused), errors.Is(err, farsync.ErrLost):
	default:
		a.complain("release: %v", err)
	}
	if lease.Err() == nil {
		a.complain("held after its release")
	}
}

// operate lets things happen to the services, until end.
func (s *assembly) operate(end time.Time) {
	for time.Now().Before(end) {
		time.Sleep(s.moment())
		m, a := s.members[s.upTo(len(s.members))], s.clients[s.upTo(len(s.clients))]
		switch s.upTo(5) {
		case 0: // a client and a service do not reach each other
			m.PartitionClient(a.name, true)
			time.Sleep(s.moment())
			if s.chance(0.2) {
				time.Sleep(2 * s.ttl)
			}
			if s.chance(0.7) {
				m.PartitionClient(a.name, false)
			}
		case 1: // a service is not reached at all
			for _, a := range s.clients {
				m.PartitionClient(a.name, true)
			}
			time.Sleep(s.moment())
			for _, a := range s.clients {
				m.PartitionClient(a.name, false)
			}
		case 2:
			m.Restart(s.ttl)
		case 3:
			if list := m.Entries(quorumPath); len(list) > 0 {
				m.Touch(list[s.upTo(len(list))].ID)
			}
		case 4:
			id := m.AddForeign(quorumPath, "other")
			time.Sleep(s.moment())
			m.Delete(id)
		}
	}
	for _, m := range s.members {
		for _, a := range s.clients {
			m.PartitionClient(a.name, false)
		}
		m.SetFault(nil)
	}
}

// convene is one play, all of whose choices come from seed but those of the scheduler.
func convene(t *testing.T, seed uint64) (wrong string, served, failed int) {
	synctest.Test(t, func(*testing.T) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := 1 + random.IntN(6)
		s := &assembly{stage: &stage{
			random:  random,
			ttl:     []time.Duration{time.Second, 3 * time.Second, 10 * time.Second}[random.IntN(3)],
			latency: []time.Duration{0, 0, time.Millisecond, 20 * time.Millisecond}[random.IntN(4)],
			faults:  []float64{0, 0.02, 0.1, 0.3}[random.IntN(4)],
		}, highest: make([]farsync.Token, n)}
		for range n {
			m := farsynctest.NewMem()
			m.SetLatency(s.latency)
			s.members = append(s.members, m)
		}
		var sittings []*sitting
		for i := range 2 + random.IntN(3) {
			a := &sitting{actor: &actor{stage: s.stage, name: fmt.Sprint("client-", i)}, of: s}
			var members []*farsync.Mutex
			for j, m := range s.members {
				store := m.Open(&farsynctest.MemOptions{Options: farsync.Options{
					TTL: s.ttl, Holder: a.name, Name: fmt.Sprint("member-", j),
				}})
				a.stores = append(a.stores, store)
				members = append(members, farsync.NewMutex(store, quorumPath))
			}
			a.quorum = farsync.NewQuorumMutex(members...)
			s.clients, sittings = append(s.clients, a.actor), append(sittings, a)
		}
		for _, m := range s.members {
			m.SetFault(s.fault)
		}
		end := time.Now().Add(10 * time.Second)
		for _, a := range sittings {
			for range 1 + s.upTo(3) {
				s.acts.Go(func() { a.play(end) })
			}
		}
		s.operate(end)
		done := make(chan struct{})
		go func() { // ends when all is closed, at the latest
			s.acts.Wait()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(2 * stageLonely):
			s.complain("some wait for ever")
		}
		time.Sleep(5 * s.ttl)
		for _, a := range sittings {
			ctx, cancel := context.WithTimeout(context.Background(), s.ttl)
			lease, err := a.quorum.Lock(ctx)
			if err != nil {
				s.complain("cannot lock afterwards: %v", err)
			} else if err := lease.Release(); err != nil {
				s.complain("cannot release afterwards: %v", err)
			}
			cancel()
		}
		time.Sleep(5 * s.ttl) // what is late comes now, and goes
		for i, m := range s.members {
			if list := m.Entries(quorumPath); len(list) > 0 {
				s.complain("%d entries are left at member %d: %v", len(list), i, list)
			}
		}
		for _, a := range sittings {
			for _, store := range a.stores {
				if err := store.Close(); err != nil {
					s.complain("close: %v", err)
				}
			}
		}
		<-done
		time.Sleep(time.Minute) // for sessions that were being opened
		for i, m := range s.members {
			if entries, sessions, watches := m.Left(); entries+sessions+watches > 0 {
				s.complain("left at member %d are %d entries, %d sessions, %d watches", i, entries, sessions, watches)
			}
		}
		wrong, served, failed = s.wrong, s.served, s.failed
	})
	return wrong, served, failed
}

// TestQuorumPlays has clients use a QuorumMutex while services, clients and requests fail in every way, and sees to what
// must always hold: two never hold, tokens rise, and none waits for ever. -plays says how often.
func TestQuorumPlays(t *testing.T) { repeat(t, suite.More(t, suite.Quorum), convene) }

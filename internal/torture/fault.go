//go:build unix

package main

import (
	"math/rand/v2"
	"slices"
	"time"
)

// A fault is one thing that goes wrong, and when. All that can be known before is decided by the seed.
type fault struct {
	After time.Duration // since the fault before it was over
	What  string
	On    float64 // which of the possible targets, from 0 to 1
	Aimed bool    // at a process while it holds a lock, where it is for one
	For   time.Duration
}

// The faults.
const (
	// On the wire, between one Store and the servers.
	wireCut       = "wire: cut"            // both directions, to all servers; what was under way arrives later
	wireRequests  = "wire: requests lost"  // they are silently lost, and the connection breaks
	wireReplies   = "wire: replies lost"   // requests are carried out, their replies are lost, and the connection breaks
	wireDelay     = "wire: replies late"   // they arrive later
	wireFading    = "wire: late, then cut" // replies arrive late, and then nothing does
	wireReset     = "wire: reset"          // the connections break
	wireOneSilent = "wire: one of three"   // one server is not heard of, the others are
	wireOneMute   = "wire: one does not answer"
	wireOneDeaf   = "wire: one hears nothing" // and what it has to say still comes
	nodeKill      = "node: killed"            // and started again
	nodeKillFirst = "node: leader killed"     // likewise
	nodeEmpty     = "node: restarted empty"   // killed, and started again without its data
	nodeStop      = "node: stopped"           // SIGSTOP, and later SIGCONT
	nodeStopFirst = "node: leader stopped"    // likewise
	nodeCutFirst  = "node: leader isolated"   // from the other servers; its clients still reach it
	nodeCut       = "node: isolated"          // likewise
	nodeMute      = "node: leader unheard"    // by the other servers, which it hears
	nodeDeaf      = "node: leader deaf"       // to the other servers, which hear it
	nodePart      = "node: leader parted"     // isolated, while the others are killed and started again: they have another at once
	nodeAll       = "node: all restarted"     // killed and started at the same time
	clientStop    = "client: stopped"         // a process of clients, by SIGSTOP, and later SIGCONT
	clientKill    = "client: killed"          // and another begins in its place
	entryGone     = "entry: a waiter's"       // removed by another program, while one ahead of it is there
)

// A schedule is an endless row of faults of a tier.
type schedule struct {
	random *rand.Rand
	ttl    time.Duration
	fast   bool
	next   func(*schedule) fault
}

// The tiers of faults, as they are named on the command line.
const (
	tierWire   = "wire"
	tierNode   = "node"
	tierClient = "client"
	tierEntry  = "entry" // on etcd alone
)

var tiers = []string{tierWire, tierNode, tierClient, tierEntry}

// A shape is what servers are to one another.
type shape uint8

const (
	single    shape = iota // there is one
	forgetful              // there is one, and its store bears that it loses its data
	ensemble               // they stand for one another
	apart                  // they fail independently, and their stores bear that they lose their data
)

// newSchedule returns the row of a tier that belongs to a seed. There are several rows on the wire: one for each Store.
func newSchedule(tier string, seed, row uint64, ttl time.Duration, of shape, fast bool) *schedule {
	next := map[string]func(*schedule) fault{
		tierWire: (*schedule).wire, tierNode: (*schedule).server, tierClient: (*schedule).client, tierEntry: (*schedule).entry,
	}[tier]
	if tier == tierNode {
		next = map[shape]func(*schedule) fault{
			single: (*schedule).server, forgetful: (*schedule).forgetful, ensemble: (*schedule).member, apart: (*schedule).apart,
		}[of]
	}
	number := uint64(slices.Index(tiers, tier)) << 32
	return &schedule{random: rand.New(rand.NewPCG(seed, number+row)), ttl: ttl, fast: fast, next: next}
}

// Next returns the next fault.
func (s *schedule) Next() fault { return s.next(s) }

// between returns a time between two.
func (s *schedule) between(least, most time.Duration) time.Duration {
	return least + upTo(s.random, most-least)
}

// times returns a multiple of the TTL.
func (s *schedule) times(factors ...float64) time.Duration {
	return time.Duration(factors[s.random.IntN(len(factors))] * float64(s.ttl))
}

func (s *schedule) fault(after time.Duration, what string, lasts time.Duration) fault {
	return fault{After: after, What: what, On: s.random.Float64(), Aimed: s.random.IntN(3) > 0, For: lasts}
}

func (s *schedule) wire() fault {
	after := s.between(300*time.Millisecond, 3*time.Second)
	if s.fast {
		if after = s.between(50*time.Millisecond, 600*time.Millisecond); s.random.IntN(8) > 0 {
			return s.blink(after)
		}
	}
	short := s.between(2*time.Millisecond, 300*time.Millisecond)
	switch way := s.random.IntN(25); {
	case way < 4:
		return s.fault(after, wireReplies, s.between(time.Millisecond, 50*time.Millisecond))
	case way < 6:
		return s.fault(after, wireRequests, short)
	case way < 8:
		return s.fault(after, wireDelay, short)
	case way < 12:
		return s.fault(after, wireFading, s.times(1.2, 1.5, 2))
	case way < 13:
		return s.fault(after, wireReset, 0)
	case way < 15:
		return s.fault(after, wireCut, short)
	case way < 17:
		return s.fault(after, wireCut, s.times(0.5, 1.2, 2))
	case way < 18:
		return s.fault(after, wireReplies, s.times(0.5, 1.2, 2))
	case way < 20:
		return s.fault(after, wireRequests, s.times(0.5, 1.2, 2))
	case way < 22:
		return s.fault(after, wireOneMute, s.times(0.5, 1, 2))
	case way < 23:
		return s.fault(after, wireOneDeaf, s.times(0.5, 1, 2))
	default:
		return s.fault(after, wireOneSilent, s.times(0.5, 1, 2))
	}
}

// blink is a fault on the wire that no session notices, but the calls under way do.
func (s *schedule) blink(after time.Duration) fault {
	lasts := s.between(time.Millisecond, 100*time.Millisecond)
	what := []string{
		wireReplies, wireReplies, wireReplies, wireRequests, wireRequests, wireDelay, wireDelay, wireReset, wireReset, wireCut,
		wireOneMute, wireOneDeaf, wireOneSilent,
	}
	return s.fault(after, what[s.random.IntN(len(what))], lasts)
}

func (s *schedule) member() fault {
	after := s.between(time.Second, 5*time.Second)
	if s.fast {
		after = s.between(0, 300*time.Millisecond)
	}
	switch s.random.IntN(12) {
	case 0:
		return s.fault(after, nodeKill, s.between(0, time.Second))
	case 1, 2:
		return s.fault(after, nodeKillFirst, s.between(0, time.Second))
	case 3:
		return s.fault(after, nodeStop, s.times(0.5, 1, 2))
	case 4:
		return s.fault(after, nodeStopFirst, s.times(0.5, 1, 2))
	case 5:
		return s.fault(after, nodeCutFirst, s.times(0.5, 1, 2, 3))
	case 6, 7:
		return s.fault(after, nodePart, s.times(0.5, 1, 2))
	case 8:
		return s.fault(after, nodeCut, s.times(0.5, 1, 2))
	case 9:
		return s.fault(after, nodeMute, s.times(0.5, 1, 2, 3))
	case 10:
		return s.fault(after, nodeDeaf, s.times(0.5, 1, 2, 3))
	default:
		return s.fault(after, nodeAll, 0)
	}
}

// server is for a service of one server, whose restart costs a TTL.
func (s *schedule) server() fault {
	after := s.between(s.ttl, 3*s.ttl)
	if s.fast {
		after /= 3
	}
	if s.random.IntN(2) == 0 {
		return s.fault(after, nodeKill, s.between(0, s.ttl/2))
	}
	return s.fault(after, nodeStop, s.times(0.2, 0.5, 1.5))
}

// forgetful returns a fault of server. One in three makes the server lose its data.
func (s *schedule) forgetful() fault {
	f := s.server()
	if s.random.IntN(3) == 0 {
		f.What, f.For = nodeEmpty, s.between(0, s.ttl/2)
	}
	return f
}

// apart is for a service of several.
func (s *schedule) apart() fault {
	after := s.between(s.ttl/4, 2*s.ttl)
	switch s.random.IntN(6) {
	case 0:
		return s.fault(after, nodeKill, s.between(0, s.ttl/2))
	case 1:
		return s.fault(after, nodeKill, s.times(0.5, 1, 2))
	case 2:
		return s.fault(after, nodeEmpty, s.between(0, s.ttl/2))
	case 3:
		return s.fault(after, nodeStop, s.times(0.2, 0.5, 1.5))
	default:
		return s.fault(after, nodeCut, s.times(0.5, 1, 2))
	}
}

func (s *schedule) client() fault {
	after := s.between(500*time.Millisecond, 4*time.Second)
	if s.fast {
		after /= 4
	}
	if s.random.IntN(3) == 0 {
		return s.fault(after, clientKill, 0)
	}
	return s.fault(after, clientStop, s.times(0.5, 1.2, 2.2, 4))
}

func (s *schedule) entry() fault {
	return s.fault(s.between(200*time.Millisecond, time.Second), entryGone, 0)
}

// upTo returns a random time below d.
func upTo(random *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(d)))
}

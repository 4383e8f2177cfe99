package etcd

import (
	"context"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/driver"
)

const (
	// longFrom is from how many entries on a queue is long: that many are counted by the server while a key is written.
	longFrom = 128
	// countEach is how many keys the server counts for each join, on an average.
	countEach = 32
	// mostLong bounds the long queues that a session remembers.
	mostLong = 256
)

// A server counts all keys of a range, however few of them it is asked for, and holds up its writes meanwhile. So
// neither a join nor a leave asks for a range of a long queue.
//
// A join has to know whether two entries that know turns are ahead. If two entries that were seen before are still
// there, that is so, and mostly they are: a waiter among thousands stands in the queue most of the time, under the same
// key. An entry that leaves has to tell the head, and finds it by its turn.
//
// The queue is counted again after as many joins as make that a few keys each, for the Ahead of an entry says how many
// there are.
type long struct {
	mu     sync.Mutex
	queues map[string]*sighting
}

// A sighting is what a look has shown of a long queue.
type sighting struct {
	two   [2]driver.Entry // of its entries, which know turns
	joins int             // how often they may still be asked for
}

// of returns two entries of a queue that are likely to be there, other than e.
func (l *long) of(e driver.Entry) (two [2]driver.Entry, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := l.queues[e.Queue]
	if seen == nil || seen.joins <= 0 || seen.two[0].ID == e.ID || seen.two[1].ID == e.ID {
		return two, false
	}
	seen.joins--
	return seen.two, true
}

// note remembers what a join was shown of a queue.
func (l *long) note(v driver.View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.queues, v.Self.Queue)
	if !isLong(v) {
		return
	}
	if l.queues == nil || len(l.queues) == mostLong {
		l.queues = map[string]*sighting{}
	}
	two := [2]driver.Entry(v.Entries[len(v.Entries)-2:])
	for i := range two {
		two[i].Revision, two[i].Version = 0, 0 // its key may be used again meanwhile
	}
	l.queues[v.Self.Queue] = &sighting{two, two[1].Ahead / countEach}
}

// isLong reports whether an entry that has joined stands in a long queue, where all that is ahead knows turns.
func isLong(v driver.View) bool {
	n := len(v.Entries)
	return v.Turn && n >= 2 && v.Entries[n-1].Ahead+1 >= longFrom
}

// joinLong makes an entry that knows turns, if there is none with its key, and if two others are there, and none that
// knows no turns: else the error is errOtherwise.
func (s *session) joinLong(ctx context.Context, e driver.Entry, two [2]driver.Entry) (v driver.View, err error) {
	keys := prefix(e.Queue)
	_, err = s.append(ctx, &e, nil,
		none(keys, keys+turnBegin), none(keys+turnEnd, clientv3.GetPrefixRangeEnd(keys)), there(two[0]), there(two[1]))
	if err != nil {
		return v, err
	}
	return driver.View{Self: e, Entries: two[:], Turn: true}, nil
}

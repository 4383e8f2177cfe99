package farsynctest

import (
	"context"
	"fmt"

	"github.com/farsync/farsync"
)

// MemOptions are the options of a Store that Mem.Open returns. The zero value is a good choice.
type MemOptions struct {
	// Options are what every Store has. The Holder is the name of the client in Op, too, with a number added if another
	// client has that name. The default is "mem-" and a number.
	farsync.Options
}

// Open returns a Store over a driver of Service, in a session of its own. The caller closes it. Open panics if an option
// is not valid, or if the service does not answer.
func (m *Mem) Open(o *MemOptions) *farsync.Store {
	if o == nil {
		o = &MemOptions{}
	}
	options := o.Options
	if options.Holder == "" {
		options.Holder = fmt.Sprintf("mem-%d", m.name())
	}
	name := options.Holder
	for n := 2; m.named(name); n++ {
		name = fmt.Sprintf("%s-%d", options.Holder, n)
	}
	s, err := farsync.Open(context.Background(), m.service(name, true), &options)
	if err != nil {
		panic("farsynctest: Mem.Open: " + err.Error())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clients[s] = name
	return s
}

func (m *Mem) named(client string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.links[client] != nil
}

// Lose ends the session of a Store that Open returned for both sides, now: at the service, with all its entries, and for the Store,
// which hears of it at once. Each lease of the Store ends with ErrLost. Lose does not wait for that: await Done of the lease. Calls
// that wait for a lock join again in the session that the Store opens next. The Store stays usable.
//
// A loss that the holder learns of late is made by Expire, and one of the network by Partition.
func (m *Mem) Lose(s *farsync.Store) {
	name := m.Client(s)
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, held := range m.sessions {
		if held.client == name {
			m.endSession(id) // first, so that the client, which asks why, is told that there is none
			held.lose()
		}
	}
}

// Expire is ExpireClient for the client of a Store that Open returned.
func (m *Mem) Expire(s *farsync.Store) { m.ExpireClient(m.Client(s)) }

// Partition is PartitionClient for the client of a Store that Open returned.
func (m *Mem) Partition(s *farsync.Store, cut bool) { m.PartitionClient(m.Client(s), cut) }

// Client returns the name of the client of a Store that Open returned.
func (m *Mem) Client(s *farsync.Store) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	name, ok := m.clients[s]
	if !ok {
		panic("farsynctest: Mem: a Store that Open has not returned")
	}
	return name
}

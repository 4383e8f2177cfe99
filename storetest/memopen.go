package storetest

import (
	"context"
	"fmt"

	"github.com/farsync/farsync"
)

// MemOptions are those of a Store that Mem.Open returns. The zero value is a good choice.
type MemOptions struct {
	// Options are those of every Store. The Holder is the name of the client in Op, too, with a number added if another
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
	s, err := farsync.Open(context.Background(), m.Service(name), &options)
	if err != nil {
		panic("storetest: Mem.Open: " + err.Error())
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
		panic("storetest: Mem: a Store that Open has not returned")
	}
	return name
}

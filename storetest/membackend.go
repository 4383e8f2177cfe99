package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/farsync/farsync/driver"
)

// Backend returns m as a backend for the suites.
func (m *Mem) Backend() Backend {
	var clients sync.Map // from a driver to the name of its client
	return Backend{
		TTL: time.Second,
		Open: func(*testing.T) driver.Service {
			name := m.newID("client", driver.Foreign)
			s := m.Service(name)
			clients.Store(s, name)
			return s
		},
		Expire: func(t *testing.T, s driver.Session) {
			t.Helper()
			// An entry shows which session it is.
			e := driver.Entry{Queue: "/expire", ID: s.NewID("/expire", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1}
			v, err := s.Create(context.Background(), e, 0)
			if err != nil {
				t.Fatal(err)
			}
			m.expireOwner(v.Self.ID)
		},
		Delete: func(t *testing.T, e driver.Entry) {
			t.Helper()
			if !m.Delete(e.ID) {
				t.Fatalf("%s is not there", e.ID)
			}
		},
		Foreign: func(_ *testing.T, queue string) driver.Entry {
			return driver.Entry{Queue: queue, ID: m.AddForeign(queue, "another program")}
		},
		Stray: func(_ *testing.T, queue string) driver.Entry {
			return driver.Entry{Queue: queue, ID: m.AddStray(queue, "stray")}
		},
		Cut: func(t *testing.T, s driver.Service, silent bool) {
			t.Helper()
			name, ok := clients.Load(s)
			if !ok {
				t.Fatal("a driver that Open has not returned")
			}
			m.PartitionClient(name.(string), silent)
		},
	}
}

func (m *Mem) expireOwner(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.find(id); n != nil {
		m.endSession(n.session)
	}
}

package drivertest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/driver/drivertest"
	"github.com/farsync/farsync/farsynctest"
)

// backendOf returns a service in memory as a backend for the suite.
func backendOf(m *farsynctest.Mem) drivertest.Backend {
	var mu sync.Mutex
	clients := map[driver.Service]string{} // the name of each driver's client
	operator := m.Service("operator")
	return drivertest.Backend{
		TTL: time.Second,
		Open: func(*testing.T) driver.Service {
			mu.Lock()
			defer mu.Unlock()
			name := fmt.Sprint("client-", len(clients))
			s := m.Service(name)
			clients[s] = name
			return s
		},
		Expire: func(t *testing.T, s driver.Session) {
			t.Helper()
			require.NoError(t, operator.End(context.Background(), s.Name()))
		},
		Delete: func(t *testing.T, e driver.Entry) {
			t.Helper()
			require.True(t, m.Delete(e.ID), "%s is not there", e.ID)
		},
		Foreign: func(_ *testing.T, queue string) driver.Entry {
			return driver.Entry{Queue: queue, ID: m.AddForeign(queue, "another program")}
		},
		Stray: func(_ *testing.T, queue string) driver.Entry {
			return driver.Entry{Queue: queue, ID: m.AddStray(queue, "stray")}
		},
		Cut: func(t *testing.T, s driver.Service, silent bool) {
			t.Helper()
			mu.Lock()
			name, ok := clients[s]
			mu.Unlock()
			require.True(t, ok, "a driver that Open has not returned")
			m.PartitionClient(name, silent)
		},
	}
}

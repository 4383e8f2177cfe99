package zk

import (
	"math/rand/v2"
	"sync"
)

// hosts tells the client library which server to try next: all in turn, from a random one on. Names are left to the
// dialer, which looks them up anew each time and, with TLS, checks the certificate against them.
type hosts struct {
	wire *wire

	mu      sync.Mutex
	servers []string
	next    int
}

// Init is called with the servers first.
func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers = servers
	h.next = rand.N(len(servers))
	return nil
}

// Len returns the number of servers.
func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.servers)
}

// Next returns the server to try next. Its second result would have the library fail what waits to be sent, and rest
// for a second; only then does it look whether it was closed. So it is for a session that is over. While one lives,
// what waits may wait, and the wire keeps the pace.
func (h *hosts) Next() (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = (h.next + 1) % len(h.servers)
	return h.servers[h.next], h.wire.life.Err() != nil
}

// Connected is told of a connection that is up.
func (h *hosts) Connected() {}

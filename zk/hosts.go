package zk

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/farsync/farsync/internal/pause"
)

// hosts tells the client library which server to try next: all in turn, from a random one on. Names are left to the
// dialer, which looks them up anew each time and, with TLS, checks the certificate against them.
type hosts struct {
	wire    *wire
	parked  chan struct{} // closed when the library looks for another server although the session is over
	servers []string
	next    int // one goroutine of the library's asks
}

// Init is called with the servers first.
func (h *hosts) Init(servers []string) error {
	h.servers, h.next = servers, rand.N(len(servers))
	return nil
}

// Len returns the number of servers.
func (h *hosts) Len() int { return len(h.servers) }

// Next returns the server to try next. The library's loop can be influenced from outside at this one place. If the second
// result is true, the library fails the requests that wait to be sent, and looks for up to a second whether it was closed.
// Next returns true only once the session is over, which is when the library is being closed: the last request that waits to
// be sent is that of its Close, and the library would wait a second for it. While the session lives, requests may wait, and
// the wire keeps the pace.
func (h *hosts) Next() (string, bool) {
	h.next = (h.next + 1) % len(h.servers)
	over := h.wire.life.Err() != nil
	if over && !happened(h.parked) {
		close(h.parked)
		// A moment for the library's Close to queue its request. If it comes later, Close may take a second longer.
		_ = pause.For(context.Background(), 10*time.Millisecond)
	}
	return h.servers[h.next], over
}

// Connected does nothing: the links tell.
func (h *hosts) Connected() {}

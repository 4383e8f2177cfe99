package redis

import (
	"context"
	"net"
	"sync"
	"syscall"

	client "github.com/redis/go-redis/v9"
)

// A link is the connections of one session: those for requests, and the one that hears of changes. go-redis gives up a
// request when the deadline of its ctx has passed, but not when the ctx is cancelled. So a request runs in a goroutine of
// its own, and cut breaks the connections of all.
type link struct {
	*client.Client
	life context.Context // the link's own: done when it is cut
	end  context.CancelFunc

	mu    sync.Mutex
	over  bool           // Invariant: dials is not added to once it is true
	dials sync.WaitGroup // under way; joined by cut
}

func (s *service) newLink() *link {
	l := &link{}
	l.life, l.end = context.WithCancel(context.Background())
	o := s.to
	dial := o.Dialer
	if dial == nil {
		dial = client.NewDialer(&client.Options{DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig})
	}
	o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		return l.dial(ctx, dial, network, address)
	}
	if o.MasterName != "" {
		l.Client = client.NewFailoverClient(o.Failover())
	} else {
		l.Client = client.NewClient(o.Simple())
	}
	return l
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// dial returns a connection that breaks with the link. go-redis dials in goroutines that know nothing of the caller's ctx.
func (l *link) dial(ctx context.Context, dial dialer, network, address string) (net.Conn, error) {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return nil, errCut
	}
	l.dials.Add(1)
	l.mu.Unlock()
	defer l.dials.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	conn, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	tied := tiedConn{conn, context.AfterFunc(l.life, func() { _ = conn.Close() })}
	if socket, ok := conn.(syscall.Conn); ok {
		return tiedSocket{tied, socket}, nil
	}
	return tied, nil
}

// cut breaks all connections, and returns when none is being made any more. The requests under way fail.
func (l *link) cut() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.end()
	_ = l.Client.Close()
	l.dials.Wait()
}

// A tiedConn is closed when its link is cut.
type tiedConn struct {
	net.Conn
	untie func() bool
}

func (c tiedConn) Close() error {
	c.untie()
	return c.Conn.Close()
}

// A tiedSocket is a tiedConn that go-redis can look at before it uses it again.
type tiedSocket struct {
	tiedConn
	syscall.Conn
}

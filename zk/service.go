package zk

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/driver"
)

// A service is a driver.Service: the servers, and how to speak to them.
type service struct {
	servers   []string // host:port
	namespace string   // what is put in front of all paths
	tls       *tls.Config
	digest    *Digest
	log       *slog.Logger

	failed sync.WaitGroup // clients of Opens that failed, which are being closed
}

// Open connects to one of the servers, and returns the session in it. The library takes up to three seconds to close
// the client of an Open that fails. That happens in the background, and Close waits for it.
func (s *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	dial, least := (&net.Dialer{}).DialContext, 100*time.Millisecond
	if s.tls != nil {
		dial, least = dialTLS(s.tls), time.Second // a handshake takes several round trips
	}
	w := newWire(ttl, least, dial)
	conn, events, err := client.Connect(s.servers, ttl,
		client.WithDialer(w.dial), client.WithHostProvider(&hosts{wire: w}), client.WithMaxBufferSize(maxFrame),
		client.WithLogInfo(false), client.WithLogger(logger{s.log}))
	if err != nil {
		return nil, err
	}
	opened := newSession(s, w, conn, events)
	select {
	case <-w.open:
		if err = opened.authorize(ctx); err == nil {
			err = opened.anchor(ctx)
		}
	case <-w.life.Done():
		err = context.Cause(w.life)
	case <-ctx.Done():
		err = fmt.Errorf("no answer from any of %v", s.servers)
		if why := w.last.Load(); why != nil {
			err = fmt.Errorf("%w: %w", err, hint(*why))
		}
	}
	if err != nil {
		w.cut(err)
		s.failed.Go(opened.Drop)
		return nil, err
	}
	return opened, nil
}

// Outcome says what err means.
func (s *service) Outcome(err error) driver.Outcome { return outcome(err) }

// Close waits for what Opens that failed have left.
func (s *service) Close() error {
	s.failed.Wait()
	return nil
}

// path returns where a queue's nodes are.
func (s *service) path(queue string) string { return s.namespace + queue }

// acl is what a queue's node and its entries are made with.
func (s *service) acl() []client.ACL {
	if s.digest != nil {
		return client.AuthACL(client.PermAll)
	}
	return client.WorldACL(client.PermAll)
}

// authorize tells the server the session's user. Once the server has answered, the library repeats this on every
// connection. The session is not used before that.
func (s *session) authorize(ctx context.Context) error {
	if s.digest == nil {
		return nil
	}
	return s.do(ctx, func(c *client.Conn) error {
		return c.AddAuth("digest", []byte(s.digest.User+":"+s.digest.Password))
	})
}

// A logger gives the client library's words to the Store's logger.
type logger struct{ *slog.Logger }

func (l logger) Printf(format string, args ...any) { l.Debug(fmt.Sprintf(format, args...)) }

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
	acl       []client.ACL // of a queue's node and its entries
	log       *slog.Logger

	failed sync.WaitGroup // clients of Opens that failed, which are being closed
}

// Open connects to one of the servers, and returns the session in it. The library takes up to three seconds to close
// the client of an Open that fails. That happens in the background, and Close waits for it.
func (s *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	w := s.wire(ttl)
	opened, err := s.connect(w, ttl)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.open:
		if d := s.digest; d != nil { // once the server has answered, the library tells every server that it connects to
			err = opened.do(ctx, func(c *client.Conn) error { return c.AddAuth("digest", []byte(d.User+":"+d.Password)) })
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

// wire returns one for a session that is to have the timeout ttl.
func (s *service) wire(ttl time.Duration) *wire {
	if s.tls != nil {
		return newWire(ttl, time.Second, dialTLS(s.tls)) // a handshake takes several round trips
	}
	return newWire(ttl, 100*time.Millisecond, (&net.Dialer{}).DialContext)
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

// A logger gives the client library's words to the Store's logger.
type logger struct{ *slog.Logger }

func (l logger) Printf(format string, args ...any) { l.Debug(fmt.Sprintf(format, args...)) }

package zk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/aside"
	"github.com/farsync/farsync/internal/handshake"
)

// A service is a driver.Service: the servers, and how to speak to them.
type service struct {
	servers   []string // host:port
	namespace string   // what is put in front of all paths
	tls       *tls.Config
	digest    *Digest
	before    func(context.Context, *Options) error // the option BeforeConnect
	asked     aside.Hook                            // BeforeConnect
	dialed    aside.Hook                            // of functions of a TLS configuration
	acl       []client.ACL                          // of a queue's node and its entries
	log       *slog.Logger
}

// Open connects to one of the servers, and returns the session in it.
func (s *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	w := s.wire(ttl)
	opened := s.connect(w)
	var err error
	select {
	case <-w.open:
	case <-w.life.Done():
		err = context.Cause(w.life)
	case <-ctx.Done():
		err = fmt.Errorf("no answer from any of %v", s.servers)
		if why := w.last.Load(); why != nil {
			err = fmt.Errorf("%w: %w", err, hint(*why))
		}
	}
	if err != nil {
		opened.Drop()
		return nil, err
	}
	return opened, nil
}

// wire returns one for a session that is to have the timeout ttl.
func (s *service) wire(ttl time.Duration) *wire {
	if s.tls != nil {
		return newWire(ttl, time.Second, s.dialTLS(s.tls)) // a handshake takes several round trips
	}
	return newWire(ttl, 100*time.Millisecond, (&net.Dialer{}).DialContext)
}

// prepare returns how to dial, and who the user is, for the next connection of a session on a wire.
func (s *service) prepare(ctx context.Context, w *wire) (dial dialer, user *Digest, err error) {
	if s.before == nil {
		return w.dialer, s.digest, nil
	}
	o := Options{TLS: s.tls.Clone()}
	if s.digest != nil {
		digest := *s.digest
		o.Digest = &digest
	}
	if err := s.asked.Call(ctx, s.log, openFor, func(ctx context.Context) error {
		if err := s.before(ctx, &o); err != nil {
			return fmt.Errorf("BeforeConnect: %w", err)
		}
		return nil
	}); err != nil {
		return nil, nil, err
	}
	dial = w.dialer
	if s.tls != nil && o.TLS != nil {
		dial = s.dialTLS(o.TLS)
	}
	if s.digest == nil || o.Digest == nil {
		return dial, s.digest, nil
	}
	return dial, &Digest{s.digest.User, o.Digest.Password}, nil
}

// Outcome says what err means.
func (s *service) Outcome(err error) driver.Outcome { return outcome(err) }

// String is what errors of Open call it.
func (*service) String() string { return "ZooKeeper" }

// Close has nothing to close but the log: a service has nothing but its sessions.
func (s *service) Close() error {
	aside.Close(s.log)
	return nil
}

// path returns where a queue's nodes are.
func (s *service) path(queue string) string { return s.namespace + queue }

// hint returns why there is no connection, with what may be behind it where that is not plain.
func hint(why error) error {
	switch {
	case hungUp(why):
		return fmt.Errorf("%w: the server hangs up; it wants TLS or a certificate, has no quorum, or has too many clients of this address", why)
	case errors.Is(why, errFrame):
		return fmt.Errorf("%w; is it ZooKeeper?", why)
	default:
		return why
	}
}

// hungUp reports whether the other side has closed the connection without a word.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

var (
	// errPlain is the error of a handshake that the server has not understood.
	errPlain = errors.New("TLS handshake: the server hangs up; does it speak TLS on this port?")
	// errMute is the error of a handshake that the server has not answered.
	errMute = errors.New("TLS handshake: no answer in time")
)

// dialTLS dials with TLS. The configuration may have functions of the program, which may block or panic. A dial is not
// waited for longer than until the deadline of its ctx.
func (s *service) dialTLS(config *tls.Config) dialer {
	config = handshake.Guard(s.log, config)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		deadline, _ := ctx.Deadline()
		conn, err := aside.Connect(ctx, &s.dialed, s.log, "the TLS handshake", time.Until(deadline), func(ctx context.Context) (net.Conn, error) {
			return (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
		})
		switch {
		case hungUp(err):
			err = errPlain
		case err != nil && ctx.Err() != nil:
			err = errMute
		}
		return conn, err
	}
}

// withoutPassword returns what may be shown of something that should be a server: a URL may have a password.
func withoutPassword(server string) string {
	if i := strings.LastIndexByte(server, '@'); i >= 0 {
		return "…" + server[i:]
	}
	return server
}

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
	"time"

	"github.com/farsync/farsync/recipe"
)

const (
	defaultTTL = 10 * time.Second
	// openFor bounds one attempt to open a session, where the timeout is shorter.
	openFor = 5 * time.Second
)

// Options change how a Store behaves. The zero value of each field is a good choice.
type Options struct {
	// TTL is the session's timeout: how long the service keeps what this Store holds when it hears no more from it. The
	// server moves it into its own bounds, 2 to 20 of its ticks unless it is set otherwise; what it answers counts. 10
	// seconds if zero.
	TTL time.Duration
	// Holder is what others see of this Store: 1024 bytes of printable text at most. Host name and process id if empty.
	// It is not a place for secrets.
	Holder string
	// Name is needed where a MultiMutex has members on several stores: then each has one, the same in all processes.
	Name string
	// Logger gets what happens to the session and to clean-up. Nothing is logged if it is nil.
	Logger *slog.Logger
	// OnState is told how the Store stands with the service, from one goroutine, in order. It must return: Close waits
	// for it.
	OnState func(recipe.State)

	// Namespace is put in front of all paths: Curator's namespace, and the chroot of other clients. Empty, or a path
	// like those of locks.
	Namespace string
	// TLS is for connections that are encrypted. Certificates are checked against the names of the servers as they were
	// given to Open.
	TLS *tls.Config
	// Digest is who the Store is to the service. When it is set, all nodes are made with an ACL that gives everything to
	// that user and nothing to others, and a queue whose parent others may write to is refused: they could delete its
	// nodes, whatever the nodes' own ACLs say.
	Digest *Digest
	// PlaintextDigest allows Digest without TLS, where everybody on the way can read the password.
	PlaintextDigest bool
}

// A Digest is a user of ZooKeeper's digest scheme. It never shows its password when it is printed.
type Digest struct {
	User, Password string
}

// String returns the user's name.
func (d Digest) String() string { return "digest user " + d.User }

// Format writes the user's name, whatever the verb.
func (d Digest) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, d.String()) }

// LogValue returns the user's name.
func (d Digest) LogValue() slog.Value { return slog.StringValue(d.String()) }

// MarshalText returns the user's name.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// resolve returns the options with their defaults.
func (o *Options) resolve() (Options, error) {
	var r Options
	if o != nil {
		r = *o
	}
	if r.TTL < 0 {
		return r, fmt.Errorf("TTL %v is negative", r.TTL)
	}
	if r.TTL == 0 {
		r.TTL = defaultTTL
	}
	if r.TTL < time.Millisecond || r.TTL > time.Hour*24*24 {
		return r, fmt.Errorf("TTL %v cannot be told to a server: a millisecond to 24 days can", r.TTL)
	}
	holder, err := recipe.Holder(r.Holder)
	if err != nil {
		return r, err
	}
	r.Holder = holder
	if r.Namespace != "" {
		if err := recipe.CheckPath(r.Namespace); err != nil {
			return r, fmt.Errorf("option Namespace: %w", err)
		}
	}
	if r.Digest != nil {
		switch {
		case r.Digest.User == "" || strings.Contains(r.Digest.User, ":"):
			return r, errors.New("Digest needs a User without a colon")
		case r.TLS == nil && !r.PlaintextDigest:
			return r, errors.New("Digest without TLS would send the password in the clear; set PlaintextDigest if that is meant")
		}
	}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	return r, nil
}

// dialer returns how servers are connected to.
func (o *Options) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	if o.TLS != nil {
		return (&tls.Dialer{Config: o.TLS}).DialContext
	}
	return (&net.Dialer{}).DialContext
}

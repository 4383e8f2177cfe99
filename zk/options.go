package zk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/aside"
	"github.com/farsync/farsync/recipe"
)

// Options change how a Store behaves. The zero value of each field is a good choice.
type Options struct {
	// Options are the options of every Store. The server moves the TTL into its own bounds, 2 to 20 of its ticks unless it
	// is set otherwise; the server's answer counts.
	farsync.Options

	// Namespace is put in front of all paths: Curator's namespace, and the chroot of other clients. Empty, or a path
	// as locks have.
	Namespace string
	// TLS is for connections that are encrypted. Certificates are checked against the names of the servers as they were
	// given to Open.
	TLS *tls.Config
	// Digest is the user that the Store is for the service. When it is set, the queues and their entries are made with an
	// ACL that gives everything to that user and nothing to others, and a queue to which others may write is refused: they
	// could delete its nodes, whatever the nodes' own ACLs say. Missing nodes above a queue are open to all users.
	Digest *Digest
	// PlaintextDigest allows Digest without TLS, where the password can be read on the network.
	PlaintextDigest bool
	// BeforeConnect, unless it is nil, is called before each connection is made, with copies of TLS and Digest in the
	// zero Options. It may change what TLS has, such as certificates that were renewed, and the Password of Digest; all
	// else has no effect. If it fails, or does not return in the time that a server has to answer in, the connection is
	// not made, and is tried again as if the server had not answered. TLS and Digest of these Options must be set if it is
	// to have them.
	//
	// To ZooKeeper a client with another password is another user, to whom an ACL that names the first gives nothing. So
	// a session keeps the Digest with which it was opened, and a password that has changed counts from the next session
	// on.
	BeforeConnect func(ctx context.Context, options *Options) error
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

// Open connects to one of the servers, host:port each (2181 if no port is given), and returns the Store in a session
// there. It has one session with one connection, however many locks are made on it. ctx governs Open alone.
//
// Open fails if no server answers until ctx ends, or within 5 seconds if ctx has no deadline, with an error that wraps
// farsync.ErrUnavailable; if the service refuses; and if a server's name or an option is not valid.
func Open(ctx context.Context, servers []string, options *Options) (*farsync.Store, error) {
	var o Options
	if options != nil {
		o = *options
	}
	o.Logger = aside.Logger(o.Logger) // one queue for what the Store and its driver say
	s, err := NewService(servers, &o)
	if err != nil {
		return nil, &farsync.Error{Op: "open", Path: "ZooKeeper", Err: err}
	}
	return farsync.Open(ctx, s, &o.Options)
}

// NewService returns the driver on which Open opens a Store. It connects to no server before a session is opened. Most
// programs use Open. A test of what a program does when requests fail wraps the driver:
//
//	service, err := zk.NewService(servers, options)
//	if err != nil {
//		return err
//	}
//	store, err := farsync.Open(ctx, farsynctest.Inject(service, injector), &options.Options)
//
// NewService takes the same servers and options as Open. Of options.Options it uses the Logger, and leaves the others
// to farsync.Open. An error means that a server's name or an option is not valid.
func NewService(servers []string, options *Options) (driver.Service, error) {
	var o Options
	if options != nil {
		o = *options
	}
	s := &service{namespace: o.Namespace, tls: o.TLS, digest: o.Digest, before: o.BeforeConnect, log: aside.Logger(o.Logger)}
	if len(servers) == 0 {
		return nil, errors.New("no servers")
	}
	for _, server := range servers {
		dial, ok := address(server)
		if !ok {
			return nil, fmt.Errorf("server %q is not host:port (each on its own; a chroot is the option Namespace)", withoutPassword(server))
		}
		s.servers = append(s.servers, dial)
	}
	if o.Namespace != "" {
		if err := recipe.CheckPath(o.Namespace); err != nil {
			return nil, fmt.Errorf("option Namespace: %w", err)
		}
	}
	switch d := o.Digest; {
	case d == nil:
		s.acl = client.WorldACL(client.PermAll)
	case d.User == "" || strings.Contains(d.User, ":"):
		return nil, errors.New("Digest needs a User without a colon")
	case o.TLS == nil && !o.PlaintextDigest:
		return nil, errors.New("Digest without TLS would send the password in the clear; set PlaintextDigest if that is meant")
	default:
		s.acl = client.AuthACL(client.PermAll)
	}
	return s, nil
}

// address returns what to dial for a server, host:port or a host alone.
func address(server string) (dial string, ok bool) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		host, port = server, "2181"
		if strings.HasPrefix(server, "[") && strings.HasSuffix(server, "]") {
			host = server[1 : len(server)-1]
		}
	}
	if _, err := netip.ParseAddr(host); err != nil && (host == "" || strings.ContainsAny(host, ":/[]@, ")) {
		return "", false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return net.JoinHostPort(host, port), err == nil && number > 0
}

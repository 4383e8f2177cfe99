package zk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/recipe"
)

// A Store is a recipe.Store on ZooKeeper: what the constructors of package farsync are given. It has one session with
// one connection, however many locks are made on it. When its session is lost, everything held under it is lost, and the
// Store goes on with a new one by itself.
type Store struct {
	servers []string
	options Options
	keeper  recipe.Keeper[*session]
}

var _ interface {
	recipe.Store
	recipe.Named
	recipe.Asker
} = (*Store)(nil)

const (
	// A call that may be made again is, after a random part of a time that doubles from retryFirst to retryMost.
	retryFirst = 20 * time.Millisecond
	retryMost  = time.Second
)

// Open connects to one of the servers, host:port each (2181 if no port is given), and returns the Store in a session
// there. ctx is for Open alone.
//
// It fails if no server answers within ctx, or the TTL or 5 seconds, whichever is longer; if the service refuses; and
// if a server's name or an option is not valid.
func Open(ctx context.Context, servers []string, options *Options) (*Store, error) {
	s, err := open(ctx, servers, options)
	if err != nil {
		return nil, fmt.Errorf("farsync: open ZooKeeper: %w", err)
	}
	return s, nil
}

func open(ctx context.Context, servers []string, options *Options) (*Store, error) {
	if len(servers) == 0 {
		return nil, errors.New("no servers")
	}
	named := make([]string, len(servers))
	for i, server := range servers {
		var ok bool
		if named[i], ok = address(server); !ok {
			return nil, fmt.Errorf("server %q is not host:port", server)
		}
	}
	resolved, err := options.resolve()
	if err != nil {
		return nil, err
	}
	s := &Store{servers: named, options: resolved}
	s.keeper.Open, s.keeper.Keep, s.keeper.Drop, s.keeper.Finish = s.openSession, s.keepAlive, s.drop, s.finish
	s.keeper.Log, s.keeper.OnState = resolved.Logger, resolved.OnState
	if err := s.keeper.Start(ctx); err != nil {
		return nil, err
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

// Name returns the Name option.
func (s *Store) Name() string { return s.options.Name }

// Close ends all leases and all waiting on this Store with ErrClosed, and returns when everything that it started has
// ended. Before, it ends the session, which frees what was held and takes what waited out of the queues. If ZooKeeper
// does not confirm that within a second, Close says so: the session ends by itself, one TTL later.
//
// A second Close does nothing.
func (s *Store) Close() error {
	if err := s.keeper.Close(); err != nil {
		return fmt.Errorf("farsync: close ZooKeeper: %w", err)
	}
	return nil
}

// path returns where a queue's nodes are.
func (s *Store) path(queue string) string { return s.options.Namespace + queue }

// refused reports whether err is the service's definite no.
func refused(err error) bool {
	if _, ok := errors.AsType[strayError](err); ok {
		return true
	}
	if _, ok := errors.AsType[openError](err); ok {
		return true
	}
	for _, no := range []error{
		client.ErrNoNode, client.ErrNoAuth, client.ErrAuthFailed, client.ErrInvalidACL, client.ErrNodeExists, client.ErrBadVersion,
		client.ErrNoChildrenForEphemerals, client.ErrNotEmpty, client.ErrInvalidPath, client.ErrBadArguments, errSequence,
	} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// retry makes the call in the session until it is answered, refused, or ctx ends, and returns the last error that tells
// something. unknown tells that an attempt before the last may have been carried out.
func retry[T any](ctx context.Context, s *session, f func(*client.Conn) (T, error)) (value T, unknown bool, err error) {
	for delay := retryFirst; ; delay = min(2*delay, retryMost) {
		value, last := call(ctx, s, f)
		if last == nil || refused(last) {
			return value, unknown, last
		}
		unknown = true
		if err == nil || ctx.Err() == nil {
			err = last
		}
		if recipe.Pause(ctx, delay/2+rand.N(delay/2)) != nil {
			return value, unknown, err
		}
	}
}

// A logger gives the client library's words to the Store's logger.
type logger struct{ *slog.Logger }

func (l logger) Printf(format string, args ...any) { l.Debug(fmt.Sprintf(format, args...)) }

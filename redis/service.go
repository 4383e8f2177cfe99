package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// Open opens a session in Redis and returns a Store in it, which has connections of its own: to the one server of to.Addrs,
// or with a MasterName to the master that the Sentinels at to.Addrs name. ctx governs Open alone.
//
// Open fails if the server does not answer within ctx, or 5 seconds, whichever is shorter, with an error that wraps
// farsync.ErrUnavailable; if the server refuses, is a replica, is older than version 7, or may evict any key when its memory
// is full; and if an option is not valid. Redis Cluster is not supported.
func Open(ctx context.Context, to *client.UniversalOptions, options *Options) (*farsync.Store, error) {
	s, err := NewService(to, options)
	if err != nil {
		return nil, &farsync.Error{Op: "open", Path: "redis", Err: err}
	}
	store, err := recipe.Open(ctx, s, s.(*service).options.Options)
	if err != nil {
		return nil, &farsync.Error{Op: "open", Path: "redis", Err: err}
	}
	return store, nil
}

// A service is the driver.Service of one namespace. What it opens belongs to its sessions.
type service struct {
	to      client.UniversalOptions
	options Options
	log     *slog.Logger
	prefix  string // of all keys
}

var _ driver.Service = (*service)(nil)

// NewService returns the driver for a server. It does no I/O. Programs call Open.
func NewService(to *client.UniversalOptions, options *Options) (driver.Service, error) {
	o, err := options.resolve()
	if err != nil {
		return nil, err
	}
	s := &service{options: o, log: o.Logger, prefix: prefixOf(o.Namespace)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if to != nil {
		s.to = *to
	}
	if s.to.MasterName == "" && (len(s.to.Addrs) > 1 || s.to.IsClusterMode) {
		return nil, errors.New("redis Cluster is not supported: give one address, or the MasterName that Sentinels know")
	}
	// A request is sent once: the answer to a repetition would not tell what became of the first.
	s.to.MaxRetries, s.to.DialerRetries, s.to.ContextTimeoutEnabled = -1, 1, true
	return s, nil
}

// prefixOf begins all keys of a namespace. What is in braces puts them into one slot.
func prefixOf(namespace string) string { return "farsync:{" + namespace + "}:" }

// Open checks the server, subscribes, and writes the session, in this order: what is published to a session is heard.
func (s *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in := newSession(s, ttl)
	err := in.begin(ctx)
	if err != nil {
		in.Drop()
		return nil, err
	}
	return in, nil
}

// Close does nothing: the last session has closed its connections.
func (s *service) Close() error { return nil }

// inspect returns the run ID of the server at the other end of a connection, or refuses the server. A server has another
// run ID after each start.
func (s *service) inspect(ctx context.Context, conn client.Cmdable) (id string, err error) {
	text, err := conn.Info(ctx).Result()
	if err != nil {
		return "", fmt.Errorf("INFO: %w", err)
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	major, _, _ := strings.Cut(info["redis_version"], ".")
	version, _ := strconv.Atoi(major)
	refuse := func(format string, args ...any) error {
		return outcomeError{fmt.Errorf(format, args...), driver.Refused}
	}
	switch policy := info["maxmemory_policy"]; {
	case version < 7:
		return "", refuse("version %s of Redis: 7 or newer is needed", info["redis_version"])
	case strings.HasPrefix(policy, "allkeys-"):
		return "", refuse("maxmemory-policy %s removes locks when the memory is full: use noeviction, or a volatile one", policy)
	case info["role"] != "master":
		return "", errReplica
	}
	return info["run_id"], nil
}

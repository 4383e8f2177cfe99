package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/aside"
)

// Open opens a session in Redis and returns a Store in it, which has connections of its own: to the one server of
// to.Addrs; with a MasterName, to the master that the Sentinels at to.Addrs name; with several addresses or
// IsClusterMode, to the master in the cluster that has the slot of the namespace. ctx governs Open alone.
//
// Open fails if the server does not answer until ctx ends, or within 5 seconds if ctx has no deadline, with an error
// that wraps farsync.ErrUnavailable; if the server refuses, is a replica, is older than version 7, or may evict any key
// when its memory is full; and if an option is not valid.
func Open(ctx context.Context, to *client.UniversalOptions, options *Options) (*farsync.Store, error) {
	s, err := NewService(to, options)
	if err != nil {
		return nil, &farsync.Error{Op: "open", Path: "redis", Err: err}
	}
	return farsync.Open(ctx, s, &s.(*service).options.Options)
}

// A service is the driver.Service of one namespace. The connections belong to its sessions.
type service struct {
	to      client.UniversalOptions
	options Options
	log     *slog.Logger
	prefix  string                       // of all keys
	met     atomic.Pointer[introduction] // the last, of all sessions
	longest atomic.Int64                 // the longest TTL of a session

	functions functions
}

// An introduction makes a server known to the namespace. Terms count introductions.
type introduction struct {
	term int64
	run  string
}

// NewService returns the driver for a server. It does no I/O. Programs call Open.
func NewService(to *client.UniversalOptions, options *Options) (driver.Service, error) {
	o, err := options.resolve()
	if err != nil {
		return nil, err
	}
	o.Logger = aside.Logger(o.Logger) // of Open's, too: one queue for what the Store and its driver say
	s := &service{options: o, log: o.Logger, prefix: prefixOf(o.Namespace)}
	s.functions.log = s.log
	s.met.Store(&introduction{})
	if to != nil {
		s.to = *to
	}
	// A request is sent once: the answer to a repetition would not tell what became of the first.
	s.to.MaxRetries, s.to.MaxRedirects, s.to.DialerRetries, s.to.ContextTimeoutEnabled = -1, -1, 1, true
	// Replicas take no locks.
	s.to.ReadOnly, s.to.RouteByLatency, s.to.RouteRandomly = false, false, false
	s.to.IsClusterMode = s.to.IsClusterMode && s.to.MasterName == ""
	// A Store reads no notifications of the kinds that programs have handlers for.
	s.to.PushNotificationProcessor = nil
	// The events that these notifications announce are noticed anyway. To agree on notifications costs each connection a
	// request, and two that do so at the same time write to one variable.
	s.to.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return s, nil
}

// meet notes an introduction, unless a later one is known: the last answer to a session that ends may come after the
// first answer to the next session.
func (s *service) meet(now introduction) {
	for {
		met := s.met.Load()
		if now.term < met.term || s.met.CompareAndSwap(met, &now) {
			return
		}
	}
}

// prefixOf begins all keys of a namespace. The part in braces puts them into one slot.
func prefixOf(namespace string) string { return "farsync:{" + namespace + "}:" }

// Open checks the server, subscribes, and writes the session, in this order: what is published to a session is heard.
func (s *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	for longest := s.longest.Load(); longest < int64(ttl) && !s.longest.CompareAndSwap(longest, int64(ttl)); longest = s.longest.Load() {
	}
	in := newSession(s, ttl)
	err := in.begin(ctx)
	if err == nil {
		return in, nil
	}
	in.Drop()
	err = explained(err)
	if isLogin(err) || errors.Is(err, errReplica) && s.to.MasterName == "" && !s.to.IsClusterMode && len(s.to.Addrs) <= 1 {
		err = &failure{err, driver.Refused}
	}
	return nil, err
}

// End has the server end a session as its own Close does, by a connection for that alone. The script gives the session
// a deadline of 0 and then removes its entries: whatever the session has sent, and the server reads later, finds it
// past its deadline, or gone. Only "open" would bring it back, which the server has answered before anything else was
// sent.
//
// A server to which the namespace has to be introduced first ends all sessions thereby, and grants nothing for the
// longest TTL that the service has been asked for: the TTL of a session that is to be opened may be missing in its
// data.
func (s *service) End(ctx context.Context, session string) error {
	by := newSession(s, time.Duration(s.longest.Load()))
	defer by.Drop()
	by.known = s.script(s.met.Load().run)
	a, err := by.call(ctx, "close", session)
	for err == nil && a.more { // its entries: a script removes a page of them
		a, err = by.call(ctx, "work")
	}
	return err
}

// String is what errors of Open call it.
func (*service) String() string { return "redis" }

// Close has nothing to close but the log: the last session has closed its connections.
func (s *service) Close() error {
	aside.Close(s.log)
	return nil
}

//go:embed script.lua
var scriptFile string

// script returns the script for one run of a server. Its hash is of this namespace and this run alone. A client gives
// it to a server after it has asked for the run ID on the same connection, and the server neither saves nor replicates
// it. So a server that knows the script is the one whose run ID is in it.
func (s *service) script(run string) *client.Script {
	return client.NewScript("-- farsync " + s.options.Namespace + "\nlocal run = '" + run + "'\n" + scriptFile)
}

// inspect returns the run ID of the server at the other end of a connection, or refuses the server. A server has
// another run ID after each start.
func (s *service) inspect(ctx context.Context, conn client.Cmdable) (run string, err error) {
	text, err := conn.Info(ctx).Result()
	if err != nil {
		return "", fmt.Errorf("INFO: %w", err)
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	switch version, policy := info["redis_version"], info["maxmemory_policy"]; {
	case number(strings.Split(version, ".")[0]) < 7:
		return "", failed(driver.Refused, fmt.Sprintf("version %q of Redis: 7 or newer is needed", version))
	case strings.HasPrefix(policy, "allkeys-"):
		return "", failed(driver.Refused,
			"maxmemory-policy "+policy+" removes locks when the memory is full: use noeviction, or a volatile one")
	case info["role"] != "master":
		return "", errReplica
	case info["run_id"] == "":
		return "", failed(driver.Refused, "a server without a run_id in its INFO: a restart of it would not be noticed")
	}
	return info["run_id"], nil
}

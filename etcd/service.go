package etcd

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/aside"
)

// Options change how a Store behaves. The zero value of each field is a good choice.
//
// The TTL is rounded up to whole seconds, and the server may raise it.
type Options struct {
	farsync.Options
}

// Open opens a session with the etcd that client is connected to, and returns a Store in it. The Store uses one etcd
// lease, one keepalive stream and one watch stream, however many locks are made on it. The client remains the caller's:
// close the Store first, then the client. A client that is closed first ends the Store with it. ctx governs Open alone.
//
// Open fails if etcd cannot be reached until ctx ends, or within 5 seconds if ctx has no deadline, with an error that
// wraps farsync.ErrUnavailable; if etcd refuses; and if an option is not valid.
func Open(ctx context.Context, client *clientv3.Client, options *Options) (*farsync.Store, error) {
	var o Options
	if options != nil {
		o = *options
	}
	o.Logger = aside.Logger(o.Logger) // one queue for what the Store and its driver say; the Store closes it
	s, err := NewService(client)
	if err != nil {
		return nil, &farsync.Error{Op: "open", Path: "etcd", Err: err}
	}
	s.(*service).versions.log = o.Logger
	store, err := farsync.Open(ctx, s, &o.Options)
	if err != nil {
		return nil, err
	}
	if all := client.Endpoints(); len(all) > 0 {
		s.(*service).versions.look(ctx, client, all[0])
	}
	return store, nil
}

// A service is the driver.Service of one client.
type service struct {
	client  *clientv3.Client
	leases  pb.LeaseClient
	wrapped bool // the client has a KV of its own, of package namespace for example
	foreign bool // the same of its Watcher

	// counts is set once a request was asked for its credentials: no interceptor of the client drops the options of a
	// call.
	counts atomic.Bool
	// progresses is set once a request for progress was answered: the server knows them, and so does every proxy before
	// it.
	progresses atomic.Bool

	versions versions
}

var _ driver.Service = (*service)(nil)

// NewService returns the driver on which Open opens a Store. It sends nothing before a session is opened. Most programs
// use Open. A test of what a program does when requests fail wraps the driver:
//
//	service, err := etcd.NewService(client)
//	if err != nil {
//		return err
//	}
//	store, err := farsync.Open(ctx, farsynctest.Inject(service, injector), nil)
//
// The client remains the caller's, as with Open. An error means that it is nil, was closed, or has no connection.
func NewService(client *clientv3.Client) (driver.Service, error) {
	switch {
	case client == nil:
		return nil, errors.New("nil client")
	case client.Ctx().Err() != nil:
		return nil, fmt.Errorf("%w: the etcd client was closed", farsync.ErrClosed)
	case client.ActiveConnection() == nil:
		return nil, errors.New("a client without a connection")
	}
	// The raw client of leases returns the error of its attempt. The client of clientv3 repeats until ctx ends, and then
	// knows no more than that.
	return &service{
		client: client, leases: pb.NewLeaseClient(client.ActiveConnection()),
		wrapped: reflect.TypeOf(client.KV) != reflect.TypeOf(clientv3.NewKV(client)),
		foreign: reflect.TypeOf(client.Watcher) != reflect.TypeOf(clientv3.NewWatcher(client)),
	}, nil
}

// Open asks the server for a lease. The session's time counts from before the request was sent: the server cannot have
// begun to count earlier.
func (s *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	seconds := (ttl + time.Second - 1) / time.Second
	sent := time.Now()
	resp, err := s.leases.LeaseGrant(outgoing(ctx), &pb.LeaseGrantRequest{TTL: int64(seconds)})
	if err != nil {
		s.client.ActiveConnection().ResetConnectBackoff() // as Session.Reset
		err = fmt.Errorf("%w (endpoints %s)", explain(s.allowed(rpctypes.Error(err))), shown(s.client.Endpoints()))
		if errors.Is(err, rpctypes.ErrAuthFailed) {
			err = loginError{err}
		}
		return nil, err
	}
	in := newSession(s, clientv3.LeaseID(resp.ID), time.Duration(resp.TTL)*time.Second, sent)
	in.past.renewed(resp.Header, 0)
	in.turns = in.knowsTurns(ctx)
	return in, nil
}

// knowsTurns reports whether entries of mutexes may be given turns. With authentication a key may be put under a lease
// only by a user who may write all the keys of that lease, so a release could be refused for another lock of the next
// holder. A client that has a KV or a Watcher of its own sees other keys than it names. A server that does not say
// whether it has authentication is taken to have it, if another does not say so in the rest of the time.
func (s *session) knowsTurns(ctx context.Context) bool {
	if s.wrapped || s.foreign || s.client.Username != "" {
		return false
	}
	var enabled bool
	err := s.twice(ctx, func(ctx context.Context, r *request) error {
		resp, err := pb.NewAuthClient(r).AuthStatus(ctx, &pb.AuthStatusRequest{})
		enabled = resp.GetEnabled()
		return clientv3.ContextError(ctx, err)
	})
	return err == nil && !enabled
}

// End revokes a lease, which deletes its keys. A request that the session has sent, and a member takes later, finds no
// such lease, and an ID is given to one lease alone. Behind keys that know turns others may stand who watch none of
// them, and are told by whoever leaves. So the queues are looked up before, in a part of the time, for nothing else
// knows them: turns are given there. If they cannot be, or an entry is made in between, it is like the death of a
// client, which those who wait notice when they look by themselves.
func (s *service) End(ctx context.Context, session string) error {
	lease, err := strconv.ParseInt(session, 16, 64)
	if err != nil {
		return err
	}
	in := newSession(s, clientv3.LeaseID(lease), 0, time.Time{})
	look, cancel := ctx, context.CancelFunc(func() {})
	if deadline, ok := ctx.Deadline(); ok {
		look, cancel = context.WithTimeout(ctx, time.Until(deadline)/3)
	}
	keys, err := in.attached(look)
	cancel()
	if errors.Is(err, errExpired) {
		in.Drop()
		return nil
	}
	for _, key := range keys {
		queue := queueOf(string(key))
		if e, ok := parseEntry(queue, &mvccpb.KeyValue{Key: key}); ok && !beside(queue) && !plain(e) {
			in.spare.making(e)
		}
	}
	return in.Close(ctx)
}

// String is what errors of Open call it.
func (*service) String() string { return "etcd" }

// Close does nothing: the client is the user's.
func (s *service) Close() error { return nil }

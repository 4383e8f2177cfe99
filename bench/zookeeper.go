package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	farzk "github.com/farsync/farsync/zk"
)

var zkStore = store{
	open: func(ctx context.Context, on *stage, o farsync.Options) (*farsync.Store, error) {
		return farzk.Open(ctx, on.at, &farzk.Options{Options: o})
	},
	service: func(on *stage) (driver.Service, error) {
		return farzk.NewService(on.at, nil)
	},
}

type silent struct{}

func (silent) Printf(string, ...any) {}

var everyone = zk.WorldACL(zk.PermAll)

func zkConn(ctx context.Context, on *stage) (*zk.Conn, error) {
	conn, events, err := zk.Connect(on.at, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	on.onClose(conn.Close)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// makeNode makes a node and those above it, unless they are there.
func makeNode(conn *zk.Conn, path string) error {
	for i, b := range path + "/" {
		if b != '/' || i == 0 {
			continue
		}
		if _, err := conn.Create(path[:i], nil, 0, everyone); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

func zkLock(conn *zk.Conn, path string) body {
	mu := zk.NewLock(conn, path, everyone)
	return func(context.Context) error {
		if err := mu.Lock(); err != nil {
			return err
		}
		return mu.Unlock()
	}
}

// zkLocks are the locks of the client library, each with a connection of its own.
var zkLocks = peer{"zk.Lock", func(ctx context.Context, on *stage, n int) (team, error) {
	return gather(n, func(int) (body, error) {
		conn, err := zkConn(ctx, on)
		if err != nil {
			return nil, err
		}
		return zkLock(conn, on.path), nil
	})
}}

// zkGoroutines share a connection.
var zkGoroutines = peer{"zk.Lock, one connection", func(ctx context.Context, on *stage, n int) (team, error) {
	conn, err := zkConn(ctx, on)
	if err != nil {
		return nil, err
	}
	return gather(n, func(int) (body, error) { return zkLock(conn, on.path), nil })
}}

// zkGuard writes a node if the lease holds.
func zkGuard(ctx context.Context, on *stage) (func(context.Context, *farsync.Lease) error, error) {
	conn, err := zkConn(ctx, on)
	if err != nil {
		return nil, err
	}
	row := on.path + "-row"
	return func(_ context.Context, lease *farsync.Lease) error {
		_, err := conn.Multi(append(farzk.Guard(lease), &zk.SetDataRequest{Path: row, Data: []byte("1"), Version: -1})...)
		return err
	}, makeNode(conn, row)
}

// zkUnguarded writes without any check, for zk.Lock has none.
var zkUnguarded = peer{"zk.Lock + unguarded write", func(ctx context.Context, on *stage, n int) (team, error) {
	return gather(n, func(int) (body, error) {
		conn, err := zkConn(ctx, on)
		if err != nil {
			return nil, err
		}
		mu, row := zk.NewLock(conn, on.path, everyone), on.path+"-row"
		return func(context.Context) error {
			if err := mu.Lock(); err != nil {
				return err
			}
			_, err := conn.Set(row, []byte("1"), -1)
			return errors.Join(err, mu.Unlock())
		}, makeNode(conn, row)
	})
}}

// zkPairs are the two writes that any lock has to make.
var zkPairs = peer{"create + delete", func(ctx context.Context, on *stage, n int) (team, error) {
	return gather(n, func(i int) (body, error) {
		conn, err := zkConn(ctx, on)
		if err != nil {
			return nil, err
		}
		node := fmt.Sprint("/", strings.ReplaceAll(on.path, "/", "-"), "-", i)
		return func(context.Context) error {
			if _, err := conn.Create(node, nil, zk.FlagEphemeral, everyone); err != nil {
				return err
			}
			return conn.Delete(node, -1)
		}, nil
	})
}}

// zkJoins join the long queue as zk.Lock does, and leave it: it has no call for that.
var zkJoins = peer{"zk.Lock's requests", func(ctx context.Context, on *stage, n int) (team, error) {
	return gather(n, func(int) (body, error) {
		conn, err := zkConn(ctx, on)
		if err != nil {
			return nil, err
		}
		return func(context.Context) error {
			node, err := conn.CreateProtectedEphemeralSequential(longQueue+"/lock-", nil, everyone)
			if err != nil {
				return err
			}
			_, _, err = conn.Children(longQueue)
			return errors.Join(err, conn.Delete(node, -1))
		}, nil
	})
}}

// zkFloor is the least that a queue can be: a create, a watch on the predecessor, a delete. Tickets of this process tell each
// contender what its predecessor is.
var zkFloor = peer{"queue floor", func(ctx context.Context, on *stage, n int) (team, error) {
	var tickets atomic.Int64
	var made sync.Map // ticket → chan struct{}, closed when its node is there
	channel := func(ticket int64) chan struct{} {
		c, _ := made.LoadOrStore(ticket, make(chan struct{}))
		return c.(chan struct{})
	}
	close(channel(0))
	return gather(n, func(int) (body, error) {
		conn, err := zkConn(ctx, on)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			ticket := tickets.Add(1)
			node := func(ticket int64) string { return fmt.Sprint(on.path, "/", ticket) }
			if _, err := conn.Create(node(ticket), nil, zk.FlagEphemeral, everyone); err != nil {
				return err
			}
			close(channel(ticket))
			<-channel(ticket - 1)
			made.Delete(ticket - 1)
			if err := left(ctx, conn, node(ticket-1)); err != nil {
				return err
			}
			return conn.Delete(node(ticket), -1)
		}, makeNode(conn, on.path)
	})
}}

// left waits until a node is not there.
func left(ctx context.Context, conn *zk.Conn, node string) error {
	_, _, changed, err := conn.GetW(node) // unlike ExistsW it leaves no watch on a node that is not there
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	select {
	case e := <-changed:
		return e.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// zkHerd is the plain lock on one ephemeral node, which all that wait watch.
var zkHerd = peer{"one node, all watch it", func(ctx context.Context, on *stage, n int) (team, error) {
	return gather(n, func(int) (body, error) {
		conn, err := zkConn(ctx, on)
		if err != nil {
			return nil, err
		}
		node := "/" + strings.ReplaceAll(on.path, "/", "-")
		return func(ctx context.Context) error {
			for {
				_, err := conn.Create(node, nil, zk.FlagEphemeral, everyone)
				if err == nil {
					return conn.Delete(node, -1)
				}
				if !errors.Is(err, zk.ErrNodeExists) {
					return err
				}
				if err := left(ctx, conn, node); err != nil {
					return err
				}
			}
		}, nil
	})
}}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipes "go.etcd.io/etcd/client/v3/experimental/recipes"
	"go.uber.org/zap"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/etcd"
)

var etcdStore = store{
	open: func(ctx context.Context, on *stage, o farsync.Options) (*farsync.Store, error) {
		client, err := etcdClient(on)
		if err != nil {
			return nil, err
		}
		return etcd.Open(ctx, client, &etcd.Options{Options: o})
	},
	service: func(on *stage) (driver.Service, error) {
		client, err := etcdClient(on)
		if err != nil {
			return nil, err
		}
		return etcd.NewService(client)
	},
}

func etcdClient(on *stage) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: on.at, Logger: zap.NewNop()})
	if err == nil {
		on.onClose(func() { _ = client.Close() })
	}
	return client, err
}

// etcdSession is what etcd's own locks stand on.
func etcdSession(on *stage) (*clientv3.Client, *concurrency.Session, error) {
	client, err := etcdClient(on)
	if err != nil {
		return nil, nil, err
	}
	session, err := sessionOf(on, client)
	return client, session, err
}

func sessionOf(on *stage, client *clientv3.Client) (*concurrency.Session, error) {
	session, err := concurrency.NewSession(client)
	if err == nil {
		on.onClose(func() { _ = session.Close() })
	}
	return session, err
}

// etcdMutexes are etcd's own locks, each with a client and a session of its own.
var etcdMutexes = peer{"concurrency.Mutex", func(_ context.Context, on *stage, n int) (team, error) {
	return gather(n, func(int) (body, error) {
		_, session, err := etcdSession(on)
		if err != nil {
			return nil, err
		}
		return etcdMutex(session, on.path), nil
	})
}}

func etcdMutex(session *concurrency.Session, path string) body {
	mu := concurrency.NewMutex(session, path)
	return func(ctx context.Context) error {
		if err := mu.Lock(ctx); err != nil {
			return err
		}
		return mu.Unlock(ctx)
	}
}

// etcdGoroutines share a client. They have a session each: in one session two of them would get in.
var etcdGoroutines = peer{"concurrency.Mutex, one client", func(_ context.Context, on *stage, n int) (team, error) {
	client, err := etcdClient(on)
	if err != nil {
		return nil, err
	}
	return gather(n, func(int) (body, error) {
		session, err := sessionOf(on, client)
		if err != nil {
			return nil, err
		}
		return etcdMutex(session, on.path), nil
	})
}}

// etcdReaders are the readers and writers of etcd's recipe.
var etcdReaders = peer{"recipes.RWMutex", func(_ context.Context, on *stage, n int) (team, error) {
	return gather(n, func(int) (body, error) {
		_, session, err := etcdSession(on)
		if err != nil {
			return nil, err
		}
		mu := recipes.NewRWMutex(session, on.path)
		return func(context.Context) error {
			lock, unlock := mu.RLock, mu.RUnlock
			if writes() {
				lock, unlock = mu.Lock, mu.Unlock
			}
			if err := lock(); err != nil {
				return err
			}
			return unlock()
		}, nil
	})
}}

// etcdGuard writes a key if the lease holds.
func etcdGuard(_ context.Context, on *stage) (func(context.Context, *farsync.Lease) error, error) {
	client, err := etcdClient(on)
	return func(ctx context.Context, lease *farsync.Lease) error {
		return committed(client.Txn(ctx).If(etcd.Guard(lease)...).Then(clientv3.OpPut(on.path+"-row", "1")).Commit())
	}, err
}

func committed(response *clientv3.TxnResponse, err error) error {
	if err == nil && !response.Succeeded {
		err = errors.New("the lock was lost")
	}
	return err
}

// etcdOwner does the same with etcd's own lock.
var etcdOwner = peer{"concurrency.Mutex + IsOwner", func(_ context.Context, on *stage, n int) (team, error) {
	return gather(n, func(int) (body, error) {
		client, session, err := etcdSession(on)
		if err != nil {
			return nil, err
		}
		mu := concurrency.NewMutex(session, on.path)
		return func(ctx context.Context) error {
			if err := mu.Lock(ctx); err != nil {
				return err
			}
			err := committed(client.Txn(ctx).If(mu.IsOwner()).Then(clientv3.OpPut(on.path+"-row", "1")).Commit())
			return errors.Join(err, mu.Unlock(ctx))
		}, nil
	})
}}

// etcdTries join the long queue and leave it, as etcd's own lock does when it may not wait.
var etcdTries = peer{"concurrency.Mutex.TryLock", func(_ context.Context, on *stage, n int) (team, error) {
	return gather(n, func(int) (body, error) {
		_, session, err := etcdSession(on)
		if err != nil {
			return nil, err
		}
		mu := concurrency.NewMutex(session, longQueue)
		return func(ctx context.Context) error {
			if err := mu.TryLock(ctx); !errors.Is(err, concurrency.ErrLocked) {
				return fmt.Errorf("not locked: %w", err)
			}
			return nil
		}, nil
	})
}}

// etcdPairs are the two writes that any lock has to make, on a key of each contender.
func etcdPairs(below string) peer {
	return peer{"put + delete", func(_ context.Context, on *stage, n int) (team, error) {
		return gather(n, func(i int) (body, error) {
			client, err := etcdClient(on)
			if err != nil {
				return nil, err
			}
			key := fmt.Sprint(below, on.path, "/", i)
			return func(ctx context.Context) error {
				if _, err := client.Put(ctx, key, ""); err != nil {
					return err
				}
				_, err := client.Delete(ctx, key)
				return err
			}, nil
		})
	}}
}

// etcdFloor is the least that a queue can be: a put, a watch on the predecessor, a delete. Tickets of this process tell each
// contender what its predecessor is, and one watch serves all of them.
var etcdFloor = peer{"queue floor", func(ctx context.Context, on *stage, n int) (team, error) {
	watcher, err := etcdClient(on)
	if err != nil {
		return nil, err
	}
	var tickets atomic.Int64
	var gone sync.Map // ticket → chan struct{}, closed when its key is
	channel := func(ticket any) chan struct{} {
		c, _ := gone.LoadOrStore(ticket, make(chan struct{}))
		return c.(chan struct{})
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	events := watcher.Watch(watching, on.path+"/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	var dispatch sync.WaitGroup
	on.onClose(func() {
		stop()
		dispatch.Wait()
	})
	<-events // it stands
	dispatch.Go(func() {
		for response := range events {
			for _, e := range response.Events {
				if e.Type == mvccpb.DELETE {
					close(channel(strings.TrimPrefix(string(e.Kv.Key), on.path+"/")))
				}
			}
		}
	})
	close(channel("0"))
	return gather(n, func(int) (body, error) {
		client, err := etcdClient(on)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			ticket := tickets.Add(1)
			key := fmt.Sprint(on.path, "/", ticket)
			if _, err := client.Put(ctx, key, ""); err != nil {
				return err
			}
			before := fmt.Sprint(ticket - 1)
			select {
			case <-channel(before):
			case <-ctx.Done():
				return ctx.Err()
			}
			gone.Delete(before)
			_, err := client.Delete(ctx, key)
			return err
		}, nil
	})
}}

// etcdHerd is the plain lock on one key, which all that wait watch.
var etcdHerd = peer{"one key, all watch it", func(_ context.Context, on *stage, n int) (team, error) {
	return gather(n, func(int) (body, error) {
		client, session, err := etcdSession(on)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			for {
				response, err := client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(on.path), "=", 0)).
					Then(clientv3.OpPut(on.path, "", clientv3.WithLease(session.Lease()))).Commit()
				if err != nil {
					return err
				}
				if response.Succeeded {
					_, err := client.Delete(ctx, on.path)
					return err
				}
				if err := deleted(ctx, client, on.path); err != nil {
					return err
				}
			}
		}, nil
	})
}}

// deleted waits until a key is not there.
func deleted(ctx context.Context, client *clientv3.Client, key string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := client.Watch(ctx, key, clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
	if _, ok := <-events; !ok {
		return ctx.Err()
	}
	// The watch begins at the present; a look closes the gap before it.
	found, err := client.Get(ctx, key)
	if err != nil || len(found.Kvs) == 0 {
		return err
	}
	if _, ok := <-events; !ok {
		return ctx.Err()
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

// A store is how farsync is opened on a stage. The Store is closed with the stage.
type store struct {
	open    func(ctx context.Context, on *stage, o farsync.Options) (*farsync.Store, error)
	service func(on *stage) (driver.Service, error)
}

func (s store) opened(ctx context.Context, on *stage) (*farsync.Store, error) {
	return s.openedWith(ctx, on, farsync.Options{})
}

func (s store) openedWith(ctx context.Context, on *stage, o farsync.Options) (*farsync.Store, error) {
	opened, err := s.open(ctx, on, o)
	if err == nil {
		on.onClose(func() { _ = opened.Close() })
	}
	return opened, err
}

// ours is the name of farsync in all scenes.
const ours = "farsync"

// mutexes are contenders for one Mutex, each with a Store of its own.
func (s store) mutexes() peer {
	return peer{ours, func(ctx context.Context, on *stage, n int) (team, error) {
		return gather(n, func(int) (body, error) {
			store, err := s.opened(ctx, on)
			if err != nil {
				return nil, err
			}
			return pair(farsync.NewMutex(store, on.path).Lock), nil
		})
	}}
}

// few is how many contend where few do.
const few = 8

// fewer are few contenders, however many the scene has.
func (s store) fewer() peer {
	return peer{fmt.Sprint(ours, ", ", few, " contenders"), func(ctx context.Context, on *stage, _ int) (team, error) {
		return s.mutexes().team(ctx, on, few)
	}}
}

// idle opens Stores that do nothing, until the stage is closed.
func (s store) idle(ctx context.Context, on *stage, n int) error {
	var err error
	for range n {
		if err == nil {
			_, err = s.opened(ctx, on)
		}
	}
	return err
}

// pair is a Lock and its Release.
func pair(lock func(context.Context) (*farsync.Lease, error)) body {
	return func(ctx context.Context) error {
		lease, err := lock(ctx)
		if err != nil {
			return err
		}
		return lease.Release()
	}
}

// shared are goroutines that share one Mutex.
func (s store) shared() peer {
	return peer{ours + ", one Mutex", func(ctx context.Context, on *stage, n int) (team, error) {
		store, err := s.opened(ctx, on)
		if err != nil {
			return nil, err
		}
		mu := farsync.NewMutex(store, on.path)
		return gather(n, func(int) (body, error) { return pair(mu.Lock), nil })
	}}
}

// units is the size of semaphores.
const units = 8

// permits are contenders for one unit of a Semaphore, each with a Store of its own.
func (s store) permits() peer {
	return peer{ours, func(ctx context.Context, on *stage, n int) (team, error) {
		return gather(n, func(i int) (body, error) {
			store, err := s.opened(ctx, on)
			if err != nil {
				return nil, err
			}
			semaphore := farsync.NewSemaphore(store, on.path, units)
			one := pair(func(ctx context.Context) (*farsync.Lease, error) { return semaphore.Acquire(ctx, 1) })
			if i == 0 {
				err = one(ctx) // declares the size
			}
			return one, err
		})
	}}
}

// A tenth of what readers and writers do is to write.
func writes() bool { return rand.IntN(10) == 0 }

// readers are contenders for one RWMutex, each with a Store of its own.
func (s store) readers() peer {
	return peer{ours, func(ctx context.Context, on *stage, n int) (team, error) {
		return gather(n, func(int) (body, error) {
			store, err := s.opened(ctx, on)
			if err != nil {
				return nil, err
			}
			mu := farsync.NewRWMutex(store, on.path)
			return func(ctx context.Context) error {
				if writes() {
					return pair(mu.Lock)(ctx)
				}
				return pair(mu.RLock)(ctx)
			}, nil
		})
	}}
}

// guarded is a Lock, a write that is guarded by its lease, and the Release. ready returns that write.
func (s store) guarded(ready func(ctx context.Context, on *stage) (func(context.Context, *farsync.Lease) error, error)) peer {
	return peer{ours + " + Guard", func(ctx context.Context, on *stage, n int) (team, error) {
		return gather(n, func(int) (body, error) {
			store, err := s.opened(ctx, on)
			if err != nil {
				return nil, err
			}
			write, err := ready(ctx, on)
			if err != nil {
				return nil, err
			}
			mu := farsync.NewMutex(store, on.path)
			return func(ctx context.Context) error {
				lease, err := mu.Lock(ctx)
				if err != nil {
					return err
				}
				return errors.Join(write(ctx, lease), lease.Release())
			}, nil
		})
	}}
}

// A member is a session of a driver's, without a Store: it joins queues in single steps.
type member struct{ driver.Session }

// memberOf opens one, which is closed with the stage.
func (s store) memberOf(ctx context.Context, on *stage) (member, error) {
	service, err := s.service(on)
	if err != nil {
		return member{}, err
	}
	on.onClose(func() { _ = service.Close() })
	session, err := service.Open(ctx, memberTTL)
	if err != nil {
		return member{}, err
	}
	on.onClose(func() { _ = session.Close(context.WithoutCancel(ctx)) })
	return member{session}, nil
}

const (
	longQueue = "/bench/long"
	memberTTL = time.Minute
)

// join makes an entry in the long queue, and finds out what it waits for.
func (m member) join(ctx context.Context) (driver.Entry, error) {
	if err := m.renew(ctx); err != nil {
		return driver.Entry{}, err
	}
	v, err := m.Create(ctx, driver.Entry{
		Queue: longQueue, Kind: driver.Exclusive, Units: 1, Since: time.Now(), ID: m.NewID(longQueue, driver.Exclusive, 1),
	}, 0)
	if err == nil && !v.All && len(v.Entries) == 0 {
		_, err = m.Ahead(ctx, v.Self, true)
	}
	return v.Self, err
}

func (m member) renew(ctx context.Context) error {
	if ttl, from := m.Granted(); time.Since(from) > ttl/4 {
		return m.Renew(ctx, nil)
	}
	return nil
}

// joins is an entry that joins the queue of the site, behind all that wait there, and leaves it.
func (s store) joins() peer {
	return peer{ours, func(ctx context.Context, on *stage, n int) (team, error) {
		return gather(n, func(int) (body, error) {
			m, err := s.memberOf(ctx, on)
			return func(ctx context.Context) error {
				e, err := m.join(ctx)
				if err == nil {
					_, _, err = m.Delete(ctx, e)
				}
				return err
			}, err
		})
	}}
}

// fill has n entries stand in the long queue until the stage is closed.
func (s store) fill(ctx context.Context, on *stage, n int) error {
	m, err := s.memberOf(ctx, on)
	if err != nil {
		return err
	}
	var all errgroup.Group
	all.SetLimit(16)
	for range n {
		all.Go(func() error {
			_, err := m.join(ctx)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var keeper sync.WaitGroup
	keeper.Go(func() {
		for pause.For(keeping, time.Second) == nil {
			_ = m.renew(keeping) // the next one may succeed
		}
	})
	on.onClose(func() {
		stop()
		keeper.Wait()
	})
	return nil
}

package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/recipe"
)

var kindRows = []row{
	{
		"KindsRefuseOrExclude",
		"two that both hold because one took the path for a Mutex's and the other for a Semaphore's are the silent kind of overlap",
		func(s *scene) {
			one, two := s.client(), s.client()
			var all errgroup.Group
			all.SetLimit(8) // it is about kinds, not about crowds: 42 that release at once outrun a slow service
			for i, first := range kinds {
				for j, second := range kinds {
					if first.name == "MultiMutex" {
						continue // it holds what a Mutex holds
					}
					all.Go(func() error {
						if err := s.cross(one, two, first, second, fmt.Sprintf("%s-%d-%d", s.path, i, j)); err != nil {
							s.Errorf("%s, then %s: %v", first.name, second.name, err)
						}
						return nil
					})
				}
			}
			_ = all.Wait()
		},
	},
	{
		"KindOfAStranger",
		"a lock of another program is exclusive: what counts units cannot stand behind it",
		func(s *scene) {
			one := s.client()
			foreign := s.Foreign(s.T, s.path)
			for _, k := range kinds {
				if k.family == 3 {
					for _, lock := range []func(context.Context) (*farsync.Lease, error){k.lock(one, s.path), k.try(one, s.path)} {
						_, err := lock(s.ctx())
						require.ErrorIs(s, err, farsync.ErrKind)
						require.ErrorContains(s, err, "a lock of another program")
						require.ErrorContains(s, err, "asks for a semaphore")
					}
					continue
				}
				if k.try != nil {
					_, err := k.try(one, s.path)(s.ctx())
					require.ErrorIs(s, err, farsync.ErrLocked, k.name)
				}
				waits := s.locking(k.lock(one, s.path))
				s.until(one, 2)
				waits.waits()
				waits.cancel()
				<-waits.done
				require.ErrorIs(s, waits.err, context.Canceled, k.name)
				s.until(one, 1)
			}
			s.Delete(s.T, foreign)
		},
	},
	{
		"KindRefusedDoesNotDisturb",
		"a service that is deployed with the wrong primitive must not make those fail whose path it is",
		func(s *scene) {
			mutexes := []*farsync.Mutex{s.mutex(s.client()), s.mutex(s.client()), s.mutex(s.client())}
			looks := s.client()
			line := []*locking{s.locking(mutexes[0].Lock)} // the holder first
			line[0].got()
			var hammers sync.WaitGroup
			defer hammers.Wait()
			ctx, stop := context.WithCancel(s.ctx())
			defer stop()
			for range 2 {
				intruder := farsync.NewSemaphore(s.client(), s.path, 2)
				hammers.Go(func() {
					for ctx.Err() == nil {
						_, err := intruder.Acquire(ctx, 1)
						assert.Truef(s, ctx.Err() != nil || errors.Is(err, farsync.ErrKind), "%v", err)
					}
				})
			}
			section := NewSection(s, 1)
			turn := 0
			// A path is the oldest entry's. So none gives it back while an intruder stands ahead of the next, to find out whose it is.
			for until := time.Now().Add(time.Second); time.Now().Before(until); turn++ {
				for len(line) < len(mutexes) {
					line = append(line, s.locking(mutexes[(turn+len(line))%len(mutexes)].Lock))
					s.untilMutexes(looks, len(line))
				}
				section.Visit(s.Context(), line[0].got(), 1)
				s.release(line[0].got())
				line = line[1:]
				line[0].got()
			}
			stop()
			hammers.Wait()
			for _, l := range line {
				s.release(l.got())
			}
			s.until(looks, 0)
		},
	},
	{
		"KindOfAHeldPath",
		"however often it is asked for as something else, a lock that is held stays what it is, also to its waiters",
		func(s *scene) {
			one, two, three := s.client(), s.client(), s.client()
			holder := s.lock(s.mutex(one))
			intruder := farsync.NewSemaphore(three, s.path, 2)
			ctx, stop := context.WithCancel(s.ctx())
			defer stop()
			var hammers sync.WaitGroup
			for range 4 {
				hammers.Go(func() {
					for ctx.Err() == nil {
						_, err := intruder.TryAcquire(ctx, 1)
						assert.Truef(s, ctx.Err() != nil || errors.Is(err, farsync.ErrKind), "%v", err)
						_, err = intruder.Acquire(ctx, 1)
						assert.Truef(s, ctx.Err() != nil || errors.Is(err, farsync.ErrKind), "%v", err)
					}
				})
			}
			for range 10 {
				_, err := s.mutex(two).TryLock(s.ctx())
				require.ErrorIs(s, err, farsync.ErrLocked)
				waits := s.locking(s.mutex(two).Lock)
				require.NoError(s, pause.For(s.Context(), 20*time.Millisecond))
				waits.waits()
				waits.cancel()
				<-waits.done
				require.ErrorIs(s, waits.err, context.Canceled)
			}
			require.NoError(s, holder.Err())
			stop()
			hammers.Wait()
			s.release(holder)
			s.until(one, 0)
		},
	},
	{
		"KindOfAnElection",
		"a path at which another kind of lock stands has no leader",
		func(s *scene) {
			one := s.client()
			lease := s.lock(s.mutex(one))
			_, err := s.election(one).Leader(s.ctx())
			require.ErrorIs(s, err, farsync.ErrKind)
			require.Error(s, s.election(one).Proclaim(s.ctx(), lease, "x"))
			s.release(lease)
			writer := s.take(s.rw(one).Lock)
			require.Error(s, s.election(one).Proclaim(s.ctx(), writer, "x"))
			_, err = s.rw(one).TryRLock(s.ctx())
			require.ErrorIs(s, err, farsync.ErrLocked, "it is still a writer's")
			s.release(writer)
		},
	},
}

// untilMutexes waits until so many entries of a Mutex are in the queue, and two of them are the oldest of all.
func (s *scene) untilMutexes(store *farsync.Store, n int) {
	s.Helper()
	ctx := s.ctx()
	other := func(e driver.Entry) bool { return e.Kind != driver.Exclusive }
	for {
		list, _, err := recipe.Queue{Store: beneath.Store(store), Path: s.path}.List(ctx, 0)
		require.NoError(s, err)
		next := slices.IndexFunc(list, other)
		if len(slices.DeleteFunc(list, other)) == n && (next < 0 || next > 1) {
			return
		}
		require.NoError(s, pause.For(ctx, 5*time.Millisecond), "%d Mutexes in the queue instead of %d", len(list), n)
	}
}

// cross has one client hold a path as one kind, and another ask for it as another.
func (s *scene) cross(one, two *farsync.Store, first, second kind, path string) error {
	ctx := s.ctx()
	held, err := first.lock(one, path)(ctx)
	if err != nil {
		return err
	}
	list, _, err := recipe.Queue{Store: beneath.Store(one), Path: path}.List(ctx, 1)
	if err != nil || len(list) != 1 {
		return fmt.Errorf("%d entries: %w", len(list), err)
	}
	both := first.shared && second.shared
	check := func(lease *farsync.Lease, err error) error {
		switch {
		case first.family != second.family:
			holder, _, _ := recipe.WordsOf(list[0])
			for _, names := range []string{strconv.Quote(holder), " has it as " + recipe.Primitive(list[0].Kind)} {
				if !errors.Is(err, farsync.ErrKind) || !strings.Contains(err.Error(), names) {
					return fmt.Errorf("%w, and not: %s", err, names)
				}
			}
		case both && err == nil:
			return giveBack(lease)
		case both || !errors.Is(err, farsync.ErrLocked):
			return fmt.Errorf("got %v, and the error %w", lease, err)
		}
		return nil
	}
	if second.try != nil {
		if err := check(second.try(two, path)(ctx)); err != nil {
			return err
		}
	}
	waits := s.locking(second.lock(two, path))
	if first.family == second.family && !both {
		s.untilAt(two, path, 2)
		waits.waits()
		waits.cancel()
		<-waits.done
	} else {
		<-waits.done
		if err := check(waits.lease, waits.err); err != nil {
			return err
		}
	}
	s.untilAt(two, path, 1) // the caller that gave up, was refused or has released has left nothing
	if err := giveBack(held); err != nil {
		return err
	}
	lease, err := second.lock(two, path)(ctx)
	if err == nil && lease != nil {
		err = giveBack(lease)
	}
	return err
}

package drivertest

import (
	"errors"
	"strconv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/driver"
)

var registerCases = []conformance{
	{"RegisterEmpty", "the first user of a semaphore has to see that it is the first", func(s *scene) {
		a, b := s.pair()
		b.registerIs(s.queue, driver.Register{})
		a.join(driver.Permit)
		b.registerIs(s.queue, driver.Register{})
	}},
	{"RegisterCompares", "of two clients that declare a size at the same time one has to see the other's", func(s *scene) {
		a, b := s.pair()
		first := a.set(s.queue, "5 5", 0)
		b.registerIs(s.queue, driver.Register{Value: "5 5", Version: first})
		b.refusesToSet("7 7", 0, driver.Entry{})
		second := b.set(s.queue, "5 8", first)
		require.NotEqual(s, first, second)
		b.refusesToSet("7 7", first, driver.Entry{})
		a.refusesToSet("7 7", 0, driver.Entry{})
		a.registerIs(s.queue, driver.Register{Value: "5 8", Version: second})
		third := a.set(s.queue, "5 8", second)
		require.NotEqual(s, second, third, "the same value is a write, too")
		a.refusesToSet("5 8", second, driver.Entry{})
	}},
	{"RegisterHead", "a size that is declared by an entry that has gone may be that of the past", func(s *scene) {
		a, b := s.pair()
		head := a.join(driver.Permit)
		version, err := a.SetRegister(s.ctx(), s.queue, "5 5", 0, head)
		require.NoError(s, err)
		version, err = a.SetRegister(s.ctx(), s.queue, "6 6", version, head)
		require.NoError(s, err)
		a.remove(head)
		a.refusesToSet("7 7", version, head)
		other := b.join(driver.Permit)
		b.refusesToSet("7 7", version-1, other)
		a.refusesToSet("7 7", version, head)
		b.registerIs(s.queue, driver.Register{Value: "6 6", Version: version})
		_, err = b.SetRegister(s.ctx(), s.queue, "7 7", version, other)
		require.NoError(s, err)
		s.Expire(s.T, b)
		a.watch(driver.Entry{}, gone(other)).wakes()
		r, err := a.Register(s.ctx(), s.queue)
		require.NoError(s, err)
		a.refusesToSet("8 8", r.Version, other)
	}},
	{"RegisterIsNoEntry", "a size must not be waited for as a holder is, and must not go with one", func(s *scene) {
		a, b := s.pair()
		version := a.set(s.queue, "5 5", 0)
		require.Empty(s, b.in(s.queue))
		require.Empty(s, b.list(s.queue))
		b.watches(driver.Entry{}, joined(s.queue))
		e, ahead := b.create(b.entry(s.queue, driver.Permit))
		require.Empty(s, ahead)
		b.remove(e)
		b.registerIs(s.queue, driver.Register{Value: "5 5", Version: version})
		require.NoError(s, a.finish(s.ctx()))
		b.registerIs(s.queue, driver.Register{Value: "5 5", Version: version})
	}},
	{"RegisterOfAPathBelow", "a semaphore must not stand in the way of a mutex on the path above", func(s *scene) {
		a, b := s.pair()
		w := b.watch(driver.Entry{}, joined(s.queue))
		for _, queue := range []string{s.queue, s.queue + "/below"} {
			a.set(queue, "5 5", 0)
			a.create(a.entry(queue+"/further", driver.Permit))
		}
		require.Empty(s, b.in(s.queue))
		require.Empty(s, b.list(s.queue))
		e, ahead := b.create(b.entry(s.queue, driver.Exclusive))
		require.Empty(s, ahead)
		w.wakes()
		require.Equal(s, []string{e.ID}, ids(a.list(s.queue)))
	}},
	{"RegistersApart", "the size of /a is not that of /a/b", func(s *scene) {
		a, b := s.pair()
		for _, queue := range []string{s.queue, s.queue + "/b", s.queue + "b"} {
			a.set(queue, "5 5", 0)
		}
		r, err := b.Register(s.ctx(), s.queue+"/b")
		require.NoError(s, err)
		a.set(s.queue+"/b", "5 7", r.Version)
		r, err = b.Register(s.ctx(), s.queue)
		require.NoError(s, err)
		require.Equal(s, "5 5", r.Value)
	}},
	{"RegisterInViews", "a permit is counted by the size that was read with what is ahead of it", func(s *scene) {
		a, b := s.pair()
		var version int64
		for n := range 3 {
			want := driver.Register{Value: strconv.Itoa(n), Version: a.set(s.queue, strconv.Itoa(n), version)}
			version = want.Version
			b.registerIs(s.queue, want)
			v, err := b.Create(s.ctx(), b.permit(s.queue, driver.Permit, 2), 0)
			require.NoError(s, err)
			if v.All {
				require.Equal(s, want, v.Register)
			}
			for _, e := range []driver.Entry{v.Self, {Queue: s.queue, Kind: driver.Permit, Units: 1}} {
				v, err = b.Ahead(s.ctx(), e, false)
				require.NoError(s, err)
				require.Equal(s, want, v.Register)
			}
		}
	}},
	{"RegisterCounts", "of writes at the same time each has to see the one before", func(s *scene) {
		a, b := s.pair()
		const each = 5
		var g errgroup.Group
		for _, c := range []*client{a, b, a, b} {
			ctx := s.ctx()
			g.Go(func() error {
				for range each {
					for {
						r, err := c.Register(ctx, s.queue)
						if err != nil {
							return err
						}
						n, _ := strconv.Atoi(r.Value) // 0 of nothing
						_, err = c.SetRegister(ctx, s.queue, strconv.Itoa(n+1), r.Version, driver.Entry{})
						if err == nil {
							break
						}
						if !errors.Is(err, driver.ErrConflict) {
							return err
						}
					}
				}
				return nil
			})
		}
		require.NoError(s, g.Wait())
		r, err := a.Register(s.ctx(), s.queue)
		require.NoError(s, err)
		require.Equal(s, strconv.Itoa(4*each), r.Value)
	}},
}

// set writes a register, and returns its version.
func (c *client) set(queue, value string, version int64) int64 {
	c.s.Helper()
	written, err := c.SetRegister(c.s.ctx(), queue, value, version, driver.Entry{})
	require.NoError(c.s, err)
	require.NotZero(c.s, written)
	return written
}

// refusesToSet requires that the register of the scene's queue is not written.
func (c *client) refusesToSet(value string, version int64, head driver.Entry) {
	c.s.Helper()
	was, err := c.Register(c.s.ctx(), c.s.queue)
	require.NoError(c.s, err)
	_, err = c.SetRegister(c.s.ctx(), c.s.queue, value, version, head)
	require.ErrorIs(c.s, err, driver.ErrConflict)
	c.registerIs(c.s.queue, was)
}

func (c *client) registerIs(queue string, want driver.Register) {
	c.s.Helper()
	r, err := c.Register(c.s.ctx(), queue)
	require.NoError(c.s, err)
	require.Equal(c.s, want, r)
}

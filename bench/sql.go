package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/farsync/farsync/internal/pause"
)

// A runner runs a statement on a connection of its own, and returns how many rows it has changed.
type runner func(ctx context.Context, statement string, args ...any) (changed int64, err error)

// A database is what programs lock with that have nothing but a database.
type database struct {
	connect func(ctx context.Context, on *stage) (runner, error) // until the stage is closed
	// A row for each path, in the table locks: to make it, to take it until it expires, and to give it back.
	row, take, giveBack string
}

// sequence are contenders that run statements one after the other, each on a connection of its own.
func (d database) sequence(name string, statements ...string) peer {
	return peer{name, func(ctx context.Context, on *stage, n int) (team, error) {
		return gather(n, func(int) (body, error) {
			run, err := d.connect(ctx, on)
			if err == nil {
				_, err = run(ctx, d.row, on.path)
			}
			return func(ctx context.Context) error {
				for _, statement := range statements {
					var args []any
					if strings.ContainsAny(statement, "$?") {
						args = []any{on.path}
					}
					if _, err := run(ctx, statement, args...); err != nil {
						return err
					}
				}
				return nil
			}, err
		})
	}}
}

// pairs are contenders that insert a row of their own and delete it.
func (d database) pairs(insert, remove string) peer {
	return peer{"insert + delete", func(ctx context.Context, on *stage, n int) (team, error) {
		return gather(n, func(i int) (body, error) {
			run, err := d.connect(ctx, on)
			id := fmt.Sprint(on.path, "-", i)
			return func(ctx context.Context) error {
				if _, err := run(ctx, insert, id); err != nil {
					return err
				}
				_, err := run(ctx, remove, id)
				return err
			}, err
		})
	}}
}

// pollEvery is how long a contender for a row with an expiry waits between two tries, on average.
const pollEvery = 10 * time.Millisecond

// expiries are contenders for a row with an expiry, which they try to take now and then.
func (d database) expiries() peer {
	return peer{"a row with an expiry, polled every 10 ms", func(ctx context.Context, on *stage, n int) (team, error) {
		return gather(n, func(i int) (body, error) {
			run, err := d.connect(ctx, on)
			if err == nil {
				_, err = run(ctx, d.row, on.path)
			}
			holder := fmt.Sprint(i)
			return func(ctx context.Context) error {
				for {
					taken, err := run(ctx, d.take, holder, on.path)
					if err != nil {
						return err
					}
					if taken > 0 {
						break
					}
					if err := pause.For(ctx, pollEvery/2+rand.N(pollEvery)); err != nil {
						return err
					}
				}
				_, err := run(ctx, d.giveBack, holder, on.path)
				return err
			}, err
		})
	}}
}

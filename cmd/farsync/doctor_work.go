package main

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/recipe"
)

// pairs is how often doctor locks and gives back.
const pairs = 10

// work does with a path of its own all that a client does: it locks, waits, asks, hands over, and gives back.
func (d *doctor) work(ctx context.Context, store *farsync.Store, ttl time.Duration) {
	path := d.location.Join(d.below + "farsync-doctor-" + strings.ToLower(rand.Text()))
	ctx, cancel := context.WithTimeout(ctx, 6*ttl)
	defer cancel()
	mine, theirs := farsync.NewMutex(store, path), farsync.NewMutex(store, path)
	began := time.Now()
	lease, err := mine.TryLock(ctx)
	took := time.Since(began)
	if quiet, silent := errors.AsType[*recipe.Silence](err); silent {
		d.wrong("rights", "not tried: %v. Run doctor again then", quiet)
		return
	}
	if err != nil {
		d.wrong("rights", "%s", words(err))
		return
	}
	waited := make(chan error, 1)
	var handed time.Time
	go func() { // sends when it has waited, within ctx
		next, err := theirs.Lock(ctx)
		handed = time.Now()
		if err == nil {
			err = next.Release()
		}
		waited <- err
	}()
	list, err := both(ctx, store, path)
	if err == nil {
		if d.location.Scheme == "zk" { // where the leader notes when a node was made
			d.clock(location.Member{Host: "ZooKeeper's leader", Ahead: list[0].Since.Sub(began) - took/2, Doubt: took / 2})
		}
		err = store.Ask(ctx, path)
	}
	gave := time.Now()
	err = errors.Join(err, lease.Release(), <-waited)
	if err != nil {
		d.wrong("rights", "%s", words(err))
		return
	}
	d.well("rights", "%s was locked, waited for, asked for and given back, and handed over within %v", path, rounded(handed.Sub(gave)))
	d.speed(ctx, mine, ttl)
}

// both waits until the holder has a waiter, and returns the two.
func both(ctx context.Context, store *farsync.Store, path string) ([]farsync.Participant, error) {
	look := time.NewTicker(lookAgain / 10)
	defer look.Stop()
	for {
		list, err := store.Participants(ctx, path)
		if err != nil || len(list) == 2 {
			return list, err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// speed locks what is free a few times. A service that takes a quarter of the TTL for that is too slow to renew in
// time.
func (d *doctor) speed(ctx context.Context, lock *farsync.Mutex, ttl time.Duration) {
	var took []time.Duration
	for range pairs {
		began := time.Now()
		lease, err := lock.Lock(ctx)
		if err == nil {
			err = lease.Release()
		}
		if err != nil {
			d.wrong("speed", "%s", words(err))
			return
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	middle, worst := took[len(took)/2], took[len(took)-1]
	if worst > ttl/4 {
		d.wrong("speed", "a free lock takes up to %v, usually %v: renewals come as late, and a TTL of %v is short for that", rounded(worst), rounded(middle), ttl)
		return
	}
	d.well("speed", "a free lock takes %v, at worst %v", rounded(middle), rounded(worst))
}

func rounded(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// Package check holds package adapt to the libraries that it serves. It is a module of its own, so that no program that
// imports farsync inherits them.
package check

import (
	"context"

	"github.com/caddyserver/certmagic"
	"github.com/go-co-op/gocron/v2"

	"github.com/farsync/farsync/adapt"
)

var (
	_ gocron.Elector      = (*adapt.GocronElector)(nil)
	_ gocron.Locker       = (*adapt.GocronLocker[gocron.Lock])(nil)
	_ certmagic.Locker    = (*adapt.CertMagic)(nil)
	_ certmagic.TryLocker = (*adapt.CertMagic)(nil)
)

// Storage is what docs/recipes.md shows: any storage of certmagic's, with farsync's locks in place of its own.
type Storage struct {
	certmagic.Storage
	Locks *adapt.CertMagic
}

var (
	_ certmagic.Storage   = Storage{}
	_ certmagic.TryLocker = Storage{}
)

// Lock waits for the named lock.
func (s Storage) Lock(ctx context.Context, name string) error { return s.Locks.Lock(ctx, name) }

// TryLock does not wait.
func (s Storage) TryLock(ctx context.Context, name string) (bool, error) {
	return s.Locks.TryLock(ctx, name)
}

// Unlock releases the named lock.
func (s Storage) Unlock(ctx context.Context, name string) error { return s.Locks.Unlock(ctx, name) }

package storetest

import (
	"context"

	"github.com/farsync/farsync/recipe"
)

// An Injector decides what goes wrong with the calls of a Store.
type Injector interface {
	// MaybeError is called by the goroutine of the call, before the call is made and again after it, when op.After is
	// set. It may do anything: wait, cancel a ctx, end a session. If it returns an error, that is the call's; before the
	// call, the call is then not made.
	MaybeError(ctx context.Context, op Op) error
}

// InjectorFunc is a function as an Injector.
type InjectorFunc func(ctx context.Context, op Op) error

// MaybeError calls f.
func (f InjectorFunc) MaybeError(ctx context.Context, op Op) error { return f(ctx, op) }

// Inject returns a Store that asks i before and after each call to s. It keeps the contract of recipe.Store where i
// does: an entry that was joined is removed behind when i fails the call after it was made.
func Inject(s recipe.Store, i Injector) recipe.Store { return &injected{s, i} }

type injected struct {
	store    recipe.Store
	injector Injector
}

func (s *injected) Peek(ctx context.Context, r recipe.Request) (blockers []recipe.Entry, err error) {
	err = s.around(ctx, Peek, r.Queue, func() error {
		blockers, err = s.store.Peek(ctx, r)
		return err
	})
	return blockers, err
}

func (s *injected) Join(ctx context.Context, r recipe.Request) (e recipe.Entry, blockers []recipe.Entry, err error) {
	var joined error
	err = s.around(ctx, Join, r.Queue, func() error {
		e, blockers, joined = s.store.Join(ctx, r)
		return joined
	})
	if err != nil && joined == nil && e.ID != "" {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.store.Leave(ended, e) // begins the removal
		return recipe.Entry{}, nil, err
	}
	return e, blockers, err
}

func (s *injected) Blockers(ctx context.Context, e recipe.Entry, r recipe.Rule) (blockers []recipe.Entry, err error) {
	err = s.around(ctx, Blockers, e.Queue, func() error {
		blockers, err = s.store.Blockers(ctx, e, r)
		return err
	})
	return blockers, err
}

func (s *injected) Wait(ctx context.Context, anyOf ...recipe.Entry) error {
	queue := ""
	if len(anyOf) > 0 {
		queue = anyOf[0].Queue
	}
	return s.around(ctx, Wait, queue, func() error { return s.store.Wait(ctx, anyOf...) })
}

func (s *injected) Leave(ctx context.Context, e recipe.Entry) error {
	return s.around(ctx, Leave, e.Queue, func() error { return s.store.Leave(ctx, e) })
}

func (s *injected) Change(ctx context.Context, e recipe.Entry, k recipe.Kind, value []byte) (to recipe.Entry, err error) {
	err = s.around(ctx, Change, e.Queue, func() error {
		to, err = s.store.Change(ctx, e, k, value)
		return err
	})
	return to, err
}

func (s *injected) Resize(ctx context.Context, queue string, declared, size int64) error {
	return s.around(ctx, Resize, queue, func() error { return s.store.Resize(ctx, queue, declared, size) })
}

func (s *injected) Size(ctx context.Context, queue string) (declared, current int64, err error) {
	err = s.around(ctx, SizeOf, queue, func() error {
		declared, current, err = s.store.Size(ctx, queue)
		return err
	})
	return declared, current, err
}

func (s *injected) Entries(ctx context.Context, queue string) (list []recipe.Entry, err error) {
	err = s.around(ctx, Entries, queue, func() error {
		list, err = s.store.Entries(ctx, queue)
		return err
	})
	return list, err
}

// around makes a call between the injector's two. The injector's error goes before the call's.
func (s *injected) around(ctx context.Context, kind OpKind, path string, call func() error) error {
	if err := s.injector.MaybeError(ctx, Op{Kind: kind, Path: path}); err != nil {
		return err
	}
	err := call()
	if after := s.injector.MaybeError(ctx, Op{Kind: kind, Path: path, After: true}); after != nil {
		return after
	}
	return err
}

package farsync

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// A Participant is a holder of a lock or a waiter for it.
type Participant struct {
	// Holder is what it says of itself: the Holder option of its Store.
	Holder string
	// Held tells whether it holds. The others wait, in the order given.
	Held bool
	// Kind is what it asks for.
	Kind driver.Kind
	// Units is how many units of a semaphore it asks for, 1 in all other cases.
	Units int64
	// Since is when it joined the queue. Zero where a foreign client does not tell.
	Since time.Time
	// Token is the token of its lease. A turn that was handed on within its process is not to be seen from here: the
	// token then is that of the first.
	Token Token
}

// String is one line for people.
func (p Participant) String() string {
	verb := "waits"
	if p.Held {
		verb = "holds"
	}
	return fmt.Sprintf("%s %s (%s, token %d, since %s)", p.Holder, verb, p.Kind, p.Token, p.Since.Format(time.RFC3339))
}

// participants returns those who stand in the queue. Those that hold are at its head.
func participants(ctx context.Context, store *Store, path string) ([]Participant, error) {
	entries, held, err := recipe.Queue{Store: store, Path: path}.List(ctx, 0)
	if err != nil {
		return nil, err
	}
	list := make([]Participant, len(entries))
	for i, e := range entries {
		list[i] = Participant{
			Holder: string(e.Value),
			Held:   i < held,
			Kind:   e.Kind,
			Units:  e.Units,
			Since:  e.Since,
			Token:  makeToken(e.Revision, 0),
		}
	}
	return list, nil
}

// ask asks all holders to give the lock back. A free lock is no error.
func ask(ctx context.Context, store *Store, path string) error {
	queue := recipe.Queue{Store: store, Path: path}
	entries, held, err := queue.List(ctx, 0)
	if err != nil {
		return err
	}
	for _, e := range entries[:held] {
		if err := queue.Ask(ctx, e); err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
	}
	return nil
}

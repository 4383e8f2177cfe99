package farsync

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/farsync/farsync/recipe"
)

// A Participant is one who holds a lock or waits for it.
type Participant struct {
	// Holder is what it says of itself: the Holder option of its Store.
	Holder string
	// Held tells whether it holds. The others wait, in the order given.
	Held bool
	// Kind is what it asks for.
	Kind recipe.Kind
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

func participants(ctx context.Context, store recipe.Store, path string) ([]Participant, error) {
	if err := recipe.CheckPath(path); err != nil {
		return nil, err
	}
	entries, err := store.Entries(ctx, path)
	if err != nil {
		return nil, err
	}
	list := make([]Participant, len(entries))
	for i, e := range entries {
		list[i] = Participant{
			Holder: string(e.Value),
			Held:   len(ruleOf(e).Blockers(e, entries[:i])) == 0,
			Kind:   e.Kind,
			Units:  e.Units,
			Since:  e.Since,
			Token:  makeToken(e.Revision, 0),
		}
	}
	return list, nil
}

var errCannotAsk = errors.New("the store cannot carry requests to a holder")

// ask asks whoever holds to give the lock back. That there is nobody is no error: then it is free.
func ask(ctx context.Context, store recipe.Store, path string) error {
	asker, ok := store.(recipe.Asker)
	if !ok {
		return errCannotAsk
	}
	if err := recipe.CheckPath(path); err != nil {
		return err
	}
	entries, err := store.Entries(ctx, path)
	if err != nil {
		return err
	}
	for i, e := range entries {
		if len(ruleOf(e).Blockers(e, entries[:i])) > 0 {
			break
		}
		if err := asker.Ask(ctx, e); err != nil && !errors.Is(err, recipe.ErrGone) {
			return err
		}
	}
	return nil
}

// ruleOf returns the rule of an entry's kind. Permits have none without their queue's size.
func ruleOf(e recipe.Entry) recipe.Rule {
	if e.Kind == recipe.Read {
		return recipe.SharedRule()
	}
	return recipe.ExclusiveRule()
}

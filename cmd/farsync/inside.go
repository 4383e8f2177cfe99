//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/nested"
	"github.com/farsync/farsync/recipe"
)

// underVariable tells a farsync inside of COMMAND which locks are held until COMMAND has ended: three words for each,
// the innermost first.
const underVariable = "FARSYNC_UNDER"

// mostUnseen is how many locks that a farsync does not find in its own store it passes on to those inside of its
// COMMAND. They may be another store's, which a farsync further inside uses. A program that is left running, and starts
// the next, passes on what is long over, and more each time.
const mostUnseen = 16

// An outer is a lock that a farsync around this one holds until this one has ended: it waits for the COMMAND that this
// one is a part of.
type outer struct {
	path  string // of the service
	token farsync.Token
	entry string // its ID
}

func (o outer) String() string {
	return o.path + " " + o.token.String() + " " + o.entry
}

// outers parses the value of underVariable. A value that farsync has not written counts for nothing: others may set it.
func outers(text string) (list []outer) {
	words := strings.Fields(text)
	for three := range slices.Chunk(words, 3) {
		if len(three) < 3 {
			return nil
		}
		var token farsync.Token
		if token.UnmarshalText([]byte(three[1])) != nil {
			return nil
		}
		list = append(list, outer{three[0], token, three[2]})
	}
	return list
}

// acquire locks all paths or none, unless it would wait for a farsync around this one.
func (w *work) acquire(ctx context.Context, store *farsync.Store, before func(path string)) (*held, error) {
	within, err := w.inside(ctx, store)
	if err != nil {
		return nil, err
	}
	return w.request.acquire(within, store, before)
}

// inside returns ctx for a call that waits inside of other farsyncs: others see under which locks it waits. It fails if
// the call would wait for one of them, which waits for this process. It waits for the service, as the call does.
//
// The locks that the environment names are looked for in the queues. An entry that has the ID and the token is that
// lock, by whatever URL the Store was opened. If there is none that holds, the lock is over, or another store's.
func (w *work) inside(ctx context.Context, store *farsync.Store) (context.Context, error) {
	w.around, w.request.reading = nil, nil
	var under []outer
	held := map[string][]farsync.Participant{} // by the farsyncs around this one
	unseen := 0
	for _, o := range outers(os.Getenv(underVariable)) {
		p, err := o.find(ctx, store)
		switch {
		case err != nil:
			return ctx, err
		case p != nil:
			under = append(under, o)
			held[o.path] = append(held[o.path], *p)
		case unseen == mostUnseen:
			continue
		default:
			unseen++
		}
		w.around = append(w.around, o)
	}
	for _, path := range w.request.paths {
		if err := w.beside(ctx, store, path, held[path]); err != nil {
			return ctx, err
		}
	}
	for _, o := range slices.Backward(under) {
		ctx = nested.Under(ctx, nested.Elsewhere{Store: beneath.Store(store), Entry: o.entry}) //nolint:fatcontext // each stands for one lock around
	}
	return ctx, nil
}

// find returns the holder of the lock at the store, nil if there is none that is seen. A user who may not read the
// queue does not see it: the path may be another store's, and no path that this user has any right to.
func (o outer) find(ctx context.Context, store *farsync.Store) (*farsync.Participant, error) {
	list, err := store.Participants(ctx, o.path)
	if err != nil && (ctx.Err() != nil || codeOf(err) == codeUnavailable) {
		return nil, err
	}
	for i := range list {
		if p := &list[i]; p.Held && p.ID == o.entry && p.Token.Revision() == o.token.Revision() {
			return p, nil
		}
	}
	return nil, nil //nolint:nilnil // that it is not seen is an answer
}

// beside returns an error if the request would wait for a holder of the path who waits for this process. A request that
// waits for nobody is told by the service that the lock is taken.
func (w *work) beside(ctx context.Context, store *farsync.Store, path string, held []farsync.Participant) error {
	units := w.request.units
	for _, p := range held {
		switch {
		case w.request.try:
		case p.Kind == farsync.KindRead && w.request.kind == farsync.KindRead:
			w.request.reading = append(w.request.reading, path)
		case p.Kind == farsync.KindPermit && w.request.kind == farsync.KindPermit:
			units += p.Units
		case recipe.Primitive(driver.Kind(p.Kind)) == recipe.Primitive(driver.Kind(w.request.kind)): // the queue refuses a lock of another family
			return itself(shown(w.location, path))
		}
	}
	if units == w.request.units {
		return nil
	}
	size := w.request.size
	for lock, err := range store.Survey(ctx, path) {
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		if err == nil && lock.Path == path && lock.Err == nil {
			size = lock.Size // that may have been changed
		}
		break
	}
	if units > size {
		return itself(shown(w.location, path))
	}
	return nil
}

func itself(path string) error {
	return fmt.Errorf("%s is held by the farsync around this one: %w. Take another path, or unset %s if that farsync does not wait for this one",
		path, farsync.ErrDeadlock, underVariable)
}

// environs returns the value of underVariable for a farsync inside of COMMAND: the locks that are held here, and those
// around.
func (w *work) environs(h *held) string {
	var words []string
	for i, lease := range h.leases {
		words = append(words, outer{w.request.paths[i], lease.Token(), lease.ID()}.String())
	}
	for _, o := range w.around {
		words = append(words, o.String())
	}
	return strings.Join(words, " ")
}

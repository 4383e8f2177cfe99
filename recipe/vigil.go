package recipe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

// watchAfter is for how long a grant is held, where a third of the TTL is longer, before its own entry is watched. Shorter
// holds never pay for that.
const watchAfter = 3 * time.Second

var errRemoved = errors.New("its entry was removed by another client")

// watchOver notes that a grant is held, and sees to it that its entry is watched when it has been held for a while. A person
// with the right to do so may remove an entry at any time, and the next in the queue then holds. A holder that does not
// learn of it would work beside the next until it releases.
func (s *Store) watchOver(gr *grant) {
	if gr.in().keep(gr) {
		s.background(func() { s.keepVigil(gr.in()) })
	}
}

// keep notes that a grant is held, and reports whether it is the first of the session.
func (in *session) keep(gr *grant) (first bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.held == nil {
		in.held, first = map[*grant]bool{}, true
	}
	in.held[gr] = false
	return first
}

// release notes that a grant is held no more.
func (in *session) release(gr *grant) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.held, gr)
}

// toProve returns an entry that backs a lease, if there is one. One is enough: a renewal is proved for the session.
func (in *session) toProve() []driver.Entry {
	in.mu.Lock()
	defer in.mu.Unlock()
	for gr := range in.held {
		return []driver.Entry{gr.place.Load().entry}
	}
	return nil
}

// unwatched returns the grants that have been held since before then and are not watched yet, and notes that they are.
func (in *session) unwatched(then time.Time) (list []*grant) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for gr, watched := range in.held {
		if !watched && gr.since.Before(then) {
			in.held[gr] = true
			list = append(list, gr)
		}
	}
	return list
}

// keepVigil has the grants of a session watched that are held for long. There is one a session, once it has held a grant.
func (s *Store) keepVigil(in *session) {
	age := min(in.ttl/3, watchAfter)
	for pause.For(in.life, age/2) == nil {
		for _, gr := range in.unwatched(time.Now().Add(-age)) {
			s.background(func() { s.watchHeld(gr) })
		}
	}
}

// watchHeld waits until the entry of a grant is gone, and then ends it. It ends with the grant.
func (s *Store) watchHeld(gr *grant) {
	for brake := (pause.Brake{}); gr.life.Err() == nil; brake.Woken(gr.life, false) {
		p := gr.place.Load()
		if _, _, err := s.watch(gr.life, p.in, driver.Entry{}, []driver.Target{{Entry: p.entry}}); err != nil {
			_ = pause.For(gr.life, watchAfter) // it is refused, and may not be later
			continue
		}
		// An event is a hint. The entry may have been replaced in its place, too, which a look shows.
		v := s.try(gr.life, p.in, func(ctx context.Context, _ int) error {
			_, err := p.in.Find(ctx, p.entry)
			return err
		})
		if errors.Is(v.err, driver.ErrGone) && gr.place.Load() == p {
			s.noteLost(gr, errRemoved)
			gr.vanish()
			gr.end(fmt.Errorf("%w: %w", ErrLost, errRemoved))
		}
	}
}

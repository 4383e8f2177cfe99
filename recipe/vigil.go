package recipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/legible"
	"github.com/farsync/farsync/internal/pause"
)

// watchAfter is for how long a grant is held, where a third of the TTL is longer, before its own entry is watched. Shorter
// holds never pay for that.
const watchAfter = 3 * time.Second

// rehearAfter is the most time that passes before the holder of an entry with which words were left looks whether other words have
// replaced them: a holder who was asked and keeps the lock hears of a Break no later, whatever the TTL is.
const rehearAfter = 10 * time.Second

var errRemoved = errors.New("its entry was removed by another client")

// errOvertaken is the cause of the loss of a grant that another entry should have kept waiting.
func errOvertaken(by driver.Entry) error {
	return fmt.Errorf("%s is ahead of its entry in the queue, so it was granted by what another program has written", describe(by))
}

// errChanged is the cause of the loss of a grant whose entry is not as its holder has made it. Now is the entry as the
// service shows it.
func errChanged(made, now driver.Entry) error {
	what := "moved"
	switch {
	case now.Queue != made.Queue:
		what = "moved to the queue " + legible.Quote(now.Queue)
	case now.Kind != made.Kind:
		what = fmt.Sprintf("%s in place of %s", now.Kind, made.Kind)
	case now.Units != made.Units:
		what = fmt.Sprintf("of %d units in place of %d", now.Units, made.Units)
	}
	return fmt.Errorf("its entry was changed by another client: it is %s", what)
}

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

// holding returns the grants that are held.
func (in *session) holding() []*grant {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Collect(maps.Keys(in.held))
}

// toProve returns an entry that backs a lease, if there is one. A single entry is enough: a renewal is proved for the session.
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

// watchHeld waits until the entry of a grant is gone, or words break it, and then ends the grant. It ends with the grant.
func (s *Store) watchHeld(gr *grant) {
	s.publish(gr, gr.place.Load())
	hearing, answered, noted := true, false, ""
	looked := time.Now()
	for brake := (pause.Brake{}); gr.life.Err() == nil; brake.Woken(gr.life, false) {
		p, began, gone := gr.place.Load(), time.Now(), false
		// Whoever wakes a holder all the time, by writing to its entry, does not put off the look at the queue.
		err := s.watchOwn(gr.life, p, hearing, recheckAtMost-time.Since(looked))
		if err == nil && time.Since(looked) >= recheckAfter {
			// If nothing has happened, the queue is looked at in place of a look for words, which the next watch makes.
			looked = time.Now()
			var why error
			var stray *driver.Entry
			stray, gone, why = s.overtaken(gr, p)
			switch {
			case why != nil:
				s.loseGrant(gr, why)
				s.removeInBackground(p) // the holder has been told
			case stray != nil && stray.ID != noted:
				s.noteStray(gr, *stray)
				noted = stray.ID
			}
			if why != nil || !gone && hearing && looked.Sub(began) >= recheckAfter {
				continue
			}
		}
		// An event is a hint. The entry may have been replaced in its place, too, by a request whose answer is not there yet, or will never
		// be: an entry is found by its earlier ID.
		words, v := s.heard(gr.life, p)
		deaf := errors.Is(v.err, errors.ErrUnsupported)
		var changed error
		if deaf || gone || errors.Is(v.err, driver.ErrGone) {
			var now driver.Entry
			if now, v = s.find(gr.life, p.in, p.entry); v.fate == done {
				changed = gr.changed(p, now)
			}
		}
		said := parseMessage(words)
		switch {
		case gr.place.Load() != p:
		case changed != nil:
			s.loseGrant(gr, changed)
			s.removeInBackground(p) // the holder has been told
		case errors.Is(v.err, driver.ErrGone):
			s.loseGrant(gr, errRemoved)
		case said.what == breakWord && gr.meant(said):
			s.loseGrant(gr, said.broken())
			s.removeInBackground(p) // the holder has been told
		case said.what == breakWord, said.named && said.what == askWord && !said.means(gr.turn(), gr.shared()):
			s.noteOther(gr, said)
			s.tell(gr.life, p.in, p.entry, message{turnWord, s.options.Holder, "", gr.turn(), true}.words())
			hearing, answered = false, true
		case said.what == turnWord && answered: // for as long as it takes to be read
			s.restore(gr, p)
			answered = false
		case err != nil && !errors.Is(err, errors.ErrUnsupported):
			_ = pause.For(gr.life, watchAfter) // it is refused, and may not be later
		default:
			// Words that only ask stay, and a watch for words would wake at once.
			hearing = !deaf && words == ""
		}
	}
}

// overtaken looks at the queue of p, which holds, and returns why the grant is to end, or that p may be gone. A grant
// ends whose entry is not as it was made, see [grant.changed], or stands behind an entry that should have kept it
// waiting. No entry joins ahead of another, so there is none, unless another program has written what let this one in:
// a turn that no client of etcd has given, for example. Two would hold for as long as the entry stands, for neither is
// removed. A stray is an entry that has only been put ahead of the holder's; see [Store.strayed].
//
// An entry has to be ahead at two looks, some time apart. An entry of ZooKeeper whose number came too late stands ahead
// of all for as long as its client takes to remove it. Units are granted by a size that may be smaller by now, so of a
// permit nothing but the entry itself is looked at.
func (s *Store) overtaken(gr *grant, p *place) (stray *driver.Entry, gone bool, why error) {
	if p.entry.Kind == driver.Permit {
		now, got := s.find(gr.life, p.in, p.entry)
		if got.fate == done {
			why = gr.changed(p, now)
		}
		return nil, errors.Is(got.err, driver.ErrGone), why
	}
	for by := (*driver.Entry)(nil); gr.life.Err() == nil; _ = pause.For(gr.life, watchAfter) {
		v, got := s.ahead(gr.life, p.in, p.entry, true)
		if errors.Is(got.err, driver.ErrGone) {
			return nil, true, nil
		}
		if got.fate != done {
			return nil, false, nil
		}
		if why := gr.changed(p, v.Self); why != nil {
			return nil, false, why
		}
		if v.Silent || gr.place.Load() != p {
			return nil, false, nil
		}
		blockers := ruleOf(p.entry.Kind, 0).blockers(p.entry, v.Entries)
		switch {
		case len(blockers) == 0, by != nil && by.ID != blockers[0].ID:
			return nil, false, nil
		case by != nil && s.tellsSessions(gr, p) && s.strayed(gr, p, *by):
			return by, false, s.behindStrays(gr, p)
		case by != nil:
			return nil, false, errOvertaken(*by)
		}
		by = &blockers[0]
	}
	return nil, false, nil
}

// changed returns an error if now, which the service shows in answer to a request for the entry at p, does not ask for
// what the holder's entry was made to ask for. Another program has changed it then, and others may be granted beside
// it, as if it were removed. The holder itself may have made a reader of a writer, or be about to.
func (gr *grant) changed(p *place, now driver.Entry) error {
	eases := gr.easing.Load() > 0 && p.entry.Kind == driver.Write && now.Kind == driver.Read // before place, which is stored first
	made := p.entry
	// An entry that has replaced a writer's may be created later, and the grant's revision is its revision here.
	ordered := now.Revision == made.Revision || made.Kind != p.made.Kind
	if eases || gr.place.Load() != p || now.Queue == made.Queue && now.Kind == made.Kind && now.Units == made.Units && ordered {
		return nil
	}
	return errChanged(made, now)
}

// strayed reports whether an entry that stands ahead of the one at p, which holds, has joined later and belongs to no
// session. Only a service whose queues are in the order of names can show such an entry: somebody has made a persistent
// node of ZooKeeper whose name sorts ahead of the holder's.
//
// It ends no hold. The hold was granted while nothing was ahead, so it rests on nothing that another program has
// written; and no client holds by the stray. Every client with which farsync shares a queue holds by an entry that goes
// with its session and that the service has numbered, so its entry cannot come ahead of one that is there. All those
// clients, Curator's too, wait for whatever is ahead of them: whoever joins now waits for the holder and then for the
// stray, without end, and none is let in beside the holder. A program that takes itself for the holder because its
// persistent node sorts first has kept to no recipe: it is let in beside any holder at the moment it looks, Curator's
// included, and the end of this hold, three quarters of a minute later, would not undo that. It would stop a holder that
// nobody overlaps, and leave a lock that nobody can have.
//
// An entry that goes with a session is another matter: its client lives, and takes itself for the holder once it looks.
// So is an entry that was there before the holder's, of a session or of none: the hold should not have been granted.
// And so is one of which the service does not tell, for where that is in doubt two must not go on.
func (s *Store) strayed(gr *grant, p *place, e driver.Entry) bool {
	found, got := s.find(gr.life, p.in, e)
	return got.fate == done && found.Session == "" && found.Revision > p.entry.Revision
}

// tellsSessions reports whether the driver's Find tells the session of the entry at p. If it does not, it tells of no
// entry whether that has one.
func (s *Store) tellsSessions(gr *grant, p *place) bool {
	own, got := s.find(gr.life, p.in, p.entry)
	return got.fate == done && own.Session != ""
}

// behindStrays is overtaken for a grant whose nearest entry ahead is a stray, which may hide an entry that is none.
func (s *Store) behindStrays(gr *grant, p *place) error {
	v, got := s.ahead(gr.life, p.in, p.entry, false)
	if got.fate != done {
		return nil
	}
	rule := ruleOf(p.entry.Kind, 0)
	for _, e := range v.Entries {
		if len(rule.blockers(p.entry, []driver.Entry{e})) > 0 && !s.strayed(gr, p, e) && gr.life.Err() == nil {
			return errOvertaken(e)
		}
	}
	return nil
}

// publish has the entry of a mutex say which turn is held on it, if that is not the first: others see the entry, and
// not the turns. By the time that a grant is watched there are no further turns.
func (s *Store) publish(gr *grant, p *place) {
	w := wordsOf(p.entry)
	if w.turn = gr.turn(); w.turn == 0 || p.entry.Kind != driver.Exclusive {
		return
	}
	_ = s.rewrite(gr.life, gr, p, p.entry.Version, w) // if the request fails, the entry says less, and stands as it did
}

// rewrite has the entry at p, which is the entry of a grant, say other words, if it has that version. An entry that was
// changed by another client is left as it is, and so is an entry that a Change of its holder changes just then.
func (s *Store) rewrite(ctx context.Context, gr *grant, p *place, version int64, w words) error {
	from, changed := p.entry, *p
	from.Version = version
	v := s.try(ctx, p.in, func(ctx context.Context, _ int) error {
		now, err := p.in.Session.Replace(ctx, from, from.Kind, w.value())
		changed.entry.Version, changed.entry.Value = now.Version, now.Value
		return err
	})
	if v.fate == done {
		gr.place.CompareAndSwap(p, &changed) // a Change may have come behind the request, and has stored what is there now
		return nil
	}
	return v.err
}

// restore has an entry say its words again after the Store has left an answer with it: where an answer takes the place
// of the value, the entry names no holder since. An entry with which other words were left meanwhile is left as it is.
func (s *Store) restore(gr *grant, p *place) {
	now, v := s.find(gr.life, p.in, p.entry)
	if v.fate != done || bytes.Equal(now.Value, p.entry.Value) {
		return
	}
	if words, v := s.heard(gr.life, p); v.fate != done || parseMessage(words).what != turnWord {
		return
	}
	w := wordsOf(p.entry)
	if p.entry.Kind == driver.Exclusive {
		w.turn = gr.turn()
	}
	_ = s.rewrite(gr.life, gr, p, now.Version, w)
}

// watchOwn waits until the entry of p may be gone or, if hearing, words may have been left with it, or most has passed. If not
// hearing, it returns after a third of the TTL or rehearAfter, too, for words that replace others make no event for a watch of the end.
func (s *Store) watchOwn(ctx context.Context, p *place, hearing bool, most time.Duration) error {
	on := driver.Target{Entry: p.entry, What: driver.Told}
	if !hearing {
		on.What, most = driver.Gone, min(p.in.ttl/3, rehearAfter, most)
	}
	bound, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	_, _, err := s.watch(bound, p.in, new(driver.Entry), []driver.Target{on})
	if bound.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// loseGrant ends a grant whose entry is gone, or is to go. No other turn begins on it, and it backs no proof any more.
func (s *Store) loseGrant(gr *grant, why error) {
	s.noteLost(gr, why)
	gr.in().release(gr)
	gr.vanish()
	gr.end(fmt.Errorf("%w: %w", ErrLost, why))
	s.concludeAll(gr.in(), gr)
}

package live

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/recipe"
)

const (
	// patience is how long a Store is waited for that shows nothing more: as long as it takes to say that it does not
	// answer.
	patience = 5 * time.Second
	// share is the reciprocal of the part of the time that surveys take at most, but for surveys that take longer than
	// longest.
	share   = 10
	longest = 15 * time.Second
)

// errSilent is why a Store is shown as a Store that does not answer.
var errSilent = fmt.Errorf("no answer for %v", patience)

// poll surveys until ctx is done, and shows what it sees. It is alone: the next poller waits until it has returned.
func (v *View) poll(ctx context.Context) {
	last := map[string]sight{}
	for {
		v.mu.Lock()
		wait, sources := time.Until(v.next), append([]*source(nil), v.sources...)
		v.mu.Unlock()
		if pause.For(ctx, wait) != nil {
			return
		}
		begun := time.Now()
		v.mu.Lock()
		v.next = begun.Add(v.options.Interval) // also if no viewer waits for the end of this one
		v.mu.Unlock()
		sights := v.look(ctx, sources, last)
		if ctx.Err() != nil {
			return
		}
		for _, s := range sights {
			last[s.source.name] = s
		}
		now := time.Now()
		pace := min(max(v.options.Interval, share*now.Sub(begun)), max(longest, v.options.Interval))
		v.show(v.frame(now, pace, sights), begun.Add(pace))
	}
}

// show has all viewers see a frame.
func (v *View) show(f *frame, next time.Time) {
	before, _ := v.now() // nothing else shows frames meanwhile
	if before != nil {
		f.number, f.some = before.number+1, f.since(before)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shown, v.next = f, next
	close(v.changed)
	v.changed = make(chan struct{})
}

// A sight is what a survey has shown of a Store.
type sight struct {
	source *source
	state  farsync.State
	locks  []farsync.LockInfo
	hidden map[string]bool // the paths of locks that may not be read
	rest   *rest           // what is beyond the limit; nil if nothing is
	full   bool            // texts were left out, for there were too many
	seen   time.Time       // when it was seen: earlier than the survey if that has failed
	took   time.Duration
	err    error
	hush   *recipe.Silence // why the Store's service grants nothing at the moment, or nil
}

// A rest is what a survey has not shown: of a prefix of its source what is not before a path, and all prefixes after
// that.
type rest struct {
	prefix int
	path   string
}

// covers reports whether the survey would have shown the path if it had a holder or a waiter. Without a survey nothing
// is covered.
func (s *sight) covers(path string) bool {
	if s == nil || s.err != nil || s.hidden[path] {
		return false
	}
	if s.rest == nil {
		return true
	}
	for _, prefix := range s.source.prefixes[:s.rest.prefix] {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return strings.HasPrefix(path, s.source.prefixes[s.rest.prefix]) && path < s.rest.path
}

// look surveys all sources at once. A source that fails is shown as it was before.
func (v *View) look(ctx context.Context, sources []*source, last map[string]sight) []sight {
	sights := make([]sight, len(sources))
	var all sync.WaitGroup
	for i, s := range sources {
		all.Go(func() {
			sights[i] = s.look(ctx, v.options.Limit)
			if before, ok := last[s.name]; ok && sights[i].err != nil {
				sights[i].locks, sights[i].rest, sights[i].full, sights[i].seen = before.locks, before.rest, before.full, before.seen
				sights[i].hidden = before.hidden
			} else if ok && len(sights[i].hidden) > 0 {
				sights[i].recall(before.locks)
			}
		})
	}
	all.Wait()
	return sights
}

// recall has the locks that may not be read show who was seen there before: that they have gone is not seen.
func (s *sight) recall(before []farsync.LockInfo) {
	seen := map[string][]farsync.Participant{}
	for _, lock := range before {
		seen[lock.Path] = lock.Participants
	}
	for i, lock := range s.locks {
		if s.hidden[lock.Path] {
			s.locks[i].Participants = seen[lock.Path]
		}
	}
}

func (s *source) look(ctx context.Context, limit int) (got sight) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(patience, func() { cancel(errSilent) })
	defer silence.Stop()
	begun := time.Now()
	got = sight{source: s}
	texts := allowance(min(limit, math.MaxInt/mostOfEntry)) * mostOfEntry
	got.locks, got.rest, got.err = s.survey(ctx, limit, &texts, func() { silence.Reset(patience) })
	got.full = got.err == nil && texts.usedUp()
	got.hidden = map[string]bool{}
	for _, lock := range got.locks {
		if len(lock.Participants) == 0 {
			got.hidden[lock.Path] = true
		}
	}
	got.state, got.hush, got.took = s.store.State(), recipe.SilenceOf(beneath.Store(s.store)), time.Since(begun)
	if got.err == nil {
		got.seen = time.Now()
	}
	return got
}

// survey returns the locks of a Store, in order, with what is kept of their texts, and what is beyond the limit of
// entries or of texts. It calls heard for each.
func (s *source) survey(ctx context.Context, limit int, texts *allowance, heard func()) (locks []farsync.LockInfo, beyond *rest, err error) {
	known, entries := map[string]bool{}, 0
	for i, prefix := range s.prefixes {
		for lock, err := range s.store.Survey(ctx, prefix) {
			switch {
			case err != nil:
				return nil, nil, err
			case known[lock.Path]:
				continue // the prefixes overlap
			case entries >= limit || texts.usedUp():
				return locks, &rest{i, lock.Path}, nil
			}
			heard()
			known[lock.Path] = true
			entries += max(len(lock.Participants), 1)
			locks = append(locks, texts.keep(lock))
		}
	}
	return locks, nil, nil
}

package farsync

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/legible"
	"github.com/farsync/farsync/recipe"
)

// A Participant is a holder of a lock or a waiter for it.
type Participant struct {
	// Holder is what it says of itself: the Holder option of its Store, or the value of a candidate. Empty where a foreign
	// client does not tell.
	Holder string
	// Held tells whether it holds. The others wait, in the order given. Where Left is not empty nobody holds or waits
	// by it, and Held tells only that the service counts it as a holder.
	Held bool
	// Kind is what it asks for.
	Kind Kind
	// Units is how many units of a semaphore it asks for, 1 in all other cases.
	Units int64
	// Since is when it joined the queue. Zero where a foreign client does not tell.
	Since time.Time
	// HeldSince is when it came to hold. Zero if it waits, and if it belongs to another Store: the service does not note
	// it.
	HeldSince time.Time
	// NotBefore is until when the service grants nothing to anybody, after a restart of Redis for instance: nobody is
	// ahead of the first waiter. It is zero while the service grants.
	NotBefore time.Time
	// Token is the token of its lease. Of a turn that was handed on within another process it is the token of the first
	// turn, until the entry of a mutex was held for 3 seconds or a third of the TTL, whichever is less: then it says
	// the turn. Goroutines that read share an entry and its token: the token of the first. Break says which token holds
	// where it is given the token of a turn that is over.
	Token Token
	// ID is what the service calls its entry: a key of etcd, a node of ZooKeeper, the id of a row in an SQLite file, the
	// name of an entry in Redis.
	ID string
	// Session is what the service's own tools call its session: on etcd the lease in hexadecimal, as etcdctl prints it.
	Session string
	// Under are the IDs of the entries that its caller held when it joined, on the same Store, the innermost first: the
	// entries of the leases that the caller's context stood for, the 16 innermost at most. See Lease.Context. For a waiter
	// they say what cannot be released before it is served. For a holder they are history, and may be another goroutine's:
	// callers of one Store take turns on one entry.
	Under []string
	// Note is a short text that its caller has published. Empty for most. It comes from another process: it may say
	// anything.
	Note string
	// WaitsFor is what a holder waits for before it gives the lock back, in words of its own, as far as it says so. The
	// command farsync names here the processes that a COMMAND has left running, but not those under a write lock on etcd.
	WaitsFor string
	// Left says of an entry that the Store itself has left behind why it stands still: in a session that was lost,
	// until the service ends that, or because the service refuses to remove it, or has not confirmed that for some
	// time. Empty of all other entries. Only the Store that has left it knows: to others, and to farsync who, it is a
	// holder or a waiter like any other, for the service says no more.
	Left string
}

// String is one line for people.
func (p Participant) String() string {
	var b strings.Builder
	b.WriteString(cmp.Or(legible.Name(p.Holder), "unnamed"))
	verb := " waits"
	switch {
	case p.Left != "":
		verb = " is gone"
	case p.Held:
		verb = " holds"
	}
	b.WriteString(verb)
	if !p.HeldSince.IsZero() {
		b.WriteString(" since " + p.HeldSince.Format(time.RFC3339))
	}
	fmt.Fprintf(&b, " (%s", p.Kind)
	if p.Kind == KindPermit {
		fmt.Fprintf(&b, " of %d units", p.Units)
	}
	fmt.Fprintf(&b, ", token %d", p.Token)
	if !p.Since.IsZero() {
		b.WriteString(", joined " + p.Since.Format(time.RFC3339))
	}
	if p.ID != "" {
		b.WriteString(", entry " + legible.Name(p.ID))
	}
	if p.Session != "" {
		b.WriteString(", session " + legible.Name(p.Session))
	}
	if len(p.Under) > 0 {
		b.WriteString(", under ")
		for i, id := range p.Under {
			if i > 0 {
				b.WriteString(" and ")
			}
			b.WriteString(legible.Name(id))
		}
	}
	if !p.NotBefore.IsZero() {
		b.WriteString(", nothing is granted before " + p.NotBefore.Format(time.RFC3339))
	}
	if p.WaitsFor != "" {
		b.WriteString(", waits for " + legible.Name(p.WaitsFor))
	}
	if p.Left != "" {
		b.WriteString(", " + legible.Name(p.Left))
	}
	if p.Note != "" {
		b.WriteString(", note " + legible.Quote(p.Note))
	}
	b.WriteString(")")
	return b.String()
}

// known returns a time, or zero if no calendar has it: RFC 3339 and JSON know the years from 0 to 9999.
func known(t time.Time) time.Time {
	if year := t.UTC().Year(); year < 0 || year > 9999 {
		return time.Time{}
	}
	return t
}

// Participants returns the holders of the lock on path and its waiters, whatever primitive they use: the holders
// first, then the waiters in the order of the queue. Participant.Kind tells a mutex, a writer, a reader, a permit and
// a candidate apart. The list is nil if nobody holds the lock or waits for it. It is what the service said when it was
// asked; by the time Participants returns others may hold. Never decide by it that a lock is held or free.
//
// The callers of one Store share entries: one participant may stand for all who wait in a process, or for all who read
// there. Of an election, the holder is the leader, and Holder is the value that a candidate campaigned with, or has
// proclaimed last. Of a semaphore, the permits at the head hold whose units fit into the size together; after it was
// made smaller, some that still hold are said to wait. Each member of a MultiMutex is a lock with a path of its own. A
// QuorumMutex has a queue on each of its services: ask each Store.
//
// ctx governs how long Participants waits for the service; it never waits for a holder. ErrPath comes at once. The
// other errors are ErrClosed; ctx.Err() if ctx was done first, and then ErrUnavailable too if the service did not
// answer; and what the service said when it refused. Beside three errors the participants are returned. Another
// program has written something else in the place of the size of a semaphore: all are shown as holders, see
// LockInfo.Err. Or another program has put an entry into the queue that no session will ever remove, a key without a
// lease on etcd or a node that is not ephemeral on ZooKeeper: it is among the participants, with no Session, and the
// error names it. Lock fails with the same error until it is deleted. Other stores show such an entry without an
// error. Or it has put an entry with a session ahead of entries that were there before: those who hold without that
// entry are shown as holders, and so are all ahead of them.
func (s *Store) Participants(ctx context.Context, path string) ([]Participant, error) {
	list, err := s.participants(ctx, path)
	return list, wrap("participants", path, err)
}

func (s *Store) participants(ctx context.Context, path string) ([]Participant, error) {
	l, err := recipe.Queue{Store: s.below, Path: path}.Listing(ctx, 0)
	if err != nil {
		return nil, err
	}
	if len(l.Entries) == 0 {
		return nil, wrongIn(l)
	}
	return s.participantsOf(l.Entries, l.Held), wrongIn(l)
}

// wrongIn returns what is wrong with a queue that is shown all the same.
func wrongIn(l recipe.Listing) error {
	if l.Stray != nil && l.Odd != nil {
		return fmt.Errorf("%w; and %w", l.Stray, l.Odd)
	}
	return cmp.Or(l.Stray, l.Odd)
}

// participantsOf returns the entries of a queue for people. As many hold as are told, those at its head.
func (s *Store) participantsOf(entries []driver.Entry, held int) []Participant {
	var until time.Time
	if quiet := recipe.SilenceOf(s.below); quiet != nil {
		until = quiet.Until
	}
	list := make([]Participant, len(entries))
	for i, e := range entries {
		holder, under, note := recipe.WordsOf(e)
		list[i] = Participant{
			Holder:    holder,
			Held:      i < held,
			Kind:      Kind(e.Kind),
			Units:     e.Units,
			Since:     known(e.Since),
			HeldSince: e.HeldSince,
			NotBefore: until,
			Token:     tokenOf(e),
			ID:        e.ID,
			Session:   e.Session,
			Under:     under,
			Note:      note,
			WaitsFor:  recipe.WaitsFor(e),
			Left:      recipe.LeftOf(s.below, e),
		}
	}
	return list
}

// tokenOf returns the token of an entry, or 0 if it has a revision that no token has, which another program may have
// written.
func tokenOf(e driver.Entry) Token {
	if e.Revision < 0 || e.Revision > maxRevision {
		return 0
	}
	return makeToken(e.Revision, turnOf(e))
}

// turnOf returns the turn that the token of an entry has. Readers that share one are one to others.
func turnOf(e driver.Entry) int {
	if e.Kind == driver.Read {
		return 0
	}
	return e.Turn
}

// Ask asks the holders of the lock on path to give it back, whatever primitive they use: the holder of a mutex, all
// readers, all who hold units of a semaphore, or the leader of an election. The channel of their Lease.Asked is
// closed. It is only a request; a holder that does not call Asked never learns of it. Curator calls it attemptRevoke;
// on ZooKeeper a Curator holder that is revocable is reached.
//
// Ask waits until the service has taken the request for each holder, and not for the holders. It returns nil also if
// there is no holder. While the service grants nothing after a restart, it has forgotten who held, and the error wraps
// ErrUnavailable. Where an entry holds that belongs to no session, as another program may have left it, nobody can give
// it back: the error names the entry.
//
// ctx governs how long Ask waits for the service. ErrPath comes at once. The other errors are ErrClosed; ctx.Err() if
// ctx was done first, and then ErrUnavailable too if the service did not answer; what the service said when it
// refused; and errors.ErrUnsupported of a store that reaches no holder. After an error some of the holders may have
// been asked. To ask again does no harm.
func (s *Store) Ask(ctx context.Context, path string) error {
	return wrap("ask", path, s.ask(ctx, path))
}

func (s *Store) ask(ctx context.Context, path string) error {
	queue := recipe.Queue{Store: s.below, Path: path}
	entries, held, err := queue.List(ctx, 0)
	if err != nil {
		return err
	}
	if quiet := recipe.SilenceOf(s.below); quiet != nil && held == 0 {
		return quiet
	}
	return recipe.AskEach(ctx, entries[:held], queue.Ask)
}

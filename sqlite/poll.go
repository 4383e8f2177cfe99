package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/internal/sqlstore"
)

const (
	// A session that waits knocks at the sockets of those that it waits for after times that grow from probeFirst to probeMost: to
	// be woken ten times a second costs a process more than a thousandth of a processor.
	probeFirst = 100 * time.Millisecond
	probeMost  = 500 * time.Millisecond
	// checkEvery is how often it looks whether the file has changed without a datagram.
	checkEvery = time.Second
	// deafEvery is how often it looks without a socket, which nothing can be sent to.
	deafEvery = 10 * time.Millisecond
)

// poll is the one poller of a session. It does nothing while there is no Watch, nor for a Watch that soon ends. It runs in one
// goroutine, which Drop joins.
func (s *session) poll() {
	first, most, check := probeFirst, probeMost, checkEvery
	if s.ears == nil {
		first, most, check = deafEvery, deafEvery, deafEvery
	}
	for s.Waiters.Await(s.Life) {
		var version int64
		var owners owners
		var known []string
		var checked time.Time
		for probe := first; pause.For(s.Life, probe) == nil; probe = min(probe*5/4, most) {
			names := s.Waiters.Names()
			if len(names) == 0 {
				break
			}
			ctx, cancel := context.WithTimeout(s.Life, checkEvery)
			if !slices.Equal(names, known) {
				probe = first
				if found, err := s.owners(ctx, "", names); err == nil {
					owners, known = found, names // the owner of an entry stays the same
				}
			}
			if time.Since(checked) >= check {
				// Before the waiters look, so that what comes after their look is seen the next time.
				if is := s.version(ctx); is != version || is == 0 {
					version = is
					s.Waiters.Wake(nil)
				}
				checked = time.Now()
			}
			_ = s.bury(ctx, owners)
			owners.ranOut = false // Renew sees to the sessions that run out later
			cancel()
		}
	}
}

// version returns a number that is another whenever the file has changed, 0 if it cannot be read. It is one of a connection.
func (s *session) version(ctx context.Context) (is int64) {
	if err := s.service.eye.QueryRowContext(ctx, "PRAGMA data_version").Scan(&is); err != nil {
		return 0
	}
	return is
}

// owners are sessions that may be over: the sockets of some tell, the others have run out.
type owners struct {
	reachable []string
	ranOut    bool
}

// owners returns the owners of some entries, or of those in a queue.
func (s *session) owners(ctx context.Context, queue string, entries []string) (owners, error) {
	var found owners
	err := s.Read(ctx, func(t sqlstore.Tx) error {
		found = owners{}
		return t.Query(func(r sqlstore.Row) error {
			var id string
			var ranOut bool
			err := r.Scan(&id, &ranOut)
			found.reachable = append(found.reachable, id)
			found.ranOut = found.ranOut || ranOut
			return err
		}, "owners", boot(), clock(), sqlstore.Array(entries), queue)
	})
	if err != nil {
		return owners{}, err
	}
	return found, nil
}

// Bury ends the sessions that are over of those with entries in a queue.
func (s *session) Bury(ctx context.Context, queue string) error {
	owners, err := s.owners(ctx, queue, nil)
	if err != nil {
		return err
	}
	return s.bury(ctx, owners)
}

// bury ends those of some sessions that are over, and any others that have run out. The transaction asks again, for one that had
// run out may have been renewed since. One that has died was not: its ID is never used again.
func (s *session) bury(ctx context.Context, o owners) error {
	var dead []string
	for _, id := range o.reachable {
		if s.service.isDead(id) {
			dead = append(dead, id)
		}
	}
	if len(dead) == 0 && !o.ranOut {
		return nil
	}
	return s.Update(ctx, func(t sqlstore.Tx) error {
		_, err := t.Exec("bury", boot(), clock(), sqlstore.Array(dead))
		return err
	})
}

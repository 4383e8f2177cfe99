package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/internal/sqlstore"
)

const (
	// probeEvery is how often a session that waits knocks at the sockets of those that it waits for.
	probeEvery = 100 * time.Millisecond
	// checkEvery is how often it looks whether the file has changed without a word, and whether one of those has run out.
	checkEvery = time.Second
	// deafEvery is how often it looks without a socket, which nothing can be sent to.
	deafEvery = 10 * time.Millisecond
)

// poll is the one poller of a session. It does nothing while there is no Watch. It runs in one goroutine, which Drop joins.
func (s *session) poll() {
	probe, check := probeEvery, checkEvery
	if s.ears == nil {
		probe, check = deafEvery, deafEvery
	}
	for s.Waiters.Await(s.Life) {
		var version int64
		var owners owners
		var known []string
		var checked time.Time
		for names := s.Waiters.Names(); len(names) > 0 && s.Life.Err() == nil; names = s.Waiters.Names() {
			ctx, cancel := context.WithTimeout(s.Life, checkEvery)
			due := time.Since(checked) >= check
			if due {
				checked = time.Now()
				// Before the waiters look, so that what comes after their look is seen the next time.
				if is := s.version(ctx); is != version || is == 0 {
					version = is
					s.Waiters.Wake(nil)
				}
			}
			if due || !slices.Equal(names, known) {
				known = names
				owners, _ = s.owners(ctx, "", names) // if not now, then the next time
			}
			_ = s.bury(ctx, owners)
			cancel()
			_ = pause.For(s.Life, probe)
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

// bury ends those of some sessions that are over. Update itself ends those that have run out, unless they were renewed since.
// One that has died was not.
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
		_, err := t.Exec("bury", boot(), sqlstore.Array(dead))
		return err
	})
}

package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/farsync/farsync/internal/pause"
)

const (
	// probeEvery is how often a session that waits knocks at the sockets of some of those that it waits for.
	probeEvery = 100 * time.Millisecond
	// checkEvery is how often it looks whether the file has changed: without the datagrams of others, or in spite of them.
	checkEvery = time.Second
	// Without a socket it looks after times from checkFirst to checkMost.
	checkFirst = 200 * time.Microsecond
	checkMost  = 10 * time.Millisecond
	// maxProbes is how many sockets are knocked at, at a time.
	maxProbes = 16
)

// poll is the one poller of a session. It does nothing while there is no Watch. It runs in one goroutine, which stop joins.
func (s *session) poll() {
	for {
		select {
		case <-s.busy:
			s.pollWhileBusy()
		case <-s.life.Done():
			return
		}
	}
}

// pollWhileBusy returns when there is no Watch any more. The version of the data that SQLite tells is one of a connection,
// so it keeps one.
func (s *session) pollWhileBusy() {
	conn, err := s.read.db.Conn(s.life)
	if err != nil {
		_ = pause.For(s.life, probeEvery)
		s.wake([]string{everything})
		return
	}
	defer func() { _ = conn.Close() }()
	every, least, most := checkEvery, checkEvery, checkEvery
	if s.ears == nil {
		every, least, most = checkFirst, checkFirst, checkMost
	}
	var version int64
	var checked, examined time.Time
	for {
		owners, waiting := s.awaited()
		if !waiting || s.life.Err() != nil {
			return
		}
		now := time.Now()
		// The version is read before the waiters look, so that what comes after their look is seen the next time.
		if now.Sub(checked) >= every {
			var is int64
			err := conn.QueryRowContext(s.life, "PRAGMA data_version").Scan(&is)
			every = min(2*every, most)
			if err != nil || is != version {
				every = least
				s.wake([]string{everything})
			}
			checked, version = now, is
		}
		// A deadline is seen with up to checkEvery delay, a death with less.
		if now.Sub(examined) >= checkEvery || slices.ContainsFunc(owners, s.isDead) {
			ctx, cancel := context.WithTimeout(s.life, checkEvery)
			_, _ = s.examine(ctx, owners) // if not now, then the next time
			cancel()
			examined = now
		}
		_ = pause.For(s.life, min(every, probeEvery))
	}
}

// examine buries those sessions that are over, and reports whether there were any: those past their deadline, those that
// have no row, as an operator may leave them, and those whose process has died. It asks again in the transaction that
// buries, for between the two a session can be renewed.
func (s *session) examine(ctx context.Context, sessions []string) (buried bool, err error) {
	if len(sessions) == 0 {
		return false, nil
	}
	found, err := query(ctx, s, func(t *tx) (health, error) { return t.health(sessions) })
	if err != nil {
		return false, err
	}
	var dead []string
	for _, id := range found.reachable[:min(len(found.reachable), maxProbes)] {
		if id != s.id && s.isDead(id) {
			dead = append(dead, id)
		}
	}
	suspects := slices.Concat(found.over, dead)
	if len(suspects) == 0 {
		return false, nil
	}
	return update(ctx, s, func(t *tx) (bool, error) {
		// One that is past its deadline may have been renewed since. One that has died has not.
		found, err := t.health(suspects)
		for _, id := range dead {
			if slices.Contains(found.reachable, id) {
				found.over = append(found.over, id)
			}
		}
		for _, id := range found.over {
			if err == nil {
				err = t.bury(id)
			}
		}
		return len(found.over) > 0, err
	})
}

// A health tells sessions that are over from those whose sockets tell. The others linger.
type health struct{ over, reachable []string }

func (t *tx) health(sessions []string) (found health, err error) {
	err = t.query(func(rows *sql.Rows) error {
		var id string
		var over, reachable bool
		err := rows.Scan(&id, &over, &reachable)
		switch {
		case over:
			found.over = append(found.over, id)
		case reachable:
			found.reachable = append(found.reachable, id)
		}
		return err
	}, "owners", array(sessions), boot(), clock())
	return found, err
}

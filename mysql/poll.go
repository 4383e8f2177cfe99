package mysql

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/farsync/farsync/internal/sqlstore"
)

const (
	// What is next in line is looked for after quickest, and then after times that grow with how long its queue has not moved, up to
	// slowest: it is found late by some sixteenth of that. What has others ahead of it is looked for as many times more rarely,
	// but after atMost.
	quickest = 500 * time.Microsecond
	slowest  = 200 * time.Millisecond
	atMost   = time.Second
	part     = 16
	// answered bounds one look.
	answered = 5 * time.Second
)

// poll is the one poller of a session: one request looks for all that its Watches wait for, and there is none if nothing waits. What it
// reads is compared with what the Watch has read, so it misses nothing that comes before its first look. It runs in one goroutine,
// which Drop joins.
func (s *session) poll() {
	var since time.Time // when a Watch has last begun, or what is nearest has moved up
	var nearest int     // how many entries have to go before the first that is waited for
	due := time.Now()
	for {
		ctx, cancel := context.WithDeadline(s.Life, due)
		arrived := s.Waiters.Await(ctx)
		cancel()
		targets, now := s.Waiters.Sought(), time.Now()
		switch {
		case s.Life.Err() != nil:
			return
		case len(targets) == 0:
			due = now.Add(time.Hour) // or when one arrives
		case arrived:
			since, nearest = now, targets[0].Ahead
			for _, t := range targets {
				nearest = min(nearest, t.Ahead)
			}
			if soon := now.Add(pace(0, nearest)); soon.Before(due) {
				due = soon
			}
		default:
			is, err := s.look(targets)
			took := time.Since(now)
			if err == nil && is != nearest {
				since, nearest = now, is
			}
			// No more than half of the time is spent looking.
			due = now.Add(took + max(pace(time.Since(since), nearest), took))
		}
	}
}

// pace returns how long it is to the next look. Chance keeps those apart that began together.
func pace(still time.Duration, ahead int) time.Duration {
	every := min(max(still/part, quickest), slowest).Seconds() * float64(ahead+1)
	return time.Duration(min(every, atMost.Seconds()) * (0.5 + rand.Float64()) * float64(time.Second)) //nolint:gosec,mnd // chance, no secret
}

// look looks for targets, and wakes those whose wait may be over. It returns how many entries have to go before the first.
func (s *session) look(targets []sqlstore.Target) (nearest int, err error) {
	ctx, cancel := context.WithTimeout(s.Life, answered)
	defer cancel()
	type seen struct {
		name  string
		moved bool
		ahead int
	}
	list, err := sqlstore.Collect(ctx, s.Read, func(rows sqlstore.Rows) (is seen, err error) {
		return is, rows.Scan(&is.name, &is.moved, &is.ahead)
	}, "poll", sqlstore.Array(targets))
	var names []string
	nearest = math.MaxInt
	for _, is := range list {
		nearest = min(nearest, is.ahead)
		if is.moved {
			names = append(names, is.name)
		}
	}
	if len(names) > 0 { // none would be all
		s.Waiters.Wake(names)
	}
	return nearest, err
}

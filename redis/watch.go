package redis

import (
	"context"
	"errors"
	"strings"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

const (
	// turnOf begins the ID of an entry that the server does not have: it stands for all that is ahead of a permit, and is
	// gone when the permit is granted.
	turnOf = "the units ahead of "
	// silence is the ID of a second such entry. It is ahead of everything, and gone when the server grants again.
	silence = "the silence after a restart of Redis"

	// pingEvery is how long the subscription is quiet before it has to show that it is alive, in as long.
	pingEvery = 3 * time.Second
	// After a connection that broke the next is made after this time.
	subscribeAgain = 50 * time.Millisecond
)

// nameOf returns the name that is published when a target moves.
func nameOf(t driver.Target) string {
	switch t.What {
	case driver.Registered:
		return "size:" + t.Entry.Queue
	case driver.Joined:
		return "vacant:" + t.Entry.Queue
	}
	if id, ok := strings.CutPrefix(t.Entry.ID, turnOf); ok {
		return "turn:" + id
	}
	return t.Entry.ID
}

// words are the targets in the words of the script.
func words(on []driver.Target) []any {
	var list []any
	for _, t := range on {
		e := t.Entry
		what, of := "gone", e.ID
		switch t.What {
		case driver.Registered:
			what, of = "registered", e.Queue
		case driver.Joined:
			what, of = "joined", e.Queue
		case driver.Changed:
			what = "changed"
		case driver.Told:
			what = "told"
		}
		if id, ok := strings.CutPrefix(of, turnOf); ok {
			what, of = "turn", id
		}
		list = append(list, what, of, e.Version, e.Kind.String())
	}
	return list
}

// Watch waits until a name is published. If Create or Ahead has noted the session for all that it waits for, it makes no
// request. It proves nothing: the caller looks.
func (s *session) Watch(
	ctx context.Context, _ driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	w := &waiter{woken: make(chan struct{}, 1)}
	var targets []driver.Target
	over := time.AfterFunc(time.Hour, w.wake) // of no use, but early for no reason is allowed
	defer over.Stop()
	for _, t := range on {
		if t.Entry.ID == silence {
			over.Reset(time.Until(t.Entry.Since))
			continue
		}
		targets = append(targets, t)
		w.names = append(w.names, nameOf(t))
		if t.What == driver.Told {
			w.names = append(w.names, "ask:"+t.Entry.ID) // published to the session of an entry in any case
		}
	}
	s.mu.Lock()
	s.mail.waiters[w] = struct{}{}
	expected := true
	for _, t := range targets {
		expected = expected && s.mail.expects(t)
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.mail.waiters, w)
	}()
	if !expected {
		a, err := s.eval(ctx, "watch", append([]any{s.id}, words(targets)...)...)
		if err != nil || a.number(0) == 1 {
			return nil, err
		}
	}
	stands()
	return nil, s.await(ctx, w)
}

func (s *session) await(ctx context.Context, w *waiter) error {
	select {
	case <-w.woken:
		return nil
	case <-ctx.Done():
		return notDone(ctx)
	case <-s.life.Done():
		return errEnded
	}
}

// hear hands out what is published to the session until its end. Whenever it has begun to listen anew, all waiters
// look again. It reports how the first subscription has gone. It runs in one goroutine, which stop joins.
func (s *session) hear(first chan<- error) {
	for s.life.Err() == nil {
		l := s.hold()
		sub := l.Subscribe(l.life, s.prefix+"c:"+s.id)
		err := s.listen(l, sub, func() {
			if first != nil {
				first <- nil
				first = nil
			}
		})
		_ = sub.Close()
		if first != nil {
			first <- err
			return
		}
		_ = pause.For(s.life, subscribeAgain)
	}
}

// listen hands out what is published on one connection until it breaks, and calls ready when it is subscribed.
//
// go-redis forgets what it has read of a message when the deadline passes in the middle, and takes the words of the rest for
// answers to pings. So what is no such answer breaks the connection.
func (s *session) listen(l *link, sub *client.PubSub, ready func()) error {
	for asked := false; ; {
		message, err := sub.ReceiveTimeout(l.life, pingEvery)
		if timeout := (interface{ Timeout() bool })(nil); errors.As(err, &timeout) && timeout.Timeout() && !asked {
			asked = true
			err = sub.Ping(l.life)
		} else if err == nil {
			asked = false
		}
		if err != nil {
			return err
		}
		if pong, ok := message.(*client.Pong); ok && pong.Payload != "" && pong.Payload != "PONG" {
			return errTorn
		}
		s.mu.Lock()
		switch m := message.(type) {
		case *client.Message:
			s.mail.take(m.Payload)
		case *client.Subscription:
			s.mail.takeAll()
		}
		s.mu.Unlock()
		if _, ok := message.(*client.Subscription); ok {
			ready()
		}
	}
}

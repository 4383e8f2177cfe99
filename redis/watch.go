package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

// pingEvery is how long the subscription is quiet before it has to show that it is alive, in as long.
const pingEvery = 3 * time.Second

// nameOf returns the name that is published when a target moves.
func nameOf(t driver.Target) string {
	switch t.What {
	case driver.Registered:
		return "size:" + t.Entry.Queue
	case driver.Joined:
		return "vacant:" + t.Entry.Queue
	}
	return t.Entry.ID
}

// Watch waits until a name is published. If the last look of e has noted the session for all that it waits for, it
// makes no request. It proves nothing: the caller looks.
func (s *session) Watch(
	ctx context.Context, e driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	in, over := s.mailbox.take(e.ID), (<-chan time.Time)(nil)
	if in.hears(on) {
		defer s.mailbox.hush(in)
	} else {
		s.mailbox.hush(in)
		args, names := []any{s.id}, make([]string, len(on))
		for i, t := range on {
			args = append(args, int(t.What), t.Entry.ID, t.Entry.Queue, t.Entry.Version, t.Entry.Kind.String())
			names[i] = strings.TrimPrefix(nameOf(t), "turn:") // which is told by the ID of the permit itself
		}
		in = s.mailbox.listen(names...)
		defer s.mailbox.hush(in)
		a, err := s.eval(ctx, "watch", args...)
		if err != nil || a.n == 1 {
			return nil, err
		}
		if rest := a.register.Version; rest > 0 {
			over = time.After(time.Duration(rest) * time.Microsecond)
		}
	}
	stands()
	select {
	case <-in.woken:
		return nil, nil //nolint:nilnil // no proof
	case <-over:
		return nil, nil //nolint:nilnil // no proof
	case <-ctx.Done():
		return nil, notDone(ctx)
	case <-s.life.Done():
		return nil, errEnded
	}
}

// hear hands out what is published to the session until its end. It reports how the first subscription has gone. It
// runs in one goroutine, which Drop joins. Requests may be answered where a subscription is refused, so the session
// lives on without one: then a waiter looks each time that the subscription was refused again.
func (s *session) hear(first chan<- error) {
	var deaf outage
	for s.life.Err() == nil {
		l := s.use()
		l.users.Done() // when no request uses the link any more, there is a better one
		sub := l.SSubscribe(l.life, s.prefix+"c:"+s.id)
		// Of a connection that is being made the client does not know yet when it is closed.
		stop := context.AfterFunc(l.life, func() { _ = sub.Close() })
		stood, err := s.receive(l, sub, first)
		stop()
		_ = sub.Close()
		select {
		case first <- err:
		default:
		}
		refused := s.Outcome(err) == driver.Refused
		long, news := deaf.ended(time.Now(), stood, refused)
		if news && s.life.Err() == nil {
			s.log.Warn("no subscription to redis: locks are handed over late", "cause", err)
		}
		if long && refused {
			s.mailbox.publish(anything)
		}
		_ = pause.For(s.life, deaf.pause/2+rand.N(deaf.pause/2)) // or the Stores of a fleet would all come at once
	}
}

// receive hands out what is published on one connection until it breaks, and reports whether it has begun to listen.
// When it has begun to listen, all waiters look again: what was published while nothing was heard is not known.
//
// go-redis forgets what it has read of a message when the deadline passes in the middle, and takes the words of the
// rest for answers to pings. So what is no such answer breaks the connection.
func (s *session) receive(l *link, sub *client.PubSub, first chan<- error) (stood bool, err error) {
	for asked := false; ; {
		message, err := sub.ReceiveTimeout(l.life, pingEvery)
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() && !asked {
			asked = true
			if err = sub.Ping(l.life); err == nil {
				continue
			}
		}
		if err != nil {
			return stood, err
		}
		asked = false
		switch m := message.(type) {
		case *client.Message:
			s.mailbox.publish(m.Payload)
		case *client.Subscription:
			if m.Kind != "ssubscribe" {
				return stood, errTorn // the slot of the channel has moved to another server
			}
			stood = true
			s.mailbox.publish(anything)
			select {
			case first <- nil:
			default:
			}
		case *client.Pong:
			if m.Payload != "" && m.Payload != "PONG" {
				return stood, errTorn
			}
		}
	}
}

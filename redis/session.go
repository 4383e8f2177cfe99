package redis

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/handshake"
)

// A session is one member of the zset of sessions, as the process that keeps it sees it.
type session struct {
	driver.Optional

	*service
	id   string
	ttl  time.Duration
	life context.Context // the session's own: done when it is closed or dropped
	end  context.CancelFunc
	run  sync.WaitGroup // hear, requests and dials under way; joined by Drop

	mailbox *mailbox

	mu    sync.Mutex
	quiet time.Time      // until then nothing is granted, as the last answer has shown; zero if the server grants
	over  bool           // Invariant: run is not added to once it is true
	link  *link          // in use; replaced by Reset
	known *client.Script // what the server was given last
	from  time.Time
	clock clock

	renewed int    // renewals that were sent
	policy  string // the maxmemory-policy that was warned of, or none
}

func newSession(s *service, ttl time.Duration) *session {
	in := &session{Optional: driver.Unsupported, service: s, id: rand.Text(), ttl: ttl, mailbox: newMailbox()}
	in.life, in.end = context.WithCancel(context.Background())
	in.known, in.link = s.script(""), in.newLink()
	return in
}

// A link is the connections of a session.
type link struct {
	client.UniversalClient
	life  context.Context // the link's own: done when it is cut, or the session ends
	cut   context.CancelFunc
	users sync.WaitGroup // requests under way; not added to once another link is in use
	heard atomic.Int64   // when a request was answered last, in ns of the day
}

// newLink makes a link, which has not dialed yet. go-redis dials in goroutines that know nothing of the caller's ctx.
func (s *session) newLink() *link {
	l := &link{}
	l.life, l.cut = context.WithCancel(s.life)
	o := s.to
	const most = 3 * time.Second // what Drop may have to wait for
	for _, limit := range []*time.Duration{&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout} {
		if *limit <= 0 || *limit > most {
			*limit = most
		}
	}
	dial, direct := dialer(o.Dialer), &net.Dialer{Timeout: o.DialTimeout}
	switch {
	case dial != nil:
		dial = s.functions.dial("Dialer", o.DialTimeout, dial)
	case o.TLSConfig != nil:
		dial = s.functions.dial("TLSConfig", o.DialTimeout, (&tls.Dialer{NetDialer: direct, Config: handshake.Guard(s.functions.log, o.TLSConfig)}).DialContext)
	default:
		dial = direct.DialContext
	}
	s.functions.guard(l.life, &o)
	o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		if !s.enter() {
			return nil, errEnded
		}
		defer s.run.Done()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(l.life, cancel)()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, undialed(address, err)
		}
		return conn, nil
	}
	l.UniversalClient = client.NewUniversalClient(&o)
	s.run.Add(1)
	context.AfterFunc(l.life, func() {
		defer s.run.Done()
		_ = l.Close()
	})
	return l
}

// answersYet is for how long after an answer a link is not replaced.
const answersYet = time.Second

// use returns the link in use, and adds to its users.
func (s *session) use() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link.users.Add(1)
	return s.link
}

// enter adds to run, unless the session is over.
func (s *session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.run.Add(1)
	}
	return !s.over
}

// begin is what Open does: it subscribes before the session is there.
func (s *session) begin(ctx context.Context) error {
	heard := make(chan error, 1)
	s.run.Go(func() { s.hear(heard) })
	select {
	case err := <-heard:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return undialed(fmt.Sprint(s.to.Addrs), context.Cause(ctx))
	}
	return s.renew(ctx, "open")
}

// Granted returns what Open and Renew have noted.
func (s *session) Granted() (time.Duration, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ttl, s.from
}

// Name is the session's, as the server has it.
func (s *session) Name() string { return s.id }

// Silence returns what the last answer has shown. It counts from when that came, so it ends here no sooner than there.
func (s *session) Silence() (until time.Time, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quiet, "the redis server was restarted or replaced, or was not used by farsync before"
}

// noteSilence notes for how long nothing is granted.
func (s *session) noteSilence(left time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quiet = (time.Time{}); left > 0 {
		s.quiet = time.Now().Add(left)
	}
}

// Renew moves the deadline of the session, and ends sessions that have passed theirs.
func (s *session) Renew(ctx context.Context, _ []driver.Entry) error { return s.renew(ctx, "renew") }

// askEvery is how many renewals there are for each that asks for the maxmemory-policy, which an administrator may set
// at any time. There are four renewals in a TTL.
const askEvery = 3

// renew counts from before the request was sent, the server from when it runs the script, which is later.
func (s *session) renew(ctx context.Context, op string) error {
	sent := time.Now()
	s.mu.Lock()
	s.renewed++
	asks := op == "renew" && s.renewed%askEvery == 0
	s.mu.Unlock()
	args := []any{s.id, s.ttl.Microseconds()}
	if asks {
		args = append(args, 1)
	}
	a, err := s.call(ctx, op, args...)
	if err != nil {
		return err
	}
	if asks {
		s.notePolicy(a.register.Value)
	}
	s.mu.Lock()
	if sent.After(s.from) {
		s.from = sent
	}
	step := s.clock.step(a.n, sent, time.Now())
	s.mu.Unlock()
	if step != 0 {
		s.log.Warn("the clock of the redis server was set: a step forward of more than two thirds of the TTL ends sessions early",
			"step", step)
	}
	s.work(ctx, a)
	return nil
}

// notePolicy warns of a policy by which the server may remove locks, and says when it is another. Open refuses such a
// server. Leases go on: nothing is removed before the memory is full, and the next session is refused.
func (s *session) notePolicy(policy string) {
	s.mu.Lock()
	was := s.policy
	s.policy = policy
	s.mu.Unlock()
	switch policy {
	case was:
	case "":
		s.log.Info("the redis server removes no locks any more when its memory is full", "maxmemory-policy was", was)
	default:
		s.log.Warn("the redis server removes locks when its memory is full: two may hold then", "maxmemory-policy", policy, "remedy",
			"noeviction, or a volatile one: no further session is opened before")
	}
}

// Close removes the session and its entries.
func (s *session) Close(ctx context.Context) error {
	defer s.Drop()
	_, err := s.eval(ctx, "close", s.id)
	return err
}

// Drop leaves the session to its deadline.
func (s *session) Drop() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.end()
	s.run.Wait()
}

// Reset has the next requests take other connections. Those under way keep theirs until they are answered or time out:
// an answer that is late counts from when the request was sent, and a service on a line so slow that a new connection
// takes longer than the patience of one attempt would otherwise never answer again.
//
// It does nothing while others on the same link are answered: the request stands in a crowd, and others would wait as
// long. A new link has a new subscription, after which all that waits looks again, so the crowd would grow.
func (s *session) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	old := s.link
	if heard := time.Unix(0, old.heard.Load()); time.Since(heard).Abs() < answersYet {
		return
	}
	s.link = s.newLink()
	s.run.Go(func() {
		old.users.Wait()
		old.cut()
	})
}

// eval makes a request, and does what it leaves to do.
func (s *session) eval(ctx context.Context, op string, args ...any) (answer, error) {
	a, err := s.call(ctx, op, args...)
	s.work(ctx, a)
	return a, err
}

// mostWork is how many parts of the work that is left one request does at most. The next continues.
const mostWork = 64

// work does what a request has left to do, in parts: none of them may keep the server for long. The next renewal of any
// session does the rest.
func (s *session) work(ctx context.Context, a answer) {
	for range mostWork {
		if !a.more {
			return
		}
		a, _ = s.call(ctx, "work")
	}
}

// call makes one attempt, and returns when it is answered or ctx has ended. A request that go-redis does not give up
// then continues in the background until its timeout, or until the session is closed or dropped.
func (s *session) call(ctx context.Context, op string, args ...any) (a answer, err error) {
	if ctx.Err() != nil {
		return a, notDone(ctx)
	}
	if !s.enter() {
		return a, errEnded
	}
	done := make(chan struct{})
	var found answer
	var failed error
	go func() { // joined by Drop
		defer s.run.Done()
		defer close(done)
		found, failed = s.send(ctx, op, args)
	}()
	select {
	case <-done:
		if failed != nil && s.life.Err() != nil {
			failed = fmt.Errorf("%w: %w", errEnded, failed)
		}
		return found, failed
	case <-ctx.Done():
		return a, context.Cause(ctx)
	}
}

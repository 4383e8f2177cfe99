//nolint:forbidigo // in a bubble
package farsync_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/recipe"
)

var (
	playsFlag = flag.Int("plays", 0, "how many random plays TestPlays runs; 0 for 100, and the same 24 with -short")
	playFlag  = flag.Uint64("play", 0, "the seed of the first play; 0 for a random one")
	heldFlag  = flag.Int("held", 0, "further plays, until as many locks were held")
	lateFlag  = flag.Bool("late", false, "whatever goes wrong with a request of a play, it is carried out late or refused")
)

var errPlayRefused = errors.New("permission denied for a while")

// A stage is a service with clients of all primitives, on which everything goes wrong that can.
type stage struct {
	*farsynctest.Mem
	ttl     time.Duration
	exact   bool // nothing takes away what a holder has reason to believe it has
	latency time.Duration
	mixed   bool // paths are taken for those of another kind
	only    int  // what most of the actors do most of the time; everything, if it is more than 11
	clients []*actor
	acts    sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand
	faults float64 // how likely one is
	held   map[string][]*part
	tokens map[string]farsync.Token
	wrong  string
	served int
	failed int
}

// A part is a lease, or a member of one, and what it is of.
type part struct {
	lease interface {
		Err() error
		Release() error
	}
	token farsync.Token
	kind  driver.Kind
	units int64
	size  int64
}

// An actor is one client.
type actor struct {
	*stage
	store    *farsync.Store
	name     string
	mutexes  []*farsync.Mutex
	multi    *farsync.MultiMutex
	again    *farsync.ReentrantMutex
	rw       *farsync.RWMutex
	few      *farsync.Semaphore
	many     *farsync.Semaphore
	sized    *farsync.Semaphore
	election *farsync.Election
}

const (
	stageSmall  = 2 // the sizes that the two users of a semaphore declare
	stageLarge  = 5
	stageLonely = time.Hour // nothing may take longer
)

var stagePaths = []string{"/m/a", "/m/b", "/m/c", "/rw", "/size/two", "/size/one", "/e"}

func (s *stage) complain(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrong == "" {
		s.wrong = fmt.Sprintf(format, args...)
	}
}

func (s *stage) chance(p float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.Float64() < p
}

func (s *stage) upTo(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

// moment returns a time of at least a millisecond, mostly short, at times long.
func (s *stage) moment() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := []time.Duration{3 * time.Millisecond, 60 * time.Millisecond, 400 * time.Millisecond, s.ttl}[s.random.IntN(4)]
	return time.Millisecond + time.Duration(s.random.Int64N(int64(most)))
}

// fault is what becomes of a request.
func (s *stage) fault(op farsynctest.Op) farsynctest.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.random.Float64() >= s.faults {
		return farsynctest.None
	}
	what := s.random.IntN(11)
	if *lateFlag {
		what = []int{4, 12}[what%2]
	}
	switch what {
	case 0, 1:
		return farsynctest.LoseRequest
	case 2, 3:
		return farsynctest.LoseReply
	case 4, 5:
		return farsynctest.Late(s.random.IntN(40))
	case 6:
		if s.random.IntN(3) == 0 {
			return farsynctest.Refuse(errPlayRefused)
		}
		return farsynctest.LoseReply
	case 7:
		return farsynctest.Fail(driver.NotDone, errors.New("not now"))
	case 8:
		return farsynctest.Delay(time.Duration(s.random.Int64N(int64(s.ttl) / 2)))
	case 9:
		if s.random.IntN(10) == 0 && op.Kind != farsynctest.OpenSession {
			return farsynctest.Fail(driver.Expired, errors.New("no such session")) // from a server that is mistaken
		}
		return farsynctest.None
	case 12:
		return farsynctest.Refuse(errPlayRefused)
	default:
		return farsynctest.Silence(s.random.IntN(2) == 0)
	}
}

// operate lets things happen to the service, until end.
func (s *stage) operate(end time.Time) {
	for time.Now().Before(end) {
		time.Sleep(s.moment())
		a := s.clients[s.upTo(len(s.clients))]
		path := stagePaths[s.upTo(len(stagePaths))]
		list := s.Entries(path)
		switch s.upTo(6) {
		case 0:
			s.PartitionClient(a.name, true)
			time.Sleep(s.moment())
			if s.chance(0.2) {
				time.Sleep(2 * s.ttl)
			}
			s.PartitionClient(a.name, false)
		case 1:
			id := s.AddForeign(path, "other")
			time.Sleep(s.moment())
			s.Delete(id)
		case 2:
			if len(list) > 0 {
				s.Touch(list[s.upTo(len(list))].ID)
			}
		case 3:
			if !s.exact {
				s.Expire(a.store)
			}
		case 5:
			s.visit()
		case 4:
			if !s.exact && len(list) > 0 {
				s.Delete(list[s.upTo(len(list))].ID)
			}
		}
	}
}

// visit has another client come, wait and hold, and go without a word.
func (s *stage) visit() {
	service := s.Service(fmt.Sprint("visitor-", s.upTo(1<<30)))
	store, err := farsync.Open(context.Background(), service, &farsync.Options{TTL: s.ttl})
	if err != nil {
		return
	}
	var gone sync.WaitGroup
	for _, path := range stagePaths[:4] {
		lock, kind := farsync.NewMutex(store, path).Lock, driver.Exclusive
		if path == "/rw" {
			lock, kind = farsync.NewRWMutex(store, path).Lock, driver.Write
		}
		for range 2 {
			gone.Go(func() {
				lease, err := lock(context.Background())
				switch {
				case err == nil:
					p := &part{lease: lease, token: lease.Token(), kind: kind, units: 1}
					s.rise(path, p)
					s.enter(path, p)
					if <-lease.Done(); !errors.Is(lease.Err(), farsync.ErrLost) && !errors.Is(lease.Err(), farsync.ErrClosed) {
						s.complain("the end of a visit: %v", lease.Err())
					}
				case s.mixed && errors.Is(err, farsync.ErrKind):
				case !errors.Is(err, farsync.ErrClosed) && !errors.Is(err, errPlayRefused):
					s.complain("a visit: %v", err)
				}
			})
		}
	}
	time.Sleep(s.moment())
	began := time.Now()
	if err := store.Close(); err != nil && !errors.Is(err, farsync.ErrUnavailable) && !errors.Is(err, errPlayRefused) {
		s.complain("the end of a visit: %v", err)
	}
	if took := time.Since(began); took > s.ttl/3+2*s.latency {
		s.complain("Close took %v", took)
	}
	gone.Wait()
	if took := time.Since(began); took > s.ttl/3+2*s.latency+100*time.Millisecond {
		s.complain("some went on for %v after Close", took)
	}
}

// enter notes that p holds, and looks for what must not be.
func (s *stage) enter(path string, p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served++
	s.held[path] = append(slices.DeleteFunc(s.held[path], func(o *part) bool { return o.lease.Err() != nil }), p)
	s.look(path, p)
}

// look compares p with all others that hold. The caller holds mu.
func (s *stage) look(path string, p *part) {
	if !s.exact || p.lease.Err() != nil || s.wrong != "" {
		return
	}
	units := int64(0)
	for _, o := range s.held[path] {
		if o.lease.Err() != nil {
			continue
		}
		units += o.units
		switch {
		case o == p, p.kind == driver.Read && o.kind == driver.Read:
		case p.kind == driver.Permit && o.kind == driver.Permit:
		default:
			s.wrong = fmt.Sprintf("%s: two hold, a %v with token %d and a %v with %d",
				path, p.kind, p.token, o.kind, o.token)
		}
	}
	if p.kind == driver.Permit && units > p.size {
		s.wrong = fmt.Sprintf("%s: %d units of %d are held", path, units, p.size)
	}
}

// rise looks at the token of one that has just come to hold alone.
func (s *stage) rise(path string, p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exact && p.lease.Err() == nil && p.token <= s.tokens[path] && s.wrong == "" {
		s.wrong = fmt.Sprintf("%s: token %d after %d", path, p.token, s.tokens[path])
	}
	s.tokens[path] = max(s.tokens[path], p.token)
}

// become notes that p is of another kind now.
func (s *stage) become(path string, p *part, k driver.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.kind = k
	s.look(path, p)
}

// demand calls f with a context that may end early, and looks at how long it takes to return and at its error.
func demand[T any](a *actor, what string, f func(context.Context) (T, error), allowed ...error) (T, bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	canceled := false
	var ended time.Time
	var mu sync.Mutex
	switch a.upTo(6) {
	case 0, 1:
		wait := a.moment()
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, wait)
		defer stop()
		ended = time.Now().Add(wait)
	case 2:
		t := time.AfterFunc(a.moment(), func() {
			mu.Lock()
			canceled, ended = true, time.Now()
			mu.Unlock()
			cancel()
		})
		defer t.Stop()
	}
	began := time.Now()
	v, err := f(ctx)
	mu.Lock()
	defer mu.Unlock()
	switch late := time.Since(ended); {
	case ctx.Err() != nil && late > 2*a.latency:
		a.complain("%s: returned %v after its ctx had ended: %v", what, late, err)
	case time.Since(began) > stageLonely:
		a.complain("%s: took %v: %v", what, time.Since(began), err)
	case err == nil:
		return v, true
	}
	a.mu.Lock()
	a.failed++
	a.mu.Unlock()
	allowed = append(allowed, errPlayRefused)
	if a.mixed {
		allowed = append(allowed, farsync.ErrKind)
	}
	is := func(target error) bool { return errors.Is(err, target) }
	_, silent := errors.AsType[*recipe.Silence](err) // the service grants nothing, which a call that does not wait is told at once
	switch {
	case is(context.DeadlineExceeded) && (ctx.Err() == nil || canceled):
		a.complain("%s: a deadline that the caller has not set: %v", what, err)
	case is(context.Canceled) && !canceled:
		a.complain("%s: a cancel that was none of the caller's: %v", what, err)
	case ctx.Err() != nil && is(ctx.Err()):
	case recipe.IsStuck(err) && slices.Contains(allowed, farsync.ErrLocked):
		// A Try does not wait for the removal of an entry which its own Store has given up, and nothing is known of the lock.
	case !slices.ContainsFunc(allowed, is):
		a.complain("%s: %v", what, err)
	case is(farsync.ErrUnavailable) && !silent:
		a.complain("%s: unavailable though the caller has not given up: %v", what, err)
	}
	return v, false
}

// play does one thing after another, until end.
func (a *actor) play(end time.Time) {
	for time.Now().Before(end) {
		what := a.upTo(12)
		if a.mixed && a.chance(0.2) {
			a.intrude()
		}
		if a.only < 12 && a.chance(0.8) {
			what = a.only
		}
		switch what {
		case 0, 1, 2:
			a.mutex(a.mutexes[a.upTo(len(a.mutexes))])
		case 3:
			a.together()
		case 4:
			a.reenter()
		case 5, 6:
			a.write()
		case 7:
			a.read()
		case 8:
			a.permit("/size/two", a.few, stageSmall)
		case 9:
			a.permit("/size/two", a.many, stageLarge)
		case 10:
			a.sizes()
		case 11:
			a.stand()
		}
		if a.chance(0.5) {
			time.Sleep(a.moment())
		}
	}
}

// leave ends p.
func (a *actor) leave(what string, p *part) {
	if a.chance(0.02) {
		time.Sleep(a.ttl) // slow
	}
	was := p.lease.Err()
	began := time.Now()
	err := p.lease.Release()
	switch took := time.Since(began); {
	case took > a.ttl/3+2*a.latency:
		a.complain("release of %s took %v", what, took)
	case errors.Is(err, farsync.ErrLost) && errors.Is(err, farsync.ErrUncertain): // a downgrade that was given up
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		a.complain("release of %s: %v", what, err)
	case err == nil && was != nil:
		a.complain("release of %s is nil, but %v was the end", what, was)
	case err == nil, errors.Is(err, farsync.ErrUnavailable), errors.Is(err, errPlayRefused):
	case errors.Is(err, farsync.ErrLost):
		if what != "all together" && was == nil && a.exact && took == 0 && a.latency == 0 {
			a.complain("release of %s: lost out of nothing: %v", what, err)
		}
	default:
		a.complain("release of %s: %v", what, err)
	}
	if p.lease.Err() == nil {
		a.complain("%s is held after its release", what)
	}
}

func (a *actor) mutex(m *farsync.Mutex) {
	path := stagePaths[slices.Index(a.mutexes, m)]
	if a.chance(0.2) {
		m = farsync.NewMutex(a.store, path) // a value of its own
	}
	lock, allowed := m.Lock, []error{}
	if a.chance(0.3) {
		lock, allowed = m.TryLock, []error{farsync.ErrLocked}
	}
	lease, ok := demand(a, "lock "+path, lock, allowed...)
	if !ok {
		return
	}
	p := &part{lease: lease, token: lease.Token(), kind: driver.Exclusive, units: 1}
	a.rise(path, p)
	a.enter(path, p)
	if a.chance(0.1) {
		_ = lease.Asked()
		_, _ = demand(a, "ask", func(ctx context.Context) (struct{}, error) { return struct{}{}, a.store.Ask(ctx, path) })
	}
	time.Sleep(a.moment())
	a.leave(path, p)
}

func (a *actor) together() {
	lease, ok := demand(a, "lock together", a.multi.Lock, farsync.ErrLost)
	if !ok {
		return
	}
	for i, path := range stagePaths[:len(a.mutexes)] {
		p := &part{lease: lease, token: lease.Tokens()[i], kind: driver.Exclusive, units: 1}
		a.rise(path, p)
		a.enter(path, p)
	}
	time.Sleep(a.moment())
	a.leave("all together", &part{lease: lease})
}

func (a *actor) reenter() {
	path := stagePaths[0]
	lease, ok := demand(a, "lock again and again", a.again.Lock)
	if !ok {
		return
	}
	p := &part{lease: lease, token: lease.Token(), kind: driver.Exclusive, units: 1}
	a.rise(path, p)
	a.enter(path, p)
	more, err := a.again.TryLock(context.Background())
	if err != nil && lease.Err() == nil {
		a.complain("an owner that holds is refused: %v", err)
	}
	time.Sleep(a.moment())
	a.leave(path, p)
	if more != nil {
		time.Sleep(a.moment())
		a.leave(path, &part{lease: more})
	}
}

func (a *actor) write() {
	lock, allowed := a.rw.Lock, []error{}
	if a.chance(0.3) {
		lock, allowed = a.rw.TryLock, []error{farsync.ErrLocked}
	}
	lease, ok := demand(a, "write", lock, allowed...)
	if !ok {
		return
	}
	p := &part{lease: lease, token: lease.Token(), kind: driver.Write, units: 1}
	a.rise("/rw", p)
	a.enter("/rw", p)
	time.Sleep(a.moment())
	if a.chance(0.5) {
		a.become("/rw", p, driver.Read)
		_, ok := demand(a, "downgrade", func(ctx context.Context) (struct{}, error) {
			return struct{}{}, a.rw.Downgrade(ctx, lease)
		}, farsync.ErrLost)
		if !ok && lease.Err() == nil {
			a.become("/rw", p, driver.Write)
		}
		time.Sleep(a.moment())
	}
	a.leave("/rw", p)
}

func (a *actor) read() {
	lock, allowed := a.rw.RLock, []error{}
	if a.chance(0.3) {
		lock, allowed = a.rw.TryRLock, []error{farsync.ErrLocked}
	}
	lease, ok := demand(a, "read", lock, allowed...)
	if !ok {
		return
	}
	p := &part{lease: lease, token: lease.Token(), kind: driver.Read, units: 1}
	a.enter("/rw", p)
	time.Sleep(a.moment())
	a.leave("/rw", p)
}

func (a *actor) permit(path string, sem *farsync.Semaphore, size int64) {
	n := 1 + int64(a.upTo(int(size)))
	acquire, allowed := sem.Acquire, []error{farsync.ErrSize, farsync.ErrKind} // a stranger may be at the head
	if a.chance(0.3) {
		acquire, allowed = sem.TryAcquire, append(allowed, farsync.ErrLocked)
	}
	if path == "/size/one" {
		allowed = append(allowed, farsync.ErrTooLarge)
	}
	lease, ok := demand(a, "acquire "+path, func(ctx context.Context) (*farsync.Lease, error) { return acquire(ctx, n) }, allowed...)
	if !ok {
		return
	}
	p := &part{lease: lease, token: lease.Token(), kind: driver.Permit, units: n, size: size}
	a.enter(path, p)
	time.Sleep(a.moment())
	a.leave(path, p)
}

// intrude takes a path for that of another kind.
func (a *actor) intrude() {
	path := stagePaths[a.upTo(len(stagePaths))]
	try := a.chance(0.3)
	var kind driver.Kind
	var acquire func(context.Context) (*farsync.Lease, error)
	switch kind = []driver.Kind{driver.Exclusive, driver.Write, driver.Read, driver.Permit, driver.Candidate}[a.upTo(5)]; kind {
	case driver.Exclusive:
		acquire = either(try, farsync.NewMutex(a.store, path).TryLock, farsync.NewMutex(a.store, path).Lock)
	case driver.Write:
		acquire = either(try, farsync.NewRWMutex(a.store, path).TryLock, farsync.NewRWMutex(a.store, path).Lock)
	case driver.Read:
		acquire = either(try, farsync.NewRWMutex(a.store, path).TryRLock, farsync.NewRWMutex(a.store, path).RLock)
	case driver.Permit:
		acquire = func(ctx context.Context) (*farsync.Lease, error) {
			return farsync.NewSemaphore(a.store, path, stageSmall).Acquire(ctx, 1)
		}
	default:
		acquire = func(ctx context.Context) (*farsync.Lease, error) {
			return farsync.NewElection(a.store, path).Campaign(ctx, "")
		}
	}
	lease, ok := demand(a, "intrude on "+path, acquire, farsync.ErrLocked, farsync.ErrSize)
	if !ok {
		return
	}
	p := &part{lease: lease, token: lease.Token(), kind: kind, units: 1, size: stageSmall}
	a.enter(path, p)
	time.Sleep(a.moment())
	a.leave(path, p)
}

func either[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

func (a *actor) sizes() {
	if a.chance(0.2) {
		allowed := []error{farsync.ErrKind} // a stranger may be at the head
		if a.mixed {
			allowed = append(allowed, farsync.ErrSize)
		}
		_, _ = demand(a, "resize", func(ctx context.Context) (struct{}, error) {
			return struct{}{}, a.sized.Resize(ctx, 1+int64(a.upTo(stageLarge)))
		}, allowed...)
	}
	a.permit("/size/one", a.sized, stageLarge)
}

func (a *actor) stand() {
	value := fmt.Sprint("first ", a.upTo(1000))
	lease, ok := demand(a, "campaign", func(ctx context.Context) (*farsync.Lease, error) {
		return a.election.Campaign(ctx, value)
	})
	if !ok {
		return
	}
	p := &part{lease: lease, token: lease.Token(), kind: driver.Candidate, units: 1}
	a.rise("/e", p)
	a.enter("/e", p)
	sure := true
	for a.chance(0.7) {
		next := fmt.Sprint(a.upTo(3))
		if _, ok := demand(a, "proclaim", func(ctx context.Context) (struct{}, error) {
			return struct{}{}, a.election.Proclaim(ctx, lease, next)
		}, farsync.ErrLost); ok {
			value, sure = next, true
		} else {
			sure = false
		}
	}
	time.Sleep(a.moment())
	for _, e := range a.Entries("/e") {
		if sure && lease.Err() == nil && e.Revision == lease.Token().Revision() && string(e.Value) != value {
			a.complain("proclaimed %q, and %q is seen", value, e.Value)
		}
	}
	a.leave("/e", p)
}

// settles waits for the acts, all of which must end now that nothing goes wrong any more.
func (s *stage) settles() {
	done := make(chan struct{})
	go func() {
		s.acts.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * stageLonely):
		s.complain("some wait for ever")
		for _, a := range s.clients {
			_ = a.store.Close()
		}
		<-done
	}
}

// afterwards looks at what is left: every client can lock, and nothing stands in a queue.
func (s *stage) afterwards() {
	for range 100 { // what is late comes now
		for _, a := range s.clients {
			_, _ = a.store.Participants(context.Background(), stagePaths[0])
		}
	}
	time.Sleep(5 * s.ttl)
	for _, path := range stagePaths {
		if list := s.Entries(path); len(list) > 0 {
			s.complain("%d entries are left in %s: %v", len(list), path, list)
		}
	}
	for _, a := range s.clients {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		for _, path := range stagePaths[:3] {
			lease, err := farsync.NewMutex(a.store, path).Lock(ctx)
			if err != nil {
				s.complain("cannot lock afterwards: %v", err)
				continue
			}
			if err := lease.Release(); err != nil {
				s.complain("cannot release afterwards: %v", err)
			}
		}
		cancel()
		if a.store.State() != farsync.StateConnected {
			s.complain("%v afterwards", a.store.State())
		}
	}
}

// perform is one play, all of whose choices come from seed but those of the scheduler.
func perform(t *testing.T, seed uint64) (wrong string, served, failed int) {
	synctest.Test(t, func(*testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		s := &stage{
			Mem: farsynctest.NewMem(), random: random, held: map[string][]*part{}, tokens: map[string]farsync.Token{},
			ttl:     []time.Duration{time.Second, 3 * time.Second, 10 * time.Second}[random.IntN(3)],
			latency: []time.Duration{0, 0, time.Millisecond, 20 * time.Millisecond}[random.IntN(4)],
			exact:   random.IntN(3) > 0,
			only:    random.IntN(24),
			faults:  []float64{0, 0.02, 0.1, 0.3}[random.IntN(4)],
			mixed:   random.IntN(6) == 0,
		}
		for i := range 2 + random.IntN(3) {
			a := &actor{stage: s, name: fmt.Sprint("client-", i)}
			a.store = s.Open(&farsynctest.MemOptions{Options: farsync.Options{TTL: s.ttl, Holder: a.name}})
			for _, path := range stagePaths[:3] {
				a.mutexes = append(a.mutexes, farsync.NewMutex(a.store, path))
			}
			a.multi = farsync.NewMultiMutex(a.mutexes...)
			a.again = farsync.NewReentrantMutex(a.store, stagePaths[0])
			a.rw = farsync.NewRWMutex(a.store, "/rw")
			a.few = farsync.NewSemaphore(a.store, "/size/two", stageSmall)
			a.many = farsync.NewSemaphore(a.store, "/size/two", stageLarge)
			a.sized = farsync.NewSemaphore(a.store, "/size/one", stageLarge)
			a.election = farsync.NewElection(a.store, "/e")
			s.clients = append(s.clients, a)
		}
		s.SetLatency(s.latency)
		s.SetFault(s.fault)
		end := time.Now().Add(5 * time.Second)
		for _, a := range s.clients {
			for range 1 + s.upTo(4) {
				s.acts.Go(func() { a.play(end) })
			}
		}
		s.operate(end)
		s.SetFault(nil)
		s.settles()
		if s.wrong == "" {
			s.afterwards()
		}
		for _, a := range s.clients {
			if err := a.store.Close(); err != nil {
				s.complain("close: %v", err)
			}
		}
		time.Sleep(time.Minute) // for sessions that were being opened
		if entries, sessions, watches := s.Left(); entries+sessions+watches > 0 {
			s.complain("left are %d entries, %d sessions, %d watches", entries, sessions, watches)
		}
		wrong, served, failed = s.wrong, s.served, s.failed
	})
	return wrong, served, failed
}

// TestPlays has clients use everything at once while requests and clients fail in every way, and sees to what must always
// hold: -plays says how often.
func TestPlays(t *testing.T) { repeat(t, suite.More(t, suite.Model), perform) }

// repeat makes as many plays as -plays says, and more until as many locks were held as -held says.
func repeat(t *testing.T, many bool, one func(t *testing.T, seed uint64) (wrong string, served, failed int)) {
	t.Helper()
	first, plays := *playFlag, *playsFlag
	if first == 0 {
		first = 1
		if many {
			first = rand.Uint64N(1 << 40)
		}
	}
	if plays == 0 {
		plays = 24
		if many {
			plays = 100
		}
	}
	played, served, failed := 0, 0, 0
	for ; played < plays || served < *heldFlag; played++ {
		seed := first + uint64(played)
		wrong, ok, not := one(t, seed)
		served, failed = served+ok, failed+not
		if wrong != "" {
			t.Fatalf("-play=%d: %s", seed, wrong)
		}
	}
	t.Logf("%d plays from %d: %d held, %d calls failed", played, first, served, failed)
}

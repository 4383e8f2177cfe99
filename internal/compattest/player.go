// Package compattest plays this farsync and an earlier one in the same queues. What one of them writes into a service has
// to mean the same to the other, or a cluster could not be upgraded one process at a time.
//
// A player is a process that does what it is told on its standard input. This package is compiled twice: with the module
// as it is, and by the test with the earlier one. So it uses nothing that is not in both.
package compattest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/zk"
)

// Variable names the environment variable with the Settings of a player, in JSON.
const Variable = "FARSYNC_COMPATTEST_PLAYER"

// Settings say on what a player opens its Store.
type Settings struct {
	Backend string // etcd or zk
	Server  string
	Holder  string
	TTL     time.Duration
}

// A Move is what a player is told to do.
type Move struct {
	ID    int    // of the move, and of the lease that it gets
	Do    string // one of the words that do knows
	Path  string
	Of    int    // the ID of the move that this one is about; or under whose lease it gets another
	Units int64  // of a semaphore
	Size  int64  // of a semaphore
	Value string // of a candidate; or the name of one of several values of a primitive on the path
}

// An Answer is how a move has ended. To observe is answered many times.
type Answer struct {
	ID    int
	Err   string // empty if it has succeeded
	Is    string // which of named Err is
	Token int64  // a number in JSON, as an earlier farsync writes a token
	Value string
	Queue []string // one line for each participant
}

var named = map[string]error{
	"locked": farsync.ErrLocked, "lost": farsync.ErrLost, "size": farsync.ErrSize, "too large": farsync.ErrTooLarge,
	"no leader": farsync.ErrNoLeader, "canceled": context.Canceled,
}

// Play opens a Store and makes the moves that in tells, each in a goroutine of its own, until in ends. Then it gives up
// what is not answered yet, and closes the Store.
func Play(settings string, in io.Reader, out io.Writer) error {
	var with Settings
	if err := json.Unmarshal([]byte(settings), &with); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store, closeAll, err := with.open(ctx)
	if err != nil {
		return err
	}
	p := &player{
		store: store, primitives: primitivesOn(store, farsync.NewMutex, farsync.NewRWMutex, farsync.NewSemaphore, farsync.NewElection),
		mutexes: map[[2]string]*farsync.Mutex{}, rws: map[[2]string]*farsync.RWMutex{},
		leases: map[int]*farsync.Lease{}, cancels: map[int]context.CancelFunc{},
		out: json.NewEncoder(out),
	}
	var all sync.WaitGroup
	for moves := json.NewDecoder(in); ; {
		var m Move
		err := moves.Decode(&m)
		if err != nil {
			cancel()
			all.Wait()
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, closeAll())
		}
		under := p.begin(ctx, m.ID) // before the next move is read, which may give this one up
		all.Go(func() {
			a, err := p.do(under, m)
			a.ID = m.ID
			p.answer(a, err)
		})
	}
}

// open opens a Store, and returns what closes it.
func (s Settings) open(ctx context.Context) (store any, closeAll func() error, err error) {
	if s.Backend == "zk" {
		var options zk.Options
		options.TTL, options.Holder = s.TTL, s.Holder
		store, err := zk.Open(ctx, []string{s.Server}, &options)
		if err != nil {
			return nil, nil, err
		}
		return store, store.Close, nil
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Server}, Logger: zap.NewNop()})
	if err != nil {
		return nil, nil, err
	}
	var options etcd.Options
	options.TTL, options.Holder = s.TTL, s.Holder
	opened, err := etcd.Open(ctx, client, &options)
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return opened, func() error { return errors.Join(opened.Close(), client.Close()) }, nil
}

// primitives makes primitives on a Store.
type primitives struct {
	newMutex     func(path string) *farsync.Mutex
	newRWMutex   func(path string) *farsync.RWMutex
	newSemaphore func(path string, size int64) *farsync.Semaphore
	newElection  func(path string) *farsync.Election
}

// primitivesOn has the constructors make primitives on store. S is the type of a Store to them, which has changed.
func primitivesOn[S any](
	store any, mutex func(S, string) *farsync.Mutex, rw func(S, string) *farsync.RWMutex,
	semaphore func(S, string, int64) *farsync.Semaphore, election func(S, string) *farsync.Election,
) primitives {
	on, ok := store.(S)
	if !ok {
		panic(fmt.Sprintf("compattest: no primitives on a %T", store))
	}
	return primitives{
		func(path string) *farsync.Mutex { return mutex(on, path) },
		func(path string) *farsync.RWMutex { return rw(on, path) },
		func(path string, size int64) *farsync.Semaphore { return semaphore(on, path, size) },
		func(path string) *farsync.Election { return election(on, path) },
	}
}

// A player makes moves on one Store.
type player struct {
	primitives

	store   any // the Store that they are on
	mu      sync.Mutex
	mutexes map[[2]string]*farsync.Mutex // by path and name, so that goroutines take turns
	rws     map[[2]string]*farsync.RWMutex
	leases  map[int]*farsync.Lease     // by the ID of the move
	cancels map[int]context.CancelFunc // by the ID of the move
	out     *json.Encoder
}

// begin returns the context of a move.
func (p *player) begin(ctx context.Context, id int) context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, p.cancels[id] = context.WithCancel(ctx)
	return ctx
}

// answer writes one answer, of a move that has ended with err.
func (p *player) answer(a Answer, err error) {
	if err != nil {
		a.Err = err.Error()
		for name, is := range named {
			if errors.Is(err, is) {
				a.Is = name
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.out.Encode(a) // if the other end does not read, the input ends too
}

func (p *player) mutex(m Move) *farsync.Mutex {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := [2]string{m.Path, m.Value}
	if p.mutexes[key] == nil {
		p.mutexes[key] = p.newMutex(m.Path)
	}
	return p.mutexes[key]
}

func (p *player) rw(m Move) *farsync.RWMutex {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := [2]string{m.Path, m.Value}
	if p.rws[key] == nil {
		p.rws[key] = p.newRWMutex(m.Path)
	}
	return p.rws[key]
}

// lease returns the lease that a move got.
func (p *player) lease(id int) *farsync.Lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leases[id]
}

// do makes a move.
func (p *player) do(ctx context.Context, m Move) (a Answer, err error) {
	semaphore := func() *farsync.Semaphore { return p.newSemaphore(m.Path, m.Size) }
	election := func() *farsync.Election { return p.newElection(m.Path) }
	switch m.Do {
	case "release":
		return a, p.lease(m.Of).Release()
	case "downgrade":
		return a, p.rw(m).Downgrade(ctx, p.lease(m.Of))
	case "proclaim":
		return a, proclaim(ctx, election().Proclaim, p.lease(m.Of), m.Value)
	case "give up":
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cancels[m.Of]()
		return a, nil
	case "ask":
		return a, p.looker(m).ask(ctx)
	case "asked":
		select {
		case <-p.lease(m.Of).Asked():
			return a, nil
		case <-ctx.Done():
			return a, ctx.Err()
		}
	case "resize":
		return a, semaphore().Resize(ctx, m.Units)
	case "leader":
		leader, err := election().Leader(ctx)
		return Answer{Value: string(leader.Value), Token: int64(leader.Token)}, err //nolint:unconvert // bytes in an earlier farsync
	case "observe":
		for leader, err := range election().Observe(ctx) {
			if err == nil && leader.Token == 0 {
				err = farsync.ErrNoLeader // as the farsync of before says it
			}
			p.answer(Answer{ID: m.ID, Value: string(leader.Value), Token: int64(leader.Token)}, err) //nolint:unconvert // bytes in an earlier farsync
		}
		return a, ctx.Err()
	case "queue":
		a.Queue, err = lines(p.looker(m).participants(ctx))
		return a, err
	}
	lease, err := p.get(ctx, m)
	if err != nil {
		return a, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leases[m.ID] = lease
	return Answer{Token: int64(lease.Token())}, nil
}

// get makes a move that gets a lease.
func (p *player) get(ctx context.Context, m Move) (*farsync.Lease, error) {
	if m.Of != 0 {
		var cancel context.CancelFunc
		ctx, cancel = p.lease(m.Of).Context(ctx)
		defer cancel()
	}
	switch m.Do {
	case "lock":
		return p.mutex(m).Lock(ctx)
	case "try lock":
		return p.mutex(m).TryLock(ctx)
	case "write":
		return p.rw(m).Lock(ctx)
	case "try write":
		return p.rw(m).TryLock(ctx)
	case "read":
		return p.rw(m).RLock(ctx)
	case "try read":
		return p.rw(m).TryRLock(ctx)
	case "acquire":
		return p.newSemaphore(m.Path, m.Size).Acquire(ctx, m.Units)
	case "try acquire":
		return p.newSemaphore(m.Path, m.Size).TryAcquire(ctx, m.Units)
	case "campaign":
		return campaign(ctx, p.newElection(m.Path).Campaign, m.Value)
	default:
		return nil, fmt.Errorf("no move: %q", m.Do)
	}
}

// A looker is what operators' calls are made on.
type looker struct {
	ask          func(ctx context.Context) error
	participants func(ctx context.Context) ([]farsync.Participant, error)
}

// looker returns how this player's farsync asks for the path of a move, and lists its queue: by its Store now, by a
// primitive before.
func (p *player) looker(m Move) looker {
	if store, ok := p.store.(interface {
		Ask(ctx context.Context, path string) error
		Participants(ctx context.Context, path string) ([]farsync.Participant, error)
	}); ok {
		return looker{
			func(ctx context.Context) error { return store.Ask(ctx, m.Path) },
			func(ctx context.Context) ([]farsync.Participant, error) { return store.Participants(ctx, m.Path) },
		}
	}
	mutex := any(p.mutex(m))
	list := mutex
	if m.Size > 0 {
		list = p.newSemaphore(m.Path, m.Size)
	}
	return looker{
		mutex.(interface {
			Ask(ctx context.Context) error
		}).Ask,
		list.(interface {
			Participants(ctx context.Context) ([]farsync.Participant, error)
		}).Participants,
	}
}

// campaign and proclaim give a value in the type that the farsync of this player takes: bytes before, a string now.
func campaign[V []byte | string](
	ctx context.Context, call func(context.Context, V) (*farsync.Lease, error), value string,
) (*farsync.Lease, error) {
	return call(ctx, V(value))
}

func proclaim[V []byte | string](
	ctx context.Context, call func(context.Context, *farsync.Lease, V) error, lease *farsync.Lease, value string,
) error {
	return call(ctx, lease, V(value))
}

// lines returns a line for each participant, with all that is known of it.
func lines(list []farsync.Participant, err error) ([]string, error) {
	var text []string
	for _, p := range list {
		text = append(text, fmt.Sprintf("%s: %v, %d units, held %t, token %d, since %s",
			p.Holder, p.Kind, p.Units, p.Held, p.Token, p.Since.UTC().Format(time.RFC3339Nano)))
	}
	return text, err
}

package farsync

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/recipe"
)

// ErrNoLeader is the error of an election without candidates.
var ErrNoLeader = errors.New("no leader")

// An Election makes one of many candidates the leader, until it resigns or is lost. Curator calls it LeaderLatch, and
// takes part in the same election; so do etcdctl elect and concurrency.Election.
//
// Candidates lead in the order in which they came. Leadership is never handed off within a process.
//
// All methods may be called by many goroutines at once.
type Election struct {
	store *Store
	path  string
}

// NewElection returns an election on path, with the same rules for the arguments as NewMutex.
func NewElection(store *Store, path string) *Election {
	check("NewElection", store)
	return &Election{store, path}
}

// Campaign stands for election, waits until elected, and returns a lease on the leadership: its Release resigns. The
// value is what observers see, 64 KiB at most; nil means the Holder of the store. The errors, and the state after one,
// are those of Mutex.Lock.
func (e *Election) Campaign(ctx context.Context, value []byte) (*Lease, error) {
	request := recipe.Request{Queue: e.path, Kind: driver.Candidate, Units: 1, Value: value}
	return acquire(ctx, "campaign", built(e.store, "NewElection"), &request)
}

var errNotLeader = errors.New("not a lease of this election")

// Proclaim changes the value that observers see, while lease leads. If ctx ends before the service answers, the error wraps
// ErrUnknown: the value may have changed, or may change later. If the lease ends while the request is under way, the error is that of
// Lease.Err: ErrReleased, ErrClosed, or one that wraps ErrLost. Then, too, the value may have changed. After any other error it has
// not. Proclaim ends no lease, unless the error wraps ErrLost.
//
// Do not use it where a LeaderLatch of Curator's may wait right behind the leader. The latch takes the change for the event
// that it waits for, and does not watch again. It then learns that it leads only when its connection breaks.
func (e *Election) Proclaim(ctx context.Context, lease *Lease, value []byte) error {
	if lease == nil || lease.store != built(e.store, "NewElection") || lease.path != e.path {
		return wrap("proclaim", e.path, errNotLeader)
	}
	if value == nil {
		value = []byte{}
	}
	return wrap("proclaim", e.path, lease.hold.Change(ctx, driver.Candidate, value))
}

// Lead campaigns, runs fn while it leads, waits for fn to return, and resigns. The context that fn gets is done when ctx
// is, or when the leadership is lost; fn must then stop at once. The next leader is elected no sooner than Lead resigns or
// the leadership is lost.
//
// If the leadership was lost while fn ran, Lead campaigns again once fn has returned, and runs it again. Otherwise it
// returns what fn returned; or why it could not campaign, as Campaign does.
func (e *Election) Lead(ctx context.Context, value []byte, fn func(ctx context.Context, lease *Lease) error) error {
	for {
		lost, err := e.term(ctx, value, fn)
		if !lost || ctx.Err() != nil {
			return err
		}
	}
}

// term is one time of leadership.
func (e *Election) term(
	ctx context.Context, value []byte, fn func(ctx context.Context, lease *Lease) error,
) (lost bool, err error) {
	lease, err := e.Campaign(ctx, value)
	if err != nil {
		return false, err
	}
	defer func() {
		if over := finish(lease); over != nil {
			lost = errors.Is(over, ErrLost)
			err = errors.Join(err, over)
		}
	}()
	return false, work(ctx, "lead", lease, fn)
}

// A Leader is the candidate that leads.
type Leader struct {
	// Value is what the leader says of itself.
	Value []byte
	// Token is the fencing token of its lease.
	Token Token
}

// Leader returns the leader, or ErrNoLeader if the election has no candidates, or none of them leads yet. While the
// service grants nothing, as Redis does for a TTL after a restart, it does not know who leads, and the error wraps
// ErrUnavailable. By the time Leader returns another may lead, so use it to find the leader, and never to decide that
// this process leads.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	leader, _, err := e.leader(ctx)
	return leader, wrap("leader", e.path, err)
}

// leader returns the leader, and what to wait for until that may have changed, which is nothing if only time can tell.
func (e *Election) leader(ctx context.Context) (Leader, driver.Target, error) {
	was := recipe.SilenceOf(built(e.store, "NewElection"))
	list, held, err := recipe.Queue{Store: e.store, Path: e.path}.List(ctx, 1)
	quiet := recipe.SilenceOf(e.store)
	if err == nil && held == 0 && was != nil && quiet == nil {
		list, held, err = recipe.Queue{Store: e.store, Path: e.path}.List(ctx, 1) // it has ended meanwhile
	}
	switch {
	case err != nil:
		return Leader{}, driver.Target{}, err
	case len(list) == 0 && quiet == nil:
		return Leader{}, driver.Target{Entry: driver.Entry{Queue: e.path}, What: driver.Joined}, ErrNoLeader
	case len(list) > 0 && list[0].Kind != driver.Candidate && list[0].Kind != driver.Foreign:
		holder, _, _ := recipe.WordsOf(list[0])
		return Leader{}, driver.Target{}, fmt.Errorf("%w: %q has it as %s, and this call asks for an election: take another path",
			ErrKind, holder, recipe.Primitive(list[0].Kind))
	case held == 0 && quiet != nil: // The service has forgotten who led, who may not know that yet.
		return Leader{}, driver.Target{}, quiet
	case held == 0:
		return Leader{}, driver.Target{}, ErrNoLeader
	default:
		leader := Leader{Value: list[0].Value, Token: makeToken(list[0].Revision, 0)}
		return leader, driver.Target{Entry: list[0], What: driver.Changed}, nil
	}
}

const (
	// An observer looks again after a random part of a time that doubles from observeFirst to observeMost, while the
	// service does not answer.
	observeFirst = 20 * time.Millisecond
	observeMost  = 2 * time.Second
	// observeAgain is after how long it looks although nothing was told, at least.
	observeAgain = 30 * time.Second
)

// Observe yields the leader, first and whenever it changes or proclaims another value. A vacancy is yielded
// as ErrNoLeader, trouble with the service as its error, once if that grants nothing for a while; neither ends it. Of
// changes that come quickly one after another some may be left out, never the last.
//
// It ends when the loop is left; when ctx is done, after a last yield of its error; and likewise when the Store is closed
// or the path is not valid.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		var last driver.Entry // that was told
		told, silent := false, false
		var brake pause.Brake
		for delay := observeFirst; ; {
			leader, now, err := e.leader(ctx)
			known := err == nil || errors.Is(err, ErrNoLeader) || isSilence(err)
			changed := !told || now.Entry.ID != last.ID || now.Entry.Version != last.Version || silent != isSilence(err)
			if !known || changed {
				if !yield(leader, wrap("observe", e.path, err)) {
					return
				}
			}
			if !known && (ctx.Err() != nil || errors.Is(err, ErrClosed) || errors.Is(err, ErrName)) {
				return
			}
			if !known {
				told = false // what was told may be over
				_ = pause.For(ctx, rand.N(delay))
				delay = min(2*delay, observeMost)
				continue
			}
			brake.Woken(ctx, changed)
			last, silent, told, delay = now.Entry, isSilence(err), true, observeFirst
			e.await(ctx, now)
		}
	}
}

// await waits until what was seen may have changed. Why it returns does not matter: the next look tells.
func (e *Election) await(ctx context.Context, seen driver.Target) {
	if seen.Entry.Queue == "" {
		_ = pause.For(ctx, rand.N(observeMost))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, observeAgain+rand.N(observeAgain/2))
	defer cancel()
	_ = recipe.Queue{Store: e.store, Path: e.path}.Wait(ctx, seen)
}

// Candidates returns the leader and the candidates behind it, in order, as Mutex.Participants does. Holder is the value that a
// candidate campaigned with, or has proclaimed last.
func (e *Election) Candidates(ctx context.Context) ([]Participant, error) {
	list, err := participants(ctx, built(e.store, "NewElection"), e.path)
	return list, wrap("candidates", e.path, err)
}

package farsync

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/recipe"
)

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
// value is what observers see, 64 KiB at most; "" means the Holder of the store. The errors, and the state after an
// error, are the same as for Mutex.Lock.
func (e *Election) Campaign(ctx context.Context, value string) (*Lease, error) {
	request := recipe.Request{Queue: e.path, Kind: driver.Candidate, Units: 1, Value: said(value)}
	return acquire(ctx, "campaign", built(e.store, "NewElection"), &request)
}

// said returns a value as package recipe takes it: nil for the Holder.
func said(value string) []byte {
	if value == "" {
		return nil
	}
	return []byte(value)
}

var errNotLeader = errors.New("not a lease of this election")

// Proclaim changes the value that observers see, while lease leads; "" means the Holder of the store. If ctx ends
// before the service answers, the error wraps ErrUncertain: the value may have changed, or may change later. If the
// lease ends while the request is under way, the error is the Err of the lease: ErrReleased, ErrClosed, or an error
// that wraps ErrLost. Then, too, the value may have changed. After any other error it has not. Proclaim ends no lease,
// unless the error wraps ErrLost.
//
// Do not use it where a LeaderLatch of Curator's may wait right behind the leader. The latch takes the change for the
// event that it waits for, and does not watch again. It then learns that it leads only when its connection breaks.
func (e *Election) Proclaim(ctx context.Context, lease *Lease, value string) error {
	if lease == nil || lease.store != built(e.store, "NewElection") || lease.path != e.path {
		return wrap("proclaim", e.path, errNotLeader)
	}
	return wrap("proclaim", e.path, lease.hold.Change(ctx, driver.Candidate, said(value)))
}

// Lead campaigns with the value, runs fn while it leads, waits for fn to return, and resigns. fn gets the lease, and a
// context that is done when ctx is, or when the leadership is lost; fn must then stop at once. The next leader is
// elected no sooner than Lead resigns or the leadership is lost. If it is lost, Lead campaigns again once fn has
// returned, and runs fn again.
//
// When ctx is done Lead returns nil, whether it led or waited: that is how it is ended. It returns earlier, with nil,
// when fn has returned nil and the leadership was not lost.
//
// An error of fn's own ends Lead in any case, also at the end of ctx; if the leadership was lost as well, the error
// wraps ErrLost, too. These are not fn's own: once fn's context has ended, ctx.Err() and context.Cause(ctx), the error
// of a call of this package that ended with it, and any of them wrapped or joined. So a fn that returns ctx.Err() when
// it is told to stop campaigns again after a loss.
//
// All other errors are Campaign's, and ErrClosed. Nothing is held when Lead returns.
func (e *Election) Lead(ctx context.Context, value string, fn func(ctx context.Context, lease *Lease) error) error {
	for {
		if lost, err := e.term(ctx, value, fn); !lost {
			return err
		}
	}
}

// term is one time of leadership. It reports whether that was lost, and nothing keeps another from following.
func (e *Election) term(
	ctx context.Context, value string, fn func(ctx context.Context, lease *Lease) error,
) (lost bool, err error) {
	lease, err := e.Campaign(ctx, value)
	switch over := ctx.Err(); {
	case err == nil:
	case over != nil && (errors.Is(err, over) || errors.Is(err, ErrClosed)): // a shutdown does both, in either order
		return false, nil
	default:
		return false, err
	}
	var own error
	err = lease.Do(ctx, func(ctx context.Context, lease *Lease) error {
		if own = fn(ctx, lease); saysEnd(ctx, own) {
			own = nil
		}
		return own
	})
	switch {
	case own != nil:
		return false, err
	case ctx.Err() != nil:
		return false, nil //nolint:nilerr // it is how Lead ends, the loss of its lease or not
	default:
		return errors.Is(err, ErrLost), err
	}
}

// saysEnd reports whether an error says no more than that ctx has ended. Of joined errors, every part has to say so.
func saysEnd(ctx context.Context, err error) bool {
	over, cause := ctx.Err(), context.Cause(ctx)
	if over == nil || err == nil {
		return false
	}
	//nolint:errorlint // each of the errors that are joined by itself
	if call, ok := err.(*Error); ok && (errors.Is(call, over) || errors.Is(call, cause)) {
		return true // what stands beside it is why the call was still under way, or that its outcome is not known
	}
	switch err := err.(type) { //nolint:errorlint // likewise
	case interface{ Unwrap() error }:
		return saysEnd(ctx, err.Unwrap())
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(err.Unwrap(), func(part error) bool { return !saysEnd(ctx, part) })
	}
	return errors.Is(err, over) || errors.Is(cause, err) || errors.Is(err, cause)
}

// A Leader is the candidate that leads. The zero Leader means that nobody leads. Two of them are equal if the same
// lease leads with the same value.
type Leader struct {
	// Value is what the leader says of itself.
	Value string
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
	was := recipe.SilenceOf(built(e.store, "NewElection").below)
	list, held, err := recipe.Queue{Store: e.store.below, Path: e.path}.List(ctx, 1)
	quiet := recipe.SilenceOf(e.store.below)
	if err == nil && held == 0 && was != nil && quiet == nil {
		list, held, err = recipe.Queue{Store: e.store.below, Path: e.path}.List(ctx, 1) // it has ended meanwhile
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
		leader := Leader{Value: string(list[0].Value), Token: makeToken(list[0].Revision, 0)}
		return leader, driver.Target{Entry: list[0], What: driver.Changed}, nil
	}
}

const (
	// observeMost is after what part of it, by chance, an observer looks again where only time can tell.
	observeMost = 2 * time.Second
	// observeAgain is after how long it looks although nothing was told, at least.
	observeAgain = 30 * time.Second
	// strangers of another family have so long to leave the path, at which an observer looks after a part of
	// strangersAgain.
	strangers      = time.Second
	strangersAgain = 200 * time.Millisecond
)

// Observe yields the leader, first and whenever another leads or the leader proclaims another value, and the zero
// Leader while nobody leads. Of changes that come quickly one after another some may be left out, never the last.
//
// It waits through lost connections and lost sessions; the state of the Store shows them. While the service grants
// nothing, as Redis does for a TTL after a restart, it is not known who leads, and nothing is yielded.
//
// An error is the last thing that is yielded, with the zero Leader: the error of ctx when ctx is done, ErrClosed,
// ErrPath, ErrKind if other primitives use the path and do not leave it within a second, or the refusal of the service.
// So a loop that ends with the first error misses nothing.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		var last Leader // that was yielded
		told := false
		var seen driver.Entry // by the last look
		looked, silent := false, false
		var since time.Time // when strangers were seen first
		var brake pause.Brake
		for {
			leader, now, err := e.leader(ctx)
			quiet := isSilence(err) && ctx.Err() == nil // a ctx that has ended tells of a silence, too
			switch {
			case err == nil || errors.Is(err, ErrNoLeader):
				if !told || leader != last {
					if !yield(leader, nil) {
						return
					}
					told, last = true, leader
				}
			case quiet:
			case errors.Is(err, ErrKind) && (since.IsZero() || time.Since(since) < strangers):
				if since.IsZero() {
					since = time.Now()
				}
				_ = pause.For(ctx, rand.N(strangersAgain))
				continue
			default:
				yield(Leader{}, wrap("observe", e.path, err))
				return
			}
			since = time.Time{}
			brake.Woken(ctx, !looked || now.Entry.ID != seen.ID || now.Entry.Version != seen.Version || quiet != silent)
			looked, seen, silent = true, now.Entry, quiet
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
	_ = recipe.Queue{Store: e.store.below, Path: e.path}.Wait(ctx, seen)
}

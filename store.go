package farsync

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/recipe"
)

// A Store is a client of one coordination service, on which primitives are made. The Open of package etcd, zk, redis,
// postgres, mysql or sqlite returns one. It has one session at the service, however many primitives are made on it.
// When the session is lost every lease under it is lost, and the Store opens another session by itself: every primitive
// stays usable. Share one Store between all goroutines of a process. All methods may be called by any goroutine at any
// time.
type Store struct {
	below *recipe.Store
}

var _ = beneath.Lead(func(store any) *recipe.Store { return store.(*Store).below })

// Open opens a session at a service and returns the Store in it, which closes the service in the end. Programs call the
// Open of their store's package. This one is for a driver of another service, and for tests which put faults below one
// of ours: see NewService of those packages. ctx governs Open alone. A nil *Options is the zero Options.
//
// Open fails if the service does not answer until ctx ends, or within 5 seconds if ctx has no deadline, with an error
// that wraps ErrUnavailable; if the service refuses; and if an option is not valid. Then the service is closed. With
// the option Lazy a service that does not answer is no reason to fail.
//
// The Path of the Error is what the service calls itself, if it is a fmt.Stringer, and otherwise empty.
func Open(ctx context.Context, service driver.Service, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	below, err := recipe.Open(ctx, service, o.below())
	if err != nil {
		name := ""
		if named, ok := service.(fmt.Stringer); ok {
			name = named.String()
		}
		return nil, wrap("open", name, err)
	}
	return &Store{below}, nil
}

// Close ends all leases and all waiting on this Store with ErrClosed, and ends the session, which frees what was held
// and takes what waited out of the queues. It returns when everything that the Store has started has ended. If the
// service does not confirm the end of the session within a third of the TTL, the error wraps ErrUnavailable, and the
// session ends by itself, one TTL later. Close waits until OnState and the Trace were told everything, for a second at
// most, and then until the Logger has written everything, for another; none of them is called after that. A second
// Close returns the same.
//
// A Close by OnState, or by a function of a Trace that a goroutine of the Store calls, begins all that and returns nil
// at once: Close waits for that goroutine.
func (s *Store) Close() error { return s.below.Close() }

// State returns how the Store stands with its service, as OnState was told last. Once the Store was closed it is
// StateLost, which OnState is not told.
func (s *Store) State() State { return State(s.below.State()) }

// Name returns the Name option.
func (s *Store) Name() string { return s.below.Name() }

// Options are the options that every Store has. The Options of each backend embed them. The zero value of each field is
// a good choice.
type Options struct {
	// TTL is how long the service keeps the locks of this Store when it hears no more from the Store, from 1 second to
	// 1 day. The service may round it, and the granted TTL counts. The default is 10 seconds.
	//
	// A short TTL frees the locks of a dead process sooner. A long one survives longer interruptions. The next holder has
	// the lock a TTL after the last renewal that the service saw, and at most as much later as it takes to notice: a
	// second on etcd, one of its ticks on ZooKeeper, and on Redis, PostgreSQL, MySQL and in an SQLite file up to a quarter
	// of the TTL of the Store that notices. When the leader of etcd or ZooKeeper changes meanwhile, the TTL begins again.
	// A Redis server that was restarted or replaced grants nothing for one TTL.
	TTL time.Duration
	// Holder is what others see of this Store: at most 1024 bytes of printable text. The default is the host name and the
	// process ID. It is not a place for secrets.
	Holder string
	// Name identifies the Store in a MultiMutex whose members are on several Stores, and in a QuorumMutex. It must be the
	// same in all processes.
	Name string
	// Lazy lets Open return a Store while the service does not answer. It is for the members of a QuorumMutex, where other
	// services go on without this service. The Store is StateLost until it has its first session. Open still waits for the
	// service, until ctx's deadline or for 5 seconds: give each Open a short ctx of its own. A ctx that is cancelled is an
	// error of Open all the same, and so is a service that refuses, with a wrong password for example.
	Lazy bool
	// Logger receives what happens to the session, to locks and to cleanup. docs/RUNBOOK.md explains every line.
	// Nothing is logged if it is nil. One goroutine calls its Handler, in order, and nothing but Close waits for it,
	// for a second at most: a Handler that blocks or panics costs no lease. While it blocks 256 lines wait. Lines for
	// which there is no room are left out, and a line says how many. Enabled is called where a line is made, and must
	// return at once. Lines that are not written when the process ends are lost: close the Store first.
	Logger *slog.Logger
	// OnState is called when the State of the Store changes, in order, from one goroutine, for which nothing but Close
	// waits, for a second at most. An OnState that is 64 states behind is not told the oldest of them. A panic is
	// logged. OnState may call Close.
	OnState func(State)
	// Trace is told what the primitives on the Store do, for metrics and traces. Packages otelfarsync and promfarsync make
	// one.
	Trace *Trace
}

// below returns the options as package recipe takes them.
func (o *Options) below() recipe.Options {
	b := recipe.Options{TTL: o.TTL, Holder: o.Holder, Name: o.Name, Late: o.Lazy, Logger: o.Logger, Trace: o.Trace.below()}
	if told := o.OnState; told != nil {
		b.OnState = func(s recipe.State) { told(State(s)) }
	}
	return b
}

// A State is how a Store stands with its service.
type State uint8

// The states of a Store.
const (
	// StateConnected means that the last renewal of the session was acknowledged.
	StateConnected State = iota + 1
	// StateSuspended means that a renewal is overdue. Leases are still held, until their deadline.
	StateSuspended
	// StateLost means that the session is over, and with it every lease under it. StateConnected follows once there is a
	// new one.
	StateLost
	// StateRecovering means that the session is open, and that the service grants nothing for a while: a Redis server that
	// was restarted or replaced does so for one TTL, so that all who held before can stop. A Try fails with
	// ErrUnavailable meanwhile. StateConnected follows.
	StateRecovering
)

// String returns the state's name in lower case.
func (s State) String() string { return recipe.State(s).String() }

package farsync

import "github.com/farsync/farsync/recipe"

// A Store is a client of one coordination service, on which primitives are made. The Open of package etcd, zk, redis, postgres,
// mysql or sqlite returns one. It has one session at the service, however many primitives are made on it, and stays usable when
// that session is lost: it opens another by itself. Share one Store between all goroutines of a process.
//
// Its methods are Close, State and Name: see [recipe.Store]. Close ends all leases and all waiting on it with ErrClosed, and ends the
// session, which frees what was held. It returns when everything that the Store has started has ended. The error wraps
// ErrUnavailable if the service has not confirmed the end of the session within a third of the TTL: the session then ends by itself,
// a TTL later. A second Close returns the same.
type Store = recipe.Store

// Options are those that every Store has: TTL (1 second to 1 day, 10 seconds by default), Holder, Name, Late, Logger, OnState and
// Trace. See [recipe.Options]. The Options of each backend embed them. The zero value of each field is a good choice.
type Options = recipe.Options

// A State is how a Store stands with its service.
type State = recipe.State

// The states of a Store.
const (
	// Connected means that the last renewal of the session was acknowledged.
	Connected = recipe.Connected
	// Suspended means that a renewal is overdue. Leases are still held, until their deadline.
	Suspended = recipe.Suspended
	// Lost means that the session is over, and with it every lease under it. Connected follows once there is a new one.
	Lost = recipe.Lost
	// Recovering means that the session is open, and that the service grants nothing for a while: a Redis server that
	// was restarted or replaced does so for one TTL, so that all who held before can stop. A Try fails with
	// ErrUnavailable meanwhile. Connected follows.
	Recovering = recipe.Recovering
)

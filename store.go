package farsync

import "github.com/farsync/farsync/recipe"

// A Store is a client of one coordination service, on which primitives are made. The Open of package etcd, zk, redis or
// sqlite returns one. It has one session at the service, however many primitives are made on it, and stays usable when that
// session is lost: it opens another by itself. Share one Store between all goroutines of a process.
//
// Close ends all leases and all waiting on it.
type Store = recipe.Store

// Options are those that every Store has. The Options of each backend embed them.
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
)

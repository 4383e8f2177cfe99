package sqlite

import (
	"context"

	"github.com/farsync/farsync"
)

// Options change how a Store behaves. The zero value of each field is a good choice.
type Options struct {
	farsync.Options

	// Sync makes every change reach the disk before it counts (synchronous FULL). Without it a crash of the machine may
	// undo the last changes. That gives no lock to two holders, for no holder survives the crash. It can undo a guarded
	// transaction that had committed, together with all that came after it.
	Sync bool
	// Linger keeps the locks of a process that has died until its session runs out, as on a remote service. Without it
	// they are free as soon as another session notices, which a waiter does within half a second. Set it in programs
	// whose child processes continue under a lock. Lease.Outlast, Lease.ReleaseAfter, and Mutex.TryDo with a time, set it
	// for what the Store holds from then on, until its Close.
	Linger bool
}

// Open opens a session in an SQLite file and returns a Store in it. The file is made if it does not exist; its
// directory must. ctx governs Open alone.
//
// Open fails if the file cannot be opened and written, is damaged, has several names, or is not on a local disk; if the
// file is in the place of another in which a process that is stopped may hold locks, or another program keeps it locked
// until ctx ends, or for 5 seconds if ctx has no deadline, with an error that wraps farsync.ErrUnavailable; and if an
// option is not valid.
func Open(ctx context.Context, file string, options *Options) (*farsync.Store, error) {
	if options == nil {
		options = new(Options)
	}
	s, err := NewService(file, options)
	if err != nil {
		return nil, &farsync.Error{Op: "open", Path: shown(file), Err: err}
	}
	return farsync.Open(ctx, s, &options.Options)
}

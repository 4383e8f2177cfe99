package sqlite

import (
	"context"
	"fmt"
	"sync"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/sqlstore"
)

// opened has the files that the Stores of this process have open, or are about to open, by their paths.
//
// Where a file is removed or renamed, and its index, -shm, stays, the next to open the path makes a file that gets this
// index. SQLite cuts an index short unless somebody has a lock on it. Locks of POSIX do not keep a process from itself.
// So a Store that still reads the file before would read behind the end of its index, and the process would end with
// SIGBUS. Another process sees the lock.
var opened = struct {
	sync.Mutex
	at    map[string]map[*file]bool
	turns map[string]*turn // to open a connection, by the paths of the files
}{at: map[string]map[*file]bool{}, turns: map[string]*turn{}}

// A turn has a value while a connection is opened.
type turn struct {
	taken chan struct{}
	users int // who have it, or wait for it
}

// takeTurn waits until no other connection of this process is opened to the file at a path, or ctx ends.
func takeTurn(ctx context.Context, path string) error {
	opened.Lock()
	t := opened.turns[path]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		opened.turns[path] = t
	}
	t.users++
	opened.Unlock()
	select {
	case t.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		leaveTurn(path)
		return sqlstore.NotDone(ctx)
	}
}

// passTurn lets the next open a connection.
func passTurn(path string) {
	opened.Lock()
	<-opened.turns[path].taken
	opened.Unlock()
	leaveTurn(path)
}

func leaveTurn(path string) {
	opened.Lock()
	defer opened.Unlock()
	t := opened.turns[path]
	if t.users--; t.users == 0 {
		delete(opened.turns, path)
	}
}

// awaitOthers waits until no Store of this process has another file open that was at the path before. Sessions in such
// a file are over, and are told so.
//
// A file that is replaced after this look and before SQLite opens the path is not found.
func (f *file) awaitOthers(ctx context.Context) error {
	for {
		other := f.other()
		if other == nil {
			return nil
		}
		other.service.release(other)
		select {
		case <-other.closed:
		case <-ctx.Done():
			return &sqlstore.Error{Err: fmt.Errorf("%s was replaced, and another Store of this process has not closed the file that was there: %w",
				f.path, context.Cause(ctx)), Outcome: driver.NotDone}
		}
	}
}

// other notes that f is open, and returns a file of this process that the path does not name any more.
func (f *file) other() *file {
	opened.Lock()
	all := opened.at[f.path]
	if all == nil {
		all = map[*file]bool{}
		opened.at[f.path] = all
	}
	all[f] = true
	others := make([]*file, 0, len(all))
	for o := range all {
		if o != f {
			others = append(others, o)
		}
	}
	opened.Unlock()
	for _, o := range others {
		if o.check() != nil {
			return o
		}
	}
	return nil
}

// forget notes that f is closed.
func (f *file) forget() {
	opened.Lock()
	defer opened.Unlock()
	all := opened.at[f.path]
	if delete(all, f); len(all) == 0 {
		delete(opened.at, f.path)
	}
}

package sqlstore

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/farsync/farsync/internal/pause"
)

const (
	// Least is how many connections a Store works with: one renews its session, the other does everything else.
	Least = 2

	// scarce is for how long a Store goes on with two connections at least. Chance makes it up to twice as long, so
	// that Stores do not come back for more all at once.
	scarce = 10 * time.Second
	// askAgain is after how long the server is asked for a connection again that has refused one. To refuse costs it a
	// process or a thread, and calls that wait for a connection are many.
	askAgain = 250 * time.Millisecond
	// sayAgain is after how long the log says again that the server has refused a connection.
	sayAgain = time.Minute
	// lookAgain is after how long a Store with more than two connections asks the server again how many there are.
	lookAgain = 5 * time.Second
)

// A Room is what a Store knows of the room that its server has for connections. A server has room for some 100 by
// default, which all of its clients share. A Store takes more than two connections to do several things at once, and
// to be woken. It gives up all that are more, for some time, when the server has refused it one, or has little room
// left for others. The zero Room stands for a server with plenty.
type Room struct {
	mu      sync.Mutex
	until   time.Time // the Store goes on with two connections until then
	refused time.Time // when the server last refused a connection
	said    time.Time // when the log was to say so last
	looked  time.Time // when a look was due last
}

// Scarce reports whether the Store is to go on with two connections.
func (r *Room) Scarce() bool { return r.For() > 0 }

// For returns for how long the Store is to go on with two connections.
func (r *Room) For() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.until)
}

// Shrink has the Store go on with two connections for some time.
func (r *Room) Shrink() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shrink()
}

func (r *Room) shrink() {
	r.until = time.Now().Add(scarce + rand.N(scarce)) //nolint:gosec // no secret
}

// Refused notes that the server has refused a connection for want of room, and reports whether the log is to say so.
func (r *Room) Refused() (say bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shrink()
	r.refused = time.Now()
	return due(&r.said, sayAgain)
}

// SayNoRoom writes the line of the log about a connection that the server has refused with err. Bound is the setting
// that bounds how many connections there can be, as the server calls it, and most its value, or 0 if that is not known.
func SayNoRoom(log *slog.Logger, bound string, most int64, err error) {
	words := []any{"cause", err}
	if most > 0 {
		words = append([]any{bound, most}, words...)
	}
	log.Warn("the database server has no room for another connection: this Store goes on with two", words...)
}

// Ask waits until the server may be asked for a connection, for it may have refused one just now, or until has reports
// that one has come free. It returns the cause of ctx if that ends before.
func (r *Room) Ask(ctx context.Context, has func() bool) error {
	for !has() {
		r.mu.Lock()
		left := askAgain - time.Since(r.refused)
		r.mu.Unlock()
		if left <= 0 {
			return nil
		}
		if err := pause.For(ctx, min(left, askAgain/10)); err != nil {
			return err
		}
	}
	return nil
}

// Look reports whether a Store with more than two connections is to ask the server how many there are.
func (r *Room) Look() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return due(&r.looked, lookAgain)
}

// due reports whether the last time was as long ago, and notes this one.
func due(last *time.Time, again time.Duration) bool {
	now := time.Now()
	if !last.IsZero() && now.Sub(*last) < again {
		return false
	}
	*last = now
	return true
}

// Crowded reports whether a server with so many connections in use, of so many that it can have, has little room left:
// for a tenth more, or for one more Store.
func Crowded(used, most int) bool { return most-used < max(Least, most/10) }

//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/farsync/farsync/internal/torture/history"
)

// A write is what a holder asks the resource for. Only holders that exclude all others are fenced.
type write struct {
	Process string
	Wire    int // of the process, that the holder's Store is behind
	Queue   string
	Tokens  []int64 // of a quorum one of each member, 0 where it was not won; of all others a single one
	Fenced  bool
	First   bool // of its hold
}

// An answer is what the resource says to a write.
type answer struct {
	Admitted bool
	Stay     time.Duration // for how long the holder is to stay in its section at least
}

// A resource is what locks protect. It refuses tokens below the highest it has seen of the same lock, and keeps account
// of what it has let in by itself, so that a fence that does not hold would be seen.
type resource struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu          sync.Mutex // guards what follows
	connections map[net.Conn]struct{}
	mark        map[string][]int64   // the fence
	admitted    map[string][][]int64 // tokens in the order in which they were let in, repetitions left out
	traps       []*trap
	account
}

// An account is what a resource has counted.
type account struct {
	grants, writes, refused int
}

// serve starts a resource that listens on a unix socket.
func serve(socket string) (*resource, error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	r := &resource{
		listener: listener, connections: map[net.Conn]struct{}{}, mark: map[string][]int64{}, admitted: map[string][][]int64{},
	}
	r.wg.Go(r.accept) // joined by close
	return r, nil
}

func (r *resource) accept() {
	for {
		connection, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		r.connections[connection] = struct{}{}
		r.mu.Unlock()
		r.wg.Go(func() { // joined by close
			defer connection.Close()
			requests, replies := json.NewDecoder(connection), json.NewEncoder(connection)
			for {
				var w write
				if requests.Decode(&w) != nil {
					return
				}
				a := answer{Admitted: r.write(w)}
				if a.Admitted && w.Fenced {
					a.Stay = r.spring(w)
				}
				if replies.Encode(a) != nil {
					return
				}
			}
		})
	}
}

// write lets a write in, or refuses it.
func (r *resource) write(w write) (admitted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writes++; w.First {
		r.grants++
	}
	if !w.Fenced {
		return true
	}
	falls, mark := above(w.Tokens, r.mark[w.Queue])
	if falls {
		r.refused++
		return false
	}
	r.mark[w.Queue] = mark
	if list := r.admitted[w.Queue]; len(list) == 0 || !slices.Equal(list[len(list)-1], w.Tokens) {
		r.admitted[w.Queue] = append(list, w.Tokens)
	}
	return true
}

// above reports whether one of the tokens is below the highest of its place, zeros aside, and returns the highest with
// them.
func above(tokens, highest []int64) (falls bool, now []int64) {
	now = append(slices.Clone(highest), make([]int64, max(0, len(tokens)-len(highest)))...)
	for i, token := range tokens {
		falls = falls || token != 0 && token < now[i]
		now[i] = max(token, now[i])
	}
	return falls, now
}

// A trap waits for a holder of a lock that excludes all others.
type trap struct {
	of     func(w write) bool
	caught chan write         // what it has written
	stay   chan time.Duration // for how long it is to stay in its section from then on
}

// spring catches a holder that has written and was let in, if a trap waits for it. Its Store has no answer until what
// it was caught for has happened.
func (r *resource) spring(w write) (stay time.Duration) {
	r.mu.Lock()
	i := slices.IndexFunc(r.traps, func(t *trap) bool { return t.of(w) })
	if i < 0 {
		r.mu.Unlock()
		return 0
	}
	t := r.traps[i]
	r.traps = slices.Delete(r.traps, i, i+1)
	r.mu.Unlock()
	t.caught <- w
	return <-t.stay
}

// catch waits for one of these to hold a lock. The caller calls proceed once, after it has done to the holder what it
// waited to do, with how long the holder is to stay. It reports false if there was none until ctx ended.
func (r *resource) catch(ctx context.Context, of func(w write) bool) (w write, proceed func(time.Duration), ok bool) {
	t := &trap{of: of, caught: make(chan write, 1), stay: make(chan time.Duration, 1)}
	r.mu.Lock()
	r.traps = append(r.traps, t)
	r.mu.Unlock()
	proceed = func(stay time.Duration) { t.stay <- stay }
	select {
	case w = <-t.caught:
		return w, proceed, true
	case <-ctx.Done():
	}
	r.mu.Lock()
	i := slices.Index(r.traps, t)
	if i >= 0 {
		r.traps = slices.Delete(r.traps, i, i+1)
	}
	r.mu.Unlock()
	if i < 0 { // it was caught at the last moment
		return <-t.caught, proceed, true
	}
	return write{}, nil, false
}

func (r *resource) count() account {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.account
}

// stale returns how many writes were let in with a token below the token of an earlier write.
func (r *resource) stale() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range r.admitted {
		var highest []int64
		for _, tokens := range list {
			var falls bool
			if falls, highest = above(tokens, highest); falls {
				n++
			}
		}
	}
	return n
}

func (r *resource) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	for connection := range r.connections {
		_ = connection.Close()
	}
	r.mu.Unlock()
	r.wg.Wait()
}

// A desk is a Store's connection to the resource.
type desk struct {
	mu         sync.Mutex // one request is under way at a time
	connection net.Conn
	requests   *json.Encoder
	replies    *json.Decoder
}

func reach(socket string) (*desk, error) {
	connection, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	return &desk{connection: connection, requests: json.NewEncoder(connection), replies: json.NewDecoder(connection)}, nil
}

// write panics if the resource does not answer: it is never broken on purpose.
func (d *desk) write(w write) (a answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := errors.Join(d.requests.Encode(w), d.replies.Decode(&a)); err != nil {
		panic(fmt.Sprintf("torture: the resource: %v", err))
	}
	return a
}

// fenced reports whether the tokens of a kind fence.
func fenced(k history.Kind) bool {
	return slices.Contains([]history.Kind{history.Exclusive, history.Reentrant, history.Write, history.Lead, history.Quorum}, k)
}

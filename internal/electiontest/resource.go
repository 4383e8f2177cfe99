package electiontest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/farsync/farsync"
)

// A resource is what leaders work on. It refuses tokens below the highest that it has seen, and keeps account of what it
// let in by itself, so that a fence that does not hold would be seen.
type resource struct {
	mu      sync.Mutex
	mark    farsync.Token // the fence: the highest token seen
	terms   []term        // what was let in, in order; writes under one token by one name in a row are one
	stale   int           // writes that were refused
	doubled []doubled     // writes that were refused although the writer's lease said that it was held
	changed chan struct{} // closed when terms grows, and replaced
}

// A term is the time of a leader, as the resource saw it.
type term struct {
	name        string
	token       farsync.Token
	first, last time.Time
}

// A doubled is a write by a leader that believed to lead after another had written.
type doubled struct {
	name         string
	token, after farsync.Token
	at           time.Time
}

func (d doubled) String() string {
	return fmt.Sprintf("%s with token %d after token %d", d.name, d.token, d.after)
}

func newResource() *resource { return &resource{changed: make(chan struct{})} }

// write lets a write in or refuses it. held says whether the writer's lease is held, asked while no other writes.
func (r *resource) write(name string, token farsync.Token, held func() bool) (admitted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if token < r.mark {
		r.stale++
		if held() {
			r.doubled = append(r.doubled, doubled{name, token, r.mark, now})
		}
		return false
	}
	r.mark = token
	if n := len(r.terms); n > 0 && r.terms[n-1].name == name && r.terms[n-1].token == token {
		r.terms[n-1].last = now
		return true
	}
	r.terms = append(r.terms, term{name, token, now, now})
	close(r.changed)
	r.changed = make(chan struct{})
	return true
}

// after waits for the first term with a token above the given one.
func (r *resource) after(ctx context.Context, token farsync.Token) (term, error) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	for {
		r.mu.Lock()
		changed := r.changed
		for _, t := range r.terms {
			if t.token > token {
				r.mu.Unlock()
				return t, nil
			}
		}
		r.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return term{}, fmt.Errorf("no leader after token %d: %w", token, context.Cause(ctx))
		}
	}
}

// A verdict is what a resource has seen.
type verdict struct {
	terms         int
	stale         int       // attempts to write with a token lower than the highest
	staleAccepted int       // stale attempts that were let in, or came with a token that was not the writer's alone
	doubled       []doubled // those whose writers were led to believe that they lead
}

func (r *resource) verdict() verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := verdict{terms: len(r.terms), stale: r.stale, doubled: r.doubled}
	for i := 1; i < len(r.terms); i++ {
		if r.terms[i].token <= r.terms[i-1].token {
			v.staleAccepted++
			v.stale++
		}
	}
	return v
}

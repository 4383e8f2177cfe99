//go:build unix

package main

import (
	"net/http"
	"sync"
	"time"

	"github.com/farsync/farsync"
)

// A resource is what leaders write to. It remembers the highest token it has seen, and refuses lower ones.
type resource struct {
	mu   sync.Mutex
	mark farsync.Token // the highest token seen

	// For the judgement, which does not trust the mark.
	terms    []term
	refused  int // writes
	accepted int
}

// A term is a row of accepted writes by one process with one token.
type term struct {
	name        string
	token       farsync.Token
	first, last time.Time
}

func (r *resource) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var token farsync.Token
	if err := token.UnmarshalText([]byte(request.FormValue("token"))); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !r.write(request.FormValue("name"), token) {
		w.WriteHeader(http.StatusConflict) // a higher token was here before
	}
}

func (r *resource) write(name string, token farsync.Token) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.mark {
		r.refused++
		return false
	}
	r.mark = token
	r.accepted++
	now := time.Now()
	if n := len(r.terms); n > 0 && r.terms[n-1].name == name && r.terms[n-1].token == token {
		r.terms[n-1].last = now
		return true
	}
	r.terms = append(r.terms, term{name, token, now, now})
	return true
}

// leader returns the last term.
func (r *resource) leader() (t term, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.terms) == 0 {
		return t, false
	}
	return r.terms[len(r.terms)-1], true
}

// overlaps counts the writes that came after one with a higher token, and the terms that began with no higher token
// than one before.
func (r *resource) overlaps() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := r.refused
	for i := 1; i < len(r.terms); i++ {
		if r.terms[i].token <= r.terms[i-1].token {
			count++
		}
	}
	return count
}

// increasing reports whether each term has a higher token than the term before.
func (r *resource) increasing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 1; i < len(r.terms); i++ {
		if r.terms[i].token <= r.terms[i-1].token {
			return false
		}
	}
	return true
}

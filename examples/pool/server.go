//go:build unix

package main

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A server takes calls, each for a job, and counts how many it has at once.
type server struct {
	takes time.Duration // each

	mu   sync.Mutex
	now  int
	most int
	done map[int]int // how often, by job
}

func newServer(takes time.Duration) *server { return &server{takes: takes, done: map[int]int{}} }

func (s *server) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	job, err := strconv.Atoi(request.FormValue("job"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.begin()
	finished := false
	defer func() { s.end(job, finished) }()
	select {
	case <-time.After(s.takes):
		finished = true
	case <-request.Context().Done():
	}
}

func (s *server) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now++
	s.most = max(s.most, s.now)
}

func (s *server) end(job int, finished bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	if finished {
		s.done[job]++
	}
}

// figures returns how many jobs were done, how many of them more than once, and the most calls at once.
func (s *server) figures() (done, repeated, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, times := range s.done {
		done++
		if times > 1 {
			repeated++
		}
	}
	return done, repeated, s.most
}

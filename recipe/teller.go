package recipe

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/farsync/farsync/internal/aside"
)

const (
	// mostTold is how many calls of a Trace's Session and Ended wait for those before. Of more, the oldest are left out.
	mostTold = 256
	// waitPatience is for how long a call that waits does so for the Wait of its Trace: twice as long as Behind.Holder takes.
	waitPatience = 2 * firstAttempt
	// mostAlone is how many calls of Wait may run on that were left alone. While they do, Wait is not called.
	mostAlone = 64
	// closePatience is for how long Close waits for the functions of the program.
	closePatience = time.Second
)

// A telling is a call of a Trace: of Ended for each of some holds that have ended together, or of Session.
type telling struct {
	ends   []End
	health Health
}

func (t telling) calls() int { return max(len(t.ends), 1) }

// A teller calls the functions of a Trace for the goroutines of a Store, which must not wait for them: they renew the session,
// notice that it is lost, and are joined by Close. One goroutine calls Session and Ended, in order. Wait is called by a
// goroutine for each call, for the caller has a place in the queue or in the line, and others wait until it takes its turn.
//
// Acquire, what that returns, Note, and the Ended of a Release are called by the caller's own goroutine and take part in its
// call: there a function that blocks keeps nobody but the caller, and what the caller itself holds.
type teller struct {
	store *Store

	mu      sync.Mutex
	list    []telling // Invariant: len(list) ≤ mostTold
	left    int       // calls that were left out since the last that was not
	state   State     // what Session was told last
	telling bool      // a goroutine calls what is in the list
	running int       // goroutines that call a function
	alone   int       // how many of them call a Wait for which nobody waits any more
	over    bool
	idle    chan struct{} // closed when running falls to 0; nil unless stop waits for that
}

// tell has a call made by the goroutine of the teller.
func (t *teller) tell(one telling) {
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return
	}
	left := 0
	if len(t.list) == mostTold {
		if t.left == 0 {
			left = t.list[0].calls() // said when it begins, for the function may never return
		}
		t.left += t.list[0].calls()
		t.list = slices.Delete(t.list, 0, 1)
	}
	t.list = append(t.list, one)
	if !t.telling {
		t.telling = true
		t.running++
		go t.run() // joined by stop, unless a function does not return
	}
	t.mu.Unlock()
	t.noteLeft(left)
}

// noteLeft says that calls were left out.
func (t *teller) noteLeft(calls int) {
	if calls > 0 {
		t.store.log.Warn("calls of the Trace left out: its functions block", "calls", calls)
	}
}

// run makes the calls that are in the list, and ends. A function that ends its goroutine does not end them.
func (t *teller) run() {
	done := false
	defer func() {
		if !done {
			go t.run() // in place of this goroutine, and joined as it was
		}
	}()
	for one, ok := t.next(); ok; one, ok = t.next() {
		t.store.inside.call(func() {
			for _, e := range one.ends {
				t.store.tellEnded(e)
			}
			if one.ends == nil {
				t.store.tellSession(one.health)
			}
		})
	}
	done = true
}

// next takes out the next call, or returns false, and then the goroutine ends.
func (t *teller) next() (one telling, ok bool) {
	t.mu.Lock()
	left := t.left
	t.left = 0
	if ok = len(t.list) > 0; ok {
		one = t.list[0]
		t.list = slices.Delete(t.list, 0, 1)
		if one.ends == nil {
			one.health.Was, t.state = t.state, one.health.State
		}
	} else {
		t.telling = false
		t.leave()
	}
	t.mu.Unlock()
	t.noteLeft(left)
	return one, ok
}

// leave notes that a goroutine calls no function any more. The caller holds mu.
func (t *teller) leave() {
	if t.running--; t.running == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// wait calls a Wait, and returns when that has returned, or after waitPatience.
func (t *teller) wait(ctx context.Context, w Want, b Behind) {
	t.mu.Lock()
	if t.over || t.alone >= mostAlone {
		t.mu.Unlock()
		return
	}
	t.running++
	t.mu.Unlock()
	done := make(chan struct{})
	var alone, ended bool // guarded by mu
	go func() {           // joined below or, if it is left alone, by stop
		defer func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if ended = true; alone {
				t.alone--
			}
			t.leave()
			close(done)
		}()
		t.store.inside.call(func() { t.store.tellWait(ctx, w, b) })
	}()
	patience := time.NewTimer(waitPatience)
	defer patience.Stop()
	select {
	case <-done:
		return
	case <-patience.C:
	}
	t.mu.Lock()
	if alone = !ended; alone {
		t.alone++
	}
	t.mu.Unlock()
	t.store.log.Warn("calls of the Trace left out: its functions block", "calls", 1, "path", w.Path)
}

// stop waits until all calls have been made, or until patience ends. No call begins after that.
func (t *teller) stop(patience context.Context) {
	t.mu.Lock()
	var idle chan struct{}
	if t.running > 0 {
		idle = make(chan struct{})
		t.idle = idle
	}
	t.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-patience.Done():
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over, t.list = true, nil
}

// caught, when it is deferred around a function of the program, has a panic of that logged. It is no reason to end the process
// with all that it holds, nor to leave a call that waits or holds half done.
func (s *Store) caught(function string) {
	if value := recover(); value != nil {
		aside.NotePanic(s.log, function, value)
	}
}

// The functions below call a function of the Trace, which the Store has. Of Acquire and Note they look whether there is one; of the
// others whoever calls them has looked.

func (s *Store) tellAcquire(ctx context.Context, w Want) (with context.Context, end func(Got)) {
	acquire := s.options.Trace.Acquire
	if acquire == nil {
		return ctx, nil
	}
	defer func() {
		if with == nil {
			with = ctx // the function has panicked
		}
	}()
	defer s.caught("Trace.Acquire")
	return acquire(ctx, w)
}

func (s *Store) tellGot(end func(Got), g Got) {
	defer s.caught("Trace.Acquire")
	end(g)
}

func (s *Store) tellNote(ctx context.Context, w Want) string {
	if s.options.Trace.Note == nil {
		return ""
	}
	defer s.caught("Trace.Note")
	return s.options.Trace.Note(ctx, w)
}

func (s *Store) tellWait(ctx context.Context, w Want, b Behind) {
	defer s.caught("Trace.Wait")
	s.options.Trace.Wait(ctx, w, b)
}

func (s *Store) tellEnded(e End) {
	defer s.caught("Trace.Ended")
	s.options.Trace.Ended(e)
}

func (s *Store) tellSession(h Health) {
	defer s.caught("Trace.Session")
	s.options.Trace.Session(h)
}

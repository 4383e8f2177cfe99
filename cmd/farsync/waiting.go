package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/legible"
	"github.com/farsync/farsync/recipe"
)

const (
	// A short wait is not worth a line, nor a look.
	quietFor = 300 * time.Millisecond
	// The queue is read so often at most: on ZooKeeper that is a read for each entry.
	lookEvery = 5 * time.Second
	// Where lines are kept, a line that has not changed is said so often.
	repeatEvery = time.Minute
	// inSilence is the place of a waiter while the service grants nothing to anybody.
	inSilence = -1
)

// A sight shows behind what a call waits: in one line that is drawn anew on a terminal, in few lines elsewhere.
type sight struct {
	app    *app
	store  *farsync.Store
	holder string // by which the own entry is found
	width  int    // of the terminal, or 0
	// hidden tells that the terminal shows something else at the moment: the shell's prompt.
	hidden func() bool

	mu   sync.Mutex
	path string // that is waited for

	drawn bool
	place int       // that was said last
	said  time.Time // when

	cancel context.CancelFunc
	end    sync.WaitGroup
}

// watch shows it until done is called, which joins its goroutine.
func (s *sight) watch() (done func()) {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.end.Go(func() {
		for wait := quietFor; ; wait = lookEvery {
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
			s.look(ctx)
		}
	})
	return func() {
		s.cancel()
		s.end.Wait()
		if s.drawn {
			fmt.Fprint(s.app.stderr, "\r\x1b[K")
		}
	}
}

// on says which path is waited for now.
func (s *sight) on(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.path = path
}

// look reads the queue once. A service that does not answer shows nothing: the call that waits will say so.
func (s *sight) look(ctx context.Context) {
	s.mu.Lock()
	path := s.path
	s.mu.Unlock()
	if path == "" {
		return // nothing is waited for yet: the service has taken as long to be opened
	}
	within, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	list, err := s.store.Participants(within, path)
	if err != nil {
		return
	}
	line, place := behind(path, list, s.holder, time.Now())
	if quiet := recipe.SilenceOf(beneath.Store(s.store)); quiet != nil {
		line, place = "waiting for "+path+": "+quiet.Error(), inSilence
	}
	switch {
	case place == 0, s.hidden():
	case s.width > 0:
		s.drawn = true
		fmt.Fprint(s.app.stderr, "\r\x1b[K"+cut(line, s.width-1))
	case place != s.place || time.Since(s.said) >= repeatEvery:
		s.place, s.said = place, time.Now()
		s.app.say(line)
	}
}

// behind says what a waiter of that name waits behind, and its place among those who wait, counted from 1 as who counts it; 0 if it does not
// wait.
func behind(path string, list []farsync.Participant, holder string, now time.Time) (line string, place int) {
	at := slices.IndexFunc(list, func(p farsync.Participant) bool { return !p.Held && p.Holder == holder })
	if at <= 0 {
		return "", 0
	}
	first := list[0]
	place = waiters(list[:at+1])
	line = "waiting for " + path + " behind " + name(first.Holder)
	if !first.Since.IsZero() {
		line += ", there for " + ago(now.Sub(first.Since))
	}
	line += fmt.Sprintf("; %s of %d who wait", ordinal(place), waiters(list))
	if first.WaitsFor != "" {
		line += "; it waits for " + legible.Text(first.WaitsFor)
	}
	return line, place
}

// waiters counts those who wait.
func waiters(list []farsync.Participant) (n int) {
	for i := range list {
		if !list[i].Held {
			n++
		}
	}
	return n
}

// name is what a holder calls itself, in a form that is safe to print.
func name(holder string) string {
	if holder == "" {
		return "a holder without a name"
	}
	return legible.Name(holder)
}

// ago is a time in words that are short: 3s, 2m10s, 40m, 5h, 3d.
func ago(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 10*time.Minute:
		return d.Truncate(time.Second).String()
	case d < 10*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 72*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

func ordinal(n int) string {
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}

// cut shortens a line to so many columns.
func cut(line string, columns int) string {
	if runes := []rune(line); columns > 0 && len(runes) > columns {
		return string(runes[:columns])
	}
	return line
}

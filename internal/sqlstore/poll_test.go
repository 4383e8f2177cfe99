package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/pause"
	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

// A line is a queue of entries that go one after the other, named 0, 1, 2 and so on, as Poll sees it in a database.
type line struct {
	takes time.Duration // that a request takes

	mu     sync.Mutex
	gone   int  // entries that have
	looks  int  // requests
	asked  bool // the holder of another entry was sent a word
	broken bool // it fails
}

func (*line) Write(context.Context, func(Rows) error, string, ...any) error { return nil }
func (*line) Hear(context.Context) error                                    { return nil }
func (*line) Reset()                                                        {}

func (l *line) Read(ctx context.Context, f func(Rows) error, _ string, args ...any) error {
	if err := pause.For(ctx, l.takes); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks++
	if l.broken {
		return errors.New("no answer")
	}
	var targets []Target
	if err := json.Unmarshal([]byte(args[0].(string)), &targets); err != nil {
		return err
	}
	var list seen
	for _, t := range targets {
		if t.What == "told" {
			list = append(list, []any{t.Name, l.asked, seldom})
			continue
		}
		n, _ := strconv.Atoi(t.ID)
		list = append(list, []any{t.Name, n < l.gone, max(n-l.gone, 0)})
	}
	return f(&list)
}

func (l *line) goes() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone++
}

func (l *line) asks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = true
}

func (l *line) breaks(broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = broken
}

func (l *line) looked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.looks
}

// seen are the rows of an answer.
type seen [][]any

func (s *seen) Next() bool { return len(*s) > 0 }
func (s *seen) Err() error { return nil }
func (s *seen) Scan(into ...any) error {
	row := (*s)[0]
	*into[0].(*string), *into[1].(*bool), *into[2].(*int) = row[0].(string), row[1].(bool), row[2].(int)
	*s = (*s)[1:]
	return nil
}

// behind is a target of what waits behind the entry n, which has ahead others before it.
func behind(n, ahead int) Target {
	return Target{Name: strconv.Itoa(n), What: "gone", ID: strconv.Itoa(n), Ahead: ahead}
}

// word is the target of a holder who awaits a word.
var word = Target{Name: "held", What: "told", ID: "held", Ahead: seldom}

// polled starts a session that polls a line, until stop is called.
func polled(l *line) (s *Session, stop func()) {
	s = NewSession(l, time.Minute)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Poll(s.Life)
	}()
	return s, func() {
		s.Finish()
		<-done
	}
}

func TestPollWakesWhatHasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{takes: time.Millisecond}
		s, stop := polled(l)
		defer stop()
		pass := func() {
			<-time.After(time.Minute)
			synctest.Wait()
		}
		pass()
		require.Zero(t, l.looked(), "nothing waits")
		a, b := s.Waiters.add([]string{"0"}, behind(0, 0)), s.Waiters.add([]string{"1"}, behind(1, 1))
		pass()
		require.False(t, woken(a) || woken(b))
		l.breaks(true)
		l.goes()
		pass()
		require.False(t, woken(a) || woken(b), "what is not known has not moved")
		l.breaks(false)
		pass()
		require.True(t, woken(a))
		require.False(t, woken(b))
		s.Waiters.remove(a)
		l.goes()
		pass()
		require.True(t, woken(b))
		c := s.Waiters.add([]string{"1"}, behind(1, 0))
		pass()
		require.True(t, woken(c), "it had moved before the first look")
		s.Waiters.remove(b)
		s.Waiters.remove(c)
		before := l.looked()
		pass()
		require.LessOrEqual(t, l.looked()-before, 1, "nothing waits")
	})
}

// TestLooksWithoutAnAnswerAreFew, however many Watches arrive meanwhile: each fails, too, and comes again.
func TestLooksWithoutAnAnswerAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{takes: time.Millisecond}
		s, stop := polled(l)
		defer stop()
		a := s.Waiters.add([]string{"0"}, behind(0, 0))
		<-time.After(time.Second)
		l.breaks(true)
		before := l.looked()
		for range 200 {
			s.Waiters.remove(s.Waiters.add([]string{"0"}, behind(0, 0)))
			<-time.After(20 * time.Millisecond)
		}
		looks := l.looked() - before
		t.Logf("%d looks in 4 s", looks)
		require.LessOrEqual(t, looks, 16)
		require.GreaterOrEqual(t, looks, 5)
		l.breaks(false)
		l.goes()
		<-time.After(time.Second)
		require.True(t, woken(a), "the server is back")
	})
}

// play has n sessions take their turns in a line, for long each, and returns how many looks each has made, and how much longer each
// turn took than that: what it was late. Each session awaits more beside.
func play(t *testing.T, n int, long func(i int) time.Duration, more ...Target) (looks float64, late time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{takes: 200 * time.Microsecond}
		began, worked := time.Now(), time.Duration(0)
		var all sync.WaitGroup
		for i := range n {
			s, stop := polled(l)
			for _, t := range more {
				s.Waiters.add([]string{t.Name}, t)
			}
			in := s.Waiters.add([]string{strconv.Itoa(i)}, behind(i, i))
			worked += long(i)
			all.Go(func() {
				defer stop()
				<-in
				s.Waiters.remove(in)
				<-time.After(long(i))
				l.goes()
			})
		}
		l.goes()
		all.Wait()
		looks, late = float64(l.looked())/float64(n), (time.Since(began)-worked)/time.Duration(n)
	})
	return looks, late
}

// firstTakes returns how long each turn is: the first as long as it is given, and every other turn 1 ms.
func firstTakes(d time.Duration) func(i int) time.Duration {
	return func(i int) time.Duration {
		if i == 0 {
			return d
		}
		return time.Millisecond
	}
}

// TestLooksDoNotGrowWithTheQueue, nor does what a hand-over takes, however long the turns are.
func TestLooksDoNotGrowWithTheQueue(t *testing.T) {
	for name, long := range map[string]func(int) time.Duration{
		"3 ms":      func(int) time.Duration { return 3 * time.Millisecond },
		"50 ms":     func(int) time.Duration { return 50 * time.Millisecond },
		"1 or 9 ms": func(i int) time.Duration { return time.Duration(1+8*(i%2)) * time.Millisecond },
	} {
		few, _ := play(t, 8, long)
		looks, late := play(t, 64, long)
		t.Logf("%s: %.1f looks each among 8, %.1f among 64, late by %v", name, few, looks, late)
		require.Less(t, looks, few*1.6, name)
		require.Less(t, late, 4*time.Millisecond, name)
	}
	_, late := play(t, 64, firstTakes(time.Second))
	t.Logf("behind a turn of 1 s those of 1 ms are late by %v", late)
	require.Less(t, late, 50*time.Millisecond, "one that has waited for long soon finds out that the queue moves again")
}

// TestWhoHoldsWaitsNoLongerForAnotherLock: of each lease a word to its holder is awaited, which the queue of another lock does not bring nearer.
func TestWhoHoldsWaitsNoLongerForAnotherLock(t *testing.T) {
	_, alone := play(t, 64, firstTakes(10*time.Second))
	_, holding := play(t, 64, firstTakes(10*time.Second), word)
	t.Logf("behind a turn of 10 s turns of 1 ms are late by %v, and by %v where each session holds a lease", alone, holding)
	require.Less(t, holding, 50*time.Millisecond)
}

// TestWordIsHeardWhileAnotherQueueStands, within the second that a word may take, however far behind its holder waits there.
func TestWordIsHeardWhileAnotherQueueStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{takes: time.Millisecond}
		s, stop := polled(l)
		defer stop()
		s.Waiters.add([]string{"500"}, behind(500, 500))
		heard := s.Waiters.add([]string{"held"}, word)
		<-time.After(time.Minute)
		l.asks()
		began := time.Now()
		<-heard
		require.Less(t, time.Since(began), atMost)
	})
}

package suite

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// NotJudged begins the line of a test that failed on a machine that was too slow for it. make long counts it neither as passed nor as failed.
const NotJudged = "not judged: "

// Timed says that t asks the machine for time: that a holder renews within its TTL, say, while a crowd is served. If t fails, and while it ran
// a timer came later than allowed, the machine may be why, and t is not judged. What must hold however slow a machine is, that two never hold at
// once, is no matter of Timed: then nobody would look at its failure.
func Timed(t testing.TB, allowed time.Duration) {
	t.Helper()
	w := watchTimers()
	t.Cleanup(func() {
		if why := verdict(t.Failed(), w.stop(), allowed); why != "" {
			t.Log(why)
		}
	})
}

// verdict returns why a test is not judged, if it is not.
func verdict(failed bool, late, allowed time.Duration) string {
	if !failed || late <= allowed {
		return ""
	}
	return fmt.Sprintf("%sa timer came %v late, and %v are allowed", NotJudged, late.Round(time.Millisecond), allowed)
}

// A timerWatch sees how late timers come.
type timerWatch struct {
	mu    sync.Mutex
	worst time.Duration
	over  bool
}

// between is the time from a timer's end to that of the next.
const between = 20 * time.Millisecond

// watchTimers begins to watch. It takes no goroutine that a test could find left behind.
func watchTimers() *timerWatch {
	w := new(timerWatch)
	w.next()
	return w
}

func (w *timerWatch) next() {
	due := time.Now().Add(between)
	time.AfterFunc(between, func() {
		if w.saw(time.Since(due)) {
			w.next()
		}
	})
}

// saw notes how late a timer came. It reports whether to go on.
func (w *timerWatch) saw(late time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.worst = max(w.worst, late)
	return !w.over
}

// stop returns by how much the latest timer was late.
func (w *timerWatch) stop() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	return w.worst
}

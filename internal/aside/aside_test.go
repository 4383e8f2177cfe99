//nolint:forbidigo // time is that of a bubble
package aside

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

// A pen is a handler that does something with each line, and keeps it.
type pen struct {
	do      func(words string)
	enabled func(slog.Level) bool // nil: all levels

	mu    sync.Mutex
	lines []string
}

func (p *pen) Enabled(_ context.Context, level slog.Level) bool {
	return p.enabled == nil || p.enabled(level)
}

func (p *pen) Handle(_ context.Context, r slog.Record) error {
	if p.do != nil {
		p.do(r.Message)
	}
	words := r.Message
	r.Attrs(func(a slog.Attr) bool { words += " " + a.Value.String(); return true })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, words)
	return nil
}

func (p *pen) WithAttrs([]slog.Attr) slog.Handler { return p }

func (p *pen) WithGroup(string) slog.Handler { return p }

func (p *pen) written() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines...)
}

func write(l *slog.Logger, from, to int) {
	for i := from; i < to; i++ {
		l.Info(fmt.Sprint(i))
	}
}

func TestLinesAreWrittenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pen{do: func(string) { time.Sleep(time.Millisecond) }}
		l := Logger(slog.New(p))
		write(l, 0, most)
		began := time.Now()
		Close(l)
		require.Equal(t, most*time.Millisecond, time.Since(began), "Close waits for what is to be written")
		require.Len(t, p.written(), most)
		for i, words := range p.written() {
			require.Equal(t, fmt.Sprint(i), words)
		}
		l.Info("late")
		Close(l)
		synctest.Wait()
		require.Len(t, p.written(), most)
	})
}

// A Logger that blocks holds up nobody. What does not fit is counted, and said in its place.
func TestLoggerThatBlocksHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := make(chan struct{})
		p := &pen{do: func(string) { <-reader }}
		l := Logger(slog.New(p))
		began := time.Now()
		write(l, 0, 1)
		synctest.Wait() // it is being written
		write(l, 1, 1+most+5)
		require.Equal(t, began, time.Now())
		close(reader)
		synctest.Wait()
		lines := p.written()
		require.Len(t, lines, 1+most+1)
		require.Equal(t, []string{fmt.Sprint(most), "lines left out: the Logger blocks, or fails 5"}, lines[most:])
		write(l, 9999, 10000)
		Close(l)
		require.Equal(t, "9999", p.written()[most+2])
	})
}

// A Logger that never returns holds up Close for a second, and writes nothing more.
func TestCloseDoesNotWaitForALoggerThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := make(chan struct{})
		p := &pen{do: func(string) { <-reader }}
		l := Logger(slog.New(p))
		write(l, 0, 9)
		began := time.Now()
		Close(l)
		require.Equal(t, patience, time.Since(began))
		Close(l)
		require.Equal(t, patience, time.Since(began))
		close(reader) // or the bubble would not end
		synctest.Wait()
		require.Equal(t, []string{"0"}, p.written())
	})
}

// A Logger that fails loses the line at which it did, and no other.
func TestLoggerThatFailsLosesThatLine(t *testing.T) {
	for name, fail := range map[string]func(){"panics": func() { panic("full") }, "ends its goroutine": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pen{do: func(words string) {
					if words == "1" {
						fail()
					}
				}}
				l := Logger(slog.New(p))
				write(l, 0, 3)
				synctest.Wait()
				require.Equal(t, []string{"0", "2", "lines left out: the Logger blocks, or fails 1"}, p.written())
				p.do = func(string) { fail() }
				write(l, 3, 5)
				began := time.Now()
				Close(l)
				require.Equal(t, began, time.Now())
				require.Len(t, p.written(), 3)
			})
		})
	}
}

// A Logger that calls Close waits for itself for no longer than others wait for it.
func TestLoggerThatCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *slog.Logger
		p := &pen{do: func(string) { Close(l) }}
		l = Logger(slog.New(p))
		write(l, 0, 3)
		time.Sleep(patience)
		synctest.Wait()
		require.Equal(t, []string{"0"}, p.written())
	})
}

func TestLinesKeepWhatTheyWereSaidWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where Close waits for as long as it takes
		var text strings.Builder
		l := Logger(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelInfo})))
		l.With("store", "a").WithGroup("g").Info("words", "n", 1)
		l.Debug("not enabled")
		Close(l)
		require.Contains(t, text.String(), "msg=words store=a g.n=1\n")
		require.NotContains(t, text.String(), "not enabled")
		Close(Logger(nil))
	})
}

// A Store and its driver say what they do in one order, and the first Close is that of both.
func TestLoggerOfALoggerIsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pen{do: func(string) { time.Sleep(time.Millisecond) }}
		of := Logger(slog.New(p))
		store, service := Logger(of).With("store", "a"), Logger(of)
		want := []string{}
		for i := range 10 {
			store.Info(fmt.Sprint(i))
			service.Info(fmt.Sprint(i, "s"))
			want = append(want, fmt.Sprint(i), fmt.Sprint(i, "s"))
		}
		Close(service)
		require.Equal(t, want, p.written())
		store.Info("late")
		Close(store)
		require.Equal(t, want, p.written())
	})
}

// How many lines were left out is a line at Warn, and not for a Logger that does not take those.
func TestLoggerIsAskedForTheLevelOfLinesLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := make(chan struct{})
		p := &pen{do: func(string) { <-reader }, enabled: func(l slog.Level) bool { return l >= slog.LevelError }}
		l := Logger(slog.New(p))
		for range 1 + most + 5 {
			l.Warn("not taken")
			l.Error("taken")
			synctest.Wait()
		}
		close(reader)
		Close(l)
		require.Equal(t, slices.Repeat([]string{"taken"}, 1+most), p.written())
	})
}

// A level that cannot be asked for is taken.
func TestLoggerWhoseEnabledPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // as above
		p := &pen{enabled: func(slog.Level) bool { panic("no level") }}
		l := Logger(slog.New(p))
		require.True(t, l.Enabled(t.Context(), slog.LevelInfo))
		l.Info("1")
		Close(l)
		require.Equal(t, []string{"1"}, p.written())
	})
}

// While a Logger blocks, what waits for it is bounded, and once it goes on nothing is kept.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := make(chan struct{})
		p := &pen{do: func(string) { <-reader }}
		l := Logger(slog.New(p))
		q := l.Handler().(*handler).queue
		holds := func() (n, room int) {
			q.mu.Lock()
			defer q.mu.Unlock()
			return len(q.list), cap(q.list)
		}
		for i := range 10 * most {
			write(l, 2*i, 2*i+2)
			synctest.Wait()
			reader <- struct{}{} // it writes half of what is said
			n, room := holds()
			require.LessOrEqual(t, n, most)
			require.Less(t, room, 4*most)
		}
		close(reader)
		synctest.Wait()
		_, room := holds()
		require.Zero(t, room)
		Close(l)
	})
}

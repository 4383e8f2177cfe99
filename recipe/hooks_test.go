//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// A seal is a slog.Handler that does something in place of writing a line.
type seal func(slog.Record)

func (seal) Enabled(context.Context, slog.Level) bool { return true }

func (s seal) Handle(_ context.Context, r slog.Record) error { s(r); return nil }

func (s seal) WithAttrs([]slog.Attr) slog.Handler { return s }

func (s seal) WithGroup(string) slog.Handler { return s }

// A hook is a function of the program that a Store calls.
type hook struct {
	// set has the hook call do.
	set func(o *recipe.Options, do func())
	// callers is true if the goroutine that acquires or releases calls it: if it blocks, that waits, and nobody else.
	callers bool
	// waits is for how long a call that waits is not told that its turn has come, if it blocks.
	waits time.Duration
	// keeps is true if it keeps Close for a second, if it blocks.
	keeps bool
}

var hooks = map[string]hook{
	"Logger": {set: func(o *recipe.Options, do func()) {
		o.Logger = slog.New(seal(func(slog.Record) { do() }))
	}, keeps: true},
	"OnState": {set: func(o *recipe.Options, do func()) {
		o.OnState = func(recipe.State) { do() }
	}, keeps: true},
	"Trace.Session": {set: func(o *recipe.Options, do func()) {
		o.Trace = &recipe.Trace{Session: func(recipe.Health) { do() }}
	}, keeps: true},
	"Trace.Ended": {set: func(o *recipe.Options, do func()) {
		o.Trace = &recipe.Trace{Ended: func(recipe.End) { do() }}
	}, callers: true, keeps: true},
	"Trace.Wait": {set: func(o *recipe.Options, do func()) {
		o.Trace = &recipe.Trace{Wait: func(context.Context, recipe.Want, recipe.Behind) { do() }}
	}, waits: 2 * time.Second, keeps: true},
	"Trace.Acquire": {set: func(o *recipe.Options, do func()) {
		o.Trace = &recipe.Trace{Acquire: func(ctx context.Context, _ recipe.Want) (context.Context, func(recipe.Got)) {
			do()
			return ctx, nil
		}}
	}, callers: true},
	"what Trace.Acquire returns": {set: func(o *recipe.Options, do func()) {
		o.Trace = &recipe.Trace{Acquire: func(ctx context.Context, _ recipe.Want) (context.Context, func(recipe.Got)) {
			return ctx, func(recipe.Got) { do() }
		}}
	}, callers: true},
	"Trace.Note": {set: func(o *recipe.Options, do func()) {
		o.Trace = &recipe.Trace{Note: func(context.Context, recipe.Want) string { do(); return "" }}
	}, callers: true},
}

// TestEveryHookIsInTheTable: a function that is added to the Options or the Trace of a Store is one more that may block.
func TestEveryHookIsInTheTable(t *testing.T) {
	var called []string
	for within, of := range map[string]reflect.Type{"": reflect.TypeFor[recipe.Options](), "Trace.": reflect.TypeFor[recipe.Trace]()} {
		for field := range of.Fields() {
			switch field.Type {
			case reflect.TypeFor[string](), reflect.TypeFor[bool](), reflect.TypeFor[time.Duration](), reflect.TypeFor[*recipe.Trace]():
				continue // of a Trace the fields are called
			}
			called = append(called, within+field.Name)
		}
	}
	for name := range hooks {
		if name != "what Trace.Acquire returns" {
			require.Contains(t, called, name)
		}
	}
	for _, name := range called {
		require.Contains(t, hooks, name)
	}
}

func on(path string) recipe.Request {
	r := exclusive
	r.Queue, r.Line = path, true
	return r
}

// What a program has a Store call may block, panic, end its goroutine or call the Store. That costs no lease, of this
// Store or of another that calls the same, over outages that a lease outlives; no waiter its turn; no session that is
// lost the next. Close waits for a second, and calls nothing afterwards.
func TestHooksCostNoLease(t *testing.T) {
	for name, h := range hooks {
		locked := 0
		for does, what := range map[string]func(w *world, goes chan struct{}, s *recipe.Store){
			"blocks": func(_ *world, goes chan struct{}, _ *recipe.Store) { <-goes },
			"panics": func(*world, chan struct{}, *recipe.Store) { panic("a bug") },
			"ends its goroutine": func(*world, chan struct{}, *recipe.Store) {
				if !h.callers {
					runtime.Goexit()
				}
			},
			"locks": func(_ *world, _ chan struct{}, s *recipe.Store) {
				if locked++; locked > 20 {
					return // for each line that a Logger writes the lock has it write others
				}
				if hold, err := recipe.Acquire(context.Background(), s, new(trying(on("/called")))); err == nil {
					_ = hold.Release()
				}
			},
		} {
			t.Run(name+" "+does, func(t *testing.T) {
				inBubble(t, func(w *world) { w.hooked(h, does == "blocks", what) })
			})
		}
	}
}

func (w *world) hooked(h hook, blocks bool, what func(w *world, goes chan struct{}, s *recipe.Store)) {
	goes := make(chan struct{})
	var armed atomic.Pointer[recipe.Store] // what the hook may call; nil while it does nothing
	var within, calls atomic.Int32         // within: a hook that calls the Store is called for that, too
	o := recipe.Options{TTL: ttl}
	h.set(&o, func() {
		calls.Add(1)
		if s := armed.Load(); s != nil && within.CompareAndSwap(0, 1) {
			defer within.Store(0)
			what(w, goes, s)
		} else if s != nil && blocks {
			<-goes
		}
	})
	s := w.with(o)
	other := w.with(o)
	plain := w.open()
	var mine, others []*try
	for _, path := range []string{"/a", "/b", "/lost"} {
		mine = append(mine, w.granted(w.startFor(s, on(path))))
	}
	others = append(others, w.granted(w.startFor(other, on("/other"))))
	first := w.startFor(plain, on("/a")) // waits behind mine, and the hook has no part in it
	w.settle()
	armed.Store(s)

	behind := w.startFor(other, on("/b")) // its call waits, in the queue
	line := w.startFor(s, on("/b"))       // its call waits, in the line of s
	time.Sleep(ttl / 4)
	for range 3 {
		w.Partition(s, true)
		time.Sleep(ttl * 45 / 100)
		w.settle()
		require.Equal(w, recipe.Suspended, s.State())
		w.Partition(s, false)
		time.Sleep(2 * ttl)
		w.settle()
		require.Equal(w, recipe.Connected, s.State())
		for _, h := range append(mine, others...) {
			require.NoError(w, h.hold.Err())
		}
	}

	release := func(t *try) chan error {
		done := make(chan error, 1)
		go func() { done <- t.hold.Release() }() // a hook that blocks keeps it; joined below
		w.settle()
		return done
	}
	released := []chan error{release(mine[0]), release(mine[1])}
	w.granted(first)
	time.Sleep(h.waits)
	w.settle()
	if !blocks || !h.callers {
		for _, t := range []*try{behind, line} {
			w.granted(t)
			released = append(released, release(t))
		}
	}
	w.release(first)

	w.Expire(s)
	time.Sleep(ttl)
	w.settle()
	require.Equal(w, recipe.Connected, s.State(), "it has another session")
	require.ErrorIs(w, mine[2].hold.Err(), recipe.ErrLost)
	require.NoError(w, others[0].hold.Err())
	after := w.granted(w.startFor(plain, on("/lost")))
	w.release(after)

	began := time.Now()
	for _, s := range []*recipe.Store{other, s} {
		require.NoError(w, s.Close())
	}
	took := time.Since(began)
	if blocks && h.keeps {
		require.LessOrEqual(w, took, 2*time.Second)
		require.GreaterOrEqual(w, took, time.Second)
	} else {
		require.Zero(w, took)
	}
	n := calls.Load()
	if blocks {
		close(goes)
	}
	w.settle()
	if !h.callers {
		require.Equal(w, n, calls.Load(), "it was called after Close")
	}
	for _, done := range released {
		require.NoError(w, <-done)
	}
	for _, t := range []*try{line, behind} {
		<-t.done
	}
}

// A Trace that blocks while its Store loses sessions is told of the last when it goes on, and how many calls were left
// out is logged. What waits for it is bounded.
func TestTraceThatBlocksIsToldTheLast(t *testing.T) {
	inBubble(t, func(w *world) {
		goes := make(chan struct{})
		var told []recipe.Health
		left := 0
		s := w.with(recipe.Options{
			TTL: ttl,
			Trace: &recipe.Trace{Session: func(h recipe.Health) {
				<-goes
				told = append(told, h)
			}},
			Logger: slog.New(seal(func(r slog.Record) {
				r.Attrs(func(a slog.Attr) bool {
					if a.Key == "calls" {
						left++
					}
					return true
				})
			})),
		})
		for range 300 {
			time.Sleep(ttl / 4) // a renewal
		}
		w.settle()
		require.Equal(w, 1, left, "it is said when it begins")
		close(goes)
		w.settle()
		require.Equal(w, 2, left)
		require.Len(w, told, 257)
		require.True(w, told[0].Opened)
		for i, h := range told[1:] {
			require.Equal(w, told[i].State, h.Was)
		}
		require.NoError(w, s.Close())
		require.Equal(w, recipe.Lost, told[257].State)
	})
}

// A panic is logged with what it said and where. The call that it was made for goes on, with what the function was
// given.
func TestPanicOfAHookIsLogged(t *testing.T) {
	inBubble(t, func(w *world) {
		book := newNotebook(slog.LevelError)
		fail := func() { panic("a bug") }
		s := w.with(recipe.Options{
			TTL: ttl, Logger: slog.New(book), OnState: func(recipe.State) { fail() },
			Trace: &recipe.Trace{
				Acquire: func(ctx context.Context, w recipe.Want) (context.Context, func(recipe.Got)) {
					if w.Kind == driver.Read {
						return ctx, func(recipe.Got) { fail() }
					}
					fail()
					return ctx, nil
				},
				Note:    func(context.Context, recipe.Want) string { fail(); return "" },
				Wait:    func(context.Context, recipe.Want, recipe.Behind) { fail() },
				Ended:   func(recipe.End) { fail() },
				Session: func(recipe.Health) { fail() },
			},
		})
		w.settle()
		logged := func(functions ...string) {
			w.Helper()
			w.settle()
			lines := book.take()
			require.Len(w, lines, len(functions))
			for i, line := range lines {
				words, stack, _ := strings.Cut(line, " stack=")
				require.Contains(w, stack, "hooks_test.go")
				lines[i] = words
			}
			for _, function := range functions {
				require.Contains(w, lines, "ERROR a function of the program has panicked: function="+function+" cause=a bug")
			}
		}
		logged("OnState", "Trace.Session")
		h := w.granted(w.startFor(s, on("/q")))
		logged("Trace.Acquire", "Trace.Note")
		waits := w.startFor(s, on("/q"))
		logged("Trace.Acquire", "Trace.Note", "Trace.Wait")
		w.release(h)
		w.granted(waits)
		logged("Trace.Ended")
		w.release(waits)
		logged("Trace.Ended")
		read := on("/r")
		read.Kind = driver.Read
		w.granted(w.startFor(s, read))
		logged("Trace.Acquire", "Trace.Note")
		require.NoError(w, s.Close())
		logged("Trace.Ended", "Trace.Session")
	})
}

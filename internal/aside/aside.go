// Package aside calls what a program has given to a Store in a goroutine of its own, for which nothing waits: a Logger
// that blocks, as one to a pipe that nobody reads does, must not hold up what keeps a lease.
package aside

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// most is how many records wait to be written. A record for which there is no room is left out and counted.
	most = 256
	// patience is for how long Close waits for records that are still to be written.
	patience = time.Second
)

// Logger returns a Logger whose records go to the handler of the caller's, in order, from one goroutine. Saying
// something never waits for Handle. Enabled and the methods behind With are called in place, and are to return at once.
// Close ends the Logger.
//
// A Logger of this package is returned as it is, so that a Store and its driver write in one order. For a nil Logger it
// returns a Logger that writes nothing.
func Logger(to *slog.Logger) *slog.Logger {
	if to == nil {
		return slog.New(slog.DiscardHandler)
	}
	if _, ok := to.Handler().(*handler); ok {
		return to
	}
	return slog.New(&handler{to.Handler(), new(queue)})
}

// Close waits until all records of a Logger of this package have been written, and no longer than a second. Records
// that come later are not written, nor are records that still wait by then. A Handle that does not return keeps its
// goroutine until it does. Close does nothing to any other Logger.
func Close(l *slog.Logger) {
	if h, ok := l.Handler().(*handler); ok {
		h.queue.close()
	}
}

// A handler puts records into a queue, for the handler of a program.
type handler struct {
	to    slog.Handler
	queue *queue // shared by all handlers that were derived from one
}

// Enabled asks the handler of the program. If that panics, the record is made and handed to Handle: a process that
// renews sessions does not end because a level is not known.
func (h *handler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer func() {
		if recover() != nil {
			enabled = true
		}
	}()
	return h.to.Enabled(ctx, level)
}

// Handle puts a record into the queue.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	h.queue.add(note{to: h.to, record: r.Clone()})
	return nil
}

// WithAttrs returns a handler with the same queue.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.to.WithAttrs(attrs), h.queue}
}

// WithGroup returns a handler with the same queue.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.to.WithGroup(name), h.queue}
}

// A note is a record and the handler that is to write it.
type note struct {
	to     slog.Handler
	record slog.Record
	counts bool // it says how many records were left out
}

// write has the record written. The handler was asked for the level of a record before it was made, but not for the
// level of a note that counts.
func (n *note) write() {
	if n.counts && !n.to.Enabled(context.Background(), n.record.Level) {
		return
	}
	_ = n.to.Handle(context.Background(), n.record) // there is nobody to tell
}

// A queue has the records that are to be written. While it has any, one goroutine writes.
type queue struct {
	mu      sync.Mutex
	list    []note       // Invariant: len(list) ≤ most
	left    int          // records that were left out, or whose writing has panicked, since the last note that counts
	to      slog.Handler // of the last record that was added
	over    bool
	writing bool
	idle    chan struct{} // closed when the goroutine has written all; nil until there was one
}

func (q *queue) add(n note) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return
	}
	q.to = n.to
	q.count()
	if len(q.list) == most {
		q.left++
		return
	}
	q.list = append(q.list, n)
	if !q.writing {
		q.writing, q.idle = true, make(chan struct{})
		go q.write() // joined by close
	}
}

// count adds a note of how many records were left out, in their place, if there is room. The caller holds mu.
func (q *queue) count() {
	if q.left == 0 || len(q.list) == most {
		return
	}
	r := slog.NewRecord(time.Now(), slog.LevelWarn, "lines left out: the Logger blocks, or fails", 0)
	r.AddAttrs(slog.Int("lines", q.left))
	q.list, q.left = append(q.list, note{q.to, r, true}), 0
}

// write writes all notes, and ends. A handler that panics, or ends its goroutine, costs its record, and not the process
// with every lease in it.
func (q *queue) write() {
	var n note
	done := false
	defer func() {
		if !done {
			_ = recover()
			q.failed(n)
			go q.write() // in place of this goroutine, and joined by close as well
		}
	}()
	for q.next(&n) {
		n.write()
	}
	done = true
}

// next takes out the note that is to be written next. It returns false once there is none, and then the goroutine ends.
func (q *queue) next(n *note) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 && !q.over {
		q.count()
	}
	if len(q.list) == 0 {
		*n, q.list, q.writing = note{}, nil, false
		close(q.idle)
		return false
	}
	*n, q.list[0] = q.list[0], note{}
	q.list = q.list[1:]
	return true
}

// failed counts a record that was not written. A note that counts is not counted: a handler that always panics would
// have another to write each time.
func (q *queue) failed(n note) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !n.counts {
		q.left++
	}
}

func (q *queue) close() {
	q.mu.Lock()
	idle := q.idle
	if q.over {
		idle = nil
	}
	q.mu.Unlock()
	if idle != nil {
		t := time.NewTimer(patience)
		defer t.Stop()
		select {
		case <-idle:
		case <-t.C:
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over, q.list = true, nil
}

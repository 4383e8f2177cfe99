package recipe

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/farsync/farsync/driver"
)

// The lines that a Store gives its Logger have the same keys everywhere: store, path, kind, token, holder, behind, ahead, waited, held
// and cause, and left, ttl and locks for sessions. A line is put together only if the Logger takes its level.

// lostNotes is how many locks that were lost with their session are named one by one.
const lostNotes = 100

// notes reports whether the Logger takes lines of that level.
func (s *Store) notes(level slog.Level) bool { return s.log.Enabled(context.Background(), level) }

// begin returns the time at which a call that acquires began, or zero if it will not be logged.
func (s *Store) begin() (began time.Time) {
	if s.notes(slog.LevelDebug) {
		began = time.Now()
	}
	return began
}

func (s *Store) noteAcquired(h *Hold, began time.Time) {
	if !began.IsZero() {
		p := h.grant.place.Load()
		s.log.Debug("acquired", "path", p.entry.Queue, "kind", p.entry.Kind.String(), "token", digits(h.token()),
			"waited", time.Since(began), "ahead", p.ahead)
	}
}

// noteReleased says how a hold has ended that was held to the end. Err is what its release has met with.
func (s *Store) noteReleased(h *Hold, err error) {
	level, words := slog.LevelDebug, "released"
	if err != nil {
		level, words = slog.LevelWarn, "release not confirmed"
	}
	if !s.notes(level) {
		return
	}
	e := h.grant.place.Load().entry
	args := []any{"path", e.Queue, "kind", e.Kind.String(), "token", digits(h.token()), "held", time.Since(h.since)}
	if err != nil {
		args = append(args, "cause", err)
	}
	s.log.Log(context.Background(), level, words, args...)
}

// noteLost says that a lock was lost while it was held.
func (s *Store) noteLost(gr *grant, cause error) {
	if s.notes(slog.LevelWarn) {
		p := gr.place.Load()
		s.log.Warn("lock lost", "path", p.entry.Queue, "kind", p.entry.Kind.String(),
			"token", digits(tokenOf(p.entry.Revision, gr.turn())), "held", time.Since(gr.since), "cause", cause)
	}
}

// noteOther says that a message was left with the entry of a grant that was meant for another turn than is held.
func (s *Store) noteOther(gr *grant, m message) {
	e := gr.place.Load().entry
	s.log.Info("meant for another lease", "path", e.Queue, "kind", e.Kind.String(), "token", digits(tokenOf(e.Revision, gr.turn())),
		"holder", m.by, "cause", fmt.Sprintf("%s of token %d", m.what, tokenOf(e.Revision, m.turn)))
}

// noteStray says that another program has put an entry of no session ahead of the entry of a grant.
func (s *Store) noteStray(gr *grant, stray driver.Entry) {
	e := gr.place.Load().entry
	s.log.Warn("blocked behind this lease", "path", e.Queue, "kind", e.Kind.String(), "token", digits(tokenOf(e.Revision, gr.turn())),
		"cause", fmt.Sprintf("%s belongs to no session and stands ahead: nobody gets the lock next until it is deleted", describe(stray)))
}

// noteSession says that a session was lost, and which locks with it.
func (s *Store) noteSession(in *session) {
	lost := in.lost()
	s.log.Warn("session lost", "ttl", in.ttl, "locks", len(lost), "cause", in.err())
	s.noteAllLost(lost, in.err())
}

// noteAllLost says of the first of many locks that they were lost.
func (s *Store) noteAllLost(lost []*grant, cause error) {
	for _, gr := range lost[:min(len(lost), lostNotes)] {
		s.noteLost(gr, cause)
	}
}

// noteLate says that a renewal has come when little was left. Deadline is when the session would have ended without it.
func (s *Store) noteLate(in *session, deadline time.Time) {
	if left := time.Until(deadline); left < margin(in.ttl)/3 {
		s.log.Warn("session renewed late", "left", left)
	}
}

// digits is a token in a log. As a number, a line of JSON would lose its last digits in jq and in all that reads
// numbers as floats.
func digits(token int64) string { return strconv.FormatInt(token, 10) }

// tokenOf is what the root package makes of a revision and a turn.
func tokenOf(revision int64, turn int) int64 { return revision<<8 | int64(turn) }

// token returns the token of the hold.
func (h *Hold) token() int64 { return tokenOf(h.Token()) }

// turn returns the number of the last turn that has begun.
func (gr *grant) turn() int {
	if gr.cohort == nil {
		return 0
	}
	return gr.cohort.turn(gr)
}

// lost returns the grants that were held when the session ended.
func (in *session) lost() []*grant {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.losing
}

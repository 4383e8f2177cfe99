package recipe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/legible"
	"github.com/farsync/farsync/internal/pause"
)

// Words of one line ask the holder of an entry to give it back, whichever turn it is. Words of several lines are a
// message: what it is, the client that has left it, why, and "turn=" with the number of a turn. Without the fourth line
// it is one of an earlier version, and names no turn.
const (
	askWord   = "ask"   // asks one turn to give back
	breakWord = "break" // ends one turn
	turnWord  = "turn"  // is the holder's answer to a message for another turn: it says which turn is held
)

// A message is what was left with an entry. The zero value is none.
type message struct {
	what, by, why string
	turn          int
	named         bool // it names a turn
}

// parseMessage returns the message that words are. All other words, but none at all, ask, and name no turn.
func parseMessage(words string) (m message) {
	lines := strings.SplitN(words, "\n", 4)
	switch {
	case words == "":
		return message{}
	case len(lines) < 3 || lines[0] != breakWord && lines[0] != turnWord && lines[0] != askWord:
		return message{what: askWord}
	}
	m = message{what: lines[0], by: printable(lines[1]), why: printable(lines[2])}
	if len(lines) == 4 {
		if text, ok := strings.CutPrefix(lines[3], "turn="); ok {
			turn, err := strconv.ParseUint(text, 10, 8)
			m.turn, m.named = int(turn), err == nil
		}
	}
	return m
}

// words returns the message as words. It names a turn.
func (m message) words() string {
	return strings.Join([]string{m.what, printable(m.by), printable(m.why), "turn=" + strconv.Itoa(m.turn)}, "\n")
}

// broken returns the error that a message of that kind ends a hold with.
func (m message) broken() error {
	err := fmt.Errorf("%w by %s", ErrBroken, m.by)
	if m.why != "" {
		err = fmt.Errorf("%w: %s", err, m.why)
	}
	return err
}

// means reports whether the message is for the turn of that number, of a grant whose readers, if they are shared, hold
// turns at the same time, and are one to others. A message that names no turn is from a client that has seen the entry,
// and knows of one lease on it. It is for the first turn.
func (m message) means(turn int, shared bool) bool {
	if shared {
		return m.turn <= turn
	}
	return m.turn == turn
}

// asks reports whether the message asks the holder of that turn to give back. To break the turn is to ask for it first.
func (m message) asks(turn int, shared bool) bool {
	switch m.what {
	case askWord:
		return !m.named || m.means(turn, shared)
	case breakWord:
		return m.means(turn, shared)
	}
	return false
}

// maxWhy is how many bytes of a reason are passed on.
const maxWhy = 256

// Break ends the turn of that number on an entry that List has returned, and returns once the entry is gone, or with
// the error of ctx. It leaves words with the entry, which the Store that holds it hears once it has held it for a
// while: it then tells its holder, and removes the entry. Or it answers that another turn is held, and goes on: then
// the error wraps ErrReleased, and names the token of that one. A Store of an earlier version ends whichever turn it
// is.
//
// With remove the entry is removed at once, whichever turn is held, for holders that do not hear; they are not told.
func (q Queue) Break(ctx context.Context, e driver.Entry, turn int, why string, remove bool) error {
	s := q.Store
	if known, ok := turnOf(e); ok && turn != known {
		return notHeld(e, turn, known)
	}
	s.log.Warn("breaking a lock", "path", e.Queue, "kind", e.Kind.String(), "token", digits(tokenOf(e.Revision, turn)),
		"holder", wordsOf(e).holder, "cause", printable(why))
	strike := func() error { return q.tell(ctx, e, message{breakWord, s.options.Holder, why, turn, true}.words()) }
	if remove {
		strike = func() error { return q.remove(ctx, e) }
	}
	err := strike()
	for pace := answerFirst; err == nil; pace = min(2*pace, answerMost) {
		var words string
		if e, words, err = q.outlived(ctx, e, pace); err != nil || remove {
			continue
		}
		if known, ok := turnOf(e); ok && turn != known {
			return notHeld(e, turn, known)
		}
		switch m := parseMessage(words); {
		case m.what == breakWord: // ours, or another's that is answered first
		case m.what == turnWord && m.turn != turn:
			return notHeld(e, turn, m.turn)
		default:
			err = strike() // what was left has been replaced
		}
	}
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}

const (
	// An answer is looked for after answerFirst, and then after a time that doubles up to answerMost.
	answerFirst = 100 * time.Millisecond
	answerMost  = time.Second
)

// turnOf returns the turn that is held on an entry, and whether that is known.
func turnOf(e driver.Entry) (turn int, known bool) {
	switch {
	case e.Kind == driver.Read: // its turns are held at the same time
		return 0, false
	case e.Kind != driver.Exclusive && e.Kind != driver.Write: // these have no others
		return 0, true
	}
	return e.Turn, !e.HeldSince.IsZero() || e.Turn > 0
}

// notHeld is the error of a turn that is not held on an entry, on which another one is.
func notHeld(e driver.Entry, turn, held int) error {
	return fmt.Errorf("%w: no holder has token %d; token %d holds, of the same entry", ErrReleased, tokenOf(e.Revision, turn),
		tokenOf(e.Revision, held))
}

// outlived waits until e may be gone, for no longer than d, and returns it as it is then, with the words that are left
// with it; or ErrGone.
func (q Queue) outlived(ctx context.Context, e driver.Entry, d time.Duration) (now driver.Entry, words string, err error) {
	within, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if err := q.Wait(within, driver.Target{Entry: e}); err != nil && within.Err() == nil {
		return e, "", err
	}
	now = e
	err = q.do(ctx, func(ctx context.Context, in *session) error {
		found, err := in.Session.Find(ctx, e)
		if err != nil {
			return err
		}
		now.ID, now.Kind = found.ID, found.Kind // a writer may have become a reader
		now.Turn = wordsOf(found).turn
		if words, err = in.Session.Heard(ctx, now); errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		return err
	})
	return now, words, err
}

// remove removes e. An attempt of unknown outcome is repeated: the entry is told by its revision, too.
func (q Queue) remove(ctx context.Context, e driver.Entry) error {
	return q.do(ctx, func(ctx context.Context, in *session) error {
		v, _, err := in.Session.Delete(ctx, e)
		if err == nil && v.Turn {
			q.Store.touch(in, v)
		}
		return err
	})
}

// tell leaves words with e. An attempt of unknown outcome is repeated, too. ErrNoSession says
// that nothing was sent, for nobody would ever hear the words.
func (q Queue) tell(ctx context.Context, e driver.Entry, words string) error {
	if err := CheckPath(q.Path); err != nil {
		return err
	}
	return q.Store.inSession(ctx, func(in *session) verdict {
		if e.Session == "" && in.Name() != "" { // where sessions have names, List has told
			return verdict{fate: not, err: fmt.Errorf("entry %s %w", legible.Name(e.ID), ErrNoSession)}
		}
		return q.Store.tell(ctx, in, e, words)
	})
}

// ErrNoSession is the error of words for an entry of another program that no session will ever remove.
var ErrNoSession = errors.New("belongs to no session, so nobody can be asked to give it back: remove it if nothing needs it")

// tell leaves words with e. Where they stay when e is gone, a goroutine of the Store takes them back then, whatever
// becomes of the caller: whoever releases e does not know that it was asked for.
func (s *Store) tell(ctx context.Context, in *session, e driver.Entry, words string) verdict {
	lasts := false
	v := s.try(ctx, in, func(ctx context.Context, _ int) (err error) {
		lasts, err = in.Session.Tell(ctx, e, words)
		return err
	})
	// Whether they stay is in an answer, which may be lost.
	if (v.fate == unknown || v.fate == done && lasts) && in.says(e) {
		s.background(func() { s.takeBack(in, e) })
	}
	return v
}

// A said is an entry with which a session has left words.
type said struct {
	id       string
	revision int64
}

// says notes that words were left with e, and reports whether it is news.
func (in *session) says(e driver.Entry) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.said == nil {
		in.said = map[said]bool{}
	}
	of := said{e.ID, e.Revision}
	news := !in.said[of]
	in.said[of] = true
	return news
}

// takeBack waits until e is gone, and takes back what was left with it, until that is confirmed or the session is over,
// with which they go. No Tell leaves words with an entry that is gone, so none stay of a Tell that arrives late.
func (s *Store) takeBack(in *session, e driver.Entry) {
	for brake := (pause.Brake{}); in.life.Err() == nil; brake.Woken(in.life, false) {
		if _, _, err := s.watch(in.life, in, new(driver.Entry), []driver.Target{{Entry: e}}); err != nil {
			_ = pause.For(in.life, watchAfter) // it is refused, and may not be later
		}
		if _, v := s.find(in.life, in, e); errors.Is(v.err, driver.ErrGone) {
			break
		}
	}
	for delay := retryFirst; in.life.Err() == nil; delay = min(2*delay, in.ttl/3) {
		v := s.try(in.life, in, func(ctx context.Context, _ int) error {
			_, err := in.Session.Tell(ctx, e, "")
			return err
		})
		if v.fate == done || errors.Is(v.err, driver.ErrGone) { // or they have gone with it
			in.mu.Lock()
			delete(in.said, said{e.ID, e.Revision})
			in.mu.Unlock()
			return
		}
		_ = pause.For(in.life, delay)
	}
}

// printable returns the text on one line, without what a terminal would act on, and no longer than a line for people.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !legible.Printable(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	return strings.TrimSpace(legible.Cut(text, maxWhy))
}

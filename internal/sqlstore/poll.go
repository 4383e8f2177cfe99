package sqlstore

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/farsync/farsync/driver"
)

const (
	// The entry next in line is looked for after quickest, and then after times that grow with how long its queue has not
	// moved, up to slowest: it is found late by some sixteenth of that.
	quickest = 500 * time.Microsecond
	slowest  = 200 * time.Millisecond
	part     = 16
	// An entry that has others ahead of it is looked for more rarely, but after atMost. For that it matters up to few how
	// many they are: a queue that has stood still may move quickly again, and a waiter who comes late keeps it standing.
	atMost = time.Second
	few    = 3
	// answered bounds one look.
	answered = 5 * time.Second
	// After looks without an answer the next is made after times that double from unansweredFirst to atMost.
	unansweredFirst = 20 * time.Millisecond
)

// Poll wakes Watches when what they wait for has moved, until ctx ends, which is no later than Life does, for a session
// that nothing notifies. One request looks for all that its Watches wait for, by the statement poll, and there is none
// while nothing waits. The rows are compared with what the Watch has read, and not with an earlier look, so nothing is
// missed that comes before the first. One call runs at a time.
func (s *Session) Poll(ctx context.Context) {
	var t timetable
	var b backoff
	due := time.Now()
	for {
		wait, waited := context.WithDeadline(ctx, due)
		arrived := s.Waiters.Await(wait)
		waited()
		targets, now := s.Waiters.Sought(), time.Now()
		switch {
		case ctx.Err() != nil:
			return
		case len(targets) == 0:
			due = now.Add(time.Hour) // or when one arrives
		case arrived:
			t = begin(now, targets)
			if soon := b.after(now.Add(chance(t.next(now)))); soon.Before(due) {
				due = soon
			}
		default:
			ahead, err := s.ask(ctx, targets)
			b.looked(time.Now(), err)
			if err == nil {
				t.queues.moved(now, ahead)
			}
			// No more than half of the time is spent looking.
			took := time.Since(now)
			due = b.after(now.Add(took + max(chance(t.next(now)), took)))
		}
	}
}

// A backoff keeps the next look away from looks without an answer. A Watch that arrives does not shorten it: while a
// server closes each connection at once every Watch fails and arrives again, and each look dials.
type backoff struct {
	pause time.Duration // the last one; 0 after an answer
	until time.Time
}

// looked notes how a look has ended.
func (b *backoff) looked(now time.Time, err error) {
	if err == nil {
		*b = backoff{}
		return
	}
	b.pause = min(max(2*b.pause, unansweredFirst), atMost)
	b.until = now.Add(chance(b.pause))
}

// after returns when a look may be made that is due then.
func (b *backoff) after(due time.Time) time.Time {
	if due.Before(b.until) {
		return b.until
	}
	return due
}

// A timetable is when to look: for the next of the awaited entries, and for what is not expected for long. Each has a pace
// of its own. A session that holds a lease awaits a word to its holder all the time: at one pace for both it would look more
// and more rarely for the entry ahead of it in another queue.
type timetable struct{ queues, rest pace }

// begin begins a timetable as a Watch arrives.
func begin(now time.Time, targets []Target) timetable {
	t := timetable{pace{since: now, ahead: none}, pace{since: now, ahead: none}}
	for _, is := range targets {
		p := &t.queues
		if is.isSeldom() {
			p = &t.rest
		}
		p.ahead = min(p.ahead, is.Ahead)
	}
	return t
}

// next returns how long it is to the next look.
func (t *timetable) next(now time.Time) time.Duration {
	return min(t.queues.next(now), t.rest.next(now))
}

// none is how many entries have to go before what is not awaited.
const none = math.MaxInt

// A pace is how the queue has moved in which the next of the awaited entries stands.
type pace struct {
	since time.Time     // when the wait began, or the next has moved up last
	ahead int           // how many entries have to go before it
	each  time.Duration // what one of them takes, as far as it is known, and no more: it at most doubles from look to look
}

// moved notes what a look has shown.
func (p *pace) moved(now time.Time, ahead int) {
	switch {
	case ahead == p.ahead:
		return
	case ahead > p.ahead: // another is the next now
		p.each = 0
	default:
		p.each = min(now.Sub(p.since)/time.Duration(p.ahead-ahead), max(2*p.each, few*quickest))
	}
	p.since, p.ahead = now, ahead
}

// next returns how long it is to the next look. Two thirds of the time that those ahead will take, if they take what
// others have taken, leave a third for what cannot be known. So each look comes nearer by as much as is left, and a
// waiter looks a few times in all, however many are ahead of it.
func (p *pace) next(now time.Time) time.Duration {
	ahead := min(p.ahead, math.MaxInt16)
	still := times(min(now.Sub(p.since)/part, slowest), min(ahead, few)+1)
	return min(max(times(quickest, ahead+1), still, times(p.each, ahead)*2/3), atMost)
}

func times(d time.Duration, n int) time.Duration { return d * time.Duration(n) }

// chance keeps those apart that began together.
func chance(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2) //nolint:gosec // no secret
}

// ask looks for targets, and wakes those whose wait may be over. It returns how many entries have to go before the
// first, none if no entry is awaited. If it may not look, it wakes all: none of them may, and their calls end with why.
func (s *Session) ask(ctx context.Context, targets []Target) (ahead int, err error) {
	ctx, cancel := context.WithTimeout(ctx, answered)
	defer cancel()
	type seen struct {
		name  string
		moved bool
		ahead int
	}
	list, err := Collect(ctx, s.db.Read, func(rows Rows) (is seen, err error) {
		return is, rows.Scan(&is.name, &is.moved, &is.ahead)
	}, "poll", Array(targets))
	var names []string
	rest := map[string]bool{}
	for _, t := range targets {
		if t.isSeldom() {
			rest[t.Name] = true
		}
	}
	ahead = none
	for _, is := range list {
		// The going of an entry and a word to its holder have one name. An entry with seldom ahead of it is looked for with the word.
		if !rest[is.name] || is.ahead != seldom {
			ahead = min(ahead, is.ahead)
		}
		if is.moved {
			names = append(names, is.name)
		}
	}
	if len(names) > 0 || err != nil && Outcome(err) == driver.Refused {
		s.Waiters.Wake(names) // none is all
	}
	return ahead, err
}

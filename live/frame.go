package live

import (
	"bytes"
	"encoding/json"
	"iter"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/farsync/farsync"
)

// The types of a View's messages, in JSON. docs/LIVE.md explains the fields.
type (
	frameJSON struct {
		headJSON

		// Locks are all locks, or in an event the locks that have changed.
		Locks     []json.RawMessage `json:"locks"`
		Gone      []gone            `json:"gone,omitempty"`
		Deadlocks []deadlockJSON    `json:"deadlocks"`
	}
	headJSON struct {
		Schema int         `json:"schema"`
		Seen   int64       `json:"seen"` // milliseconds since 1970, as all times
		Pace   int64       `json:"pace"`
		Stores []storeJSON `json:"stores"`
	}
	storeJSON struct {
		Name  string `json:"name"`
		State string `json:"state"`
		Seen  int64  `json:"seen"`
		Took  int64  `json:"took"`
		// More tells that there are locks beyond the limit, and MoreText that the bound of texts was reached.
		More     bool   `json:"more,omitempty"`
		MoreText bool   `json:"moreText,omitempty"`
		Error    string `json:"error,omitempty"`
		// NotBefore is until when the service grants nothing to anybody, and Why says what has happened to it.
		NotBefore int64  `json:"notBefore,omitempty"`
		Why       string `json:"why,omitempty"`
	}
	lockJSON struct {
		Store string `json:"store"`
		Path  string `json:"path"`
		Kind  string `json:"kind"`
		// Size and UnitsHeld belong to a semaphore.
		Size         int64             `json:"size,omitempty"`
		UnitsHeld    int64             `json:"unitsHeld,omitempty"`
		Error        string            `json:"error,omitempty"` // why the size is not known
		Held         int               `json:"held"`
		Waiting      int               `json:"waiting"`
		Participants []participantJSON `json:"participants"`
		Callers      []callerJSON      `json:"callers,omitempty"`
	}
	participantJSON struct {
		Holder    string        `json:"holder"`
		Held      bool          `json:"held"`
		Kind      string        `json:"kind"`
		Units     int64         `json:"units"`
		Token     farsync.Token `json:"token"`
		Since     int64         `json:"since,omitempty"`
		HeldSince int64         `json:"heldSince,omitempty"`
		ID        string        `json:"id"`
		Session   string        `json:"session,omitempty"`
		// Under are the shown entries above it, and UnderOthers is how many other entries there are: their IDs
		// have the paths of locks that are not for these eyes.
		Under       []string `json:"under,omitempty"`
		UnderOthers int      `json:"underOthers,omitempty"`
		Note        string   `json:"note,omitempty"`
		WaitsFor    string   `json:"waitsFor,omitempty"`
		Left        string   `json:"left,omitempty"`
		TraceURL    string   `json:"traceURL,omitempty"`

		kind farsync.Kind
	}
	gone struct {
		Store string `json:"store"`
		Path  string `json:"path"`
	}
)

const (
	schema = 1
	// mostInRow is how many participants of a lock an event has. The snapshot of a path has all.
	mostInRow = 100
)

// A frame is what all viewers see until there is another. The text that they are sent of it is made once, and shared by
// all: a client who is slow to accept it holds on to no copy.
type frame struct {
	number int
	head   frameJSON // without Locks and Gone
	// opening and closing are the head around the locks.
	opening, closing []byte
	order            []gone
	locks            map[gone][]byte
	// long are those locks with all participants, where an event has only the first of them.
	long map[gone]func() []byte

	some message        // what has changed from the frame with the number before, if this is not the first
	all  func() message // all locks
}

// frame puts together what was seen at a time.
func (v *View) frame(now time.Time, pace time.Duration, sights []sight) *frame {
	f := &frame{locks: map[gone][]byte{}, long: map[gone]func() []byte{}}
	surveys, seen := map[string]*sight{}, map[string]time.Time{}
	f.head = frameJSON{headJSON: headJSON{Schema: schema, Seen: now.UnixMilli(), Pace: pace.Milliseconds(), Stores: []storeJSON{}}}
	places := v.callers.places()
	var whole []lockJSON // with all participants
	shown := map[string]bool{}
	for _, s := range sights {
		for _, lock := range s.locks {
			for _, p := range lock.Participants {
				shown[p.ID] = true
			}
		}
	}
	for _, s := range sights {
		f.head.Stores = append(f.head.Stores, s.json())
		surveys[s.source.name], seen[s.source.name] = &s, s.seen
		for _, lock := range s.locks {
			at := gone{s.source.name, lock.Path}
			all := v.lockOf(s.source.name, lock, shown)
			all.Callers = places[gone{s.source.store.Name(), lock.Path}]
			whole = append(whole, all)
			f.order = append(f.order, at)
			f.locks[at] = encode(all.short())
			if len(all.Participants) > mostInRow {
				f.long[at] = sync.OnceValue(func() []byte { return encode(all) })
			}
		}
	}
	v.memory.note(now, pace, surveys, whole)
	f.head.Deadlocks = v.alarms.raise(seen, whole)
	f.opening = append(bytes.TrimSuffix(encode(f.head.headJSON), []byte("}")), `,"locks":[`...)
	f.closing = append(append([]byte(`],"deadlocks":`), encode(f.head.Deadlocks)...), '}')
	f.all = sync.OnceValue(func() message {
		return messageOf("all", slices.Collect(f.text(func(gone) bool { return true }, nil))...)
	})
	return f
}

// text yields the JSON of the frame with the locks that are wanted, in parts: a lock that is among long has the text
// from there.
func (f *frame) text(want func(at gone) bool, long map[gone]func() []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !yield(f.opening) {
			return
		}
		first := true
		for _, at := range f.order {
			if !want(at) {
				continue
			}
			lock := f.locks[at]
			if whole := long[at]; whole != nil {
				lock = whole()
			}
			if !first && !yield(comma) || !yield(lock) {
				return
			}
			first = false
		}
		yield(f.closing)
	}
}

var comma = []byte{','}

// since returns what has changed from another frame, which was directly before.
func (f *frame) since(before *frame) message {
	some := f.head
	some.Locks = []json.RawMessage{}
	for _, at := range f.order {
		if !bytes.Equal(f.locks[at], before.locks[at]) {
			some.Locks = append(some.Locks, f.locks[at])
		}
	}
	for _, at := range before.order {
		if f.locks[at] == nil {
			some.Gone = append(some.Gone, at)
		}
	}
	return messageOf("some", encode(some))
}

// encode returns the JSON of a value of this package, which all have one.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("live: " + err.Error())
	}
	return text
}

func (s *sight) json() storeJSON {
	j := storeJSON{Name: s.source.name, State: s.state.String(), Seen: milli(s.seen), Took: s.took.Milliseconds(), More: s.rest != nil, MoreText: s.full}
	if s.err != nil {
		j.Error = cut(s.err.Error(), mostError)
	}
	if s.hush != nil {
		j.NotBefore, j.Why = milli(s.hush.Until), cut(s.hush.Why, mostText)
	}
	return j
}

func (v *View) lockOf(store string, lock farsync.LockInfo, shown map[string]bool) lockJSON {
	j := lockJSON{Store: store, Path: lock.Path, Kind: "mutex", Size: lock.Size, Participants: make([]participantJSON, len(lock.Participants))}
	if lock.Err != nil {
		j.Error = lock.Err.Error()
	}
	for i, p := range lock.Participants {
		if p.Held {
			j.Held++
		} else {
			j.Waiting++
		}
		one := v.participantOf(p)
		for _, id := range p.Under {
			if shown[id] {
				one.Under = append(one.Under, id)
			} else {
				one.UnderOthers++
			}
		}
		j.Participants[i] = one
	}
	if len(lock.Participants) == 0 {
		return j // it may not be read
	}
	switch lock.Participants[0].Kind {
	case farsync.KindPermit:
		j.Kind = "semaphore"
		for _, p := range lock.Participants[:j.Held] { // they come first
			j.UnitsHeld += p.Units
		}
	case farsync.KindRead, farsync.KindWrite:
		j.Kind = "rwmutex"
	case farsync.KindCandidate:
		j.Kind = "election"
	}
	return j
}

func (v *View) participantOf(p farsync.Participant) participantJSON {
	return participantJSON{
		Holder: p.Holder, Held: p.Held, Kind: p.Kind.String(), Units: p.Units, Token: p.Token, Since: milli(p.Since),
		HeldSince: milli(p.HeldSince), ID: p.ID, Session: p.Session, Note: p.Note,
		WaitsFor: p.WaitsFor, Left: p.Left, TraceURL: v.traceURL(p.Note), kind: p.Kind,
	}
}

// short returns the lock with the first of its participants, so that a crowd at one lock is not sent once a second.
func (j lockJSON) short() lockJSON {
	j.Participants = slices.Clip(j.Participants[:min(len(j.Participants), mostInRow)])
	return j
}

// traceparent is the form of a note that names a trace, W3C's.
var traceparent = regexp.MustCompile(`^00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceURL returns where the trace is shown that a note names, or nothing. The note was written by another process: of
// it only what is a trace's ID reaches the URL, and what is no address of the web reaches no page.
func (v *View) traceURL(note string) string {
	if v.options.TraceURL == nil {
		return ""
	}
	parts := traceparent.FindStringSubmatch(note)
	if len(parts) == 0 || strings.Trim(parts[1], "0") == "" {
		return ""
	}
	to, err := url.Parse(v.options.TraceURL(parts[1]))
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "" {
		return ""
	}
	return to.String()
}

func milli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

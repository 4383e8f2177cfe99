//nolint:forbidigo // time is that of a bubble
package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/model"
	"github.com/farsync/farsync/internal/suite"
)

// A cohortModel explores the cohort itself, not a model of it: all orders in which some goroutines arrive, win, are handed turns,
// release and give up, with whatever a queue may answer. A state is what has been done to a new cohort, step by step; states in which
// the cohort and its goroutines are the same are one.
//
// The queue is a stranger here, that grants when it likes, but never while an entry of this process stands there that holds. What
// the queue does is explored by model.Queue.
type cohortModel struct {
	goroutines int
	shared     bool
	turns      int // that the first grant has had before, to come near the last
	pace       int // that it begins with
	faults     cohortFaults
	mistake    cohortMistake

	known map[string]int
	ways  [][]string // the shortest way to each state
}

// cohortFaults are how often each may happen.
type cohortFaults struct{ cancel, refuse, lose, pin, vanish, time, try int }

type cohortMistake int

const (
	_               cohortMistake = iota
	nothingLeft                   // a caller that gives up says nothing to the line
	noAlarm                       // a holder that takes its time closes nothing
	refusalUntold                 // what was carried and refused is told to none
	departureUntold               // a try that fails says nothing
	turnForTheGone                // one that gives up while a turn is on its way does not take it
)

func (m *cohortModel) Start() int {
	m.known, m.ways = map[string]int{}, nil
	w := m.play(nil)
	defer w.close()
	return m.number(w, nil)
}

func (m *cohortModel) number(w *cohortWorld, way []string) int {
	key := w.key()
	n, ok := m.known[key]
	if !ok {
		n = len(m.ways)
		m.known[key] = n
		m.ways = append(m.ways, way)
	}
	return n
}

func (m *cohortModel) Steps(s int, yield func(model.Step[int])) {
	w := m.play(m.ways[s])
	actions := w.actions()
	w.close()
	for _, a := range actions {
		way := append(slices.Clone(m.ways[s]), a.name)
		next := m.play(way)
		yield(model.Step[int]{Who: "goroutine", What: a.name, Next: m.number(next, way), Due: a.due, Wrong: next.wrong})
		next.close()
	}
}

func (m *cohortModel) Check(int) error { return nil }

func (m *cohortModel) Rest(s int) error {
	w := m.play(m.ways[s])
	defer w.close()
	return w.rest()
}

// play does to a new cohort what a way says.
func (m *cohortModel) play(way []string) *cohortWorld {
	w := &cohortWorld{m: m, faults: m.faults, actors: make([]actor, m.goroutines)}
	w.store = &Store{}
	w.store.life, w.store.shut = context.WithCancelCause(context.Background())
	w.c, w.gate = new(cohort), &carrying{carries: func(context.Context) {}}
	w.c.init(w.store, m.shared, w.gate)
	w.c.pace = m.pace
	w.session()
	for _, name := range way {
		all := w.actions()
		i := slices.IndexFunc(all, func(a action) bool { return a.name == name })
		all[i].do()
		w.settle()
	}
	return w
}

// A cohortWorld is one cohort, and what stands around it.
type cohortWorld struct {
	m      *cohortModel
	store  *Store
	c      *cohort
	gate   *carrying
	in     *session
	faults cohortFaults
	actors []actor
	won    int64 // how many grants
	token  int64 // the last
	wrong  error
}

// An actor is one goroutine.
type actor struct {
	at     string // how far it is; empty before it comes
	grant  *grant
	hold   *Hold
	waiter *waiter
	handed *turn
	stood  bool // its entry is in the queue
}

type action struct {
	name string
	due  bool
	do   func()
}

// A granter is a session of which no more is asked than until when it lasts.
type granter struct{ driver.Session }

func (granter) Granted() (time.Duration, time.Time) { return 24 * time.Hour, time.Now() }

func (w *cohortWorld) session() {
	w.in = newSession(w.store.life, granter{}, func() time.Duration { return 0 }, 0)
	w.in.held = map[*grant]bool{} // it is watched by none
}

func (w *cohortWorld) close() {
	w.store.shut(ErrClosed)
	w.silence()
	w.in.timer.Stop()
	w.store.tasks.Wait()
}

// silence has the alarm not ring.
func (w *cohortWorld) silence() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.c.timer != nil {
		w.c.timer.Stop()
	}
}

func (w *cohortWorld) actions() (list []action) {
	w.c.mu.Lock() // for an alarm may ring next
	defer w.c.mu.Unlock()
	add := func(due bool, name string, do func()) { list = append(list, action{name, due, do}) }
	fault := func(left *int, name string, do func()) {
		if *left > 0 {
			add(false, name, func() { *left--; do() })
		}
	}
	for i := range w.actors {
		if i > 0 && w.actors[i-1].at == "" {
			break // they come in the order of their numbers
		}
		w.actorsTurn(i, add, fault)
	}
	for i, gr := range w.c.grants {
		if gr.phase == joining && gr.drop != nil {
			if w.free(gr) {
				add(true, fmt.Sprintf("carried %d is granted", i), func() { w.serve(gr) })
			}
			fault(&w.faults.refuse, fmt.Sprintf("carried %d is refused", i), func() {
				if w.m.mistake != refusalUntold {
					w.c.refuse(gr, errors.New("no"))
				} else {
					w.end(gr)
				}
			})
		}
	}
	fault(&w.faults.lose, "the session is lost", func() {
		w.in.fail(errDeadline)
		w.session()
	})
	for i, gr := range w.c.grants {
		if gr.won() && gr.in().err() != nil {
			add(true, fmt.Sprintf("the loss of %d is noted", i), func() { w.c.lose(gr) })
		}
	}
	pass := func() {
		if w.m.mistake == noAlarm {
			w.silence()
		}
		time.Sleep(handOffFor)
		synctest.Wait()
	}
	if w.c.timed != nil && w.m.mistake != noAlarm {
		add(true, "the alarm rings after 50 ms", pass)
	} else {
		fault(&w.faults.time, "50 ms pass", pass)
	}
	return list
}

// actorsTurn adds what goroutine i may do: what a Gate does with the cohort.
func (w *cohortWorld) actorsTurn(i int, add func(bool, string, func()), fault func(*int, string, func())) {
	a := &w.actors[i]
	name := func(what string) string { return fmt.Sprintf("%d %s", i, what) }
	switch a.at {
	case "":
		add(false, name("comes"), func() { w.enter(a) })
		fault(&w.faults.try, name("tries"), func() { w.try(a) })
	case "competes":
		if w.free(a.grant) {
			add(true, name("is granted"), func() { w.win(a) })
		}
		fault(&w.faults.cancel, name("gives up with its entry"), func() { w.bequeath(a, &place{in: w.in}) })
		fault(&w.faults.refuse, name("is refused"), func() { w.bequeath(a, nil) })
	case "tries":
		if w.free(a.grant) {
			add(true, name("is granted"), func() { w.win(a) })
		}
		add(true, name("finds it taken"), func() {
			if a.at = "gone"; w.m.mistake != departureUntold {
				w.c.depart(a.grant)
			}
		})
	case "waits":
		if a.handed != nil {
			add(true, name("takes its turn"), func() { w.take(a) })
		}
		fault(&w.faults.cancel, name("gives up"), func() { w.leave(a) })
	case "holds":
		add(false, name("releases"), func() { w.release(a) })
		fault(&w.faults.pin, name("guards"), func() { a.grant.pin(a.hold.turn) })
		if !a.grant.gone {
			fault(&w.faults.vanish, name("finds its entry gone"), func() {
				a.grant.in().release(a.grant)
				a.grant.vanish()
				a.grant.end(ErrLost)
			})
		}
	case "removes":
		if a.stood {
			add(true, name("has its entry removed"), func() { a.stood = false })
		} else {
			add(true, name("hears that it is removed"), func() {
				a.at = "gone"
				w.c.depart(a.grant)
			})
		}
	}
}

// free reports whether the queue may grant: no entry of this process is in the way that holds, or is still to be removed. The caller holds
// the cohort's mu.
func (w *cohortWorld) free(of *grant) bool {
	if w.m.shared {
		return true
	}
	for i := range w.actors {
		if a := &w.actors[i]; a.at == "removes" && a.stood && a.grant.in().err() == nil {
			return false
		}
	}
	return !slices.ContainsFunc(w.c.grants, func(gr *grant) bool { return gr != of && gr.held() })
}

func (w *cohortWorld) place() *place {
	w.won++
	return &place{in: w.in, entry: driver.Entry{Revision: w.won}}
}

func (w *cohortWorld) enter(a *actor) {
	t, waits := w.c.enter(context.Background(), "")
	switch {
	case waits != nil:
		a.at, a.waiter = "waits", waits
	case t.grant.won():
		a.handed = &t
		w.take(a)
	default:
		a.at, a.grant = "competes", t.grant
	}
}

func (w *cohortWorld) try(a *actor) {
	t, ok := w.c.tryEnter(false)
	switch {
	case !ok:
		a.at = "gone"
	case t.grant.won():
		a.handed = &t
		w.take(a)
	default:
		a.at, a.grant = "tries", t.grant
	}
}

func (w *cohortWorld) win(a *actor) {
	if w.won == 0 {
		a.grant.turns = w.m.turns
	}
	w.c.won(a.grant, w.place())
	w.begin(a, a.grant, 0)
}

func (w *cohortWorld) serve(gr *grant) {
	if !w.c.serve(gr, w.place()) {
		w.wrong = errors.New("a grant that was not dropped is taken for one")
	}
}

func (w *cohortWorld) bequeath(a *actor, p *place) {
	if a.at = "gone"; w.m.mistake == nothingLeft {
		w.end(a.grant)
		return
	}
	w.c.bequeath(a.grant, p)
}

// end ends a grant, and provides nothing for the line.
func (w *cohortWorld) end(gr *grant) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.c.end(gr)
}

func (w *cohortWorld) leave(a *actor) {
	switch {
	case w.c.leave(a.waiter):
		a.at = "gone"
	case w.m.mistake == turnForTheGone:
		a.at = "gone"
	default:
		w.take(a)
	}
}

// take is what a goroutine does with its turn.
func (w *cohortWorld) take(a *actor) {
	t := *a.handed
	a.handed = nil
	if t.err != nil {
		a.at = "gone"
		return
	}
	if newHold(t.grant, t.number).Err() != nil {
		a.at, a.waiter = "waits", w.c.back(context.Background(), t.grant)
		return
	}
	w.begin(a, t.grant, t.number)
}

func (w *cohortWorld) begin(a *actor, gr *grant, number int) {
	a.at, a.grant, a.hold = "holds", gr, newHold(gr, number)
	if w.m.shared || a.hold.Err() != nil {
		return
	}
	revision, turn := a.hold.Token()
	token := revision<<8 | int64(turn)
	if token <= w.token {
		w.wrong = fmt.Errorf("a token that does not rise: %d of %d after %d of %d", turn, revision, w.token&255, w.token>>8)
	}
	w.token = token
}

func (w *cohortWorld) release(a *actor) {
	a.hold.end(ErrReleased)
	if !a.grant.finished() {
		a.at = "gone"
		return
	}
	a.grant.giveUp()
	a.at, a.stood = "removes", true
}

// settle takes what the cohort has sent, and looks for what must not be.
func (w *cohortWorld) settle() {
	holders := 0
	for i := range w.actors {
		a := &w.actors[i]
		if a.at == "waits" && a.handed == nil {
			select {
			case <-a.waiter.hand:
				a.handed = &a.waiter.turn
			default:
			}
		}
		if a.at == "holds" && a.hold.Err() == nil {
			holders++
		}
	}
	switch {
	case w.wrong != nil:
	case holders > 1 && !w.m.shared:
		w.wrong = errors.New("two hold")
	default:
		w.wrong = w.invariants()
	}
}

// invariants are those that stand on the fields.
func (w *cohortWorld) invariants() error {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.gate.uses != len(w.c.grants) {
		return fmt.Errorf("%d grants are counted as %d", len(w.c.grants), w.gate.uses)
	}
	carried, opens := 0, 0
	for _, gr := range w.c.grants {
		switch {
		case gr.phase == over:
			return errors.New("a grant that is over is kept")
		case gr.phase == open && gr.holds == 0, gr.phase < open && gr.holds > 0:
			return fmt.Errorf("%d holds in phase %d", gr.holds, gr.phase)
		case gr.turns > maxTurns:
			return errors.New("more turns than a token counts")
		}
		if gr.phase == open {
			opens++
		}
		if gr.phase == joining && gr.drop != nil {
			carried++
		}
	}
	switch {
	case opens > 1 || (w.c.open != nil) != (opens == 1):
		return errors.New("more than one grant is open")
	case carried > w.c.line.Len():
		return errors.New("more are carried than wait")
	case carried > maxEntries:
		return errors.New("more entries than one line may have")
	case w.c.line.Len() == 0, w.c.open != nil && w.c.timed == w.c.open:
		return nil
	}
	if joins, _ := w.c.grants.joining(); joins == 0 && w.m.mistake != noAlarm {
		return errors.New("a goroutine waits for nothing")
	}
	return nil
}

// rest requires that what waits, waits for a holder, behind an entry.
func (w *cohortWorld) rest() error {
	holds, waits := false, false
	for i := range w.actors {
		a := &w.actors[i]
		holds = holds || a.at == "holds"
		waits = waits || a.at == "waits" || a.at == "competes"
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	joins, _ := w.c.grants.joining()
	switch {
	case waits && !holds:
		return errors.New("a goroutine waits, and none holds")
	case w.c.line.Len() > 0 && joins == 0 && !w.c.admits(time.Now()):
		return errors.New("a goroutine waits, and no entry stands for it")
	case !waits && !holds && len(w.c.grants) > 0:
		return errors.New("a grant is left that no goroutine knows")
	}
	return nil
}

// key is all that what comes may depend on.
func (w *cohortWorld) key() string {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	var text strings.Builder
	index := func(gr *grant) int {
		return slices.Index(w.c.grants, gr)
	}
	describe := func(gr *grant) {
		if gr == nil {
			return
		}
		fmt.Fprintf(&text, "[%d %d %d %d %t %t %t", index(gr), gr.phase, gr.turns, gr.holds, gr.gone, gr.drop != nil, gr.won())
		if gr.won() {
			p := gr.place.Load()
			fmt.Fprintf(&text, " %t %t %t %t", p.in.err() == nil, gr.life.Err() == nil, p.entry.Revision == w.won, time.Since(gr.since) >= handOffFor)
		}
		text.WriteString("]")
	}
	for _, gr := range w.c.grants {
		describe(gr)
	}
	fmt.Fprintf(&text, "pace %d open %d timed %t %d first %t %v", w.c.pace, index(w.c.open), w.c.timed != nil, index(w.c.timed), w.won == 0, w.faults)
	for at := w.c.line.Front(); at != nil; at = at.Next() {
		i := slices.IndexFunc(w.actors, func(a actor) bool { return a.waiter == at.Value.(*waiter) })
		fmt.Fprintf(&text, " line %d", i)
	}
	for i := range w.actors {
		a := &w.actors[i]
		fmt.Fprintf(&text, "\n%s %t ", a.at, a.stood)
		if a.at == "gone" {
			continue
		}
		describe(a.grant)
		if a.hold != nil {
			fmt.Fprintf(&text, "%d %t", a.hold.turn, a.hold.Err() == nil)
		}
		if a.handed != nil {
			describe(a.handed.grant)
			fmt.Fprintf(&text, "handed %d %v", a.handed.number, a.handed.err)
		}
	}
	return text.String()
}

// explore measures by a clock from outside of the bubble.
func (m *cohortModel) explore(t *testing.T) (r model.Result) {
	began := time.Now()
	synctest.Test(t, func(*testing.T) { r = model.Explore(m, 0) })
	r.Took = time.Since(began)
	return r
}

func TestModelOfACohort(t *testing.T) {
	for _, play := range []struct {
		name  string
		model cohortModel
		long  bool
	}{
		{name: "3 goroutines; 2 give up", model: cohortModel{goroutines: 3, faults: cohortFaults{cancel: 2}}},
		{
			name:  "3 goroutines; 1 gives up, 1 refusal",
			model: cohortModel{goroutines: 3, faults: cohortFaults{cancel: 1, refuse: 1}},
		},
		{
			name:  "3 goroutines; 1 gives up, the session is lost",
			model: cohortModel{goroutines: 3, faults: cohortFaults{cancel: 1, lose: 1}},
		},
		{
			name:  "3 goroutines; 1 guard, 1 held entry found gone",
			model: cohortModel{goroutines: 3, faults: cohortFaults{pin: 1, vanish: 1}},
		},
		{
			name:  "3 goroutines, 2 may only try; 1 gives up",
			model: cohortModel{goroutines: 3, faults: cohortFaults{try: 2, cancel: 1}},
		},
		{
			name:  "4 goroutines, from the 254th turn on; 1 gives up",
			model: cohortModel{goroutines: 4, turns: 254, faults: cohortFaults{cancel: 1}},
		},
		{
			name: "4 goroutines, the last grant served 1 of them; 1 gives up, 50 ms pass", long: true,
			model: cohortModel{goroutines: 4, pace: 1, faults: cohortFaults{cancel: 1, time: 1}},
		},
		{
			name:  "3 readers; 1 gives up, 50 ms pass",
			model: cohortModel{goroutines: 3, shared: true, faults: cohortFaults{cancel: 1, time: 1}},
		},
		{
			name: "3 readers; 1 gives up, the session is lost, 50 ms pass", long: true,
			model: cohortModel{goroutines: 3, shared: true, faults: cohortFaults{cancel: 1, lose: 1, time: 1}},
		},
	} {
		t.Run(play.name, func(t *testing.T) {
			if play.long {
				suite.Long(t, suite.Model, "many states")
			}
			holds(t, play.name, play.model.explore(t))
		})
	}
}

func TestModelOfACohortFindsMistakes(t *testing.T) {
	for _, mistake := range []struct {
		name  string
		model cohortModel
	}{
		{
			name:  "a caller that gives up tells the line nothing",
			model: cohortModel{goroutines: 2, faults: cohortFaults{cancel: 1}, mistake: nothingLeft},
		},
		{
			name:  "no alarm rings for a holder that takes its time",
			model: cohortModel{goroutines: 2, faults: cohortFaults{time: 1}, mistake: noAlarm},
		},
		{
			name:  "a refusal of what was carried is told to none",
			model: cohortModel{goroutines: 2, faults: cohortFaults{refuse: 1}, mistake: refusalUntold},
		},
		{
			name:  "a try that fails does not say so",
			model: cohortModel{goroutines: 2, faults: cohortFaults{try: 1}, mistake: departureUntold},
		},
		{
			name:  "a goroutine that gives up does not take the turn that is on its way",
			model: cohortModel{goroutines: 2, faults: cohortFaults{cancel: 1}, mistake: turnForTheGone},
		},
	} {
		t.Run(mistake.name, func(t *testing.T) { found(t, mistake.name, mistake.model.explore(t)) })
	}
}

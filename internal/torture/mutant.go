//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A mutant is farsync with a mistake, as it is known from other locks. It is compiled from the sources as they are,
// with a few words replaced.
type mutant struct {
	name      string
	store     string
	primitive string
	tiers     []string // nil: all
	edits     []edit
	// tests are of make test and find it: a package and a pattern. A mutant with a primitive is tortured as well, for a
	// campaign finds it.
	tests [2]string
	// long are tests of make long that find it too. Mostly empty.
	long [2]string
}

// An edit replaces words that stand in a file once.
type edit struct{ file, old, by string }

var mutants = []mutant{
	{
		name: "the deadline counts from when the answer arrived", store: onEtcd, primitive: mutex, tiers: []string{tierWire},
		edits: []edit{
			{"etcd/keepalive.go", "s.ttl, s.from = time.Duration(resp.TTL)*time.Second, sent", "s.ttl, s.from = time.Duration(resp.TTL)*time.Second, time.Now()"},
		},
		tests: [2]string{"./internal/etcdtest", "^TestDriverKeepsTheContract$/^GrantedFromTheSending$"},
	},
	{
		name: "no deadline: the session is over when the server says so", store: onEtcd, primitive: mutex,
		edits: []edit{{"recipe/session.go", "return !in.over", "return true"}},
		tests: [2]string{"./recipe", "^TestASuspendEndsASession$"},
	},
	{
		name: "the holder does not look at the clock", store: onEtcd, primitive: mutex, tiers: []string{tierClient},
		edits: []edit{{"recipe/hold.go", "_ = h.grant.in().errNow()", ""}},
		tests: [2]string{"./recipe", "^TestHolderWhoAsksAfterASuspend$"},
	},
	{
		name: "a waiter does not look whether its own entry is there", store: onEtcd, primitive: mutex, tiers: []string{tierEntry},
		edits: []edit{
			{"etcd/queue.go", "own.CreateRevision != e.Revision {\n\t\treturn driver.View{}, driver.ErrGone", "own.CreateRevision != e.Revision {\n\t\treturn v, nil"},
		},
		tests: [2]string{"./internal/etcdtest", "^TestDriverKeepsTheContract$/^AheadGone$"},
	},
	{
		name: "a delete removes the first entry, whosever it is", store: onEtcd, primitive: mutex,
		edits: []edit{{"etcd/turn.go", "\te.Revision = place.revision\n", `	e.Revision = place.revision
	if list, _, err := s.oldest(ctx, e.Queue); err == nil && len(list) > 0 {
		e.ID, e.Revision = list[0].ID, list[0].Revision
	}
`}},
		tests: [2]string{"./internal/etcdtest", "^TestDriverKeepsTheContract$/^DeleteOnlyThat$"},
	},
	{
		name: "a waiter that is notified holds", store: onEtcd, primitive: mutex,
		edits: []edit{{"recipe/wait.go", "on, v = s.look(ctx, p, r, registerIn(before))", "on, v = nil, verdict{fate: done}"}},
		tests: [2]string{"./recipe", "^TestLineBehindARemovedEntry$"},
	},
	{
		name: "a turn that is handed off has the token of the turn before", store: onEtcd, primitive: mutex,
		edits: []edit{{"recipe/hold.go", "h.grant.place.Load().entry.Revision, h.turn }", "h.grant.place.Load().entry.Revision, 0 }"}},
		tests: [2]string{".", "^TestTokensRiseOverHandOversTurnsAndSessions$"},
	},
	{
		name: "what could not be removed stays", store: onEtcd, primitive: mutex,
		edits: []edit{{"recipe/place.go", "s.background(func() {\n\t\tfor delay := retryFirst;", "_ = (func() {\n\t\tfor delay := retryFirst;"}},
		tests: [2]string{"./recipe", "^TestLateCreateIsRemoved$"},
	},
	{
		name: "the token is the sequence of the node", store: onZooKeeper, primitive: mutex,
		edits: []edit{
			{"zk/create.go", "e.ID, e.Revision, e.Version = making.path, making.zxid, 1", `e.ID, e.Revision, e.Version = making.path, making.zxid, 1
	if sequence, wrong := strconv.ParseInt(e.ID[max(0, len(e.ID)-10):], 10, 64); wrong == nil {
		e.Revision = sequence + 1
	}`},
			{"zk/create.go", "\t\"strings\"\n", "\t\"strconv\"\n\t\"strings\"\n"},
		},
		tests: [2]string{"./internal/zktest", "^TestDriver$/^RevisionsIncrease$"},
	},
	{
		name: "the deadline counts from when the answer arrived", store: onZooKeeper, primitive: mutex, tiers: []string{tierWire},
		edits: []edit{{"zk/link.go", "l.prove(c.sent, time.Now())", "l.proved = time.Now()"}},
		tests: [2]string{"./zk", "^TestRenewalProvesTheOneThatWasAnsweredAQuarterBefore$"},
	},
	{
		name: "a permit takes one unit, whatever was asked for", store: onSQLite, primitive: semaphore,
		edits: []edit{{"recipe/rule.go", "\t\troom -= max(other.Units, 0) //", "\t\troom-- //"}},
		tests: [2]string{"./recipe", "^TestHoldersAreAtTheHead$"},
	},
	{
		name: "readers do not wait for writers", store: onSQLite, primitive: rwmutex,
		edits: []edit{{"recipe/rule.go", "\t\t\tif other.Kind != driver.Read {\n", "\t\t\tif other.Kind != driver.Read && other.Kind != driver.Write {\n"}},
		tests: [2]string{"./recipe", "^TestReadersBehindOneEntry$"},
	},
	{
		name: "what is nearest is taken for alone ahead, whatever is ahead of it", store: onEtcd, primitive: mutex,
		edits: []edit{{"recipe/wait.go", "alone := v.All && len(v.Entries) == 1", "alone := true"}},
		tests: [2]string{"./internal/etcdtest", "^TestPrimitives$/^RW(Lockers|Mix)$"},
	},
	{
		name: "a Redis server that has lost its data grants at once", store: onRedis, primitive: mutex, tiers: []string{tierNode},
		edits: []edit{{"redis/fence.go", "script, met, fresh := s.script(run), s.met.Load(), 0", "script, met, fresh := s.script(run), s.met.Load(), 1"}},
		tests: [2]string{"./internal/redistest", "^TestNewNamespaceIsSilent$"},
	},
	{
		name: "less than a majority is enough", store: onQuorum, primitive: quorum,
		edits: []edit{{"quorum.go", "len(members)/2 + 1", "len(members) / 2"}},
		tests: [2]string{".", "^TestQuorumMutexWithoutAMajority$"},
	},
	{
		name: "the end of an entry that had the key before proves a grant", store: onEtcd,
		edits: []edit{{"etcd/watch.go", "if event.Kv.ModRevision <= t.Entry.Revision {", "if event.Kv.ModRevision < 0 {"}},
		tests: [2]string{"./etcd", "^TestEventsThatProveAGrant$"},
	},
	{
		name: "an entry that is created late is forgotten", store: inMemory,
		edits: []edit{{"recipe/place.go", "v.fate == done && p.doubtful {", "v.fate == done && false {"}},
		tests: [2]string{"./recipe", "^Test(Very)?LateCreateIsRemoved$"},
	},
	{
		name: "a release that the service has undone is not looked for", store: inMemory,
		edits: []edit{{"recipe/keep.go", "history = s.compare(in, history)", "_ = history"}},
		tests: [2]string{"./recipe", "^TestReleaseThatIsUndoneIsDoneAgain$"},
	},
	{
		name: "a session that was lost is left to late renewals", store: inMemory,
		edits: []edit{{"recipe/keep.go", "s.endLater(in)", ""}},
		tests: [2]string{"./recipe", "^TestNobodyWaitsForALapsedSession$"},
	},
	{
		name: "a session that was lost is ended while its holders may need the margin to stop", store: inMemory,
		edits: []edit{{"recipe/lapsed.go", "due: in.kept", "due: in.deadline"}},
		tests: [2]string{"./recipe", "^TestALapsedSessionIsEndedAtItsTime$"},
	},
	{
		name: "a renewal that lay unread puts off the end of a session that was lost", store: inMemory,
		edits: []edit{{"recipe/session.go", "	if in.over {\n		return\n	}\n", ""}},
		tests: [2]string{"./recipe", "^TestASuspendCountsForALapsedSession$"},
	},
	{
		name: "a join that is under way is taken for an entry that stands again", store: inMemory,
		edits: []edit{
			{"recipe/history.go", "\tin.made[id] = in.notes\n", ""},
			{"recipe/place.go", "\tcase done:\n\t\tp.entry.ID", "\tcase done:\n\t\tp.in.mu.Lock()\n\t\tif p.in.made != nil {\n\t\t\tp.in.made[p.made.ID] = p.note\n\t\t}\n\t\tp.in.mu.Unlock()\n\t\tp.entry.ID"},
		},
		tests: [2]string{"./recipe", "^TestJoinUnderWayIsNotTakenForOneThatStandsAgain$"},
	},
	{
		name: "a refusal after a request of unknown outcome is taken for definite", store: inMemory,
		edits: []edit{{"recipe/attempt.go", "if v.fate = not; v.again {", "if v.fate = not; v.again && o != driver.Refused {"}},
		tests: [2]string{"./recipe", "^TestRefusedAfterUnknownIsUnknown$"},
	},
	{
		name: "a turn is entered again without a look whether it is the present one", store: inMemory,
		edits: []edit{{"recipe/cohort.go", "if gr.holds == 0 || gr.turns != number {", "if gr.holds == 0 {"}},
		tests: [2]string{"./recipe", "^TestAgainAfterTheTurnWasHandedOff$"},
	},
	{
		name: "a caller of another size stands in the line", store: inMemory,
		edits: []edit{{"recipe/lines.go", "key{r.Queue, r.Kind, r.Size, r.Replaceable}", "key{r.Queue, r.Kind, min(r.Size, 1), r.Replaceable}"}},
		tests: [2]string{"./recipe", "^TestCallerOfAnotherSizeIsApartFromTheLine$"},
	},
	{
		name: "a caller who has other Stores stands in the line of those who have not", store: inMemory,
		edits: []edit{{"recipe/lines.go", "key{r.Queue, r.Kind, r.Size, r.Replaceable}", "key{r.Queue, r.Kind, r.Size, false}"}},
		tests: [2]string{"./recipe", "^TestLinesOfRequestsThatDiffer$"},
	},
	{
		name: "a size is not compared when it is declared anew", store: inMemory,
		edits: []edit{{"recipe/size.go", "anew := was.Value != \"\" && was.Value == v.Register.Value && was.Version != v.Register.Version", "anew := false"}},
		tests: [2]string{"./recipe", "^TestSizeDeclaredAnewAndBackBetweenTwoLooks$"},
	},
	{
		name: "a size is declared anew with nothing that keeps those behind from being granted", store: inMemory,
		edits: []edit{{"recipe/size.go", "r.Units, r.Value = math.MaxInt64, nil", "r.Units, r.Value = min(1, math.MaxInt64), nil"}},
		tests: [2]string{"./recipe", "^TestSizesAreNeverMixed$"},
	},
	{
		name: "a proof of another's entry is taken", store: inMemory,
		edits: []edit{{"recipe/wait.go", "if proof == nil || !proof.All || proof.Self.ID != p.entry.ID {", "if proof == nil || !proof.All {"}},
		tests: [2]string{"./recipe", "^TestWhatProvesNothingGrantsNothing$"},
	},
	{
		name: "a wait does not look whether its session is over", store: inMemory,
		edits: []edit{{"recipe/wait.go", "case over != nil:", "case over != nil && false:"}},
		tests: [2]string{"./recipe", "^TestAnswerThatOutlivesItsSessionGrantsNothing$"},
	},
	{
		name: "a quorum does not notice that it was gone for a moment", store: inMemory,
		edits: []edit{{"quorum.go", "if l.look() == 0 {\n\t\tleft", "if l.life.Err() != nil {\n\t\tleft"}},
		tests: [2]string{".", "^TestQuorumLeaseDoesNotOutliveAGap$"},
	},
	{
		name: "an event of before the read proves a grant", store: onEtcd,
		edits: []edit{{"etcd/watch.go", "case is.moved && seen < is.since:", "case is.moved && false:"}},
		tests: [2]string{"./internal/etcdtest", "^TestEventBeforeTheReadProvesNothing$"},
	},
	{
		name: "a turn is put without a comparison", store: onEtcd,
		edits: []edit{
			{"etcd/touch.go", "Compare: []*pb.Compare{own(head), untouchedSince(head, at)}, Success", "Success"},
			{"etcd/turn.go", "append(txn.Compare, own(place.next[0])), gone()", "txn.Compare, gone()"},
		},
		tests: [2]string{"./internal/etcdtest", "^TestTurnIsForAnEntryThatIsThere$"},
	},
	{
		name: "a turn is told to whatever has the key", store: onEtcd,
		edits: []edit{
			{"etcd/hall.go", "if turn.GetModRevision() <= e.Revision {", "if turn == nil {"},
			{"etcd/hall.go", "err != nil || turn.GetModRevision() <= e.Revision {", "err != nil || turn == nil {"},
		},
		tests: [2]string{"./etcd", "^TestHallTellsAnEntryItsOwnTurn$"},
	},
	{
		name: "of the entries that leave a permit no room only the last in the order of keys is watched", store: onEtcd,
		edits: []edit{{"etcd/watch.go", "w.key, w.end = min(w.key, t.Entry.ID), ", "w.key, w.end = max(w.key, t.Entry.ID), "}},
		tests: [2]string{"./etcd", "^TestWatchesOfAWaiterForUnits$"},
	},
	{
		name: "a waiter for units does not hear of the size", store: onEtcd,
		edits: []edit{{"etcd/watch.go", "return now.GetModRevision() != t.Entry.Version", "return false"}},
		tests: [2]string{"./etcd", "^TestWatchesOfAWaiterForUnits$"},
	},
	{
		name: "the watch on two entries that stays proves a grant by an end of before", store: onEtcd,
		edits: []edit{{"etcd/pair.go", "case other > t.Entry.Revision:", "case other > 0:"}},
		tests: [2]string{"./etcd", "^TestPairProvesWhatTheWatchHasTold$"},
	},
	{
		name: "the watch on two entries that stays serves an entry that joined before it was on", store: onEtcd,
		edits: []edit{{"etcd/pair.go", " || p.of.since >= e.Revision || p.first >= e.Revision {", " || p.first >= e.Revision {"}},
		tests: [2]string{"./etcd", "^TestPairProvesWhatTheWatchHasTold$"},
	},
	{
		name: "the watch on two entries that stays serves the one for which it was set up", store: onEtcd,
		edits: []edit{{"etcd/pair.go", " || p.first >= e.Revision {", " {"}},
		tests: [2]string{"./etcd", "^TestPairIsNotForTheEntryThatSetItUp$"},
	},
	{
		name: "a renewal is a Sync, which a leader answers alone", store: onZooKeeper,
		edits: []edit{{"zk/session.go", "s.wire.proposals.Store(len(prove) > 0)\n\tif len(prove) == 0 {", "if true {"}},
		tests: [2]string{"./internal/zktest", "^TestRenewalOfAHolderIsAProposal$"}, long: [2]string{"./internal/zktest", "^TestOutages$"},
	},
}

// overlay writes the changed sources of a mutant of the module in root, and returns the file that names them to the go
// command.
func (m mutant) overlay(root, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o711); err != nil { //nolint:gosec // servers of another user are below it
		return "", err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for i, e := range m.edits {
		original := filepath.Join(root, filepath.FromSlash(e.file))
		from := original
		if changed, ok := overlay.Replace[original]; ok {
			from = changed
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		changed, err := e.apply(string(text))
		if err != nil {
			return "", err
		}
		to := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(to, []byte(changed), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[original] = to
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, text, 0o600)
}

// build compiles the workers of a mutant of the module in root, and returns their executable.
func (m mutant) build(ctx context.Context, root, dir string) (string, error) {
	list, err := m.overlay(root, dir)
	if err != nil {
		return "", err
	}
	executable := filepath.Join(dir, "worker")
	command := exec.CommandContext(ctx, "go", "build", "-overlay", list, "-o", executable, "./internal/torture")
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", m.name, err, out)
	}
	return executable, nil
}

// failing runs tests with a mutant, a package and a pattern, of make test or all, and returns which of them have
// failed.
func (m mutant) failing(ctx context.Context, root, dir string, tests [2]string, short bool) (names []string, err error) {
	list, err := m.overlay(root, dir)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, "go", "test", "-count=1", fmt.Sprintf("-short=%v", short), "-timeout", "5m", "-overlay", list, "-run", tests[1], tests[0])
	command.Dir = root
	out, err := command.CombinedOutput()
	for _, found := range failed.FindAllStringSubmatch(string(out), -1) {
		names = append(names, found[1])
	}
	if _, exited := errors.AsType[*exec.ExitError](err); !exited && err != nil || exited && len(names) == 0 {
		return nil, fmt.Errorf("%s: %w: %s", m.name, err, out)
	}
	return names, nil
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

var errEdit = errors.New("the words to replace must stand in the file once")

func (e edit) apply(text string) (string, error) {
	if n := strings.Count(text, e.old); n != 1 {
		return "", fmt.Errorf("%s: %w, and not %d times: %q", e.file, errEdit, n, e.old)
	}
	return strings.Replace(text, e.old, e.by, 1), nil
}

// moduleRoot returns the directory of the module that the present directory is in.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	return filepath.Dir(strings.TrimSpace(string(out))), err
}

//go:build unix

package history

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/farsync/farsync/internal/suite"
)

const queue = "/q"

// hold is one that was granted between call and got, was seen held at seen, and had ended at end.
func hold(k Kind, client int, token, call, got, seen, end int64) Operation {
	return Operation{
		Process: "p", Client: client, Number: call, Queue: queue, Kind: k, Units: 1, Token: token,
		Call: call, Return: got, Outcome: OK, Seen: seen, End: end, Ended: Released,
	}
}

func permit(client int, units, token, call, got, seen, end int64) Operation {
	o := hold(Permit, client, token, call, got, seen, end)
	o.Units = units
	return o
}

func quorum(client int, tokens []int64, call, got, seen, end int64) Operation {
	o := hold(Quorum, client, 0, call, got, seen, end)
	o.Tokens = tokens
	return o
}

// ended5 has all sessions, whose TTL is 10, end at 5.
var ended5 = Promises{Ends: []Span{{From: 5, To: 5}}, TTL: 10}

// look is an observation of a token.
func look(client int, token, call, got int64) Operation {
	o := hold(Observe, client, token, call, got, 0, Never)
	o.Units, o.Ended = 0, Open
	return o
}

// ended changes what has become of a hold.
func ended(o Operation, how Outcome) Operation {
	o.Ended = how
	return o
}

func TestHistoriesAreJudged(t *testing.T) {
	semaphore := Promises{Size: 3}
	for _, c := range []struct {
		name     string
		promises Promises
		list     []Operation
		rules    []string // of the violations, each once
	}{
		// What may be.
		{"one after the other", Promises{}, []Operation{hold(Exclusive, 1, 1, 0, 1, 5, 6), hold(Exclusive, 2, 2, 0, 6, 7, 8)}, nil},
		{"granted while the release before it is confirmed", Promises{}, []Operation{
			hold(Exclusive, 1, 1, 0, 1, 5, 9), hold(Exclusive, 2, 2, 0, 6, 7, 8),
		}, nil},
		{"granted before the holder, which was stopped, notices its loss", Promises{}, []Operation{
			ended(hold(Exclusive, 1, 1, 0, 1, 2, 90), Lost), hold(Exclusive, 2, 2, 0, 50, 60, 61),
		}, nil},
		{"granted to a process that was stopped before it learned of it", Promises{}, []Operation{
			ended(hold(Exclusive, 1, 1, 0, 90, 0, 91), Lost), hold(Exclusive, 2, 2, 0, 50, 60, 61),
		}, nil},
		{"granted after the holder was killed", Promises{}, []Operation{
			ended(hold(Exclusive, 1, 1, 0, 1, 10, 12), Open), hold(Exclusive, 2, 2, 0, 50, 60, 61),
		}, nil},
		{"a reentrant owner enters again, others after it", Promises{}, []Operation{
			hold(Reentrant, 1, 1, 0, 1, 10, 11), hold(Reentrant, 1, 1, 2, 3, 20, 21), hold(Reentrant, 2, 2, 0, 22, 23, 24),
		}, nil},
		{"readers together, then a writer", Promises{}, []Operation{
			hold(Read, 1, 1, 0, 1, 10, 11), hold(Read, 2, 1, 0, 2, 12, 13), hold(Write, 3, 3, 0, 14, 15, 16),
		}, nil},
		{"a writer becomes a reader, another reader joins it, then a writer", Promises{}, []Operation{
			hold(Write, 1, 1, 0, 1, 5, 7), hold(Read, 1, 1, 5, 7, 12, 13), hold(Read, 2, 2, 0, 6, 14, 15), hold(Write, 3, 3, 0, 16, 17, 18),
		}, nil},
		{"as many permits as there are", semaphore, []Operation{
			permit(1, 2, 1, 0, 1, 10, 11), permit(2, 1, 2, 0, 1, 10, 11), permit(3, 3, 3, 0, 12, 13, 14),
		}, nil},
		{"permits in another order than their tokens", semaphore, []Operation{
			permit(1, 3, 2, 0, 1, 2, 3), permit(2, 3, 1, 0, 4, 5, 6),
		}, nil},
		{"a leader is seen, also after its lease has ended here, and then the next", Promises{}, []Operation{
			hold(Lead, 1, 1, 0, 5, 10, 11), hold(Lead, 2, 2, 0, 20, 25, 26),
			look(3, 1, 6, 7), look(3, 1, 12, 13), look(3, 2, 14, 15), look(4, 0, 30, 31),
		}, nil},
		{"a candidate is seen at the head that never learns of it", Promises{}, []Operation{
			hold(Lead, 1, 1, 0, 5, 10, 11), look(3, 7, 14, 15), hold(Lead, 2, 9, 0, 20, 25, 26), look(3, 9, 22, 23),
		}, nil},
		{"a server that is cut off shows an old leader to another observer", Promises{Stale: true}, []Operation{
			hold(Lead, 1, 1, 0, 5, 10, 11), hold(Lead, 2, 2, 0, 20, 25, 26), look(3, 2, 21, 22), look(4, 1, 23, 24),
		}, nil},
		{"a call fails, and one ends with its process", Promises{}, []Operation{
			{Process: "p", Queue: queue, Kind: Exclusive, Call: 1, Return: 2, Outcome: Failed, End: Never},
			{Process: "p", Queue: queue, Kind: Exclusive, Call: 1, Return: Never, End: 5},
		}, nil},
		{"a server that has ended all sessions shows no leader", ended5, []Operation{
			hold(Lead, 1, 1, 0, 1, 9, 10), look(3, 0, 6, 7), hold(Lead, 2, 2, 3, 12, 13, 14),
		}, nil},
		{"it ends them while a look is under way", ended5, []Operation{hold(Lead, 1, 1, 0, 1, 9, 10), look(3, 0, 4, 6)}, nil},
		{"a quorum by one majority, and then by another", Promises{}, []Operation{
			quorum(1, []int64{1, 1, 0}, 0, 1, 5, 6), quorum(2, []int64{0, 2, 7}, 0, 6, 8, 9), quorum(3, []int64{9, 0, 8}, 0, 9, 10, 11),
		}, nil},
		{"locks without tokens", Promises{Unfenced: true}, []Operation{
			hold(Exclusive, 1, 0, 0, 1, 5, 6), hold(Exclusive, 2, 0, 0, 6, 7, 8),
		}, nil},

		// What must not be.
		{"two hold", Promises{}, []Operation{
			hold(Exclusive, 1, 1, 0, 1, 5, 6), hold(Exclusive, 2, 2, 0, 4, 7, 8),
		}, []string{"model", "order", "overlap"}},
		{"two hold, one of which is lost later", Promises{}, []Operation{
			ended(hold(Exclusive, 1, 1, 0, 1, 5, 90), Lost), hold(Exclusive, 2, 2, 0, 4, 7, 8),
		}, []string{"model", "order", "overlap"}},
		{"two hold, one of which was killed later", Promises{}, []Operation{
			ended(hold(Exclusive, 1, 1, 0, 1, 5, 90), Open), hold(Exclusive, 2, 2, 0, 4, 7, 8),
		}, []string{"model", "order", "overlap"}},
		{"two hold without tokens", Promises{Unfenced: true}, []Operation{
			hold(Exclusive, 1, 0, 0, 1, 5, 6), hold(Exclusive, 2, 0, 0, 4, 7, 8),
		}, []string{"model", "overlap"}},
		{"two hold for less than was seen: the second was granted in a call that began later", Promises{}, []Operation{
			hold(Exclusive, 1, 2, 10, 11, 12, 13), hold(Exclusive, 2, 1, 14, 15, 0, 16),
		}, []string{"model", "order"}},
		{"a token falls", Promises{}, []Operation{
			hold(Exclusive, 1, 2, 0, 1, 5, 6), hold(Exclusive, 2, 1, 7, 8, 9, 10),
		}, []string{"model", "order"}},
		{"a token is given twice", Promises{}, []Operation{
			hold(Exclusive, 1, 2, 0, 1, 5, 6), hold(Exclusive, 2, 2, 7, 8, 9, 10),
		}, []string{"model", "token"}},
		{"a hold without a token", Promises{}, []Operation{hold(Exclusive, 1, 0, 0, 1, 5, 6)}, []string{"model", "token"}},
		{"a reentrant lock lets another in", Promises{}, []Operation{
			hold(Reentrant, 1, 1, 0, 1, 10, 11), hold(Reentrant, 1, 1, 2, 3, 20, 21), hold(Reentrant, 2, 2, 0, 15, 17, 18),
		}, []string{"model", "order", "overlap"}},
		{"a writer beside a reader", Promises{}, []Operation{
			hold(Read, 1, 1, 0, 1, 10, 11), hold(Write, 3, 3, 0, 5, 15, 16),
		}, []string{"model", "overlap"}},
		{"a reader beside a writer", Promises{}, []Operation{
			hold(Write, 3, 1, 0, 1, 15, 16), hold(Read, 1, 2, 0, 5, 10, 11),
		}, []string{"model", "overlap"}},
		{"a writer with a token below a reader's before it", Promises{}, []Operation{
			hold(Read, 1, 5, 0, 1, 10, 11), hold(Write, 3, 3, 12, 13, 15, 16),
		}, []string{"model"}},
		{"a reader with a token below a writer's before it", Promises{}, []Operation{
			hold(Write, 3, 5, 0, 1, 2, 3), hold(Read, 1, 3, 4, 5, 10, 11),
		}, []string{"model"}},
		{"a reader with the token of another client's write", Promises{}, []Operation{
			hold(Write, 3, 5, 0, 1, 2, 3), hold(Read, 1, 5, 4, 5, 10, 11),
		}, []string{"token"}},
		{"more permits than there are", semaphore, []Operation{
			permit(1, 2, 1, 0, 1, 10, 11), permit(2, 1, 2, 0, 2, 10, 11), permit(3, 1, 3, 0, 5, 13, 14),
		}, []string{"model", "overlap"}},
		{"two lead", Promises{}, []Operation{
			hold(Lead, 1, 1, 0, 1, 5, 6), hold(Lead, 2, 2, 0, 4, 7, 8),
		}, []string{"model", "order", "overlap"}},
		{"no leader is seen while one leads", Promises{}, []Operation{hold(Lead, 1, 1, 0, 1, 9, 10), look(3, 0, 4, 5)}, []string{"model"}},
		{"no leader is seen, before all sessions are ended", ended5, []Operation{
			hold(Lead, 1, 1, 0, 1, 9, 10), look(3, 0, 2, 3),
		}, []string{"model"}},
		{"no leader is seen while one leads that was elected after all sessions were ended", ended5, []Operation{
			hold(Lead, 1, 1, 6, 7, 12, 13), look(3, 0, 8, 9),
		}, []string{"model"}},
		{"no leader is seen, a TTL after all sessions were ended", ended5, []Operation{
			hold(Lead, 1, 1, 0, 1, 30, 31), look(3, 0, 15, 16),
		}, []string{"model"}},
		{"two hold a quorum", Promises{}, []Operation{
			quorum(1, []int64{1, 1, 0}, 0, 1, 5, 6), quorum(2, []int64{0, 2, 1}, 0, 4, 7, 8),
		}, []string{"model", "order", "overlap"}},
		{"a quorum's token falls", Promises{}, []Operation{
			quorum(1, []int64{1, 5, 0}, 0, 1, 5, 6), quorum(2, []int64{0, 4, 1}, 0, 6, 7, 8),
		}, []string{"model", "order"}},
		{"a quorum's tokens rise at one member, and fall at another", Promises{}, []Operation{
			quorum(1, []int64{1, 5, 1}, 0, 1, 5, 6), quorum(2, []int64{2, 4, 2}, 0, 6, 7, 8),
		}, []string{"model", "order"}},
		{"a quorum's token is given twice", Promises{}, []Operation{
			quorum(1, []int64{1, 5, 0}, 0, 1, 5, 6), quorum(2, []int64{0, 5, 2}, 0, 6, 7, 8),
		}, []string{"model", "order"}},
		{"a minority holds", Promises{}, []Operation{quorum(1, []int64{1, 0, 0}, 0, 1, 5, 6)}, []string{"token"}},
		{"a leader is seen that is over", Promises{}, []Operation{
			hold(Lead, 1, 1, 0, 5, 10, 11), hold(Lead, 2, 2, 0, 20, 25, 26), look(4, 1, 23, 24),
		}, []string{"model"}},
		{"an observer sees back", Promises{}, []Operation{
			hold(Lead, 1, 1, 0, 5, 10, 11), hold(Lead, 2, 2, 0, 20, 25, 26), look(3, 2, 21, 22), look(4, 1, 23, 24),
		}, []string{"model", "observe"}},
		{"one observer of a server that is cut off sees back", Promises{Stale: true}, []Operation{
			look(3, 2, 21, 22), look(3, 1, 23, 24),
		}, []string{"observe"}},
		{"a call that does not return", Promises{}, []Operation{
			{Process: "p", Queue: queue, Kind: Exclusive, Call: 1, Return: Never, End: Never},
		}, []string{"hung"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, list := range [][]Operation{c.list, reversed(c.list)} {
				r := Check(list, c.promises)
				var rules []string
				for _, v := range r.Violations {
					rules = append(rules, v.Rule)
				}
				slices.Sort(rules)
				require.Equal(t, c.rules, slices.Compact(rules), "%v", r.Violations)
				require.Zero(t, r.Undecided)
			}
		})
	}
}

func reversed(list []Operation) []Operation {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// TestTwoWaysOfCheckingAgree: that tokens rise in the order of the grants is checked in one pass and by a search. They must
// agree on every history of an exclusive lock.
func TestTwoWaysOfCheckingAgree(t *testing.T) {
	wrong, right := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var list []Operation
		for i := range rapid.IntRange(1, 7).Draw(t, "holds") {
			times := rapid.SliceOfN(rapid.Int64Range(1, 30), 4, 4).Draw(t, "times")
			slices.Sort(times)
			o := hold(Exclusive, i, int64(i+1), times[0], times[1], times[2], times[3])
			switch rapid.IntRange(0, 3).Draw(t, "end") {
			case 0:
				o.Seen = 0
			case 1:
				o.End = Never
			}
			list = append(list, o)
		}
		r := Check(list, Promises{})
		has := func(rule string) bool {
			return slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Rule == rule })
		}
		if has("order") != has("model") {
			t.Fatalf("%v\n%+v", r.Violations, list)
		}
		if has("overlap") && !has("order") {
			t.Fatalf("an overlap that is in order: %v", r.Violations)
		}
		if has("order") {
			wrong++
		} else {
			right++
		}
	})
	require.Positive(t, wrong)
	require.Positive(t, right)
}

func TestAHundredThousandGrantsAreChecked(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	grants := 10_000
	if suite.More(t, suite.Etcd) {
		grants = 100_000
	}
	list := make([]Operation, 0, grants)
	for i := range int64(cap(list)) {
		list = append(list, hold(Exclusive, int(i%8), i+1, 100*i-90, 100*i, 100*i+50, 100*i+random.Int64N(60)+50))
	}
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	started := time.Now()
	r := Check(list, Promises{})
	t.Logf("%d grants in %v", r.Granted, time.Since(started).Round(time.Millisecond))
	require.Empty(t, r.Violations)
	require.Zero(t, r.Undecided)
	require.GreaterOrEqual(t, r.Modelled, len(list))

	slices.SortFunc(list, func(a, b Operation) int { return cmp.Compare(a.Token, b.Token) })
	wrong := grants * 7 / 9
	list[wrong].Seen = list[wrong+1].Return + 1
	list[wrong].End = list[wrong+1].Return + 2
	r = Check(list, Promises{})
	rules := map[string]bool{}
	for _, v := range r.Violations {
		rules[v.Rule] = true
	}
	require.Equal(t, map[string]bool{"overlap": true, "order": true, "model": true}, rules)
}

func TestHistoryOutlivesItsProcess(t *testing.T) {
	dir := t.TempDir()
	alive, err := Create(dir, "alive")
	require.NoError(t, err)
	before := Now()
	n := alive.Invoke(1, queue, Exclusive, 1)
	alive.Note(Event{At: before + 10, Number: n, Outcome: OK, Token: 7, Session: "s", Entry: "e"})
	alive.Note(Event{At: before + 20, Number: n, Outcome: Held})
	alive.Note(Event{At: before + 30, Number: n, Outcome: Leaving})
	alive.Note(Event{At: before + 40, Number: n, Outcome: Released})
	n = alive.Invoke(2, queue, Exclusive, 1)
	alive.Note(Event{At: before + 50, Number: n, Outcome: Failed, Error: "gave up"})
	n = alive.Invoke(2, queue, Exclusive, 1)
	alive.Note(Event{At: before + 60, Number: n, Outcome: OK, Token: 8})
	alive.Note(Event{At: before + 70, Number: n, Outcome: Held})
	alive.Note(Event{At: before + 80, Number: n, Outcome: Leaving})
	alive.Note(Event{At: before + 90, Number: n, Outcome: Lost})
	alive.Invoke(3, queue, Exclusive, 1)
	require.NoError(t, alive.Close())

	dead, err := Create(dir, "dead")
	require.NoError(t, err)
	n = dead.Invoke(1, queue, Lead, 1)
	dead.Note(Event{At: before + 100, Number: n, Outcome: OK, Token: 9})
	dead.Note(Event{At: before + 110, Number: n, Outcome: Held})
	require.NoError(t, dead.Close())
	f, err := os.OpenFile(filepath.Join(dir, "dead.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = fmt.Fprint(f, `{"at":12`)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	list, err := Load(dir, map[string]int64{"dead": before + 500})
	require.NoError(t, err)
	require.Len(t, list, 5)
	require.GreaterOrEqual(t, list[0].Call, before)
	for i := range list {
		list[i].Call = before
	}
	require.Equal(t, []Operation{
		{
			Process: "alive", Client: 1, Number: 1, Queue: queue, Kind: Exclusive, Units: 1, Token: 7, Session: "s", Entry: "e", Call: before,
			Return: before + 10, Outcome: OK, Seen: before + 30, End: before + 40, Ended: Released,
		},
		{
			Process: "alive", Client: 2, Number: 2, Queue: queue, Kind: Exclusive, Units: 1, Error: "gave up", Call: before,
			Return: before + 50, Outcome: Failed, End: Never,
		},
		{
			Process: "alive", Client: 2, Number: 3, Queue: queue, Kind: Exclusive, Units: 1, Token: 8, Call: before,
			Return: before + 60, Outcome: OK, Seen: before + 70, End: before + 90, Ended: Lost,
		},
		{Process: "alive", Client: 3, Number: 4, Queue: queue, Kind: Exclusive, Units: 1, Call: before, Return: Never, End: Never},
		{
			Process: "dead", Client: 1, Number: 1, Queue: queue, Kind: Lead, Units: 1, Token: 9, Call: before,
			Return: before + 100, Outcome: OK, Seen: before + 110, End: before + 500,
		},
	}, list)
}

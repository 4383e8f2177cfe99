package recipe

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/model"
	"github.com/farsync/farsync/internal/suite"
)

// modelRules are the rules of this package, for the model.
var modelRules = model.Rules{
	Blockers: func(e driver.Entry, ahead []driver.Entry, size int64) []driver.Entry {
		return ruleOf(e.Kind, size).blockers(e, ahead)
	},
	Ends: func(e, blocker driver.Entry) driver.What {
		return rule{shared: e.Kind == driver.Read}.ends(blocker)
	},
	Apart: apart,
	Failed: func(again bool, o driver.Outcome) (nowAgain, isUnknown, more bool) {
		v := verdict{again: again}
		more = v.failed(o)
		return v.again, v.fate == unknown, more
	},
}

var (
	mutex   = model.Client{Kind: driver.Exclusive, Units: 1, Times: 1}
	again   = model.Client{Kind: driver.Exclusive, Units: 1, Times: 2}
	tryer   = model.Client{Kind: driver.Exclusive, Units: 1, Times: 1, Try: true}
	reader  = model.Client{Kind: driver.Read, Units: 1, Times: 1}
	writer  = model.Client{Kind: driver.Write, Units: 1, Times: 1}
	turner  = model.Client{Kind: driver.Write, Units: 1, Times: 1, Downgrade: true}
	permit  = model.Client{Kind: driver.Permit, Units: 1, Times: 1}
	permit2 = model.Client{Kind: driver.Permit, Units: 2, Times: 1}
)

type (
	clients = []model.Client
	faults  = model.Faults
)

func TestModelOfAQueue(t *testing.T) {
	three := clients{mutex, mutex, mutex}
	for _, play := range []struct {
		name string
		play model.Queue
		long bool
	}{
		{
			name: "3 mutexes; 1 gives up, 1 message lost",
			play: model.Queue{Clients: three, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "3 mutexes; 2 messages lost",
			play: model.Queue{Clients: three, Faults: faults{Lose: 2}},
		},
		{
			name: "3 mutexes; 1 message lost, 1 refusal",
			play: model.Queue{Clients: three, Faults: faults{Lose: 1, Refuse: 1}},
		},
		{
			name: "3 mutexes; 1 crash, 1 message lost",
			play: model.Queue{Clients: three, Faults: faults{Lose: 1, Crash: 1}},
		},
		{
			name: "3 mutexes; 1 gives up, 1 session ends",
			play: model.Queue{Clients: three, Faults: faults{Cancel: 1, Expire: 1}},
		},
		{
			name: "3 mutexes; 1 message lost, 1 session ends", long: true,
			play: model.Queue{Clients: three, Faults: faults{Lose: 1, Expire: 1}},
		},
		{
			name: "3 mutexes, proofs, joins that show nothing; 1 entry of a waiter deleted, 1 watch broken",
			play: model.Queue{Clients: three, Proofs: true, Blind: true, Faults: faults{Strange: 1, Event: 1}},
		},
		{
			name: "3 mutexes, 1 foreign lock; 1 gives up, 1 entry of a waiter deleted", long: true,
			play: model.Queue{Clients: three, Foreign: 1, Faults: faults{Cancel: 1, Strange: 1}},
		},
		{
			name: "3 mutexes, 2 times each; 1 gives up", long: true,
			play: model.Queue{Clients: clients{again, again, again}, Faults: faults{Cancel: 1}},
		},
		{
			name: "2 mutexes, 1 that only tries; 1 gives up, 1 message lost",
			play: model.Queue{Clients: clients{mutex, mutex, tryer}, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "1 writer that becomes a reader, 2 readers; 1 gives up, 1 message lost",
			play: model.Queue{Clients: clients{turner, reader, reader}, Proofs: true, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "1 writer that becomes a reader, 1 writer, 1 reader; 1 gives up, 1 session ends", long: true,
			play: model.Queue{Clients: clients{turner, writer, reader}, Faults: faults{Cancel: 1, Expire: 1}},
		},
		{
			name: "semaphore of 2: permits of 1, 1, 2; 1 gives up, 1 message lost",
			play: model.Queue{Clients: clients{permit, permit, permit2}, Size: 2, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "semaphore of 3: permits of 2, 2, 1; 1 gives up, 1 session ends", long: true,
			play: model.Queue{Clients: clients{permit2, permit2, permit}, Size: 3, Faults: faults{Cancel: 1, Expire: 1}},
		},
		{
			name: "semaphore of 2: permits of 1, 1, 1, 2; 1 gives up",
			play: model.Queue{Clients: clients{permit, permit, permit, permit2}, Size: 2, Faults: faults{Cancel: 1}},
		},
		{
			name: "2 mutexes and a permit on one path; 1 gives up, 1 message lost",
			play: model.Queue{Clients: clients{mutex, mutex, permit}, Size: 1, Blind: true, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "2 permits and a mutex on one path, 1 foreign lock; 1 gives up",
			play: model.Queue{Clients: clients{permit, permit, mutex}, Size: 1, Foreign: 1, Faults: faults{Cancel: 1}},
		},
		{
			name: "2 mutexes; 1 gives up, 1 crash, 1 message lost, 1 session ends, 1 refusal",
			play: model.Queue{Clients: clients{mutex, mutex}, Faults: faults{Cancel: 1, Crash: 1, Expire: 1, Lose: 1, Refuse: 1}},
		},
		{
			name: "2 mutexes; each of the seven faults once", long: true,
			play: model.Queue{
				Clients: clients{mutex, mutex}, Proofs: true, Blind: true,
				Faults: faults{Cancel: 1, Crash: 1, Expire: 1, Lose: 1, Refuse: 1, Strange: 1, Event: 1},
			},
		},
	} {
		t.Run(play.name, func(t *testing.T) {
			if play.long {
				suite.Long(t, suite.Model, "many states")
			}
			play.play.Rules = modelRules
			holds(t, play.name, model.Explore(&play.play, 0))
		})
	}
}

// holds requires that nothing was found, in as many states as the documentation says.
func holds(t *testing.T, name string, r model.Result) {
	t.Helper()
	t.Log(r)
	require.NoError(t, r.Violated)
	require.True(t, r.Complete)
	documented(t, fmt.Sprintf("| %s | %s | %d |", name, thousands(r.States), r.Depth))
}

// found requires a trace that is as short as the documentation says.
func found(t *testing.T, name string, r model.Result) {
	t.Helper()
	t.Log(r)
	require.Error(t, r.Violated)
	documented(t, fmt.Sprintf("| %s | %v | %d |", name, r.Violated, len(r.Trace)))
}

// documented requires that docs/reports/MODEL.md has that row.
func documented(t *testing.T, row string) {
	t.Helper()
	page, err := os.ReadFile("../docs/reports/MODEL.md")
	require.NoError(t, err)
	if !strings.Contains(string(page), row) {
		t.Errorf("docs/reports/MODEL.md does not say\n%s", row)
	}
}

func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

package recipe

import (
	"testing"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/model"
	"github.com/farsync/farsync/internal/suite"
)

// plain is a client that knows no turns: etcdctl lock, concurrency.Mutex, or an earlier version.
var plain = model.Client{Kind: driver.Foreign, Units: 1, Times: 1}

// A release that names the next, which docs/adr/0021 is about. Where a play has no timers, nothing but the hand-over wakes a waiter.
func TestModelOfAHandover(t *testing.T) {
	three := clients{mutex, mutex, mutex}
	for _, play := range []struct {
		name string
		play model.Handover
		long bool
	}{
		{
			name: "2 clients, 2 times each; 1 gives up, 1 message lost", long: true,
			play: model.Handover{Clients: clients{again, again}, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "3 clients; 2 give up",
			play: model.Handover{Clients: three, Faults: faults{Cancel: 2}},
		},
		{
			name: "3 clients; 1 gives up, 1 message lost",
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "3 clients, 2 times each", long: true,
			play: model.Handover{Clients: clients{again, again, again}},
		},
		{
			name: "3 clients, 2 times, once and once; 1 gives up, 1 message lost", long: true,
			play: model.Handover{Clients: clients{again, mutex, mutex}, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "3 clients; 2 give up, 1 message lost, 1 watch broken", long: true,
			play: model.Handover{Clients: three, Faults: faults{Cancel: 2, Lose: 1, Event: 1}},
		},
		{
			name: "3 clients; 2 messages lost, 1 watch broken", long: true,
			play: model.Handover{Clients: three, Faults: faults{Lose: 2, Event: 1}},
		},
		{
			name: "3 clients; 1 gives up, 2 messages lost", long: true,
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1, Lose: 2}},
		},
		{
			name: "2 clients, 1 plain; 1 gives up, 1 message lost", long: true,
			play: model.Handover{Clients: clients{mutex, mutex, plain}, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "3 clients, 1 plain; 1 gives up, 1 message lost", long: true,
			play: model.Handover{Clients: clients{mutex, mutex, mutex, plain}, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "3 clients, 1 plain; 2 give up", long: true,
			play: model.Handover{Clients: clients{mutex, mutex, mutex, plain}, Faults: faults{Cancel: 2}},
		},
		{
			name: "3 clients, 2 times, once and once, 1 plain; 1 gives up", long: true,
			play: model.Handover{Clients: clients{again, mutex, mutex, plain}, Faults: faults{Cancel: 1}},
		},
		{
			name: "2 clients, 1 that only tries; 1 gives up, 1 message lost", long: true,
			play: model.Handover{Clients: clients{mutex, mutex, tryer}, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "2 clients, with timers; 1 gives up, 1 message lost, 1 session ends",
			play: model.Handover{Clients: clients{mutex, mutex}, Timers: true, Faults: faults{Cancel: 1, Lose: 1, Expire: 1}},
		},
		{
			name: "3 clients, with timers; 1 gives up, 1 message lost, 1 session ends", long: true,
			play: model.Handover{Clients: three, Timers: true, Faults: faults{Cancel: 1, Lose: 1, Expire: 1}},
		},
		{
			name: "3 clients, with timers; 1 gives up, 2 sessions end", long: true,
			play: model.Handover{Clients: three, Timers: true, Faults: faults{Cancel: 1, Expire: 2}},
		},
		{
			name: "3 clients, with timers; 1 message lost, 1 session ends, 1 watch broken", long: true,
			play: model.Handover{Clients: three, Timers: true, Faults: faults{Lose: 1, Expire: 1, Event: 1}},
		},
		{
			name: "3 clients, with timers; 1 message lost, 1 session ends", long: true,
			play: model.Handover{Clients: three, Timers: true, Faults: faults{Lose: 1, Expire: 1}},
		},
		{
			name: "3 clients, with timers; 1 gives up, 1 session ends", long: true,
			play: model.Handover{Clients: three, Timers: true, Faults: faults{Cancel: 1, Expire: 1}},
		},
		{
			name: "3 clients, 2 times, once and once, with timers; 1 session ends", long: true,
			play: model.Handover{Clients: clients{again, mutex, mutex}, Timers: true, Faults: faults{Expire: 1}},
		},
		{
			name: "3 clients, 2 times, 2 times and once; 1 gives up", long: true,
			play: model.Handover{Clients: clients{again, again, mutex}, Faults: faults{Cancel: 1}},
		},
		{
			name: "3 clients, with timers; 2 messages lost", long: true,
			play: model.Handover{Clients: three, Timers: true, Faults: faults{Lose: 2}},
		},
		{
			name: "3 clients, with timers; 1 crash, 1 message lost",
			play: model.Handover{Clients: three, Timers: true, Faults: faults{Crash: 1, Lose: 1}},
		},
		{
			name: "3 clients, with timers; 1 gives up, 1 refusal",
			play: model.Handover{Clients: three, Timers: true, Faults: faults{Cancel: 1, Refuse: 1}},
		},
		{
			name: "2 clients, 2 times and once, 1 plain, with timers; 1 gives up, 1 session ends", long: true,
			play: model.Handover{Clients: clients{again, mutex, plain}, Timers: true, Faults: faults{Cancel: 1, Expire: 1}},
		},
		{
			name: "2 clients, 1 plain, with timers; 1 gives up, 1 message lost, 1 session ends", long: true,
			play: model.Handover{Clients: clients{mutex, mutex, plain}, Timers: true, Faults: faults{Cancel: 1, Lose: 1, Expire: 1}},
		},
		{
			name: "3 clients, 1 plain, with timers; 1 session ends", long: true,
			play: model.Handover{Clients: clients{mutex, mutex, mutex, plain}, Timers: true, Faults: faults{Expire: 1}},
		},
		{
			name: "3 clients, 1 plain, with timers; 1 entry of a waiter deleted", long: true,
			play: model.Handover{Clients: clients{mutex, mutex, mutex, plain}, Timers: true, Faults: faults{Strange: 1}},
		},
		{
			name: "2 clients, 2 plain, with timers; 1 gives up, 1 session ends", long: true,
			play: model.Handover{Clients: clients{mutex, mutex, plain, plain}, Timers: true, Faults: faults{Cancel: 1, Expire: 1}},
		},
		{
			name: "3 clients, with timers; 1 gives up, 1 entry of a waiter deleted", long: true,
			play: model.Handover{Clients: three, Timers: true, Faults: faults{Cancel: 1, Strange: 1}},
		},
		{
			name: "2 clients, with timers; 1 gives up, 1 crash, 1 message lost, 1 refusal, 1 watch broken", long: true,
			play: model.Handover{
				Clients: clients{mutex, mutex}, Timers: true, Faults: faults{Cancel: 1, Crash: 1, Lose: 1, Refuse: 1, Event: 1},
			},
		},
		{
			name: "3 clients, no lists; 1 gives up, 1 message lost", long: true,
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1, Lose: 1}, Mistakes: model.NoLists},
		},
		{
			name: "3 clients, a queue of two is long; 2 give up",
			play: model.Handover{Clients: three, Long: true, Faults: faults{Cancel: 2}},
		},
		{
			name: "3 clients, a queue of two is long; 1 gives up, 1 message lost", long: true,
			play: model.Handover{Clients: three, Long: true, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "3 clients, a queue of two is long, 2 times, once and once; 2 give up", long: true,
			play: model.Handover{Clients: clients{again, mutex, mutex}, Long: true, Faults: faults{Cancel: 2}},
		},
		{
			name: "3 clients, a queue of two is long, 2 times, once and once; 1 gives up, 1 message lost", long: true,
			play: model.Handover{Clients: clients{again, mutex, mutex}, Long: true, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "3 clients, 1 plain, a queue of two is long; 2 give up", long: true,
			play: model.Handover{Clients: clients{mutex, mutex, mutex, plain}, Long: true, Faults: faults{Cancel: 2}},
		},
		{
			name: "3 clients, a queue of two is long, with timers; 1 gives up, 1 message lost, 1 session ends", long: true,
			play: model.Handover{Clients: three, Long: true, Timers: true, Faults: faults{Cancel: 1, Lose: 1, Expire: 1}},
		},
		{
			name: "3 clients, a queue of two is long, with timers; 1 gives up, 1 entry of a waiter deleted", long: true,
			play: model.Handover{Clients: three, Long: true, Timers: true, Faults: faults{Cancel: 1, Strange: 1}},
		},
		{
			name: "3 clients, a comparison less; 1 gives up, 1 message lost", long: true,
			play: model.Handover{
				Clients: three, Faults: faults{Cancel: 1, Lose: 1}, Mistakes: model.OwnNotCompared,
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

// Each condition of docs/reports/MODEL.md is needed: without it the model finds two that hold, a waiter that nothing wakes, or a key that is left.
func TestModelOfAHandoverFindsMistakes(t *testing.T) {
	three := clients{mutex, mutex, mutex}
	for _, mistake := range []struct {
		name string
		play model.Handover
		long bool
	}{
		{
			name: "a touch names the first behind the own entry, not the head",
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1}, Mistakes: model.TouchesBehind},
		},
		{
			name: "a look shows the first in the order of keys, not the oldest",
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1}, Mistakes: model.LookInKeyOrder},
		},
		{
			name: "a turn is put for an entry whether it is there or not",
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1}, Mistakes: model.NextNotCompared},
		},
		{
			name: "a turn is for whatever its store waits with", long: true,
			play: model.Handover{Clients: clients{mutex, again, mutex}, Faults: faults{Cancel: 1}, Mistakes: model.TurnByStore},
		},
		{
			name: "a waiter that leaves deletes its entry, and looks at nothing",
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1}, Mistakes: model.LeavesPlainly},
		},
		{
			name: "a call that does not wait leaves like that",
			play: model.Handover{Clients: clients{mutex, mutex, tryer}, Mistakes: model.LeavesPlainly},
		},
		{
			name: "turns are not read when the watch on them is on",
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1}, Mistakes: model.NoReadOfTurns},
		},
		{
			name: "the release of an entry that joined alone deletes its turn, too, and looks at nothing",
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1}, Mistakes: model.LazyTakesTurn},
		},
		{
			name: "such a release does not ask for its turn, with timers",
			play: model.Handover{Clients: three, Timers: true, Faults: faults{Cancel: 1}, Mistakes: model.LazyNotFree},
		},
		{
			name: "nor whether its entry is there",
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1, Lose: 1}, Mistakes: model.LazyNotOwn},
		},
		{
			name: "a touch that fails is the end",
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1}, Mistakes: model.FailedTouchEnds},
		},
		{
			name: "a delete that finds nothing is the end",
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1, Lose: 1}, Mistakes: model.GoneEnds},
		},
		{
			name: "a waiter that was woken and still waits watches nothing, with timers",
			play: model.Handover{Clients: three, Timers: true, Faults: faults{Crash: 1}, Mistakes: model.WatchDropped},
		},
		{
			name: "a waiter behind a client that knows no turns awaits one",
			play: model.Handover{Clients: clients{mutex, plain, mutex}, Mistakes: model.PlainNotSeen},
		},
		{
			name: "a waiter behind one entry awaits a turn",
			play: model.Handover{Clients: clients{mutex, mutex}, Mistakes: model.OneNotWatched},
		},
		{
			name: "there are no timers, and a client crashes",
			play: model.Handover{Clients: three, Faults: faults{Crash: 1}},
		},
		{
			name: "what a late join has made is deleted, and nothing is looked at",
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1}, Mistakes: model.LateRemoved},
		},
		{
			name: "a release keeps the turn of its entry",
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1}, Mistakes: model.TurnKept},
		},
		{
			name: "a client that knows no turns is given one",
			play: model.Handover{Clients: clients{mutex, plain}, Faults: faults{Cancel: 1}, Mistakes: model.PlainTouched},
		},
		{
			name: "a waiter that leaves and has no turn looks at nothing",
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1}, Mistakes: model.WatcherNotLooks},
		},
		{
			name: "a delete after a join without an answer names no revision", long: true,
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1, Lose: 1}, Mistakes: model.DeleteUnnamed},
		},
		{
			name: "a touch puts what was seen before the turn that is there", long: true,
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1, Lose: 1}, Mistakes: model.OlderPut},
		},
		{
			name: "a release believes that the next watches it, whenever that joined",
			play: model.Handover{Clients: three, Mistakes: model.LateNotAsked},
		},
		{
			name: "a release believes so whether or not its entry was given a turn since",
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1}, Mistakes: model.TouchedNotAsked},
		},
		{
			name: "a delete that finds nothing believes so, too", long: true,
			play: model.Handover{Clients: three, Faults: faults{Cancel: 1, Lose: 1}, Mistakes: model.GoneBelieved},
		},
		{
			name: "a head that was found by its turn is told what that turn has seen", long: true,
			play: model.Handover{Clients: clients{again, mutex, mutex}, Long: true, Faults: faults{Cancel: 2}, Mistakes: model.TurnNotDated},
		},
		{
			name: "it is given a turn whether or not it has gone",
			play: model.Handover{Clients: clients{again, mutex}, Long: true, Faults: faults{Cancel: 2}, Mistakes: model.TurnKeptFound},
		},
		{
			name: "a turn is taken when the session has ended, with timers",
			play: model.Handover{Clients: three, Timers: true, Faults: faults{Expire: 1}, Mistakes: model.TurnAfterEnd},
		},
	} {
		t.Run(mistake.name, func(t *testing.T) {
			if mistake.long {
				suite.Long(t, suite.Model, "many states")
			}
			mistake.play.Rules = modelRules
			found(t, mistake.name, model.Explore(&mistake.play, 0))
		})
	}
}

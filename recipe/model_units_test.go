package recipe

import (
	"testing"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/model"
	"github.com/farsync/farsync/internal/suite"
)

var (
	permitAgain = model.Client{Kind: driver.Permit, Units: 1, Times: 2}
	plainPermit = model.Client{Kind: driver.Permit, Units: 1, Times: 1, Plain: true}
)

// A semaphore on etcd, of which a removal tells those that it lets in. Where a play has no timers, nothing else wakes one that awaits its turn.
func TestModelOfUnits(t *testing.T) {
	two, one := []int64{2}, []int64{1}
	for _, play := range []struct {
		name string
		play model.Units
		long bool
	}{
		{
			name: "4 permits of 2 units; 2 give up", long: true,
			play: model.Units{Clients: clients{permit, permit, permit, permit}, Sizes: two, Faults: faults{Cancel: 2}},
		},
		{
			name: "permits of 1, 1, 1 and 2 of 2 units; 1 gives up",
			play: model.Units{Clients: clients{permit, permit, permit, permit2}, Sizes: two, Faults: faults{Cancel: 1}},
		},
		{
			name: "permits of 1, 1 and 2 of 2 units; 1 gives up, 1 message lost",
			play: model.Units{Clients: clients{permit, permit, permit2}, Sizes: two, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "permits of 1, 1, 1 and 2 of 2 units; 1 gives up, 1 message lost", long: true,
			play: model.Units{Clients: clients{permit, permit, permit, permit2}, Sizes: two, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "3 permits of 1 unit; 2 messages lost",
			play: model.Units{Clients: clients{permit, permit, permit}, Sizes: one, Faults: faults{Lose: 2}},
		},
		{
			name: "3 permits of 2 units, 2 times each; 1 gives up", long: true,
			play: model.Units{Clients: clients{permitAgain, permitAgain, permitAgain}, Sizes: two, Faults: faults{Cancel: 1}},
		},
		{
			name: "permits of 1, 1 and 2, of 2, 3, 2 and 4 units; 1 gives up", long: true,
			play: model.Units{Clients: clients{permit, permit, permit2}, Sizes: []int64{2, 3, 2, 4}, Faults: faults{Cancel: 1}},
		},
		{
			name: "permits of 1, 1 and 2, of 2, 3 and 2 units; 1 gives up, 1 message lost", long: true,
			play: model.Units{Clients: clients{permit, permit, permit2}, Sizes: []int64{2, 3, 2}, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "2 permits of 1 unit, 1 plain; 1 gives up, 1 message lost",
			play: model.Units{Clients: clients{permit, permit, plainPermit}, Sizes: one, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "3 permits of 2 units, 1 plain; 1 gives up, 1 message lost", long: true,
			play: model.Units{Clients: clients{permit, permit, permit, plainPermit}, Sizes: two, Faults: faults{Cancel: 1, Lose: 1}},
		},
		{
			name: "3 permits of 1 unit; 1 gives up, 1 Store closed",
			play: model.Units{Clients: clients{permit, permit, permit}, Sizes: one, Faults: faults{Cancel: 1, Expire: 1}},
		},
		{
			name: "permits of 1, 1 and 2 of 2 units; 1 message lost, 1 Store closed", long: true,
			play: model.Units{Clients: clients{permit, permit, permit2}, Sizes: two, Faults: faults{Lose: 1, Expire: 1}},
		},
		{
			name: "permits of 1, 1 and 2 of 2 units, with timers; 1 gives up, 1 crash",
			play: model.Units{Clients: clients{permit, permit, permit2}, Sizes: two, Timers: true, Faults: faults{Cancel: 1, Crash: 1}},
		},
		{
			name: "3 permits of 1 unit, with timers; 1 gives up, 1 crash, 1 message lost", long: true,
			play: model.Units{Clients: clients{permit, permit, permit}, Sizes: one, Timers: true, Faults: faults{Cancel: 1, Crash: 1, Lose: 1}},
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

// Each condition is needed: without it the model finds a waiter that nothing wakes, or a key that is left.
func TestModelOfUnitsFindsMistakes(t *testing.T) {
	two, one := []int64{2}, []int64{1}
	three := clients{permit, permit, permit}
	for _, mistake := range []struct {
		name string
		play model.Units
	}{
		{
			name: "a removal and its look are two requests",
			play: model.Units{Clients: three, Sizes: two, Mistakes: model.LookApart},
		},
		{
			name: "of those that are let in only the last is told",
			play: model.Units{Clients: clients{permit, permit, permit2}, Sizes: two, Mistakes: model.LastTold},
		},
		{
			name: "a waiter that gives up tells none",
			play: model.Units{Clients: clients{permit, permit, permit2}, Sizes: two, Faults: faults{Cancel: 1}, Mistakes: model.WaiterLeaves},
		},
		{
			name: "a removal that finds nothing tells none",
			play: model.Units{Clients: three, Sizes: one, Faults: faults{Lose: 1}, Mistakes: model.LostIsTheEnd},
		},
		{
			name: "the removal of what a late join has made tells none",
			play: model.Units{Clients: three, Sizes: one, Faults: faults{Cancel: 1}, Mistakes: model.LateOneRemoved},
		},
		{
			name: "one that awaits its turn does not hear of the size",
			play: model.Units{Clients: three, Sizes: []int64{1, 2}, Mistakes: model.SizeNotHeard},
		},
		{
			name: "a permit behind a client that knows no turns awaits one",
			play: model.Units{Clients: clients{permit, plainPermit}, Sizes: one, Mistakes: model.AwaitsBehindPlain},
		},
		{
			name: "turns are put together or not at all",
			play: model.Units{Clients: clients{permit, permit, permit2}, Sizes: two, Faults: faults{Cancel: 1}, Mistakes: model.AllOrNone},
		},
		{
			name: "a permit is given a turn whether it is there or not",
			play: model.Units{Clients: three, Sizes: one, Faults: faults{Cancel: 1}, Mistakes: model.PutForNone},
		},
		{
			name: "a Store that is closed tells none",
			play: model.Units{Clients: three, Sizes: one, Faults: faults{Expire: 1}, Mistakes: model.CloseTellsNone},
		},
		{
			name: "there are no timers, and a holder of units crashes",
			play: model.Units{Clients: three, Sizes: one, Faults: faults{Crash: 1}},
		},
	} {
		t.Run(mistake.name, func(t *testing.T) {
			mistake.play.Rules = modelRules
			found(t, mistake.name, model.Explore(&mistake.play, 0))
		})
	}
}

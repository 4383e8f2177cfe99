package recipe

import (
	"testing"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/model"
)

// A model that finds nothing may look at nothing: these are the protocol with one mistake each, and how short the trace is that shows
// it.
func TestModelOfAQueueFindsMistakes(t *testing.T) {
	three := clients{mutex, mutex, mutex}
	for _, mistake := range []struct {
		name  string
		play  model.Queue
		rules func(r *model.Rules)
	}{
		{
			name: "a delete removes the oldest entry, whosever it is",
			play: model.Queue{Clients: three, Faults: faults{Cancel: 1}, Mistakes: model.HeadDeleted},
		},
		{
			name: "a waiter that is notified holds",
			play: model.Queue{Clients: three, Faults: faults{Cancel: 1}, Mistakes: model.NotifiedHolds},
		},
		{
			name: "what a late join creates is not looked for",
			play: model.Queue{Clients: three, Faults: faults{Lose: 1}, Mistakes: model.LateJoinForgotten},
		},
		{
			name: "a watch is set after the look, and no other look follows",
			play: model.Queue{Clients: three, Mistakes: model.WatchWithoutLook},
		},
		{
			name: "the session may end at the service before it ends here",
			play: model.Queue{Clients: three, Faults: faults{Expire: 1}, Mistakes: model.ServiceFirst},
		},
		{
			name: "a waiter watches the oldest entry",
			play: model.Queue{Clients: three, Mistakes: model.HeadWatched},
		},
		{
			name: "a look does not say whether the own entry is there",
			play: model.Queue{Clients: three, Faults: faults{Strange: 1}, Mistakes: model.OwnNotChecked},
		},
		{
			name: "a join without an answer is sent again under another ID",
			play: model.Queue{Clients: three, Faults: faults{Lose: 1}, Mistakes: model.NewIDAgain},
		},
		{
			name: "a caller that gives up leaves its entry",
			play: model.Queue{Clients: three, Faults: faults{Cancel: 1}, Mistakes: model.CancelLeaves},
		},
		{
			name: "a join without an answer is not removed",
			play: model.Queue{Clients: three, Faults: faults{Cancel: 1}, Mistakes: model.UnknownJoinForgotten},
		},
		{
			name: "a refusal ends the removal in the background",
			play: model.Queue{Clients: three, Faults: faults{Cancel: 1, Refuse: 1}, Mistakes: model.RefusalEndsRemoval},
		},
		{
			name: "after the end of its session a waiter keeps its entry",
			play: model.Queue{Clients: three, Faults: faults{Expire: 1}, Mistakes: model.OldEntryStands},
		},
		{
			name: "the family of the nearest entry decides",
			play: model.Queue{Clients: clients{permit, permit, mutex}, Size: 1, Mistakes: model.KindByNearest},
		},
		{
			name: "a watch that breaks is not set again",
			play: model.Queue{Clients: three, Faults: faults{Event: 1}, Mistakes: model.BrokenWatchForgotten},
		},
		{
			name: "a call that does not wait leaves its entry",
			play: model.Queue{Clients: clients{mutex, tryer}, Mistakes: model.TryStays},
		},
		{
			name: "a downgrade moves the entry to the tail",
			play: model.Queue{Clients: clients{turner, writer}, Blind: true, Mistakes: model.DowngradeMoves},
		},
		{
			name: "a proof is believed that does not show the own entry",
			play: model.Queue{Clients: three, Faults: faults{Strange: 1}, Proofs: true, Mistakes: model.DeadProofTaken},
		},
		{
			name: "a refusal after an attempt without an answer is definite",
			play: model.Queue{Clients: three, Faults: faults{Lose: 1, Refuse: 1}},
			rules: func(r *model.Rules) {
				r.Failed = func(again bool, o driver.Outcome) (bool, bool, bool) {
					nowAgain, unknown, more := modelRules.Failed(again, o)
					return nowAgain, unknown && o != driver.Refused, more
				}
			},
		},
		{
			name: "readers do not wait for writers",
			play: model.Queue{Clients: clients{writer, reader}},
			rules: func(r *model.Rules) {
				r.Blockers = func(e driver.Entry, ahead []driver.Entry, size int64) []driver.Entry {
					if e.Kind == driver.Read {
						return nil
					}
					return modelRules.Blockers(e, ahead, size)
				}
			},
		},
		{
			name: "a permit takes one unit, whatever was asked for",
			play: model.Queue{Clients: clients{permit, permit2}, Size: 2},
			rules: func(r *model.Rules) {
				r.Blockers = func(e driver.Entry, ahead []driver.Entry, size int64) []driver.Entry {
					e.Units = 1
					return modelRules.Blockers(e, ahead, size)
				}
			},
		},
		{
			name: "a permit watches the entry as many places ahead as there are units",
			play: model.Queue{Clients: clients{permit, permit, permit}, Size: 2},
			rules: func(r *model.Rules) {
				r.Blockers = func(e driver.Entry, ahead []driver.Entry, size int64) []driver.Entry {
					if int64(len(ahead)) < size {
						return nil
					}
					return ahead[len(ahead)-int(size):][:1]
				}
			},
		},
	} {
		t.Run(mistake.name, func(t *testing.T) {
			mistake.play.Rules = modelRules
			if mistake.rules != nil {
				mistake.rules(&mistake.play.Rules)
			}
			found(t, mistake.name, model.Explore(&mistake.play, 0))
		})
	}
}

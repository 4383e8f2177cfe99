package sqlstore

import (
	"strings"

	"github.com/farsync/farsync/driver"
)

// A Target is a driver.Target as the statements sight and watch take it.
type Target struct {
	Name    string `json:"name"` // what a Watch is woken by
	What    string `json:"what"`
	ID      string `json:"id"`
	Queue   string `json:"queue"`
	Kind    string `json:"kind"`
	Version int64  `json:"version"`
	Ahead   int    `json:"-"` // as in driver.Entry; seldom for what is not expected for long
}

// seldom is what the statement poll, too, says of a word to a holder, of the first entry of a queue and of another size: as if so many
// entries had to go before.
const seldom = few + 1

// isSeldom reports whether the target is not expected for long.
func (t Target) isSeldom() bool {
	return t.What == "told" || t.What == "joined" || t.What == "registered"
}

// targetOf names a register by = and its queue, the first entry of a queue by + and the queue, and all else by the
// entry's ID: the ID of a permit stands for its turn, too.
func targetOf(t driver.Target) Target {
	made := Target{t.Entry.ID, "gone", t.Entry.ID, t.Entry.Queue, t.Entry.Kind.String(), t.Entry.Version, t.Entry.Ahead}
	if id, is := strings.CutPrefix(t.Entry.ID, turn); is && t.What == driver.Gone {
		made.What, made.ID, made.Name = "granted", id, id
	}
	switch t.What {
	case driver.Changed:
		made.What = "changed"
	case driver.Told:
		made.What = "told"
	case driver.Registered:
		made.What, made.Name = "registered", "="+t.Entry.Queue
	case driver.Joined:
		made.What, made.Name = "joined", "+"+t.Entry.Queue
	}
	if made.isSeldom() {
		made.Ahead = seldom
	}
	return made
}

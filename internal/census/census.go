// Package census counts the entries of all processes, for the modules that measure.
package census

import (
	"context"

	"github.com/farsync/farsync"
)

// Entries are those that hold and those that wait.
type Entries struct{ Held, Waiting int64 }

// Count returns how many entries there are in the queues below the prefixes, with no prefix in all queues, by the classes of their
// paths; a nil class counts them together. It returns none if not all were read, for a part of the truth would look like the whole.
func Count(
	ctx context.Context, store *farsync.Store, class func(path string) string, prefixes []string,
) (map[string]Entries, error) {
	if len(prefixes) == 0 {
		prefixes = []string{""}
	}
	if class == nil {
		class = func(string) string { return "" }
	}
	counted := map[string]bool{}
	classes := map[string]Entries{"": {}} // so that 0 is not nothing
	for _, prefix := range prefixes {
		for lock, err := range farsync.Survey(ctx, store, prefix) {
			if err != nil {
				return nil, err
			}
			if counted[lock.Path] {
				continue // one prefix begins with another
			}
			counted[lock.Path] = true
			name := class(lock.Path)
			n := classes[name]
			for _, p := range lock.Participants {
				if p.Held {
					n.Held++
				} else {
					n.Waiting++
				}
			}
			classes[name] = n
		}
	}
	return classes, nil
}

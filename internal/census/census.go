// Package census counts the entries of all processes, for the modules that measure.
package census

import (
	"context"
	"strings"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/recipe"
)

// Entries counts the entries that hold and the entries that wait.
type Entries struct{ Held, Waiting int64 }

// Class returns the class of a path for a label: the class that the function names, "" for none. A path that is not
// valid has none: whatever comes from outside would make a label of its own, and few take a label that is not UTF-8.
func Class(class func(path string) string, path string) string {
	if class == nil || recipe.CheckPath(path) != nil {
		return ""
	}
	return strings.ToValidUTF8(class(path), "�")
}

// Count returns how many entries there are in the queues below the prefixes, with no prefix in all queues, by the
// classes of their paths; a nil class counts them together. It returns none if not all were read, for a part of the
// truth would look like the whole.
func Count(
	ctx context.Context, store *farsync.Store, class func(path string) string, prefixes []string,
) (map[string]Entries, error) {
	if len(prefixes) == 0 {
		prefixes = []string{""}
	}
	counted := map[string]bool{}
	classes := map[string]Entries{"": {}} // so that 0 is not nothing
	for _, prefix := range prefixes {
		for lock, err := range store.Survey(ctx, prefix) {
			if err != nil {
				return nil, err
			}
			if counted[lock.Path] {
				continue // one prefix begins with another
			}
			counted[lock.Path] = true
			name := Class(class, lock.Path)
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

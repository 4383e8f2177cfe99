package sqlstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/farsync/farsync/driver"
)

// scanEntry returns the entry of a row.
func scanEntry(rows Rows) (e driver.Entry, err error) {
	var kind string
	var since int64
	err = rows.Scan(&e.ID, &e.Queue, &kind, &e.Units, &e.Revision, &e.Version, &since, &e.Value, &e.Session)
	e.Kind = driver.KindOf(kind)
	if since != 0 {
		e.Since = time.UnixMicro(since)
	}
	return e, err
}

// turn begins the ID of the permit that is shown in place of all that are ahead of another, whose ID follows.
const turn = "turn:"

// isTurn reports whether that is what a list shows.
func isTurn(list []driver.Entry) bool {
	return len(list) == 1 && list[0].Kind == driver.Permit && strings.HasPrefix(list[0].ID, turn)
}

// ahead returns e as it is, and up to limit entries ahead of it, the nearest, by the statement create, enter, ahead or
// room. The statement finds the revision of e by its ID, for the caller may not know it: the answer to its Create may
// have been lost.
func (s *Session) ahead(
	ctx context.Context, run Run, e driver.Entry, limit int, statement string, args ...any,
) (driver.View, error) {
	// One row is for e itself, and one more shows that there are more.
	list, err := Collect(ctx, run, scanEntry, statement, append([]any{e.Queue, e.ID, limit + 2}, args...)...)
	if err != nil {
		return driver.View{}, err
	}
	return view(e, list, limit)
}

// view makes a View of what ahead returns. Only if All is true has it counted what is ahead, and can tell Watch how far
// ahead each entry is.
func view(e driver.Entry, list []driver.Entry, limit int) (driver.View, error) {
	v := driver.View{Self: e}
	if len(list) > 0 && list[0].ID == "" {
		v.Register = driver.Register{Value: string(list[0].Value), Version: list[0].Version}
		list = list[1:]
	}
	if e.ID != "" {
		if len(list) == 0 || list[0].ID != e.ID { // another program has moved it to another queue
			return driver.View{}, driver.ErrGone
		}
		v.Self, list = list[0], list[1:]
	}
	if v.Self.Kind != driver.Permit {
		v.Register = driver.Register{}
	}
	v.All = len(list) <= limit && !isTurn(list)
	v.Entries = list[:min(limit, len(list))]
	slices.Reverse(v.Entries)
	for i := range v.Entries {
		if v.All {
			v.Entries[i].Ahead = i
		}
	}
	return v, nil
}

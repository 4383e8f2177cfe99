package sqlstore

import (
	"cmp"
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

// scan is scanEntry. Where the database takes no notice of blanks at the end of a text, a path that another program has
// written with blanks behind it is the path.
func (s *Session) scan(rows Rows) (driver.Entry, error) {
	e, err := scanEntry(rows)
	if s.Pads {
		e.Queue = strings.TrimRight(e.Queue, " ")
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
	list, err := Collect(ctx, run, s.scan, statement, append([]any{e.Queue, e.ID, limit + 2}, args...)...)
	if err != nil {
		return driver.View{}, err
	}
	return view(e, list, limit)
}

// isRegister reports whether a row is the register, which the statements show as an entry without ID. Another program may
// have written an entry whose ID is empty: such an entry has a revision, or a kind, or a session.
func isRegister(e driver.Entry) bool {
	return e.ID == "" && e.Kind == driver.Foreign && e.Revision == 0 && e.Session == ""
}

// view makes a View of what ahead returns. Only if All is true has it counted what is ahead, and can tell Watch how far
// ahead each entry is.
//
// The statements put IDs that are empty, or blank on a database that takes no notice of blanks, ahead of all others. Such an
// entry belongs where its revision says.
func view(e driver.Entry, list []driver.Entry, limit int) (driver.View, error) {
	v := driver.View{Self: e}
	if at := slices.IndexFunc(list, isRegister); at >= 0 {
		v.Register = driver.Register{Value: string(list[at].Value), Version: list[at].Version}
		list = without(list, at)
	}
	slices.SortStableFunc(list, func(a, b driver.Entry) int { return cmp.Compare(b.Revision, a.Revision) })
	if e.ID != "" {
		at := slices.IndexFunc(list, func(other driver.Entry) bool { return other.ID == e.ID })
		if at < 0 { // another program has moved it to another queue
			return driver.View{}, driver.ErrGone
		}
		v.Self = list[at]
		list = without(list, at)
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

// without returns a list without one entry, which is the first in all lists but odd ones.
func without(list []driver.Entry, at int) []driver.Entry {
	if at == 0 {
		return list[1:]
	}
	return slices.Delete(list, at, at+1)
}

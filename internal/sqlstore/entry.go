package sqlstore

import (
	"slices"
	"time"

	"github.com/farsync/farsync/driver"
)

// entries returns the entries that a statement returns. A kind that farsync does not know makes an entry Foreign.
func entries(t Tx, name string, args ...any) (list []driver.Entry, err error) {
	err = t.Query(func(r Row) error {
		var e driver.Entry
		var kind string
		var since int64
		err := r.Scan(&e.ID, &e.Queue, &kind, &e.Units, &e.Revision, &e.Version, &since, &e.Value, &e.Session)
		for k := driver.Exclusive; k <= driver.Candidate; k++ {
			if k.String() == kind {
				e.Kind = k
			}
		}
		if since != 0 {
			e.Since = time.UnixMicro(since)
		}
		list = append(list, e)
		return err
	}, name, args...)
	return list, err
}

// entry returns the one entry that a statement returns, and ErrGone if there is none.
func entry(t Tx, name string, args ...any) (driver.Entry, error) {
	list, err := entries(t, name, args...)
	if err == nil && len(list) == 0 {
		err = driver.ErrGone
	}
	if err != nil {
		return driver.Entry{}, err
	}
	return list[0], nil
}

// view returns e as it is, and up to limit entries ahead of it, the nearest. The statement finds the revision of e by its ID,
// for the caller may not know it: the answer to its Create may have been lost.
//
// Only if All is true has it counted what is ahead, and can tell Watch how far ahead each entry is.
func view(t Tx, e driver.Entry, limit int) (driver.View, error) {
	list, err := entries(t, "ahead", e.Queue, e.ID, limit+2) // e itself, and one that shows that there are more
	if err != nil {
		return driver.View{}, err
	}
	v := driver.View{Self: e, Entries: list}
	if e.ID != "" {
		if len(list) == 0 {
			return driver.View{}, driver.ErrGone
		}
		v.Self, v.Entries = list[0], list[1:]
	}
	v.All = len(v.Entries) <= limit
	v.Entries = v.Entries[:min(limit, len(v.Entries))]
	slices.Reverse(v.Entries)
	for i := range v.Entries {
		if v.All {
			v.Entries[i].Ahead = i
		}
	}
	if v.Self.Kind == driver.Permit {
		v.Register, err = register(t, e.Queue)
	}
	return v, err
}

// register returns the register of a queue. A queue that has none has the zero Register, whose version no register ever has.
func register(t Tx, queue string) (r driver.Register, err error) {
	err = t.Query(func(row Row) error { return row.Scan(&r.Value, &r.Version) }, "register", queue)
	return r, err
}

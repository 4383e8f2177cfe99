package sqlstore

import (
	"log/slog"
	"slices"
	"sync/atomic"
)

// Losses are the settings of a server by which it may lose what it has confirmed. An administrator may change them at
// any time, so each statement that opens or renews a session shows them, in the last column of its rows: they cost no
// request. The session lives on, for nothing is lost before the server or its machine crashes, or its replica is
// promoted.
type Losses struct {
	Log    *slog.Logger
	Remedy string

	warned atomic.Pointer[string] // the settings that were warned of; nil before the first row
}

// shown are the rows of a statement that opens or renews a session.
type shown struct {
	Rows
	settings *string // the last column; nil before a row was read
}

// Scan reads the other columns of the row.
func (r *shown) Scan(into ...any) error {
	r.settings = new(string)
	return r.Rows.Scan(append(slices.Clip(into), r.settings)...)
}

// Note has f read the rows of a statement that opens or renews a session, and warns of the settings if they are others
// than before.
func (l *Losses) Note(f func(Rows) error) func(Rows) error {
	log := l.Log
	return func(rows Rows) error {
		r := &shown{Rows: rows}
		if err := f(r); err != nil || r.settings == nil {
			return err
		}
		before, now := "", *r.settings
		if was := l.warned.Swap(r.settings); was != nil {
			before = *was
		}
		switch now {
		case before:
		case "":
			log.Info("the database server keeps what it confirms again", "settings were", before)
		default:
			log.Warn("the database server may lose what it has confirmed, and two may hold then", "settings", now, "remedy", l.Remedy)
		}
		return nil
	}
}

package postgres

import (
	"slices"

	"github.com/farsync/farsync/internal/sqlstore"
)

// renewed are the rows of a statement that renews a session. Their last column is a synchronous_commit by which what
// the server confirms may be lost, or empty.
type renewed struct {
	sqlstore.Rows
	loose *string // nil before a row was read
}

// Scan reads the other columns of the row.
func (r *renewed) Scan(into ...any) error {
	r.loose = new(string)
	return r.Rows.Scan(append(slices.Clip(into), r.loose)...)
}

// noteCommits has f read the rows of a statement that renews the session, and warns of a synchronous_commit by which
// what was confirmed may be lost. An administrator may set it at any time, for the server, a database or a role: it
// counts from the next statement on. So each renewal looks. The session lives on, for nothing is lost before the server
// crashes, or its replica is promoted.
func (s *service) noteCommits(f func(sqlstore.Rows) error) func(sqlstore.Rows) error {
	return func(rows sqlstore.Rows) error {
		r := &renewed{Rows: rows}
		if err := f(r); err != nil || r.loose == nil {
			return err
		}
		before, now := "", *r.loose
		if was := s.loose.Swap(r.loose); was != nil {
			before = *was
		}
		switch now {
		case before:
		case "":
			s.log.Info("postgresql keeps what it confirms again", "synchronous_commit was", before)
		default:
			s.log.Warn("postgresql may lose what it has confirmed, when it crashes or its replica is promoted: two may hold then",
				"synchronous_commit", now, "remedy", "on, or remote_apply, for the role of the Store")
		}
		return nil
	}
}

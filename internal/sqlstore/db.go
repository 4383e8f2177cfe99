package sqlstore

import (
	"context"
	"strings"
)

// A DB runs statements by their names, in the session of its driver. Each is one transaction, of one statement or
// several, and returns the rows of the last. Methods return when ctx ends. They may call f more than once, each time
// from the first row, and may do so still when they have returned an error: what f writes is read only after nil.
type DB interface {
	// Write is for what changes something. Sessions that wait for it are woken once it has returned.
	Write(ctx context.Context, f func(Rows) error, statement string, args ...any) error
	// Read shows one state, no older than the call.
	Read(ctx context.Context, f func(Rows) error, statement string, args ...any) error
	// Hear returns when the session hears of every change that is committed from then on. A Watch calls it before each
	// look. When that ends, all Watches are woken.
	Hear(ctx context.Context) error
	// Reset drops the connections that no call uses.
	Reset()
}

// Rows are the result of a statement, of database/sql or another library.
type Rows interface {
	Next() bool
	Scan(into ...any) error
	Err() error
}

// A Run runs a statement: Write or Read of a DB.
type Run func(ctx context.Context, f func(Rows) error, statement string, args ...any) error

// Collect returns what scan makes of each row of a statement.
func Collect[T any](ctx context.Context, run Run, scan func(Rows) (T, error), statement string, args ...any) ([]T, error) {
	var found []T
	err := run(ctx, func(rows Rows) error {
		var list []T
		for rows.Next() {
			v, err := scan(rows)
			if err != nil {
				return err
			}
			list = append(list, v)
		}
		found = list
		return rows.Err()
	}, statement, args...)
	if err != nil {
		return nil, err // a call that ctx has ended may still be writing found
	}
	return found, nil
}

// one returns the only row of a statement, and otherwise if there is none.
func one[T any](list []T, err, otherwise error) (v T, _ error) {
	switch {
	case err != nil:
		return v, err
	case len(list) == 0:
		return v, otherwise
	default:
		return list[0], nil
	}
}

// scan1 scans rows of one column.
func scan1[T any](rows Rows) (v T, err error) { return v, rows.Scan(&v) }

// partOf begins, in Statements, the name of what is no statement by itself.
const partOf = "part "

// Statements returns the statements of a file by their names. A line "-- name: create" begins the statement create,
// which ends with the next such line. In it, a line "-- use: ahead" stands for the text of the statement ahead, of
// further up; or of the part ahead, which is no statement by itself, and begins with a line "-- part: ahead". Where a
// line ends with a semicolon, another statement of the same transaction begins.
func Statements(file string) map[string][]string {
	texts, all := map[string]string{}, map[string][]string{}
	for _, text := range strings.Split(strings.ReplaceAll(file, "-- part: ", "-- name: "+partOf), "-- name: ")[1:] {
		name, lines, _ := strings.Cut(text, "\n")
		name, isPart := strings.CutPrefix(name, partOf)
		var whole strings.Builder
		for line := range strings.Lines(lines) {
			if used, found := strings.CutPrefix(line, "-- use: "); found {
				line = texts[strings.TrimSpace(used)]
			}
			whole.WriteString(line)
		}
		texts[name] = strings.TrimSpace(whole.String()) + "\n"
		if !isPart {
			all[name] = strings.Split(texts[name], ";\n")
		}
	}
	return all
}

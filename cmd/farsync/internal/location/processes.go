package location

import (
	"context"
	"database/sql"
)

// A process is a connection of a client to a MySQL or MariaDB server, as an operator knows it.
type process struct{ user, host, command string }

// processes returns the processes that the user may see, by their IDs. On MySQL information_schema.processlist, from
// which a statement could choose, fails for everybody while any client runs a statement with bytes that are no text
// (error 3854).
func processes(ctx context.Context, of interface {
	QueryContext(ctx context.Context, query string, arguments ...any) (*sql.Rows, error)
}) (map[string]process, error) {
	rows, err := of.QueryContext(ctx, "SHOW PROCESSLIST")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns() // MariaDB has one more
	if err != nil {
		return nil, err
	}
	var id, user, host, command sql.RawBytes
	into := make([]any, len(columns))
	for i, name := range columns {
		switch name {
		case "Id":
			into[i] = &id
		case "User":
			into[i] = &user
		case "Host":
			into[i] = &host
		case "Command":
			into[i] = &command
		default:
			into[i] = new(sql.RawBytes)
		}
	}
	found := map[string]process{}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		found[string(id)] = process{string(user), string(host), string(command)}
	}
	return found, rows.Err()
}

package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
)

// needed is the isolation level of every statement of a Store. A transaction that keeps its first snapshot does not see who has come to wait
// since, and would tell none.
const needed = "read committed"

// setLevel sees to the level of a connection to the server itself, whose default may be another: that of the server, the database, the role or
// the caller's config. A proxy lends its connections to other clients, whose default must stay as it is, and may lend one that was made when
// the default was another: there send sets the level of each transaction.
func setLevel(ctx context.Context, conn *pgconn.PgConn, level string) error {
	if level == needed {
		return nil
	}
	_, err := conn.Exec(ctx, "SET default_transaction_isolation = '"+needed+"'").ReadAll()
	return err
}

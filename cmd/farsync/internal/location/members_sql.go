package location

import (
	"context"
	cryptotls "crypto/tls"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// askDatabase asks for the time alone. Whatever else is wrong, Open finds.
func (m *Member) askDatabase(ctx context.Context, l *Location, password string, config *cryptotls.Config) {
	statement := map[string]string{
		"postgres": "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
		"mysql":    "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)",
	}[l.Scheme]
	if statement == "" {
		return
	}
	db, err := l.database(password, config)
	if err != nil {
		return
	}
	defer db.Close()
	if db.PingContext(ctx) == nil { // so that the time to connect does not count
		_ = m.compare(func() (time.Time, error) {
			var at int64
			err := db.QueryRowContext(ctx, statement).Scan(&at)
			return time.UnixMicro(at), err
		})
	}
}

// database returns a database of PostgreSQL, MySQL or MariaDB, for the caller to close. It does no I/O.
func (l *Location) database(password string, config *cryptotls.Config) (*sql.DB, error) {
	if l.Scheme == "mysql" {
		dsn, err := l.dsn(password, config)
		if err != nil {
			return nil, err
		}
		return sql.Open("mysql", dsn)
	}
	to, err := l.pool(password, config)
	if err != nil {
		return nil, err
	}
	// A proxy lends another connection for each transaction, which knows nothing of what was prepared on the connection
	// before.
	to.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	return stdlib.OpenDB(*to.ConnConfig), nil
}

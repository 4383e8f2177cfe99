package location

import (
	"context"
	cryptotls "crypto/tls"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
)

// askDatabase asks for the time alone. Whatever else is wrong, Open finds.
func (m *Member) askDatabase(ctx context.Context, l *Location, password string, config *cryptotls.Config) {
	var db *sql.DB
	statement := ""
	switch l.Scheme {
	case "postgres":
		to, err := l.pool(password, config)
		if err != nil {
			return
		}
		db, statement = stdlib.OpenDB(*to.ConnConfig), "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
	case "mysql":
		dsn, err := l.dsn(password, config)
		if err != nil {
			return
		}
		if db, err = sql.Open("mysql", dsn); err != nil {
			return
		}
		statement = "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)"
	default:
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

package location

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"slices"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

// Connections says how many connections a database server has, and how many Stores share them.
type Connections struct {
	// Used is how many there are, this one among them, and Most how many there can be, among the connections that Bound
	// bounds: the bound with the least room left, as the server calls it.
	Used, Most int
	Bound      string
	// Stores is how many sessions there are in the database.
	Stores int
	// Least is how many connections a Store works with, and Each how many it takes where there is room, with the
	// options of the URL.
	Least, Each int
}

// NoRoom reports whether a database server has refused a connection because it can have no more.
func NoRoom(err error) bool {
	if refused, ok := errors.AsType[*mysqldriver.MySQLError](err); ok {
		return slices.Contains([]uint16{1040, 1203, 1226}, refused.Number)
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == "53300"
}

// The connections that a Store takes: see the options Connections of packages postgres and mysql.
const (
	leastOfStore   = 2
	eachOfMySQL    = 7
	eachOfPostgres = 2 // more than the pool has
)

// Connections counts the connections of a PostgreSQL, MySQL or MariaDB server. It waits for a third of DialTimeout at
// most.
func (l *Location) Connections(ctx context.Context) (c Connections, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.Patience()/3)
	defer cancel()
	password, config, err := l.secrets()
	if err != nil {
		return c, err
	}
	c.Least = leastOfStore
	if c.Each, err = l.each(password, config); err != nil {
		return c, err
	}
	db, err := l.database(password, config)
	if err != nil {
		return c, err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return c, err
	}
	defer conn.Close()
	if l.Scheme == "mysql" {
		err = c.countOnMySQL(ctx, conn)
	} else {
		err = conn.QueryRowContext(ctx, connectionsOnPostgres).Scan(&c.Bound, &c.Used, &c.Most, &c.Stores)
	}
	return c, err
}

// each returns how many connections a Store takes where there is room.
func (l *Location) each(password string, config *tls.Config) (int, error) {
	if l.Scheme == "mysql" {
		return cmp.Or(l.Most, eachOfMySQL), nil
	}
	to, err := l.pool(password, config)
	if err != nil {
		return 0, err
	}
	n := int(to.MaxConns) + eachOfPostgres
	if l.Most > 0 {
		n = min(n, l.Most)
	}
	return n, nil
}

// A role and a database may have bounds of their own. Only superusers have the connections that are kept for them.
const connectionsOnPostgres = `WITH clients AS (
  SELECT pg_stat_get_backend_userid(i) AS role, pg_stat_get_backend_dbid(i) AS db
  FROM pg_stat_get_backend_idset() i WHERE pg_stat_get_backend_dbid(i) <> 0
), bounds (name, used, most) AS (
  SELECT 'max_connections', (SELECT count(*) FROM clients), current_setting('max_connections')::int
    - CASE WHEN current_setting('is_superuser') = 'on' THEN 0 ELSE current_setting('superuser_reserved_connections')::int
      + coalesce(current_setting('reserved_connections', true)::int, 0) END
  UNION ALL
  SELECT 'CONNECTION LIMIT of role ' || rolname, (SELECT count(*) FROM clients WHERE role = r.oid), rolconnlimit
  FROM pg_roles r WHERE rolname = current_user AND rolconnlimit >= 0 AND NOT rolsuper
  UNION ALL
  SELECT 'CONNECTION LIMIT of database ' || datname, (SELECT count(*) FROM clients WHERE db = d.oid), datconnlimit
  FROM pg_database d WHERE datname = current_database() AND datconnlimit >= 0
)
SELECT name, used, most, (SELECT count(*) FROM farsync_sessions) FROM bounds ORDER BY most - used LIMIT 1`

// countOnMySQL asks one after the other, for no table that every user may read has what SHOW STATUS shows.
func (c *Connections) countOnMySQL(ctx context.Context, conn *sql.Conn) error {
	var name, user string
	var most int
	err := conn.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Threads_connected'").Scan(&name, &c.Used)
	if err == nil {
		err = conn.QueryRowContext(ctx, `SELECT @@max_connections, @@max_user_connections, SUBSTRING_INDEX(CURRENT_USER(), '@', 1),
			(SELECT COUNT(*) FROM farsync_sessions)`).Scan(&c.Most, &most, &user, &c.Stores)
	}
	c.Bound = "max_connections"
	if err != nil || most == 0 {
		return err
	}
	all, err := processes(ctx, conn)
	if err != nil {
		return err
	}
	mine := 0
	for _, p := range all {
		if p.user == user {
			mine++
		}
	}
	if most-mine < c.Most-c.Used {
		c.Bound, c.Used, c.Most = "max_user_connections", mine, most
	}
	return nil
}

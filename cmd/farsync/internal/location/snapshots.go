package location

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
)

// A Snapshot keeps a database from cleaning up rows that were changed or deleted since it was taken. It belongs to a
// transaction that is open, or to a replica. Each acquisition changes rows, and reads past the old versions that were
// not cleaned up.
type Snapshot struct {
	// Who is its owner, with the words by which an operator finds it.
	Who string
	// Age is for how long its transaction has been open. It is negative if the server does not say, and the snapshot is
	// thousands of transactions old.
	Age time.Duration
	// End is the statement that ends it.
	End string
}

// ErrHidden says that the user may not see whose transactions are open.
var ErrHidden = errors.New("the user may not see the transactions of others")

// Snapshots returns at most ten snapshots that are older than so long, the oldest first, on PostgreSQL, MySQL and
// MariaDB, and none on other stores. On PostgreSQL a user without the role pg_read_all_stats sees no age of other
// users' transactions. On MySQL and MariaDB the error is ErrHidden if the user lacks the right PROCESS. Snapshots waits
// for a third of DialTimeout at most.
func (l *Location) Snapshots(ctx context.Context, older time.Duration) ([]Snapshot, error) {
	if l.Scheme != "postgres" && l.Scheme != "mysql" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.Patience()/3)
	defer cancel()
	password, config, err := l.secrets()
	if err != nil {
		return nil, err
	}
	db, err := l.database(password, config)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if l.Scheme == "mysql" {
		return snapshotsOfMySQL(ctx, db, older)
	}
	rows, err := db.QueryContext(ctx, snapshotsOnPostgres, older.Seconds())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Snapshot
	for rows.Next() {
		var s Snapshot
		var age float64
		if err := rows.Scan(&s.Who, &age, &s.End); err != nil {
			return nil, err
		}
		s.Age = time.Duration(age * float64(time.Second))
		list = append(list, s)
	}
	return list, rows.Err()
}

// snapshotsOfMySQL asks for the transactions, and then for whose they are. A transaction that has ended in between has
// an unknown owner.
func snapshotsOfMySQL(ctx context.Context, db *sql.DB, older time.Duration) ([]Snapshot, error) {
	const cannotConvert = 3854
	list, ids, err := transactions(ctx, db, snapshotsOnMySQL, older)
	if refused, ok := errors.AsType[*mysqldriver.MySQLError](err); ok && refused.Number == cannotConvert {
		list, ids, err = transactions(ctx, db, snapshotsByEvents, older)
	}
	if err != nil || len(ids) == 0 {
		return nil, hidden(err)
	}
	owners, err := processes(ctx, db)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		p, known := owners[id]
		if !known {
			p = process{"unknown", "unknown", "unknown"}
		}
		list[i].Who = fmt.Sprintf("connection %s, user %s, host %s, %s", id, p.user, p.host, strings.ToLower(p.command))
	}
	return list, nil
}

// transactions returns what ask shows of open transactions, and the IDs of their connections.
func transactions(ctx context.Context, db *sql.DB, ask string, older time.Duration) (list []Snapshot, ids []string, err error) {
	rows, err := db.QueryContext(ctx, ask, older.Seconds())
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var age int64
		if err := rows.Scan(&id, &age); err != nil {
			return nil, nil, err
		}
		ids = append(ids, id)
		list = append(list, Snapshot{Age: time.Duration(age) * time.Second, End: "KILL " + id})
	}
	return list, ids, rows.Err()
}

func hidden(err error) error {
	const accessDenied = 1227
	if refused, ok := errors.AsType[*mysqldriver.MySQLError](err); ok && refused.Number == accessDenied {
		return fmt.Errorf("%w: %w", ErrHidden, err)
	}
	return err
}

// A transaction has an ID once it has written, and a snapshot while a statement of it runs, or from the first statement
// on where all of them see one state. Rows that were changed since either are kept, but not for a VACUUM. The server
// tells a user neither the kind nor the age of other users' processes; it has processes of its own, which have no user.
// Without its age a snapshot counts if it is thousands of transactions old.
const snapshotsOnPostgres = `SELECT who, age, ended FROM (
  SELECT format('process %s, user %s, application %s, %s', pid, coalesce(usename, 'unknown'),
      quote_literal(coalesce(application_name, '')), coalesce(state, 'state unknown')) AS who,
    coalesce(extract(epoch FROM clock_timestamp() - xact_start),
      CASE WHEN age(coalesce(backend_xmin, backend_xid)) > 5000 THEN -1 ELSE 0 END)::float8 AS age,
    format('SELECT pg_terminate_backend(%s)', pid) AS ended
  FROM pg_stat_activity
  WHERE coalesce(backend_xmin, backend_xid) IS NOT NULL AND pid <> pg_backend_pid()
    AND (datname = current_database() OR datname IS NULL) -- a replica has none
    AND (usename IS NOT NULL OR backend_type IS NOT NULL)
    AND coalesce(backend_type, '') NOT IN ('autovacuum worker', 'parallel worker')
    AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
  UNION ALL
  SELECT format('prepared transaction %s of %s', quote_literal(gid), owner),
    extract(epoch FROM clock_timestamp() - prepared)::float8, format('ROLLBACK PREPARED %L', gid)
  FROM pg_prepared_xacts WHERE database = current_database()
  UNION ALL
  SELECT format('replication slot %s, %s', slot_name, CASE WHEN active THEN 'in use' ELSE 'not in use' END),
    CASE WHEN age(xmin) > 5000 THEN -1 ELSE 0 END, format('SELECT pg_drop_replication_slot(%L)', slot_name)
  FROM pg_replication_slots WHERE xmin IS NOT NULL
) open WHERE age < 0 OR age >= $1 ORDER BY age < 0, age DESC LIMIT 10`

// A transaction at READ COMMITTED that has only read has a snapshot while a statement of it runs. The ID of a
// transaction that has only read is 0 on MariaDB, and from 2^48 on on MySQL. The start of a transaction is in the time
// zone of the system, whatever the time zone of the connection is. A transaction that is prepared, of a client that has
// gone, has no connection, and no snapshot.
const snapshotsOnMySQL = `SELECT id, age FROM (
  SELECT t.trx_mysql_thread_id AS id,
    TIMESTAMPDIFF(SECOND, t.trx_started, CONVERT_TZ(NOW(), @@session.time_zone, 'SYSTEM')) AS age
  FROM information_schema.innodb_trx t
  WHERE t.trx_mysql_thread_id NOT IN (0, CONNECTION_ID())
    AND (t.trx_isolation_level NOT LIKE 'READ%' OR t.trx_query IS NOT NULL OR t.trx_id BETWEEN 1 AND 281474976710655)
) open WHERE age >= ? ORDER BY age DESC LIMIT 10`

// On MySQL the table above has the text of each transaction's statement, and cannot be read by anybody while one has
// bytes that are no text (error 3854). This needs the right to read performance_schema. Here a transaction counts from
// its BEGIN on, and not only from its first statement.
const snapshotsByEvents = `SELECT id, age FROM (
  SELECT t.processlist_id AS id, CAST(e.timer_wait DIV 1000000000000 AS SIGNED) AS age
  FROM performance_schema.events_transactions_current e JOIN performance_schema.threads t USING (thread_id)
  WHERE e.state = 'ACTIVE' AND t.processlist_id <> CONNECTION_ID()
    AND (e.isolation_level NOT LIKE 'READ%' OR t.processlist_command <> 'Sleep' OR e.trx_id BETWEEN 1 AND 281474976710655)
) open WHERE age >= ? ORDER BY age DESC LIMIT 10`

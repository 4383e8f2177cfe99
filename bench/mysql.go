package main

import (
	"context"
	"database/sql"
	"errors"

	_ "github.com/go-sql-driver/mysql" // registers the driver

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/mysql"
)

var mysqlStore = store{
	open: func(ctx context.Context, on *stage, o farsync.Options) (*farsync.Store, error) {
		return mysql.Open(ctx, mysqlDSN(on), &mysql.Options{Options: o})
	},
	service: func(on *stage) (driver.Service, error) { return mysql.NewService(mysqlDSN(on), nil) },
}

func mysqlDSN(on *stage) string { return "root@tcp(" + on.at[0] + ")/test" }

// mysqlConn has a statement sent with its parameters, in one request.
func mysqlConn(ctx context.Context, on *stage) (*sql.Conn, error) {
	db, err := sql.Open("mysql", mysqlDSN(on)+"?interpolateParams=true")
	if err != nil {
		return nil, err
	}
	on.onClose(func() { _ = db.Close() })
	conn, err := db.Conn(ctx)
	if err == nil {
		on.onClose(func() { _ = conn.Close() })
	}
	return conn, err
}

var mariaDB = database{
	connect: func(ctx context.Context, on *stage) (runner, error) {
		conn, err := mysqlConn(ctx, on)
		return func(ctx context.Context, statement string, args ...any) (int64, error) {
			done, err := conn.ExecContext(ctx, statement, args...)
			if err != nil {
				return 0, err
			}
			return done.RowsAffected()
		}, err
	},
	row:      "INSERT IGNORE INTO locks VALUES (?, '', '1970-01-01')",
	take:     "UPDATE locks SET holder = ?, expires = NOW(6) + INTERVAL 10 SECOND WHERE path = ? AND expires < NOW(6)",
	giveBack: "UPDATE locks SET expires = '1970-01-01' WHERE holder = ? AND path = ?",
}

const (
	getLock      = "SELECT GET_LOCK(?, 3600)"
	releaseLock  = "SELECT RELEASE_LOCK(?)"
	mysqlCountUp = "INSERT INTO pairs VALUES (?, 0) ON DUPLICATE KEY UPDATE n = n + 1"
)

var (
	// mysqlLocks are MySQL's own, each on a connection of its own.
	mysqlLocks    = mariaDB.sequence("GET_LOCK", getLock, releaseLock)
	mysqlRows     = mariaDB.sequence("SELECT … FOR UPDATE", "BEGIN", "SELECT 1 FROM locks WHERE path = ? FOR UPDATE", "COMMIT")
	mysqlExpiries = mariaDB.expiries()
	mysqlPairs    = mariaDB.pairs("INSERT INTO pairs VALUES (?, 0)", "DELETE FROM pairs WHERE id = ?")
	// mysqlUnguarded writes without any check: it is for the connection that has the lock to write.
	mysqlUnguarded = mariaDB.sequence("GET_LOCK + write", getLock, mysqlCountUp, releaseLock)
)

func mysqlGuard(ctx context.Context, on *stage) (func(context.Context, *farsync.Lease) error, error) {
	conn, err := mysqlConn(ctx, on)
	return func(ctx context.Context, lease *farsync.Lease) error {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		err = mysql.Guard(ctx, tx, lease)
		if err == nil {
			_, err = tx.ExecContext(ctx, mysqlCountUp, on.path)
		}
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}, err
}

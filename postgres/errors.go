package postgres

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/sqlstore"
)

// outcomes has the outcomes of the errors of a server, by their codes or by the classes that the codes begin with. A
// statement that has failed with any other code was rolled back, and would fail again.
var outcomes = map[string]driver.Outcome{
	"40003": driver.Unknown, // statement_completion_unknown
	"57P01": driver.Unknown, // the server is shut down, perhaps after the commit
	"57P02": driver.Unknown,
	"25P04": driver.Unknown, // transaction_timeout: it ends the connection, perhaps after the commit
	"08":    driver.Unknown, // of a proxy: the connection has failed
	"40":    driver.NotDone, // deadlock, serialization
	"53300": driver.NotDone, // too many connections
	"53100": driver.NotDone, // the disk is full, until there is room
	"53200": driver.NotDone, // out of memory
	"54000": driver.NotDone, // the queue of NOTIFY is full, or transaction IDs are used up, until vacuum
	"55P03": driver.NotDone, // a lock was not available in time
	"26000": driver.NotDone, // a prepared statement is gone, as after DISCARD ALL; pgx prepares it again
	"57":    driver.NotDone, // cancelled; or the server starts
	"25006": driver.NotDone, // a replica, which may be promoted
}

// missing are the codes of tables, functions and columns that are not there.
var missing = map[string]bool{"42P01": true, "42883": true, "42703": true, "3F000": true}

// judge says what an error means for the attempt. sent: the statement may have reached the server.
func judge(err error, sent bool) error {
	if err == nil || errors.Is(err, puddle.ErrClosedPool) || sqlstore.Outcome(err) != driver.Unknown {
		return err
	}
	failed, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case refusesTLS(err):
		return &sqlstore.LoginError{Err: err}
	case !ok && sent && !pgconn.SafeToRetry(err):
		return err
	case !ok:
		return &sqlstore.Error{Err: err, Outcome: driver.NotDone}
	case failed.SeverityUnlocalized == "PANIC" && sent:
		// The server ends, as where no log can be written, and has rolled nothing back: of a commit the log may have what its
		// recovery needs to carry it out.
		return &sqlstore.Error{Err: err, Outcome: driver.Unknown}
	case missing[failed.Code]:
		err = fmt.Errorf("the tables of farsync are not there, or of another version; make them with "+
			"farsync schema postgres | psql DATABASE, with ?migrate=1 in the URL of the command, or in a program by Migrate: %w", err)
	case failed.Code == "22003": // out of range
		err = sqlstore.OfRevision(err)
	case failed.Code == "25006":
		err = fmt.Errorf("the server is read-only, as a replica is: %w", err)
	}
	for _, n := range []int{5, 2} {
		if is, ok := outcomes[failed.Code[:min(n, len(failed.Code))]]; ok {
			return &sqlstore.Error{Err: err, Outcome: is}
		}
	}
	if !sent {
		return &sqlstore.LoginError{Err: err}
	}
	return &sqlstore.Error{Err: err, Outcome: driver.Refused}
}

// refusesTLS reports whether the server is not trusted, or has no TLS.
func refusesTLS(err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return untrusted || strings.Contains(err.Error(), "server refused TLS connection")
}

// Outcome reads the outcome that judge has put into the error.
func (s *service) Outcome(err error) driver.Outcome {
	if errors.Is(err, puddle.ErrClosedPool) {
		return driver.Closed
	}
	return sqlstore.Outcome(err)
}

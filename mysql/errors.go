package mysql

import (
	"crypto/tls"
	dbdriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/sqlstore"
)

// outcomes has the outcomes of the errors of a server, by their numbers. A procedure that has failed with any other
// number was rolled back, and would fail again, unless the number is a proxy's.
var outcomes = map[uint16]driver.Outcome{
	1205: driver.NotDone, // a row was locked for too long
	1213: driver.NotDone, // deadlock
	1020: driver.NotDone, // a row has changed since it was read: a cluster's word for a deadlock
	1040: driver.NotDone, // too many connections
	1203: driver.NotDone, // too many of this user
	1226: driver.NotDone, // a limit of this user
	1135: driver.NotDone, // no thread for it
	1037: driver.NotDone, // no memory for it
	1041: driver.NotDone, // likewise
	1129: driver.NotDone, // the host of the client has failed to connect too often, until FLUSH HOSTS
	1206: driver.NotDone, // no room for the lock
	1021: driver.NotDone, // the disk is full, until there is room
	1114: driver.NotDone, // likewise: a table is
	1412: driver.NotDone, // a table was changed in the middle of the transaction
	1615: driver.NotDone, // likewise, a statement's
	4031: driver.NotDone, // the connection was closed, for it had said nothing for too long
	1290: driver.NotDone, // a replica, which may be promoted
	1792: driver.NotDone,
	1836: driver.NotDone,
	3032: driver.NotDone, // offline, for its operator or until it is back in its group
	1047: driver.NotDone, // not yet back in its Galera cluster
	3101: driver.NotDone, // rolled back by its group, instead of the commit
	1053: driver.Unknown, // the server is shut down, perhaps after the commit
	1105: driver.Unknown, // unknown to the server, too
	1158: driver.Unknown, // the server could not read or write what belongs to the call
	1159: driver.Unknown,
	1160: driver.Unknown,
	1161: driver.Unknown,
	1180: driver.Unknown, // the commit has failed
	3100: driver.Unknown, // likewise: its group could not be asked
	1317: driver.Unknown, // the statement was killed, perhaps after the commit
	1927: driver.Unknown, // the connection was killed
	3169: driver.Unknown, // likewise
	1969: driver.Unknown, // it took longer than the server allows
	3024: driver.Unknown,
}

// ofProxy reports whether no server sends a number. With the numbers of clients, from 2000 on, a proxy says that it has
// lost its connection to the server, perhaps after the commit, and with numbers from 9000 on ProxySQL says that it has
// none.
func ofProxy(number uint16) bool { return number/1000 == 2 || number/1000 == 9 }

// missing are the numbers of databases, tables, columns and procedures that are not there.
var missing = map[uint16]bool{1146: true, 1054: true, 1305: true, 1318: true}

// judge says what an error means for the attempt. sent: the call may have reached the server.
func (s *service) judge(err error, sent bool) error {
	if err != nil && sqlstore.Outcome(err) == driver.Unknown && s.life.Err() != nil {
		return sqlstore.ErrClosed
	}
	return judge(err, sent)
}

// judge is the method of the same name, for a service that is not closed.
func judge(err error, sent bool) error {
	if err == nil || sqlstore.Outcome(err) != driver.Unknown {
		return err
	}
	failed, ok := errors.AsType[*mysql.MySQLError](err)
	_, unproven := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case ok:
		is, known := outcomes[failed.Number]
		if missing[failed.Number] {
			err = fmt.Errorf("the tables and procedures of farsync are not there, or of another version; make them with "+
				"farsync schema mysql | mysql DATABASE, with ?migrate=1 in the URL of the command, or in a program by Migrate: %w", err)
		}
		if strings.Contains(failed.Message, "farsync needs InnoDB") {
			err = fmt.Errorf("%w; drop the tables of farsync while nothing is held, and make them again by Migrate, without enforce_storage_engine", err)
		}
		switch failed.Number {
		case 1451: // a row is referred to
			err = fmt.Errorf("a table that another program has made refers to a row of farsync, which cannot be deleted before that table, "+
				"or its foreign key, is dropped: %w", err)
		case 1690, 1264: // out of range
			if strings.Contains(failed.Message, "`ttl`") {
				err = fmt.Errorf("another program has changed the ttl of the session, in farsync_sessions: %w", err)
			} else {
				err = sqlstore.OfRevision(err)
			}
		}
		if !known {
			is = driver.Refused
			if ofProxy(failed.Number) {
				is = driver.Unknown
			} else if !sent {
				return &sqlstore.LoginError{Err: err}
			}
		}
		return &sqlstore.Error{Err: err, Outcome: is}
	case unproven || errors.Is(err, mysql.ErrNoTLS):
		return &sqlstore.LoginError{Err: err}
	case sent && !errors.Is(err, dbdriver.ErrBadConn):
		return err
	default:
		return &sqlstore.Error{Err: err, Outcome: driver.NotDone}
	}
}

// Outcome reads the outcome that judge has put into the error.
func (*service) Outcome(err error) driver.Outcome { return sqlstore.Outcome(err) }

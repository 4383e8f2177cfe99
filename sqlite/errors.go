package sqlite

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/deaf"
	"github.com/farsync/farsync/internal/sqlstore"
	"github.com/farsync/farsync/internal/turnstile"
)

// code returns the primary result code of SQLite, 0 if err has none.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// isBusy reports whether another connection stands in the way.
func isBusy(err error) bool { return code(err) == lib.SQLITE_BUSY || code(err) == lib.SQLITE_LOCKED }

// staleIndex is what else it may be. SQLite makes the index, -shm, anew when nobody has the file open, and takes a lock on a byte of it
// for somebody who has. After a crash of the machine the index may tell of more than the log has.
const staleIndex = "or another program keeps a lock on its -shm, which is from before a crash of the machine"

// refusals are the answers that stay the same while the file is as it is, in words.
var refusals = map[int]string{
	lib.SQLITE_FULL:     "the disk is full",
	lib.SQLITE_READONLY: "the file, or its directory, cannot be written",
	lib.SQLITE_PERM:     "the file may not be used",
	lib.SQLITE_CANTOPEN: "the file, or its log beside it, cannot be opened or made",
	lib.SQLITE_CORRUPT:  "the file is damaged, " + staleIndex,
	lib.SQLITE_NOTADB:   "the file is no SQLite database, " + staleIndex,
	lib.SQLITE_ERROR:    "the tables are not those of farsync",
}

// judge says of the error of a transaction what it means for the attempt. A transaction that has not come to its commit
// is rolled back. So is a transaction that found no room for the log as it committed, for a log without its last frame
// counts for nothing. Other errors of a commit do not tell how far it came: after a power cut, a frame that could not
// be synced may be there.
func (f *file) judge(err error, committing bool) error {
	words, refused := refusals[code(err)]
	switch {
	case err == nil || outcome(err) != driver.Unknown:
		return err // of our own making
	case refused && (!committing || code(err) == lib.SQLITE_FULL):
		return &sqlstore.Error{Err: fmt.Errorf("%s: %s: %w", f.path, words, err), Outcome: driver.Refused}
	case isBusy(err): // SQLite says that the database is locked, which is no lock of farsync
		const words = "another transaction on the file is under way, or another program keeps a lock on its -shm"
		return &sqlstore.Error{Err: fmt.Errorf("%s: %s: %w", f.path, words, err), Outcome: driver.NotDone}
	case committing:
		return fmt.Errorf("%s: commit: %w", f.path, err)
	default:
		if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code() == lib.SQLITE_IOERR_SHORT_READ {
			err = fmt.Errorf("its log is cut off, %s: %w", staleIndex, err)
		}
		return &sqlstore.Error{Err: fmt.Errorf("%s: %w", f.path, err), Outcome: driver.NotDone}
	}
}

// outcome reads the outcome that judge has put into the error, as sqlstore does.
func outcome(err error) driver.Outcome {
	if errors.Is(err, deaf.ErrClosed) || errors.Is(err, turnstile.ErrClosed) {
		return driver.Closed
	}
	return sqlstore.Outcome(err)
}

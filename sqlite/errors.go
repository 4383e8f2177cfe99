package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/deaf"
	"github.com/farsync/farsync/internal/machine"
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

// remedies say what to do where the words of refusals leave it open.
var remedies = map[int]string{lib.SQLITE_CORRUPT: damaged, lib.SQLITE_NOTADB: damaged}

const damaged = ". If it is damaged, by a copy that was written over it, say: end all programs that have it open, and remove it with its -wal and -shm," +
	" or put an earlier file in its place. Open makes a new file"

// refusal returns the error of a refused transaction in words. SQLite does not say which name it could not open, nor
// that a right is missing.
func (f *file) refusal(words string, err error) error {
	is := code(err)
	if is == lib.SQLITE_CANTOPEN || is == lib.SQLITE_READONLY || is == lib.SQLITE_PERM {
		if missing := forbidden(f.path); missing != nil {
			err = missing
		}
	}
	return fmt.Errorf("%s: %s: %w%s", f.path, words, err, remedies[is])
}

// forbidden returns an error that names what cannot be opened or made of a file, its log and its index, nil if that is
// not known. Where a right is missing it says which.
func forbidden(path string) error {
	dir := filepath.Dir(path)
	if err := machine.Access(dir, machine.Enter); err != nil {
		return lacking("enter the directory", err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		name, right, may := path+suffix, uint32(machine.ReadWrite), "read and write the file"
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			name, right, may = dir, machine.MakeIn, "make files in the directory"
		}
		if err := machine.Access(name, right); err != nil {
			return lacking(may, err)
		}
	}
	return nil
}

func lacking(what string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("this user has not the right to %s: %w", what, err)
	}
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err // the name is said already
	}
	return err
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
		return &sqlstore.Error{Err: f.refusal(words, err), Outcome: driver.Refused}
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

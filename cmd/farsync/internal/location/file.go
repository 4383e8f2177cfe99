package location

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
)

// magic is how a file of SQLite begins, if it is not empty.
const magic = "SQLite format 3\x00"

// checkFile refuses a file that cannot be one of locks. A file that is not there can be made, if its directory is
// there.
func (l *Location) checkFile() error {
	is, err := os.Stat(l.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		dir := filepath.Dir(l.File)
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return configError{fmt.Errorf("sqlite: %s: there is no directory %s: make it first", l.File, dir)}
		}
		return nil
	case err != nil:
		return nil // SQLite tells what it may not do
	case is.IsDir():
		return configError{fmt.Errorf("sqlite: %s is a directory: write the path of a file in it", l.File)}
	case !is.Mode().IsRegular():
		return configError{fmt.Errorf("sqlite: %s is a device or a pipe: write the path of a file", l.File)}
	case is.Size() == 0:
		return nil
	}
	file, err := os.Open(l.File)
	if err != nil {
		return nil // likewise
	}
	defer file.Close()
	begin := make([]byte, len(magic))
	if n, err := io.ReadFull(file, begin); !bytes.Equal(begin[:n], []byte(magic)) {
		none := fmt.Errorf("sqlite: %s is not a database of SQLite: write the path of a file that farsync may make", l.File)
		return configError{cmp.Or(ignoreEnd(err), none)}
	}
	return nil
}

// ignoreEnd returns nil where a file is only short.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// Exists refuses a file of SQLite that is not there, or has no tables of farsync, for a caller who looks and is to make
// neither. Other services are asked nothing. The error is ErrConfig.
func (l *Location) Exists(ctx context.Context) error {
	if l.Scheme != "sqlite" {
		return nil
	}
	if err := l.checkFile(); err != nil {
		return err
	}
	switch is, err := os.Stat(l.File); {
	case errors.Is(err, fs.ErrNotExist):
		return configError{fmt.Errorf("sqlite: %s: no such file: write the path of the file that holds the locks, which farsync run makes", l.File)}
	case err == nil && !l.hasTables(ctx, is.Size() == 0):
		return configError{fmt.Errorf("sqlite: %s has no tables of farsync: write the path of the file that holds the locks", l.File)}
	}
	return nil
}

// hasTables reports whether the file has the tables of farsync. It reads the file alone, for to open its log would make
// one; so it believes a file that has a log, and a file that changes as it is read.
func (l *Location) hasTables(ctx context.Context, empty bool) bool {
	if log, err := os.Stat(l.File + "-wal"); err == nil && log.Size() > 0 {
		return true
	}
	if empty {
		return false
	}
	path, err := filepath.Abs(l.File)
	if err != nil {
		return true
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&immutable=1")
	if err != nil {
		return true
	}
	defer db.Close()
	var count int
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE name = 'farsync_entries'").Scan(&count)
	return err != nil || count > 0
}

package sqlite

import (
	"cmp"
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/internal/sqlstore"
)

// looksAtOpen is how often a connection is opened until it is seen to be in the files that are named. It is seen at
// once unless somebody exchanges files, or another connection of this process to the same file is closed at that
// moment.
const looksAtOpen = 10

// A connector opens the connections to a file. SQLite opens the file, its log and its index by their names, so
// whoever may write the directory can have it open others, and then put the first back. So what counts is what this
// process has open: all connections are in the files in which the first was.
type connector struct {
	driver sqldriver.Driver // SQLite's
	file   *file
	name   string // for the driver
	in     atomic.Pointer[identity]
}

// Driver returns SQLite's.
func (c *connector) Driver() sqldriver.Driver { return c.driver }

// Connect opens a connection. No other connection of this process is opened to the file meanwhile.
func (c *connector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	if err := takeTurn(ctx, c.file.path); err != nil {
		return nil, err
	}
	defer passTurn(c.file.path)
	if err := c.file.check(); err != nil {
		return nil, err
	}
	for range looksAtOpen {
		before, err := descriptors()
		if err != nil {
			return nil, err
		}
		conn, err := c.driver.Open(c.name)
		if err != nil {
			return nil, err
		}
		if before == nil { // the names have to do
			return conn, nil
		}
		is, err := c.look(ctx, conn, before)
		if is != nil {
			err = c.enter(is)
		}
		if is != nil && err == nil {
			return conn, nil
		}
		_ = conn.Close() // nothing was done in it
		if err != nil {
			return nil, err
		}
		if pause.For(ctx, time.Millisecond) != nil {
			break
		}
	}
	return nil, c.exchanged()
}

// look returns what the names name, nil if the connection, which was opened after before, is not known to be in it.
func (c *connector) look(ctx context.Context, conn sqldriver.Conn, before map[int]inode) (*identity, error) {
	// SQLite opens the log and the index as it first reads.
	rows, err := conn.(sqldriver.QueryerContext).QueryContext(ctx, "SELECT count(*) FROM sqlite_schema", nil)
	if err != nil {
		return nil, err
	}
	if err := rows.Close(); err != nil {
		return nil, err
	}
	is, err := identify(c.file.service.path, c.file.path)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // a name that is gone is of a file that was exchanged
	}
	if open, err := is.openSince(before); err != nil || !open {
		return nil, err
	}
	return is, nil
}

// enter compares the files of a connection with the files of the first connection. When the first is opened a link to
// another program's file would be written to, if the link was made after the look that came before.
func (c *connector) enter(is *identity) error {
	if c.in.Load() == nil {
		if err := refuse(c.file.path); err != nil {
			return &sqlstore.Error{Err: err, Outcome: driver.Refused}
		}
		c.in.Store(is)
	}
	for part, first := range c.in.Load() {
		if !os.SameFile(first, is[part]) {
			return cmp.Or(c.file.check(), c.exchanged())
		}
	}
	return nil
}

func (c *connector) exchanged() error {
	return &sqlstore.Error{Err: fmt.Errorf("%s, or its log, was replaced while it was opened", c.file.path), Outcome: driver.NotDone}
}

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

const (
	// A transaction that finds another connection in its way tries again after a random time of up to retryFirst, and after
	// retries times, of up to retryMost. SQLite's own waiting has steps of up to 100 ms, and then one process writes while
	// the others sleep.
	retryFirst = 100 * time.Microsecond
	retries    = 50
	retryMost  = 5 * time.Millisecond
	// grace is what a transaction still has when its ctx ends, to say how it ended.
	grace = 50 * time.Millisecond
)

// A tx is one transaction, and what has to be said once it is committed.
type tx struct {
	ctx        context.Context // it never ends: see transact
	raw        *sql.Tx
	statements map[string]*sql.Stmt
	// told has names by the session that waits for them. They are sent after the commit: a session that is told before
	// would look, find nothing new, and go on waiting.
	told   map[string][]string
	owners []string // the sessions of the entries that were read
	buried []string // the sessions that were ended
}

// transact runs f in one transaction, and runs it again while another connection stands in the way: BEGIN IMMEDIATE is the
// lock that makes all writers of a file take turns.
//
// It returns when ctx ends, or a moment later with the outcome. The transaction runs in a goroutine of its own, which
// service.Close joins, for a file system that is frozen holds a write up without end and hears of no ctx. There are no
// more of them under way than connections.
func transact[T any](ctx context.Context, s *service, p *pool, f func(*tx) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer, 1)
	s.tasks.Go(func() {
		for n, bound := 0, retryFirst; ; n++ {
			if n == retries {
				bound = retryMost
			}
			v, err := attempt(ctx, s, p, f)
			if isBusy(err) {
				why := pause.For(ctx, rand.N(bound))
				if why == nil {
					continue
				}
				err = outcomeError{fmt.Errorf("%w: %w", why, err), driver.NotDone}
			}
			done <- answer{v, err}
			return
		}
	})
	select {
	case a := <-done:
		return a.v, a.err
	case <-ctx.Done():
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case a := <-done:
		return a.v, a.err
	case <-patience.C:
		var none T
		return none, fmt.Errorf("%w: %w", errStuck, context.Cause(ctx))
	}
}

// attempt runs f in a transaction. ctx bounds the wait for a connection, and nothing is committed once it has ended. The
// statements run without it: each is short, and COMMIT must not be broken off.
func attempt[T any](ctx context.Context, s *service, p *pool, f func(*tx) (T, error)) (v T, err error) {
	conn, err := p.db.Conn(ctx)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			_ = conn.Close()
		}
		return v, notDone(ctx)
	case err != nil:
		return v, s.judge(err, false)
	}
	defer func() { _ = conn.Close() }()
	t := &tx{ctx: context.WithoutCancel(ctx), statements: p.statements, told: map[string][]string{}}
	if t.raw, err = conn.BeginTx(t.ctx, nil); err != nil {
		return v, s.judge(err, false)
	}
	v, err = f(t)
	// A caller that has gone is told that nothing was done, which is better for it to know than Unknown.
	if err == nil && ctx.Err() != nil {
		err = notDone(ctx)
	}
	if err != nil {
		_ = t.raw.Rollback()
		return v, s.judge(err, false)
	}
	if err := t.raw.Commit(); err != nil {
		return v, s.judge(err, true)
	}
	for session, names := range t.told {
		s.send(session, names)
	}
	for _, session := range t.buried {
		s.remove(session)
	}
	return v, nil
}

func (t *tx) exec(name string, args ...any) (changed int64, err error) {
	result, err := t.raw.StmtContext(t.ctx, t.statements[name]).ExecContext(t.ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// query calls scan for each row.
func (t *tx) query(scan func(*sql.Rows) error, name string, args ...any) error {
	rows, err := t.raw.StmtContext(t.ctx, t.statements[name]).QueryContext(t.ctx, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// texts returns the first column.
func (t *tx) texts(name string, args ...any) (list []string, err error) {
	err = t.query(func(rows *sql.Rows) error {
		var text string
		defer func() { list = append(list, text) }()
		return rows.Scan(&text)
	}, name, args...)
	return list, err
}

// A row is an entry as the file has it.
type row struct {
	driver.Entry
	session sql.NullString // none if no session will ever end it
	words   string
}

// rows returns entries.
func (t *tx) rows(name string, args ...any) (list []row, err error) {
	err = t.query(func(rows *sql.Rows) error {
		var r row
		var kind string
		var since int64
		err := rows.Scan(&r.ID, &r.Queue, &kind, &r.Units, &r.Revision, &r.Version, &since, &r.Value, &r.session, &r.words)
		for k := driver.Exclusive; k <= driver.Candidate; k++ {
			if k.String() == kind {
				r.Kind = k
			}
		}
		if since != 0 {
			r.Since = time.UnixMicro(since)
		}
		if r.session.Valid && !slices.Contains(t.owners, r.session.String) {
			t.owners = append(t.owners, r.session.String)
		}
		list = append(list, r)
		return err
	}, name, args...)
	return list, err
}

// one is rows for a statement that returns one entry or none.
func (t *tx) one(name string, args ...any) (row, error) {
	list, err := t.rows(name, args...)
	if err == nil && len(list) == 0 {
		err = driver.ErrGone
	}
	if err != nil {
		return row{}, err
	}
	return list[0], nil
}

func (t *tx) register(queue string) (r driver.Register, err error) {
	err = t.query(func(rows *sql.Rows) error { return rows.Scan(&r.Value, &r.Version) }, "register", queue)
	return r, err
}

// tell notes that a session is to be told of a name.
func (t *tx) tell(session, name string) {
	if session != "" {
		t.told[session] = append(t.told[session], name)
	}
}

// moved notes the sessions that have asked to be told of a name.
func (t *tx) moved(name string) error {
	watching, err := t.texts("watched", name)
	for _, session := range watching {
		t.tell(session, name)
	}
	return err
}

// changed notes the sessions that have to hear that an entry is gone or another. The session of the next entry does not
// need to have asked for it, nor does its own. So a waiter for a mutex, whose only blocker is the entry next ahead, writes
// nothing in order to wait. The next entry is read in the transaction of the change, so it is next at that moment; if it is not the
// one that was next when it looked, then the one between has gone, and told it.
func (t *tx) changed(r row) error {
	t.tell(r.session.String, r.ID)
	next, err := t.one("behind", r.Queue, r.Revision)
	if err != nil && !errors.Is(err, driver.ErrGone) {
		return err
	}
	t.tell(next.session.String, r.ID)
	return t.moved(r.ID)
}

// bury ends a session, its own or another's. Its entries are deleted before those behind them are looked for, so that no
// entry whose session is told is itself about to go.
func (t *tx) bury(session string) error {
	list, err := t.rows("clear", session)
	for _, r := range list {
		if err == nil {
			err = t.changed(r)
		}
	}
	for _, name := range []string{"forget", "end"} {
		if err == nil {
			_, err = t.exec(name, session)
		}
	}
	t.buried = append(t.buried, session)
	return err
}

// sweep buries the sessions that have run out. Sessions of another boot, or of another kernel with the same file, are
// given their TTL once more: of those, this clock cannot tell when they end. What is written down is by this clock from
// then on, so that programs that live for a moment only, one after the other, come to its end too. If the session lives
// after all, its next renewal writes its own boot again. It is never ended by its socket, which may be of another kernel.
func (t *tx) sweep() error {
	if _, err := t.exec("adopt", boot(), clock()); err != nil {
		return err
	}
	expired, err := t.texts("expired", boot(), clock())
	for _, session := range expired {
		if err == nil {
			err = t.bury(session)
		}
	}
	return err
}

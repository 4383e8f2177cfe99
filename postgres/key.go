package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/sqlstore"
)

// Keys are the connections of a session that have the keys of its entries. An entry whose ID ends in a dot may have a
// key, an advisory lock, from before it can be seen until after it has gone. The entry behind waits for that key, which
// wakes one process and no other, where a notification wakes all that listen. A key does not say which entry holds the
// lock: a waiter that gets one looks at the table. It may be free while its entry stands, and then the waiter listens
// instead.
type keys struct {
	release func(*pgxpool.Conn)

	mu    sync.Mutex
	most  int32 // half of the places, or the only one
	given int32 // Invariant: at most most, and at least len(of)
	of    map[string]key
	over  bool
}

type key struct {
	conn *pgxpool.Conn
	used time.Time
}

const (
	dot = "."
	// notAvailable is the code of the server for a lock that was not to be had in time, deadlocked the code for locks that
	// wait for one another, and canceled the code for a statement that was cancelled.
	notAvailable = "55P03"
	deadlocked   = "40P01"
	canceled     = "57014"
	// unused is how long an entry keeps a key that no Watch needs: an entry that holds for long takes no connection.
	unused = time.Second
	// waits is after how long farsync_await ends a wait for a key.
	waits = 900 * time.Millisecond
)

func hasKey(id string) bool { return strings.HasSuffix(id, dot) }

// NewID marks the entry if its session can give it a key. A proxy lends its connections, so nothing can be kept on one.
func (s *session) NewID(queue string, k driver.Kind, units int64) string {
	id := s.Session.NewID(queue, k, units)
	if k != driver.Read && k != driver.Permit && s.service.direct.Load() && s.keys.count(0) {
		id += dot
	}
	return id
}

// count counts n more keys, unless that are too many, and reports whether there is room for one.
func (k *keys) count(n int32) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	room := !k.over && k.given < k.most
	if room || n < 0 {
		k.given += n
	}
	return room
}

// take takes the key of an entry, which no other uses until it is put back. It is nil if there is none, or another call
// uses it.
func (k *keys) take(id string) *pgxpool.Conn {
	k.mu.Lock()
	defer k.mu.Unlock()
	conn := k.of[id].conn
	delete(k.of, id)
	return conn
}

// put keeps a key for later, unless the session is over, or the connection, or an earlier attempt to create the entry
// has left one.
func (k *keys) put(id string, conn *pgxpool.Conn) {
	k.mu.Lock()
	_, known := k.of[id]
	good := !known && !k.over && serves(conn)
	if good {
		k.of[id] = key{conn, time.Now()}
	}
	k.mu.Unlock()
	if !good {
		k.end(conn)
	}
}

// end gives up a connection, if there is one, and the key with it.
func (k *keys) end(conn *pgxpool.Conn) {
	k.count(-1)
	if conn != nil {
		abandon(conn)
		k.release(conn)
	}
}

// failed gives up a key on whose connection a statement has failed with err. The connection is kept if the statement
// was rolled back only because it waited too long for a lock, or its caller gave up: while room is scarce, no other may
// be to be had.
func (k *keys) failed(ctx context.Context, conn *pgxpool.Conn, err error) {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !hasWaited(refused) || !serves(conn) {
		k.end(conn)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	k.unlock(ctx, conn)
}

// hasWaited reports whether a statement was rolled back only because it has waited too long for a lock, or in a circle, or
// its caller gave up.
func hasWaited(refused *pgconn.PgError) bool {
	return refused.Code == notAvailable || refused.Code == deadlocked || refused.Code == canceled
}

// unlock gives back a key, and keeps the connection for other calls if the server answers.
func (k *keys) unlock(ctx context.Context, conn *pgxpool.Conn) {
	spend(ctx, conn.Conn().PgConn())
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_unlock_all()"); err != nil {
		k.end(conn)
		return
	}
	k.count(-1)
	k.release(conn)
}

// giveBack frees the keys that have not been used for so long, and returns their connections to the pool. All of them
// have the same grace: a server that is silent does not hold up the caller for each.
func (k *keys) giveBack(ctx context.Context, unused time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	for _, conn := range k.idle(unused) {
		k.unlock(ctx, conn)
	}
}

// idle takes the keys that have not been used for so long.
func (k *keys) idle(unused time.Duration) (list []*pgxpool.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, of := range k.of {
		if time.Since(of.used) >= unused {
			list = append(list, of.conn)
			delete(k.of, id)
		}
	}
	return list
}

// close ends all keys, also the keys that are put back later.
func (k *keys) close() {
	k.mu.Lock()
	k.over = true
	k.mu.Unlock()
	for _, conn := range k.idle(0) {
		k.end(conn)
	}
}

// Renew gives back keys first. A waiter that a key has woken for nothing listens from then on.
func (s *session) Renew(ctx context.Context, prove []driver.Entry) error {
	ctx = budgeted(ctx)
	s.keys.giveBack(ctx, unused)
	s.service.tend()
	defer s.replaceOwn()
	return s.Session.Renew(ctx, prove)
}

// perform runs a statement on any connection. A statement that has failed may have found no connection, because the
// server has no room for more: the next statement has the connections of the keys.
func (s *session) perform(ctx context.Context, f func(sqlstore.Rows) error, statement string, args ...any) error {
	err := s.service.run(ctx, f, statement, args...)
	if err != nil {
		s.keys.giveBack(ctx, 0)
	}
	return err
}

// join creates an entry. The connection that creates it has its key, before the commit. A connection on which the
// creation has failed may have the key too.
func (s *session) join(ctx context.Context, f func(sqlstore.Rows) error, args []any) error {
	id, _ := args[1].(string)
	if !hasKey(id) || !s.keys.count(1) {
		return s.perform(ctx, f, "create", args...)
	}
	conn, err := s.service.acquire(ctx)
	if err != nil {
		s.keys.count(-1)
		s.keys.giveBack(ctx, 0)
		return judge(err, false)
	}
	if !isDirect(conn.Conn().PgConn()) {
		s.keys.count(-1)
		s.service.release(conn)
		return s.perform(ctx, f, "create", args...)
	}
	if err := s.service.perform(ctx, conn, f, "join", args...); err != nil {
		s.keys.failed(ctx, conn, err)
		s.keys.giveBack(ctx, 0)
		return judge(err, true)
	}
	s.keep(ctx, id, conn)
	return nil
}

// keep keeps a key for later, unless its place is wanted: who wants it has asked for the keys before this one was there
// to be given back.
func (s *session) keep(ctx context.Context, id string, conn *pgxpool.Conn) {
	s.keys.put(id, conn)
	if s.service.places.demanded().Err() != nil {
		s.keys.giveBack(ctx, 0)
	}
}

// leave deletes an entry. If this connection has its key, the waiter for the key is woken by the deletion and is not
// notified.
func (s *session) leave(ctx context.Context, f func(sqlstore.Rows) error, args []any) error {
	id, _ := args[0].(string)
	conn := s.keys.take(id)
	if conn == nil {
		return s.perform(ctx, f, "delete", args...)
	}
	if err := s.service.perform(ctx, conn, f, "leave", args...); err != nil {
		s.keys.failed(ctx, conn, err)
		return judge(err, true)
	}
	s.keys.count(-1)
	s.service.release(conn)
	return nil
}

// Watch waits for the key of the only target, if that has a key and e too. An entry that leaves releases its key,
// and so notifies no entry that waits for that key.
func (s *session) Watch(
	ctx context.Context, e driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	if len(on) == 1 && on[0].What == driver.Gone && on[0].Entry.ID != e.ID && hasKey(on[0].Entry.ID) {
		if conn := s.keys.take(e.ID); conn != nil {
			stands()
			v, moved, err := s.await(ctx, conn, e, on)
			s.keep(ctx, e.ID, conn)
			if moved || err != nil {
				return v, err
			}
		}
	}
	return s.Session.Watch(ctx, e, on, stands)
}

// await waits for the key of the target, on the connection that has the key of e, until a look shows that one of the
// two has moved. It returns early if the key is free and the target stands. The server ends each wait after a while,
// and the next begins with a look: what moves otherwise, as by hand, is found then, and a connection that has broken
// without a word before long. It returns early, too, when another call needs the connection, for the Store has no
// other: the wait is cancelled, and the waiter listens instead.
func (s *session) await(
	ctx context.Context, conn *pgxpool.Conn, e driver.Entry, on []driver.Target,
) (v *driver.View, moved bool, err error) {
	var demanded context.Context
	run := func(ctx context.Context, f func(sqlstore.Rows) error, statement string, args ...any) error {
		ctx, cancel := context.WithTimeout(budgeted(ctx), time.Second+s.ttl/4)
		defer cancel()
		defer context.AfterFunc(s.Life, cancel)()
		defer context.AfterFunc(demanded, cancel)()
		return judge(s.service.perform(ctx, conn, f, statement, args...), true)
	}
	for {
		if demanded = s.service.places.demanded(); demanded.Err() != nil {
			return nil, false, nil //nolint:nilerr // that it has ended is how it says so
		}
		began := time.Now()
		v, moved, err = s.Behind(ctx, run, e, on, "await")
		_, refused := errors.AsType[*pgconn.PgError](err)
		switch {
		case (refused || demanded.Err() != nil) && !moved && ctx.Err() == nil && s.Life.Err() == nil:
			return nil, false, nil // listening may not be refused, and it finds a connection that has broken
		case moved || err != nil || time.Since(began) < waits:
			return v, moved, err
		}
	}
}

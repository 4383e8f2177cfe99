package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/farsync/farsync/internal/pause"
)

// A stock lock is what farsync is loaded beside.
type stock struct {
	name string
	open opener
	most int // callers, for each takes a connection; 0: any number
}

// stockOf returns the stock lock of a store.
func stockOf(store string) stock {
	const most = 800
	return map[string]stock{
		onEtcd:      {name: "concurrency.Mutex", open: etcdStock},
		onZooKeeper: {name: "zk.Lock, which cannot give up", open: zkStock},
		onRedis:     {name: "rueidislock", open: redisStock},
		onPostgres:  {name: "advisory lock", open: postgresStock, most: most},
		onMySQL:     {name: "GET_LOCK", open: mysqlStock, most: most},
		onSQLite:    {name: "a polled row", open: sqliteStock},
	}[store]
}

// stockTTL is how long a service keeps what a stock lock holds: as long as for farsync.
const stockTTL = 10 * time.Second

// sided makes a side of the callers and of the newcomer that a function opens. The last of them is the newcomer, with a client of its own.
func sided(clients, callers int, join func(client int) (taking, error)) (*side, error) {
	all := &side{lost: func() (int, int) { return 0, 0 }}
	for i := range callers {
		take, err := join(i % clients)
		if err != nil {
			return nil, fmt.Errorf("caller %d: %w", i, err)
		}
		all.takes = append(all.takes, take)
	}
	var err error
	all.whole, err = join(clients)
	return all, err
}

// shared returns what open has made for that client, or has it made.
func shared[T any](open func() (T, error)) func(client int) (T, error) {
	made := map[int]T{}
	return func(client int) (T, error) {
		if one, is := made[client]; is {
			return one, nil
		}
		one, err := open()
		if err == nil {
			made[client] = one
		}
		return one, err
	}
}

// etcdStock has a session for each caller: in one session two of them would get in.
func etcdStock(_ context.Context, on *stage, clients, callers int) (*side, error) {
	clientOf := shared(func() (*clientv3.Client, error) { return etcdClient(on) })
	return sided(clients, callers, func(i int) (taking, error) {
		client, err := clientOf(i)
		if err != nil {
			return nil, err
		}
		session, err := concurrency.NewSession(client, concurrency.WithTTL(int(stockTTL.Seconds())))
		if err != nil {
			return nil, err
		}
		on.onClose(func() { _ = session.Close() })
		return func(ctx context.Context, path string) (func() error, error) {
			mu := concurrency.NewMutex(session, path)
			if err := mu.Lock(ctx); err != nil {
				return nil, err
			}
			return func() error { return mu.Unlock(context.WithoutCancel(ctx)) }, nil
		}, nil
	})
}

// zkStock waits on when its ctx has ended, for zk.Lock knows none, and gives up once that has lasted for a while: what it has
// asked for then is given back when it comes, or ends with the connection.
func zkStock(ctx context.Context, on *stage, clients, callers int) (*side, error) {
	const longest = 10 * time.Second
	connOf := shared(func() (*zk.Conn, error) { return zkConn(ctx, on) })
	return sided(clients, callers, func(i int) (taking, error) {
		conn, err := connOf(i)
		return func(ctx context.Context, path string) (func() error, error) {
			mu := zk.NewLock(conn, path, everyone)
			got := make(chan error, 1)
			go func() { got <- mu.Lock() }() // ends with the connection at the latest
			ended := make(chan struct{})
			stop := context.AfterFunc(ctx, func() { time.AfterFunc(longest, func() { close(ended) }) })
			defer stop()
			select {
			case err := <-got:
				return mu.Unlock, err
			case <-ended:
				go func() { // the same
					if <-got == nil {
						_ = mu.Unlock()
					}
				}()
				return nil, ctx.Err()
			}
		}, err
	})
}

func redisStock(_ context.Context, on *stage, clients, callers int) (*side, error) {
	lockerOf := shared(func() (rueidislock.Locker, error) {
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: on.at}, KeyMajority: 1, KeyValidity: stockTTL,
		})
		if err == nil {
			on.onClose(locker.Close)
		}
		return locker, err
	})
	return sided(clients, callers, func(i int) (taking, error) {
		locker, err := lockerOf(i)
		return func(ctx context.Context, path string) (func() error, error) {
			_, release, err := locker.WithContext(ctx, path)
			return func() error { release(); return nil }, err
		}, err
	})
}

// untilEnd is how long a statement may wait at the server; none if ctx has no end.
func untilEnd(ctx context.Context, none time.Duration) time.Duration {
	if deadline, is := ctx.Deadline(); is {
		return max(time.Until(deadline), time.Millisecond)
	}
	return none
}

// postgresStock has a connection for each caller, however many clients there are to be.
func postgresStock(ctx context.Context, on *stage, clients, callers int) (*side, error) {
	return sided(clients, callers, func(int) (taking, error) {
		conn, err := postgresConn(ctx, on)
		return func(ctx context.Context, path string) (func() error, error) {
			timeout := fmt.Sprint("SET lock_timeout = ", untilEnd(ctx, 0).Milliseconds())
			// The server ends the wait in time. A statement that is cancelled costs the connection.
			ctx = context.WithoutCancel(ctx)
			if _, err := conn.Exec(ctx, timeout); err != nil {
				return nil, err
			}
			_, err := conn.Exec(ctx, adviseLock, path)
			if refused := new(pgconn.PgError); errors.As(err, &refused) && refused.Code == "55P03" {
				return nil, context.DeadlineExceeded
			}
			return func() error {
				_, err := conn.Exec(ctx, adviseUnlock, path)
				return err
			}, err
		}, err
	})
}

// mysqlStock has a connection for each caller, too.
func mysqlStock(ctx context.Context, on *stage, clients, callers int) (*side, error) {
	return sided(clients, callers, func(int) (taking, error) {
		conn, err := mysqlConn(ctx, on)
		return func(ctx context.Context, path string) (func() error, error) {
			seconds := untilEnd(ctx, time.Hour).Seconds()
			ctx = context.WithoutCancel(ctx)
			var got sql.NullInt64
			if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", path, seconds).Scan(&got); err != nil {
				return nil, err
			}
			if got.Int64 != 1 {
				return nil, context.DeadlineExceeded
			}
			return func() error {
				_, err := conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", path)
				return err
			}, nil
		}, err
	})
}

// sqliteStock is a row with an expiry, in a file beside farsync's file, which callers try to take now and then.
func sqliteStock(ctx context.Context, on *stage, clients, callers int) (*side, error) {
	const (
		table = "CREATE TABLE IF NOT EXISTS locks (path TEXT PRIMARY KEY, expires REAL NOT NULL)"
		take  = "INSERT INTO locks VALUES ($1, julianday('now', '10 seconds')) ON CONFLICT (path) DO UPDATE SET expires = excluded.expires " +
			"WHERE expires < julianday('now')"
		giveBack = "DELETE FROM locks WHERE path = $1"
	)
	file := "file:" + on.at[0] + ".stock?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"
	dbOf := shared(func() (*sql.DB, error) {
		db, err := sql.Open("sqlite", file)
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(1)
		on.onClose(func() { _ = db.Close() })
		_, err = db.ExecContext(ctx, table)
		return db, err
	})
	return sided(clients, callers, func(i int) (taking, error) {
		db, err := dbOf(i)
		return func(ctx context.Context, path string) (func() error, error) {
			for {
				done, err := db.ExecContext(ctx, take, path)
				if err != nil {
					return nil, errors.Join(ctx.Err(), err)
				}
				if n, _ := done.RowsAffected(); n > 0 {
					return func() error {
						_, err := db.ExecContext(context.WithoutCancel(ctx), giveBack, path)
						return err
					}, nil
				}
				if pause.For(ctx, 10*time.Millisecond) != nil {
					return nil, ctx.Err()
				}
			}
		}, err
	})
}

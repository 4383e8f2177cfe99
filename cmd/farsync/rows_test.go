//go:build linux

package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/live"
	"github.com/farsync/farsync/mysql"
	"github.com/farsync/farsync/recipe"
)

// What another program has put into a store. Which of a store's places it is put into is chosen by place.
type odd struct {
	place             uint8
	queue, name, text string
	number            int64
}

// good is what the paths begin with that farsync uses in the tests of odd rows, and no odd row.
const good = "/good"

// FuzzRowsOf… put arbitrary rows, keys, nodes and bytes into a store. Survey, Participants and the verbs show what is
// good beside them, and never hang, fail or panic. Other locks are to be had.

func FuzzRowsOfSQLite(f *testing.F) {
	store := file(f)
	db := opened(f, "sqlite", strings.TrimSuffix(strings.TrimPrefix(store, "sqlite:"), "?ttl=60s")+"?_pragma=busy_timeout(10000)")
	fuzzRows(f, store, func(ctx context.Context, o odd) error {
		do := func(statement string, arguments ...any) error {
			_, err := db.ExecContext(ctx, statement, arguments...)
			return err
		}
		// A column keeps text, bytes and numbers alike.
		values := []any{o.text, []byte(o.text), o.number}
		any1, any2 := values[o.place>>2%3], values[o.place>>4%3]
		switch o.place % 4 {
		case 0:
			return do("INSERT OR IGNORE INTO farsync_entries (queue, id, kind, units, version, since, value) VALUES (?, ?, 'permit', ?, ?, ?, ?)",
				o.queue, o.name, any1, any2, any2, any1)
		case 1:
			return do("INSERT OR IGNORE INTO farsync_entries (queue, id, kind, session, revision, value, words) VALUES (?, ?, ?, ?, ?, ?, ?)",
				any1, any2, o.name, any1, o.number, any1, any2)
		case 2:
			return errors.Join(
				do("INSERT OR REPLACE INTO farsync_registers (queue, value, version) VALUES (?, ?, ?)", o.queue, any1, any2),
				do("INSERT OR IGNORE INTO farsync_entries (queue, id, kind, units) VALUES (?, ?, 'permit', 1)", o.queue, o.name))
		default:
			return errors.Join(
				do("INSERT OR IGNORE INTO farsync_sessions (id, boot, deadline, ttl, linger) VALUES (?, ?, ?, ?, ?)", o.name, any1, any2, any1, any2),
				do("INSERT OR IGNORE INTO farsync_entries (queue, id, kind, session, units) VALUES (?, ?, 'permit', ?, ?)", o.queue, o.name, o.name, any2))
		}
	}, func(ctx context.Context) error {
		return doAll(ctx, db, "DELETE FROM farsync_entries WHERE queue NOT LIKE '/good%'", "DELETE FROM farsync_registers WHERE queue NOT LIKE '/good%'",
			"DELETE FROM farsync_sessions WHERE id NOT IN (SELECT session FROM farsync_entries)")
	})
}

func FuzzRowsOfPostgres(f *testing.F) {
	server := embedtest.Postgres(f)
	store := "postgres://postgres@" + server.Endpoint() + "/postgres"
	require.Equal(f, codeNothing, (&app{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}).execute([]string{"--store", store + "?migrate=1", "who"}))
	fuzzTables(f, store, opened(f, "pgx", server.URL()), [][]string{
		{"INSERT INTO farsync_entries (queue, id, kind, units, version, since, value, revision) VALUES ($1, $2, 'permit', $4, $4, $4, $3::text::bytea, $4) ON CONFLICT DO NOTHING"},
		{"INSERT INTO farsync_entries (queue, id, kind, units, version, since, words, revision) VALUES ($1, $2, $3, $4, $4, $4, $3, 7) ON CONFLICT DO NOTHING"},
		{
			"INSERT INTO farsync_registers (queue, value, version) VALUES ($1, $3, $4) ON CONFLICT DO NOTHING",
			"INSERT INTO farsync_entries (queue, id, kind, units, revision) VALUES ($1, $2, 'permit', 1, 8) ON CONFLICT DO NOTHING",
		},
	})
}

func FuzzRowsOfMySQL(f *testing.F) {
	server := embedtest.MariaDB(f)
	require.NoError(f, mysql.Migrate(f.Context(), server.DSN("test")))
	fuzzTables(f, "mysql://root@"+server.Endpoint()+"/test", opened(f, "mysql", server.DSN("test")), [][]string{
		{"INSERT IGNORE INTO farsync_entries (queue, id, kind, units, version, since, value, revision) SELECT q, i, 'permit', n, n, n, t, n FROM farsync_odd"},
		{"INSERT IGNORE INTO farsync_entries (queue, id, kind, units, version, since, words, revision) SELECT q, i, t, n, n, n, t, 7 FROM farsync_odd"},
		{
			"INSERT IGNORE INTO farsync_registers (queue, value, version) SELECT q, t, n FROM farsync_odd",
			"INSERT IGNORE INTO farsync_entries (queue, id, kind, units, revision) SELECT q, i, 'permit', 1, 8 FROM farsync_odd",
		},
	})
}

func FuzzRowsOfEtcd(f *testing.F) {
	server := embedtest.Etcd(f)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop()})
	require.NoError(f, err)
	f.Cleanup(func() { _ = client.Close() })
	lease, err := client.Grant(f.Context(), 3600)
	require.NoError(f, err)
	fuzzRows(f, "etcd://"+strings.TrimPrefix(server.Endpoint(), "http://"), func(ctx context.Context, o odd) error {
		in, none := clientv3.WithLease(lease.ID), clientv3.WithLease(clientv3.NoLease)
		puts := [][]clientv3.Op{
			{clientv3.OpPut(o.queue+"/"+o.name, o.text, in)},
			{clientv3.OpPut(o.queue+"/"+o.name, o.text, none)},
			{clientv3.OpPut(o.queue+"!size/units", o.text, none), clientv3.OpPut(o.queue+"/s1-ABCDEFGHIJKLMNOPQRSTUVWXYZ", "holder", in)},
			{clientv3.OpPut(o.queue+"!ask/"+o.name, o.text, in), clientv3.OpPut(o.queue+fmt.Sprintf("/s%d-ABCDEFGHIJKLMNOPQRSTUVWXYZ", o.number), o.text, in)},
			{clientv3.OpPut(o.queue, o.text, in), clientv3.OpPut(o.queue+"!size/m-ABCDEFGHIJKLMNOPQRSTUVWXYZ", o.text, in)},
		}
		for _, put := range puts[int(o.place)%len(puts)] {
			if _, err := client.Do(ctx, put); err != nil {
				return err
			}
		}
		return nil
	}, func(ctx context.Context) error {
		_, err := client.Delete(ctx, "\x00", clientv3.WithRange(good))
		if err == nil {
			_, err = client.Delete(ctx, good+"\xff", clientv3.WithFromKey())
		}
		return err
	})
}

func FuzzRowsOfZooKeeper(f *testing.F) {
	server := embedtest.ZooKeeper(f)
	conn, _, err := zk.Connect([]string{server.Endpoint()}, time.Minute, zk.WithLogInfo(false))
	require.NoError(f, err)
	f.Cleanup(conn.Close)
	make1 := func(at, data string, flags int32) error {
		for i := 1; i < len(at); i++ {
			if at[i] == '/' {
				_, _ = conn.Create(at[:i], nil, 0, zk.WorldACL(zk.PermAll))
			}
		}
		_, err := conn.Create(at, []byte(data), flags, zk.WorldACL(zk.PermAll))
		return err
	}
	fuzzRows(f, "zk://"+server.Endpoint(), func(_ context.Context, o odd) error {
		switch o.place % 4 {
		case 0:
			return make1(o.queue+"/"+o.name, o.text, zk.FlagEphemeral)
		case 1:
			return make1(o.queue+"/"+o.name, o.text, 0)
		case 2:
			return errors.Join(make1(o.queue, o.text, 0), make1(o.queue+"/_c_x-permit-1-0000000001", "holder", zk.FlagEphemeral))
		default:
			return make1(fmt.Sprintf("%s/_c_%s-permit-%d-%010d", o.queue, o.name, o.number, o.place), o.text, zk.FlagEphemeral)
		}
	}, func(context.Context) error {
		// The server collects empty containers, as the container of doctor's queue: a node that is gone is removed.
		unlessGone := func(err error) error {
			if errors.Is(err, zk.ErrNoNode) {
				return nil
			}
			return err
		}
		var remove func(at string) error
		remove = func(at string) error {
			names, _, err := conn.Children(at)
			all := []error{unlessGone(err)}
			for _, name := range names {
				if child := path.Join(at, name); child != good && child != "/zookeeper" {
					all = append(all, remove(child))
				}
			}
			if at != "/" {
				all = append(all, unlessGone(conn.Delete(at, -1)))
			}
			return errors.Join(all...)
		}
		return remove("/")
	})
}

func FuzzRowsOfRedis(f *testing.F) {
	server := embedtest.Redis(f)
	client := goredis.NewClient(&goredis.Options{Addr: server.Endpoint()})
	f.Cleanup(func() { _ = client.Close() })
	const space = "farsync:{farsync}:"
	fuzzRows(f, "redis://"+server.Endpoint()+"?fresh=1", func(ctx context.Context, o odd) error {
		entry := func(queue string) []error {
			return []error{
				client.HSet(ctx, space+"e:"+o.name, "queue", queue, "kind", "permit", "units", o.text, "revision", o.text, "version", o.text,
					"since", o.number, "value", o.text, "session", o.name, "waits", o.text).Err(),
				client.ZAdd(ctx, space+"q:"+o.queue, goredis.Z{Score: float64(o.number), Member: o.name}).Err(),
				client.ZAdd(ctx, space+"queues", goredis.Z{Member: o.queue}).Err(),
			}
		}
		var errs []error
		switch o.place % 7 {
		case 0:
			errs = entry(o.queue)
		case 1: // the hash says another queue, which comes earlier
			errs = entry("/a" + o.text)
		case 2:
			errs = append(entry(o.queue), client.Set(ctx, space+"e:"+o.name, o.text, 0).Err())
		case 3:
			errs = append(entry(o.queue), client.Set(ctx, space+"q:"+o.queue, o.text, 0).Err())
		case 4:
			errs = append(entry(o.queue),
				client.HSet(ctx, space+"size:"+o.queue, "value", o.text, "version", o.number, "current", o.text, "held", o.text, "granted", o.text).Err())
		case 5: // of a session that has run out, and what it has was overwritten
			errs = append(entry(o.queue), client.ZAdd(ctx, space+"sessions", goredis.Z{Score: 1, Member: o.name}).Err())
			for i, key := range []string{"s:" + o.name, "ws:" + o.name, "w:" + o.name, "x:" + o.queue, "wu:" + o.queue, "size:" + o.queue} {
				if o.number>>i&1 == 0 {
					errs = append(errs, client.Set(ctx, space+key, o.text, 0).Err())
				}
			}
			errs = append(errs, client.SAdd(ctx, space+"s:"+o.name, o.name).Err())
		default: // of a session that has run out
			errs = append(entry(o.queue), client.ZAdd(ctx, space+"sessions", goredis.Z{Score: 1, Member: o.name}).Err(),
				client.SAdd(ctx, space+"s:"+o.name, o.name, o.text).Err(), client.SAdd(ctx, space+"ws:"+o.name, o.text).Err(),
				client.SAdd(ctx, space+"w:"+o.name, o.text, "", " ").Err())
		}
		return errors.Join(errs...)
	}, func(ctx context.Context) error {
		keys, err := client.Keys(ctx, space+"*").Result()
		for _, key := range keys {
			kept := false
			for _, own := range []string{"server", "sessions", "mark", "queues", "revision", "q:" + good, "x:" + good, "wu:" + good, "size:" + good} {
				kept = kept || strings.HasPrefix(key, space+own)
			}
			if strings.HasPrefix(key, space+"e:") && strings.HasPrefix(client.HGet(ctx, key, "queue").Val(), good) {
				kept = true
			}
			if members := client.SMembers(ctx, key).Val(); strings.HasPrefix(key, space+"s:") && len(members) > 0 &&
				strings.HasPrefix(client.HGet(ctx, space+"e:"+members[0], "queue").Val(), good) {
				kept = true
			}
			if !kept {
				err = errors.Join(err, client.Del(ctx, key).Err())
			}
		}
		for _, queue := range client.ZRange(ctx, space+"queues", 0, -1).Val() {
			if !strings.HasPrefix(queue, good) {
				err = errors.Join(err, client.ZRem(ctx, space+"queues", queue).Err())
			}
		}
		return errors.Join(err, client.ZRemRangeByScore(ctx, space+"sessions", "-inf", "1").Err())
	})
}

// fuzzTables is fuzzRows for a database whose columns have types. Its statements take the queue, the name, the text and
// the number.
func fuzzTables(f *testing.F, store string, db *sql.DB, statements [][]string) {
	f.Helper()
	variables := strings.HasPrefix(store, "mysql:")
	if variables {
		require.NoError(f, doAll(f.Context(), db, "CREATE TABLE farsync_odd (q TEXT CHARACTER SET utf8mb4, i TEXT CHARACTER SET utf8mb4, t TEXT CHARACTER SET utf8mb4, n BIGINT)"))
	}
	fuzzRows(f, store, func(ctx context.Context, o odd) error {
		arguments := []any{strings.ToValidUTF8(o.queue, "?"), strings.ToValidUTF8(o.name, "?"), strings.ToValidUTF8(o.text, "?"), o.number}
		if variables {
			if _, err := db.ExecContext(ctx, "INSERT INTO farsync_odd VALUES (?, ?, ?, ?)", arguments...); err != nil {
				return err
			}
		}
		for _, statement := range statements[int(o.place)%len(statements)] {
			var err error
			switch {
			case variables:
				_, err = db.ExecContext(ctx, statement)
			default:
				used := arguments[:0:0]
				for i, a := range arguments {
					if place := fmt.Sprintf("$%d", i+1); strings.Contains(statement, place) {
						used = append(used, a)
						statement = strings.ReplaceAll(statement, place, fmt.Sprintf("$%d", len(used)))
					}
				}
				_, err = db.ExecContext(ctx, statement, used...)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, func(ctx context.Context) error {
		err := doAll(ctx, db, "DELETE FROM farsync_entries WHERE queue NOT LIKE '/good%'", "DELETE FROM farsync_registers WHERE queue NOT LIKE '/good%'")
		if variables {
			err = errors.Join(err, doAll(ctx, db, "DELETE FROM farsync_odd"))
		}
		return err
	})
}

// opened returns a database.
func opened(t testing.TB, driver, source string) *sql.DB {
	db, err := sql.Open(driver, source)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func doAll(ctx context.Context, db *sql.DB, statements ...string) error {
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// fuzzRows has what is put into a store looked at. Put may be refused by the store, and then there is nothing to look
// at.
func fuzzRows(f *testing.F, store string, put func(context.Context, odd) error, clean func(context.Context) error) {
	f.Helper()
	for place := range uint8(7) {
		f.Add(place, "/odd", "row", "many", int64(-9e18))
	}
	f.Add(uint8(2), "/other", "permit-1-0000000001", "0 0", int64(9e18))
	f.Add(uint8(3), "/zzz\x1b[2J", "\x1b[2J\u202e", "", int64(4e18))
	s, closed := open(f, store)
	f.Cleanup(closed)
	f.Fuzz(func(t *testing.T, place uint8, queue, name, text string, number int64) {
		o := odd{place: place, queue: queue, name: name, text: text, number: number}
		for _, own := range []string{queue, name, text} {
			if strings.Contains(own, good) || len(own) > 1000 {
				t.Skip("it could be a good row")
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		defer func() { require.NoError(t, clean(context.WithoutCancel(ctx))) }()
		lease, err := farsync.NewMutex(s, good+"/lock").TryLock(ctx)
		require.NoError(t, err)
		units, err := farsync.NewSemaphore(s, good+"/units", 2).TryAcquire(ctx, 1)
		require.NoError(t, err)
		defer func() {
			require.NoError(t, units.Release())
			if err := lease.Release(); !t.Failed() {
				require.ErrorIs(t, err, farsync.ErrLost)
			}
		}()
		if put(ctx, o) != nil {
			t.Log("the store takes no such row")
		}
		looksAt(ctx, t, s, store, o, lease.Token())
	})
}

// looksAt has all that looks show what is good beside an odd row.
func looksAt(ctx context.Context, t *testing.T, s *farsync.Store, store string, o odd, token farsync.Token) {
	beside, err := farsync.NewMutex(s, good+"/beside").TryLock(ctx)
	require.NoError(t, err)
	require.NoError(t, beside.Release())
	shown := map[string]farsync.LockInfo{}
	for lock, err := range s.Survey(ctx, "") {
		require.NoError(t, err)
		require.NotContains(t, shown, lock.Path)
		shown[lock.Path] = lock
	}
	for _, path := range []string{good + "/lock", good + "/units"} {
		require.Len(t, shown[path].Participants, 1, path)
		require.True(t, shown[path].Participants[0].Held, path)
		require.NoError(t, shown[path].Err)
	}
	require.EqualValues(t, 2, shown[good+"/units"].Size)
	if recipe.CheckPath(o.queue) == nil {
		list, err := s.Participants(ctx, o.queue)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "it hangs")
		for _, p := range list {
			require.NotContains(t, p.String(), "\x1b")
		}
	}

	says := func(codes []int, arguments ...string) string {
		var out, errs bytes.Buffer
		code := (&app{stdout: &out, stderr: &errs, die: func() {}}).execute(append([]string{"--store", store}, arguments...))
		require.Contains(t, codes, code, "%q: %s", arguments, errs.String())
		require.NotContains(t, out.String()+errs.String(), "\x1b")
		return out.String()
	}
	fine, perhaps := []int{0}, []int{0, codeNothing}
	var who whoJSON
	text := says(fine, "who", "--json")
	require.NoError(t, json.Unmarshal([]byte(text), &who), text)
	for _, verb := range [][]string{{"who"}, {"who", "--tree"}, {"who", good + "/"}, {"who", good + "/lock"}} {
		require.Contains(t, says(fine, verb...), good+"/lock", verb)
	}
	var found doctorJSON
	text = says(perhaps, "doctor", "--json")
	require.NoError(t, json.Unmarshal([]byte(text), &found), text)
	for _, lock := range shown {
		if lock.Err != nil {
			require.Contains(t, text, "in the place of the size of semaphore "+lock.Path)
		}
	}

	var out, errs bytes.Buffer
	v := &view{app: &app{stdout: &out, stderr: &errs}, last: who.Locks, at: time.Now()}
	v.bound(v.last, v.at)
	require.NoError(t, v.show(nil))
	require.Contains(t, out.String(), good+"/lock holds")

	page := live.New(nil)
	page.Add("store", s)
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, "GET", "/snapshot", nil))
	require.NoError(t, page.Close())
	require.Contains(t, answer.Body.String(), `"path":"`+good+`/lock"`)
	require.NotContains(t, answer.Body.String(), `"error":"farsync`)

	says(fine, "break", "--token", fmt.Sprint(int64(token)), "--yes", "--delete", good+"/lock")
}

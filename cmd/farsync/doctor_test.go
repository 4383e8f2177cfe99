//go:build linux

package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/mysqlkind"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
)

// patient returns the URL of a store with a TTL that a machine which is busy with other tests keeps.
func patient(store string) string {
	if strings.Contains(store, "ttl=") {
		return store
	}
	if strings.Contains(store, "?") {
		return store + "&ttl=30s"
	}
	return store + "?ttl=30s"
}

// finds has doctor look, and requires that it finds that and nothing else.
func finds(t *testing.T, store string, words ...string) {
	t.Helper()
	p := start(t, patient(store), "doctor", "-q")
	require.Equal(t, codeNothing, p.code(t), "%s%s", p.out.String(), p.err.String())
	for line := range strings.Lines(p.out.String()) {
		require.Contains(t, line, "!!  ")
		if slow(line) {
			continue
		}
		found := false
		for _, w := range words {
			found = found || strings.Contains(line, w)
		}
		require.True(t, found, "%s", line)
	}
	for _, w := range words {
		require.Contains(t, p.out.String(), w)
	}
}

// healthy has doctor look, and requires that it finds nothing.
func healthy(t *testing.T, store string) {
	t.Helper()
	p := start(t, patient(store), "doctor")
	code := p.code(t)
	require.Equal(t, strings.Contains(p.out.String(), "!!  "), code == codeNothing, "%s%s", p.out.String(), p.err.String())
	for line := range strings.Lines(p.out.String()) {
		require.True(t, strings.HasPrefix(line, "ok  ") || slow(line), "%s", p.out.String())
	}
	for _, check := range []string{"session", "rights", "queues"} {
		require.Contains(t, p.out.String(), "ok  "+check+": ")
	}
	require.Contains(t, p.out.String(), "  speed: a free lock takes ")
}

// TestServices: on a service of any kind, exit codes are what they are on SQLite, and doctor finds nothing wrong beside holders and
// waiters.
func TestServices(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)()
			store := patient(s.direct)
			for _, arguments := range [][]string{
				{"run", "/d/x"}, {"run", "/d/x"}, {"run", "--limit", "2", "/d/s"}, {"run", "-s", "/d/rw"}, {"elect", "/d/l"},
			} {
				startAs(t, store, installed(t), append(arguments, "--", "sleep", "600")...)
			}
			until(t, "they hold and wait", func() bool {
				p := startAs(t, store, installed(t), "who", "--json", "/d/")
				p.code(t)
				return strings.Count(p.out.String(), `"holder"`) == 5
			})
			healthy(t, store)
			if name != "sqlite" { // which TestScripts is about
				scripts(t, "testdata/services", installed(t), func() string { return store })
			}
			doctorFindsWhatBlocks(t, s)
		})
	}
}

// doctorFindsWhatBlocks: two that wait for each other, and an entry that no session takes with it when its holder dies.
func doctorFindsWhatBlocks(t *testing.T, s *service) {
	t.Helper()
	l, err := location.Parse(patient(s.direct))
	require.NoError(t, err)
	store, closed, err := l.Open(t.Context(), farsync.Options{TTL: l.TTL})
	require.NoError(t, err)
	defer func() {
		_ = store.Close()
		_ = closed()
	}()
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	a, b := farsync.NewMutex(store, s.path+"/a"), farsync.NewMutex(store, s.path+"/b")
	holdsA, err := a.Lock(ctx)
	require.NoError(t, err)
	holdsB, err := b.Lock(ctx)
	require.NoError(t, err)
	wait := func(under *farsync.Lease, path string) {
		ctx, stop := under.Context(ctx)
		waiting.Go(func() {
			defer stop()
			_, _ = farsync.NewMutex(store, path).Lock(ctx)
		})
	}
	wait(holdsA, s.path+"/b")
	wait(holdsB, s.path+"/a")
	both := func(path string) bool {
		list, err := store.Participants(ctx, path)
		return err == nil && len(list) == 2
	}
	until(t, "each waits for the other", func() bool { return both(s.path+"/a") && both(s.path+"/b") })
	finds(t, s.direct, ": deadlock of 4, beginning with ")
	cancel()
	waiting.Wait()
	require.NoError(t, holdsA.Release())
	require.NoError(t, holdsB.Release())

	dead := start(t, patient(s.direct), "hold", "--while", strconv.Itoa(os.Getpid()), s.path+"/a")
	var list []farsync.Participant
	// What has waited before is removed in the background, and may still be in the queue.
	until(t, "it holds, and nothing waits", func() bool {
		list, err = store.Participants(t.Context(), s.path+"/a")
		return err == nil && len(list) == 1 && strings.Contains(dead.out.String(), s.path)
	})
	// Not stopped: a process may be stopped while it has a transaction, in which a file is locked for all. Until its session is over,
	// what it held stays.
	require.NoError(t, dead.Process.Kill())
	<-dead.done
	s.orphaned(t, list[0])
	finds(t, s.direct, " for ever", "delete it")
}

func TestDoctorFindsFaultsOfEtcd(t *testing.T) {
	t.Parallel()
	server := embedtest.Etcd(t)
	address := strings.TrimPrefix(server.Endpoint(), "http://")
	client := etcdClient(t, clientv3.Config{Endpoints: []string{server.Endpoint()}})
	lease, err := client.Grant(t.Context(), 600)
	require.NoError(t, err)
	put := func(key, value string, options ...clientv3.OpOption) {
		_, err := client.Put(t.Context(), key, value, options...)
		require.NoError(t, err)
	}
	remove := func() {
		_, err := client.Delete(t.Context(), "/x", clientv3.WithPrefix())
		require.NoError(t, err)
	}
	id := strings.Repeat("A", 26)

	put("/x/m-"+id, "one\n"+time.Now().UTC().Format(time.RFC3339Nano), clientv3.WithLease(lease.ID))
	put("/x/s1-"+id, "two\n"+time.Now().UTC().Format(time.RFC3339Nano), clientv3.WithLease(lease.ID))
	finds(t, "etcd://"+address, "/x: it is a mutex, and two uses it as a semaphore")
	remove()

	put("/x/m-"+id, "one\n2020-01-02T03:04:05Z", clientv3.WithLease(lease.ID))
	put("/x/m-B"+id[1:], "two\n2020-01-02T03:04:05Z", clientv3.WithLease(lease.ID))
	put("/x/m-C"+id[1:], "three\n"+time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano), clientv3.WithLease(lease.ID))
	finds(t, "etcd://"+address, "/x: one has been there for", "/x: two has waited for", "/x: three joins in")
	remove()

	put("/x/m-"+id, "")
	put("/x\x1b[31m/m-"+id, "")
	finds(t, "etcd://"+address, "/x/m-"+id+" ends with no session", `/x\x1b[31m/m-`+id+" ends with no session")
	remove()

	// A size that is none keeps all out, and nobody who waits there shows it.
	put("/x!size/units", "abc")
	finds(t, "etcd://"+address, `/x: `)
	remove()

	// A key of another program blocks where locks are, and is none of anybody's business elsewhere.
	put("/x/m-"+id, "one\n"+time.Now().UTC().Format(time.RFC3339Nano), clientv3.WithLease(lease.ID))
	put("/x/note", "")
	put("/y/note", "")
	finds(t, "etcd://"+address, `/x: key "/x/note" has no lease: it would block the queue for ever; delete it`)
	p := start(t, patient("etcd://"+address), "who", "/x")
	require.Zero(t, p.code(t), p.err.String())
	require.Regexp(t, `/x +key "/x/note" has no lease: .*\n +one holds .*\n +a holder without a name waits, 1st +foreign`, p.out.String())
	p = start(t, patient("etcd://"+address), "run", "-n", "/x", "--", "true")
	require.Equal(t, codeTaken, p.code(t), p.err.String())
	remove()

	finds(t, "etcd://"+older(t, address, "3.7.0", "3.4.9"), "this etcd can let an old leader revoke live leases")

	alarm := &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, Alarm: etcdserverpb.AlarmType_NOSPACE}
	status, err := client.Status(t.Context(), server.Endpoint())
	require.NoError(t, err)
	alarm.MemberID = status.Header.MemberId
	_, err = etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Alarm(t.Context(), alarm)
	require.NoError(t, err)
	finds(t, "etcd://"+address, "has the alarm NOSPACE", "database space exceeded")
	p = start(t, patient("etcd://"+address), "run", "-n", "/x", "--", "true")
	require.Equal(t, codeNoPerm, p.code(t), p.err.String())
	require.Contains(t, p.err.String(), "etcdctl alarm disarm")
	_, err = client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	require.NoError(t, err)
	healthy(t, "etcd://"+address)

	const password = "correct-horse"
	for _, name := range []string{"root", "me"} {
		_, err = client.UserAdd(t.Context(), name, password)
		require.NoError(t, err)
	}
	_, err = client.UserGrantRole(t.Context(), "root", "root")
	require.NoError(t, err)
	_, err = client.AuthEnable(t.Context())
	require.NoError(t, err)
	finds(t, "etcd://me:"+password+"@"+address, "rights: ", "queues: ")
}

func TestDoctorFindsFaultsOfMembers(t *testing.T) {
	suite.Long(t, suite.Command, "stops a member, and runs three of them")
	t.Parallel()
	cluster := embedtest.EtcdCluster(t, 3)
	var hosts []string
	for _, i := range []int{0, 1, 2} {
		hosts = append(hosts, strings.TrimPrefix(cluster.Member(i).Endpoint(), "http://"))
	}
	store := "etcd://" + strings.Join(hosts, ",")
	healthy(t, store)
	leader, err := cluster.Leader(t.Context())
	require.NoError(t, err)
	silent := (leader + 1) % 3
	late := dated(t, hosts[leader], time.Hour)
	p := start(t, patient("etcd://"+late+","+hosts[silent]), "doctor", "--json")
	require.Equal(t, codeNothing, p.code(t))
	require.Regexp(t, `that of `+late+` is (1h0m|59m5)\S+ behind this host's`, p.out.String())
	require.Regexp(t, `that of `+hosts[silent]+` is (1h0m|59m5)\S+ ahead of that of `+late, p.out.String())
	require.Contains(t, p.out.String(), `{"check":"clock","ok":true,"text":"that of `+hosts[silent]+` `)
	cluster.Member(silent).Pause()
	finds(t, store, hosts[silent]+" does not answer")
}

// TestLeadersAndStandbysMayBeOld: an election is to last, and who stands for it waits for as long.
func TestLeadersAndStandbysMayBeOld(t *testing.T) {
	now := time.Now()
	since := now.Add(-100 * 24 * time.Hour)
	ahead := now.Add(time.Hour)
	for kind, want := range map[farsync.Kind]int{farsync.KindExclusive: 2, farsync.KindCandidate: 0} {
		list := ailments(lockJSON{Path: "/x", Participants: []userJSON{
			{Holder: "one", Held: true, Joined: &since, Session: "1", kind: kind}, {Holder: "two", Joined: &since, Session: "2", kind: kind},
		}}, now)
		require.Len(t, list, want, "%v", list)
	}
	list := ailments(lockJSON{Path: "/x", Participants: []userJSON{{Holder: "one", Held: true, Joined: &ahead, Session: "1", kind: farsync.KindCandidate}}}, now)
	require.Len(t, list, 1)
}

// TestDoctorComparesTheClockOfZooKeepersLeader, which is in the nodes that it makes. No member says what time it is.
func TestDoctorComparesTheClockOfZooKeepersLeader(t *testing.T) {
	suite.Long(t, suite.Command, "sets the clock of a server")
	t.Parallel()
	server := embedtest.ZooKeeper(t, embedtest.Clock())
	store := "zk://" + server.Endpoint()
	p := start(t, patient(store), "doctor")
	p.code(t)
	require.Contains(t, p.out.String(), "ok  clock: "+server.Endpoint()+" does not say what time it is\n")
	require.Contains(t, p.out.String(), "ok  clock: that of ZooKeeper's leader ")
	require.NoError(t, server.StepClock(-time.Hour))
	finds(t, store, "clock: that of ZooKeeper's leader is ")
}

func TestDoctorFindsFaultsOfRedis(t *testing.T) {
	t.Parallel()
	finds(t, "redis://"+embedtest.Redis(t, "--maxmemory-policy", "allkeys-lru").Endpoint(), "maxmemory-policy allkeys-lru removes locks")
	if suite.More(t, suite.Command) { // sets the clock of a server
		server := embedtest.RedisWithClock(t)
		require.NoError(t, server.StepClock(-time.Hour))
		finds(t, "redis://"+server.Endpoint()+"?fresh=1", "clock: that of "+server.Endpoint()+" is ")
	}
}

func TestDoctorFindsATTLThatIsNotGranted(t *testing.T) {
	t.Parallel()
	server := embedtest.ZooKeeper(t, embedtest.Ticks(20*time.Second, 5)) // at least two of them
	finds(t, "zk://"+server.Endpoint()+"?ttl=30s", "a TTL of 30s was asked for, and the service grants 40s")
}

func TestDoctorFindsFaultsOfDatabases(t *testing.T) {
	t.Parallel()
	loose := embedtest.Postgres(t)
	finds(t, "postgres://postgres@"+loose.Endpoint()+"/postgres?migrate=1", "may lose what it has confirmed, and two may hold then, settings fsync = off")
	server := embedtest.Postgres(t, embedtest.Fsync())
	store := "postgres://postgres@" + server.Endpoint() + "/postgres"
	finds(t, store, "the tables of farsync are not there")
	healthy(t, store+"?migrate=1")
	proxy := embedtest.PgBouncer(t, server)
	address := proxy.Endpoint()
	finds(t, "postgres://postgres@"+address+"/postgres", "a proxy stands before the PostgreSQL server")
	p := start(t, patient("postgres://postgres@"+address+"/postgres"), "doctor")
	require.Equal(t, codeNothing, p.code(t))
	require.Contains(t, p.out.String(), "ok  snapshots: no transaction has been open for longer than 1m0s")
}

// TestDoctorNamesATransactionThatIsOpen, whatever it does there: from its first statement on the database keeps what it
// could see.
func TestDoctorNamesATransactionThatIsOpen(t *testing.T) {
	t.Parallel()
	postgres, server := embedtest.Postgres(t, embedtest.Setting("max_prepared_transactions = 1")), mysqlkind.Start(t)
	onPostgres := "postgres://postgres@" + postgres.Endpoint() + "/postgres"
	onMySQL := "mysql://root@" + server.Endpoint() + "/test"
	zone, err := sql.Open("mysql", server.DSN("test"))
	require.NoError(t, err)
	defer zone.Close()
	_, err = zone.ExecContext(t.Context(), "SET GLOBAL time_zone = '+05:00'") // ages are no matter of it
	require.NoError(t, err)
	for _, row := range []struct {
		name, store, driver, dsn string
		begin                    []string
		id, words, ends          string
	}{
		{
			"postgres, a dump", onPostgres, "pgx", postgres.URL() + "&application_name=a+dump",
			[]string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM pg_class"},
			"SELECT pg_backend_pid()", "process %s, user postgres, application 'a dump', idle in transaction",
			"SELECT pg_terminate_backend(%s)",
		},
		{
			"postgres, a forgotten session", onPostgres, "pgx", postgres.URL() + "&application_name=psql",
			[]string{"CREATE TABLE IF NOT EXISTS written (n int)", "BEGIN", "INSERT INTO written VALUES (1)"},
			"SELECT pg_backend_pid()", "process %s, user postgres, application 'psql', idle in transaction",
			"SELECT pg_terminate_backend(%s)",
		},
		{
			"postgres, a prepared transaction", onPostgres, "pgx", postgres.URL(),
			[]string{"BEGIN", "INSERT INTO written VALUES (1)", "PREPARE TRANSACTION 'it''s left'"},
			"SELECT ''", "prepared transaction 'it''s left' of postgres%s", "ROLLBACK PREPARED 'it''s left'%s",
		},
		{
			"mysql, a dump", onMySQL, "mysql", server.DSN("test"),
			[]string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"},
			"SELECT CONNECTION_ID()", "connection %s, user root, host ", "KILL %s",
		},
		{
			"mysql, a forgotten session", onMySQL, "mysql", server.DSN("test"),
			[]string{
				"CREATE TABLE written (n int) ENGINE = InnoDB", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "BEGIN",
				"INSERT INTO written VALUES (1)",
			},
			"SELECT CONNECTION_ID()", "connection %s, user root, host ", "KILL %s",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			db, err := sql.Open(row.driver, row.dsn)
			require.NoError(t, err)
			defer db.Close()
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			defer func() { _ = conn.Close() }() // which the server may have closed
			var id string
			require.NoError(t, conn.QueryRowContext(t.Context(), row.id).Scan(&id))
			require.Equal(t, []findingJSON{{"snapshots", true, "no transaction has been open for longer than 0s"}}, snapshots(t, row.store, 0))
			for _, statement := range row.begin {
				_, err := conn.ExecContext(t.Context(), statement)
				require.NoError(t, err)
			}
			var found []findingJSON
			require.Eventually(t, func() bool {
				found = snapshots(t, row.store, 0)
				return !found[0].OK
			}, soon, rarely)
			require.Len(t, found, 1)
			require.Equal(t, "snapshots", found[0].Check)
			require.Contains(t, found[0].Text, "a transaction has been open for ")
			require.Contains(t, found[0].Text, fmt.Sprintf(row.words, id))
			end := fmt.Sprintf(row.ends, id)
			require.True(t, strings.HasSuffix(found[0].Text, "End it if nothing needs it: "+end), found[0].Text)
			found = snapshots(t, row.store, time.Hour)
			require.Len(t, found, 1)
			require.True(t, found[0].OK, "it is not old enough: %s", found[0].Text)
			_, err = db.ExecContext(t.Context(), end)
			require.NoError(t, err)
			require.Eventually(t, func() bool { return snapshots(t, row.store, 0)[0].OK }, soon, rarely, "it has ended")
		})
	}
	t.Run("mysql, beside a statement with bytes that are no text", func(t *testing.T) {
		db, err := sql.Open("mysql", server.DSN("test"))
		require.NoError(t, err)
		defer db.Close()
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer func() { _ = conn.Close() }() // which the server has closed
		var id string
		require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
		_, err = conn.ExecContext(t.Context(), "START TRANSACTION WITH CONSISTENT SNAPSHOT")
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() { // until it is killed
			defer close(ended)
			_ = conn.QueryRowContext(t.Context(), "SELECT SLEEP(600), '\xff\xfe\x80'").Err()
		}()
		require.Eventually(t, func() bool {
			found := snapshots(t, onMySQL, 0)
			require.NotContains(t, found[0].Text, "not looked at")
			return strings.Contains(found[0].Text, "connection "+id+", user root, host 127.0.0.1") && strings.Contains(found[0].Text, ", query. ")
		}, soon, rarely, "it is found while it runs")
		require.NoError(t, mysql.Migrate(t.Context(), server.DSN("test")))
		for _, statement := range []string{"CREATE USER few WITH MAX_USER_CONNECTIONS 5", "GRANT SELECT ON test.* TO few"} {
			_, err = db.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
		l, err := location.Parse("mysql://few@" + server.Endpoint() + "/test")
		require.NoError(t, err)
		_, err = l.Connections(t.Context())
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), "KILL "+id)
		require.NoError(t, err)
		<-ended
	})
	t.Run("mysql, a session that sees what was committed", func(t *testing.T) {
		db, err := sql.Open("mysql", server.DSN("test"))
		require.NoError(t, err)
		defer db.Close()
		reads, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		require.NoError(t, err)
		var n int
		require.NoError(t, reads.QueryRowContext(t.Context(), "SELECT count(*) FROM written").Scan(&n))
		keeps, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		require.NoError(t, err)
		var id string
		require.NoError(t, keeps.QueryRowContext(t.Context(), "SELECT CONNECTION_ID() FROM (SELECT count(*) FROM written) all_of_them").Scan(&id))
		var found []findingJSON
		require.Eventually(t, func() bool { // a list that has the second has the first, if that is ever on it
			found = snapshots(t, onMySQL, 0)
			return slices.ContainsFunc(found, func(f findingJSON) bool { return strings.Contains(f.Text, "connection "+id+",") })
		}, soon, rarely)
		require.Len(t, found, 1)
		require.NoError(t, keeps.Rollback())
		require.NoError(t, reads.Rollback())
	})
}

// snapshots returns what doctor finds of transactions that are older than so long.
func snapshots(t *testing.T, store string, older time.Duration) []findingJSON {
	l, err := location.Parse(store)
	require.NoError(t, err)
	d := &doctor{location: l}
	d.snapshots(t.Context(), older)
	return d.findings
}

// rarely is how often a test asks MySQL which transactions are open: it makes its list anew only if nobody has asked for a tenth of a second.
const rarely = 200 * time.Millisecond

// TestDoctorOfAUserWhoMayNotSeeTransactions of others says so on MySQL, and finds nothing wrong. On PostgreSQL it finds them by their IDs.
func TestDoctorOfAUserWhoMayNotSeeTransactions(t *testing.T) {
	t.Parallel()
	t.Run("mysql", func(t *testing.T) {
		server := mysqlkind.Start(t)
		db, err := sql.Open("mysql", server.DSN("test"))
		require.NoError(t, err)
		defer db.Close()
		for _, statement := range []string{"CREATE USER guest", "GRANT SELECT ON test.* TO guest"} {
			_, err = db.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
		const words = "not looked at: the user needs the right PROCESS to see which transactions are open"
		require.Equal(t, []findingJSON{{"snapshots", true, words}}, snapshots(t, "mysql://guest@"+server.Endpoint()+"/test", 0))
	})
	t.Run("postgres", func(t *testing.T) {
		server := embedtest.Postgres(t)
		db, err := sql.Open("pgx", server.URL())
		require.NoError(t, err)
		defer db.Close()
		_, err = db.ExecContext(t.Context(), "CREATE ROLE guest LOGIN")
		require.NoError(t, err)
		open, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		require.NoError(t, err)
		var pid string
		require.NoError(t, open.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
		guest := "postgres://guest@" + server.Endpoint() + "/postgres"
		require.True(t, snapshots(t, guest, oldSnapshot)[0].OK, "it may be new")
		_, err = db.ExecContext(t.Context(), "DO $$ BEGIN FOR i IN 0..5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")
		require.NoError(t, err)
		found := snapshots(t, guest, oldSnapshot)
		require.Len(t, found, 1)
		require.Contains(t, found[0].Text, "a snapshot is thousands of transactions old: process "+pid+", user postgres")
		require.NoError(t, open.Rollback())
	})
}

// TestDoctorNamesRowsOfSessionsThatAreNotThere: no session will ever end them, as none ends a row without a session.
func TestDoctorNamesRowsOfSessionsThatAreNotThere(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T) (store string, do func(t *testing.T, statement, argument string)){
		"postgres": func(t *testing.T) (string, func(*testing.T, string, string)) {
			server := embedtest.Postgres(t, embedtest.Fsync())
			store := "postgres://postgres@" + server.Endpoint() + "/postgres"
			require.Equal(t, codeNothing, start(t, store+"?migrate=1", "who").code(t))
			return store, statements(t, "pgx", server.URL())
		},
		"mysql": func(t *testing.T) (string, func(*testing.T, string, string)) {
			server := embedtest.MariaDB(t, embedtest.Fsync())
			store := "mysql://root@" + server.Endpoint() + "/test"
			require.Equal(t, codeNothing, start(t, store+"?migrate=1", "who").code(t))
			do := statements(t, "mysql", server.DSN("test")+"?foreign_key_checks=0")
			return store, func(t *testing.T, statement, argument string) {
				do(t, strings.Replace(statement, "$1", "?", 1), argument)
			}
		},
		"sqlite": func(t *testing.T) (string, func(*testing.T, string, string)) {
			store := "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
			require.Zero(t, start(t, store, "run", "/first", "--", "true").code(t))
			return store, byHand(t, store)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, do := begin(t)
			do(t, "INSERT INTO farsync_entries (id, queue, revision) VALUES ($1, '/none', 1)", "row-1")
			do(t, "INSERT INTO farsync_entries (id, queue, revision, session) VALUES ($1, '/gone', 2, 'is not there')", "row-2")
			finds(t, store, "/none: row-1 belongs to no session, and blocks the queue for ever: delete it",
				"/gone: row-2 belongs to no session, and blocks the queue for ever: delete it")
			who := start(t, store, "who", "--json")
			require.Zero(t, who.code(t), who.err.String())
			require.NotContains(t, who.out.String(), "for ever", "a program sees that there is no field session")
			require.NotContains(t, who.out.String(), `"session"`)
			for _, arguments := range [][]string{{"who"}, {"who", "--tree"}} {
				who = start(t, store, arguments...)
				require.Zero(t, who.code(t), who.err.String())
				require.Regexp(t, `\n/gone: token \d+: row-2 belongs to no session, .*\n/none: token \d+: row-1 belongs to no session, .*\n$`, who.out.String())
			}
			remedy := only(t, `: delete it, by farsync (break .* /none)\n`, who.out.String())
			removed := start(t, store, append(strings.Fields(remedy), "--ask=0")...)
			require.Zero(t, removed.code(t), removed.err.String())
			require.Equal(t, codeNothing, start(t, store, "who", "/none").code(t), "it blocks the queue no longer")
		})
	}
}

// TestDoctorReckonsConnections of what a database server has room for.
func TestDoctorReckonsConnections(t *testing.T) {
	t.Parallel()
	of := func(used, most, stores int) location.Connections {
		return location.Connections{Used: used, Most: most, Bound: "max_connections", Stores: stores, Least: 2, Each: 7}
	}
	const takes = " (max_connections). A Store takes 2 at least, and 7 where there is room: the server has room for "
	for _, row := range []struct {
		is   location.Connections
		want findingJSON
	}{
		{of(14, 151, 5), findingJSON{"connections", true,
			"14 of 151 are in use" + takes + "75 Stores in all, or for 21 at 7 each. 4 are open, and there is room for 68 more"}},
		{of(150, 151, 5), findingJSON{"connections", false,
			"150 of 151 are in use" + takes + "75 Stores in all, or for 21 at 7 each. 4 are open, and there is no room for another. " +
				"Raise max_connections, or have other programs take less"}},
		{of(100, 151, 81), findingJSON{"connections", false,
			"100 of 151 are in use" + takes + "75 Stores in all, or for 21 at 7 each. 80 are open, which take 160: some of them wait until " +
				"others have gone. Raise max_connections, or have fewer Stores"}},
	} {
		require.Equal(t, row.want, reckon(row.is))
	}
}

// TestDoctorCountsConnections on each server: the bound with the least room left is the server's, or that of the user.
func TestDoctorCountsConnections(t *testing.T) {
	t.Parallel()
	postgres, server := embedtest.Postgres(t), mysqlkind.Start(t)
	for _, row := range []struct {
		driver, dsn, store, as string
		limit                  []string
		bound                  string
		most, ofUser           int
	}{
		{
			"pgx", postgres.URL(), "postgres://postgres@" + postgres.Endpoint() + "/postgres", "postgres://guest@" + postgres.Endpoint() + "/postgres",
			[]string{"CREATE ROLE guest LOGIN CONNECTION LIMIT 5 IN ROLE pg_read_all_data"}, "CONNECTION LIMIT of role guest", 100, 5,
		},
		{
			"mysql", server.DSN("test"), "mysql://root@" + server.Endpoint() + "/test", "mysql://guest@" + server.Endpoint() + "/test",
			[]string{"CREATE USER guest WITH MAX_USER_CONNECTIONS 5", "GRANT SELECT ON test.* TO guest"}, "max_user_connections", 151, 5,
		},
	} {
		t.Run(row.driver, func(t *testing.T) {
			p := start(t, row.store+"?migrate=1", "run", "/x", "--", "true")
			require.Zero(t, p.code(t), p.err.String())
			db, err := sql.Open(row.driver, row.dsn)
			require.NoError(t, err)
			defer db.Close()
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			defer conn.Close()
			looks := func(store string) location.Connections {
				l, err := location.Parse(store)
				require.NoError(t, err)
				c, err := l.Connections(t.Context())
				require.NoError(t, err)
				return c
			}
			c := looks(row.store)
			require.Equal(t, "max_connections", c.Bound)
			require.Equal(t, row.most, c.Most)
			require.GreaterOrEqual(t, c.Used, 2, "this one, and the one that looks")
			require.Zero(t, c.Stores)
			require.Equal(t, 2, c.Least)
			require.Greater(t, c.Each, 5)
			for _, statement := range row.limit {
				_, err = db.ExecContext(t.Context(), statement)
				require.NoError(t, err)
			}
			c = looks(row.as)
			require.Equal(t, row.bound, c.Bound)
			require.Equal(t, row.ofUser, c.Most)
			require.Equal(t, 1, c.Used)
		})
	}
}

// etcdClient returns a client that is closed at the end of the test.
func etcdClient(t *testing.T, config clientv3.Config) *clientv3.Client {
	config.Logger = zap.NewNop()
	client, err := clientv3.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// dated returns the address of a proxy behind which the clock of an etcd is behind by so much.
func dated(t *testing.T, address string, behind time.Duration) string {
	date := regexp.MustCompile(`Date: [^\r\n]*`)
	return relay(t, address, copyAll, func(to io.Writer, from io.Reader) {
		rewrite(to, from, func(b []byte) []byte {
			return date.ReplaceAllFunc(b, func([]byte) []byte { return []byte("Date: " + time.Now().Add(-behind).UTC().Format(http.TimeFormat)) })
		})
	})
}

// rewrite passes on what is the same length when it is rewritten, and comes in one piece.
func rewrite(to io.Writer, from io.Reader, by func([]byte) []byte) {
	for b := make([]byte, 64<<10); ; {
		n, err := from.Read(b)
		if _, failed := to.Write(by(b[:n])); err != nil || failed != nil {
			return
		}
	}
}

// older returns the address of a proxy behind which a server says that it has another version, which is as long.
func older(t *testing.T, address, version, instead string) string {
	return relay(t, address, copyAll, func(to io.Writer, from io.Reader) {
		rewrite(to, from, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(version), []byte(instead)) })
	})
}

//go:build linux

package main

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/mysqlkind"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
)

// A condition is a state of a service in which it locks nothing for a user.
type condition struct {
	name       string
	begin, end func(t *testing.T)
	code       int           // of each verb that the service lets do nothing
	says       string        // that verb, about the service
	removes    bool          // what is there may be removed, though nothing can be added
	looks      bool          // a Store whose session lives may look, so one may tell the state and another have nothing to tell
	within     time.Duration // a call of the library is to fail: at once if the service refuses, or when this has passed if it is silent
}

// asked are the verbs, with arguments, that a state must not mislead. Nobody holds /x; /held has a holder with the token TOKEN, and /lead a leader.
var asked = []string{
	"run -n -E 0 /x -- true", "run -w WAIT -E 0 /x -- true", "run -w WAIT -s -E 0 /rw -- true", "run -n -E 0 --limit 3 /p -- true", "hold -n -E 0 /x",
	"elect /e -- true", "resize --limit 3 /p 5", "ask -w WAIT /held", "break --token TOKEN --yes --ask 0 -w WAIT /held",
	"who", "who /held", "who --json /held", "leader /lead", "doctor",
}

// lies are what a state of a service must not be told as: that somebody holds a free lock, and that nobody holds.
var lies = []string{": locked", "is held", "still held", "waiting behind", "has passed before", "nobody", "no holder has", "no leader", `"locks":[]`}

// TestNoRefusalIsToldAsTheStateOfALock: where a service is full, or refuses a user, no call says that a lock is taken or free, and no verb exits
// as if it were.
func TestNoRefusalIsToldAsTheStateOfALock(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(t *testing.T) (store string, conditions []condition){
		"etcd": etcdRefuses, "zookeeper": zooKeeperRefuses, "redis": redisRefuses, "postgres": postgresRefuses, "mysql": mysqlRefuses, "sqlite": sqliteRefuses,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inEach(t, begin, condition{code: codeNoPerm, within: soon}, "--dial-timeout", "60")
		})
	}
}

// TestNoSilenceIsToldAsTheStateOfALock: the same where a service is stopped, or a replica that may be promoted.
func TestNoSilenceIsToldAsTheStateOfALock(t *testing.T) {
	suite.Long(t, suite.Command, "stops the servers, and makes replicas of them")
	t.Parallel()
	for name, begin := range map[string]func(t *testing.T) (store string, conditions []condition){
		"etcd": etcdIsSilent, "zookeeper": zooKeeperIsSilent, "redis": redisIsSilent, "postgres": postgresIsSilent, "mysql": mysqlIsSilent,
		"sqlite": sqliteIsSilent,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inEach(t, begin, condition{code: codeUnavailable, within: 3 * time.Second, says: "the service does not answer"}, "--dial-timeout", "5")
		})
	}
}

// inEach puts a service into each of its states, and requires that none is told as the state of a lock. A state has the code, the time and the
// words of usual, where it does not say its own.
func inEach(t *testing.T, begin func(t *testing.T) (string, []condition), usual condition, flags ...string) {
	store, conditions := begin(t)
	for _, c := range conditions {
		c.code, c.within, c.says = cmp.Or(c.code, usual.code), cmp.Or(c.within, usual.within), cmp.Or(c.says, usual.says)
		t.Run(c.name, func(t *testing.T) {
			holder, closed := open(t, store)
			defer closed()
			s, alsoClosed := open(t, store)
			defer alsoClosed()
			held, err := farsync.NewMutex(holder, "/held").Lock(t.Context())
			require.NoError(t, err)
			_, err = farsync.NewElection(holder, "/lead").Campaign(t.Context(), "leader-1")
			require.NoError(t, err)
			before := newOnlookers(t, store, flags)
			before.see(t)
			defer c.end(t) // before Close, which asks the service
			c.begin(t)
			onlookersAreNotMisled(t, store, c, before, flags)
			commandIsNotMisled(t, store, c, held.Token(), flags)
			callsAreNotMisled(t, s, c, held.Token())
		})
	}
}

// commandIsNotMisled requires that each verb says what state the service is in, and exits with the state's code. A verb that looks may also show
// who holds, for what is refused may be to write.
func commandIsNotMisled(t *testing.T, store string, c condition, held farsync.Token, flags []string) {
	processes := map[string]*process{}
	wait := "1"
	if c.within == soon { // a refusal comes before that, on any machine
		wait = "60"
	}
	for _, line := range asked {
		arguments := strings.Fields(strings.NewReplacer("TOKEN", fmt.Sprint(held), "WAIT", wait).Replace(line))
		processes[line] = startAs(t, store, installed(t), slices.Concat(flags, arguments)...)
	}
	for _, line := range asked {
		p := processes[line]
		code, said := p.code(t), p.out.String()+p.err.String()
		t.Logf("%s: %d, %s", line, code, strings.TrimSpace(said))
		switch shows, looks := map[string]string{
			"who": "observer", "who /held": "observer", "who --json /held": "observer", "leader /lead": "leader-1",
		}[line]; {
		case line == "doctor":
			require.Equal(t, codeNothing, code, said)
			require.Contains(t, said, "!!")
		case looks && code == 0 && strings.Contains(said, c.says): // a path is shown with why it may not be read
		case looks && code == 0:
			require.Contains(t, said, shows, line)
			continue
		default:
			require.Equal(t, c.code, code, "%s: %s", line, said)
		}
		require.Contains(t, said, c.says, line)
		for _, lie := range lies {
			require.NotContains(t, said, lie, line)
		}
	}
}

// onlookers are the verbs that go on looking: watch, and serve with a viewer of its page.
type onlookers struct {
	watch, serve *process
	page         string  // the URL
	stream       *buffer // what the viewer was sent
}

// newOnlookers starts watch and serve. Where the service is in a state in which they cannot be opened, they end by themselves.
func newOnlookers(t *testing.T, store string, flags []string) *onlookers {
	return &onlookers{
		watch: startAs(t, store, installed(t), slices.Concat(flags, []string{"watch", "--every", "0.2"})...),
		serve: startAs(t, store, installed(t), slices.Concat(flags, []string{"serve", "--listen", "127.0.0.1:0"})...),
	}
}

// view has a viewer read the page's stream, once serve listens. It reports whether serve listens, and has not ended.
func (o *onlookers) view(t *testing.T) bool {
	page := regexp.MustCompile(`http://[0-9.:]+/`)
	until(t, "serve listens, or ends", func() bool { return page.FindString(o.serve.err.String()) != "" || o.serve.ended() })
	if o.page = page.FindString(o.serve.err.String()); o.page == "" {
		return false
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.page+"events", http.NoBody)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	o.stream = &buffer{}
	read := make(chan struct{})
	go func() { // until the end of the stream, which the end of the test sees to
		defer close(read)
		_, _ = io.Copy(o.stream, answer.Body)
	}()
	t.Cleanup(func() {
		_ = answer.Body.Close()
		<-read
	})
	return true
}

// snapshot returns the JSON of the page.
func (o *onlookers) snapshot(t *testing.T) string {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.page+"snapshot", http.NoBody)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(text)
}

// see waits until both show who holds.
func (o *onlookers) see(t *testing.T) {
	require.True(t, o.view(t))
	until(t, "they show who holds", func() bool { return o.watched() && shows(o.stream.String()) })
}

// watched reports whether watch has shown who holds.
func (o *onlookers) watched() bool {
	return strings.Contains(o.watch.out.String(), "/held holds ") && strings.Contains(o.watch.out.String(), "/lead holds ")
}

// shows reports whether the JSON of the page shows who holds.
func shows(text string) bool {
	of := func(path string) bool {
		return regexp.MustCompile(`"path":"` + path + `","kind":"[a-z]+",("error":"([^"\\]|\\.)*",)?"held":1,`).MatchString(text)
	}
	return of("/held") && of("/lead")
}

// seenSince reports whether the page shows what it has seen of its service after a time, in milliseconds since 1970.
func seenSince(t *testing.T, text string, begun int64) bool {
	var shown struct {
		Stores []struct {
			Seen  int64  `json:"seen"`
			Error string `json:"error"`
		} `json:"stores"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &shown), text)
	return len(shown.Stores) == 1 && shown.Stores[0].Error == "" && shown.Stores[0].Seen > begun
}

// onlookersAreNotMisled requires the same of the verbs that go on looking, of those that have seen who holds before the state began, and of those
// that were started in it. The former go on showing it: what is not seen has not gone.
func onlookersAreNotMisled(t *testing.T, store string, c condition, before *onlookers, flags []string) {
	tells := func(text string) bool { return strings.Contains(text, c.says) }
	begun := time.Now().UnixMilli()
	now := newOnlookers(t, store, flags)
	until(t, "watch tells the state, or shows who holds", func() bool { return tells(now.watch.err.String()) || now.watched() || now.watch.ended() })
	if now.watch.ended() {
		require.Equal(t, c.code, now.watch.code(t), now.watch.err.String())
		require.Contains(t, now.watch.err.String(), c.says)
	}
	if now.view(t) {
		until(t, "the stream tells the state, or shows who holds", func() bool { return tells(now.stream.String()) || shows(now.stream.String()) })
		text := now.snapshot(t)
		require.True(t, tells(text) || shows(text), text)
	} else {
		require.Equal(t, c.code, now.serve.code(t), now.serve.err.String())
		require.Contains(t, now.serve.err.String(), c.says)
	}
	until(t, "the page tells the state, or has seen who holds in it", func() bool {
		text := before.snapshot(t)
		return tells(text) || seenSince(t, text, begun)
	})
	if tells(before.snapshot(t)) {
		until(t, "the stream tells the state", func() bool { return tells(before.stream.String()) })
		until(t, "watch tells the state, or may look", func() bool { return c.looks || tells(before.watch.err.String()) })
	}
	require.True(t, shows(before.snapshot(t)), before.snapshot(t))
	require.NotRegexp(t, `"gone":\[[^\]]*"/(held|lead)"`, before.stream.String())
	require.NotRegexp(t, "/(held|lead) gone ", before.watch.out.String())
	for _, o := range []*onlookers{before, now} {
		said := o.watch.out.String() + o.watch.err.String() + o.serve.err.String()
		t.Logf("watch: %s", strings.TrimSpace(o.watch.err.String()))
		for _, lie := range lies {
			require.NotContains(t, said, lie)
		}
	}
}

// callsAreNotMisled requires the same of the calls of a Store that was opened before the state began. Nobody holds what they ask for, but a
// goroutine of this process waits for /x, and so do calls beside them.
func callsAreNotMisled(t *testing.T, s *farsync.Store, c condition, held farsync.Token) {
	shared := farsync.NewMutex(s, "/x")
	waiting, give := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() { // until give
		_, err := shared.Lock(waiting)
		waited <- err
	}()
	locks := func(f func(context.Context) (*farsync.Lease, error)) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := f(ctx)
			return err
		}
	}
	calls := map[string]func(context.Context) error{
		"TryLock":  locks(farsync.NewMutex(s, "/x").TryLock),
		"TryRLock": locks(farsync.NewRWMutex(s, "/rw").TryRLock),
		"TryAcquire": locks(func(ctx context.Context) (*farsync.Lease, error) {
			return farsync.NewSemaphore(s, "/p", 3).TryAcquire(ctx, 1)
		}),
		"Lock": locks(farsync.NewMutex(s, "/x").Lock),
		"Campaign": locks(func(ctx context.Context) (*farsync.Lease, error) {
			return farsync.NewElection(s, "/e").Campaign(ctx, "")
		}),
		"ReentrantMutex.Lock":    locks(farsync.NewReentrantMutex(s, "/x").Lock),
		"ReentrantMutex.TryLock": locks(farsync.NewReentrantMutex(s, "/x").TryLock),
		"MultiMutex.Lock": func(ctx context.Context) error {
			_, err := farsync.NewMultiMutex(farsync.NewMutex(s, "/x"), farsync.NewMutex(s, "/y")).Lock(ctx)
			return err
		},
		"MultiMutex.TryLock": func(ctx context.Context) error {
			_, err := farsync.NewMultiMutex(farsync.NewMutex(s, "/x"), farsync.NewMutex(s, "/y")).TryLock(ctx)
			return err
		},
		"TryDo": func(ctx context.Context) error {
			ran, err := farsync.NewMutex(s, "/x").TryDo(ctx, 0, func(context.Context, *farsync.Lease) error { return nil })
			if !ran && err == nil {
				return farsync.ErrLocked // which is what that says
			}
			return err
		},
		"QuorumMutex.TryLock": func(ctx context.Context) error {
			_, err := farsync.NewQuorumMutex(farsync.NewMutex(s, "/x")).TryLock(ctx)
			return err
		},
		// beside a goroutine that shares the value, and waits for the service
		"TryLock of a line": locks(shared.TryLock),
		"Lock in a line":    locks(shared.Lock),
		"Resize":            func(ctx context.Context) error { return farsync.NewSemaphore(s, "/p", 3).Resize(ctx, 5) },
		"Break":             func(ctx context.Context) error { return s.Break(ctx, "/held", held, nil) },
		// They look, which the service may let them do. Then they see who is there.
		"Leader": func(ctx context.Context) error {
			leader, err := farsync.NewElection(s, "/lead").Leader(ctx)
			return cmp.Or(err, seen(leader.Value == "leader-1"))
		},
		"Participants": func(ctx context.Context) error {
			list, err := s.Participants(ctx, "/held")
			return cmp.Or(err, seen(len(list) == 1 && list[0].Held))
		},
	}
	type outcome struct {
		name string
		err  error
	}
	outcomes := make(chan outcome)
	for name, call := range calls {
		go func() { // all are received
			ctx, cancel := context.WithTimeout(t.Context(), c.within)
			defer cancel()
			outcomes <- outcome{name, call(ctx)}
		}()
	}
	for range calls {
		o := <-outcomes
		t.Logf("%s: %v", o.name, o.err)
		if errors.Is(o.err, errSeen) || c.removes && o.name == "Break" && o.err == nil {
			continue
		}
		require.Error(t, o.err, o.name)
		for _, state := range []error{farsync.ErrLocked, farsync.ErrReleased, farsync.ErrNoLeader, errUnseen} {
			require.NotErrorIs(t, o.err, state, o.name)
		}
		require.NotContains(t, o.err.Error(), "behind another", o.name)
		if c.within == soon {
			require.NotErrorIs(t, o.err, context.DeadlineExceeded, o.name)
			continue
		}
		require.ErrorIs(t, o.err, farsync.ErrUnavailable, o.name)
	}
	give()
	require.Error(t, <-waited)
}

// What a call that looks has seen.
var (
	errSeen   = errors.New("seen is who is there")
	errUnseen = errors.New("seen is nobody")
)

func seen(is bool) error {
	if is {
		return errSeen
	}
	return errUnseen
}

// TestRestartedServiceTellsOnlyWhatItKnows: after a restart a service either has kept who held, and says so, or says that it has not.
func TestRestartedServiceTellsOnlyWhatItKnows(t *testing.T) {
	suite.Long(t, suite.Command, "kills the servers")
	t.Parallel()
	for name, begin := range map[string]func(t *testing.T) (store string, restart func(context.Context) error, forgets bool){
		"etcd": func(t *testing.T) (string, func(context.Context) error, bool) {
			server := embedtest.Etcd(t)
			return etcdStore("", server), server.Restart, false
		},
		"zookeeper": func(t *testing.T) (string, func(context.Context) error, bool) {
			server := embedtest.ZooKeeper(t)
			return "zk://" + server.Endpoint(), server.Restart, false
		},
		"redis": func(t *testing.T) (string, func(context.Context) error, bool) {
			server := embedtest.Redis(t)
			return "redis://" + server.Endpoint() + "?fresh=1&ttl=60s", server.Restart, true
		},
		"postgres": func(t *testing.T) (string, func(context.Context) error, bool) {
			server := embedtest.Postgres(t)
			return "postgres://postgres@" + server.Endpoint() + "/postgres?migrate=1", server.Restart, false
		},
		"mysql": func(t *testing.T) (string, func(context.Context) error, bool) {
			server := mysqlkind.Start(t)
			require.NoError(t, mysql.Migrate(t.Context(), server.DSN("test")))
			return "mysql://root@" + server.Endpoint() + "/test", server.Restart, false
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, restart, forgets := begin(t)
			s, closed := open(t, store)
			defer closed()
			held, err := farsync.NewMutex(s, "/held").Lock(t.Context())
			require.NoError(t, err)
			_, err = farsync.NewElection(s, "/lead").Campaign(t.Context(), "leader-1")
			require.NoError(t, err)
			require.NoError(t, restart(t.Context()))
			for _, row := range []struct {
				line string
				code int
				says string // if it is known who held
			}{
				{"who /held", 0, "observer"},
				{"who", 0, "observer"},
				{"leader /lead", 0, "leader-1"},
				{"ask /held", 0, ""},
				{"run -n -E 99 /held -- true", 99, "locked"},
				{"run -n -E 99 /x -- true", 0, ""},
				{"break --token TOKEN --yes --ask 0 /held", 0, "was broken"},
			} {
				arguments := strings.Fields(strings.ReplaceAll(row.line, "TOKEN", fmt.Sprint(held.Token())))
				p := start(t, strings.TrimSuffix(store, "?migrate=1"), slices.Concat([]string{"--dial-timeout", "60"}, arguments)...)
				code, said := p.code(t), p.out.String()+p.err.String()
				t.Logf("%s: %d, %s", row.line, code, strings.TrimSpace(said))
				if forgets {
					row.code, row.says = codeUnavailable, "nothing is granted"
				}
				require.Equal(t, row.code, code, "%s: %s", row.line, said)
				require.Contains(t, said, row.says, row.line)
				require.NotContains(t, said, "nobody", row.line)
			}
		})
	}
}

// stopped is a server that is frozen.
func stopped(s server) condition {
	return condition{name: "stopped", begin: func(*testing.T) { s.Pause() }, end: func(*testing.T) { s.Resume() }}
}

// fullTables has a database answer each INSERT as it does where a table has no page with room, and the disk has none for another page: on
// PostgreSQL with 53100, on MariaDB with 1114, as TestFullDisk of internal/mysqltest sees on a disk that is full. To fill the pages of all tables
// would take long, and how much room is left in each would be luck; so a trigger gives the answer.
func fullTables(exec func(t *testing.T, lines ...string), create, drop string) condition {
	each := func(line string) func(t *testing.T) {
		return func(t *testing.T) {
			for _, table := range []string{"sessions", "queues", "entries", "registers"} {
				exec(t, strings.ReplaceAll(line, "TABLE", "farsync_"+table))
			}
		}
	}
	return condition{name: "full", removes: true, looks: true, begin: each(create), end: each(drop)}
}

// etcdStore returns the URL of a server, for a user with a password, or for none.
func etcdStore(user string, s server) string {
	return "etcd://" + user + strings.TrimPrefix(s.Endpoint(), "http://")
}

func etcdIsSilent(t *testing.T) (string, []condition) {
	server := embedtest.Etcd(t)
	return etcdStore("", server), []condition{stopped(server)}
}

func etcdRefuses(t *testing.T) (string, []condition) {
	server := embedtest.Etcd(t)
	config := clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop()}
	connect := func() *clientv3.Client {
		client, err := clientv3.New(config)
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	before := connect()
	for _, user := range []string{"root", "member"} {
		_, err := before.UserAdd(t.Context(), user, "pass")
		require.NoError(t, err)
		_, err = before.RoleAdd(t.Context(), user)
		require.NoError(t, err)
		_, err = before.UserGrantRole(t.Context(), user, user)
		require.NoError(t, err)
	}
	_, err := before.AuthEnable(t.Context())
	require.NoError(t, err)
	config.Username, config.Password = "root", "pass"
	admin := connect()
	grant := func(t *testing.T) {
		_, err := admin.RoleGrantPermission(t.Context(), "member", "/", "0", clientv3.PermissionType(clientv3.PermReadWrite))
		require.NoError(t, err)
	}
	grant(t)
	revoke := func(t *testing.T) {
		_, err := admin.RoleRevokePermission(t.Context(), "member", "/", "0")
		require.NoError(t, err)
	}
	full := func(t *testing.T) {
		status, err := admin.Status(t.Context(), server.Endpoint())
		require.NoError(t, err)
		_, err = etcdserverpb.NewMaintenanceClient(admin.ActiveConnection()).Alarm(t.Context(), &etcdserverpb.AlarmRequest{
			Action: etcdserverpb.AlarmRequest_ACTIVATE, Alarm: etcdserverpb.AlarmType_NOSPACE, MemberID: status.Header.MemberId,
		})
		require.NoError(t, err)
	}
	room := func(t *testing.T) {
		_, err := admin.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
		require.NoError(t, err)
	}
	return etcdStore("member:pass@", server), []condition{
		{name: "rights", begin: revoke, end: grant, says: "permission denied"}, {name: "full", looks: true, begin: full, end: room, says: "space exceeded"},
	}
}

func zooKeeperIsSilent(t *testing.T) (string, []condition) {
	server := embedtest.ZooKeeper(t)
	return "zk://" + server.Endpoint(), []condition{stopped(server)}
}

func zooKeeperRefuses(t *testing.T) (string, []condition) {
	server := embedtest.ZooKeeper(t)
	conn, _, err := zk.Connect([]string{server.Endpoint()}, time.Minute, zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	require.NoError(t, conn.AddAuth("digest", []byte("owner:pass")))
	// Nodes of queues belong to somebody else, and doctor's, below the root, may not be made.
	taken := func(t *testing.T) {
		for _, path := range []string{"/x", "/rw", "/p", "/e", "/held", "/lead"} {
			if _, err := conn.Create(path, nil, 0, zk.DigestACL(zk.PermAll, "owner", "pass")); !errors.Is(err, zk.ErrNodeExists) {
				require.NoError(t, err)
			}
			_, _ = conn.SetACL(path, zk.DigestACL(zk.PermAll, "owner", "pass"), -1)
		}
		_, err := conn.SetACL("/", append(zk.WorldACL(zk.PermRead), zk.DigestACL(zk.PermAll, "owner", "pass")...), -1)
		require.NoError(t, err)
	}
	given := func(t *testing.T) {
		for _, path := range []string{"/", "/x", "/rw", "/p", "/e", "/held", "/lead"} {
			_, err := conn.SetACL(path, zk.WorldACL(zk.PermAll), -1)
			require.NoError(t, err)
		}
	}
	return "zk://" + server.Endpoint(), []condition{{name: "rights", begin: taken, end: given, says: "an ACL forbids it"}}
}

// redisStore returns the URL of a server for a user, what changes the server, and what grants the user its rights.
func redisStore(t *testing.T, server server) (store string, do func(t *testing.T, args ...any), grant func(t *testing.T)) {
	admin := goredis.NewClient(&goredis.Options{Addr: server.Endpoint()})
	t.Cleanup(func() { _ = admin.Close() })
	do = func(t *testing.T, args ...any) { require.NoError(t, admin.Do(t.Context(), args...).Err()) }
	grant = func(t *testing.T) {
		do(t, "ACL", "SETUSER", "member", "on", ">pass", "~farsync:{farsync}:*", "&farsync:{farsync}:*", "+@all")
	}
	grant(t)
	return "redis://member:pass@" + server.Endpoint() + "?fresh=1", do, grant
}

func redisRefuses(t *testing.T) (string, []condition) {
	store, do, grant := redisStore(t, embedtest.Redis(t))
	return store, []condition{
		{name: "rights", begin: func(t *testing.T) { do(t, "ACL", "SETUSER", "member", "resetkeys") }, end: grant, says: "NOPERM"},
		{
			name: "full", looks: true, says: "OOM",
			begin: func(t *testing.T) { do(t, "CONFIG", "SET", "maxmemory", "1") }, end: func(t *testing.T) { do(t, "CONFIG", "SET", "maxmemory", "0") },
		},
	}
}

func redisIsSilent(t *testing.T) (string, []condition) {
	server, other := embedtest.Redis(t), embedtest.Redis(t)
	store, do, _ := redisStore(t, server)
	host, port, _ := strings.Cut(other.Endpoint(), ":")
	return store, []condition{
		stopped(server),
		{
			name: "replica", code: codeNoPerm, says: "the server is a replica", // of one address: an Open finds no master
			begin: func(t *testing.T) { do(t, "REPLICAOF", host, port) }, end: func(t *testing.T) { do(t, "REPLICAOF", "NO", "ONE") },
		},
	}
}

// executing returns what executes statements in a database.
func executing(t *testing.T, driver, source string) func(t *testing.T, lines ...string) {
	db, err := sql.Open(driver, source)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return func(t *testing.T, lines ...string) {
		for _, line := range lines {
			_, err := db.ExecContext(t.Context(), line)
			require.NoError(t, err, line)
		}
	}
}

// postgresStore returns the URL of a server for a user, what changes the server, and what grants the user its rights.
func postgresStore(t *testing.T, server *embedtest.PostgresServer) (store string, exec func(t *testing.T, lines ...string), rights func(what, preposition string) func(t *testing.T)) {
	exec = executing(t, "pgx", server.URL())
	require.Equal(t, codeNothing, start(t, "postgres://postgres@"+server.Endpoint()+"/postgres?migrate=1", "who").code(t))
	rights = func(what, preposition string) func(t *testing.T) {
		return func(t *testing.T) {
			exec(t, what+" SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public "+preposition+" member")
		}
	}
	exec(t, "CREATE ROLE member LOGIN")
	rights("GRANT", "TO")(t)
	return "postgres://member@" + server.Endpoint() + "/postgres", exec, rights
}

func postgresRefuses(t *testing.T) (string, []condition) {
	store, _, rights := postgresStore(t, embedtest.Postgres(t))
	return store, []condition{{name: "rights", begin: rights("REVOKE", "FROM"), end: rights("GRANT", "TO"), says: "permission denied"}}
}

func postgresIsSilent(t *testing.T) (string, []condition) {
	server := embedtest.Postgres(t)
	store, exec, _ := postgresStore(t, server)
	db, err := sql.Open("pgx", server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxIdleConns(-1) // each question has a connection of its own, which has the settings of when it was made
	readOnly := func(value string) func(t *testing.T) {
		return func(t *testing.T) {
			exec(t, "ALTER SYSTEM SET default_transaction_read_only = "+value, "SELECT pg_reload_conf()")
			until(t, "the server has read that", func() bool {
				var now string
				require.NoError(t, db.QueryRowContext(t.Context(), "SHOW default_transaction_read_only").Scan(&now))
				return now == value
			})
			exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'member'")
		}
	}
	exec(t, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE 'could not extend file "base/5/16384": No space left on device' USING ERRCODE = 'disk_full', HINT = 'Check free disk space.';
	END $$`)
	full := fullTables(exec, "CREATE TRIGGER full_disk BEFORE INSERT ON TABLE EXECUTE FUNCTION full_disk()", "DROP TRIGGER full_disk ON TABLE")
	full.says = "No space left on device"
	return store, []condition{
		stopped(server), {name: "read-only", begin: readOnly("on"), end: readOnly("off"), says: "the server is read-only, as a replica is"}, full,
	}
}

// mysqlStore returns the URL of a server for a user, what changes the server, and what grants the user its rights.
func mysqlStore(t *testing.T, server mysqlkind.Server) (store string, exec func(t *testing.T, lines ...string), rights func(what, preposition string) func(t *testing.T)) {
	exec = executing(t, "mysql", server.DSN("test")) // in which everybody has all rights
	const user = "'member'@'%'"
	exec(t, "CREATE DATABASE locks", "CREATE USER "+user, "GRANT EXECUTE ON locks.* TO "+user)
	require.NoError(t, mysql.Migrate(t.Context(), server.DSN("locks")))
	rights = func(what, preposition string) func(t *testing.T) {
		return func(t *testing.T) {
			for _, table := range []string{"sessions", "queues", "entries", "registers"} {
				exec(t, what+" SELECT, INSERT, UPDATE, DELETE ON locks.farsync_"+table+" "+preposition+" "+user)
			}
		}
	}
	rights("GRANT", "TO")(t)
	return "mysql://member@" + server.Endpoint() + "/locks", exec, rights
}

func mysqlRefuses(t *testing.T) (string, []condition) {
	store, _, rights := mysqlStore(t, mysqlkind.Start(t))
	return store, []condition{{name: "rights", begin: rights("REVOKE", "FROM"), end: rights("GRANT", "TO"), says: "command denied"}}
}

func mysqlIsSilent(t *testing.T) (string, []condition) {
	server := mysqlkind.Start(t)
	store, exec, _ := mysqlStore(t, server)
	readOnly := func(value string) func(t *testing.T) {
		return func(t *testing.T) { exec(t, "SET GLOBAL read_only = "+value) }
	}
	full := fullTables(exec, `CREATE TRIGGER locks.full_TABLE BEFORE INSERT ON locks.TABLE FOR EACH ROW
		SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = "The table 'TABLE' is full"`, "DROP TRIGGER locks.full_TABLE")
	full.says = "is full"
	return store, []condition{
		stopped(server), {name: "read-only", begin: readOnly("1"), end: readOnly("0"), says: "the server is read-only, as a replica is"}, full,
	}
}

// sqliteIsSilent: another program keeps a transaction open that writes.
func sqliteIsSilent(t *testing.T) (string, []condition) {
	s := onSQLite(t)()
	return s.store, []condition{{name: "stopped", begin: s.freeze, end: func(*testing.T) { s.thaw() }}}
}

func sqliteRefuses(t *testing.T) (string, []condition) {
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=8m", "none", dir).CombinedOutput(); err != nil {
		suite.NotHere(t, "the right to mount, for a small disk: "+strings.TrimSpace(string(out)))
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	file, filler := filepath.Join(dir, "locks.db"), filepath.Join(dir, "filler")
	full := func(t *testing.T) {
		f, err := os.Create(filler)
		require.NoError(t, err)
		for size := 1 << 20; size > 0; {
			if _, err := f.Write(make([]byte, size)); err != nil {
				size /= 2
			}
		}
		require.NoError(t, f.Close())
	}
	room := func(t *testing.T) { require.NoError(t, os.Remove(filler)) }
	return "sqlite:" + (&url.URL{Path: file}).EscapedPath() + "?ttl=60s", []condition{{name: "full", looks: true, begin: full, end: room, says: "the disk is full"}}
}

// TestServiceThatAFullDiskEndsIsToldAsSilent: a server that can write nothing more ends by itself, or answers nothing more, as MariaDB. What was
// asked of it last may have been done.
func TestServiceThatAFullDiskEndsIsToldAsSilent(t *testing.T) {
	suite.Long(t, suite.Command, "has servers end by themselves")
	t.Parallel()
	type fillable interface {
		server
		FillDisk() error
		Restart(ctx context.Context) error
	}
	for name, begin := range map[string]func(t *testing.T) (store string, server fillable){
		"etcd": func(t *testing.T) (string, fillable) {
			server := embedtest.Etcd(t)
			return etcdStore("", server), server
		},
		"zookeeper": func(t *testing.T) (string, fillable) {
			server := embedtest.ZooKeeper(t)
			return "zk://" + server.Endpoint(), server
		},
		"redis": func(t *testing.T) (string, fillable) {
			server := embedtest.Redis(t)
			return "redis://" + server.Endpoint() + "?fresh=1", server
		},
		"postgres": func(t *testing.T) (string, fillable) {
			server := embedtest.Postgres(t)
			return "postgres://postgres@" + server.Endpoint() + "/postgres?migrate=1", server
		},
		"mysql": func(t *testing.T) (string, fillable) {
			server := mysqlkind.Start(t)
			return "mysql://root@" + server.Endpoint() + "/test?migrate=1", server
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			full := func(t *testing.T) (string, []condition) {
				store, server := begin(t)
				writer, closed := open(t, store)
				t.Cleanup(closed)
				return store, []condition{{
					name: "full", looks: true,
					begin: func(t *testing.T) {
						require.NoError(t, server.FillDisk())
						ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
						defer cancel()
						_, err := farsync.NewMutex(writer, "/written").Lock(ctx)
						require.ErrorIs(t, err, farsync.ErrUnavailable)
					},
					end: func(t *testing.T) { require.NoError(t, server.Restart(t.Context())) },
				}}
			}
			inEach(t, full, condition{code: codeUnavailable, within: 3 * time.Second, says: "the service does not answer"}, "--dial-timeout", "5")
		})
	}
}

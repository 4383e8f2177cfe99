package location

import (
	"bytes"
	"cmp"
	"context"
	cryptotls "crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	goredis "github.com/redis/go-redis/v9"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A Member is one of the servers that a Location names, as it was found.
type Member struct {
	Host string
	// Version is what the server says it is, and more about it where there is more. Empty if it does not say.
	Version string
	// Ahead is how far its clock is ahead of this host's, give or take Doubt, if Clock is true: where the server says what time it is.
	Ahead, Doubt time.Duration
	Clock        bool
	// Wrong is what is wrong with it.
	Wrong []error
}

// Members asks every server by itself whether it serves, as a Store does not: it goes on with those that do. Each has a third of
// DialTimeout to answer. A file has no servers. The error is ErrConfig.
func (l *Location) Members(ctx context.Context) ([]Member, error) {
	password, config, err := l.secrets()
	if err != nil {
		return nil, err
	}
	list := make([]Member, len(l.Hosts))
	var asking sync.WaitGroup
	for i, host := range l.Hosts {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, cmp.Or(l.DialTimeout, reaching)/3)
			defer cancel()
			list[i] = l.member(ctx, host, password, config)
		})
	}
	asking.Wait()
	return list, nil
}

func (l *Location) member(ctx context.Context, host, password string, config *cryptotls.Config) Member {
	m := Member{Host: host}
	var err error
	switch {
	case l.Scheme == "etcd":
		err = m.askEtcd(ctx, l, password, config)
	case l.Scheme == "zk" && config == nil: // the port for TLS knows no such questions
		err = m.askZooKeeper(ctx)
	case l.Scheme == "redis":
		err = m.askRedis(ctx, l, password, config)
	default:
		if err = m.dial(ctx); err == nil {
			m.askDatabase(ctx, l, password, config)
		}
	}
	if err != nil {
		m.Wrong = append(m.Wrong, fmt.Errorf("does not answer: %w", err))
	}
	return m
}

// dial only connects.
func (m *Member) dial(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.Host)
	if err != nil {
		return err
	}
	return conn.Close()
}

// quotaNearlyUsed is the part of its quota from which a database of etcd is nearly full, in percent.
const quotaNearlyUsed = 80

func (m *Member) askEtcd(ctx context.Context, l *Location, password string, config *cryptotls.Config) error {
	alone := *l
	alone.Hosts = []string{m.Host}
	client, closed, err := alone.etcdClient(ctx, password, config)
	if err != nil {
		return err
	}
	defer func() { _ = closed() }()
	status, err := client.Status(ctx, m.Host)
	if err != nil {
		return err
	}
	m.Version = "etcd " + status.Version
	if status.Leader == 0 {
		m.Wrong = append(m.Wrong, errors.New("has no leader: most members are away"))
	}
	if quota := status.DbSizeQuota; quota > 0 && status.DbSizeInUse > quota/100*quotaNearlyUsed {
		m.Wrong = append(m.Wrong, fmt.Errorf("uses %d of the %d bytes of its quota: when they are used up, nothing can be locked", status.DbSizeInUse, quota))
	}
	alarms, err := client.AlarmList(ctx) // needs no right
	if err != nil {
		return err
	}
	for _, alarm := range alarms.Alarms {
		if alarm.MemberID == status.Header.MemberId && alarm.Alarm != etcdserverpb.AlarmType_NONE {
			m.Wrong = append(m.Wrong, fmt.Errorf("has the alarm %v: nothing can be locked. Compact, defragment, then etcdctl alarm disarm", alarm.Alarm))
		}
	}
	return nil
}

// askZooKeeper asks srvr, as operators do. A server that may not answer that has answered.
func (m *Member) askZooKeeper(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	until, _ := ctx.Deadline()
	if err := conn.SetDeadline(until); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 64<<10))
	if len(answer) == 0 {
		return cmp.Or(err, io.ErrUnexpectedEOF)
	}
	version := regexp.MustCompile(`(?m)^Zookeeper version: ([^-,]+)`).FindSubmatch(answer)
	mode := regexp.MustCompile(`(?m)^Mode: (\w+)`).FindSubmatch(answer)
	switch {
	case version != nil && mode != nil:
		m.Version = fmt.Sprintf("ZooKeeper %s, %s", version[1], mode[1])
	case bytes.Contains(answer, []byte("not currently serving requests")):
		m.Wrong = append(m.Wrong, errors.New("does not serve: it has no leader"))
	}
	return nil
}

func (m *Member) askRedis(ctx context.Context, l *Location, password string, config *cryptotls.Config) error {
	quiet()
	options := &goredis.Options{Addr: m.Host, Username: l.User, Password: password, TLSConfig: config, MaxRetries: -1}
	if l.Master != "" { // it is a Sentinel, which has a password of its own
		options.Username, options.Password = "", ""
	}
	client := goredis.NewClient(options)
	defer func() { _ = client.Close() }()
	err := m.compare(func() (time.Time, error) { return client.Time(ctx).Result() })
	if _, refused := errors.AsType[goredis.Error](err); refused { // which is an answer, too
		return nil
	}
	return err
}

// askDatabase asks for the time alone. Whatever else is wrong, Open finds.
func (m *Member) askDatabase(ctx context.Context, l *Location, password string, config *cryptotls.Config) {
	var db *sql.DB
	statement := ""
	switch l.Scheme {
	case "postgres":
		to, err := l.pool(password, config)
		if err != nil {
			return
		}
		db, statement = stdlib.OpenDB(*to.ConnConfig), "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
	case "mysql":
		dsn, err := l.dsn(password, config)
		if err != nil {
			return
		}
		if db, err = sql.Open("mysql", dsn); err != nil {
			return
		}
		statement = "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)"
	default:
		return
	}
	defer db.Close()
	if db.PingContext(ctx) == nil { // so that the time to connect does not count
		_ = m.compare(func() (time.Time, error) {
			var at int64
			err := db.QueryRowContext(ctx, statement).Scan(&at)
			return time.UnixMicro(at), err
		})
	}
}

// compare notes how far the clock of the server is ahead, by the middle of the time that it takes to ask.
func (m *Member) compare(ask func() (time.Time, error)) error {
	sent := time.Now()
	at, err := ask()
	if err != nil {
		return err
	}
	m.Doubt = time.Since(sent) / 2
	m.Ahead, m.Clock = at.Sub(sent)-m.Doubt, true
	return nil
}

// entryKey are the last segments of the keys of farsync on etcd.
var entryKey = regexp.MustCompile(`/(m|w|r|c|s[1-9][0-9]*)-[2-7A-Z]{26}$`)

// Strays returns what lies in the queues below a prefix and ends with no session, on etcd: keys without a lease. It blocks the
// queue for ever, and is no participant. On other stores it is one, or refused. Keys that are known to have a lease are left out, and no
// value of other programs is read.
func (l *Location) Strays(ctx context.Context, prefix string, known map[string]bool) ([]string, error) {
	if l.Scheme != "etcd" {
		return nil, nil
	}
	password, config, err := l.secrets()
	if err != nil {
		return nil, err
	}
	client, closed, err := l.etcdClient(ctx, password, config)
	if err != nil {
		return nil, err
	}
	defer func() { _ = closed() }()
	var strays []string
	end := clientv3.GetPrefixRangeEnd(prefix)
	for from, more := prefix, true; more; {
		page, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(1000))
		if err != nil {
			return nil, err
		}
		for _, kv := range page.Kvs {
			key := string(kv.Key)
			from = key + "\x00"
			if known[key] || !entryKey.MatchString(key) {
				continue
			}
			// An answer with keys alone does not tell their leases.
			whole, err := client.Get(ctx, key)
			if err != nil {
				return nil, err
			}
			if len(whole.Kvs) == 1 && whole.Kvs[0].Lease == 0 {
				strays = append(strays, key)
			}
		}
		more = page.More
	}
	return strays, nil
}

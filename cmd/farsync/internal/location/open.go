package location

import (
	"cmp"
	"context"
	cryptotls "crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync"
	"time"

	mysqlclient "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	grpccredentials "google.golang.org/grpc/credentials"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/mysql"
	"github.com/farsync/farsync/postgres"
	"github.com/farsync/farsync/redis"
	"github.com/farsync/farsync/sqlite"
	"github.com/farsync/farsync/zk"
)

// ErrConfig means that a file that the Location names cannot be used. The text of an error that wraps it says which.
var ErrConfig = errors.New("a file that the URL of the store names cannot be used")

// A configError is ErrConfig in words of its own.
type configError struct{ error }

func (e configError) Is(target error) bool { return target == ErrConfig }

func (e configError) Unwrap() error { return e.error }

// unusable returns the ErrConfig for an option of the URL.
func (l *Location) unusable(option string, err error) error {
	return configError{fmt.Errorf("%s: option %s: %w", l.Scheme, option, err)}
}

// reaching is how long Open tries to reach a service where the Location does not say. A machine with more to do than it
// has processors takes long to do what a client does first.
const reaching = 30 * time.Second

// quiet has go-redis log nothing. It keeps that in a variable of the whole process, which it does not guard.
var quiet = sync.OnceFunc(logging.Disable)

// Patience is how long Open tries to reach the service.
func (l *Location) Patience() time.Duration { return cmp.Or(l.DialTimeout, reaching) }

// Open opens the Store. Close the Store first, then call closed, which is never nil. ctx governs Open alone, which
// tries for as long as DialTimeout at most. The TTL of the Location counts if options have none. It returns the errors
// of the Open of the store's package, and ErrConfig.
//
// On SQLite the locks of a process that has died stay until its session runs out. Otherwise the next holder would be in
// while what the process had started is still being killed.
func (l *Location) Open(ctx context.Context, options farsync.Options) (store *farsync.Store, closed func() error, err error) {
	closed = func() error { return nil }
	if options.TTL == 0 {
		options.TTL = l.TTL
	}
	ctx, cancel := context.WithTimeout(ctx, l.Patience())
	defer cancel()
	if l.Scheme == "sqlite" {
		if err := l.checkFile(); err != nil {
			return nil, closed, err
		}
		store, err = sqlite.Open(ctx, l.File, &sqlite.Options{Options: options, Sync: l.Sync, Linger: true})
		return store, closed, err
	}
	from, err := l.credentials(options.Logger)
	if err != nil {
		return nil, closed, err
	}
	switch l.Scheme {
	case "etcd":
		return l.openEtcd(ctx, options, from)
	case "zk":
		store, err = l.openZooKeeper(ctx, options, from)
	case "mysql":
		store, err = l.openMySQL(ctx, options, from)
	case "postgres":
		store, err = l.openPostgres(ctx, options, from)
	default:
		store, err = l.openRedis(ctx, options, from)
	}
	return store, closed, err
}

func (l *Location) openZooKeeper(ctx context.Context, options farsync.Options, from *credentials) (*farsync.Store, error) {
	password, config := from.last()
	o := &zk.Options{Options: options, Namespace: l.Namespace, TLS: config, PlaintextDigest: !l.TLS} // check has refused what is not meant
	if l.User != "" {
		o.Digest = &zk.Digest{User: l.User, Password: password}
	}
	o.BeforeConnect = func(_ context.Context, o *zk.Options) error {
		password, config := from.now()
		if o.TLS = config; o.Digest != nil {
			o.Digest.Password = password
		}
		return nil
	}
	return zk.Open(ctx, l.Hosts, o)
}

func (l *Location) openRedis(ctx context.Context, options farsync.Options, from *credentials) (*farsync.Store, error) {
	quiet() // the Store says what matters
	to := &goredis.UniversalOptions{
		Addrs: l.Hosts, DB: l.Database, MasterName: l.Master,
		CredentialsProviderContext: func(context.Context) (user, password string, err error) {
			password, _ = from.now()
			return l.User, password, nil
		},
	}
	if l.TLS {
		to.Dialer = from.dial
	}
	return redis.Open(ctx, to, &redis.Options{Options: options, Namespace: l.Namespace, Replicas: l.Replicas, Fresh: l.Fresh})
}

func (l *Location) openMySQL(ctx context.Context, options farsync.Options, from *credentials) (*farsync.Store, error) {
	password, config := from.last()
	dsn, err := l.dsn(password, config)
	if err != nil {
		return nil, err
	}
	if l.Migrate {
		if err := mysql.Migrate(ctx, dsn); err != nil {
			return nil, err
		}
	}
	return mysql.Open(ctx, dsn, &mysql.Options{Options: options, Connections: l.Most, BeforeConnect: func(_ context.Context, c *mysqlclient.Config) error {
		password, config := from.now()
		if c.Passwd = password; config != nil {
			config.ServerName, _, _ = net.SplitHostPort(l.Hosts[0])
			c.TLS = config
		}
		return nil
	}})
}

// dsn returns what the client of MySQL connects with. It knows the settings of TLS by a name.
func (l *Location) dsn(password string, config *cryptotls.Config) (string, error) {
	to := mysqlclient.NewConfig()
	to.Net, to.Addr, to.User, to.Passwd, to.DBName = "tcp", l.Hosts[0], l.User, password, l.Schema
	if config != nil {
		to.TLSConfig = "farsync"
		if err := mysqlclient.RegisterTLSConfig(to.TLSConfig, config); err != nil {
			return "", l.unusable("tls", err)
		}
	}
	return to.FormatDSN(), nil
}

func (l *Location) openEtcd(ctx context.Context, options farsync.Options, from *credentials) (*farsync.Store, func() error, error) {
	client, closed, err := l.etcdClient(ctx, from)
	if err != nil {
		return nil, closed, fmt.Errorf("open etcd: %w", err)
	}
	store, err := etcd.Open(ctx, client, &etcd.Options{Options: options})
	if err != nil {
		return nil, func() error { return nil }, errors.Join(err, closed())
	}
	return store, closed, nil
}

// etcdClient returns a client, and what closes it, which is never nil.
func (l *Location) etcdClient(ctx context.Context, from *credentials) (*clientv3.Client, func() error, error) {
	password, config := from.last()
	dials := []grpc.DialOption{grpc.WithNoProxy()} // HTTPS_PROXY is not in the URL, and would be sent the password
	endpoints := make([]string, len(l.Hosts))
	for i, host := range l.Hosts {
		endpoints[i] = "http://" + host
		if config != nil {
			endpoints[i] = "https://" + host
		}
	}
	if config != nil {
		dials = append(dials, grpc.WithTransportCredentials(handshaker{grpccredentials.NewTLS(config.Clone()), from}))
	}
	// With a user, New asks the service for a token until ctx ends. After that ctx does not matter to the client.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	release := context.AfterFunc(ctx, end)
	client, err := clientv3.New(clientv3.Config{
		Context: life, Endpoints: endpoints, TLS: config, Username: l.User, Password: password, Logger: zap.NewNop(), DialOptions: dials,
	})
	release()
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("%w: %v", ctx.Err(), err) //nolint:errorlint // it says that its own context was cancelled
	}
	if err != nil {
		end()
		return nil, func() error { return nil }, err
	}
	client.Auth = authenticator{client.Auth, from}
	return client, func() error {
		defer end()
		return client.Close()
	}, nil
}

// openPostgres makes the tables first where that is asked for.
func (l *Location) openPostgres(ctx context.Context, options farsync.Options, from *credentials) (*farsync.Store, error) {
	to, err := l.pool(from.last())
	if err != nil {
		return nil, err
	}
	to.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		password, config := from.now()
		if c.Password = password; config != nil {
			config.ServerName = c.Host
		}
		c.TLSConfig = config
		return nil
	}
	if l.Migrate {
		if err := postgres.Migrate(ctx, to.ConnConfig); err != nil {
			return nil, err
		}
	}
	return postgres.Open(ctx, to, &postgres.Options{Options: options, Connections: l.Most})
}

// pool returns what PostgreSQL's client connects with. The client heeds the variables and files of libpq. A variable or
// file that has other tables used, or another server, would be a second place that says where the locks are, so the
// Location alone does.
func (l *Location) pool(password string, config *cryptotls.Config) (*pgxpool.Config, error) {
	settings := url.Values{
		"sslmode": {"disable"}, "connect_timeout": {"5"}, "target_session_attrs": {"any"}, "passfile": {""},
		"sslrootcert": {""}, "sslcert": {""}, "sslkey": {""}, "sslpassword": {""}, "sslsni": {""}, "sslnegotiation": {""},
	}
	if os.Getenv("PGSERVICE") != "" { // a service can be replaced, and not be left out
		file, err := noService()
		if err != nil {
			return nil, configError{fmt.Errorf("postgres: to leave out PGSERVICE: %w", err)}
		}
		defer os.Remove(file)
		settings["service"], settings["servicefile"] = []string{service}, []string{file}
	}
	to, err := pgxpool.ParseConfig("postgres://" + l.Hosts[0] + "/?" + settings.Encode())
	if err != nil {
		return nil, configError{fmt.Errorf("postgres: %w", err)}
	}
	c := to.ConnConfig
	c.User, c.Password, c.Database, c.TLSConfig = l.User, password, l.Schema, config
	c.RuntimeParams = map[string]string{}
	if l.Tables != "" {
		c.RuntimeParams["search_path"] = `"` + l.Tables + `"`
	}
	if config != nil {
		config.ServerName = c.Host
	}
	return to, nil
}

const service = "farsync"

// noService makes a file of services that has one, which sets nothing. The caller removes it.
func noService() (name string, err error) {
	file, err := os.CreateTemp("", "farsync-service-")
	if err != nil {
		return "", err
	}
	_, err = file.WriteString("[" + service + "]\n")
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// CheckFiles returns an ErrConfig if a file that the Location names cannot be used, before any service is asked. A file
// of SQLite that is not there can be made.
func (l *Location) CheckFiles() error {
	if l.Scheme == "sqlite" {
		return l.checkFile()
	}
	_, _, err := l.secrets()
	return err
}

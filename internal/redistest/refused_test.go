package redistest_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/redis"
)

// An authority signs the certificates of a test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pool        *x509.CertPool
	dir         string
}

func newAuthority(t *testing.T) *authority {
	a := &authority{dir: t.TempDir(), pool: x509.NewCertPool()}
	a.certificate, a.key = a.sign(t, "authority", true)
	a.pool.AddCert(a.certificate)
	return a
}

// sign makes a certificate for this machine, and writes it and its key into the authority's directory.
func (a *authority) sign(t *testing.T, name string, own bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: own, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	parent, signer := a.certificate, a.key
	if own {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		require.NoError(t, os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600))
	}
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return certificate, key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) pair(t *testing.T, name string) tls.Certificate {
	pair, err := tls.LoadX509KeyPair(a.file(name+".pem"), a.file(name+".key"))
	require.NoError(t, err)
	return pair
}

// TestTLS: each side proves who it is, or is refused in words, and nothing hangs.
func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.sign(t, "server", false)
	a.sign(t, "client", false)
	start := func(clients string) *embedtest.RedisServer {
		return embedtest.Redis(t, "--tls-cert-file", a.file("server.pem"), "--tls-key-file", a.file("server.key"),
			"--tls-ca-cert-file", a.file("authority.pem"), "--tls-auth-clients", clients)
	}
	server, mutual := start("no"), start("yes")
	trust := &tls.Config{RootCAs: a.pool, MinVersion: tls.VersionTLS12}
	proven := trust.Clone()
	proven.Certificates = []tls.Certificate{a.pair(t, "client")}
	const untilItsEnd = "Open tries until its time is over"
	for _, row := range []struct {
		name    string
		address string
		config  *tls.Config
		words   string // of the error; none: it works
		long    string
	}{
		{"a server that is trusted", server.TLSEndpoint(), trust, "", ""},
		{"a client that is trusted", mutual.TLSEndpoint(), proven, "", ""},
		{"a server that is not trusted", server.TLSEndpoint(), &tls.Config{MinVersion: tls.VersionTLS12}, "x509: ", ""},
		{"a client without certificate", mutual.TLSEndpoint(), trust, "certificate required", ""},
		{"a client without TLS", server.TLSEndpoint(), nil, "it may want TLS", untilItsEnd},
		{"a server without TLS", server.Endpoint(), trust, "connect to ", untilItsEnd},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.long != "" {
				suite.Long(t, suite.Redis, row.long)
			}
			to := &client.UniversalOptions{Addrs: []string{row.address}, TLSConfig: row.config}
			store, err := redis.Open(within(t, soon), to, fresh(time.Minute))
			if row.words != "" {
				require.ErrorContains(t, err, row.words)
				t.Log(err)
				return
			}
			require.NoError(t, err)
			lease := lock(t, store, "/tls")
			next := make(chan error, 1)
			go func() { // joined below
				lease, err := farsync.NewMutex(store, "/tls").Lock(within(t, soon))
				if err == nil {
					err = lease.Release()
				}
				next <- err
			}()
			require.NoError(t, lease.Release())
			require.NoError(t, <-next)
			require.NoError(t, store.Close())
		})
	}
}

// TestMissingPermissionIsNamed: a user who may do all but one thing that is needed. Open says which, whichever it is.
func TestMissingPermissionIsNamed(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	missing := []string{"eval", "evalsha", "script|load", "info", "ssubscribe"}
	for command := range strings.FieldsSeq(`time get set append object exists del hget hmget hset hdel hincrby sadd srem spop smembers scard zadd zrem zcard
		zcount zscore zrank zrange zrangebyscore zrevrangebyscore zrangebylex zunionstore spublish`) {
		missing = append(missing, command)
	}
	for i, command := range missing {
		name := "user" + command
		require.NoError(t, admin.Do(within(t, soon), "ACL", "SETUSER", name, "on", ">pass", "~farsync:{farsync}:*",
			"&farsync:{farsync}:*", "+@all", "-"+command).Err())
		to := &client.UniversalOptions{Addrs: []string{server.Endpoint()}, Username: name, Password: "pass"}
		if i < 3 { // the server has to be told the script
			require.NoError(t, admin.ScriptFlush(within(t, soon)).Err())
		}
		_, err := redis.Open(within(t, soon), to, fresh(0))
		require.ErrorContains(t, err, "NOPERM", command)
		require.ErrorContains(t, shouted{err}, strings.ToUpper(strings.TrimSuffix(command, "|load")), command)
		require.NotErrorIs(t, err, farsync.ErrUnavailable)
	}
	// All that is needed, and no more.
	require.NoError(t, admin.Do(within(t, soon), "ACL", "SETUSER", "least", "on", ">pass", "~farsync:{farsync}:*", "&farsync:{farsync}:*",
		"-@all", "+hello", "+ping", "+info", "+eval", "+evalsha", "+script|load", "+ssubscribe", "+sunsubscribe", "+time", "+client",
		"+get", "+set", "+append", "+object|encoding", "+exists", "+del", "+hget", "+hmget", "+hset", "+hdel", "+hincrby", "+sadd", "+srem", "+spop", "+smembers", "+scard",
		"+zadd", "+zrem", "+zcard", "+zcount", "+zscore", "+zrank", "+zrange", "+zrangebyscore", "+zrevrangebyscore", "+zrangebylex",
		"+zunionstore", "+spublish").Err())
	store, err := redis.Open(within(t, soon), &client.UniversalOptions{
		Addrs: []string{server.Endpoint()}, Username: "least", Password: "pass",
	}, fresh(0))
	require.NoError(t, err)
	require.NoError(t, lock(t, store, "/least").Release())
	lease, err := farsync.NewSemaphore(store, "/permits", 3).Acquire(within(t, soon), 2)
	require.NoError(t, err)
	require.NoError(t, lease.Release())
	require.NoError(t, store.Close())
}

// shouted is an error in capital letters.
type shouted struct{ error }

func (e shouted) Error() string { return strings.ToUpper(e.error.Error()) }

// TestProtectedModeIsNamed: a server without a password refuses whoever does not come from 127.0.0.1.
func TestProtectedModeIsNamed(t *testing.T) {
	suite.Long(t, suite.Redis, "Open tries until its time is over")
	t.Parallel()
	server := embedtest.Redis(t, "--protected-mode", "yes")
	to := at(server.Endpoint())
	to.Dialer = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext
	_, err := redis.Open(within(t, soon), to, nil)
	require.ErrorContains(t, err, "protected mode")
	t.Log(err)
}

// TestOldServerIsRefused. There is no old server to be had, so one of today says that it is old.
func TestOldServerIsRefused(t *testing.T) {
	t.Parallel()
	to := at(embedtest.Redis(t).Endpoint())
	to.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return aged{conn}, err
	}
	_, err := redis.Open(within(t, soon), to, nil)
	require.ErrorContains(t, err, `version "6.2.14" of Redis: 7 or newer is needed`)
	require.NotErrorIs(t, err, farsync.ErrUnavailable)
}

// aged is a connection to a server that says that it is old.
type aged struct{ net.Conn }

func (c aged) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	const mark = "redis_version:"
	if i := strings.Index(string(p[:n]), mark); i >= 0 {
		copy(p[i+len(mark):n], "6.2.14") // as long as 7.0.15
	}
	return n, err
}

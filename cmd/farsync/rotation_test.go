//go:build linux

package main

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/mysqlkind"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
)

// A keyring is what a client and a server prove themselves with, in files.
type keyring struct {
	dir       string
	password  string
	authority locktest.Authority
}

func newKeyring(t *testing.T) *keyring {
	k := &keyring{dir: t.TempDir()}
	require.NoError(t, os.Chmod(filepath.Dir(k.dir), 0o711)) //nolint:gosec // as above
	k.turnPassword()
	k.turnCertificates(t)
	k.writePassword(t)
	k.writeCertificates(t)
	return k
}

// turnPassword makes another password. No file has it before writePassword.
func (k *keyring) turnPassword() { k.password = "secret" + strings.TrimPrefix(newPath(), "/") }

// turnCertificates makes another authority, which trusts none of the certificates of before. The files of the server
// have it at once.
func (k *keyring) turnCertificates(t *testing.T) {
	k.authority = locktest.NewAuthority(t)
	k.writePair(t, "server")
	k.write(t, "server-ca.pem", k.authority.Text())
}

func (k *keyring) writePassword(t *testing.T) { k.write(t, "password", []byte(k.password+"\n")) }

func (k *keyring) writeCertificates(t *testing.T) {
	k.writePair(t, "client")
	k.write(t, "ca.pem", k.authority.Text())
}

func (k *keyring) writePair(t *testing.T, name string) {
	pair := k.authority.Issue(t, "127.0.0.1", time.Hour)
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	k.write(t, name+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))
	k.write(t, name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
}

// write puts a file in its place in one step.
func (k *keyring) write(t *testing.T, name string, text []byte) {
	next := k.file(name + ".next")
	require.NoError(t, os.WriteFile(next, text, 0o644)) //nolint:gosec // for servers that run as another user
	require.NoError(t, os.Rename(next, k.file(name)))
}

func (k *keyring) file(name string) string { return filepath.Join(k.dir, name) }

// options are those of a URL that names the files of the client.
func (k *keyring) options() string {
	return fmt.Sprintf("?ttl=15s&password-file=%s&cacert=%s&cert=%s&key=%s", k.file("password"), k.file("ca.pem"), k.file("client.pem"), k.file("client.key"))
}

// A locked service is one that lets in who has the password and a certificate alone.
type locked struct {
	store                  string
	anyPassword            bool   // it lets in whoever has another password, too, as another user
	password, certificates func() // have the server take those of the keyring
	kill                   func() // ends all connections of clients
}

// TestCredentialsRotate: COMMAND of run and of elect lives through a change of password, certificates and authority,
// and a waiter keeps its place, although all connections are cut at once, whether the server knows of the change before
// the files or after them.
func TestCredentialsRotate(t *testing.T) {
	suite.Long(t, suite.Command, "cuts all connections, and changes both sides within a TTL of 15 s")
	t.Parallel()
	for name, on := range map[string]func(*testing.T, *keyring) locked{
		"etcd": lockedEtcd, "zookeeper": lockedZooKeeper, "redis": lockedRedis, "postgres": lockedPostgres, "mysql": lockedMySQL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeyring(t)
			s := on(t, k)
			held := newPath()
			// The grace is short, since the files follow only when all three have been refused, each at its own renewal. On ZooKeeper
			// the grace of a call without one begins a tenth of the TTL after a renewal that fails.
			holder := start(t, s.store, "-v", "run", "--grace", "1s", held, "--", "sh", "-c", "echo held; exec sleep 600")
			until(t, "it is held", func() bool { return strings.Contains(holder.out.String(), "held\n") })
			leader := start(t, s.store, "-v", "elect", "--grace", "1s", newPath(), "--", "sh", "-c", "echo elected; exec sleep 600")
			until(t, "it leads", func() bool { return strings.Contains(leader.out.String(), "elected\n") })
			waiter := start(t, s.store, "-v", "run", held, "--", "true")
			until(t, "it waits", func() bool { return waits(t, s.store, held) })
			all := []*process{holder, leader, waiter}
			refused := 0
			for _, row := range []struct {
				what           string
				refuses        bool
				rotate, follow func()
			}{
				{"the password", !s.anyPassword, func() { k.turnPassword(); s.password() }, func() { k.writePassword(t) }},
				{"the certificates", true, func() { k.turnCertificates(t); s.certificates() }, func() { k.writeCertificates(t) }},
			} {
				row.rotate()
				s.kill()
				if row.refuses {
					refused++
					cut := time.Now()
					for _, p := range all {
						until(t, "it is refused", func() bool {
							is := over(p) || strings.Count(p.err.String(), `msg="session suspended"`) >= refused
							if !is && time.Since(cut) > time.Second { // a connection that was let in just before the change was not there yet
								cut = time.Now()
								s.kill()
							}
							return is
						})
					}
				}
				row.follow()
				if row.refuses {
					for _, p := range all {
						until(t, "it is let in", func() bool {
							return over(p) || strings.Count(p.err.String(), `msg="session connected again"`) >= refused
						})
					}
				}
			}
			// The files first, and half-written ones before them.
			k.turnPassword()
			k.turnCertificates(t)
			for _, name := range []string{"password", "ca.pem", "client.pem", "client.key"} {
				text, err := os.ReadFile(k.file(name))
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(k.file(name), text[:len(text)/2], 0o600))
			}
			s.kill()
			k.writePassword(t)
			k.writeCertificates(t)
			s.password()
			s.certificates()
			s.kill()
			const more = 19 * time.Second // than the TTL: whoever has not come back by then has lost the lock
			enough := time.After(more)
			for _, p := range all {
				select {
				case <-p.done:
					require.Fail(t, "it has ended", "%q: %d", p.Args, p.code(t))
				case <-enough:
					enough = time.After(0)
				}
			}
			require.Equal(t, "elected\n", leader.out.String())
			require.NoError(t, holder.Process.Signal(os.Interrupt))
			require.Equal(t, codeSignal+int(syscall.SIGINT), holder.code(t))
			require.Zero(t, waiter.code(t))
			for _, p := range all {
				require.Equal(t, 1, strings.Count(p.err.String(), `msg="session open"`), "it has kept its session")
			}
		})
	}
}

func waits(t *testing.T, store, path string) bool {
	who := start(t, store, "who", path)
	_ = who.code(t)
	return strings.Contains(who.out.String(), "waits")
}

func over(p *process) bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// front returns a proxy to a server which speaks TLS in its place, with the certificates that the keyring has at the
// moment.
func (k *keyring) front(t *testing.T, endpoint string) *embedtest.Proxy {
	to := locktest.TLSFront(t, strings.TrimPrefix(endpoint, "http://"), &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			pair, err := tls.LoadX509KeyPair(k.file("server.pem"), k.file("server.key"))
			trusted, _ := os.ReadFile(k.file("server-ca.pem"))
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(trusted)
			return &tls.Config{
				MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientCAs: pool,
				ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"},
			}, err
		},
	})
	return embedtest.NewProxy(t, to)
}

func lockedEtcd(t *testing.T, k *keyring) locked {
	server := embedtest.Etcd(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	must := func(_ any, err error) {
		t.Helper()
		require.NoError(t, err)
	}
	must(client.UserAdd(t.Context(), "root", "root"))
	must(client.UserGrantRole(t.Context(), "root", "root"))
	must(client.UserAdd(t.Context(), "app", k.password))
	must(client.UserGrantRole(t.Context(), "app", "root"))
	must(client.AuthEnable(t.Context()))
	admin, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Username: "root", Password: "root", Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = admin.Close() })
	proxy := k.front(t, server.Endpoint())
	return locked{
		store:        "etcd://app@" + proxy.Addr() + k.options(),
		password:     func() { must(admin.UserChangePassword(t.Context(), "app", k.password)) },
		certificates: func() {},
		kill:         proxy.Reset,
	}
}

// On ZooKeeper whoever has another password is another user: nothing turns it away, and what the first has made is not
// its own.
func lockedZooKeeper(t *testing.T, k *keyring) locked {
	proxy := k.front(t, embedtest.ZooKeeper(t).Endpoint())
	return locked{
		store: "zk://app@" + proxy.Addr() + k.options(), anyPassword: true, password: func() {}, certificates: func() {}, kill: proxy.Reset,
	}
}

func lockedRedis(t *testing.T, k *keyring) locked {
	server := embedtest.Redis(t, "--tls-cert-file", k.file("server.pem"), "--tls-key-file", k.file("server.key"),
		"--tls-ca-cert-file", k.file("server-ca.pem"), "--tls-auth-clients", "yes")
	admin := goredis.NewClient(&goredis.Options{Addr: server.Endpoint()})
	t.Cleanup(func() { _ = admin.Close() })
	do := func(arguments ...any) {
		t.Helper()
		require.NoError(t, admin.Do(t.Context(), arguments...).Err())
	}
	s := locked{
		store:    "redis://app@" + server.TLSEndpoint() + k.options() + "&fresh=1",
		password: func() { do("ACL", "SETUSER", "app", "on", "resetpass", ">"+k.password, "~*", "&*", "+@all") },
		certificates: func() {
			do("CONFIG", "SET", "tls-cert-file", k.file("server.pem"), "tls-key-file", k.file("server.key"), "tls-ca-cert-file", k.file("server-ca.pem"))
		},
		kill: func() { do("CLIENT", "KILL", "USER", "app") },
	}
	s.password()
	return s
}

func lockedPostgres(t *testing.T, k *keyring) locked {
	server := embedtest.Postgres(t)
	migrated := start(t, "postgres://postgres@"+server.Endpoint()+"/postgres?migrate=1", "who")
	require.Equal(t, codeNothing, migrated.code(t))
	db, err := sql.Open("pgx", server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	do := func(statement string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	ask := func(what string) (answer string) {
		require.NoError(t, db.QueryRowContext(t.Context(), "SHOW "+what).Scan(&answer))
		return answer
	}
	do("CREATE ROLE app LOGIN SUPERUSER")
	data, hba := ask("data_directory"), ask("hba_file")
	text, err := os.ReadFile(hba)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(hba, append([]byte("hostssl all app all scram-sha-256 clientcert=verify-ca\nhost all app all reject\n"), text...), 0o600))
	s := locked{
		store:    "postgres://app@" + server.Endpoint() + "/postgres" + k.options(),
		password: func() { do("ALTER ROLE app PASSWORD '" + k.password + "'") },
		certificates: func() {
			for name, as := range map[string]string{"server.pem": "server.crt", "server.key": "server.key", "server-ca.pem": "ca.crt"} {
				text, err := os.ReadFile(k.file(name))
				require.NoError(t, err)
				file := filepath.Join(data, as)
				require.NoError(t, os.WriteFile(file, text, 0o600))
				if os.Getuid() == 0 { // and the server is another user
					out, err := exec.Command("chown", "--reference="+data, file).CombinedOutput()
					require.NoError(t, err, string(out))
				}
			}
			do("SELECT pg_reload_conf()")
		},
		kill: func() { do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'") },
	}
	s.password()
	do("ALTER SYSTEM SET ssl_ca_file = 'ca.crt'")
	do("ALTER SYSTEM SET ssl = on")
	s.certificates()
	until(t, "the server speaks TLS", func() bool { return ask("ssl") == "on" && ask("ssl_ca_file") == "ca.crt" })
	return s
}

func lockedMySQL(t *testing.T, k *keyring) locked {
	server := mysqlkind.Start(t, embedtest.Setting("ssl-ca = "+k.file("server-ca.pem")),
		embedtest.Setting("ssl-cert = "+k.file("server.pem")), embedtest.Setting("ssl-key = "+k.file("server.key")))
	require.NoError(t, mysql.Migrate(t.Context(), server.DSN("test")))
	db, err := sql.Open("mysql", server.DSN("test"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	do := func(statement string) error {
		_, err := db.ExecContext(t.Context(), statement)
		return err
	}
	require.NoError(t, do("CREATE USER app IDENTIFIED BY '"+k.password+"' REQUIRE X509"))
	require.NoError(t, do("GRANT ALL ON *.* TO app"))
	return locked{
		store:        "mysql://app@" + server.Endpoint() + "/test" + k.options(),
		password:     func() { require.NoError(t, do("ALTER USER app IDENTIFIED BY '"+k.password+"'")) },
		certificates: func() { require.NoError(t, do(mysqlkind.Of("FLUSH SSL", "ALTER INSTANCE RELOAD TLS"))) },
		kill: func() { // on MySQL by no statement for all of a user's
			rows, err := db.QueryContext(t.Context(), "SELECT id FROM information_schema.processlist WHERE user = 'app'")
			require.NoError(t, err)
			var all []int
			for rows.Next() {
				var id int
				require.NoError(t, rows.Scan(&id))
				all = append(all, id)
			}
			require.NoError(t, rows.Err())
			require.NoError(t, rows.Close())
			for _, id := range all {
				_ = do(fmt.Sprint("KILL ", id)) // or it has ended
			}
		},
	}
}

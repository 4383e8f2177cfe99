package zktest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/zk"
)

// openSaysWhy: an error that tells, as soon as ctx ends.
func openSaysWhy(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	refusing := closed.Addr().String()
	require.NoError(t, closed.Close())
	frozen := newFrozen(t, "")
	var all sync.WaitGroup
	for _, row := range []struct {
		name, server string
		ttl, bound   time.Duration
		says         string
	}{
		{"nobody there", refusing, 0, time.Second, "connection refused"},
		{"nobody there, and no ctx", refusing, time.Second, 0, "connection refused"},
		{"no such host", "host.invalid:2181", 0, time.Second, "host.invalid"},
		{"says nothing", frozen, time.Second, 2 * time.Second, "timeout"},
		{"says nothing, and little time", frozen, 0, time.Second, "no answer"},
		{"speaks HTTP", newFrozen(t, "HTTP/1.1 400 Bad Request\r\n\r\n"), 0, time.Second, "a frame that is none"},
	} {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if row.bound > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), row.bound)
			}
			defer cancel()
			err := returns(t, row.name, func() error {
				_, err := zk.Open(ctx, []string{row.server}, withTTL(row.ttl))
				return err
			})
			if row.bound > 0 {
				require.ErrorIs(t, err, context.DeadlineExceeded, row.name)
			}
			for _, part := range []string{"farsync: open ZooKeeper", row.server, row.says} {
				require.ErrorContains(t, err, part, row.name)
			}
			require.NotContains(t, err.Error(), "nil", row.name)
		})
	}
	all.Wait()
}

func TestOpenRefusesWhatIsNoServer(t *testing.T) {
	noLeaks(t)
	_, err := zk.Open(t.Context(), nil, nil)
	require.ErrorContains(t, err, "no servers")
	for _, server := range []string{
		"", ":", ":2181", "host:", "host:port", "host:0", "host:-1", "host:65536", "http://host:2181", "host:2181/chroot",
		"host/chroot", "a:b:2181", "[::1", "user@host", "one,two", "one:2181,two:2181",
	} {
		_, err := zk.Open(t.Context(), []string{"127.0.0.1:2181", server}, nil)
		require.ErrorContains(t, err, fmt.Sprintf("%q is not host:port", server))
	}
}

func TestOpenRefusesBadOptions(t *testing.T) {
	noLeaks(t)
	digest := &zk.Digest{User: "user", Password: "s3cr3t"}
	for says, options := range map[string]zk.Options{
		"out of range":           *withTTL(-1),
		"1s to 24h":              *withTTL(25 * time.Hour),
		"Namespace":              {Namespace: "relative"},
		"trailing":               {Namespace: "/trailing/"},
		"empty segment":          {Namespace: "/"},
		"relative segment":       {Namespace: "/a/../b"},
		"/zookeeper is reserved": {Namespace: "/zookeeper"},
		"without TLS":            {Digest: digest},
		"needs a User":           {Digest: &zk.Digest{Password: digest.Password}, PlaintextDigest: true},
		"without a colon":        {Digest: &zk.Digest{User: "us:er"}, PlaintextDigest: true},
		"Holder has":             {Options: farsync.Options{Holder: strings.Repeat("x", 2000)}},
		"not printable":          {Options: farsync.Options{Holder: "\x00"}},
	} {
		_, err := zk.Open(t.Context(), []string{"127.0.0.1:1"}, &options)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), digest.Password)
	}
}

// TestGrantedTimeoutCounts is C6: the server moves what is asked for into its own bounds.
func TestGrantedTimeoutCounts(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	for asked, granted := range map[time.Duration]time.Duration{
		time.Second:     time.Second, // two ticks
		24 * time.Hour:  40 * time.Second,
		3 * time.Second: 3 * time.Second,
	} {
		begun := time.Now()
		store := newStore(t, server.Endpoint(), withTTL(asked))
		lease := lock(t, store, "/open/granted")
		require.WithinRange(t, lease.Deadline(), begun, time.Now().Add(granted))
		require.NoError(t, lease.Release())
	}
}

func TestNamespaceIsPutInFront(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	store := newStore(t, server.Endpoint(), &zk.Options{Namespace: "/open/namespace"})
	lease := lock(t, store, "/lock")
	require.Equal(t, []string{nodeOf(t, lease)}, nodes(t, conn, "/open/namespace/lock"))
	_, err := farsync.NewMutex(newStore(t, server.Endpoint(), nil), "/open/namespace/lock").TryLock(t.Context())
	require.ErrorIs(t, err, farsync.ErrLocked)
	list, err := farsync.NewMutex(store, "/lock").Participants(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.NoError(t, lease.Release())
}

// TestDigestProtectsEntriesAndTheirQueue: who may delete a node is a matter of its parent's ACL.
func TestDigestProtectsEntriesAndTheirQueue(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	stranger, friend := newConn(t, server.Endpoint()), newConn(t, server.Endpoint())
	require.NoError(t, friend.AddAuth("digest", []byte("user:password")))
	store := newTapped(t, &zk.Options{
		Digest: &zk.Digest{User: "user", Password: "password"}, PlaintextDigest: true, Namespace: "/open/digest",
	})
	lease := lock(t, store.Store, "/team/lock")
	node := nodeOf(t, lease)
	only := client.DigestACL(client.PermAll, "user", "password")
	for path, want := range map[string][]client.ACL{
		"/open/digest/team":      client.WorldACL(client.PermAll), // others may have queues there
		"/open/digest/team/lock": only, node: only,
	} {
		acl, _, err := friend.GetACL(path)
		require.NoError(t, err)
		require.Equal(t, want, acl, path)
	}
	require.ErrorIs(t, stranger.Delete(node, -1), client.ErrNoAuth)
	_, err := stranger.Set(node, nil, -1)
	require.ErrorIs(t, err, client.ErrNoAuth)
	_, err = farsync.NewMutex(newStore(t, server.Endpoint(), nil), "/open/digest/team/lock").Lock(within(t, soon))
	require.ErrorIs(t, err, client.ErrNoAuth)
	waiter := lockBehind(t, store.Store, "/team/lock")
	store.tap.await(t, opGetData, 1)
	store.tap.sever() // Z14: the next connection is told who it is, too
	require.NoError(t, lease.Release())
	require.NoError(t, got(t, waiter).Release())
}

// TestWorldWritableParentIsRefusedWhereADigestIsAskedFor: a stranger deleted a node that was nobody's but its maker's.
func TestWorldWritableParentIsRefusedWhereADigestIsAskedFor(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	require.NoError(t, conn.AddAuth("digest", []byte("user:password")))
	store := newStore(t, server.Endpoint(), &zk.Options{
		Digest: &zk.Digest{User: "user", Password: "password"}, PlaintextDigest: true,
	})
	own := client.DigestACL(client.PermAll, "user", "password")
	for perms, refused := range map[int32]bool{
		client.PermAll: true, client.PermDelete: true, client.PermCreate: true, client.PermWrite: true,
		client.PermAdmin: true, client.PermRead: false,
	} {
		path := fmt.Sprint("/open/writable", perms)
		persistent(t, conn, path)
		_, err := conn.SetACL(path, append(client.WorldACL(perms), own...), -1)
		require.NoError(t, err)
		lease, err := farsync.NewMutex(store, path).Lock(within(t, soon))
		if refused {
			require.ErrorContains(t, err, fmt.Sprintf("%q can be written to by everybody", path))
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.Empty(t, nodes(t, conn, path))
			continue
		}
		require.NoError(t, err)
		require.NoError(t, lease.Release())
	}
}

// TestACLThatForbidsIsAClearErrorAndLeavesNothing: each right that a lock needs is missing once.
func TestACLThatForbidsIsAClearErrorAndLeavesNothing(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	require.NoError(t, conn.AddAuth("digest", []byte("user:password")))
	store := newStore(t, server.Endpoint(), nil)
	own := client.DigestACL(client.PermAll, "user", "password")
	for name, perms := range map[string]int32{
		"none": 0, "create": client.PermAll &^ client.PermCreate, "read": client.PermAll &^ client.PermRead,
	} {
		path := "/open/forbids/" + name
		persistent(t, conn, path)
		acl := own
		if perms != 0 {
			acl = append(client.WorldACL(perms), own...)
		}
		_, err := conn.SetACL(path, acl, -1)
		require.NoError(t, err)
		for _, by := range acquirers {
			ctx := within(t, soon)
			_, err := by.lock(farsync.NewMutex(store, path), ctx)
			require.ErrorIs(t, err, client.ErrNoAuth, name)
			require.ErrorContains(t, err, path)
			require.NoError(t, ctx.Err())
		}
		awaitNodes(t, conn, path, 0)
	}

	// What may be made and not be deleted goes with the session.
	persistent(t, conn, "/open/forbids/delete")
	_, err := conn.SetACL("/open/forbids/delete", append(client.WorldACL(client.PermAll&^client.PermDelete), own...), -1)
	require.NoError(t, err)
	short := newStore(t, server.Endpoint(), nil)
	lease := lock(t, short, "/open/forbids/delete")
	require.ErrorIs(t, lease.Release(), client.ErrNoAuth)
	require.ErrorIs(t, lease.Err(), farsync.ErrReleased)
	require.NoError(t, short.Close())
	awaitNodes(t, conn, "/open/forbids/delete", 0)

	// Nor may an entry stand below an ephemeral node.
	_, err = conn.Create("/open/forbids/ephemeral", nil, client.FlagEphemeral, client.WorldACL(client.PermAll))
	require.NoError(t, err)
	_, err = farsync.NewMutex(store, "/open/forbids/ephemeral").Lock(within(t, soon))
	require.ErrorIs(t, err, client.ErrNoChildrenForEphemerals)
}

func TestDigestIsNeverPrinted(t *testing.T) {
	const secret = "s3cr3t"
	digest := zk.Digest{User: "somebody", Password: secret}
	options := zk.Options{Digest: &digest, PlaintextDigest: true}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		for _, value := range []any{digest, &digest, options, &options, []zk.Digest{digest}, struct{ D zk.Digest }{digest}} {
			fmt.Fprintf(&out, verb, value)
		}
	}
	for _, log := range []*slog.Logger{
		slog.New(slog.NewTextHandler(&out, nil)), slog.New(slog.NewJSONHandler(&out, nil)),
	} {
		log.Info("open", "digest", digest, "pointer", &digest, "options", options, "pointer", &options)
	}
	text, err := json.Marshal(struct{ Digest *zk.Digest }{&digest})
	require.NoError(t, err)
	out.Write(text)
	require.NotContains(t, out.String(), secret)
	require.NotContains(t, out.String(), fmt.Sprintf("%x", secret))
	require.Contains(t, out.String(), "somebody")
}

// TestTLSChecksTheNameOfTheServer is Z13: the client library hands on addresses, for which no certificate is made.
func TestTLSChecksTheNameOfTheServer(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	authority := newAuthority(t)
	port := newTLSFront(t, server.Endpoint(), authority.issue(t, "localhost"))
	trust := &tls.Config{RootCAs: authority.pool()}
	store := storeOn(t, []string{"localhost:" + port}, &zk.Options{
		TLS: trust, Digest: &zk.Digest{User: "user", Password: "password"},
	})
	lease := lock(t, store, "/open/tls")
	require.NoError(t, lease.Release())
	var all sync.WaitGroup
	for says, row := range map[string]struct {
		server string
		config *tls.Config
	}{
		"cannot validate certificate for 127.0.0.1": {"127.0.0.1:" + port, trust}, // the server by another name
		"signed by unknown authority":               {"localhost:" + port, &tls.Config{}},
		"EOF":                                       {server.Endpoint(), trust}, // it does without TLS
	} {
		all.Go(func() {
			_, err := zk.Open(within(t, 2*time.Second), []string{row.server}, &zk.Options{TLS: row.config})
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v does not say %s", err, says)
			}
		})
	}
	all.Wait()
}

// An authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{certificate, key}
}

func (a authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

func (a authority) issue(t testing.TB, name string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// newTLSFront returns the port of a listener that takes TLS off and passes on what is in it, until t ends.
func newTLSFront(t testing.TB, target string, certificate tls.Certificate) string {
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", target)
			if err != nil {
				from.Close()
				continue
			}
			forward := func(from, to net.Conn) {
				_, _ = io.Copy(to, from)
				from.Close()
				to.Close()
			}
			all.Go(func() { forward(from, to) })
			all.Go(func() { forward(to, from) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
	})
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	return port
}

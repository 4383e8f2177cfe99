package zktest

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/zk"
)

// TestMisuse gives what is wrong, of servers, certificates, options, users and rights.
func TestMisuse(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	locktest.RunInputs(t, slices.Concat(
		wrongServers(t), wrongTLS(t, server.Endpoint()), wrongNames(), wrongOptions(), wrongUsers(t, server.Endpoint()),
		missingRights(t, server.Endpoint()),
	))
}

func TestMisuseOfEveryStore(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	locktest.Mistaken{Open: func(ctx context.Context, options farsync.Options) (*farsync.Store, error) {
		return zk.Open(ctx, []string{server.Endpoint()}, &zk.Options{Options: options})
	}, Opens: opens}.Run(t)
}

const opens = "farsync: open ZooKeeper: "

// opening returns an Open that must fail.
func opening(servers []string, options zk.Options) func(*testing.T, context.Context, *slog.Logger) error {
	return func(_ *testing.T, ctx context.Context, log *slog.Logger) error {
		options := options
		options.Logger = log
		store, err := zk.Open(ctx, servers, &options)
		if err == nil {
			_ = store.Close()
		}
		return err
	}
}

// unanswered returns an Open that no server answers.
func unanswered(given string, within time.Duration, server string, options zk.Options, says ...string) locktest.Input {
	in := locktest.Input{
		Given: given, Why: "the words are all that there is to find out why the program does not start",
		Within: within, Call: opening([]string{server}, options), Says: append(says, opens, "the service does not answer", server),
		Is: []error{farsync.ErrUnavailable}, Never: []string{context.DeadlineExceeded.Error()},
	}
	if within > 0 {
		in.Is, in.Never = append(in.Is, context.DeadlineExceeded), nil
		in.Says = in.Says[len(says):] // on a busy machine the cause may take longer than such a ctx to show
	}
	return in
}

func wrongServers(t *testing.T) []locktest.Input {
	refusing, silent := locktest.Refusing(t), locktest.Speaking(t, "")
	http, ssh := locktest.Speaking(t, "HTTP/1.1 400 Bad Request\r\n\r\n"), locktest.Speaking(t, "SSH-2.0-OpenSSH_9.2\r\n")
	const within = 500 * time.Millisecond
	none := zk.Options{}
	return []locktest.Input{
		unanswered("a port at which nothing listens", within, refusing, none, "connection refused"),
		unanswered("a port at which nothing listens, and no ctx", 0, refusing, none, "connection refused"),
		unanswered("a name that does not resolve", within, "host.invalid:2181", none, "lookup host.invalid"),
		unanswered("a name that does not resolve, and no ctx", 0, "host.invalid:2181", none, "lookup host.invalid"),
		unanswered("a server that says nothing", within, silent, none, "no answer from any of ["+silent),
		unanswered("a server that says nothing, and time to notice", 2*time.Second, silent, *withTTL(time.Second), "i/o timeout"),
		unanswered("a server that says nothing, and no ctx", 0, silent, none, "i/o timeout"),
		unanswered("a server of HTTP", within, http, none, "a frame that is none", "is it ZooKeeper?"),
		unanswered("a server of HTTP, and no ctx", 0, http, none, "a frame that is none", "is it ZooKeeper?"),
		unanswered("a server of SSH", within, ssh, none, "a frame that is none", "is it ZooKeeper?"),
	}
}

func wrongTLS(t *testing.T, plain string) (list []locktest.Input) {
	authority := locktest.NewAuthority(t)
	trust, other := authority.Pool(), locktest.NewAuthority(t)
	front := func(certificate tls.Certificate, mutual bool) string {
		config := &tls.Config{Certificates: []tls.Certificate{certificate}}
		if mutual {
			config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, trust
		}
		_, port, err := net.SplitHostPort(locktest.TLSFront(t, plain, config))
		require.NoError(t, err)
		return "localhost:" + port
	}
	good := authority.Issue(t, "localhost", time.Hour)
	served, mutual := front(good, false), front(good, true)
	with := func(certificates ...tls.Certificate) zk.Options {
		return zk.Options{
			TLS: &tls.Config{RootCAs: trust, Certificates: certificates}, Digest: &zk.Digest{User: "user", Password: locktest.Secret},
		}
	}
	for _, right := range []struct {
		server  string
		options zk.Options
	}{{served, with()}, {mutual, with(authority.Issue(t, "me", time.Hour))}} {
		store := storeOn(t, []string{right.server}, &right.options)
		require.NoError(t, lock(t, store, "/misuse/tls").Release())
		require.NoError(t, store.Close())
	}
	for _, row := range []struct {
		given, server string
		options       zk.Options
		says          string
	}{
		{"a server of an unknown authority", served, zk.Options{TLS: &tls.Config{}}, "signed by unknown authority"},
		{"a server by its address", "127.0.0.1" + served[len("localhost"):], with(), "cannot validate certificate for 127.0.0.1"},
		{"a certificate for another name", front(authority.Issue(t, "elsewhere", time.Hour), false), with(), "valid for elsewhere, not localhost"},
		{"a certificate that has expired", front(authority.Issue(t, "localhost", -time.Hour), false), with(), "certificate has expired"},
		{"no certificate of the client", mutual, with(), "certificate required"},
		{"a client's certificate that has expired", mutual, with(authority.Issue(t, "me", -time.Hour)), "expired certificate"},
		{"a client's certificate of an unknown authority", mutual, with(other.Issue(t, "me", time.Hour)), "unknown certificate authority"},
		{"TLS to a server without", plain, with(), "does it speak TLS"},
		{"TLS to a server that says nothing", locktest.Speaking(t, ""), with(), "no answer from any of"},
		{"no TLS to a server with it", served, zk.Options{}, "the server hangs up; it wants TLS"},
		{"no TLS to a server that wants a certificate", mutual, zk.Options{}, "the server hangs up; it wants TLS"},
	} {
		list = append(list,
			unanswered(row.given, time.Second, row.server, row.options, row.says),
			unanswered(row.given+", and no ctx", 0, row.server, row.options, row.says))
	}
	return list
}

// refused returns an Open that asks no server.
func refused(given string, servers []string, options zk.Options, says ...string) locktest.Input {
	return locktest.Input{
		Given: given, Why: "a mistake in a configuration is found at once, and the message names the part of it",
		Call: opening(servers, options), Says: append(says, "farsync: open"),
	}
}

func wrongNames() []locktest.Input {
	list := []locktest.Input{
		refused("no servers", nil, zk.Options{}, opens, "no servers"),
		refused("a server with a password", []string{"zk://user:" + locktest.Secret + "@host:2181"}, zk.Options{}, opens, `server "…@host:2181" is not host:port`),
	}
	for _, server := range []string{
		"", ":", ":2181", "host:", "host:port", "host:0", "host:-1", "host:65536", "http://host:2181", "host:2181/chroot",
		"host/chroot", "a:b:2181", "[::1", "one,two", "one:2181,two:2181",
	} {
		list = append(list, refused(fmt.Sprintf("the server %q", server), []string{"127.0.0.1:2181", server}, zk.Options{},
			opens, fmt.Sprintf("server %q is not host:port", server)))
	}
	return list
}

func wrongOptions() (list []locktest.Input) {
	digest := func(user string) *zk.Digest { return &zk.Digest{User: user, Password: locktest.Secret} }
	named := func(namespace, says string) {
		in := refused("the namespace "+namespace, []string{"127.0.0.1:1"}, zk.Options{Namespace: namespace}, "option Namespace", says)
		in.Is = []error{farsync.ErrName}
		list = append(list, in)
	}
	named("relative", "no leading slash")
	named("/trailing/", "empty segment")
	named("/", "empty segment")
	named("/a/../b", "relative segment")
	named("/zookeeper", "/zookeeper is reserved")
	for given, row := range map[string]struct {
		options zk.Options
		says    string
	}{
		"a Digest in the clear":     {zk.Options{Digest: digest("user")}, "set PlaintextDigest if that is meant"},
		"a Digest without a user":   {zk.Options{Digest: digest(""), PlaintextDigest: true}, "Digest needs a User"},
		"a Digest's user of two":    {zk.Options{Digest: digest("us:er"), PlaintextDigest: true}, "without a colon"},
		"a Digest's user of a line": {zk.Options{Digest: digest(":"), TLS: &tls.Config{}}, "without a colon"},
	} {
		list = append(list, refused(given, []string{"127.0.0.1:1"}, row.options, opens, row.says))
	}
	return list
}

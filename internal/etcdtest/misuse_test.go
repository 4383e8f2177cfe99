package etcdtest_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/locktest"
)

// TestMisuse gives what is wrong, of clients, endpoints and certificates.
func TestMisuse(t *testing.T) {
	server, _ := begin(t)
	locktest.RunInputs(t, slices.Concat(wrongClients(t, server), wrongEndpoints(t), wrongTLS(t, server)))
}

// TestMisuseOfEveryStore gives what is wrong on every service. An option that is refused costs no request.
func TestMisuseOfEveryStore(t *testing.T) {
	server, _ := begin(t)
	client := newClient(t, server.Endpoint())
	locktest.Mistaken{Open: func(ctx context.Context, options farsync.Options) (*farsync.Store, error) {
		return etcd.Open(ctx, client, &etcd.Options{Options: options})
	}, Opens: opens}.Run(t)
	var sent counter
	counted := newClient(t, server.Endpoint(), sent.dial()...)
	for _, options := range []farsync.Options{{TTL: -1}, {TTL: 25 * time.Hour}, {Holder: "a\nb"}} {
		_, err := etcd.Open(t.Context(), counted, &etcd.Options{Options: options})
		require.ErrorContains(t, err, opens+"option ")
	}
	require.Empty(t, sent.since())
}

const opens = "farsync: open etcd: "

// opening returns an Open that must fail.
func opening(client *clientv3.Client) func(*testing.T, context.Context, *slog.Logger) error {
	return func(_ *testing.T, ctx context.Context, log *slog.Logger) error {
		store, err := etcd.Open(ctx, client, &etcd.Options{Options: farsync.Options{Logger: log}})
		if err == nil {
			_ = store.Close()
		}
		return err
	}
}

func wrongClients(t *testing.T, server *embedtest.EtcdServer) []locktest.Input {
	closed := newClient(t, server.Endpoint())
	require.NoError(t, closed.Close())
	const why = "a mistake in a program is found at once, and the message names it"
	list := []locktest.Input{
		{Given: "no client", Why: why, Call: opening(nil), Says: []string{opens, "nil client"}},
		{Given: "a client without a connection", Why: why, Call: opening(clientv3.NewCtxClient(t.Context())), Says: []string{opens, "a client without a connection"}},
		{Given: "a closed client", Why: why, Call: opening(closed), Says: []string{opens, "the etcd client was closed"}, Is: []error{farsync.ErrClosed}},
	}
	return list
}

// unanswered returns an Open that no server answers, with a ctx and without.
func unanswered(t *testing.T, given, endpoint string, config *tls.Config, says ...string) []locktest.Input {
	client := clientOf(t, clientv3.Config{Endpoints: []string{endpoint}, TLS: config})
	with := locktest.Input{
		Given: given, Why: "the words are all that there is to find out why the program does not start",
		Within: 500 * time.Millisecond, Call: opening(client),
		Says: []string{opens, "the service does not answer", "endpoints ", strings.TrimPrefix(endpoint, "http://user:"+locktest.Secret)},
		Is:   []error{farsync.ErrUnavailable, context.DeadlineExceeded}, Never: []string{"rpc error"},
	}
	without := with
	without.Says = slices.Concat(says, with.Says) // on a busy machine the cause may take longer than such a ctx to show
	without.Given, without.Within, without.Is = given+", and no ctx", 0, with.Is[:1]
	without.Never = []string{"rpc error", context.DeadlineExceeded.Error()}
	return []locktest.Input{with, without}
}

func wrongEndpoints(t *testing.T) []locktest.Input {
	refusing, silent := locktest.Refusing(t), locktest.Speaking(t, "")
	const nothing = "what listens there, if anything does, says nothing"
	return slices.Concat(
		unanswered(t, "a port at which nothing listens", refusing, nil, "connection refused"),
		unanswered(t, "a port at which nothing listens, with TLS", "https://"+refusing, nil, "connection refused"),
		unanswered(t, "a name that does not resolve", "host.invalid:2379", nil, "lookup host.invalid"),
		unanswered(t, "a server that says nothing", silent, nil, nothing),
		unanswered(t, "a server that says nothing, with TLS", "https://"+silent, nil, nothing),
		unanswered(t, "a server of HTTP", locktest.Speaking(t, "HTTP/1.1 400 Bad Request\r\n\r\n"), nil, "is it etcd's port for clients?"),
		unanswered(t, "a server of SSH", locktest.Speaking(t, "SSH-2.0-OpenSSH_9.2\r\n"), nil, "is it etcd's port for clients?"),
		unanswered(t, "no port", "127.0.0.1", nil, "missing port"),
		unanswered(t, "an empty endpoint", "", nil, "missing address", `endpoints ""`),
		unanswered(t, "two endpoints in one", "one:2379,two:2379", nil, "too many colons"),
		unanswered(t, "another scheme", "ftp://host", nil, "unknown port"),
		unanswered(t, "an endpoint with a password", "http://user:"+locktest.Secret+"@"+refusing, nil, "connection refused", "(endpoints …@"+refusing+")"),
	)
}

func wrongTLS(t *testing.T, server *embedtest.EtcdServer) (list []locktest.Input) {
	endpoint := func(s locktest.Secured) string {
		if s.TLS == nil {
			return "http://" + s.Host
		}
		return "https://" + s.Host
	}
	right, wrong := locktest.Secure(t, strings.TrimPrefix(server.Endpoint(), "http://"), "h2")
	for _, s := range right {
		store := storeOn(t, clientOf(t, clientv3.Config{Endpoints: []string{endpoint(s)}, TLS: s.TLS}), nil)
		require.NoError(t, lock(t, store, "/misuse/tls").Release())
		require.NoError(t, store.Close())
	}
	for _, s := range wrong {
		says := s.Says
		switch {
		case says == "" && s.TLS == nil:
			says = "its endpoint begins with https://"
		case says == "":
			says = "does the server speak TLS on this port?"
		}
		list = append(list, unanswered(t, s.Given, endpoint(s), s.TLS, says)...)
	}
	return list
}

package redistest_test

import (
	"context"
	"crypto/tls"
	"net"
	"reflect"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/redis"
)

// functions are the functions that a program can put into the settings of a client. Each calls do for each connection
// that is made.
var functions = map[string]func(to *client.UniversalOptions, do func()){
	"Dialer": func(to *client.UniversalOptions, do func()) {
		to.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			do()
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	},
	"OnConnect": func(to *client.UniversalOptions, do func()) {
		to.OnConnect = func(context.Context, *client.Conn) error { do(); return nil }
	},
	"CredentialsProvider": func(to *client.UniversalOptions, do func()) {
		to.CredentialsProvider = func() (user, password string) { do(); return "default", "secret" }
	},
	"CredentialsProviderContext": func(to *client.UniversalOptions, do func()) {
		to.CredentialsProviderContext = func(context.Context) (user, password string, err error) { do(); return "default", "secret", nil }
	},
	"StreamingCredentialsProvider": func(to *client.UniversalOptions, do func()) { to.StreamingCredentialsProvider = streaming(do) },
	"TLSConfig": func(to *client.UniversalOptions, do func()) {
		to.TLSConfig.VerifyConnection = func(tls.ConnectionState) error { do(); return nil }
	},
}

// TestEveryFunctionIsInTheTable: a function that a later go-redis has its settings hold is one more that may block.
func TestEveryFunctionIsInTheTable(t *testing.T) {
	t.Parallel()
	for _, field := range reflect.VisibleFields(reflect.TypeFor[client.UniversalOptions]()) {
		kind := field.Type.Kind()
		if field.Name == "PushNotificationProcessor" || kind != reflect.Func && kind != reflect.Interface {
			continue // a Store has none of the program's
		}
		require.Contains(t, functions, field.Name)
	}
}

// streaming is a StreamingCredentialsProvider whose Subscribe calls it.
type streaming func()

func (s streaming) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	s()
	return auth.NewBasicCredentials("default", "secret"), func() error { s(); return nil }, nil
}

// TestFunctionsKeepNobody: a function of the settings that blocks, panics, ends its goroutine or calls the Store is as a
// server that makes no connection: see RunFunction.
func TestFunctionsKeepNobody(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	authority := locktest.NewAuthority(t)
	front := locktest.TLSFront(t, server.Endpoint(), &tls.Config{Certificates: []tls.Certificate{authority.Issue(t, "localhost", time.Hour)}})
	other := newStore(t, server.Endpoint(), fresh(time.Minute))
	for name, set := range functions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locktest.RunFunction(t, locktest.Function{
				Path: "/functions/" + name, Other: other,
				Service: func(t *testing.T, do func()) driver.Service {
					to := at(server.Endpoint())
					if name == "TLSConfig" {
						to.Addrs, to.TLSConfig = []string{front}, &tls.Config{RootCAs: authority.Pool(), ServerName: "localhost"}
					}
					set(to, do)
					service, err := redis.NewService(to, fresh(0))
					require.NoError(t, err)
					return service
				},
			})
		})
	}
}

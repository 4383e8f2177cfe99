package etcdtest_test

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/locktest"
)

func TestLoginThatIsRefused(t *testing.T) {
	server, admin := beginAlone(t)
	r := newRealm(t, server, admin)
	r.user("app", "/", clientv3.PermReadWrite)
	first := locktest.Secret
	var password atomic.Pointer[string] // of the server
	password.Store(&first)
	locktest.RunLogin(t, locktest.LetIn{
		Service: func(t testing.TB, login *locktest.Login) driver.Service {
			client := clientOf(t, clientv3.Config{Endpoints: []string{server.Endpoint()}, Username: "app", Password: *password.Load()})
			client.Auth = authenticator{client.Auth, func() string {
				if login.Password() != locktest.Secret {
					return "wrong"
				}
				return *password.Load()
			}}
			service, err := etcd.NewService(client)
			require.NoError(t, err)
			return service
		},
		Open: func(t testing.TB, options farsync.Options) *farsync.Store {
			return storeOn(t, r.as("root"), &etcd.Options{Options: options})
		},
		// A user whose password is changed needs another token. A watch that begins asks for one, too: the answer to that may come after the change.
		LogOut: func(testing.TB) {
			next := rand.Text()
			r.must(r.root.UserChangePassword(r.Context(), "app", next))
			password.Store(&next)
		},
		Says: "authentication failed",
	})
}

// An authenticator has a client use the password of the moment. See the package's documentation.
type authenticator struct {
	clientv3.Auth

	password func() string
}

func (a authenticator) Authenticate(ctx context.Context, name, _ string) (*clientv3.AuthenticateResponse, error) {
	return a.Auth.Authenticate(ctx, name, a.password())
}

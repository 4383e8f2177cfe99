package redis

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/farsync/farsync/internal/aside"
)

// Functions call the functions that the program has put into the settings of go-redis. All of them are called while a
// connection is made. A function that blocks, whatever its ctx says, is given up when its link ends or the time to dial
// is over, and a function that panics has failed. Then the connection is not made. go-redis calls them in goroutines
// that Drop waits for.
type functions struct {
	log                          *slog.Logger
	dials, connects, credentials aside.Hook
}

// A dialer connects to an address.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// dial is the dialer of the program, or a dialer that calls the functions of its tls.Config.
func (f *functions) dial(name string, most time.Duration, dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return aside.Connect(ctx, &f.dials, f.log, name, most, func(ctx context.Context) (net.Conn, error) {
			return dial(ctx, network, address)
		})
	}
}

// guard has the other functions in o end with the life of a link.
//
// A StreamingCredentialsProvider is asked for the credentials of each connection, and is listened to no longer:
// go-redis would call it by a manager that a connection taken out of its pool does not have.
func (f *functions) guard(life context.Context, o *client.UniversalOptions) {
	most := o.DialTimeout
	connect, plain, withContext, streaming := o.OnConnect, o.CredentialsProvider, o.CredentialsProviderContext, o.StreamingCredentialsProvider
	call := func(ctx context.Context, hook *aside.Hook, name string, do func(ctx context.Context) error) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		return hook.CallAs(ctx, f.log, name, most, do)
	}
	if connect != nil {
		o.OnConnect = func(ctx context.Context, conn *client.Conn) error {
			return call(ctx, &f.connects, "OnConnect", func(ctx context.Context) error { return connect(ctx, conn) })
		}
	}
	name := ""
	switch { // in the order in which go-redis prefers them
	case streaming != nil:
		name, withContext = "StreamingCredentialsProvider", subscribed(streaming)
	case withContext != nil:
		name = "CredentialsProviderContext"
	case plain != nil:
		name, withContext = "CredentialsProvider", func(context.Context) (user, password string, err error) {
			user, password = plain()
			return user, password, nil
		}
	default:
		return
	}
	o.StreamingCredentialsProvider, o.CredentialsProvider = nil, nil
	o.CredentialsProviderContext = func(ctx context.Context) (string, string, error) {
		var user, password string
		err := call(ctx, &f.credentials, name, func(ctx context.Context) (err error) {
			user, password, err = withContext(ctx)
			return err
		})
		if err != nil {
			return "", "", err
		}
		return user, password, nil
	}
}

// subscribed asks a provider for the credentials of the moment.
func subscribed(p auth.StreamingCredentialsProvider) func(context.Context) (user, password string, err error) {
	return func(context.Context) (user, password string, err error) {
		now, leave, err := p.Subscribe(unheard{})
		if err != nil {
			return "", "", err
		}
		if leave != nil {
			defer func() { err = errors.Join(err, leave()) }()
		}
		user, password = now.BasicAuth()
		return user, password, nil
	}
}

// unheard listens to nothing: the next connection asks anew.
type unheard struct{}

func (unheard) OnNext(auth.Credentials) {}
func (unheard) OnError(error)           {}

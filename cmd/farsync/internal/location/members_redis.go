package location

import (
	"context"
	cryptotls "crypto/tls"
	"errors"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

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

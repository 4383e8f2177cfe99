package mysqltest_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	client "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/mysql"
)

func TestLoginThatIsRefused(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	user := "u" + strings.ToLower(rand.Text()) // 3e6u would be a number
	d.exec(t, "CREATE USER "+user+" IDENTIFIED BY '"+locktest.Secret+"'")
	d.exec(t, "GRANT ALL ON "+d.name+".* TO "+user)
	locktest.RunLogin(t, locktest.LetIn{
		Service: func(t testing.TB, login *locktest.Login) driver.Service {
			service, err := mysql.NewService(d.dsn(), &mysql.Options{BeforeConnect: func(_ context.Context, c *client.Config) error {
				c.User, c.Passwd = user, login.Password()
				return nil
			}})
			require.NoError(t, err)
			t.Cleanup(func() { _ = service.Close() })
			return service
		},
		Open: func(t testing.TB, options farsync.Options) *farsync.Store {
			return d.open(t, &mysql.Options{Options: options})
		},
		LogOut: func(t testing.TB) {
			for _, p := range d.processes(t) {
				if p["User"] == user {
					_, _ = d.admin.ExecContext(t.Context(), "KILL CONNECTION "+p["Id"]) // it may have gone
				}
			}
		},
		Says: "Access denied",
	})
}

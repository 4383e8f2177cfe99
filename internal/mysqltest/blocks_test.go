package mysqltest_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	client "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
)

// TestBeforeConnectThatBlocks is as a server that does not answer: calls end with their ctx, and Close returns.
func TestBeforeConnectThatBlocks(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	user := "u" + strings.ToLower(rand.Text()) // 3e6u would be a number
	d.exec(t, "CREATE USER "+user)
	d.exec(t, "GRANT ALL ON "+d.name+".* TO "+user)
	hooked := locktest.NewHooked(t)
	options := &mysql.Options{BeforeConnect: func(_ context.Context, c *client.Config) error {
		hooked.Call()
		c.User = user
		return nil
	}}
	options.TTL = time.Hour
	store, err := mysql.Open(within(t, soon), d.dsn(), options)
	require.NoError(t, err)
	locktest.RunHooked(t, hooked, store, func() {
		for _, p := range d.processes(t) {
			if p["User"] == user {
				_, _ = d.admin.ExecContext(t.Context(), "KILL CONNECTION "+p["Id"]) // it may have gone
			}
		}
	})
	hooked.Block(suite.More(t, suite.MySQL)) // for 10 s: two attempts to connect
	_ = locktest.Returns(t, soon, "Close", store.Close)
}

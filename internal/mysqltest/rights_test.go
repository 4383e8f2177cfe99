package mysqltest_test

import (
	"strings"
	"testing"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/mysql"
)

func TestRightsThatAreTakenAway(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	user := "'" + d.name + "'@'%'"
	d.exec(t, "CREATE USER "+user)
	d.exec(t, "GRANT EXECUTE ON "+d.name+".* TO "+user)
	// Rights on tables are looked up with each request, those on a database only when it is chosen.
	each := func(t testing.TB, words ...string) {
		for _, table := range []string{"sessions", "queues", "entries", "registers"} {
			d.exec(t, strings.Join([]string{words[0], "SELECT, INSERT, UPDATE, DELETE ON farsync_" + table, words[1], user}, " "))
		}
	}
	give := func(t testing.TB) { each(t, "GRANT", "TO") }
	give(t)
	locktest.RunRights(t, locktest.Restricted{
		Open: func(t testing.TB, restricted bool, options farsync.Options) *farsync.Store {
			dsn := d.dsn()
			if restricted {
				dsn = strings.Replace(dsn, "root@", d.name+"@", 1)
			}
			return openAt(t, dsn, &mysql.Options{Options: options})
		},
		Take: func(t testing.TB) { each(t, "REVOKE", "FROM") },
		Give: give,
		Says: "denied",
	})
}

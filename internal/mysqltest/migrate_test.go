package mysqltest_test

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
)

// procedures are the sums of the texts of all procedures, without their comments. A procedure never changes under its name: Migrate
// leaves one that is there as it is. What has to change comes under another name.
var procedures = map[string]string{
	"farsync_ahead":       "991a63040488e9be",
	"farsync_ahead_2":     "297375d726321a4d",
	"farsync_bury":        "fbff20446fc5a52c",
	"farsync_bury_2":      "e7771638646a791e",
	"farsync_bury_3":      "3edf881e307ee050",
	"farsync_bury_4":      "a66cf99d7549fbfb",
	"farsync_bury_one":    "4338baf258b13cec",
	"farsync_bury_one_2":  "c80c0a040b9d02f6",
	"farsync_bury_one_3":  "9890ef6eab303fa7",
	"farsync_bury_some":   "256a3f0a03b4b405",
	"farsync_bury_some_2": "50ad8b6d3290aaf6",
	"farsync_bury_some_3": "b15a2b1c368c48e1",
	"farsync_create":      "780dec0b2d648123",
	"farsync_create_2":    "f59bc22cce143556",
	"farsync_create_3":    "b7b11b810ca590ab",
	"farsync_create_4":    "dd088048c0857200",
	"farsync_delete":      "69ca41461a31d881",
	"farsync_end":         "99e1016a561bac7e",
	"farsync_engines":     "5947481789691ebe",
	"farsync_find":        "0d395f872bdbdddd",
	"farsync_heard":       "f87cc9176296a962",
	"farsync_list":        "4684b26db7d09100",
	"farsync_list_2":      "51d31d85527344aa",
	"farsync_open":        "2f07ffc1e05d4162",
	"farsync_open_2":      "3841ba5a83fbdca0",
	"farsync_open_3":      "d0e877d8bf6caadf",
	"farsync_open_4":      "8c80f1bd88c829ac",
	"farsync_open_5":      "16be2784ade20cfa",
	"farsync_open_6":      "163cbfebfda6358a",
	"farsync_open_7":      "eb966f32eae9c222",
	"farsync_open_8":      "da37d50d88554245",
	"farsync_open_9":      "4cce144fe26348ac",
	"farsync_owned":       "dbbb612c67c78c51",
	"farsync_owned_2":     "22ee6cba7253f4c2",
	"farsync_owners":      "7e76e231b0401b07",
	"farsync_poll":        "1c5404435ddbf4f7",
	"farsync_poll_2":      "8a4f9b79c4f3e6ea",
	"farsync_primary":     "03d4ef8825d70e66",
	"farsync_register":    "18cde04029d5a43d",
	"farsync_renew":       "cb8292195246583d",
	"farsync_renew_2":     "ea305ceb18df6b7e",
	"farsync_renew_3":     "498e3f83a232f89d",
	"farsync_renew_4":     "0a805ecf379af6c1",
	"farsync_renew_5":     "b3456a7e450448d0",
	"farsync_renew_6":     "3015c98a4af3fc42",
	"farsync_renew_7":     "99b8a1449a76d118",
	"farsync_replace":     "e980db010cb822a2",
	"farsync_shown":       "584cbeaa1756e2ab",
	"farsync_sight":       "b27a0af340b8c066",
	"farsync_sight_2":     "c774f8d2862ecb8f",
	"farsync_survey":      "0ffeee2aae020b35",
	"farsync_survey_2":    "c3dad6c12c41f57c",
	"farsync_tell":        "33750f8bbb644a42",
	"farsync_write":       "dd86ee33ef6c7e07",
}

func TestProceduresNeverChangeUnderTheirNames(t *testing.T) {
	t.Parallel()
	now := map[string]string{}
	for _, statement := range mysql.Schema() {
		var text strings.Builder
		for line := range strings.Lines(statement) {
			if !strings.HasPrefix(line, "--") {
				text.WriteString(line)
			}
		}
		if rest, is := strings.CutPrefix(text.String(), "CREATE PROCEDURE IF NOT EXISTS "); is {
			name, _, _ := strings.Cut(rest, "(")
			now[name] = fmt.Sprintf("%x", sha256.Sum256([]byte(text.String())))[:16]
		}
	}
	for name, sum := range procedures {
		require.Equal(t, sum, now[name], "%s has changed, or is gone: Stores of earlier versions call it", name)
	}
	require.Equal(t, procedures, now, "a new procedure belongs here")
}

// TestMigrateBesideEarlierProcedures: a database that an earlier version has migrated, whose procedures are other ones. Migrate adds those
// of today, over and over while a Store is in use, which loses nothing and calls none of the earlier ones.
func TestMigrateBesideEarlierProcedures(t *testing.T) {
	t.Parallel()
	d := bareDatabase(t, serverOf(t, shared))
	later := regexp.MustCompile(`EXISTS farsync_(\w+_\d|bury_some|primary|engines|shown|ahead|create)\(`)
	for _, statement := range mysql.Schema() {
		if !later.MatchString(statement) {
			d.exec(t, statement)
		}
	}
	const earlier = `CREATE PROCEDURE %s BEGIN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'an earlier procedure'; END`
	d.exec(t, fmt.Sprintf(earlier, "farsync_ahead(q VARCHAR(99), i VARCHAR(99), m BIGINT)"))
	d.exec(t, fmt.Sprintf(earlier, "farsync_create(q VARCHAR(99), i VARCHAR(99), m BIGINT, s VARCHAR(99), k VARCHAR(99), u BIGINT, v LONGBLOB, t BIGINT)"))
	_, err := mysql.Open(within(t, soon), d.dsn(), nil)
	require.ErrorContains(t, err, "in a program by Migrate")
	require.NoError(t, mysql.Migrate(within(t, soon), d.dsn()))
	require.Contains(t, showsProcedure(t, d, "farsync_ahead_2"), "CAST(value AS CHAR(255))")
	require.Contains(t, showsProcedure(t, d, "farsync_ahead"), "an earlier procedure", "Stores of that version still call it")

	times, of := 2, time.Minute
	if suite.More(t, suite.MySQL) {
		times, of = 20, 10*time.Second
	}
	kept := lock(t, d.open(t, ttl(of)), "/kept")
	done := make(chan error, 1)
	go func() { // joined below
		for range times {
			if err := mysql.Migrate(within(t, soon), d.dsn()); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	one, other := d.open(t, ttl(of)), d.open(t, ttl(of))
	section := locktest.NewSection(t, 1)
	for migrating := true; migrating; {
		select {
		case err := <-done:
			require.NoError(t, err)
			migrating = false
		default:
		}
		for _, store := range []*farsync.Store{one, other} {
			lease := lock(t, store, "/used")
			section.Visit(t.Context(), lease, 1)
			require.NoError(t, lease.Release())
		}
	}
	require.NoError(t, kept.Err())
	require.NoError(t, kept.Release())
}

func showsProcedure(t *testing.T, d database, name string) string {
	t.Helper()
	return ask[string](t, d, "SELECT routine_definition FROM information_schema.routines WHERE routine_schema = ? AND routine_name = ?", d.name, name)
}

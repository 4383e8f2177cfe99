//go:build unix

package docstest_test

import (
	"database/sql"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/farsync/farsync/embedtest"
)

func openSQLite(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// A database runs the statements of docs/FENCE.md.
type database struct {
	// run runs the first statement, which makes the column.
	run func(statement string)
	// write runs the second with the balance, the token and the account, and returns how many rows it has changed.
	write func(statement string, balance, token, account int) string
	// same is how many rows it says to have changed when a row has these values already.
	same string
	// read returns the balance of the account.
	read func() string
}

// TestFenceRefusesOldTokens runs the SQL of docs/FENCE.md on the databases that it is for.
func TestFenceRefusesOldTokens(t *testing.T) {
	const table = "CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL); INSERT INTO account VALUES (1, 0), (2, 0);"
	const look = "SELECT balance FROM account WHERE id = 1;"
	for _, row := range []struct {
		name string
		open func(t *testing.T) database
	}{
		{"PostgreSQL", func(t *testing.T) database {
			server := embedtest.Postgres(t)
			do := func(text string) string { return run(t, exec.Command("psql", "-tAX", server.URL()), text) }
			do(table)
			return database{
				run: func(statement string) { do(statement) },
				write: func(statement string, balance, token, account int) string {
					said := do(fmt.Sprintf("PREPARE fenced AS %s EXECUTE fenced (%d, %d, %d);", statement, balance, token, account))
					return said[strings.LastIndexByte(said, ' ')+1:] // PREPARE, then UPDATE n
				},
				same: "1",
				read: func() string { return do(look) },
			}
		}},
		{"MySQL, MariaDB", func(t *testing.T) database {
			server := embedtest.MariaDB(t)
			host, port, err := net.SplitHostPort(server.Endpoint())
			require.NoError(t, err)
			do := func(text string) string {
				return run(t, exec.Command("mariadb", "--no-defaults", "-BN", "-h"+host, "-P"+port, "-uroot", "test"), text)
			}
			do(table)
			return database{
				run: func(statement string) { do(statement) },
				write: func(statement string, balance, token, account int) string {
					return do(fmt.Sprintf("PREPARE fenced FROM '%s'; EXECUTE fenced USING %d, %d, %d, %d; SELECT ROW_COUNT();",
						strings.TrimSuffix(strings.TrimSpace(statement), ";"), balance, token, account, token))
				},
				same: "0", // as the page says, unless the client asks otherwise
				read: func() string { return do(look) },
			}
		}},
		{"SQLite", func(t *testing.T) database {
			db := openSQLite(t, filepath.Join(t.TempDir(), "accounts.db"))
			do := func(text string, arguments ...any) sql.Result {
				result, err := db.ExecContext(t.Context(), text, arguments...)
				require.NoError(t, err)
				return result
			}
			do(table)
			return database{
				run: func(statement string) { do(statement) },
				write: func(statement string, balance, token, account int) string {
					n, err := do(statement, balance, token, account, token).RowsAffected()
					require.NoError(t, err)
					return fmt.Sprint(n)
				},
				same: "1",
				read: func() (balance string) {
					require.NoError(t, db.QueryRowContext(t.Context(), look).Scan(&balance))
					return balance
				},
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			printed := blocks(t, "docs/FENCE.md", "sql", "-- "+row.name)
			require.Len(t, printed, 1)
			column, write, ok := strings.Cut(strings.TrimSpace(printed[0]), "\n")
			require.True(t, ok, "two statements, the first of one line")
			db := row.open(t)
			db.run(column)
			require.Equal(t, "1", db.write(write, 10, 5, 1), "the first token")
			require.Equal(t, "1", db.write(write, 11, 5, 1), "the same token")
			require.Equal(t, db.same, db.write(write, 11, 5, 1), "the same write")
			require.Equal(t, "1", db.write(write, 12, 7, 1), "a newer token")
			require.Equal(t, "0", db.write(write, 99, 6, 1), "an older token")
			require.Equal(t, "12", db.read())
			require.Equal(t, "1", db.write(write, 20, 6, 2), "another row")
		})
	}
}

// TestConditionalWriteOfTheFencePage: the SQL of docs/FENCE.md for a resource that knows no tokens refuses what comes late after the new
// holder has taken over, and nothing before that. No update is lost in either case.
func TestConditionalWriteOfTheFencePage(t *testing.T) {
	printed := blocks(t, "docs/FENCE.md", "sql", "-- Compare and set: take over, write")
	require.Len(t, printed, 1)
	takeOver, write, ok := strings.Cut(strings.TrimSpace(printed[0]), "\n")
	require.True(t, ok, "two statements, the first of one line")
	db := openSQLite(t, filepath.Join(t.TempDir(), "documents.db"))
	do := func(text string, arguments ...any) (changed int64) {
		result, err := db.ExecContext(t.Context(), text, arguments...)
		require.NoError(t, err)
		changed, err = result.RowsAffected()
		require.NoError(t, err)
		return changed
	}
	read := func() (body string, version int64) {
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT body, version FROM document WHERE id = 1").Scan(&body, &version))
		return body, version
	}
	do("CREATE TABLE document (id integer PRIMARY KEY, body text NOT NULL, version bigint NOT NULL); INSERT INTO document VALUES (1, 'empty', 0)")

	// The earlier holder works, and is suspended before its next write.
	require.EqualValues(t, 1, do(takeOver, 1, 0))
	require.EqualValues(t, 1, do(write, "earlier", 1, 1))
	const earlier = 2 // the version that its last write has made

	// It is late after the new holder has taken over.
	_, version := read()
	require.EqualValues(t, 1, do(takeOver, 1, version))
	require.EqualValues(t, 0, do(write, "late", 1, earlier), "refused")
	require.EqualValues(t, 1, do(write, "later", 1, version+1))
	body, version := read()
	require.Equal(t, "later", body)

	// It is late before that: the write is done, and the new holder, who has read what was there before, does not undo it unawares.
	stale := version
	require.EqualValues(t, 1, do(write, "late", 1, version), "not refused")
	require.EqualValues(t, 0, do(takeOver, 1, stale), "the new holder begins again")
	body, _ = read()
	require.Equal(t, "late", body)
}

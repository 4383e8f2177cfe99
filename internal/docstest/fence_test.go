//go:build unix

package docstest_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
)

func openSQLite(t *testing.T, file string) *sql.DB {
	t.Helper()
	return openDB(t, "sqlite", file+"?_pragma=busy_timeout(10000)")
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
	// programs are what programs use, by the name of the driver.
	programs map[string]*sql.DB
	// native is a connection of pgx without database/sql.
	native *pgx.Conn
}

func openDB(t *testing.T, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// TestFenceRefusesOldTokens runs the SQL of docs/FENCE.md on the databases that it is for.
func TestFenceRefusesOldTokens(t *testing.T) {
	t.Parallel()
	const table = "CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL); INSERT INTO account VALUES (1, 0), (2, 0), (3, 0);"
	const look = "SELECT balance FROM account WHERE id = 1;"
	for _, row := range []struct {
		name string
		open func(t *testing.T) database
	}{
		{"PostgreSQL", func(t *testing.T) database {
			server := embedtest.Postgres(t)
			do := func(text string) string { return run(t, exec.Command("psql", "-tAX", server.URL()), text) }
			do(table)
			native, err := pgx.Connect(t.Context(), server.URL())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, native.Close(context.Background())) })
			return database{
				native: native,
				run:    func(statement string) { do(statement) },
				write: func(statement string, balance, token, account int) string {
					said := do(fmt.Sprintf("PREPARE fenced AS %s EXECUTE fenced (%d, %d, %d);", statement, balance, token, account))
					return said[strings.LastIndexByte(said, ' ')+1:] // PREPARE, then UPDATE n
				},
				same: "1",
				read: func() string { return do(look) },
				programs: map[string]*sql.DB{
					"pgx": openDB(t, "pgx", server.URL()), "pgx, simple protocol": openDB(t, "pgx", server.URL()+"&default_query_exec_mode=simple_protocol"),
				},
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
				programs: map[string]*sql.DB{
					"prepared": openDB(t, "mysql", server.DSN("test")), "interpolated": openDB(t, "mysql", server.DSN("test")+"?interpolateParams=true"),
				},
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
				programs: map[string]*sql.DB{"sqlite": db},
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			printed := blocks(t, "docs/FENCE.md", "sql", "-- "+row.name)
			require.Len(t, printed, 1)
			lines := strings.Split(strings.TrimSpace(printed[0]), "\n")
			require.Greater(t, len(lines), 2, "a statement a line")
			column, take, write := lines[0], lines[1:len(lines)-1], lines[len(lines)-1]
			db := row.open(t)
			db.run(column)
			require.Equal(t, "1", db.write(write, 10, 5, 1), "the first token")
			require.Equal(t, "1", db.write(write, 11, 5, 1), "the same token")
			require.Equal(t, db.same, db.write(write, 11, 5, 1), "the same write")
			require.Equal(t, "1", db.write(write, 12, 7, 1), "a newer token")
			require.Equal(t, "0", db.write(write, 99, 6, 1), "an older token")
			require.Equal(t, "12", db.read())
			require.Equal(t, "1", db.write(write, 20, 6, 2), "another row")
			for name, program := range db.programs {
				fenced(t, name, program, write, row.name == "PostgreSQL")
				noUpdateIsLost(t, name, program, take, write, row.name == "PostgreSQL")
			}
			if db.native != nil {
				var mark farsync.Token
				require.NoError(t, db.native.QueryRow(t.Context(), "SELECT fence - $1 FROM account WHERE id = 3", farsync.Token(1<<62)).Scan(&mark))
				require.EqualValues(t, 257, mark)
			}
		})
	}
}

// noUpdateIsLost has two holders read a balance before either of them writes, the earlier one after it was suspended. Take has one statement that
// returns the balance, or a second that reads it. Parameters of PostgreSQL are numbered.
func noUpdateIsLost(t *testing.T, name string, db *sql.DB, take []string, write string, numbered bool) {
	_, err := db.ExecContext(t.Context(), "UPDATE account SET balance = 100, fence = 0 WHERE id = 2")
	require.NoError(t, err, name)
	taken := func(token farsync.Token) (balance int, err error) {
		arguments := []any{token, 2}
		if !numbered {
			arguments = append(arguments, token)
		}
		if len(take) == 1 {
			return balance, db.QueryRowContext(t.Context(), take[0], arguments...).Scan(&balance)
		}
		result, err := db.ExecContext(t.Context(), take[0], arguments...)
		require.NoError(t, err, name)
		n, err := result.RowsAffected()
		require.NoError(t, err, name)
		if n == 0 {
			return 0, sql.ErrNoRows
		}
		return balance, db.QueryRowContext(t.Context(), take[1], 2).Scan(&balance)
	}
	pay := func(balance int, token farsync.Token) int64 {
		return fencedWrite(t, name, db, write, numbered, balance, token, 2)
	}
	earlier, err := taken(10)
	require.NoError(t, err, name)
	later, err := taken(20)
	require.NoError(t, err, name)
	require.Zero(t, pay(earlier-10, 10), "%s: the payment would be lost", name)
	require.EqualValues(t, 1, pay(later-30, 20), name)
	_, err = taken(10)
	require.ErrorIs(t, err, sql.ErrNoRows, "%s: the earlier holder comes back", name)
	balance, err := taken(30)
	require.NoError(t, err, name)
	require.Equal(t, 70, balance, name)
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

// fenced has a program write with tokens that differ in the last of 63 bits: a database that compares them as floats takes them for
// one. Those of PostgreSQL are numbered.
func fenced(t *testing.T, name string, db *sql.DB, statement string, numbered bool) {
	_, err := db.ExecContext(t.Context(), "UPDATE account SET balance = 0, fence = 0 WHERE id = 3")
	require.NoError(t, err, name)
	write := func(balance int, token farsync.Token) int64 {
		return fencedWrite(t, name, db, statement, numbered, balance, token, 3)
	}
	const late = farsync.Token(1<<62 | 256)
	require.EqualValues(t, 1, write(1, late), name)
	require.EqualValues(t, 1, write(2, late+1), name)
	require.EqualValues(t, 0, write(3, late), "%s: an older token", name)
	var mark farsync.Token
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT fence FROM account WHERE id = 3").Scan(&mark), name)
	require.Equal(t, late+1, mark, name)
}

// fencedWrite runs the statement that writes, and returns how many rows it has changed. Parameters of PostgreSQL are numbered.
func fencedWrite(t *testing.T, name string, db *sql.DB, statement string, numbered bool, balance int, token farsync.Token, account int) int64 {
	t.Helper()
	arguments := []any{balance, token, account}
	if !numbered {
		arguments = append(arguments, token)
	}
	result, err := db.ExecContext(t.Context(), statement, arguments...)
	require.NoError(t, err, name)
	n, err := result.RowsAffected()
	require.NoError(t, err, name)
	return n
}

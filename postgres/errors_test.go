package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// TestOutcomesOfSeverities: a server that fails a statement has rolled it back, and one that ends may carry it out in its recovery.
func TestOutcomesOfSeverities(t *testing.T) {
	for _, row := range []struct {
		severity, code string
		sent           bool
		want           driver.Outcome
	}{
		{"ERROR", "XX000", true, driver.Refused}, // could not extend file: File too large
		{"PANIC", "XX000", true, driver.Unknown}, // could not write to log file: File too large
		{"PANIC", "53100", true, driver.Unknown}, // the same, of a full disk
		{"ERROR", "53100", true, driver.NotDone},
		{"FATAL", "53100", false, driver.NotDone},
	} {
		err := judge(&pgconn.PgError{Severity: "PANIK", SeverityUnlocalized: row.severity, Code: row.code}, row.sent)
		require.Equal(t, row.want, (*service)(nil).Outcome(err), row)
	}
}

package sqlstore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatements(t *testing.T) {
	require.Equal(t, map[string][]string{
		"one":  {"-- why\nSELECT 1\n"},
		"used": {"SELECT 2\n", "SELECT\n  3\n"},
		"in":   {"INSERT (\nSELECT 2\n", "SELECT\n  3\n)\n"},
		"last": {"SELECT '; -- use: one'\n"},
	}, Statements(`-- What stands before the first is for the reader.
-- name: one
-- why
SELECT 1

-- name: used
SELECT 2
;
SELECT
  3
-- name: in
INSERT (
-- use: used
)
-- name: last
SELECT '; -- use: one'
`))
	require.Empty(t, Statements("SELECT 1"))
}

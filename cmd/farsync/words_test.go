//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// TestWordsAreForPeople: an error says what is wrong, and leaves out what a person can do nothing with.
func TestWordsAreForPeople(t *testing.T) {
	for said, err := range map[string]error{
		`lock /x: the time of --wait has passed (waiting behind "vm pid 1")`: fmt.Errorf("farsync: lock /x: %w: %w (waiting behind %q (entry %q))",
			context.DeadlineExceeded, errWaited, "vm pid 1", `a"b`),
		"ask /x: the time has passed": fmt.Errorf("farsync: ask /x: %w", context.DeadlineExceeded),
		`lock /x: held by entry "7"`:  errors.New(`lock /x: held by entry "7"`),
	} {
		require.Equal(t, said, words(err))
	}
	refused := fmt.Errorf("lock /x: %w", &pgconn.PgError{Severity: "ERROR", Code: "42501", Message: "permission denied for table farsync_entries"})
	require.Contains(t, words(refused), "permission denied for table farsync_entries")
	require.Contains(t, words(refused), "grant the user SELECT, INSERT, UPDATE and DELETE")
}

// TestTitlesAreWrapped: what is wrong with a service is read to its end.
func TestTitlesAreWrapped(t *testing.T) {
	require.Equal(t, []string{"one two", "three"}, wrap("one two three", 8))
	require.Equal(t, []string{"redis://long.example.com", "x"}, wrap("redis://long.example.com x", 8))
	require.Equal(t, []string{""}, wrap("", 8))
}

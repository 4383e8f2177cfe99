//go:build unix

package embedtest_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
)

// unwiredVariable makes this test binary one whose TestMain does not call Main.
const unwiredVariable = "FARSYNC_EMBEDTEST_UNWIRED"

func TestMain(m *testing.M) {
	if os.Getenv(unwiredVariable) != "" {
		os.Exit(m.Run())
	}
	embedtest.Main(m)
}

func TestTestMainWithoutMainIsNamedInTheError(t *testing.T) {
	t.Setenv(unwiredVariable, "1")
	t.Setenv("FARSYNC_EMBEDTEST_PROGRAM", "")
	_, err := embedtest.StartEtcd(within(t, soon), t.TempDir(), 1)
	require.ErrorContains(t, err, "does TestMain call embedtest.Main?")
}

func TestChildThatStartsServersIsRefused(t *testing.T) {
	t.Setenv("FARSYNC_EMBEDTEST_CHILD", "{}")
	_, err := embedtest.StartEtcd(within(t, soon), t.TempDir(), 1)
	require.ErrorContains(t, err, "main must call embedtest.Child first")
}

func TestErrorOfAServerThatCannotStartShowsItsLog(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(dir+"/m0", 0o700))
	require.NoError(t, os.WriteFile(dir+"/m0/data", []byte("not a directory"), 0o600))
	start := time.Now()
	_, err := embedtest.StartEtcd(within(t, soon), dir, 1)
	require.ErrorContains(t, err, "not a directory")
	require.Less(t, time.Since(start), soon, "it does not wait for ctx")
}

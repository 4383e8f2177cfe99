//go:build linux

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLongTextsOfOthersAreCut: whatever another program has written as a name, a note or an ID, each verb that shows
// it writes some of it, and how long it is, and the rows of other locks grow by nothing.
func TestLongTextsOfOthersAreCut(t *testing.T) {
	t.Parallel()
	store := file(t)
	_, closed := open(t, store)
	closed()
	do := byHand(t, store)
	const columns = "INSERT INTO farsync_entries (queue, id, kind, units, version, since, value) VALUES "
	long := strings.Repeat("\x1b", 900_000)
	do(t, columns+"('/name', 'name', 'exclusive', 1, 1, 0, CAST(? AS BLOB))", long)
	do(t, columns+"('/id', ?, 'exclusive', 1, 1, 0, NULL)", long)
	for i := range 100 {
		do(t, columns+fmt.Sprintf("('/other/%d', ?, 'exclusive', 1, 1, 0, NULL)", i), fmt.Sprint("other-", i))
	}
	bounded := func(said string, most int, arguments ...string) {
		t.Helper()
		t.Logf("%q: %d bytes", arguments, len(said))
		require.Less(t, len(said), most, "%q", arguments)
		require.NotEmpty(t, said, "%q", arguments)
	}
	for _, c := range []struct {
		most      int
		arguments []string
	}{
		{60_000, []string{"who"}},
		{60_000, []string{"who", "--tree"}},
		{2_000_000, []string{"who", "--json"}},
		{60_000, []string{"doctor"}},
		{1_000_000, []string{"doctor", "--json"}},
		{10_000, []string{"ask", "--wait", "1ms", "/name"}},
		{10_000, []string{"run", "-n", "/name", "--", "true"}},
		{10_000, []string{"run", "-v", "-n", "/id", "--", "true"}},
		{10_000, []string{"run", "--wait", "1s", "/name", "--", "true"}},
		{10_000, []string{"run", "--json", "-n", "/id", "--", "true"}},
	} {
		p := start(t, store, c.arguments...)
		p.code(t)
		bounded(p.out.String()+p.err.String(), c.most, c.arguments...)
	}
	for _, arguments := range [][]string{{"watch"}, {"watch", "--json"}} {
		p := start(t, store, arguments...)
		until(t, "it has written the last lock", func() bool { return strings.Count(p.out.String(), "\n") >= 102 })
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		require.Zero(t, p.code(t))
		bounded(p.out.String()+p.err.String(), 2_000_000, arguments...)
	}
}

//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/legible"
)

// TestOddEntriesAreRowsAmongOthers: what another program has put into a queue hides no lock from the verbs that look at all of them, and reaches no
// terminal as it is.
func TestOddEntriesAreRowsAmongOthers(t *testing.T) {
	t.Parallel()
	store := file(t)
	s, closed := open(t, store)
	defer closed()
	_, err := farsync.NewMutex(s, "/held").Lock(t.Context())
	require.NoError(t, err)
	do := byHand(t, store)
	const columns = "INSERT INTO farsync_entries (queue, id, kind, units, version, since) VALUES "
	do(t, columns+"('/a/units', ?, 'permit', 'many', 1, 0)", "units")
	do(t, columns+"('/a/version', ?, 'exclusive', 1, 'first', 0)", "version")
	do(t, columns+"('/a/since', ?, 'exclusive', 1, 1, 'long ago')", "since")
	do(t, columns+"('/a/year', ?, 'exclusive', 1, 1, 9000000000000000000)", "year")
	do(t, columns+"('/a/id', ?, 'exclusive', 1, 1, 0)", "\x1b[2Jid\u202e")
	paths := []string{"/a/id", "/a/since", "/a/units", "/a/version", "/a/year", "/held"}

	p := start(t, store, "who", "--json")
	require.Zero(t, p.code(t), p.err.String())
	var shown whoJSON
	require.NoError(t, json.Unmarshal([]byte(p.out.String()), &shown), p.out.String())
	var found []string
	for _, lock := range shown.Locks {
		found = append(found, lock.Path)
	}
	require.Equal(t, paths, found)

	p = start(t, store, "who")
	require.Zero(t, p.code(t), p.err.String())
	for _, path := range paths {
		require.Contains(t, p.out.String(), path)
		if path != "/held" {
			require.Zero(t, start(t, store, "who", "--json", path).code(t), path)
		}
	}
	p = start(t, store, "doctor")
	require.Equal(t, codeNothing, p.code(t), p.err.String())
	require.Contains(t, p.out.String(), `\x1b[2Jid\u202e belongs to no session`)
	require.Contains(t, p.out.String(), "year belongs to no session")
	require.NotContains(t, p.out.String(), "\x1b")
}

// TestBreakNamesAnEntryWithoutASession below the table that it shows, as who does: it is deleted in another way than a
// lease is ended.
func TestBreakNamesAnEntryWithoutASession(t *testing.T) {
	t.Parallel()
	store := file(t)
	s, closed := open(t, store)
	defer closed()
	do := byHand(t, store)
	do(t, "INSERT INTO farsync_entries (queue, id, kind, units, version, since) VALUES ('/x', ?, 'exclusive', 1, 1, 0)", "row-1")
	who := start(t, store, "who", "/x")
	require.Zero(t, who.code(t), who.err.String())
	line := only(t, `\n(/x: token \d+: row-1 belongs to no session, .*)\n$`, who.out.String())
	for _, asJSON := range []bool{false, true} {
		var out, errs bytes.Buffer
		b := &breaking{app: &app{json: asJSON, stdout: &out, stderr: &errs}, path: "/x"}
		require.NoError(t, b.confirm(t.Context(), s, &location.Location{}, strings.NewReader("yes\n")))
		shown := out.String()
		if asJSON {
			require.Empty(t, shown)
			shown = errs.String()
		}
		require.Contains(t, shown, "\n"+line+"\nEnd this lease? ")
	}
}

// TestEntryWithoutASessionIsNotAsked: no process would ever hear, so ask and break say so at once, and break how to delete it. A
// holder who can hear and holds beside it is asked all the same.
func TestEntryWithoutASessionIsNotAsked(t *testing.T) {
	t.Parallel()
	store := file(t)
	s, closed := open(t, store)
	defer closed()
	lease, err := farsync.NewRWMutex(s, "/x").RLock(t.Context())
	require.NoError(t, err)
	byHand(t, store)(t, "INSERT INTO farsync_entries (queue, id, kind, units, version, since) VALUES ('/x', ?, 'read', 1, 1, 0)", "row-1")
	list, err := s.Participants(t.Context(), "/x")
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.True(t, list[1].Held)
	require.Equal(t, "row-1", list[1].ID)
	token := list[1].Token.String()
	const why = "entry row-1 belongs to no session, so nobody can be asked to give it back: remove it if nothing needs it"

	for _, arguments := range [][]string{{"ask", "/x"}, {"ask", "--wait", "60", "/x"}} {
		p := start(t, store, arguments...)
		require.Equal(t, codeNoPerm, p.code(t), p.err.String())
		require.Equal(t, "farsync: ask /x: "+why+"\n", p.err.String())
		require.Empty(t, p.out.String())
	}
	<-lease.Asked()
	require.NoError(t, lease.Release())

	remove := []string{"break", "--token", token, "--yes", "--delete", "/x"}
	for _, more := range [][]string{{}, {"--ask", "0"}} {
		p := start(t, store, append([]string{"-q", "break", "--token", token, "--yes", "/x"}, more...)...)
		require.Equal(t, codeNoPerm, p.code(t), p.err.String())
		require.Equal(t, "farsync: break /x: "+why+", with farsync "+strings.Join(remove, " ")+"\n", p.err.String())
	}
	p := start(t, store, remove...)
	require.Zero(t, p.code(t), p.err.String())
	p = start(t, store, "ask", "/x")
	require.Zero(t, p.code(t), p.err.String())
	require.Contains(t, p.err.String(), "nobody holds /x")
}

// TestKeyInTheQueuesPlaceIsNoLease: a key of another type where Redis has the queue holds the lock, and has no token. No verb advises to
// break it, and break on a terminal does not ask whether to.
func TestKeyInTheQueuesPlaceIsNoLease(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	store := "redis://" + server.Endpoint() + "?fresh=1"
	s, closed := open(t, store)
	defer closed()
	client := goredis.NewClient(&goredis.Options{Addr: server.Endpoint()})
	t.Cleanup(func() { _ = client.Close() })
	require.NoError(t, client.Set(t.Context(), "farsync:{farsync}:q:/x", "a note", 0).Err())
	who := start(t, store, "who", "/x")
	require.Zero(t, who.code(t), who.err.String())
	line := "/x: token 0: farsync:{farsync}:q:/x belongs to no session, and blocks the queue for ever: delete it by a client of the service: " +
		"it has no token for farsync break\n"
	require.True(t, strings.HasSuffix(who.out.String(), "\n"+line), who.out.String())
	var out bytes.Buffer
	b := &breaking{app: &app{stdout: &out}, path: "/x"}
	err := b.confirm(t.Context(), s, &location.Location{}, strings.NewReader("yes\n"))
	failed, ok := errors.AsType[*exit](err)
	require.True(t, ok, err)
	require.Equal(t, codeNothing, failed.code)
	require.ErrorContains(t, err, "no lease holds /x")
	require.True(t, strings.HasSuffix(out.String(), "\n"+line), out.String())
	require.NoError(t, client.Del(t.Context(), "farsync:{farsync}:q:/x").Err())
	require.Zero(t, start(t, store, "run", "-n", "/x", "--", "true").code(t))
}

// TestTextOfOthersReachesNoTerminal as it is: what it would do there, or hide, is written out, by every verb that names a holder or an entry.
func TestTextOfOthersReachesNoTerminal(t *testing.T) {
	t.Parallel()
	const hostile = "x\x1b[2J\u202e\u3164\u009b\u2800\nroot holds /leader"
	store := file(t)
	s, closed := open(t, store)
	defer closed()
	_, err := farsync.NewElection(s, "/leader").Campaign(t.Context(), hostile)
	require.NoError(t, err)
	do := byHand(t, store)
	do(t, "INSERT INTO farsync_entries (queue, id, kind, units, version, since) VALUES ('/stray', ?, 'exclusive', 1, 1, 0)", hostile)
	for _, c := range []struct {
		shows     string
		arguments []string
	}{
		{`\u202e\u3164\u009b\u2800\nroot`, []string{"who"}},
		{`\u202e\u3164\u009b\u2800\nroot`, []string{"who", "--tree"}},
		{`\u202e\u3164\u009b\u2800\nroot`, []string{"doctor"}},
		{`\u202e\u3164\u009b\u2800\nroot`, []string{"ask", "--wait", "1ms", "/leader"}},
		{`\u202e\u3164\u009b\u2800\nroot`, []string{"run", "-n", "/stray", "--", "true"}},
		{`\u202e\u3164\u009b\u2800\nroot`, []string{"run", "--wait", "1m", "/stray", "--", "true"}},
		{`\u202e\u3164\u009b\u2800\nroot`, []string{"run", "-n", "/leader", "--", "true"}},
	} {
		p := start(t, store, c.arguments...)
		p.code(t)
		said := p.out.String() + p.err.String()
		t.Logf("%q: %s", c.arguments, said)
		require.Contains(t, said, c.shows, c.arguments)
		for line := range strings.SplitSeq(said, "\n") {
			require.Equal(t, legible.Text(line), line, c.arguments)
			require.False(t, strings.HasPrefix(line, "root holds"), c.arguments)
		}
	}
}

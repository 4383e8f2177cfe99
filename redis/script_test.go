package redis

import (
	"regexp"
	"strings"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// TestScriptIsOfOneNamespaceAndOneRun: a server that knows it has been introduced to that namespace, in that run.
func TestScriptIsOfOneNamespaceAndOneRun(t *testing.T) {
	seen := map[string][2]string{}
	for _, of := range [][2]string{{"a", "1"}, {"a", "2"}, {"b", "1"}} {
		s, err := NewService(nil, &Options{Namespace: of[0]})
		require.NoError(t, err)
		hash := s.(*service).script(of[1]).Hash()
		require.NotContains(t, seen, hash)
		seen[hash] = of
		require.Equal(t, hash, s.(*service).script(of[1]).Hash(), "whoever makes it")
	}
	// The digits of the kinds of targets in the script are those of package driver.
	require.Contains(t, scriptFile, "changed, registered, joined, told = '1', '2', '3', '4'")
	require.Equal(t, []driver.What{0, 1, 2, 3, 4},
		[]driver.What{driver.Gone, driver.Changed, driver.Registered, driver.Joined, driver.Told})
	require.Equal(t, width, strings.Count("queue kind units revision version since value session id", " ")+1)
	require.Contains(t, scriptFile, "'queue', 'kind', 'units', 'revision', 'version', 'since', 'value', 'session')")
}

// TestCommandsOfTheScriptAreChecked: Open refuses a user who may not use one of them.
func TestCommandsOfTheScriptAreChecked(t *testing.T) {
	begin, end := strings.Index(scriptFile, "if op == 'open'"), strings.Index(scriptFile, "redis.acl_check_cmd(")
	seen := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?:call|upon)\('([A-Z]+)'`).FindAllStringSubmatch(scriptFile, -1) {
		seen[match[1]] = true
		require.Contains(t, scriptFile[begin:end], "{'"+match[1]+"'")
	}
	require.Greater(t, len(seen), 20)
}

func TestParseRefusesWhatIsNoneOfTheScripts(t *testing.T) {
	for _, row := range []struct {
		list []string
		want error
	}{
		{nil, errAnswer},
		{[]string{"OK"}, errAnswer},
		{[]string{"gone"}, driver.ErrGone},
		{[]string{"stray", "0", "0", "m-1"}, errStray},
		{[]string{"ok"}, nil},
	} {
		_, err := parse(row.list)
		require.ErrorIs(t, err, row.want, row.list)
	}
	a, err := parse([]string{
		"ok", "1", "1", "3 2", "7", "9700000", "/q", "permit", "2", "5", "1", "1000000", "x", "s", "permit-A", "",
	})
	require.NoError(t, err)
	require.True(t, a.all && a.more && a.n == 1)
	require.Equal(t, driver.Register{Value: "3 2", Version: 7}, a.register)
	require.Equal(t, 9700*time.Millisecond, a.silence)
	require.Len(t, a.entries, 1)
	e := a.entries[0]
	require.EqualValues(t, 1, e.Since.Unix())
	e.Since = e.Since.Truncate(0)
	require.Equal(t, "permit-A", e.ID)
	require.Equal(t, driver.Permit, e.Kind)
	require.EqualValues(t, 2, e.Units)
	require.EqualValues(t, 5, e.Revision)
	require.Equal(t, "s", e.Session)
}

// TestRequestInAClosedLinkEndsNoSession: a request in a link that is closed was not sent, and the session
// lives on.
func TestRequestInAClosedLinkEndsNoSession(t *testing.T) {
	s, err := NewService(&client.UniversalOptions{Addrs: []string{"127.0.0.1:1"}}, nil)
	require.NoError(t, err)
	in := newSession(s.(*service), 0)
	link := in.newLink()
	require.NoError(t, link.Close())
	require.Equal(t, driver.NotDone, s.Outcome(link.Ping(t.Context()).Err()))
	in.Drop()
}

package redis

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScriptsAreOfOneNamespaceAndOneRun: a server that knows one has been introduced to that namespace, in that run.
func TestScriptsAreOfOneNamespaceAndOneRun(t *testing.T) {
	seen := map[string]string{}
	for _, of := range [][2]string{{"a", "1"}, {"a", "2"}, {"b", "1"}} {
		e := newEdition(of[0], of[1])
		require.Greater(t, len(e.scripts), 15)
		for name, s := range e.scripts {
			require.Empty(t, seen[s.hash], "%s of %v is %s", name, of, seen[s.hash])
			seen[s.hash] = name
			require.True(t, strings.HasPrefix(s.text, "-- farsync "+of[0]+"\n"))
		}
	}
	one, two := newEdition("a", "1"), newEdition("a", "1")
	require.Equal(t, one, two, "whoever makes it")
}

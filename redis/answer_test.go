package redis

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// FuzzAnswer: what stands in the hashes of a namespace may have been written by any program.
func FuzzAnswer(f *testing.F) {
	f.Add("ok\n1\n0\n\n0\n0\n/q\nexclusive\n1\n7\n1\n1700000000000000\nhost\ns1\ne1\n1")
	f.Add("ok\n1\n0\n3\n2\n9700000\n/q\npermit\n-1\n99999999999999999999\nx\n\n\n\n")
	f.Add("gone")
	f.Add("")
	f.Add("what\n\n\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		list := strings.Split(text, "\n")
		a, err := parse(list)
		if err != nil {
			require.Empty(t, a.entries)
			return
		}
		require.Len(t, a.entries, max(0, len(list)-header)/width)
		for i, e := range a.entries {
			require.Equal(t, list[header+i*width], e.Queue)
			require.Equal(t, list[header+i*width+width-1], e.ID)
			known := e.Kind.String() == list[header+i*width+1]
			require.True(t, known || e.Kind == driver.Foreign, "%v", e.Kind)
		}
	})
}

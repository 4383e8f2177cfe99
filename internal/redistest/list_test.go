package redistest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
)

// TestListEndsBehindAnEntryWithoutHash: List reads on behind the last entry of a page, also if a person has removed the hash of
// that one.
func TestListEndsBehindAnEntryWithoutHash(t *testing.T) {
	t.Parallel()
	const page = 256
	server := embedtest.Redis(t)
	admin, in := newClient(t, server.Endpoint()), openSession(t, server.Endpoint(), time.Hour)
	var last driver.Entry
	for range page {
		last = create(t, in, "/list", driver.Read).Self
	}
	require.NoError(t, admin.Del(within(t, soon), prefix+"e:"+last.ID).Err())
	v, err := in.List(within(t, soon), "/list", 2*page)
	require.NoError(t, err)
	require.Len(t, v.Entries, page)
	require.True(t, v.All)
	require.Equal(t, last.Revision, v.Entries[page-1].Revision)
}

package zk

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// TestUnprovedCreateShowsNothingAhead: a create that was found again on another connection rests on Syncs until a quorum has
// proved the session. If that fails, its View must not show the readers ahead either: none of them keeps a reader waiting,
// so it would be granted on the word of a leader that may be cut off.
func TestUnprovedCreateShowsNothingAhead(t *testing.T) {
	w := newWire(time.Second, 0, nil)
	s := &session{service: &service{}, wire: w, mark: newMark()}
	w.end(errEnded) // every request fails
	names := &read{call: *newCall(newFrame(opGetChildren))}
	var ids []string
	for i, sequence := range []string{"0000000001", "0000000002"} {
		names.names = append(names.names, newName(s.mark, driver.Read, 1)+sequence)
		ids = append(ids, s.path("/q")+"/"+names.names[i])
	}
	e := driver.Entry{Queue: "/q", ID: ids[1], Kind: driver.Read, Units: 1}

	v, err := s.joined(t.Context(), e, names, driver.Register{})
	require.NoError(t, err)
	require.True(t, v.All)
	require.Len(t, v.Entries, 1)

	w.renewed(time.Now(), opSync)
	v, err = s.joined(t.Context(), e, names, driver.Register{})
	require.NoError(t, err)
	require.False(t, v.All)
	require.Empty(t, v.Entries, "the caller takes them for all that keeps it waiting")
}

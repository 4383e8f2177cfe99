package sqlstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// A row is one of the columns that entries are read from.
type row []any

func (row) Next() bool { return true }
func (row) Err() error { return nil }
func (r row) Scan(into ...any) error {
	for i, to := range into {
		switch to := to.(type) {
		case *string:
			*to = r[i].(string)
		case *int64:
			*to = int64(r[i].(int))
		case *[]byte:
			*to, _ = r[i].([]byte)
		}
	}
	return nil
}

func TestScanEntry(t *testing.T) {
	e, err := scanEntry(row{"id", "/q", "read", 1, 7, 2, 1_000_001, []byte("value"), "session"})
	require.NoError(t, err)
	require.Equal(t, driver.Entry{
		ID: "id", Queue: "/q", Kind: driver.Read, Units: 1, Revision: 7, Version: 2, Since: time.UnixMicro(1_000_001),
		Value: []byte("value"), Session: "session",
	}, e)
	e, err = scanEntry(row{"id", "/q", "another program's", 1, 7, 2, 0, nil, ""})
	require.NoError(t, err)
	require.Equal(t, driver.Foreign, e.Kind)
	require.True(t, e.Since.IsZero())
	for k := driver.Exclusive; k <= driver.Candidate; k++ {
		e, err = scanEntry(row{"id", "/q", k.String(), 1, 7, 2, 0, nil, ""})
		require.NoError(t, err)
		require.Equal(t, k, e.Kind)
	}
}

func entry(id string, k driver.Kind) driver.Entry { return driver.Entry{Queue: "/q", ID: id, Kind: k} }

// listed are entries as statements return them: newest first.
func listed(ids ...string) (list []driver.Entry) {
	for _, id := range ids {
		list = append(list, entry(id, driver.Permit))
	}
	return list
}

func TestView(t *testing.T) {
	size := driver.Entry{Kind: driver.Foreign, Value: []byte("3 3"), Version: 4}
	at := func(id string, revision int64) driver.Entry {
		e := entry(id, driver.Permit)
		e.Revision = revision
		return e
	}
	for _, row := range []struct {
		name  string
		of    string
		list  []driver.Entry
		limit int
		want  driver.View
	}{
		{"an empty queue", "", nil, 2, driver.View{All: true}},
		{"nothing ahead", "c", listed("c"), 2, driver.View{Self: entry("c", driver.Permit), All: true}},
		{"as many as fit", "c", listed("c", "b", "a"), 2, driver.View{Self: entry("c", driver.Permit), All: true, Entries: listed("a", "b")}},
		{"more, of which the nearest are shown", "d", listed("d", "c", "b", "a"), 2, driver.View{Self: entry("d", driver.Permit), Entries: listed("b", "c")}},
		{"of a newcomer", "", listed("c", "b", "a"), 2, driver.View{Entries: listed("b", "c")}},
		{"with a register", "c", append([]driver.Entry{size}, listed("c", "b")...), 2, driver.View{
			Self: entry("c", driver.Permit), All: true, Entries: listed("b"), Register: driver.Register{Value: "3 3", Version: 4},
		}},
		{"with an entry without ID, which another program has written", "c", []driver.Entry{at("", 2), size, at("c", 3), at("a", 1)}, 2, driver.View{
			Self: at("c", 3), All: true, Entries: []driver.Entry{at("a", 1), at("", 2)}, Register: driver.Register{Value: "3 3", Version: 4},
		}},
		{"with a blank ID, and no register", "c", []driver.Entry{at(" ", 2), at("c", 3)}, 2, driver.View{
			Self: at("c", 3), All: true, Entries: []driver.Entry{at(" ", 2)},
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.of == "" {
				row.want.Self = driver.Entry{Queue: "/q", Kind: driver.Permit}
			}
			got, err := view(driver.Entry{Queue: "/q", ID: row.of, Kind: driver.Permit}, row.list, row.limit)
			require.NoError(t, err)
			for i := range got.Entries {
				if got.All {
					require.Equal(t, i, got.Entries[i].Ahead)
				}
				got.Entries[i].Ahead = 0
			}
			if len(got.Entries) == 0 {
				got.Entries = nil
			}
			require.Equal(t, row.want, got)
		})
	}
	_, err := view(entry("c", driver.Permit), nil, 2)
	require.ErrorIs(t, err, driver.ErrGone)
	_, err = view(entry("c", driver.Permit), []driver.Entry{size}, 2)
	require.ErrorIs(t, err, driver.ErrGone)
	got, err := view(driver.Entry{Queue: "/q", Kind: driver.Exclusive}, []driver.Entry{size}, 2)
	require.NoError(t, err)
	require.Zero(t, got.Register, "only a permit has a size")
}

// TestMoves: what was ahead and is not there any more, and nothing else.
func TestMoves(t *testing.T) {
	at := func(id string, revision int64) driver.Entry {
		return driver.Entry{Queue: "/q", ID: id, Revision: revision}
	}
	v := driver.View{Self: at("self", 5), Entries: []driver.Entry{at("a", 1), at("c", 3)}, All: true}
	gone := func(e driver.Entry) []driver.Target { return []driver.Target{{Entry: e, What: driver.Gone}} }
	require.True(t, moves(gone(at("b", 2)), v))
	require.True(t, moves(gone(at("b", 0)), v), "its revision is not known, so it is ahead")
	require.True(t, moves(append(gone(at("a", 1)), gone(at("b", 2))...), v))
	require.False(t, moves(gone(at("a", 1)), v), "it is there")
	require.False(t, moves(gone(at("self", 5)), v))
	require.False(t, moves(gone(at("d", 6)), v), "it is behind")
	require.False(t, moves(gone(driver.Entry{Queue: "/other", ID: "b", Revision: 2}), v), "another queue is not shown")
	require.False(t, moves([]driver.Target{{Entry: at("b", 2), What: driver.Changed}}, v))
	require.False(t, moves(nil, v))
}

func TestTargetOf(t *testing.T) {
	e := driver.Entry{Queue: "/q", ID: "id", Kind: driver.Write, Version: 3, Ahead: 2}
	for what, want := range map[driver.What]Target{
		driver.Gone: {Name: "id", What: "gone", Ahead: 2}, driver.Changed: {Name: "id", What: "changed", Ahead: 2},
		driver.Told: {Name: "id", What: "told", Ahead: 4}, driver.Registered: {Name: "=/q", What: "registered", Ahead: 4},
		driver.Joined: {Name: "+/q", What: "joined", Ahead: 4},
	} {
		want.ID, want.Queue, want.Kind, want.Version = "id", "/q", "write", 3
		require.Equal(t, want, targetOf(driver.Target{Entry: e, What: what}))
	}
}

// TestEntryThatStandsInAnotherQueueIsGone: another program has moved it, and the first row is the entry that was ahead
// of it.
func TestEntryThatStandsInAnotherQueueIsGone(t *testing.T) {
	_, err := view(driver.Entry{Queue: "/q", ID: "moved"}, []driver.Entry{{Queue: "/q", ID: "ahead"}}, 1)
	require.ErrorIs(t, err, driver.ErrGone)
}

package live

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// TestSurveyEndsWhereTextsAreTooMany, though its entries are few, and says so.
func TestSurveyEndsWhereTextsAreTooMany(t *testing.T) {
	const limit = 20
	bubble(t, &Options{Limit: limit}, func(p *play) {
		long := strings.Repeat("/"+strings.Repeat("x", 99), 9)
		for i := range limit - 1 {
			p.lock("neighbour", fmt.Sprintf("%s/%02d", long, i))
		}
		answer := p.get("snapshot").Body.Bytes()
		var all told
		require.NoError(p, json.Unmarshal(answer, &all))
		require.True(p, all.Stores[0].More)
		require.True(p, all.Stores[0].MoreText)
		require.NotEmpty(p, all.Locks)
		require.Less(p, len(all.Locks), limit-1)
		require.Less(p, len(answer), 2*limit*mostOfEntry)
	})
}

// TestOrdinaryEntriesFillTheLimit: what is kept of their texts is no bound for them.
func TestOrdinaryEntriesFillTheLimit(t *testing.T) {
	const limit = 100
	bubble(t, &Options{Limit: limit}, func(p *play) {
		for i := range limit {
			p.lock("worker-1.example.com pid 4711", fmt.Sprintf("/jobs/nightly/%08d", i))
		}
		var all told
		require.NoError(p, json.Unmarshal(p.get("snapshot").Body.Bytes(), &all))
		require.Len(p, all.Locks, limit)
		require.False(p, all.Stores[0].More)
		require.False(p, all.Stores[0].MoreText)
	})
}

// TestTextsOfAnEntryAreBounded, each of them, whatever a neighbour has written.
func TestTextsOfAnEntryAreBounded(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	hostile := farsync.Participant{Holder: big, ID: big, Session: big, Note: big, WaitsFor: big, Under: []string{"/a/1", big, "/b/2"}}
	left := allowance(1 << 20)
	p := left.keep(farsync.LockInfo{Path: "/a", Participants: []farsync.Participant{hostile}}).Participants[0]
	for most, texts := range map[int][]string{mostText: {p.Holder, p.Session, p.Note, p.WaitsFor}, mostID: {p.ID}} {
		for _, text := range texts {
			require.Equal(t, strings.Repeat("x", most)+"…", text)
		}
	}
	require.Equal(t, []string{"/a/1"}, p.Under, "what farsync has not written")
	require.False(t, left.usedUp())

	left = 3000
	list := left.keep(farsync.LockInfo{Path: "/a", Participants: []farsync.Participant{
		{Holder: "a", ID: "1", Note: "n", Under: []string{"u"}}, hostile, {Holder: "c", ID: "3", Session: "s", Held: true, Token: 7, Note: "n", WaitsFor: "w", Under: []string{"u"}},
	}}).Participants
	require.Equal(t, farsync.Participant{Holder: "a", ID: "1", Note: "n", Under: []string{"u"}}, list[0])
	require.Equal(t, farsync.Participant{Holder: "c", ID: "3", Session: "s", Held: true, Token: 7}, list[2])
	require.True(t, left.usedUp(), "that is said")
}

// TestKeptTextsKeepNothingElse: a text of an entry is a part of all that the entry says, which is as long as its writer likes.
func TestKeptTextsKeepNothingElse(t *testing.T) {
	whole := strings.Repeat("worker /a/1 note ", 1<<16)
	part := func(from, to int) string { return whole[from:to] }
	left := allowance(1 << 20)
	kept := left.keep(farsync.LockInfo{Path: "/a", Participants: []farsync.Participant{{
		Holder: part(0, 6), ID: part(7, 11), Session: part(0, 3), Note: part(12, 16), WaitsFor: part(12, 16), Under: []string{part(7, 11)},
	}}})
	all := weak.Make(unsafe.StringData(whole))
	whole = ""
	runtime.GC()
	require.Nil(t, all.Value())
	require.Equal(t, []string{"/a/1"}, kept.Participants[0].Under)
}

// TestPrefixHidesLocksOfOtherTrees, also those that a shown waiter, or holder, stands under. That there are some is said.
func TestPrefixHidesLocksOfOtherTrees(t *testing.T) {
	bubble(t, nil, func(p *play) {
		part := New(nil)
		part.Add("mem", p.store, "/public/")
		over := p.lock("a", "/secret/x")
		ctx, cancel := over.Context(p.Context())
		defer cancel()
		both, err := farsync.NewMutex(p.client("a"), "/public/y").Lock(ctx)
		require.NoError(p, err)
		stop := p.waitUnder(both, "a", "/public/z") // it is free
		defer stop()
		shown := func(v *View) (all told, text string) {
			w := httptest.NewRecorder()
			v.ServeHTTP(w, httptest.NewRequestWithContext(p.Context(), http.MethodGet, "/snapshot", http.NoBody))
			require.NoError(p, json.Unmarshal(w.Body.Bytes(), &all))
			return all, w.Body.String()
		}
		all, text := shown(part)
		require.NotContains(p, text, "secret")
		require.Len(p, all.Locks, 2)
		y, z := all.Locks[0].Participants[0], all.Locks[1].Participants[0]
		require.Empty(p, y.Under)
		require.Equal(p, 1, y.UnderOthers)
		require.Equal(p, []string{y.ID}, z.Under, "it is shown")
		require.Zero(p, z.UnderOthers)

		all, _ = shown(p.view)
		require.Len(p, all.Locks, 3)
		require.Equal(p, []string{over.ID()}, all.Locks[0].Participants[0].Under)
		require.Zero(p, all.Locks[0].Participants[0].UnderOthers)
		p.after(time.Second)
	})
}

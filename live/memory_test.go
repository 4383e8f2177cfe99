package live

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// holds returns the history of a path.
func (p *play) holds(path string) []hold {
	p.Helper()
	var told struct{ Holds []hold }
	require.NoError(p, json.Unmarshal(p.get("history?store=mem&path="+path).Body.Bytes(), &told))
	return told.Holds
}

// TestHistoryEndsNothingBeyondTheLimit: what is not listed there may be held.
func TestHistoryEndsNothingBeyondTheLimit(t *testing.T) {
	bubble(t, &Options{Limit: 10}, func(p *play) {
		last := p.lock("z", "/z")
		v := p.viewer()
		p.after(2 * time.Second)
		before := p.holds("/z")
		require.Len(p, before, 1)

		var many []*farsync.Lease
		for i := range 12 {
			many = append(many, p.lock("m", fmt.Sprintf("/a/%02d", i)))
		}
		p.after(time.Minute)
		list := v.events()
		require.True(p, list[len(list)-1].Stores[0].More)
		require.Equal(p, before, p.holds("/z"), "it may be held")
		require.NoError(p, many[0].Release())
		p.after(2 * time.Second)
		require.NotZero(p, p.holds("/a/00")[0].To, "the list begins before it")

		for _, one := range many[1:] {
			require.NoError(p, one.Release())
		}
		p.after(2 * time.Second)
		require.Equal(p, before, p.holds("/z"), "it was held all the time")
		require.NoError(p, last.Release())
		p.after(2 * time.Second)
		require.NotZero(p, p.holds("/z")[0].To)
		v.leave()
	})
}

func TestSightCoversWhatItHasRead(t *testing.T) {
	of := &source{prefixes: []string{"/m", "/c", "/z", "/b"}}
	whole := &sight{source: of}
	part := &sight{source: of, rest: &rest{prefix: 2, path: "/z/5"}}
	failed := &sight{source: of, err: errSilent}
	for path, covered := range map[string]bool{
		"/m/1": true, "/c": true, "/z/4": true, "/z/45": true, "/z/5": false, "/z/6": false, "/b/1": false, "/a": false,
	} {
		require.Equal(t, covered, part.covers(path), path)
		require.True(t, whole.covers(path), path)
		require.False(t, failed.covers(path), path)
	}
	require.False(t, (*sight)(nil).covers("/a"), "a Store that is not shown")
}

// TestHistoryHasRoomForTheLimit: locks of one use each, as many new ones with each survey, would fill the memory.
func TestHistoryHasRoomForTheLimit(t *testing.T) {
	const limit, each = 100, 60
	v := New(&Options{Limit: limit})
	of := &sight{source: &source{name: "etcd", prefixes: []string{"/"}}}
	lock := func(path string) lockJSON {
		return lockJSON{Store: "etcd", Path: path, Held: 1, Participants: []participantJSON{{Holder: "worker", Held: true, Token: 1}}}
	}
	now := time.Now()
	begun := now.Add(time.Second).UnixMilli()
	for survey := range 50 {
		now = now.Add(time.Second)
		locks := []lockJSON{lock("/always")}
		for i := range each {
			locks = append(locks, lock(fmt.Sprintf("/jobs/%d/%d", survey, i)))
		}
		v.memory.note(now, time.Second, map[string]*sight{"etcd": of}, locks)
		require.LessOrEqual(t, len(v.memory.locks), len(locks)+limit, "what is shown, and as many again")
	}
	require.Len(t, v.memory.locks, 1+each+limit)
	require.Equal(t, []hold{{Holder: "worker", Token: 1, From: begun}}, v.memory.of(gone{"etcd", "/always"}))
	require.NotZero(t, v.memory.of(gone{"etcd", "/jobs/48/7"})[0].To)
	require.Empty(t, v.memory.of(gone{"etcd", "/jobs/46/7"}), "the oldest are forgotten first")
}

// TestHistoryBoundsAHoldFromBelow: a lock was held from the end of the first look at it to the beginning of the last, at least.
func TestHistoryBoundsAHoldFromBelow(t *testing.T) {
	v := New(nil)
	at := gone{"etcd", "/a"}
	begun := time.Now()
	look := func(after time.Duration, tokens ...farsync.Token) {
		of := &sight{source: &source{name: "etcd", prefixes: []string{"/"}}, seen: begun.Add(after), took: 2 * time.Second}
		var locks []lockJSON
		for _, token := range tokens {
			locks = append(locks, lockJSON{Store: "etcd", Path: "/a", Held: 1, Participants: []participantJSON{{Holder: "worker", Held: true, Token: token}}})
		}
		v.memory.note(begun.Add(after), 20*time.Second, map[string]*sight{"etcd": of}, locks)
	}
	ms := func(after time.Duration) int64 { return begun.Add(after).UnixMilli() }
	look(10*time.Second, 1)
	look(30*time.Second, 1)
	look(50*time.Second, 2)
	look(70 * time.Second)
	require.Equal(t, []hold{
		{Holder: "worker", Token: 1, From: ms(10 * time.Second), Last: ms(28 * time.Second), To: ms(50 * time.Second)},
		{Holder: "worker", Token: 2, From: ms(50 * time.Second), Last: ms(48 * time.Second), To: ms(70 * time.Second)},
	}, v.memory.of(at), "the other was seen in one look alone")
}

// TestHistorySaysWhetherAPathIsShown: of a lock without holds that a View does not show, nobody can say that it is free.
func TestHistorySaysWhetherAPathIsShown(t *testing.T) {
	bubble(t, nil, func(p *play) {
		p.view.Add("part", p.client("ops"), "/a/", "/b")
		for query, shown := range map[string]bool{
			"store=mem&path=/c": true, "store=part&path=/a/1": true, "store=part&path=/b": true, "store=part&path=/a": false,
			"store=part&path=/c": false, "store=none&path=/a/1": false, "": false,
		} {
			var told struct {
				Shown bool
				Holds []hold
			}
			require.NoError(p, json.Unmarshal(p.get("history?"+query).Body.Bytes(), &told), query)
			require.Equal(p, shown, told.Shown, query)
			require.Empty(p, told.Holds, query)
		}
	})
}

func TestNothingIsRememberedWithoutAViewer(t *testing.T) {
	bubble(t, nil, func(p *play) {
		lease := p.lock("a", "/a")
		for range 2 {
			v := p.viewer()
			p.after(2 * time.Second)
			v.leave()
			p.after(forgotten - time.Second)
			require.Len(p, p.holds("/a"), 1)
		}
		v := p.viewer()
		p.after(forgotten + time.Minute)
		require.Len(p, p.holds("/a"), 1, "there is a viewer")
		require.NoError(p, lease.Release())
		p.after(2 * time.Second)
		v.leave()
		p.after(forgotten + time.Second)
		require.Empty(p, p.holds("/a"))
		require.Empty(p, p.view.memory.locks)
		require.Nil(p, p.view.shown)
		v = p.viewer()
		require.Equal(p, "all", v.events()[1].name)
		v.leave()
	})
}

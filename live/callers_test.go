package live

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/locktest"
)

// told adds a Store whose calls the View is told of.
func (p *play) told(name string) *farsync.Store {
	store := p.service.Open(&farsynctest.MemOptions{Options: farsync.Options{Holder: name, Name: name, Trace: p.view.Callers()}})
	p.clients[name] = store
	p.view.Add(name, store)
	return store
}

// callers returns what a snapshot has of a lock of a Store, without lines.
func (p *play) callers(store, path string) (list []string) {
	p.Helper()
	p.after(time.Second)
	var all struct {
		Locks []struct {
			Store   string
			Callers []callerJSON
		}
	}
	require.NoError(p, json.Unmarshal(p.get("snapshot?path="+path).Body.Bytes(), &all))
	for _, lock := range all.Locks {
		if lock.Store != store {
			continue
		}
		for _, c := range lock.Callers {
			require.Regexp(p, `^live/callers_test\.go:\d+$`, c.File)
			require.NotZero(p, c.Since)
			words := c.Function
			if c.Held {
				words += " holds"
			}
			list = append(list, strings.Repeat("+", c.Count)+words)
		}
	}
	return list
}

func lockHere(ctx context.Context, mu *farsync.Mutex) (*farsync.Lease, error) { return mu.Lock(ctx) }

func TestCallersOfThisProcess(t *testing.T) {
	bubble(t, nil, func(p *play) {
		store := p.told("two")
		mu := farsync.NewMutex(store, "/a")
		first, err := lockHere(p.Context(), mu)
		require.NoError(p, err)
		require.Equal(p, []string{"+live.lockHere holds"}, p.callers("two", "/a"))
		require.Empty(p, p.callers("mem", "/a"), "another Store")

		ctx, cancel := context.WithCancel(p.Context())
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { _, _ = lockHere(ctx, mu) }) // in the line of this process, without an entry of its own
		}
		synctest.Wait()
		p.after(time.Second)
		all.Go(func() {
			_ = farsync.NewMutex(store, "/a").Do(ctx, func(context.Context, *farsync.Lease) error { return nil })
		})
		synctest.Wait()
		require.Equal(p, []string{"+live.lockHere holds", "+++live.lockHere", "+live.TestCallersOfThisProcess.func1.2"}, p.callers("two", "/a"))
		_, err = mu.TryLock(p.Context())
		require.ErrorIs(p, err, farsync.ErrLocked)
		cancel()
		all.Wait()
		require.Equal(p, []string{"+live.lockHere holds"}, p.callers("two", "/a"), "what has given up does not wait")
		require.NoError(p, first.Release())
		require.Empty(p, p.view.callers.all)
		require.Empty(p, p.view.callers.held)
	})
}

// TestCallersOfAllPrimitives: whatever was acquired ends, also if it is lost.
func TestCallersOfAllPrimitives(t *testing.T) {
	bubble(t, nil, func(p *play) {
		store := p.told("two")
		rw, again := farsync.NewRWMutex(store, "/rw"), farsync.NewReentrantMutex(store, "/again")
		var leases []interface{ Release() error }
		keep := func(lease *farsync.Lease, err error) {
			p.Helper()
			require.NoError(p, err)
			leases = append(leases, lease)
		}
		keep(rw.RLock(p.Context()))
		keep(rw.RLock(p.Context())) // which shares the entry of the first
		keep(farsync.NewSemaphore(store, "/s", 3).Acquire(p.Context(), 2))
		keep(farsync.NewElection(store, "/l").Campaign(p.Context(), "me"))
		keep(again.Lock(p.Context()))
		keep(again.Lock(p.Context()))
		many, err := farsync.NewMultiMutex(farsync.NewMutex(store, "/m1"), farsync.NewMutex(store, "/m2")).Lock(p.Context())
		require.NoError(p, err)
		leases = append(leases, many)
		for path, want := range map[string]string{"/rw": "++", "/s": "+", "/l": "+", "/again": "+", "/m1": "+", "/m2": "+"} {
			got := strings.Join(p.callers("two", path), " ")
			require.Equal(p, want, strings.Trim(regexp.MustCompile(`[^+]`).ReplaceAllString(got, ""), " "), "%s: %s", path, got)
		}
		for _, lease := range leases {
			require.NoError(p, lease.Release())
		}
		require.Empty(p, p.view.callers.all)
		require.Empty(p, p.view.callers.held)

		keep(rw.RLock(p.Context()))
		keep(rw.RLock(p.Context()))
		keep(farsync.NewMutex(store, "/a").Lock(p.Context()))
		p.service.Expire(store)
		p.after(time.Minute)
		require.Empty(p, p.view.callers.all)
		require.Empty(p, p.view.callers.held)
	})
}

// TestCallersOfStoresOfOneName: two services may grant the same path with the same token. Whose calls are which is not known then.
func TestCallersOfStoresOfOneName(t *testing.T) {
	bubble(t, nil, func(p *play) {
		var leases []*farsync.Lease
		for range 3 {
			store := farsynctest.NewMem().Open(&farsynctest.MemOptions{Options: farsync.Options{Trace: p.view.Callers()}})
			defer func() { require.NoError(p, store.Close()) }()
			lease, err := lockHere(p.Context(), farsync.NewMutex(store, "/a"))
			require.NoError(p, err)
			leases = append(leases, lease)
		}
		require.Equal(p, leases[0].Token(), leases[1].Token())
		for i, lease := range leases {
			places := p.view.callers.places()[gone{Path: "/a"}]
			require.Len(p, places, 1)
			require.True(p, places[0].Held)
			require.Equal(p, len(leases)-i, places[0].Count)
			require.NoError(p, lease.Release())
		}
		require.Empty(p, p.view.callers.all)
		require.Empty(p, p.view.callers.held)
	})
}

// TestNotesLinkToTraces: of what another process has published, the ID of a trace alone becomes a part of a URL.
func TestNotesLinkToTraces(t *testing.T) {
	const id, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	jaeger := New(&Options{TraceURL: func(trace string) string { return "https://jaeger.example.com/trace/" + trace + "?a=<b>" }})
	require.Equal(t, "https://jaeger.example.com/trace/"+id+"?a=<b>", jaeger.traceURL("00-"+id+"-"+span+"-01"))
	for _, note := range []string{
		"", "request 7", id, "00-" + strings.Repeat("0", 32) + "-" + span + "-01", "00-" + strings.ToUpper(id) + "-" + span + "-01",
		"00-" + id + "-" + span + "-01\n", "00-" + id + "-" + span + "-01-javascript:alert(1)", "00-../../../../../../../../../../ab-" + span + "-01",
		`00-"onclick="alert(1)"aaaaaaaaaaaaaa-` + span + "-01", "<a href=//evil.example>",
	} {
		require.Empty(t, jaeger.traceURL(note), note)
	}
	for _, to := range []string{"javascript:alert(1)//", "data:text/html,", "//jaeger.example.com/", "/trace/", "ftp://jaeger.example.com/", "http:///", "https://%zz/"} {
		view := New(&Options{TraceURL: func(trace string) string { return to + trace }})
		require.Empty(t, view.traceURL("00-"+id+"-"+span+"-01"), to)
	}
	require.Empty(t, New(nil).traceURL("00-"+id+"-"+span+"-01"))
}

func BenchmarkCallers(b *testing.B) {
	for _, c := range []struct {
		name  string
		trace *farsync.Trace
	}{{"none", nil}, {"callers", New(nil).Callers()}} {
		b.Run(c.name, func(b *testing.B) {
			locktest.BenchFreePair(b, farsync.Options{Trace: c.trace})
		})
	}
}

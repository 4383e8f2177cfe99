//go:build unix

package livetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/live"
)

// noting returns a Store whose locks have a note, closed by t.
func (c *cast) noting(name, note string) *farsync.Store {
	store := c.service.Open(&farsynctest.MemOptions{Options: farsync.Options{
		Holder: name, Trace: &farsync.Trace{Note: func(context.Context, farsync.TraceCall) string { return note }},
	}})
	c.t.Cleanup(func() { _ = store.Close() })
	return store
}

// TestNoteLinksToItsTrace, if it is a traceparent. A note that is anything else is text, and so is all of it.
func TestNoteLinksToItsTrace(t *testing.T) {
	t.Parallel()
	const id, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	b := needBrowser(t)
	c := newCast(t)
	s := newSite(t, &live.Options{TraceURL: func(trace string) string { return `https://jaeger.example.com/trace/` + trace + `?of="<b>'` }})
	s.view.Add("etcd", c.store("ops"))
	evil := []string{
		parent + `"><script>alert(1)</script>`, "javascript:alert(1)", `<a href="https://evil.example/">` + id + `</a>`,
		"00-" + `"onmouseover="alert(1)"x="1234567` + "-00f067aa0ba902b7-01",
	}
	_, err := farsync.NewMutex(c.noting("traced pid 1", parent), "/a").Lock(within(t))
	require.NoError(t, err)
	for _, note := range evil {
		store := c.noting("evil", note)
		c.wait(t.Context(), "evil", "/a", func(ctx context.Context, _ *farsync.Store) (*farsync.Lease, error) {
			return farsync.NewMutex(store, "/a").Lock(ctx)
		})
	}
	p := b.open(t, s.page(), wide)
	p.until("all are there", visible("traced pid 1")+" && "+visible("+1"))
	p.eval(`document.querySelector("td.path button").click()`, nil)
	p.until("the panel", `document.querySelectorAll("#lock .name").length === 5`)
	require.Equal(t, []string{parent}, p.texts("#lock dd a"))
	require.Equal(t, []string{"https://jaeger.example.com/trace/" + id + `?of="<b>'`}, p.attributes("#lock dd a", "href"))
	require.Equal(t, []string{"noopener noreferrer"}, p.attributes("#lock dd a", "rel"))
	var notes []string
	p.eval(`[...document.querySelectorAll("#lock dt")].filter(e => e.innerText === "note").map(e => e.nextSibling.textContent)`, &notes)
	require.Equal(t, append([]string{parent}, evil...), notes)
	for _, inside := range []string{"body script", "#lock b", "#lock [onmouseover]"} {
		require.Empty(t, p.texts(inside))
	}
	for _, dark := range []bool{false, true} {
		size := narrow
		size.dark = dark
		p.set(size)
		p.until("nothing is beyond the edge", "document.getElementById('lock').scrollWidth <= innerWidth")
		p.axe()
	}
	// By the keyboard, and it keeps the focus while the queue changes.
	p.eval(`document.querySelector("#lock dd a").focus()`, nil)
	c.lockBehind("/a", "late pid 6")
	p.until("another waits", `document.querySelectorAll("#lock .name").length === 6`)
	require.Equal(t, []string{parent}, p.texts("#lock dd a:focus"))
	p.requireQuiet(s.page())
}

// billing.run, as it were.
func heldByThisProcess(ctx context.Context, mu *farsync.Mutex) (*farsync.Lease, error) {
	return mu.Lock(ctx)
}

// TestCallersAreShown: of what this process holds and waits for, the functions that do.
func TestCallersAreShown(t *testing.T) {
	t.Parallel()
	b := needBrowser(t)
	c := newCast(t)
	s := newSite(t, nil)
	store := c.service.Open(&farsynctest.MemOptions{Options: farsync.Options{Holder: "web-1 pid 88", Trace: s.view.Callers()}})
	t.Cleanup(func() { _ = store.Close() })
	s.view.Add("etcd", store)
	mu := farsync.NewMutex(store, "/a")
	lease, err := heldByThisProcess(within(t), mu)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	const waiters = 3
	for range waiters {
		go func() { // joined below
			_, _ = heldByThisProcess(ctx, mu)
			done <- struct{}{}
		}()
	}
	p := b.open(t, s.page(), wide)
	p.until("the lock", visible("/a"))
	p.eval(`document.querySelector("td.path button").click()`, nil)
	p.until("its callers", `document.querySelectorAll("#lock .callers li").length === 2 && `+visible("3 calls"))
	require.Equal(t, []string{"livetest.heldByThisProcess", "livetest.heldByThisProcess"}, p.texts("#lock .callers code"))
	require.Regexp(t, `^livetest/callers_test\.go:\d+$`, p.texts("#lock .callers div")[0])
	for _, size := range []settings{wide, narrow, {width: narrow.width, height: narrow.height, dark: true}} {
		p.set(size)
		p.until("nothing is beyond the edge", "document.getElementById('lock').scrollWidth <= innerWidth")
		p.axe()
	}
	p.set(wide)
	cancel()
	for range waiters {
		<-done
	}
	p.until("they have given up", `document.querySelectorAll("#lock .callers li").length === 1`)
	p.press("Escape", 27)
	p.eval(`{ const o = document.getElementById("filter"); o.value = "heldbythis"; o.dispatchEvent(new Event("input")); }`, nil)
	p.until("found by its caller", `document.querySelectorAll("td.path button").length === 1`)
	require.NoError(t, lease.Release())
	p.until("it goes", visible("All is free"))
	p.requireQuiet(s.page())
}

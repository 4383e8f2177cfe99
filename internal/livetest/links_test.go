//go:build unix

package livetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// TestLinkOpensWhatItNames: the address names the lock that is open and the filter. A reader who is sent it sees the same.
func TestLinkOpensWhatItNames(t *testing.T) {
	t.Parallel()
	b := needBrowser(t)
	c := newCast(t)
	s := newSite(t, nil)
	s.view.Add("etcd", c.store("ops"), "/deploy/", "/cron/")
	c.incident()
	p := b.open(t, s.page(), wide)
	p.until("all is there", visible("ci-7 pid 412"))
	at := func(hash string) string { return "location.hash === " + quote(hash) }
	panel := func(path, kind string) string {
		return `document.querySelector("#lock h2")?.innerText === ` + quote(path) +
			` && document.querySelector("#lock .kind").innerText === ` + quote(kind+" · on etcd")
	}
	p.until("it names nothing", at(""))
	p.eval(`[...document.querySelectorAll("td.path button")].find(b => b.title === "/deploy/shop").click()`, nil)
	p.until("the lock", panel("/deploy/shop", "mutex"))
	p.eval(`{ const o = document.getElementById("filter"); o.value = "ci-9 x"; o.dispatchEvent(new Event("input")); }`, nil)
	p.until("it names both", at("#path=/deploy/shop&filter=ci-9+x"))

	q := b.open(t, s.page()+"#path=/deploy/shop&filter=ci-9", wide)
	q.until("the same lock", panel("/deploy/shop", "mutex")+" && "+visible("ci-2 pid 88"))
	q.until("the same filter", `document.querySelectorAll("td.path button").length === 1`)
	q.axe()
	q.press("Escape", 27)
	q.until("the filter alone", at("#filter=ci-9"))
	q.eval(`location.hash = "#path=/cron/no-such"`, nil)
	q.until("a lock that is free", panel("/cron/no-such", "free"))
	q.until("no filter", `document.querySelectorAll("td.path button").length > 5`)
	q.eval(`location.hash = "#path=/config/prices"`, nil)
	q.until("a lock that is held where the page does not look", panel("/config/prices", "not shown"))
	q.requireQuiet(s.page())
}

// TestLinkNamesItsStore: on a page of two Stores the path alone could be the path of either.
func TestLinkNamesItsStore(t *testing.T) {
	t.Parallel()
	b := needBrowser(t)
	here, there := newCast(t), newCast(t)
	s := newSite(t, nil)
	s.view.Add("etcd", here.store("ops"))
	s.view.Add("redis", there.store("ops"))
	here.lock("ci-1 pid 1", "/a")
	there.lock("ci-2 pid 2", "/a")
	p := b.open(t, s.page(), wide)
	p.until("both", `document.querySelectorAll("td.path button").length === 2`)
	p.eval(`document.querySelectorAll("td.path button")[1].click()`, nil)
	p.until("it names the Store", `location.hash === "#store=redis&path=/a"`)
	q := b.open(t, s.page()+"#store=redis&path=/a", wide)
	q.until("its holder", `document.querySelector("#lock .name")?.innerText === "ci-2 pid 2"`)
	q.eval(`location.hash = "#store=none&path=/a"`, nil)
	q.until("a Store that the page has not", `document.querySelector("#lock .kind").innerText === "not shown · on none"`)
	q.requireQuiet(s.page())
}

// TestNamesAndPathsDifferAtTheirEnds: what is too wide loses its middle. Two locks of a folder can be told apart, and
// the process of a holder can be read, on a telephone and on a desk.
func TestNamesAndPathsDifferAtTheirEnds(t *testing.T) {
	t.Parallel()
	b := needBrowser(t)
	c := newCast(t)
	s := newSite(t, nil)
	s.view.Add("etcd", c.store("ops"))
	const folder, host = "/customers/emea/warehouse-rotterdam/orders/2026-11-26/invoice-", "ip-10-20-30-40.eu-central-1.compute.internal.example.com pid "
	for i := range 3 {
		path := fmt.Sprint(folder, i)
		c.lock(fmt.Sprint(host, 4000+i), path)
		c.lockBehind(path, fmt.Sprint(host, 5000+i))
	}
	_, err := farsync.NewSemaphore(c.store(host+"4003"), folder+"3", 5).Acquire(within(t), 2)
	require.NoError(t, err)
	p := b.open(t, s.page(), wide)
	for _, size := range []settings{wide, {width: 768, height: 800}, narrow} {
		p.set(size)
		p.until("all is there", fmt.Sprintf(`innerWidth === %d && document.querySelectorAll("td.path button").length === 4`, size.width))
		// Whether an element is cut by its cell, or by itself.
		const whole = `(e => e.scrollWidth <= e.clientWidth + 1 && [...e.children].every(c => c.getBoundingClientRect().right <= e.getBoundingClientRect().right + 1))`
		p.until("nothing loses its end", `[...document.querySelectorAll("td.path, td.path button, td.held")].every(`+whole+`)`)
		for i := range 4 {
			require.Regexp(t, fmt.Sprintf(`^/cust.*invoice-%d$`, i), p.texts("td.path button")[i], "%d", size.width)
			require.Regexp(t, fmt.Sprintf(`^ip-.* pid %d( ×2)?$`, 4000+i), p.texts("td.held")[i], "%d", size.width)
			if i < 3 {
				require.Regexp(t, fmt.Sprintf(`1\. ip-.* pid %d$`, 5000+i), p.texts("td.waiting")[i], "%d", size.width)
			}
		}
		require.Equal(t, []string{"2 of 5 units"}, p.texts("td.path .tag"))
		if size.width != 768 { // where a line is as wide as the window
			for _, cell := range slices.Concat(p.texts("td.path button"), p.texts("td.held"), p.texts("td.waiting")[:3]) {
				require.Contains(t, cell, "…", "%d", size.width)
			}
		}
		require.Equal(t, folder+"0", p.attributes("td.path button", "title")[0])
		p.axe()
	}
	p.requireQuiet(s.page())
}

// TestDrawerSaysForHowLong: each who holds or waits, and each hold that is over, which may have lasted for longer than
// it was seen.
func TestDrawerSaysForHowLong(t *testing.T) {
	t.Parallel()
	b := needBrowser(t)
	c := newCast(t)
	s := newSite(t, nil)
	s.view.Add("etcd", c.store("ops"))
	first := c.lock("first pid 1", "/a")
	c.lockBehind("/a", "next pid 2", "last pid 3")
	p := b.open(t, s.page()+"#path=/a", wide)
	const holder = `document.querySelector("#lock ul .time")?.innerText`
	p.until("the holder's, which is a bound", `/ · ≤ \d+ (s|min)/.test(`+holder+`)`)
	p.until("the waiters'", `[...document.querySelectorAll("#lock ol .time")].filter(e => /^joined .* · \d+ (s|min)/.test(e.innerText)).length === 2`)
	p.eval(`window.before = `+holder, nil)
	p.until("it goes on", holder+` !== window.before`)
	p.eval(`(async () => { // until another survey has shown it
		const seen = async () => (await (await fetch("snapshot")).json()).seen;
		const before = await seen();
		while (await seen() === before) await new Promise(done => setTimeout(done, 50));
	})()`, nil)
	require.NoError(t, first.Release())
	p.until("what is over", `/ · ≥ \d+ (s|min)/.test([...document.querySelectorAll("#lock li")].at(-1).querySelector(".time").innerText)`)
	p.axe()
	p.requireQuiet(s.page())
}

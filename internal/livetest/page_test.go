//go:build unix

package livetest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/live"
)

// requireQuiet fails if the console has said anything that is no note, or if anything was asked of another place than the page's.
func (p *tab) requireQuiet(site string) {
	p.t.Helper()
	requests, problems := p.seen()
	require.Empty(p.t, problems)
	require.NotEmpty(p.t, requests)
	for _, request := range requests {
		require.True(p.t, strings.HasPrefix(request, site), request)
	}
}

// texts returns the texts of all elements that a selector finds.
func (p *tab) texts(selector string) (list []string) {
	p.t.Helper()
	p.eval(fmt.Sprintf("[...document.querySelectorAll(%s)].map(e => e.innerText.trim())", quote(selector)), &list)
	return list
}

func TestQueueIsShownInOrder(t *testing.T) {
	t.Parallel()
	b := needBrowser(t)
	c := newCast(t)
	s := newSite(t, nil)
	s.view.Add("etcd", c.store("ops"))
	c.incident()
	p := b.open(t, s.page(), wide)
	p.until("all is there", visible("ci-7 pid 412"))
	row := `[...document.querySelectorAll("tr")].find(r => r.querySelector("button")?.title === "/deploy/shop")`
	var shown []string
	p.eval("[...("+row+").cells].map(c => c.innerText.replace(/\\s+/g, ' ').trim())", &shown)
	require.Equal(t, "/deploy/shop", shown[0])
	require.Equal(t, "ci-7 pid 412 release 4.2", shown[1])
	require.Equal(t, "4 1. ci-2 pid 88 2. ci-9 pid 7 3. ci-3 pid 1204 +1", shown[3])
	paths := p.texts("td.path button")
	require.Len(t, paths, 11)
	require.IsIncreasing(t, paths)
	require.Contains(t, p.texts("td.path"), "/reindex 3 of 3 units")

	// By the keyboard alone: a lock is opened, closed, and the focus is where it was.
	p.eval(row+".querySelector('button').focus()", nil)
	p.press("Enter", 13)
	p.until("the lock", `document.querySelector("#lock h2")?.innerText === "/deploy/shop"`)
	require.Equal(t, []string{"ci-7 pid 412 release 4.2", "1. ci-2 pid 88", "2. ci-9 pid 7", "3. ci-3 pid 1204", "4. ci-7 pid 415"}, p.texts("#lock .name"))
	require.Empty(t, p.texts("#lock .act"), "nothing can be changed")
	p.axe()
	p.press("Escape", 27)
	p.until("the focus", row+".contains(document.activeElement)")

	// The others are still sorted, and the one that has most is first.
	p.eval(`{ const o = document.getElementById("order"); o.value = "waiting"; o.dispatchEvent(new Event("change")); }`, nil)
	p.until("order", `document.querySelector("td.path button").title === "/deploy/shop"`)
	p.eval(`{ const o = document.getElementById("waited"); o.click(); }`, nil)
	p.until("waited for", `document.querySelectorAll("td.path button").length === 5`)
	p.eval(`{ const o = document.getElementById("filter"); o.value = "CI-9"; o.dispatchEvent(new Event("input")); }`, nil)
	p.until("filter", `document.querySelectorAll("td.path button").length === 1`)
	require.Equal(t, []string{"1 of 11 shown"}, p.texts("#shown"))
	p.eval(`{ const o = document.getElementById("filter"); o.value = "no such"; o.dispatchEvent(new Event("input")); }`, nil)
	p.until("nothing", visible("Nothing matches"))
	p.axe()
	p.requireQuiet(s.page())
}

func TestDeadlockIsShown(t *testing.T) {
	t.Parallel()
	b := needBrowser(t)
	c := newCast(t)
	s := newSite(t, nil)
	s.view.Add("etcd", c.store("ops"))
	c.deadlock()
	p := b.open(t, s.page(), wide)
	p.until("the deadlock", `document.querySelector(".alarm.deadlock")`)
	require.Equal(t, []string{
		"worker-3 pid 412 holds /db/ledger and waits for /db/accounts, held by web-1 pid 88.",
		"web-1 pid 88 holds /db/accounts and waits for /db/ledger, held by worker-3 pid 412.",
	}, p.texts(".alarm.deadlock li"))
	require.Len(t, p.texts("tr.stuck"), 2)
	p.until("the title", `document.title.startsWith("Deadlock")`)
	p.eval(`document.getElementById("nested").open = true`, nil)
	p.until("the graph", `document.querySelectorAll("#graph svg > path.stuck").length === 2`)
	require.Len(t, p.texts("#edgelist li"), 2)
	p.axe()
	p.requireQuiet(s.page())
}

// TestEverySize: dark and light, on a desk and on a small telephone, nothing is wider than the window, and all can be read.
func TestEverySize(t *testing.T) {
	t.Parallel()
	b := needBrowser(t)
	c := newCast(t)
	s := newSite(t, &live.Options{Allow: func(*http.Request) bool { return true }})
	s.view.Add("etcd", c.store("ops"))
	c.incident()
	c.deadlock()
	p := b.open(t, s.page(), wide)
	p.until("the deadlock", `document.querySelector(".alarm.deadlock")`)
	sizes := []settings{narrow}
	if suite.More(t, suite.Live) {
		sizes = []settings{wide, {width: 768, height: 800}, narrow}
	}
	for _, size := range sizes {
		var back []string
		for _, dark := range []bool{false, true} {
			size.dark = dark
			p.set(size)
			// A telephone would make the window as wide as what does not fit, and all the smaller.
			p.until("nothing is beyond the edge", fmt.Sprintf("innerWidth === %d && document.documentElement.scrollWidth <= innerWidth", size.width))
			var color string
			p.eval("getComputedStyle(document.body).backgroundColor", &color)
			back = append(back, color)
			p.axe()
			p.eval(`[...document.querySelectorAll("td.path button")].find(b => b.title === "/deploy/shop").click()`, nil)
			p.until("the panel", `document.querySelector("#lock .act")`)
			p.until("nothing is beyond the edge", "document.getElementById('lock').scrollWidth <= innerWidth")
			p.axe()
			p.press("Escape", 27)
		}
		require.NotEqual(t, back[0], back[1])
	}
	p.requireQuiet(s.page())
}

// TestTextOfOthersIsText: a holder may call itself whatever it likes. What would turn the text around is written out.
func TestTextOfOthersIsText(t *testing.T) {
	t.Parallel()
	b := needBrowser(t)
	c := newCast(t)
	s := newSite(t, nil)
	s.view.Add("<b>etcd</b>", c.store("ops"))
	markup := `<script>alert(1)</script><img src=x onerror=alert(1)>`
	evil, shown := markup+"\u202e"+`"'&amp;`, markup+`\u202e"'&amp;`
	_, err := farsync.NewElection(c.store("ops"), "/leader").Campaign(within(t), evil)
	require.NoError(t, err)
	c.lock(`<script>document.title="owned"</script>`, "/a")
	c.lockBehind("/a", `"><svg onload=alert(1)>`)
	p := b.open(t, s.page(), wide)
	p.until("as text", visible("<script>")+" && "+visible(" this process"))
	require.Equal(t, []string{`<script>document.title="owned"</script>`, shown}, p.attributes("td.held", "title"), "of which the cell shows the ends")
	p.eval(`document.querySelectorAll("td.path button")[1].click()`, nil)
	p.until("in the panel", `document.querySelector("#lock .name")?.textContent === `+quote(shown))
	for _, inside := range []string{"body script", "img", "svg"} {
		require.Empty(t, p.texts(inside))
	}
	p.requireQuiet(s.page())
}

// TestConnectionComesBack: the server ends, and another is there at its address.
func TestConnectionComesBack(t *testing.T) {
	suite.Long(t, suite.Live, "ends the server, and starts another at its address")
	b := needBrowser(t)
	c := newCast(t)
	s := newSite(t, nil)
	s.view.Add("etcd", c.store("ops"))
	c.incident()
	address := s.Listener.Addr().String()
	p := b.open(t, s.page(), wide)
	p.until("all is there", visible("ci-7 pid 412"))
	p.requireQuiet(s.page())
	require.NoError(t, s.view.Close())
	s.Close()
	p.until("it says so", visible("No connection since"))
	require.Contains(t, p.texts("td.held"), "ci-1 pid 9", "what was so is still there to be read")
	p.axe()

	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	again := live.New(nil)
	again.Add("etcd", c.store("ops"))
	c.lock("ci-8 pid 3", "/deploy/again")
	mux := http.NewServeMux()
	mux.Handle(folder, again)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: mux}} //nolint:gosec // a test's
	server.Start()
	t.Cleanup(func() {
		_ = again.Close()
		server.Close()
	})
	p.until("it comes back", visible("ci-8 pid 3")+" && !"+visible("No connection"))
}

func TestThousandsOfLocks(t *testing.T) {
	suite.Long(t, suite.Live, "a page of 2,000 locks")
	const locks = 2000
	b := needBrowser(t)
	c := newCast(t)
	s := newSite(t, nil)
	s.view.Add("etcd", c.store("ops"))
	leases := make([]*farsync.Lease, locks)
	for i := range leases {
		leases[i] = c.lock(fmt.Sprintf("worker-%d pid 1", i%10), fmt.Sprintf("/jobs/%04d", i))
	}
	p := b.open(t, s.page(), wide)
	p.until("all are known", visible("2,000 locks"))
	p.until("the first", visible("/jobs/0000"))
	var rows int
	p.eval(`document.querySelectorAll("tbody tr").length`, &rows)
	require.Less(t, rows, 60, "those in the window, and a few beyond")
	require.Equal(t, []string{"2001"}, p.attributes("#locks", "aria-rowcount"))
	p.eval("scrollTo(0, document.documentElement.scrollHeight)", nil)
	p.until("the last", visible("/jobs/1999"))
	p.axe()
	p.eval("scrollTo(0, document.documentElement.scrollHeight / 2)", nil)
	p.until("the middle", visible("/jobs/1000"))
	require.Equal(t, []string{"1002"}, p.attributes(`tr:has(button[title="/jobs/1000"])`, "aria-rowindex"))
	require.NoError(t, leases[1000].Release())
	p.until("one goes, and the others move up", "!"+visible("/jobs/1000")+" && "+visible("/jobs/1001"))
	p.eval(`{ const o = document.getElementById("filter"); o.value = "/0777"; o.dispatchEvent(new Event("input")); }`, nil)
	p.until("one of them", `document.querySelectorAll("td.path button").length === 1 && `+visible("/jobs/0777"))
	p.requireQuiet(s.page())
}

// attributes returns an attribute of all elements that a selector finds.
func (p *tab) attributes(selector, name string) (list []string) {
	p.t.Helper()
	p.eval(fmt.Sprintf("[...document.querySelectorAll(%s)].map(e => e.getAttribute(%s))", quote(selector), quote(name)), &list)
	return list
}

func TestLeaseIsBrokenFromThePage(t *testing.T) {
	t.Parallel()
	b := needBrowser(t)
	c := newCast(t)
	s := newSite(t, &live.Options{Allow: func(*http.Request) bool { return true }})
	s.view.Add("etcd", c.store("ops"))
	lease := c.lock("stuck pid 1", "/a")
	c.lockBehind("/a", "next pid 2")
	p := b.open(t, s.page(), wide)
	p.until("the lock", visible("stuck pid 1"))
	p.eval(`document.querySelector("td.path button").click()`, nil)
	p.until("what can be done", `document.querySelectorAll("#lock .act").length === 2`)
	asked := lease.Asked()
	p.eval(`document.querySelectorAll("#lock .act")[0].click()`, nil)
	select {
	case <-asked:
	case <-time.After(soon):
		require.Fail(t, "not asked")
	}
	p.until("asked", visible("Asked."))
	p.eval(`document.querySelectorAll("#lock .act")[1].click()`, nil)
	p.until("is it sure", `document.activeElement.matches("form.sure input")`)
	require.NoError(t, lease.Err())
	p.call("Input.insertText", map[string]any{"text": "stuck for an hour"}, nil)
	p.axe()
	p.press("Enter", 13)
	select {
	case <-lease.Done():
	case <-time.After(soon):
		require.Fail(t, "not broken")
	}
	require.ErrorIs(t, lease.Err(), farsync.ErrBroken)
	require.ErrorContains(t, lease.Err(), "stuck for an hour")
	p.until("the next holds", `document.querySelector("td.held")?.innerText === "next pid 2"`)
	p.requireQuiet(s.page())

	// Another site cannot have the reader's browser do it.
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
	}))
	defer elsewhere.Close()
	next := c.service.Entries("/a")[0]
	q := b.open(t, strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1), wide)
	form := url.Values{"store": {"etcd"}, "path": {"/a"}, "token": {fmt.Sprint(next.Revision << 8)}}
	q.eval(fmt.Sprintf(`fetch(%s, {method: "POST", mode: "no-cors", credentials: "include", body: new URLSearchParams(%s)}).then(() => 1, () => 0)`,
		quote(s.page()+"break"), quote(form.Encode())), nil)
	require.Equal(t, next.ID, c.service.Entries("/a")[0].ID)
}

// TestNoSurveyWithoutAViewer: a tab in the background is none either. The server says so.
func TestNoSurveyWithoutAViewer(t *testing.T) {
	t.Parallel()
	b := needBrowser(t)
	c := newCast(t)
	s := newSite(t, nil)
	s.view.Add("etcd", c.store("ops"))
	p := b.open(t, s.page(), wide)
	p.until("it looks", visible("All is free"))
	p.eval(`Object.defineProperty(document, "hidden", {value: true, configurable: true}); document.dispatchEvent(new Event("visibilitychange"))`, nil)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	require.NoError(t, s.Config.Shutdown(ctx), "no stream is left")
}

// TestNothingIsFreeThatWasNotRead: of a Store that does not answer, or has more than is read, the page does not say what is free.
func TestNothingIsFreeThatWasNotRead(t *testing.T) {
	suite.Long(t, suite.Live, "cuts the Store off, and waits until it is asked again")
	b := needBrowser(t)
	c := newCast(t)
	s := newSite(t, &live.Options{Limit: 3})
	ops := c.store("ops")
	s.view.Add("etcd", ops)
	lease := c.lock("ci-1 pid 1", "/deploy/shop")
	c.service.Partition(ops, true)
	p := b.open(t, s.page(), narrow)
	p.until("it has no answer", visible("etcd does not answer"))
	empty := []string{"It is not known what is locked\nA Store has not been read, or not all of it. Above it says why."}
	require.Equal(t, empty, p.texts("#empty"))
	require.Equal(t, []string{"0 locks · 0 held · 0 waiting, as far as is known"}, p.texts("#counts"))
	p.until("nothing is beyond the edge", "document.documentElement.scrollWidth <= innerWidth")
	p.axe()
	c.service.Partition(ops, false)
	p.untilWithin(2, "it answers", visible("ci-1 pid 1"))
	require.Equal(t, []string{"1 lock · 1 held · 0 waiting"}, p.texts("#counts"))

	panel := func(what string) string {
		return `document.querySelector("#lock .kind")?.innerText === ` + quote(what+" · on etcd")
	}
	p.eval(`document.querySelector("td.path button").click()`, nil)
	p.until("the panel", panel("mutex"))
	var before []*farsync.Lease
	for _, path := range []string{"/a", "/b", "/c"} {
		before = append(before, c.lock("ci-2 pid 2", path))
	}
	p.until("it is beyond the limit", visible("etcd has more locks than are shown"))
	p.until("it is not known", panel("not shown"))
	p.axe()
	for _, one := range before {
		require.NoError(t, one.Release())
	}
	p.until("it is there again", panel("mutex"))
	require.NoError(t, lease.Release())
	p.until("it is free", panel("free")+" && "+visible("All is free"))
	c.service.Partition(ops, true)
	p.until("it may be held again", panel("not shown")+" && !"+visible("All is free"))
	require.Equal(t, empty, p.texts("#empty"))
	p.axe()
	c.service.Partition(ops, false)
	p.requireQuiet(s.page())
}

// TestTextThatIsNotKeptIsSaid: the list ends before its limit, and the page says why.
func TestTextThatIsNotKeptIsSaid(t *testing.T) {
	t.Parallel()
	b := needBrowser(t)
	c := newCast(t)
	s := newSite(t, &live.Options{Limit: 10})
	s.view.Add("etcd", c.store("ops"))
	long := strings.Repeat("/"+strings.Repeat("x", 99), 9)
	for i := range 9 {
		c.lock("neighbour", fmt.Sprintf("%s/%d", long, i))
	}
	p := b.open(t, s.page(), narrow)
	p.until("it is said", visible("etcd has more locks than are shown")+" && "+visible("The list ends where the entries have too much text to be kept."))
	p.axe()
	p.requireQuiet(s.page())
}

// TestUnitsOfAllHoldersAreShown: the page has a hundred of them.
func TestUnitsOfAllHoldersAreShown(t *testing.T) {
	t.Parallel()
	b := needBrowser(t)
	c := newCast(t)
	s := newSite(t, nil)
	s.view.Add("etcd", c.store("ops"))
	for i := range 150 {
		_, err := farsync.NewSemaphore(c.store(fmt.Sprintf("idx-%d", i)), "/reindex", 500).Acquire(within(t), 2)
		require.NoError(t, err)
	}
	p := b.open(t, s.page(), wide)
	p.until("its tag", visible("300 of 500 units"))
	p.eval(`document.querySelector("td.path button").click()`, nil)
	p.until("the panel", visible("semaphore · 300 of 500 units held · on etcd"))
	p.requireQuiet(s.page())
}

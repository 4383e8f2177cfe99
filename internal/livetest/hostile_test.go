//go:build unix

package livetest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/live"
)

// TestHostilePage: a page of another origin, open in the browser of somebody who may break locks, tries what a page can.
// It breaks nothing, asks for nothing, shows nothing in a frame, and reads nothing.
func TestHostilePage(t *testing.T) {
	t.Parallel()
	b := needBrowser(t)
	c := newCast(t)
	s := newSite(t, &live.Options{Allow: func(*http.Request) bool { return true }})
	s.view.Add("etcd", c.store("ops"))
	lease := c.lock("billing pid 1", "/a")
	asked := lease.Asked()

	// What the site was asked for by the hostile page, and what it has answered.
	heard := make(chan string, 1000)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told := &status{ResponseWriter: w, code: http.StatusOK}
		s.Config.Handler.ServeHTTP(told, r)
		heard <- fmt.Sprint(r.Method, " ", strings.TrimPrefix(r.URL.Path, folder), " by ", r.URL.Query().Get("by"), ": ", told.code)
	}))
	defer front.Close()
	defer front.CloseClientConnections() // of streams
	page := front.URL + folder
	answered := func(request string) {
		t.Helper()
		for by := range heard {
			require.NotRegexp(t, "^POST .* by leave", by, "the browser asks for leave, and does not send it")
			if strings.HasPrefix(by, request) {
				require.Equal(t, request+": 403", by)
				return
			}
		}
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>hostile</title><body>")
	}))
	defer elsewhere.Close()
	fields := fmt.Sprintf(`{store: "etcd", path: "/a", token: "%d"}`, lease.Token())

	// The origin differs by its port alone, and by the name of the host.
	for i, origin := range []string{elsewhere.URL, strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1)} {
		p := b.open(t, origin, wide)
		p.until("the hostile page", `document.title === "hostile"`)
		p.eval(fmt.Sprintf("globalThis.site = %s; globalThis.by = %d; globalThis.fields = %s; 1", quote(page), i, fields), nil)

		for _, verb := range []string{"break", "ask"} {
			// By fetch, with what the browser knows of the site, in each kind of body that needs no leave.
			var outcome string
			p.eval(fmt.Sprintf(`fetch(site + "%s?by=fetch" + by, {method: "POST", mode: "no-cors", credentials: "include",
				body: new URLSearchParams(fields)}).then(r => r.type, e => "refused")`, verb), &outcome)
			require.Contains(t, []string{"opaque", "refused"}, outcome)
			answered(fmt.Sprintf("POST %s by fetch%d", verb, i))
			// And with leave asked for, which is not given.
			p.eval(fmt.Sprintf(`fetch(site + "%s?by=leave" + by, {method: "POST", headers: {"X-Own": "1"},
				body: new URLSearchParams(fields)}).then(r => "read", e => "refused")`, verb), &outcome)
			require.Equal(t, "refused", outcome)
			// By a beacon, which outlives the page.
			p.eval(fmt.Sprintf(`navigator.sendBeacon(site + "%s?by=beacon" + by, new URLSearchParams(fields))`, verb), nil)
			answered(fmt.Sprintf("POST %s by beacon%d", verb, i))
			// By a form, which takes its answer to a frame.
			p.eval(fmt.Sprintf(`new Promise(done => {
				const frame = document.createElement("iframe"), form = document.createElement("form");
				frame.name = "to%[1]s"; document.body.append(frame);
				form.method = "post"; form.action = site + "%[1]s?by=form" + by; form.target = frame.name;
				for (const [name, value] of Object.entries(fields)) {
					const field = document.createElement("input"); field.name = name; field.value = value; form.append(field);
				}
				document.body.append(form); frame.onload = () => done(1); form.submit();
			})`, verb), nil)
			answered(fmt.Sprintf("POST %s by form%d", verb, i))
		}

		for _, name := range []string{"", "snapshot", "history", "events"} {
			var outcome string
			p.eval(fmt.Sprintf(`fetch(site + %q).then(r => r.text(), e => "refused")`, name), &outcome)
			require.Equal(t, "refused", outcome, "what %q says", name)
			p.eval(fmt.Sprintf(`fetch(site + %q, {mode: "no-cors"}).then(r => r.text(), e => "refused")`, name), &outcome)
			require.Contains(t, []string{"", "refused"}, outcome, "what %q says", name)
		}
		var outcome string
		p.eval(`new Promise(done => { const s = new EventSource(site + "events", {withCredentials: true});
			s.onmessage = () => done("read"); s.onerror = () => { s.close(); done("refused"); } })`, &outcome)
		require.Equal(t, "refused", outcome)
		p.eval(`new Promise(done => { const s = new WebSocket(site.replace("http", "ws") + "events");
			s.onopen = () => done("open"); s.onerror = () => done("refused"); })`, &outcome)
		require.Equal(t, "refused", outcome)
		p.eval(`new Promise(done => { const s = document.createElement("script");
			s.onload = () => done("run"); s.onerror = () => done("refused"); s.src = site + "live.js"; document.body.append(s); })`, &outcome)
		require.Equal(t, "refused", outcome)

		// A window that the hostile page opens, after a click of its reader, shows the page and is out of reach: for the page that has opened
		// it, it is closed, can neither be read nor steered, and sends nothing.
		p.clicked(`globalThis.opened = open(site + "?by=window" + by); globalThis.messages = 0; addEventListener("message", () => messages++);
			opened ? "opened" : "none"`, &outcome)
		require.Equal(t, "opened", outcome)
		p.call("Page.bringToFront", nil, nil) // the timers of a page that is not seen are slow
		p.until("the window is out of reach", `opened.closed`)
		p.eval(`(() => { try { return "read " + opened.document.body.innerText; } catch { return "refused, " + messages; } })()`, &outcome)
		require.Equal(t, "refused, 0", outcome)
		for _, verb := range []string{"break", "ask"} {
			p.clicked(fmt.Sprintf(`(() => {
				const form = document.createElement("form");
				form.method = "post"; form.action = site + "%s?by=window" + by; form.target = "_blank"; form.rel = "opener";
				for (const [name, value] of Object.entries(fields)) {
					const field = document.createElement("input"); field.name = name; field.value = value; form.append(field);
				}
				document.body.append(form); form.submit(); return "sent";
			})()`, verb), &outcome)
			answered(fmt.Sprintf("POST %s by window%d", verb, i))
			p.call("Page.bringToFront", nil, nil)
		}

		// In a frame stands the browser's own page of an error, in which no other page can look.
		p.eval(`new Promise(done => { const f = document.createElement("iframe"); f.onload = () => done("loaded"); f.src = site;
			document.body.append(f); })`, nil)
		_, problems := p.seen()
		require.Contains(t, strings.Join(problems, "\n"), "frame-ancestors", "the browser says why the frame is empty")
	}

	require.NoError(t, lease.Err())
	require.Len(t, c.service.Entries("/a"), 1)
	select {
	case <-asked:
		require.Fail(t, "asked")
	default:
	}
}

// A status is a ResponseWriter that knows what was answered.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

//go:build unix

package livetest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// soon is when a test is taken to hang.
const soon = 2 * time.Minute

// browsers are the names that Chromium goes by.
var browsers = []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"}

// A browser is a Chromium without a window. It is spoken to in its DevTools protocol, over pipes: JSON with a zero byte at the end.
type browser struct {
	command *exec.Cmd
	to      io.Closer
	done    chan struct{} // closed when no more is heard

	mu      sync.Mutex
	out     *bufio.Writer
	last    int
	answers map[int]chan<- answer
	pages   map[string]*tab // by session
}

type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// errGone means that the browser has ended.
var errGone = errors.New("the browser is gone")

// startBrowser starts one with an empty profile. Where none is installed the error wraps exec.ErrNotFound.
func startBrowser(dir string) (*browser, error) {
	path, err := "", error(nil)
	for _, name := range browsers {
		if path, err = exec.LookPath(name); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	theirs, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, theirsToo, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b := &browser{to: to, out: bufio.NewWriter(to), done: make(chan struct{}), answers: map[int]chan<- answer{}, pages: map[string]*tab{}}
	b.command = exec.Command(path,
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--user-data-dir="+dir,
		"--remote-debugging-pipe", "about:blank")
	b.command.ExtraFiles = []*os.File{theirs, theirsToo}
	if err := b.command.Start(); err != nil {
		return nil, err
	}
	_, _ = theirs.Close(), theirsToo.Close()
	go b.hear(from) // joined by stop
	return b, nil
}

// stop ends the browser.
func (b *browser) stop() {
	_ = b.to.Close()
	_ = b.command.Process.Kill()
	_ = b.command.Wait()
	<-b.done
}

// hear reads answers and events until the browser has ended.
func (b *browser) hear(from io.ReadCloser) {
	defer close(b.done)
	defer from.Close()
	for in := bufio.NewReaderSize(from, 1<<20); ; {
		line, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			answer

			ID        int
			SessionID string
			Method    string
			Params    json.RawMessage
		}
		if err := json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &m); err != nil {
			panic(err)
		}
		b.mu.Lock()
		if to := b.answers[m.ID]; to != nil {
			delete(b.answers, m.ID)
			to <- m.answer
		} else if p := b.pages[m.SessionID]; p != nil {
			p.event(m.Method, m.Params)
		}
		b.mu.Unlock()
	}
}

// call sends a command and waits for its answer.
func (b *browser) call(ctx context.Context, session, method string, params, result any) error {
	to := make(chan answer, 1)
	b.mu.Lock()
	b.last++
	text, err := json.Marshal(struct {
		ID        int    `json:"id"`
		SessionID string `json:"sessionId,omitempty"`
		Method    string `json:"method"`
		Params    any    `json:"params,omitempty"`
	}{b.last, session, method, params})
	if err == nil {
		b.answers[b.last] = to
		_, _ = b.out.Write(append(text, 0))
		err = b.out.Flush()
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case a := <-to:
		switch {
		case a.Error != nil:
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		case result == nil:
			return nil
		}
		return json.Unmarshal(a.Result, result)
	case <-b.done:
		return errGone
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
}

// A tab is a page in a browser. Its methods fail the test if they do not succeed.
type tab struct {
	t       testing.TB
	b       *browser
	target  string
	session string

	// Guarded by the browser's mu:
	requests []string // the URLs of all
	problems []string // what the console said that is no mere note
}

// settings are what a page is told of its reader.
type settings struct {
	dark          bool
	width, height int
}

// open opens a page in a profile of its own, closed by t.
func (b *browser) open(t testing.TB, url string, s settings) *tab {
	t.Helper()
	p := &tab{t: t, b: b}
	var profile struct{ BrowserContextID string }
	p.of("Target.createBrowserContext", nil, &profile)
	var made struct{ TargetID string }
	p.of("Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": profile.BrowserContextID}, &made)
	p.target = made.TargetID
	var attached struct{ SessionID string }
	p.of("Target.attachToTarget", map[string]any{"targetId": p.target, "flatten": true}, &attached)
	p.session = attached.SessionID
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon) // the test's has ended
		defer cancel()
		_ = b.call(ctx, "", "Target.disposeBrowserContext", profile, nil)
	})
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.call(domain+".enable", nil, nil)
	}
	p.call("Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}, nil) // whatever other tabs do
	p.set(s)
	p.call("Page.navigate", map[string]any{"url": url}, nil)
	return p
}

// set changes what the page is told of its reader.
func (p *tab) set(s settings) {
	p.t.Helper()
	scheme := "light"
	if s.dark {
		scheme = "dark"
	}
	p.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	p.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": s.width, "height": s.height, "deviceScaleFactor": 1, "mobile": s.width < 600}, nil)
}

// of and call send a command for the browser and for the page.
func (p *tab) of(method string, params, result any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), soon)
	defer cancel()
	require.NoError(p.t, p.b.call(ctx, "", method, params, result))
}

func (p *tab) call(method string, params, result any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), soon)
	defer cancel()
	require.NoError(p.t, p.b.call(ctx, p.session, method, params, result))
}

// event notes what the tests ask for. The caller holds the browser's mu.
func (p *tab) event(method string, params json.RawMessage) {
	switch method {
	case "Network.requestWillBeSent":
		var e struct{ Request struct{ URL string } }
		_ = json.Unmarshal(params, &e)
		p.requests = append(p.requests, e.Request.URL)
	case "Runtime.exceptionThrown":
		p.problems = append(p.problems, string(params))
	case "Runtime.consoleAPICalled":
		var e struct{ Type string }
		if _ = json.Unmarshal(params, &e); slices.Contains([]string{"error", "warning", "assert"}, e.Type) {
			p.problems = append(p.problems, string(params))
		}
	case "Log.entryAdded":
		var e struct{ Entry struct{ Level, Text string } }
		if _ = json.Unmarshal(params, &e); e.Entry.Level != "info" && e.Entry.Level != "verbose" {
			p.problems = append(p.problems, string(params))
		}
	}
}

// seen returns the URLs of all requests, and what was wrong.
func (p *tab) seen() (requests, problems []string) {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	return slices.Clone(p.requests), slices.Clone(p.problems)
}

// eval runs a script in the page and decodes what it returns, or what its promise comes to. It is the way in that the page's policy
// does not bar.
func (p *tab) eval(script string, result any) { p.t.Helper(); p.run(script, false, result) }

// clicked is eval for a script that the browser takes for the answer to a click, and lets open windows.
func (p *tab) clicked(script string, result any) { p.t.Helper(); p.run(script, true, result) }

func (p *tab) run(script string, clicked bool, result any) {
	p.t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	p.call("Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true, "userGesture": clicked}, &got)
	if got.ExceptionDetails != nil {
		require.FailNow(p.t, "script failed", "%s\n%s", script, got.ExceptionDetails.Exception.Description)
	}
	if result != nil && len(got.Result.Value) > 0 {
		require.NoError(p.t, json.Unmarshal(got.Result.Value, result), script)
	}
}

// until waits until a script returns true. The page looks each time that it would paint, and twenty times a second.
func (p *tab) until(what, script string) {
	p.t.Helper()
	p.untilWithin(1, what, script)
}

// untilWithin is until, for what may take so many times as long.
func (p *tab) untilWithin(times int, what, script string) {
	p.t.Helper()
	for range times {
		if p.turns(script) {
			return
		}
	}
	var text string
	p.eval("document.body.innerText", &text)
	require.FailNow(p.t, "the page does not show it", "%s\n%s\n\nIt shows:\n%s", what, script, text)
}

// turns reports whether a script turns true while the page is looked at for a while.
func (p *tab) turns(script string) (ok bool) {
	p.t.Helper()
	p.eval(fmt.Sprintf(`new Promise(done => {
		const end = Date.now() + %d;
		const look = () => { let ok = false; try { ok = Boolean(%s); } catch {} if (ok || Date.now() > end) { done(ok); } else { setTimeout(look, 50); } };
		look();
	})`, (soon-5*time.Second).Milliseconds(), script), &ok)
	return ok
}

// press sends a key.
func (p *tab) press(key string, code int) {
	p.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		e := map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}
		if kind == "keyDown" && key == "Enter" {
			e["text"] = "\r"
		}
		p.call("Input.dispatchKeyEvent", e, nil)
	}
}

// picture returns what is in the window, as PNG.
func (p *tab) picture() []byte {
	p.t.Helper()
	var shot struct{ Data string }
	p.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(p.t, err)
	return png
}

// quote returns text as a script has it.
func quote(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(string(out), "</", `<\/`)
}

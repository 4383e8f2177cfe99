//go:build unix

package main

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/sqlite"
)

func TestServeShowsThePage(t *testing.T) {
	t.Parallel()
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	path := t.TempDir() + "/locks.db"
	store, err := sqlite.Open(t.Context(), path, &sqlite.Options{Options: farsync.Options{
		TTL: time.Minute, Holder: "the test", Trace: &farsync.Trace{Note: func(context.Context, farsync.TraceCall) string { return parent }},
	}})
	require.NoError(t, err)
	defer store.Close()
	for _, lock := range []string{"/a/x", "/b/y"} {
		_, err := farsync.NewMutex(store, lock).Lock(t.Context())
		require.NoError(t, err)
	}
	p := start(t, "sqlite:"+path, "serve", "--listen", "127.0.0.1:0", "--trace-url", "https://jaeger.example.com/trace/{trace}", "/a/")
	var at string
	require.Eventually(t, func() bool {
		at = regexp.MustCompile(`http://[0-9.:]+/`).FindString(p.err.String())
		return at != ""
	}, soon, 10*time.Millisecond)
	ask := func(method, path, host string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, at+path, http.NoBody)
		require.NoError(t, err)
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}
	code, text := ask(http.MethodGet, "", "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, "<title>farsync</title>")
	_, text = ask(http.MethodGet, "snapshot", "")
	require.Contains(t, text, `"path":"/a/x"`)
	require.Contains(t, text, `"holder":"the test"`)
	require.NotContains(t, text, "/b/y")
	require.Contains(t, text, `"traceURL":"https://jaeger.example.com/trace/`+trace+`"`)
	for host, want := range map[string]int{
		"": http.StatusOK, "localhost": http.StatusOK, "localhost:7070": http.StatusOK, "[::1]:7070": http.StatusOK,
		"rebound.example": http.StatusMisdirectedRequest, "rebound.example:7070": http.StatusMisdirectedRequest,
	} {
		code, _ := ask(http.MethodGet, "snapshot", host)
		require.Equal(t, want, code, host)
	}
	code, _ = ask(http.MethodPost, "break", "")
	require.Equal(t, http.StatusForbidden, code)
	require.NotContains(t, p.err.String(), "level=WARN", "nothing was changed")

	stream, err := http.Get(at + "events") //nolint:noctx // it is ended by the server
	require.NoError(t, err)
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	require.Zero(t, p.code(t))
	_, err = io.Copy(io.Discard, stream.Body)
	require.NoError(t, err, "the stream was ended, not cut off")
	require.NoError(t, stream.Body.Close())
}

// TestServeLogsWhatIsChanged, also without -v: by whom, of which lease, and why.
func TestServeLogsWhatIsChanged(t *testing.T) {
	t.Parallel()
	address := t.TempDir() + "/locks.db"
	store, err := sqlite.Open(t.Context(), address, nil)
	require.NoError(t, err)
	defer store.Close()
	lease, err := farsync.NewMutex(store, "/a").Lock(t.Context())
	require.NoError(t, err)
	p := start(t, "sqlite:"+address, "serve", "-q", "--allow-break", "--listen", "127.0.0.1:0")
	page := regexp.MustCompile(`http://[0-9.:]+/`)
	until(t, "it listens", func() bool { return page.FindString(p.err.String()) != "" })
	post := func(what string, form url.Values) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page.FindString(p.err.String())+what, strings.NewReader(form.Encode()))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.SetBasicAuth("ada", "secret")
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	token := lease.Token().String()
	require.Equal(t, http.StatusNoContent, post("ask", url.Values{"store": {"sqlite"}, "path": {"/a"}}))
	require.Equal(t, http.StatusConflict, post("break", url.Values{"store": {"sqlite"}, "path": {"/a"}, "token": {"256"}, "why": {"a guess"}}))
	require.Equal(t, http.StatusNoContent, post("break", url.Values{"store": {"sqlite"}, "path": {"/a"}, "token": {token}, "why": {"it hangs"}}))
	<-lease.Done()
	const by = ` store=sqlite path=/a by=127\.0\.0\.1:\d+ user=ada`
	for _, line := range []string{
		`level=WARN msg="lock asked for from the page"` + by + `\n`,
		`level=WARN msg="breaking a lease from the page failed"` + by + ` token=256 why="a guess" cause=.*\n`,
		`level=WARN msg="lease broken from the page"` + by + ` token=` + token + ` why="it hangs"\n`,
	} {
		written := regexp.MustCompile(line)
		until(t, line, func() bool { return written.MatchString(p.err.String()) }) // by another process, through a pipe
	}
	require.NotContains(t, p.err.String(), "secret")
	require.NotContains(t, p.err.String(), "level=DEBUG")
}

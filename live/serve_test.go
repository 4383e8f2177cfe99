package live

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// post returns the answer to a form.
func (p *play) post(what string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(p.Context(), http.MethodPost, "http://example.com/debug/farsync/"+what, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("ada", "secret")
	r.Header.Set("X-Forwarded-User", "bob")
	r.Header.Set("X-Forwarded-For", "203.0.113.7")
	w := httptest.NewRecorder()
	p.view.ServeHTTP(w, r)
	return w
}

// formOf names a lease of the path /a.
func formOf(token farsync.Token) url.Values {
	return url.Values{"store": {"mem"}, "path": {"/a"}, "token": {token.String()}, "why": {"a test"}}
}

// TestClosedViewTellsAndChangesNothing: the page itself is there, to say that there is no connection.
func TestClosedViewTellsAndChangesNothing(t *testing.T) {
	bubble(t, &Options{Allow: func(*http.Request) bool { return true }}, func(p *play) {
		lease := p.lock("a", "/a")
		asked := lease.Asked()
		require.NoError(p, p.view.Close())
		for _, what := range []string{"ask", "break"} {
			w := p.post(what, formOf(lease.Token()))
			require.Equal(p, http.StatusServiceUnavailable, w.Code, what)
			require.Equal(p, "5", w.Header().Get("Retry-After"), what)
		}
		for _, what := range []string{"events", "snapshot", "history?store=mem&path=/a"} {
			w := p.get(what)
			require.Equal(p, http.StatusServiceUnavailable, w.Code, what)
			require.Equal(p, "5", w.Header().Get("Retry-After"), what)
		}
		for _, what := range []string{"", "live.js", "live.css", "icon.svg"} {
			require.Equal(p, http.StatusOK, p.get(what).Code, what)
		}
		require.Zero(p, p.surveys())
		synctest.Wait()
		require.NoError(p, lease.Err())
		select {
		case <-asked:
			require.Fail(p, "asked")
		default:
		}
	})
}

// TestLogTellsWhatWasDoneFromWhatFailed: a line is written for both.
func TestLogTellsWhatWasDoneFromWhatFailed(t *testing.T) {
	var out strings.Builder
	logger := slog.New(slog.NewJSONHandler(&out, nil))
	bubble(t, &Options{Allow: func(*http.Request) bool { return true }, Logger: logger}, func(p *play) {
		line := func() (got map[string]any) {
			p.Helper()
			require.NoError(p, json.Unmarshal([]byte(out.String()), &got), out.String())
			out.Reset()
			delete(got, "time")
			return got
		}
		want := func(message string) map[string]any {
			return map[string]any{
				"level": "WARN", "msg": message, "store": "mem", "path": "/a", "by": "192.0.2.1:1234",
				"user": "ada", "X-Forwarded-User": "bob", "X-Forwarded-For": "203.0.113.7",
			}
		}
		of := func(token farsync.Token, line map[string]any) map[string]any {
			line["token"], line["why"] = token.String(), "a test"
			return line
		}
		lease := p.lock("a", "/a")
		require.Equal(p, http.StatusConflict, p.post("break", formOf(lease.Token()+256)).Code)
		failed := line()
		require.Contains(p, failed["cause"], farsync.ErrReleased.Error())
		delete(failed, "cause")
		require.Equal(p, of(lease.Token()+256, want("breaking a lease from the page failed")), failed)

		require.Equal(p, http.StatusNoContent, p.post("ask", formOf(0)).Code)
		require.Equal(p, want("lock asked for from the page"), line())
		require.Equal(p, http.StatusNoContent, p.post("break", formOf(lease.Token())).Code)
		require.Equal(p, of(lease.Token(), want("lease broken from the page")), line())

		p.service.PartitionClient("one", true)
		require.Equal(p, http.StatusGatewayTimeout, p.post("ask", formOf(0)).Code)
		failed = line()
		require.NotEmpty(p, failed["cause"])
		delete(failed, "cause")
		require.Equal(p, want("asking for a lock from the page failed"), failed)
	})
}

package live

import (
	"fmt"
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
	w := httptest.NewRecorder()
	p.view.ServeHTTP(w, r)
	return w
}

// formOf names a lease of the path /a.
func formOf(token farsync.Token) url.Values {
	return url.Values{"store": {"mem"}, "path": {"/a"}, "token": {fmt.Sprint(int64(token))}, "why": {"a test"}}
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

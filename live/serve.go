package live

import (
	"context"
	"embed"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/farsync/farsync"
)

//go:embed page
var page embed.FS

// An asset is a file of the page.
type asset struct{ file, kind string }

var assets = map[string]asset{
	"":         {"page/index.html", "text/html; charset=utf-8"},
	"live.js":  {"page/live.js", "text/javascript; charset=utf-8"},
	"live.css": {"page/live.css", "text/css; charset=utf-8"},
	"icon.svg": {"page/icon.svg", "image/svg+xml"},
}

// policy lets the page have what comes from the same place, and nothing else: no inline script, no style attribute, no
// frame around it. The texts that it shows were written by other processes. Trusted types make the browser refuse to
// parse any of them.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// routes returns the handler of all requests.
func (v *View) routes() http.Handler {
	get := map[string]http.HandlerFunc{"events": v.events, "snapshot": v.snapshot, "history": v.unlessClosed(v.history)}
	for name, a := range assets {
		get[name] = a.serve
	}
	post := map[string]http.HandlerFunc{"ask": v.unlessClosed(v.ask), "break": v.unlessClosed(v.breaks)}
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		switch {
		case r.URL.Path == "" && folder(r) != "":
			w.Header().Set("Location", folder(r)+"/")
			w.WriteHeader(http.StatusMovedPermanently)
		case post[last] != nil && r.Method == http.MethodPost:
			post[last](w, r)
		case post[last] != nil:
			refuse(w, http.StatusMethodNotAllowed, "POST alone")
		case get[last] == nil:
			refuse(w, http.StatusNotFound, "not found")
		case r.Method != http.MethodGet && (r.Method != http.MethodHead || last == "events"): // the head of a stream would not end either
			refuse(w, http.StatusMethodNotAllowed, "GET alone")
		case r.ContentLength != 0: // net/http would await it before the answer, and a stream has no deadline for what it reads
			w.Header().Set("Connection", "close")
			refuse(w, http.StatusBadRequest, "a GET without a body alone")
		default:
			get[last](w, r)
		}
	})
	sameSite := http.NewCrossOriginProtection().Handler(answer)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if limit(w); r.ContentLength != 0 { // net/http awaits a body that was not read, and then sends the answer
			control := http.NewResponseController(w)
			_, _ = control.SetReadDeadline(time.Now().Add(reading)), control.SetWriteDeadline(time.Now().Add(reading+writing))
		}
		sameSite.ServeHTTP(w, r)
	})
}

const (
	// writing is how long a client may take to accept an answer, or an event of a stream. A client who reads nothing costs
	// no more than its connection for so long: what is written is shared.
	writing = 10 * time.Second
	// reading is how long a client may take to send a form.
	reading = 10 * time.Second
)

// limit gives the client the time from now in which it has to accept what is written next. Then the server ends its
// connection, which may have no timeout of its own. net/http takes the limit away at the end of the request: the
// handlers of others, which are asked on the same connection, have what their server gives them. Where a ResponseWriter
// of somebody else hides the connection, the server's own timeouts stand.
func limit(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writing))
}

// unlimited is for the time in which nothing is written: on HTTP/2 a stream would end at the limit even then.
func unlimited(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
}

// folder returns the last name of the path that the client has asked for, "" if there is a slash at its end.
// http.StripPrefix may have left nothing of both. The name with a slash leads from there to the page, whatever a proxy
// has had in front of it.
func folder(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	return path[strings.LastIndexByte(path, '/')+1:]
}

func refuse(w http.ResponseWriter, code int, words string) { http.Error(w, words, code) }

func (a asset) serve(w http.ResponseWriter, _ *http.Request) {
	text, err := page.ReadFile(a.file)
	if err != nil {
		panic("live: " + err.Error()) // it is embedded
	}
	w.Header().Set("Content-Type", a.kind)
	_, _ = w.Write(text)
}

func unavailable(w http.ResponseWriter, err error) {
	limit(w)
	w.Header().Set("Retry-After", "5")
	refuse(w, http.StatusServiceUnavailable, err.Error())
}

// unlessClosed returns a handler of requests other than a viewer's.
func (v *View) unlessClosed(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-v.closed:
			unavailable(w, errClosed)
		default:
			handler(w, r)
		}
	}
}

// await returns a frame other than the frame that was seen. It returns nil when the client has left, the View is closed,
// or over is.
func (v *View) await(ctx context.Context, seen *frame, over <-chan struct{}) *frame {
	for {
		select {
		case <-over: // also if there is something new
			return nil
		default:
		}
		f, changed := v.now()
		if f != nil && f != seen {
			return f
		}
		select {
		case <-over:
			return nil
		case <-changed:
		case <-ctx.Done():
			return nil
		case <-v.closed:
			return nil
		}
	}
}

// snapshot serves what the last survey has shown, of the path alone if there is one in the query. It is a viewer while
// it waits for the survey, and not while the client accepts the answer.
func (v *View) snapshot(w http.ResponseWriter, r *http.Request) {
	unlimited(w)
	leave, err := v.enter(nil)
	if err != nil {
		unavailable(w, err)
		return
	}
	f := v.await(r.Context(), nil, nil)
	leave()
	if f == nil {
		unavailable(w, errClosed)
		return
	}
	path, one := r.URL.Query()["path"]
	limit(w)
	w.Header().Set("Content-Type", "application/json")
	for part := range f.text(func(at gone) bool { return !one || at.Path == path[0] }, f.long) {
		if _, err := w.Write(part); err != nil {
			return
		}
	}
	_, _ = w.Write([]byte("\n"))
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(encode(v), '\n'))
}

// history serves the last holds on a lock that the surveys have shown, and whether they show its path. It has none
// made.
func (v *View) history(w http.ResponseWriter, r *http.Request) {
	store, path := r.URL.Query().Get("store"), r.URL.Query().Get("path")
	v.mu.Lock()
	from := v.source(store)
	v.mu.Unlock()
	answer(w, struct {
		Schema int    `json:"schema"`
		Shown  bool   `json:"shown"`
		Holds  []hold `json:"holds"`
	}{schema, from != nil && from.shows(path), v.memory.of(gone{store, path})})
}

// acting is how long a request that changes something may take.
const acting = 15 * time.Second

// mostForm is how many bytes of a form are read.
const mostForm = 16 << 10

// An action changes something on a path, and logs whether it has.
type action func(ctx context.Context, log *slog.Logger, store *farsync.Store, path string) error

// change carries out an action with the Store and the path of a form, if the client is allowed to change anything.
func (v *View) change(w http.ResponseWriter, r *http.Request, act action) {
	if v.options.Allow == nil || !v.options.Allow(r) {
		refuse(w, http.StatusForbidden, "this page may look, and change nothing")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	err := r.ParseForm()
	limit(w)
	if err != nil {
		refuse(w, http.StatusBadRequest, "the form is none, is longer than 16 KiB, or did not come in time")
		return
	}
	path := r.PostFormValue("path")
	v.mu.Lock()
	from := v.source(r.PostFormValue("store"))
	v.mu.Unlock()
	if from == nil || !from.shows(path) {
		refuse(w, http.StatusNotFound, "no such lock is shown here")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), acting)
	defer cancel()
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the form is there, and now a client who leaves ends ctx
	unlimited(w)
	err = act(ctx, v.options.Logger.With(append([]any{"store", from.name, "path", cut(path, mostError)}, sender(r)...)...), from.store, path)
	limit(w)
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, farsync.ErrReleased):
		refuse(w, http.StatusConflict, cut(err.Error(), mostError))
	case ctx.Err() != nil:
		refuse(w, http.StatusGatewayTimeout, cut(err.Error(), mostError))
	default:
		refuse(w, http.StatusBadGateway, cut(err.Error(), mostError))
	}
}

// sender returns who has sent a request, for a log: the address, the name of HTTP's own authentication, and what a
// proxy says of its client under the names of its headers, for anybody can send those.
func sender(r *http.Request) []any {
	list := []any{"by", r.RemoteAddr}
	if user, _, ok := r.BasicAuth(); ok {
		list = append(list, "user", cut(user, mostText))
	}
	for _, name := range []string{"X-Forwarded-User", "X-Forwarded-For"} {
		if said := r.Header.Get(name); said != "" {
			list = append(list, name, cut(said, mostText))
		}
	}
	return list
}

// shows reports whether a path is below a prefix that was added.
func (s *source) shows(path string) bool {
	for _, prefix := range s.prefixes {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// ask asks all holders of a lock to give it back.
func (v *View) ask(w http.ResponseWriter, r *http.Request) {
	v.change(w, r, func(ctx context.Context, log *slog.Logger, store *farsync.Store, path string) error {
		err := store.Ask(ctx, path) // of whatever kind they are
		if err != nil {
			log.Warn("asking for a lock from the page failed", "cause", cut(err.Error(), mostError))
			return err
		}
		log.Warn("lock asked for from the page")
		return nil
	})
}

// breaks breaks the lease with the token.
func (v *View) breaks(w http.ResponseWriter, r *http.Request) {
	v.change(w, r, func(ctx context.Context, log *slog.Logger, store *farsync.Store, path string) error {
		text, why := r.PostFormValue("token"), r.PostFormValue("why")
		log = log.With("token", cut(text, mostText), "why", cut(why, mostText))
		var token farsync.Token
		err := token.UnmarshalText([]byte(text))
		if err == nil {
			err = store.Break(ctx, path, token, &farsync.BreakOptions{Reason: why})
		}
		if err != nil {
			log.Warn("breaking a lease from the page failed", "cause", cut(err.Error(), mostError))
			return err
		}
		log.Warn("lease broken from the page")
		return nil
	})
}

package live

import (
	"compress/gzip"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
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

// policy lets the page have what comes from the same place, and nothing else: no inline script, no style attribute, no frame around
// it. What it shows was written by other processes. Trusted types make the browser refuse to parse any of it.
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
		sameSite.ServeHTTP(w, r)
	})
}

// folder returns the last name of the path that the client has asked for, "" if there is a slash at its end. http.StripPrefix may
// have left nothing of both. The name with a slash leads from there to the page, whatever a proxy has had in front of it.
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

// enterFor is enter for a request. If it cannot be served it answers.
func (v *View) enterFor(w http.ResponseWriter) (leave func(), ok bool) {
	leave, err := v.enter()
	if err != nil {
		unavailable(w, err)
	}
	return leave, err == nil
}

func unavailable(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", "5")
	refuse(w, http.StatusServiceUnavailable, err.Error())
}

// unlessClosed returns a handler of requests that are not those of a viewer.
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

// await returns a frame that is not the one that was seen. It returns nil when the client has left or the View is closed.
func (v *View) await(ctx context.Context, seen *frame) *frame {
	for {
		f, changed := v.now()
		if f != nil && f != seen {
			return f
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		case <-v.closed:
			return nil
		}
	}
}

// snapshot serves what the last survey has shown, of the path alone if there is one in the query.
func (v *View) snapshot(w http.ResponseWriter, r *http.Request) {
	leave, ok := v.enterFor(w)
	if !ok {
		return
	}
	defer leave()
	f := v.await(r.Context(), nil)
	if f == nil {
		unavailable(w, errClosed)
		return
	}
	all := f.head
	all.Locks = []json.RawMessage{}
	path, one := r.URL.Query()["path"]
	for _, lock := range f.whole {
		if !one || lock.Path == path[0] {
			all.Locks = append(all.Locks, encode(lock))
		}
	}
	answer(w, all)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(encode(v), '\n'))
}

// history serves the last holds on a lock that the surveys have shown, and whether they show its path. It has none made.
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

// writing is how long a client may take to accept an event.
const writing = 10 * time.Second

// events streams server-sent events: first hello, then all, and then with each survey what has changed.
func (v *View) events(w http.ResponseWriter, r *http.Request) {
	s, err := newStream(w, r)
	if err != nil {
		refuse(w, http.StatusNotImplemented, "the server's ResponseWriter cannot stream: "+err.Error())
		return
	}
	leave, ok := v.enterFor(w)
	if !ok {
		return
	}
	defer leave()
	s.begin()
	defer s.end()
	may := v.options.Allow != nil && v.options.Allow(r)
	err = s.send("hello", encode(map[string]any{"schema": schema, "allowed": may}))
	for seen := (*frame)(nil); err == nil; {
		f := v.await(r.Context(), seen)
		if f == nil {
			return
		}
		if seen != nil && seen.number+1 == f.number {
			err = s.send("some", f.some)
		} else { // a viewer that is slow has missed some
			err = s.send("all", f.all())
		}
		seen = f
	}
}

// A stream is that of one viewer.
type stream struct {
	w       io.Writer
	zip     *gzip.Writer // or nil
	header  http.Header
	control *http.ResponseController
}

// newStream looks whether the server can stream. Nothing is written.
func newStream(w http.ResponseWriter, r *http.Request) (*stream, error) {
	if !flushes(w) {
		return nil, errors.New("it has no Flush and no Unwrap")
	}
	s := &stream{w: w, header: w.Header(), control: http.NewResponseController(w)}
	// The server's timeouts are for requests that end. Where they cannot be changed there are none.
	for _, set := range []func(time.Time) error{s.control.SetReadDeadline, s.control.SetWriteDeadline} {
		if err := set(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return nil, err
		}
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		s.zip, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // a level that there is
		s.w = s.zip
	}
	return s, nil
}

// flushes reports whether a ResponseWriter can be flushed. http.ResponseController would tell, but only by flushing.
func flushes(w http.ResponseWriter) bool {
	for {
		switch inner := w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return false
		}
	}
}

func (s *stream) begin() {
	s.header.Set("Content-Type", "text/event-stream")
	s.header.Set("X-Accel-Buffering", "no") // nginx would keep events back
	if s.zip != nil {
		s.header.Set("Content-Encoding", "gzip")
	}
}

// send writes an event. JSON has no line breaks.
func (s *stream) send(name string, text []byte) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(writing)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	for _, part := range [][]byte{[]byte("event: " + name + "\ndata: "), text, []byte("\n\n")} {
		if _, err := s.w.Write(part); err != nil {
			return err
		}
	}
	if s.zip != nil {
		if err := s.zip.Flush(); err != nil {
			return err
		}
	}
	return s.control.Flush()
}

// end ends the stream. The client may have left.
func (s *stream) end() {
	if s.zip != nil {
		_ = s.zip.Close()
	}
}

// acting is how long a request that changes something may take.
const acting = 15 * time.Second

// An action changes something on a path, and logs whether it has.
type action func(ctx context.Context, log *slog.Logger, store *farsync.Store, path string) error

// change carries out an action with the Store and the path of a form, if the client is allowed to change anything.
func (v *View) change(w http.ResponseWriter, r *http.Request, act action) {
	if v.options.Allow == nil || !v.options.Allow(r) {
		refuse(w, http.StatusForbidden, "this page may look, and change nothing")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
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
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(acting + writing)) // where it cannot be changed there is none
	err := act(ctx, v.options.Logger.With(append([]any{"store", from.name, "path", path}, sender(r)...)...), from.store, path)
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, farsync.ErrReleased):
		refuse(w, http.StatusConflict, err.Error())
	case ctx.Err() != nil:
		refuse(w, http.StatusGatewayTimeout, err.Error())
	default:
		refuse(w, http.StatusBadGateway, err.Error())
	}
}

// sender returns who has sent a request, for a log: the address, the name of HTTP's own authentication, and what a
// proxy says of its client under the names of its headers, for anybody can send those.
func sender(r *http.Request) []any {
	list := []any{"by", r.RemoteAddr}
	if user, _, ok := r.BasicAuth(); ok {
		list = append(list, "user", cut(user))
	}
	for _, name := range []string{"X-Forwarded-User", "X-Forwarded-For"} {
		if said := r.Header.Get(name); said != "" {
			list = append(list, name, cut(said))
		}
	}
	return list
}

// shows reports whether a path is one of those that were added.
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
		err := farsync.NewMutex(store, path).Ask(ctx) // of whatever kind they are
		if err != nil {
			log.Warn("asking for a lock from the page failed", "cause", err)
			return err
		}
		log.Warn("lock asked for from the page")
		return nil
	})
}

var errToken = errors.New("the token is no number")

// breaks breaks the lease with the token.
func (v *View) breaks(w http.ResponseWriter, r *http.Request) {
	v.change(w, r, func(ctx context.Context, log *slog.Logger, store *farsync.Store, path string) error {
		text, why := r.PostFormValue("token"), r.PostFormValue("why")
		log = log.With("token", cut(text), "why", cut(why))
		token, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			err = errToken
		} else {
			err = farsync.Break(ctx, store, path, farsync.Token(token), &farsync.BreakOptions{Why: why})
		}
		if err != nil {
			log.Warn("breaking a lease from the page failed", "cause", err)
			return err
		}
		log.Warn("lease broken from the page")
		return nil
	})
}

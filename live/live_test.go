package live

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/recipe"
)

// A play is a View of a Store whose requests are counted, in a bubble in which time is not real.
type play struct {
	*testing.T

	service *farsynctest.Mem
	record  *farsynctest.Record
	store   *farsync.Store
	clients map[string]*farsync.Store
	view    *View
}

func bubble(t *testing.T, o *Options, f func(p *play)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &play{T: t, service: farsynctest.NewMem(), record: &farsynctest.Record{}, clients: map[string]*farsync.Store{}}
		store, err := farsync.Open(t.Context(), p.record.Wrap(p.service.Service("one"), "one"), &farsync.Options{Holder: "one"})
		require.NoError(t, err)
		defer store.Close()
		p.store = store
		p.view = New(o)
		p.view.Add("mem", store)
		defer func() {
			for _, client := range p.clients {
				_ = client.Close()
			}
		}()
		f(p)
		synctest.Wait()
		require.Zero(t, p.view.viewers)
		if last := p.view.poller; last != nil {
			select {
			case <-last.done:
			default:
				require.Fail(t, "a poller without viewers")
			}
		}
	})
}

// surveys returns how many surveys there were. A survey of a few queues asks once for them, and once for more.
func (p *play) surveys() int { return (p.record.Count(farsynctest.Survey) + 1) / 2 }

// lock locks a path for a client of its own.
func (p *play) lock(holder, path string) *farsync.Lease {
	p.Helper()
	lease, err := farsync.NewMutex(p.client(holder), path).Lock(p.Context())
	require.NoError(p, err)
	return lease
}

// client returns the Store of another process, closed by p.
func (p *play) client(holder string) *farsync.Store {
	if p.clients[holder] == nil {
		p.clients[holder] = p.service.Open(&farsynctest.MemOptions{Options: farsync.Options{Holder: holder}})
	}
	return p.clients[holder]
}

// A viewer has a stream of events, until it leaves.
type viewer struct {
	p      *play
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	text strings.Builder
	code int
	http.ResponseWriter
}

func (p *play) viewer() *viewer {
	ctx, cancel := context.WithCancel(p.Context())
	v := &viewer{p: p, cancel: cancel, done: make(chan struct{}), code: http.StatusOK, ResponseWriter: httptest.NewRecorder()}
	go func() { // joined by leave
		defer close(v.done)
		p.view.ServeHTTP(v, httptest.NewRequestWithContext(ctx, http.MethodGet, "/debug/farsync/events", http.NoBody))
	}()
	return v
}

func (v *viewer) leave() {
	v.cancel()
	<-v.done
}

func (v *viewer) Flush()               {}
func (v *viewer) WriteHeader(code int) { v.code = code }

func (v *viewer) Write(text []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.text.Write(text)
}

// An event is a server-sent event.
type event struct {
	name string
	told
}

type told struct {
	Allowed   bool
	Stores    []storeJSON
	Locks     []lockJSON
	Gone      []gone
	Deadlocks []deadlockJSON
}

// events returns those that have come since the last call.
func (v *viewer) events() (list []event) {
	v.p.Helper()
	synctest.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	for one := range strings.SplitSeq(v.text.String(), "\n\n") {
		if one != "" {
			list = append(list, parse(v.p, one))
		}
	}
	v.text.Reset()
	return list
}

func parse(t testing.TB, text string) (e event) {
	t.Helper()
	name, data, ok := strings.Cut(text, "\ndata: ")
	require.True(t, ok, text)
	e.name = strings.TrimPrefix(name, "event: ")
	require.NoError(t, json.Unmarshal([]byte(data), &e.told), data)
	return e
}

// after lets time pass.
func (p *play) after(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // in a bubble
	synctest.Wait()
}

func TestViewersSeeWhatChanges(t *testing.T) {
	bubble(t, nil, func(p *play) {
		a := p.lock("a", "/a")
		v := p.viewer()
		list := v.events()
		require.Len(p, list, 2)
		require.Equal(p, "hello", list[0].name)
		require.Equal(p, "all", list[1].name)
		require.Equal(p, "connected", list[1].Stores[0].State)
		require.Len(p, list[1].Locks, 1)
		require.Equal(p, lockJSON{
			Store: "mem", Path: "/a", Kind: "mutex", Held: 1, Participants: []participantJSON{{
				Holder: "a", Held: true, Kind: "exclusive", Units: 1, Token: a.Token(), Since: list[1].Locks[0].Participants[0].Since, ID: a.ID(),
				Session: list[1].Locks[0].Participants[0].Session,
			}},
		}, list[1].Locks[0])

		own, err := farsync.NewSemaphore(p.store, "/b", 3).Acquire(p.Context(), 2)
		require.NoError(p, err)
		p.after(time.Second)
		list = v.events()
		require.Len(p, list, 1)
		require.Equal(p, "some", list[0].name)
		require.Len(p, list[0].Locks, 1, "what has changed alone")
		require.Equal(p, "semaphore", list[0].Locks[0].Kind)
		require.EqualValues(p, 3, list[0].Locks[0].Size)
		require.NotZero(p, list[0].Locks[0].Participants[0].HeldSince, "it is the View's own Store")

		require.NoError(p, a.Release())
		p.after(time.Second)
		list = v.events()
		require.Equal(p, []gone{{"mem", "/a"}}, list[0].Gone)
		require.Empty(p, list[0].Locks)
		require.NoError(p, own.Release())
		v.leave()
	})
}

func TestOneSurveyASecondWhateverTheViewers(t *testing.T) {
	bubble(t, nil, func(p *play) {
		p.lock("a", "/a")
		p.after(time.Minute)
		require.Zero(p, p.surveys(), "no viewer")
		first := p.viewer()
		p.after(10*time.Second + time.Millisecond)
		one := p.surveys()
		require.Equal(p, 11, one, "at 0, 1, … 10 s")

		var others []*viewer
		for range mostViewers - 1 {
			others = append(others, p.viewer())
		}
		p.after(10 * time.Second)
		require.Equal(p, one+10, p.surveys(), "as many for 64 as for one")
		for _, v := range others {
			require.NotEmpty(p, v.events())
		}
		beyond := p.viewer()
		<-beyond.done
		require.Equal(p, http.StatusServiceUnavailable, beyond.code)

		first.leave()
		for _, v := range others {
			v.leave()
		}
		left := p.surveys()
		p.after(time.Minute)
		require.Equal(p, left, p.surveys(), "no viewer again")

		for range 100 { // that come and go within a second
			v := p.viewer()
			p.after(10 * time.Millisecond)
			require.NotEmpty(p, v.events())
			v.leave()
		}
		require.LessOrEqual(p, p.surveys(), left+2)
		for range 100 {
			p.get("snapshot")
		}
		require.LessOrEqual(p, p.surveys(), left+3)
	})
}

// TestHolderSaysWhatItWaitsFor: whoever looks at a lock sees why it is held on.
func TestHolderSaysWhatItWaitsFor(t *testing.T) {
	bubble(t, nil, func(p *play) {
		lease := p.lock("a", "/a")
		v := p.viewer()
		shown := func() []event {
			p.after(2 * time.Second)
			return slices.DeleteFunc(v.events(), func(e event) bool { return len(e.Locks) == 0 })
		}
		require.Empty(p, shown()[0].Locks[0].Participants[0].WaitsFor)
		ctx, cancel := lease.Context(p.Context())
		defer cancel()
		require.NoError(p, recipe.Explain(ctx, beneath.Store(p.client("a")), "4711 sleep"))
		events := shown()
		require.Len(p, events, 1, "it is told once")
		require.Equal(p, "4711 sleep", events[0].Locks[0].Participants[0].WaitsFor)
		v.leave()
	})
}

// get returns the answer to a request.
func (p *play) get(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	p.view.ServeHTTP(w, httptest.NewRequestWithContext(p.Context(), http.MethodGet, "/debug/farsync/"+path, http.NoBody))
	return w
}

func TestSlowServiceIsAskedLess(t *testing.T) {
	bubble(t, nil, func(p *play) {
		p.service.SetLatency(250 * time.Millisecond)
		v := p.viewer()
		p.after(60 * time.Second)
		require.LessOrEqual(p, p.surveys(), 1+6, "each takes a second, and a tenth of the time is for them")
		v.leave()
	})
}

func TestStoreThatDoesNotAnswerIsShownAsItWas(t *testing.T) {
	bubble(t, nil, func(p *play) {
		p.lock("a", "/a")
		v := p.viewer()
		require.Len(p, v.events()[1].Locks, 1)
		p.service.PartitionClient("one", true)
		p.after(patience + 2*time.Second)
		list := v.events()
		last := list[len(list)-1]
		require.NotEmpty(p, last.Stores[0].Error)
		require.Empty(p, last.Gone, "that is not known")
		require.NotZero(p, last.Stores[0].Seen)
		p.service.PartitionClient("one", false)
		p.after(longest + time.Second)
		list = v.events()
		require.Empty(p, list[len(list)-1].Stores[0].Error)
		v.leave()
	})
}

func TestDeadlockIsShownOnceItHasStood(t *testing.T) {
	bubble(t, nil, func(p *play) {
		a, b := p.lock("a", "/a"), p.lock("b", "/b")
		v := p.viewer()
		stopA := p.waitUnder(a, "a", "/b")
		p.after(5 * time.Second)
		for _, e := range v.events() {
			require.Empty(p, e.Deadlocks)
		}
		stopB := p.waitUnder(b, "b", "/a")
		p.after(time.Second)
		list := v.events()
		require.Empty(p, list[len(list)-1].Deadlocks, "a survey is no picture of one moment")
		p.after(3 * time.Second)
		list = v.events()
		raised := list[len(list)-1].Deadlocks
		require.Len(p, raised, 1)
		var steps []string
		for _, step := range raised[0].Steps {
			steps = append(steps, fmt.Sprint(step.Holder, step.Path, step.Held))
		}
		require.Equal(p, []string{"b/afalse", "a/atrue", "a/bfalse", "b/btrue"}, steps)

		stopB()
		p.after(2 * time.Second)
		list = v.events()
		require.Empty(p, list[len(list)-1].Deadlocks)
		stopA()
		v.leave()
	})
}

func TestHistoryIsOfWhatWasSeen(t *testing.T) {
	bubble(t, nil, func(p *play) {
		holds := func() []hold { return p.holds("/a") }
		require.Empty(p, holds())
		require.Zero(p, p.surveys(), "history has none made")
		v := p.viewer()
		p.after(time.Second / 2) // between two surveys
		for _, holder := range []string{"a", "b"} {
			lease := p.lock(holder, "/a")
			p.after(2 * time.Second)
			require.NoError(p, lease.Release())
			p.after(2 * time.Second)
		}
		list := holds()
		require.Len(p, list, 2)
		require.Equal(p, "a", list[0].Holder)
		require.EqualValues(p, 2000, list[0].To-list[0].From)
		require.Equal(p, "b", list[1].Holder)
		c := p.lock("c", "/a")
		p.after(2 * time.Second)
		v.leave()
		p.after(5 * time.Minute)
		require.NoError(p, c.Release())
		v = p.viewer()
		p.after(2 * time.Second)
		require.Len(p, holds(), 2, "when c has ended is not known")
		p.after(forgotten + time.Minute)
		require.Empty(p, p.view.memory.locks)
		v.leave()
	})
}

func TestCloseEndsStreams(t *testing.T) {
	bubble(t, nil, func(p *play) {
		v := p.viewer()
		v.events()
		require.NoError(p, p.view.Close())
		require.NoError(p, p.view.Close())
		<-v.done
		require.Equal(p, http.StatusServiceUnavailable, p.get("snapshot").Code)
		require.Equal(p, http.StatusOK, p.get("").Code, "the page says that there is no connection")
	})
}

func TestSnapshotHasAll(t *testing.T) {
	bubble(t, &Options{Limit: 150}, func(p *play) {
		election := farsync.NewElection(p.store, "/leader")
		_, err := election.Campaign(p.Context(), strings.Repeat("é", 500)+"\xff")
		require.NoError(p, err)
		for i := range 200 {
			p.lock(fmt.Sprint("holder ", i), fmt.Sprintf("/locks/%03d", i))
		}
		var all told
		require.NoError(p, json.Unmarshal(p.get("snapshot").Body.Bytes(), &all))
		require.Len(p, all.Locks, 150)
		require.True(p, all.Stores[0].More)
		require.Equal(p, strings.Repeat("é", mostText/2)+"…", all.Locks[0].Participants[0].Holder)
		require.NoError(p, json.Unmarshal(p.get("snapshot?path=/locks/007").Body.Bytes(), &all))
		require.Len(p, all.Locks, 1)
	})
}

func TestCrowdIsSentInPart(t *testing.T) {
	bubble(t, nil, func(p *play) {
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(p.Context())
		for range 200 {
			store := p.service.Open(nil)
			all.Go(func() {
				if lease, err := farsync.NewMutex(store, "/a").Lock(ctx); err == nil {
					<-ctx.Done()
					_ = lease.Release()
				}
				_ = store.Close()
			})
		}
		synctest.Wait()
		v := p.viewer()
		lock := v.events()[1].Locks[0]
		require.Equal(p, 199, lock.Waiting)
		require.Len(p, lock.Participants, mostInRow)
		var snapshot told
		require.NoError(p, json.Unmarshal(p.get("snapshot").Body.Bytes(), &snapshot))
		require.Len(p, snapshot.Locks[0].Participants, 200)
		cancel()
		all.Wait()
		v.leave()
	})
}

// TestUnitsOfAllHoldersAreCounted, also of those that an event does not have.
func TestUnitsOfAllHoldersAreCounted(t *testing.T) {
	bubble(t, nil, func(p *play) {
		const holders, units = 150, 2
		for i := range holders {
			_, err := farsync.NewSemaphore(p.client(fmt.Sprint(i)), "/s", 500).Acquire(p.Context(), units)
			require.NoError(p, err)
		}
		p.lock("a", "/a")
		v := p.viewer()
		locks := v.events()[1].Locks
		require.Zero(p, locks[0].UnitsHeld, "it is no semaphore")
		require.Len(p, locks[1].Participants, mostInRow)
		require.EqualValues(p, holders*units, locks[1].UnitsHeld)
		v.leave()
	})
}

// TestFiveThousandEntries: docs/LIVE.md says how much a viewer is sent.
func TestFiveThousandEntries(t *testing.T) {
	const locks, each = 1000, 5
	var list []farsync.LockInfo
	for i := range locks {
		lock := farsync.LockInfo{Path: fmt.Sprintf("/jobs/%08d", i*7919)}
		for j := range each {
			lock.Participants = append(lock.Participants, farsync.Participant{
				Holder: fmt.Sprintf("worker-%d.example.com pid %d", j, 1000+i), Held: j == 0, Kind: farsync.KindExclusive, Units: 1, Since: time.Now(),
				Token: farsync.Token(1e9 + i*7919), ID: lock.Path + "/m-" + rand.Text(), Session: "694d81417acd4754",
			})
		}
		list = append(list, lock)
	}
	v := New(nil)
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	v.Add("etcd", store)
	frame := func() *frame { return v.frame(time.Now(), time.Second, []sight{{source: v.sources[0], locks: list}}) }
	began := time.Now()
	first := frame()
	all := first.all().text
	took := time.Since(began)
	list[500].Participants = list[500].Participants[1:]
	some := frame().since(first).text
	zipped := func(text []byte) int {
		var out bytes.Buffer
		zip, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
		require.NoError(t, err)
		_, err = zip.Write(text)
		require.NoError(t, err)
		require.NoError(t, zip.Flush())
		return out.Len()
	}
	t.Logf("%d entries: %d bytes, %d compressed, made in %v; one lock has changed: %d bytes", locks*each, len(all), zipped(all), took, len(some))
	require.Less(t, len(all), 1_200_000)
	require.Less(t, zipped(all), 200_000)
	require.Less(t, len(some), 2000)
}

// TestAnswers is on a real server: headers, mounting, timeouts.
func TestAnswers(t *testing.T) {
	defer func() { require.NoError(t, locktest.Leaks()) }()
	service := farsynctest.NewMem()
	store := service.Open(nil)
	defer store.Close()
	view := New(nil)
	view.Add("mem", store, "")
	mux := http.NewServeMux()
	mux.Handle("/debug/farsync/", view)
	mux.Handle("/stripped/", http.StripPrefix("/stripped", view))
	mux.Handle("/slash/", http.StripPrefix("/slash/", view))
	mux.Handle("/bare", http.StripPrefix("/bare", view))
	server := httptest.NewUnstartedServer(mux)
	if suite.More(t, suite.Live) { // a slow machine may need longer for an answer
		server.Config.ReadTimeout, server.Config.WriteTimeout = 1200*time.Millisecond, 1200*time.Millisecond
	}
	server.Config.RegisterOnShutdown(func() { _ = view.Close() })
	server.Start()
	defer server.Close()
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	get := func(method, path string, header ...string) (*http.Response, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, http.NoBody)
		require.NoError(t, err)
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		response, err := client.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response, string(text)
	}
	for _, c := range []struct {
		method, path string
		code         int
		kind         string
	}{
		{http.MethodGet, "/debug/farsync/", http.StatusOK, "text/html; charset=utf-8"},
		{http.MethodHead, "/debug/farsync/", http.StatusOK, "text/html; charset=utf-8"},
		{http.MethodGet, "/stripped/", http.StatusOK, "text/html; charset=utf-8"},
		{http.MethodGet, "/stripped/live.js", http.StatusOK, "text/javascript; charset=utf-8"},
		{http.MethodGet, "/slash/", http.StatusOK, "text/html; charset=utf-8"},
		{http.MethodGet, "/slash/?x=/y", http.StatusOK, "text/html; charset=utf-8"},
		{http.MethodGet, "/slash/live.js", http.StatusOK, "text/javascript; charset=utf-8"},
		{http.MethodPost, "/slash/", http.StatusMethodNotAllowed, "text/plain; charset=utf-8"},
		{http.MethodGet, "/debug/farsync/live.css", http.StatusOK, "text/css; charset=utf-8"},
		{http.MethodGet, "/debug/farsync/icon.svg", http.StatusOK, "image/svg+xml"},
		{http.MethodGet, "/debug/farsync/snapshot", http.StatusOK, "application/json"},
		{http.MethodHead, "/debug/farsync/snapshot", http.StatusOK, "application/json"},
		{http.MethodHead, "/debug/farsync/events", http.StatusMethodNotAllowed, "text/plain; charset=utf-8"},
		{http.MethodGet, "/debug/farsync/history", http.StatusOK, "application/json"},
		{http.MethodGet, "/debug/farsync/serve.go", http.StatusNotFound, "text/plain; charset=utf-8"},
		{http.MethodPost, "/debug/farsync/", http.StatusMethodNotAllowed, "text/plain; charset=utf-8"},
		{http.MethodGet, "/debug/farsync/break", http.StatusMethodNotAllowed, "text/plain; charset=utf-8"},
		{http.MethodPost, "/debug/farsync/break", http.StatusForbidden, "text/plain; charset=utf-8"},
		{http.MethodPost, "/debug/farsync/ask", http.StatusForbidden, "text/plain; charset=utf-8"},
	} {
		response, _ := get(c.method, c.path)
		require.Equal(t, c.code, response.StatusCode, c.path)
		require.Equal(t, c.kind, response.Header.Get("Content-Type"), c.path)
		require.Equal(t, policy, response.Header.Get("Content-Security-Policy"))
		require.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"))
		require.Equal(t, "no-store", response.Header.Get("Cache-Control"))
	}
	response, _ := get(http.MethodGet, "/bare?x")
	require.Equal(t, http.StatusMovedPermanently, response.StatusCode)
	require.Equal(t, "bare/", response.Header.Get("Location"))

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/debug/farsync/events", http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Accept-Encoding", "gzip")
	response, err = client.Do(request)
	require.NoError(t, err)
	require.Equal(t, "gzip", response.Header.Get("Content-Encoding"))
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	zip, err := gzip.NewReader(response.Body)
	require.NoError(t, err)
	lines := bufio.NewReader(zip)
	for seen := 0; seen < 4; { // beyond the timeouts of the server
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		if strings.HasPrefix(line, "data: ") {
			seen++
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, server.Config.Shutdown(ctx), "the stream does not keep the server")
	require.NoError(t, response.Body.Close())
	client.CloseIdleConnections()
}

// A plain writer cannot flush, as that of a middleware that knows of no streams.
type plain struct{ http.ResponseWriter }

func TestWriterThatCannotStream(t *testing.T) {
	bubble(t, nil, func(p *play) {
		w := httptest.NewRecorder()
		p.view.ServeHTTP(plain{w}, httptest.NewRequestWithContext(p.Context(), http.MethodGet, "/events", http.NoBody))
		require.Equal(p, http.StatusNotImplemented, w.Code)
		require.Zero(p, p.surveys())
	})
}

func TestChangesNeedLeave(t *testing.T) {
	may := false
	bubble(t, &Options{Allow: func(*http.Request) bool { return may }}, func(p *play) {
		lease := p.lock("a", "/a")
		post := func(what string, form url.Values, header ...string) int {
			r := httptest.NewRequestWithContext(p.Context(), http.MethodPost, "http://example.com/"+what, strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			for i := 0; i < len(header); i += 2 {
				r.Header.Set(header[i], header[i+1])
			}
			w := httptest.NewRecorder()
			p.view.ServeHTTP(w, r)
			return w.Code
		}
		form := func(token farsync.Token) url.Values {
			return url.Values{"store": {"mem"}, "path": {"/a"}, "token": {token.String()}, "why": {"a test"}}
		}
		require.Equal(p, http.StatusForbidden, post("break", form(lease.Token())))
		may = true
		for _, header := range [][]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://elsewhere.example"}, {"Origin", "null"},
		} {
			require.Equal(p, http.StatusForbidden, post("break", form(lease.Token()), header...), header)
		}
		require.Equal(p, http.StatusConflict, post("break", form(lease.Token()+256)))
		require.Equal(p, http.StatusNotFound, post("break", url.Values{"store": {"other"}, "path": {"/a"}}))
		require.Equal(p, http.StatusNotFound, post("break", url.Values{"store": {"mem"}, "path": {"a"}}))
		require.Equal(p, http.StatusBadGateway, post("break", url.Values{"store": {"mem"}, "path": {"/a"}, "token": {"x"}}))
		require.Equal(p, http.StatusBadGateway, post("break", url.Values{"store": {"mem"}, "path": {"/a//b"}, "token": {"1"}}))
		require.Equal(p, http.StatusBadRequest, post("break", url.Values{"store": {"mem"}, "path": {strings.Repeat("/a", 20_000)}}), "too long to read")
		require.NoError(p, lease.Err())

		asked := lease.Asked()
		require.Equal(p, http.StatusNoContent, post("ask", form(0)))
		<-asked
		require.Equal(p, http.StatusNoContent, post("break", form(lease.Token()), "Sec-Fetch-Site", "same-origin"))
		require.ErrorIs(p, lease.Err(), farsync.ErrBroken)
		require.ErrorContains(p, lease.Err(), "a test")
	})
}

func TestMisuse(t *testing.T) {
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	v := New(nil)
	v.Add("a", store)
	require.Panics(t, func() { v.Add("a", store) })
	require.Panics(t, func() { v.Add("", store) })
	require.Panics(t, func() { v.Add("b", nil) })
	require.PanicsWithValue(t, `live: Add: bad path "jobs": no leading slash`, func() { v.Add("b", store, "/a", "jobs") })
}

// TestServiceThatGrantsNothingIsShown: nobody holds, though some wait, and the page says until when and why.
func TestServiceThatGrantsNothingIsShown(t *testing.T) {
	bubble(t, nil, func(p *play) {
		const silence = 10 * time.Second
		p.service.Restart(silence)
		until := time.Now().Add(silence)
		v := p.viewer()
		defer v.leave()
		p.after(5 * time.Second) // for a renewal, and the session after that
		list := v.events()
		store := list[len(list)-1].Stores[0]
		require.Equal(p, "recovering", store.State)
		require.Equal(p, until.UnixMilli(), store.NotBefore)
		require.Equal(p, "the service was restarted", store.Why)
		p.after(silence)
		list = v.events()
		store = list[len(list)-1].Stores[0]
		require.Equal(p, "connected", store.State)
		require.Zero(p, store.NotBefore)
	})
}

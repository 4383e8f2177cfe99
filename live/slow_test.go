//nolint:forbidigo // in a bubble
package live

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

// A site is a View on a server of net/http without any timeout, in a bubble. Its connections are pipes, which keep nothing: a client who
// reads nothing holds up the first byte of an answer.
type site struct {
	*play

	server *http.Server
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	mux    *http.ServeMux
}

func onSite(t *testing.T, o *Options, f func(s *site)) {
	t.Helper()
	bubble(t, o, func(p *play) {
		s := &site{play: p, conns: make(chan net.Conn), closed: make(chan struct{}), mux: http.NewServeMux()}
		s.mux.Handle("/live/", p.view)
		s.server = &http.Server{Handler: s.mux, Protocols: new(http.Protocols)}
		s.server.Protocols.SetHTTP1(true)
		s.server.Protocols.SetUnencryptedHTTP2(true)
		s.server.RegisterOnShutdown(func() { _ = p.view.Close() })
		served := make(chan error)
		go func() { served <- s.server.Serve(s) }() // joined below
		defer func() {
			require.NoError(p, s.server.Close())
			require.ErrorIs(p, <-served, http.ErrServerClosed)
			synctest.Wait()
		}()
		f(s)
	})
}

// Accept implements net.Listener, as do Close and Addr.
func (s *site) Accept() (net.Conn, error) {
	select {
	case conn := <-s.conns:
		return conn, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *site) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (s *site) Addr() net.Addr { return &net.UnixAddr{Name: "bubble", Net: "unix"} }

// A client is one end of a connection. Gone is closed when the server has closed the other.
type client struct {
	net.Conn

	gone chan struct{}
}

// A connection is the server's end.
type connection struct {
	net.Conn

	once sync.Once
	gone chan struct{}
}

func (c *connection) Close() error {
	c.once.Do(func() { close(c.gone) })
	return c.Conn.Close()
}

func (s *site) dial() client {
	one, other := net.Pipe()
	c := client{one, make(chan struct{})}
	s.conns <- &connection{Conn: other, gone: c.gone}
	return c
}

// ask sends a request on a connection of its own, and reads nothing.
func (s *site) ask(request string) client {
	s.Helper()
	c := s.dial()
	_, err := io.WriteString(c, request)
	require.NoError(s, err)
	synctest.Wait()
	return c
}

func (c client) served() bool {
	select {
	case <-c.gone:
		return false
	default:
		return true
	}
}

// get is the text of a request without a body.
func get(what string, header ...string) string {
	return "GET /live/" + what + " HTTP/1.1\r\n" + strings.Join(append(header, "Host: x"), "\r\n") + "\r\n\r\n"
}

// answer reads the head of an answer.
func (s *site) answer(c client) *http.Response {
	s.Helper()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(s, err)
	return response
}

// TestClientWhoReadsNothingIsLetGo, whatever was asked for: 10 seconds later, and not before.
func TestClientWhoReadsNothingIsLetGo(t *testing.T) {
	post := func(what, body string) string {
		return fmt.Sprintf("POST /live/%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s",
			what, len(body), body)
	}
	for _, request := range []string{
		get("snapshot"), get("snapshot?path=/a"), get("events"), get("events", "Accept-Encoding: gzip"), get("history?store=mem&path=/a"),
		get(""), get("live.js"), get("nothing"), post("ask", "store=mem&path=/a"), post("ask", "store=mem"), post("break", "%"),
	} {
		onSite(t, &Options{Allow: func(*http.Request) bool { return true }}, func(s *site) {
			s.lock("a", "/a")
			conn := s.ask(request)
			s.after(writing - time.Second)
			require.True(s, conn.served(), request)
			s.after(2 * time.Second)
			require.False(s, conn.served(), request)
		})
	}
}

// TestStreamThatIsNotReadAnyMoreIsEnded: it was read at first.
func TestStreamThatIsNotReadAnyMoreIsEnded(t *testing.T) {
	onSite(t, nil, func(s *site) {
		s.lock("a", "/a")
		conn := s.ask(get("events"))
		lines := bufio.NewReader(s.answer(conn).Body)
		for range 4 { // two events
			_, err := lines.ReadString('\n')
			require.NoError(s, err)
		}
		s.after(writing + time.Second)
		require.Empty(s, s.view.streams)
	})
}

// TestClientsWhoReadNothingKeepNoPlace: all others are served at once meanwhile, with a snapshot and with a stream.
func TestClientsWhoReadNothingKeepNoPlace(t *testing.T) {
	onSite(t, nil, func(s *site) {
		for i := range 60 { // more than a server keeps for a client whom it cannot write to
			s.lock("a", fmt.Sprint("/", i))
		}
		for range 2 * mostViewers {
			s.ask(get("snapshot"))
		}
		begun := time.Now()
		require.Equal(s, http.StatusOK, s.answer(s.ask(get("snapshot"))).StatusCode)
		stream := s.ask(get("events"))
		require.Equal(s, http.StatusOK, s.answer(stream).StatusCode)
		require.Equal(s, begun, time.Now())
		require.NoError(s, stream.Close())
		s.after(time.Second)
	})
}

// TestPlacesGoRound: a client whose system accepts what it is sent keeps no place for ever from others, whether it
// reads or not. A stream that has been there for a minute gives way to a newcomer, the oldest first.
func TestPlacesGoRound(t *testing.T) {
	onSite(t, nil, func(s *site) {
		s.lock("a", "/a")
		accept := func() (ended chan struct{}) {
			response := s.answer(s.ask(get("events")))
			require.Equal(s, http.StatusOK, response.StatusCode)
			ended = make(chan struct{})
			go func() { // ends with the server
				defer close(ended)
				_, _ = io.Copy(io.Discard, response.Body)
			}()
			return ended
		}
		var streams []chan struct{}
		for range mostViewers {
			streams = append(streams, accept())
			s.after(time.Millisecond)
		}
		s.after(time.Minute - time.Second)
		require.Equal(s, http.StatusServiceUnavailable, s.answer(s.ask(get("events"))).StatusCode, "each has a minute")
		s.after(time.Second)
		for i := range 3 {
			streams = append(streams, accept())
			synctest.Wait()
			for j, ended := range streams {
				select {
				case <-ended:
					require.LessOrEqual(s, j, i)
				default:
					require.Greater(s, j, i)
				}
			}
		}
		require.Len(s, s.view.streams, mostViewers)
	})
}

// TestShutdownWaitsForNoReader longer than for an answer, whose client reads nothing.
func TestShutdownWaitsForNoReader(t *testing.T) {
	for _, what := range []string{"snapshot", "events", "live.js"} {
		onSite(t, nil, func(s *site) {
			s.lock("a", "/a")
			s.ask(get(what))
			s.after(time.Second)
			begun := time.Now()
			ctx, cancel := context.WithTimeout(s.Context(), time.Hour)
			defer cancel()
			require.NoError(s, s.server.Shutdown(ctx))
			require.LessOrEqual(s, time.Since(begun), writing, what) // Shutdown looks twice a second
		})
	}
}

// TestSlowBodyIsNotAwaited longer than for a form that comes. A GET has none, and holds no place of a stream meanwhile.
func TestSlowBodyIsNotAwaited(t *testing.T) {
	const body = "Host: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nstore="
	may := true
	onSite(t, &Options{Allow: func(*http.Request) bool { return may }}, func(s *site) {
		for _, may = range []bool{true, false} {
			conn := s.ask("POST /live/ask HTTP/1.1\r\n" + body)
			begun := time.Now()
			code := http.StatusForbidden
			if may {
				code = http.StatusBadRequest
			}
			response := s.answer(conn)
			require.Equal(s, code, response.StatusCode)
			require.True(s, response.Close)
			require.Equal(s, reading, time.Since(begun))
			s.after(time.Second)
			require.False(s, conn.served())
		}
		for _, what := range []string{"events", "snapshot", "live.js"} {
			conn := s.ask("GET /live/" + what + " HTTP/1.1\r\n" + body)
			begun := time.Now()
			require.Equal(s, http.StatusBadRequest, s.answer(conn).StatusCode, what)
			require.Equal(s, begun, time.Now(), what)
			require.Zero(s, s.view.viewers, what)
			s.after(reading + time.Second)
			require.False(s, conn.served(), what)
		}
	})
}

// TestAnswerThatTakesLongIsNotCutOff: its time begins when there is something to accept. What others serve on the same connection has none.
func TestAnswerThatTakesLongIsNotCutOff(t *testing.T) {
	onSite(t, &Options{Allow: func(*http.Request) bool { return true }}, func(s *site) {
		s.mux.HandleFunc("/other", func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Minute)
			_, _ = io.WriteString(w, "other")
		})
		for i := range 12 {
			for _, path := range []string{"/all", fmt.Sprint("/", i)} {
				_, err := farsync.NewSemaphore(s.client(fmt.Sprint(i)), path, 12).Acquire(s.Context(), 1)
				require.NoError(s, err)
			}
		}
		s.service.SetLatency(450 * time.Millisecond) // each way; a survey asks for the size of each semaphore
		conn := s.ask(get("snapshot"))
		begun := time.Now()
		response := s.answer(conn)
		require.Equal(s, http.StatusOK, response.StatusCode)
		_, err := io.Copy(io.Discard, response.Body)
		require.NoError(s, err)
		require.Greater(s, time.Since(begun), writing, "or the test shows nothing")

		form := "store=mem&path=/all" // each holder is asked
		_, err = fmt.Fprintf(conn, "POST /live/ask HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(form), form)
		require.NoError(s, err)
		begun = time.Now()
		require.Equal(s, http.StatusNoContent, s.answer(conn).StatusCode)
		require.Greater(s, time.Since(begun), writing, "or the test shows nothing")
		_, err = io.WriteString(conn, "GET /other HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(s, err)
		response = s.answer(conn)
		require.Equal(s, http.StatusOK, response.StatusCode)
		text, err := io.ReadAll(response.Body)
		require.NoError(s, err)
		require.Equal(s, "other", string(text))

		two := &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) { return s.dial(), nil }, Protocols: new(http.Protocols),
		}
		two.Protocols.SetUnencryptedHTTP2(true)
		defer two.CloseIdleConnections()
		begun = time.Now()
		request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "http://x/live/snapshot", http.NoBody)
		require.NoError(s, err)
		response, err = two.RoundTrip(request)
		require.NoError(s, err)
		require.Equal(s, 2, response.ProtoMajor)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(s, err)
		require.Greater(s, time.Since(begun), writing, "or the test shows nothing")
	})
}

// TestCompressedStreamIsOneFile of gzip, from the first message to its end, though each message was compressed by itself.
func TestCompressedStreamIsOneFile(t *testing.T) {
	onSite(t, nil, func(s *site) {
		read := func(conn client, zipped bool) (text string, all error) {
			body := io.Reader(s.answer(conn).Body)
			if zipped {
				zip, err := gzip.NewReader(body)
				require.NoError(s, err)
				zip.Multistream(false)
				body = zip
			}
			got, err := io.ReadAll(body)
			return string(got), err
		}
		type result struct {
			text string
			err  error
		}
		results := [2]chan result{make(chan result, 1), make(chan result, 1)}
		for i, header := range [][]string{nil, {"Accept-Encoding: gzip"}} {
			conn := s.ask(get("events", header...))
			go func() { // joined below
				text, err := read(conn, header != nil)
				results[i] <- result{text, err}
			}()
		}
		for i := range 5 {
			s.lock("holder "+strings.Repeat("é", i), fmt.Sprint("/", i))
			s.after(time.Second)
		}
		require.NoError(s, s.view.Close())
		plain, zipped := <-results[0], <-results[1]
		require.NoError(s, plain.err)
		require.NoError(s, zipped.err)
		require.Equal(s, plain.text, zipped.text)
		require.Equal(s, 7, strings.Count(plain.text, "\n\n"), "hello, all, and some for each lock")
	})
}

// TestViewersShareWhatTheyAreSent: a thousand who ask for everything have it made once.
func TestViewersShareWhatTheyAreSent(t *testing.T) {
	var list []farsync.LockInfo
	for i := range 1000 {
		list = append(list, farsync.LockInfo{Path: fmt.Sprintf("/jobs/%08d", i), Participants: make([]farsync.Participant, 5)})
	}
	list = append(list, farsync.LockInfo{Path: "/crowd", Participants: make([]farsync.Participant, 5000)})
	v := New(nil)
	store := farsynctest.NewMem().Open(nil)
	defer store.Close()
	v.Add("etcd", store)
	f := v.frame(time.Now(), time.Second, []sight{{source: v.sources[0], locks: list}})
	v.show(f, time.Now().Add(time.Hour))
	v.viewers = 1 // without a poller
	ask := func(what, encoding string) (size int) {
		w := &counter{header: http.Header{}}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // a stream ends when all is sent: there is something to show before that
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/"+what, http.NoBody)
		r.Header.Set("Accept-Encoding", encoding)
		v.ServeHTTP(w, r)
		return w.size
	}
	for _, c := range []struct {
		what, encoding string
		least          int
	}{{"snapshot", "", 500_000}, {"snapshot?path=/crowd", "", 300_000}, {"events", "", 300_000}, {"events", "gzip", 1}} {
		size := ask(c.what, c.encoding)
		require.Greater(t, size, c.least, c.what)
		const times = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range times {
			require.Equal(t, size, ask(c.what, c.encoding), c.what)
		}
		runtime.ReadMemStats(&after)
		each := (after.TotalAlloc - before.TotalAlloc) / times
		t.Logf("%s %s: %d bytes, %d for each client", c.what, c.encoding, size, each)
		require.Less(t, each, uint64(20_000), c.what)
	}
}

// A counter counts what is written.
type counter struct {
	header http.Header
	size   int
}

func (c *counter) Header() http.Header { return c.header }
func (c *counter) WriteHeader(int)     {}
func (c *counter) Flush()              {}

func (c *counter) Write(text []byte) (int, error) {
	c.size += len(text)
	return len(text), nil
}

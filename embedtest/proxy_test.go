//go:build unix

package embedtest_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

func TestProxyPassesBothDirections(t *testing.T) {
	defer func() { require.NoError(t, locktest.Leaks()) }()
	t.Run("", func(t *testing.T) {
		server := newEcho(t)
		client := connect(t, embedtest.NewProxy(t, server.addr))
		client.send("hello")
		require.Equal(t, "hello", client.line())
	})
}

func TestProxyPassesAnOrderlyEnd(t *testing.T) {
	server := newEcho(t)
	client := connect(t, embedtest.NewProxy(t, server.addr))
	client.send("last")
	require.NoError(t, client.CloseWrite())
	require.Equal(t, "last", client.line())
	require.ErrorIs(t, client.failure(), io.EOF)
}

func TestProxyRefusesWhenTheServerDoes(t *testing.T) {
	// Nobody listens at that port, and no program is given it which asks for any.
	conn, err := net.Dial("tcp", embedtest.NewProxy(t, "127.0.0.1:1").Addr())
	if err == nil { // the reset may be quicker than the dial
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestCutHoldsBothDirectionsUntilHeal(t *testing.T) {
	server := newEcho(t)
	proxy := embedtest.NewProxy(t, "http://"+server.addr)
	client := connect(t, proxy)
	client.send("before")
	require.Equal(t, "before", client.line())

	proxy.Cut()
	client.send("during")
	late := connect(t, proxy)
	late.send("late")
	client.silent()
	late.silent()
	require.Equal(t, []string{"before"}, server.heard())

	proxy.Heal()
	require.Equal(t, "during", client.line())
	require.Equal(t, "late", late.line())
}

func TestCutRepliesLetsRequestsThrough(t *testing.T) {
	server := newEcho(t)
	proxy := embedtest.NewProxy(t, server.addr)
	client := connect(t, proxy)
	proxy.CutReplies()
	client.send("request")
	server.await("request")
	client.silent()
	proxy.Heal()
	require.Equal(t, "request", client.line())
}

func TestCutRequestsLetsRepliesThrough(t *testing.T) {
	server := newEcho(t)
	proxy := embedtest.NewProxy(t, server.addr)
	client := connect(t, proxy)
	client.send("first")
	require.Equal(t, "first", client.line())
	proxy.CutRequests()
	client.send("second")
	server.say("news")
	require.Equal(t, "news", client.line())
	client.silent()
	require.Equal(t, []string{"first"}, server.heard())
	proxy.Heal()
	require.Equal(t, "second", client.line())
}

func TestResetDropsWhatWasHeldBack(t *testing.T) {
	server := newEcho(t)
	proxy := embedtest.NewProxy(t, server.addr)
	client := connect(t, proxy)
	client.send("before")
	require.Equal(t, "before", client.line())
	proxy.Cut()
	client.send("lost")
	client.silent()
	proxy.Reset()
	require.ErrorIs(t, client.failure(), syscall.ECONNRESET)

	proxy.Heal()
	again := connect(t, proxy)
	again.send("after")
	require.Equal(t, "after", again.line())
	require.Equal(t, []string{"before", "after"}, server.heard())
}

// Once the server has heard of one byte after Cut has returned, Cut has broken its promise. The sender fills every
// buffer on the way, so the cut falls into a write that waits for the receiver.
func TestNothingPassesAfterCutHasReturned(t *testing.T) {
	suite.Long(t, suite.Etcd, "fills all buffers in a fifth of a second")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	proxy := embedtest.NewProxy(t, listener.Addr().String())
	client := connect(t, proxy)
	server, err := listener.Accept()
	require.NoError(t, err)
	defer server.Close()

	sent := make(chan int64, 1)
	go func() { // joined through sent
		_ = client.SetWriteDeadline(time.Now().Add(brief))
		n, _ := io.Copy(client.TCPConn, endless{})
		sent <- n
	}()
	n := <-sent
	require.Positive(t, n)
	proxy.Cut()
	drain := func() (total int) {
		buffer := make([]byte, 64<<10)
		for {
			_ = server.SetReadDeadline(time.Now().Add(brief))
			n, err := server.Read(buffer)
			total += n
			if err != nil {
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				return total
			}
		}
	}
	first := drain() // what the kernel had taken from the proxy before
	require.Zero(t, drain())
	require.Less(t, int64(first), n)
	proxy.Heal()
	require.Equal(t, n, int64(first+drain()), "TCP loses nothing")
}

func TestProxyCutsEtcdOff(t *testing.T) {
	suite.Long(t, suite.Etcd, "cuts the server off, and resets its connections")
	server := embedtest.Etcd(t)
	proxy := embedtest.NewProxy(t, server.Endpoint())
	client := dial(t, proxy.Addr())
	put(t, client, "key", "value")
	proxy.Cut()
	require.Error(t, ping(t, client, brief))
	proxy.Heal()
	require.NoError(t, ping(t, client, soon))
	proxy.CutReplies()
	require.Error(t, ping(t, client, brief))
	proxy.Reset()
	proxy.Heal()
	require.Equal(t, "value", get(t, client, "key"))
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A client speaks lines.
type client struct {
	*net.TCPConn
	t      *testing.T
	reader *bufio.Reader
}

func connect(t *testing.T, proxy *embedtest.Proxy) *client {
	conn, err := net.Dial("tcp", proxy.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &client{conn.(*net.TCPConn), t, bufio.NewReader(conn)}
}

func (c *client) send(line string) {
	_, err := io.WriteString(c, line+"\n")
	require.NoError(c.t, err)
}

func (c *client) line() string {
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(soon)))
	line, err := c.reader.ReadString('\n')
	require.NoError(c.t, err)
	return strings.TrimSuffix(line, "\n")
}

func (c *client) silent() {
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(brief)))
	_, err := c.reader.Peek(1)
	require.ErrorIs(c.t, err, os.ErrDeadlineExceeded)
}

func (c *client) failure() error {
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(soon)))
	_, err := c.reader.ReadByte()
	require.NotErrorIs(c.t, err, os.ErrDeadlineExceeded, "the connection is still open")
	return err
}

// An echo is a server that sends every line back.
type echo struct {
	t      *testing.T
	addr   string
	events chan any // string: a line; net.Conn: a new connection
	lines  []string
	last   net.Conn
}

func newEcho(t *testing.T) *echo {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &echo{t: t, addr: listener.Addr().String(), events: make(chan any, 100)}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	go func() { // joined in cleanup
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			e.events <- conn
			go func() { // ends when the proxy is closed, which every test does
				defer conn.Close()
				for scanner := bufio.NewScanner(conn); scanner.Scan(); {
					e.events <- scanner.Text()
					_, _ = io.WriteString(conn, scanner.Text()+"\n")
				}
			}()
		}
	}()
	return e
}

func (e *echo) take(event any) {
	switch event := event.(type) {
	case string:
		e.lines = append(e.lines, event)
	case net.Conn:
		e.last = event
	}
}

func (e *echo) heard() []string {
	for {
		select {
		case event := <-e.events:
			e.take(event)
		default:
			return e.lines
		}
	}
}

func (e *echo) await(line string) {
	for len(e.lines) == 0 || e.lines[len(e.lines)-1] != line {
		e.take(<-e.events)
	}
}

func (e *echo) say(line string) {
	e.heard()
	_, err := io.WriteString(e.last, line+"\n")
	require.NoError(e.t, err)
}

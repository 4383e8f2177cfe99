package zk

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/locktest"
)

// TestFailedWriteOfCredentialsIsSurvived: they are repeated on every connection. The server does nothing but answer: the fault
// is on this side of the network.
func TestFailedWriteOfCredentialsIsSurvived(t *testing.T) {
	address := newAnswering(t)
	var broken atomic.Int32 // SetAuths that are not to be written
	var current atomic.Pointer[flaky]
	w := newWire(10*time.Second, 0, func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		f := &flaky{conn, func(p []byte) bool {
			return len(p) > 12 && binary.BigEndian.Uint32(p[8:]) == opSetAuth && broken.Add(-1) >= 0
		}}
		current.Store(f)
		return f, nil
	})
	s := (&service{
		servers: []string{address}, log: slog.New(slog.DiscardHandler), digest: &Digest{"user", "password"},
	}).connect(w)
	t.Cleanup(s.Drop)
	require.NoError(t, s.Renew(t.Context(), nil))
	for range 3 {
		broken.Store(1)
		require.NoError(t, current.Load().Close())
		require.Eventually(t, func() bool { return s.Renew(t.Context(), nil) == nil }, time.Minute, time.Millisecond)
		require.Negative(t, broken.Load(), "written on another connection")
	}
}

// TestBeforeConnectIsAskedForEachConnection: a session keeps the password with which it was opened, for with another it would be another user's,
// and the next session has the password of the moment. Where BeforeConnect fails the connection is made later.
func TestBeforeConnectIsAskedForEachConnection(t *testing.T) {
	address := newAnswering(t)
	var asked, failing atomic.Int32
	var mu sync.Mutex
	var sent []string // credentials
	var current net.Conn
	of := &service{
		servers: []string{address}, log: slog.New(slog.DiscardHandler), digest: &Digest{"user", "0"},
		before: func(_ context.Context, o *Options) error {
			n := asked.Add(1)
			if o.Digest.Password != "0" || o.TLS != nil {
				return errors.New("these are not copies of the options")
			}
			if o.Digest.User, o.Digest.Password = "other", strconv.Itoa(int(n)); failing.Add(-1) >= 0 {
				return errors.New("no password yet")
			}
			return nil
		},
	}
	open := func() *session {
		s := of.connect(newWire(10*time.Second, 0, func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			mu.Lock()
			defer mu.Unlock()
			current = &flaky{conn, func(p []byte) bool {
				if len(p) > 12 && binary.BigEndian.Uint32(p[8:]) == opSetAuth {
					mu.Lock()
					defer mu.Unlock()
					_, user, _ := strings.Cut(string(p), "digest")
					sent = append(sent, user[4:])
				}
				return false
			}}
			return current, err
		}))
		t.Cleanup(s.Drop)
		require.NoError(t, s.Renew(t.Context(), nil))
		return s
	}
	s := open()
	failing.Store(2)
	mu.Lock()
	require.NoError(t, current.Close())
	mu.Unlock()
	require.Eventually(t, func() bool { return s.Renew(t.Context(), nil) == nil }, time.Minute, time.Millisecond)
	require.EqualValues(t, 4, asked.Load())
	open()
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{"user:1", "user:1", "user:5"}, sent)
	require.Equal(t, "0", of.digest.Password)
}

// TestBeforeConnectThatBlocks is as a server that does not answer, and so is one that panics: the session is dropped all
// the same.
func TestBeforeConnectThatBlocks(t *testing.T) {
	var current atomic.Pointer[net.Conn]
	var panics, blocks atomic.Bool
	stands, goes := make(chan struct{}, 1), make(chan struct{})
	defer close(goes)
	s := (&service{
		servers: []string{newAnswering(t)}, log: slog.New(slog.DiscardHandler),
		before: func(context.Context, *Options) error {
			if panics.Swap(false) {
				panic("a bug")
			}
			if blocks.Load() {
				stands <- struct{}{}
				<-goes
			}
			return nil
		},
	}).connect(newWire(10*time.Second, 0, func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		current.Store(&conn)
		return conn, err
	}))
	require.NoError(t, s.Renew(t.Context(), nil))
	panics.Store(true)
	require.NoError(t, (*current.Load()).Close())
	require.Eventually(t, func() bool { return !panics.Load() && s.Renew(t.Context(), nil) == nil }, time.Minute, time.Millisecond)
	blocks.Store(true)
	require.NoError(t, (*current.Load()).Close())
	<-stands
	drops(t, s)
}

// drops drops a session, which has to return.
func drops(t *testing.T, s *session) {
	t.Helper()
	require.NoError(t, locktest.Returns(t, locktest.Soon, "Drop", func() error { s.Drop(); return nil }))
}

// TestTLSFunctionsKeepNobody: a function of the TLS configuration, whether that is of the options or set by BeforeConnect, that blocks, panics or
// ends its goroutine is as a server that does not answer. The session is dropped all the same, and renewed if the function returns again.
func TestTLSFunctionsKeepNobody(t *testing.T) {
	authority := locktest.NewAuthority(t)
	front := locktest.TLSFront(t, newAnswering(t), &tls.Config{Certificates: []tls.Certificate{authority.Issue(t, "localhost", time.Hour)}})
	_, port, err := net.SplitHostPort(front)
	require.NoError(t, err)
	goes := make(chan struct{})
	defer close(goes)
	for does, what := range map[string]func(){
		"blocks":             func() { <-goes },
		"panics":             func() { panic("a bug") },
		"ends its goroutine": runtime.Goexit,
	} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprint(does, ", set by BeforeConnect: ", before), func(t *testing.T) {
				var armed atomic.Bool
				called := make(chan struct{}, 100)
				config := &tls.Config{RootCAs: authority.Pool(), VerifyConnection: func(tls.ConnectionState) error {
					if armed.Load() {
						called <- struct{}{}
						what()
					}
					return nil
				}}
				of := &service{servers: []string{"localhost:" + port}, log: slog.New(slog.DiscardHandler), tls: config}
				if before {
					of.tls = &tls.Config{}
					of.before = func(_ context.Context, o *Options) error { o.TLS = config; return nil }
				}
				s := of.connect(of.wire(10 * time.Second))
				require.NoError(t, s.Renew(t.Context(), nil))
				breaks := func() {
					s.mu.Lock()
					defer s.mu.Unlock()
					_ = s.on.Close()
				}
				armed.Store(true)
				breaks()
				<-called
				armed.Store(false)
				for len(called) > 0 { // of another attempt meanwhile
					<-called
				}
				require.Eventually(t, func() bool { return s.Renew(t.Context(), nil) == nil }, time.Minute, time.Millisecond)
				armed.Store(true)
				breaks()
				<-called
				drops(t, s)
			})
		}
	}
}

// flaky is a connection that fails to write what it is told to.
type flaky struct {
	net.Conn
	fails func(p []byte) bool
}

func (f *flaky) Write(p []byte) (int, error) {
	if f.fails(p) {
		return 0, errors.New("broken pipe")
	}
	return f.Conn.Write(p)
}

// newAnswering returns the address of a server that has one session, and answers handshakes, SetAuths and Syncs in it
// until t ends.
func newAnswering(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { // ends with the client's end
				defer conn.Close()
				_ = respond(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
	})
	return listener.Addr().String()
}

// respond answers what comes on a connection, until it breaks.
func respond(conn net.Conn) error {
	answer := numbers(0, 10_000, 0, 7, 16, 0, 0, 0, 0) // version, timeout, session, password
	for zxid := uint32(1); ; zxid++ {
		length := make([]byte, 4)
		if _, err := io.ReadFull(conn, length); err != nil {
			return err
		}
		request := make([]byte, binary.BigEndian.Uint32(length))
		if _, err := io.ReadFull(conn, request); err != nil {
			return err
		}
		if answer == nil { // of a header, and of the path of a Sync
			answer = append(answer, request[:4]...)
			answer = append(answer, numbers(0, zxid, 0)...)
			if binary.BigEndian.Uint32(request[4:]) == opSync {
				answer = append(answer, request[8:]...)
			}
		}
		if _, err := conn.Write(append(numbers(uint32(len(answer))), answer...)); err != nil {
			return err
		}
		answer = nil
	}
}

// TestPatienceIsBounded has a timeout that no server grants: until one has been granted, what was asked for is all
// there is to go by. After that a sixth of it leaves time for another server, and a handshake of TLS, of several round trips
// that may be long, has a second.
func TestPatienceIsBounded(t *testing.T) {
	for asked, patience := range map[time.Duration]time.Duration{
		time.Millisecond: time.Second, 12 * time.Second: 2 * time.Second, 24 * 24 * time.Hour: openFor,
	} {
		require.Equal(t, patience, newWire(asked, 0, nil).patience())
	}
	for _, row := range []struct {
		tls               *tls.Config
		granted, patience time.Duration
	}{
		{nil, 3 * time.Second, time.Second / 2},
		{nil, 300 * time.Millisecond, 100 * time.Millisecond},
		{&tls.Config{}, 3 * time.Second, time.Second},
		{&tls.Config{}, 12 * time.Second, 2 * time.Second},
	} {
		w := (&service{tls: row.tls}).wire(time.Minute)
		require.NoError(t, w.connected(7, row.granted, time.Now()))
		require.Equal(t, row.patience, w.patience())
	}
}

// TestSessionThatAnotherServerShortensIsLost: the deadline counts on the timeout that was granted first. And a session that
// another server knows by another name is not this one.
func TestSessionThatAnotherServerShortensIsLost(t *testing.T) {
	for _, row := range []struct {
		id      int64
		timeout time.Duration
		want    error
	}{
		{7, 3 * time.Second, nil}, {7, 4 * time.Second, nil}, {7, 2 * time.Second, errShortened}, {8, 3 * time.Second, errSecondSession},
		{0, 0, errExpired},
	} {
		w := newWire(time.Second, 0, nil)
		require.NoError(t, w.connected(7, 3*time.Second, time.Now()))
		_ = w.connected(row.id, row.timeout, time.Now())
		require.Equal(t, row.want, context.Cause(w.life))
	}
}

package zk

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// TestFailedWriteOfCredentialsIsSurvived: the client library repeats them on every connection, and if it cannot
// write them it answers a channel that has no more room, for good. The server does nothing but answer: the fault is on
// this side of the network.
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
	conn, events, err := client.Connect([]string{address}, 10*time.Second, client.WithDialer(w.dial),
		client.WithHostProvider(&hosts{wire: w}), client.WithLogInfo(false), client.WithLogger(logger{slog.New(slog.DiscardHandler)}))
	require.NoError(t, err)
	s := newSession(&service{}, w, conn, events)
	t.Cleanup(s.Drop)
	require.NoError(t, conn.AddAuth("digest", []byte("user:password")))
	for range 3 {
		broken.Store(1)
		require.NoError(t, current.Load().Close())
		require.Eventually(t, func() bool { return s.Renew(t.Context(), nil) == nil }, 30*time.Second, time.Millisecond)
		require.Negative(t, broken.Load(), "written on another connection")
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
				_ = answer(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
	})
	return listener.Addr().String()
}

// answer answers what comes on a connection, until it breaks.
func answer(conn net.Conn) error {
	reply := numbers(0, 10_000, 0, 7, 16, 0, 0, 0, 0) // version, timeout, session, password
	for zxid := uint32(1); ; zxid++ {
		length := make([]byte, 4)
		if _, err := io.ReadFull(conn, length); err != nil {
			return err
		}
		request := make([]byte, binary.BigEndian.Uint32(length))
		if _, err := io.ReadFull(conn, request); err != nil {
			return err
		}
		if reply == nil { // of a header, and of the path of a Sync
			reply = append(reply, request[:4]...)
			reply = append(reply, numbers(0, zxid, 0)...)
			if binary.BigEndian.Uint32(request[4:]) == opSync {
				reply = append(reply, request[8:]...)
			}
		}
		if _, err := conn.Write(append(numbers(uint32(len(reply))), reply...)); err != nil {
			return err
		}
		reply = nil
	}
}

// TestPatienceIsBounded has a timeout that no server grants: until one has been granted, what was asked for is all
// there is to go by.
func TestPatienceIsBounded(t *testing.T) {
	for asked, patience := range map[time.Duration]time.Duration{
		time.Millisecond: time.Second, 12 * time.Second: 2 * time.Second, 24 * 24 * time.Hour: openFor,
	} {
		require.Equal(t, patience, newWire(asked, 0, nil).patience())
	}
}
